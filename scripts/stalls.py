#!/usr/bin/env python3
"""Tells at which instructions a program waits, with their source lines: where something should have been prefetched, a branch
cannot be foretold, or a store is read too soon.

usage: scripts/stalls.py [--top N] PROGRAM ARGUMENT...

  scripts/stalls.py target/release/ackwright bench --here c-1000 --rounds 1

Needs perf, which samples by the clock, so that it works in virtual machines, and llvm-symbolizer. An instruction that waits for
memory stands just before the one that is shown. Behind "<" stand the lines into which it was put in line.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile


def output(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout


def base_of(recording, program):
    """Where the program lay in memory, less where its code lies in the file."""
    mapped = re.compile(r"\[0x([0-9a-f]+)\(\S+ @ (\S+) .*\]: r-xp (.*)$")
    for line in output("perf", "script", "-i", recording, "--show-mmap-events").splitlines():
        found = mapped.search(line)
        if found and os.path.realpath(found[3]) == program:
            return int(found[1], 16) - int(found[2], 16)
    sys.exit(f"perf has not seen {program} run")


def segments(program):
    """Offset in the file, address and size of what is loaded."""
    for line in output("readelf", "-lW", program).splitlines():
        found = re.match(r"\s+LOAD\s+(\S+)\s+(\S+)\s+\S+\s+(\S+)", line)
        if found:
            yield tuple(int(word, 16) for word in found.groups())


def lines_of(program, addresses):
    """For each address the lines that it was made of, the innermost first."""
    told = output("llvm-symbolizer", f"--obj={program}", "--inlines", "-s", input="\n".join(map(hex, addresses)))
    for block in told.strip().split("\n\n"):
        yield [place.rsplit(":", 1)[0] for place in block.split("\n")[1::2]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--top", type=int, default=40, help="how many instructions are told")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    program = os.path.realpath(args.program)
    with tempfile.TemporaryDirectory() as folder:
        recording = os.path.join(folder, "perf.data")
        record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "10000", "-o", recording, program, *args.arguments]
        subprocess.run(record, check=True, stdout=subprocess.DEVNULL)
        samples = collections.Counter(int(word, 16) for word in output("perf", "script", "-i", recording, "-F", "ip").split())
        base = base_of(recording, program)
    loaded, found = list(segments(program)), []
    for address, count in samples.most_common():
        offset = address - base
        inside = [begin + offset - start for start, begin, size in loaded if start <= offset < start + size]
        found += [(inside[0], count)] if inside else []
    found = found[: args.top]
    if not found:
        sys.exit(f"{program} has not run long enough to be seen")
    all_samples = sum(samples.values())
    for (address, count), lines in zip(found, lines_of(program, [address for address, _ in found]), strict=True):
        print(f"{100 * count / all_samples:5.2f} %  {address:x}  {' < '.join(lines[:5])}")


if __name__ == "__main__":
    main()
