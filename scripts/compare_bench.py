#!/usr/bin/env python3
"""Measures what docs/performance.md tells: ours beside another build of ours and ns-3, in turns, on a quiet machine.

usage: scripts/compare_bench.py [--ours BINARY] [--other BINARY | --against COMMIT] [--ns3 SCRIPT]
                                [--parts PART,...] [--cases CASE,...] [--rounds N] [--csv FILE] [--plot FILE]

  --ours      what is measured (target/release/ackwright, as `make` builds it)
  --other     what it is compared with
  --against   the same, built of that commit with its own profile in a work tree of its own (about five minutes)
  --ns3       a script that runs the case of its argument twice, first with `hops=N`, then with `run_cpu=SECONDS`
  --parts     of speed, run, threads, growth (all)
  --csv       the figures of growth as CSV, --plot as SVG

  speed       hops per CPU second of each case, ours and the other's in turns, and of c-10000 over a
  run         hops per CPU second of the whole process: `run` of 20 simulated seconds with its plots, over `bench`
  threads     hops per second on the wall with two threads, over one
  growth      nanoseconds of CPU a hop and memory, from 10 to 100,000 flows

Of each figure the median of N rounds is shown; a ratio is the median of the ratios of one round, whose two runs
follow each other. With three rounds all parts take about 25 minutes on two quiet cores.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

SPEED = ["a", "b", "d-10", "d-1000", "c-100", "c-1000", "c-10000", "ft-4", "ft-8", "ft-16"]
GROWTH = [("a", 10), ("c-100", 100), ("c-1000", 1_000), ("c-10000", 10_000), ("c-100000", 100_000)]
RUN = ["a", "c-1000"]
RUN_SECONDS = 20
THREADS = ["c-1000", "c-10000", "ft-8"]
# Links that a segment crosses in the cases of RUN, and its payload.
LINKS, PAYLOAD = 3, 1448


def bench(binary, case, threads=None):
    """One run of a case: its JSON, with the CPU seconds of the whole process; nothing if it does not know the case."""
    words = [binary, "bench", "--here", case]
    if threads:
        words += ["--threads", str(threads)]
    text, code, cpu = process(words)
    return dict(json.loads(text), process_seconds=cpu) if code == 0 else None


def process(words):
    """Output, exit code and CPU seconds of a process."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        text = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return text, child.returncode, usage.ru_utime + usage.ru_stime


def median(values):
    return statistics.median(values) if values else float("nan")


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(title, *cells):
    print(f"\n{title}\n")
    row(*cells)
    row(*["---"] + ["---:"] * (len(cells) - 1))


def speed(args):
    """Returns our hops per CPU second by case."""
    head("Hops per CPU second, in millions", "case", "other", "ours", "ratio", "MB other", "MB ours")
    ours_by_case, rounds_of = {}, {case: ([], []) for case in args.cases or SPEED}
    for number in range(args.rounds):
        for case, (ours, others) in rounds_of.items():
            # Who begins changes from round to round.
            for binary in (args.ours, args.other)[::1 if number % 2 else -1]:
                if binary:
                    (ours if binary == args.ours else others).append(bench(binary, case))
    for case, (ours, others) in rounds_of.items():
        value = lambda run, key: run[key] if run else float("nan")
        rate = lambda runs: median([value(run, "hops_per_cpu_second") for run in runs])
        size = lambda runs: max([value(run, "peak_rss_bytes") for run in runs], default=float("nan")) / 1e6
        ratios = [value(one, "hops_per_cpu_second") / value(other, "hops_per_cpu_second")
                  for one, other in zip(ours, others)]
        ours_by_case[case] = [value(run, "hops_per_cpu_second") for run in ours]
        row(case, f"{rate(others) / 1e6:.2f}", f"{rate(ours) / 1e6:.2f}", f"{median(ratios):.2f}",
            f"{size(others):.0f}", f"{size(ours):.0f}")
    if {"a", "c-10000"} <= ours_by_case.keys():
        ratios = [large / small for large, small in zip(ours_by_case["c-10000"], ours_by_case["a"])]
        print(f"\nc-10000 over a: {median(ratios):.2f}")
    return ours_by_case


def run_over_bench(args):
    head(f"`run` of {RUN_SECONDS} simulated seconds over `bench`, hops per CPU second of the whole process",
         "case", "bench [M]", "run [M]", "ratio")
    # What is written stays to the end: ext4 takes longer for new files while others have just been deleted.
    with tempfile.TemporaryDirectory() as results:
        for case in RUN:
            benches, runs = [], []
            for _ in range(args.rounds):
                one = bench(args.ours, case)
                benches.append(one["hops"] / one["process_seconds"])
                runs.append(run_rate(args.ours, case, results))
            ratios = [one / other for one, other in zip(runs, benches)]
            row(case, f"{median(benches) / 1e6:.2f}", f"{median(runs) / 1e6:.2f}", f"{median(ratios):.2f}")


def run_rate(binary, case, results):
    """Hops per CPU second of `run`, which writes below the folder `results`: what was received has crossed three links."""
    text, _, _ = process([binary, "bench", case, "--print-toml"])
    duration = re.sub(r'(?m)^duration = .*', f'duration = "{RUN_SECONDS}s"', text.decode())
    folder = tempfile.mkdtemp(dir=results)
    file = os.path.join(folder, f"{case}.toml")
    with open(file, "w", encoding="utf-8") as out:
        out.write(duration)
    words = [binary, "run", file, "--jobs", "1", "--threads", "1", "--json", "--out", folder + "/out"]
    text, code, cpu = process(words)
    if code:
        sys.exit(f"`{' '.join(words)}` failed")
    metrics = json.loads(text)["points"][0]["metrics"]
    [mbit] = [one["mean"] for one in metrics if (one["scope"], one["metric"]) == ("total", "goodput")]
    return LINKS * mbit * 1e6 * RUN_SECONDS / 8 / PAYLOAD / cpu


def threads(args):
    head("Hops per second on the wall, in millions", "case", "1 thread", "2 threads", "ratio", "CPU")
    for case in args.cases or THREADS:
        ones, twos = [], []
        for _ in range(args.rounds):
            ones.append(bench(args.ours, case, 1))
            twos.append(bench(args.ours, case, 2))
        wall = lambda run: run["hops_per_wall_second"]
        ratios = [wall(two) / wall(one) for one, two in zip(ones, twos)]
        cpu = median([two["cpu_seconds"] / one["cpu_seconds"] for one, two in zip(ones, twos)])
        row(case, f"{median([wall(one) for one in ones]) / 1e6:.2f}",
            f"{median([wall(two) for two in twos]) / 1e6:.2f}", f"{median(ratios):.2f}", f"{cpu:.2f}")


def growth(args):
    head("How cost grows", "case", "flows", "ns a hop", "MB", "KB a flow")
    figures = []
    for case, flows in GROWTH:
        runs = [bench(args.ours, case) for _ in range(1 if flows > 10_000 else args.rounds)]
        nanos = median([1e9 / run["hops_per_cpu_second"] for run in runs])
        peak = max(run["peak_rss_bytes"] for run in runs)
        figures.append((flows, nanos, peak / 1e6))
        row(case, flows, f"{nanos:.0f}", f"{peak / 1e6:.0f}", f"{peak / 1e3 / flows:.1f}")
    if args.csv:
        with open(args.csv, "w", encoding="utf-8") as out:
            out.write("flows,ns_per_hop,megabytes\n")
            out.writelines(f"{flows},{nanos:.1f},{size:.1f}\n" for flows, nanos, size in figures)
    if args.plot:
        with open(args.plot, "w", encoding="utf-8") as out:
            out.write(svg(figures))


def svg(figures):
    """Two panels over the number of flows: nanoseconds a hop, and memory on a logarithmic scale."""
    width, height, left, top = 300, 200, 60, 30
    tens = [10 ** power for power in range(1, 6)]
    x = lambda flows, panel: left + panel * (width + 90) + width * (len(str(flows)) - 2) / 4
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="800" height="290" font-family="sans-serif" '
             'font-size="12"><rect width="800" height="290" fill="white"/>']
    most = max(nanos for _, nanos, _ in figures) * 1.1
    logs = lambda size: max(0.0, (len(f"{int(size)}") - 1) + (size / 10 ** (len(f"{int(size)}") - 1) - 1) / 9)
    panels = [("ns of CPU a hop", lambda one: one[1] / most, [(value, value / most, f"{value:.0f}")
                                                               for value in (most / 4, most / 2, most * 3 / 4)]),
              ("memory, MB", lambda one: logs(one[2]) / 4, [(value, logs(value) / 4, str(value))
                                                            for value in (10, 100, 1_000)])]
    for panel, (title, share, ticks) in enumerate(panels):
        x0, y0 = x(10, panel), top + height
        parts.append(f'<text x="{x0}" y="{top - 10}">{title}</text>'
                     f'<path d="M{x0} {top}V{y0}H{x0 + width}" fill="none" stroke="#444"/>')
        for flows in tens:
            parts.append(f'<text x="{x(flows, panel)}" y="{y0 + 16}" text-anchor="middle">{flows:,}</text>')
        for _, at, text in ticks:
            y = y0 - height * at
            parts.append(f'<path d="M{x0} {y:.1f}H{x0 + width}" stroke="#ddd"/>'
                         f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        points = [(x(one[0], panel), y0 - height * share(one)) for one in figures]
        line = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="#1f77b4" stroke-width="2"/>')
        parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="#1f77b4"/>' for px, py in points]
        parts.append(f'<text x="{x0 + width / 2}" y="{y0 + 34}" text-anchor="middle">flows</text>')
    return "\n".join(parts) + "\n</svg>\n"


def ns3(args):
    """Ours over ns-3 on `a`, in turns."""
    head("`a` beside ns-3, hops per CPU second", "ns-3 [k]", "ours [M]", "ratio")
    pairs = []
    for _ in range(args.rounds):
        ours = bench(args.ours, "a")["hops_per_cpu_second"]
        text = subprocess.run([args.ns3, "a"], stdout=subprocess.PIPE, check=True, text=True).stdout
        pairs.append((ours, ns3_rate(text)))
    row(f"{median([other for _, other in pairs]) / 1e3:.0f}", f"{median([ours for ours, _ in pairs]) / 1e6:.2f}",
        f"{median([ours / other for ours, other in pairs]):.1f}")


def ns3_rate(text):
    """The hops that the first of its two runs counts, over the CPU seconds of the second, which does not count."""
    hops = [int(number) for number in re.findall(r"\bhops=([0-9]+)", text)]
    times = [float(number) for number in re.findall(r"\brun_cpu=([0-9.]+)", text)]
    if not hops or not times or max(hops) == 0:
        sys.exit(f"no rate in what ns-3 said:\n{text}")
    return max(hops) / times[-1]


def build(commit):
    """The program of a commit, with the profile recorded for it."""
    folder = os.path.join(tempfile.gettempdir(), f"ackwright-{commit}")
    if not os.path.isdir(folder):
        subprocess.run(["git", "worktree", "add", "--detach", folder, commit], check=True)
    wrapper = os.path.join(folder, "profile", "rustc.sh")
    environment = dict(os.environ, RUSTC_WORKSPACE_WRAPPER=wrapper)
    if os.path.exists(os.path.join(folder, ".cargo", "config.toml")):
        # It names the wrapper itself.
        environment.pop("RUSTC_WORKSPACE_WRAPPER")
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "ackwright"], cwd=folder, env=environment, check=True)
    print(f"`git worktree remove --force {folder}` takes it away again", file=sys.stderr)
    return os.path.join(folder, "target", "release", "ackwright")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", default="target/release/ackwright")
    parser.add_argument("--other")
    parser.add_argument("--against", metavar="COMMIT")
    parser.add_argument("--ns3", metavar="SCRIPT")
    parser.add_argument("--parts", default="speed,run,threads,growth")
    parser.add_argument("--cases")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--csv")
    parser.add_argument("--plot")
    args = parser.parse_args()
    args.cases = args.cases.split(",") if args.cases else None
    if args.against:
        args.other = build(args.against)
    known = {"speed": speed, "run": run_over_bench, "threads": threads, "growth": growth}
    wanted = args.parts.split(",")
    if not set(wanted) <= known.keys():
        parser.error(f"--parts knows {', '.join(known)}")
    print(f"load of the machine: {os.getloadavg()[0]:.2f}; it should be below 0.2")
    began = time.monotonic()
    for part in wanted:
        known[part](args)
    if args.ns3:
        ns3(args)
    print(f"\n{time.monotonic() - began:.0f} s; load now: {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
