#!/usr/bin/env python3
"""Line coverage of tcp/, host/, qdisc/ and fib/ by swarm runs, whose oracles are on.

  scripts/coverage.py [--seeds N]           runs N seeds of each kind, prints the table
  scripts/coverage.py --report              the table of what has been run
  scripts/coverage.py --lines tcp/input.rs  the lines of a file that were not reached

Needs cargo-llvm-cov, and an LLVM not older than that of rustc: LLVM_COV and LLVM_PROFDATA name its tools
(Debian's package llvm-22 has llvm-cov-22 and llvm-profdata-22).
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "crates/datapath/src"
FOLDERS = ["tcp", "host", "qdisc", "fib"]
PROFILE = ["--profile", "checked"]
TOOLS = {"LLVM_COV": "llvm-cov", "LLVM_PROFDATA": "llvm-profdata"}


def cargo(*words, variables={}, **options):
    environment = os.environ | variables
    for variable, tool in TOOLS.items():
        found = shutil.which(f"{tool}-22")
        if variable not in os.environ and found:
            environment[variable] = found
    return subprocess.run(["cargo", "llvm-cov", *words], cwd=ROOT, env=environment, text=True, **options)


def run_slice(*words, **options):
    return cargo("test", "--no-report", "--ignore-run-fail", *PROFILE, "--locked", "-p", "ackwright-swarm",
                 "--test", "slice", "--", *words, check=True, **options)


def run_seeds(kinds, seeds):
    cargo("clean", "--profraw-only", check=True)
    for kind in kinds or run_slice("kinds", stdout=subprocess.PIPE).stdout.split():
        # A seed that fails has run as well: it is for make swarm to complain.
        print(f"{kind}: seeds 0..{seeds}", file=sys.stderr)
        run_slice(kind, f"0..{seeds}", "all", stdout=subprocess.DEVNULL)


def counts():
    """file -> line -> times reached, from the report in lcov's format."""
    report = cargo("report", "--lcov", *PROFILE, stdout=subprocess.PIPE, check=True).stdout
    files, lines = {}, {}
    for entry in report.splitlines():
        key, _, value = entry.partition(":")
        if key == "SF":
            lines = {}
            if Path(value).is_relative_to(SOURCES):
                files[str(Path(value).relative_to(SOURCES))] = lines
        elif key == "DA":
            line, times = value.split(",")[:2]
            lines[int(line)] = int(times)
    return {file: lines for file, lines in files.items() if file.split("/")[0].removesuffix(".rs") in FOLDERS}


def table(files):
    all_of, reached = defaultdict(int), defaultdict(int)
    for file, lines in files.items():
        folder = file.split("/")[0].removesuffix(".rs")
        all_of[folder] += len(lines)
        reached[folder] += sum(1 for times in lines.values() if times)
    print("| folder | lines | reached | |\n|---|---:|---:|---:|")
    for folder in FOLDERS:
        share = 100 * reached[folder] / max(all_of[folder], 1)
        print(f"| `{folder}/` | {all_of[folder]} | {reached[folder]} | {share:.1f} % |")
    print("\n| file | lines | not reached |\n|---|---:|---:|")
    missed = {file: sum(1 for times in lines.values() if not times) for file, lines in files.items()}
    for file in sorted(missed, key=missed.get, reverse=True)[:20]:
        print(f"| `{file}` | {len(files[file])} | {missed[file]} |")


def show(file, lines):
    text = (SOURCES / file).read_text().splitlines()
    last = 0
    for line in sorted(line for line, times in lines.items() if not times):
        if line != last + 1:
            print("  ...")
        print(f"{line:5} {text[line - 1]}")
        last = line


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--seeds", type=int, default=1_000, help="of each kind (1000)")
    arguments.add_argument("--kinds", nargs="*", help="only these kinds")
    arguments.add_argument("--report", action="store_true", help="run nothing")
    arguments.add_argument("--lines", metavar="FILE", action="append", default=[], help="run nothing, show lines")
    given = arguments.parse_args()
    if not shutil.which("cargo-llvm-cov"):
        sys.exit("cargo-llvm-cov is missing: cargo install cargo-llvm-cov --locked")
    if not (given.report or given.lines):
        run_seeds(given.kinds, given.seeds)
    files = counts()
    for file in given.lines:
        show(file, files[file])
    if not given.lines:
        table(files)


if __name__ == "__main__":
    main()
