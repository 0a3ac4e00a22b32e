#!/usr/bin/env python3
"""A fat tree k=8 at 60 % web-search load, beside ns-3 on the same topology with the same flows and ways.

usage: benches/fat_tree_ns3/run.py PROGRAM [MILLISECONDS] [--second]

Runs experiments/fat-tree-web-search.toml for so many milliseconds of virtual time (10), hands its flows and their
ways to ns-3 (Debian's libns3-dev; each switch has a table by flow), and compares the processor time of both,
in one thread each, and the bytes that were delivered. The hosts of the experiment leave cutting and merging to their
cards, as Linux does, which ns-3 has not got; so ours runs a second time without. The programs take turns, and the
median of three is told. With --second the whole second of ours, too, with all processors: minutes. Not part of
`make test`.
"""

import csv
import glob
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
EXPERIMENT = os.path.join(ROOT, "experiments", "fat-tree-web-search.toml")
TURNS = 3
LIBRARIES = ["core", "network", "internet", "point-to-point", "traffic-control", "applications"]


def timed(*command):
    """Runs a command: what it printed, its processor seconds and its wall seconds."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return out, cpu, time.monotonic() - begun


PLAIN = ["--set", "topology.nodes.host-*.offload=off", "--set", "topology.nodes.host-*.gro=false",
         "--set", "topology.nodes.host-*.rx_usecs=0"]


def ours(program, milliseconds, folder, *more):
    """Our run in one thread: its flows, its processor seconds and its wall seconds."""
    _, cpu, wall = timed(program, "run", EXPERIMENT, "--set", f"duration={milliseconds}ms", "--jobs", "1",
                         "--threads", "1", "--set", f"measure.sample={milliseconds}ms", *more, "--out", folder, "--json")
    return flows_of(folder), cpu, wall


def flows_of(folder):
    """The flows of a run: rows of its table."""
    [path] = glob.glob(os.path.join(folder, "flows.csv", "*.csv"))
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_flows(rows, path):
    """Flows as the program for ns-3 reads them; nodes become numbers."""
    numbers = {}
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            way = [str(numbers.setdefault(node, len(numbers))) for node in row["path"].split()]
            print(row["start_ns"], row["size_bytes"], *way, file=file)


def turn(program, ns3, milliseconds, folder):
    """Each program once: processor seconds, wall seconds and bytes delivered, by name."""
    done = {}
    for name, more in (("ackwright", []), ("ackwright without offloads", PLAIN)):
        rows, cpu, wall = ours(program, milliseconds, os.path.join(folder, name), *more)
        done[name] = cpu, wall, sum(int(row["received_bytes"]) for row in rows)
    write_flows(rows, os.path.join(folder, "flows"))
    out, _, wall = timed(ns3, "--flows=" + os.path.join(folder, "flows"), f"--ms={milliseconds}")
    theirs = json.loads(out)
    return done | {"ns-3": (theirs["cpu_seconds"], wall, theirs["delivered_bytes"])}


def tell(name, turns, theirs):
    """Prints the medians of a program beside ns-3; returns how far apart the bytes are."""
    cpu, wall, delivered = (statistics.median(values) for values in zip(*turns))
    ratio = statistics.median(other[0] / own[0] for other, own in zip(theirs, turns))
    apart = abs(delivered / theirs[0][2] - 1)
    beside = f"  ns-3 takes {ratio:.0f} times the processor time; bytes are {apart:.1%} apart" if turns != theirs else ""
    print(f"  {name:27} {cpu:8.2f} s processor  {wall:8.2f} s wall  {delivered / 1e6:9.2f} MB delivered{beside}")
    return apart


def build(folder):
    """The program for ns-3."""
    program = os.path.join(folder, "fat_tree")
    subprocess.run(["g++", "-std=c++17", "-O2", os.path.join(HERE, "fat_tree.cc"), "-o", program,
                    *(f"-lns3-{name}" for name in LIBRARIES)], check=True)
    return program


def main():
    program = os.path.abspath(sys.argv[1])
    rest = [word for word in sys.argv[2:] if word != "--second"]
    milliseconds = int(rest[0]) if rest else 10
    folder = tempfile.mkdtemp(prefix="fat-tree-")
    try:
        ns3 = build(folder)
        turns = [turn(program, ns3, milliseconds, os.path.join(folder, str(number))) for number in range(TURNS)]
        print(f"{milliseconds} ms of virtual time, one thread each, median of {TURNS}")
        apart = max(tell(name, [of[name] for of in turns], [of["ns-3"] for of in turns]) for name in turns[0])
        if "--second" in sys.argv:
            _, cpu, wall = timed(program, "run", EXPERIMENT, "--json")
            print(f"one second of virtual time: {cpu:.0f} s processor, {wall:.0f} s wall")
    finally:
        shutil.rmtree(folder)
    sys.exit(apart > 0.05)


if __name__ == "__main__":
    main()
