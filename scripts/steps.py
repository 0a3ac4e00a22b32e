#!/usr/bin/env python3
"""Runs make targets one after the other, and says at the end how long each took and what was skipped.

usage: scripts/steps.py TARGET...

A test that cannot run here writes a line "SKIPPED: what: why" past the capture of its output.
"""

import os
import signal
import subprocess
import sys
import time

MARK = "SKIPPED: "


def run(step, skipped):
    """Runs one target and passes its output on; returns its exit code and the seconds it took."""
    begun = time.monotonic()
    command = [os.environ.get("MAKE", "make"), "--no-print-directory", step]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in process.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            text = line.decode(errors="replace")
            if MARK in text:
                skipped.append((step, text.split(MARK, 1)[1].strip()))
    return process.returncode, time.monotonic() - begun


def minutes(seconds):
    """A time as people read it."""
    return f"{int(seconds) // 60:3} min {int(seconds) % 60:02} s"


def report(times, skipped):
    """The tables at the end."""
    print("\nstep            time")
    for step, seconds in times:
        print(f"{step:<14}{minutes(seconds)}")
    print(f"{'all':<14}{minutes(sum(seconds for _, seconds in times))}")
    print("\nskipped: " + ("nothing" if not skipped else ""))
    for step, what in dict.fromkeys(skipped):
        print(f"  {step}: {what}")


def main():
    # A job in the background of a script has SIGINT ignored, and so would programs that the tests stop by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    times, skipped, failed = [], [], None
    for step in sys.argv[1:]:
        print(f"== {step}", flush=True)
        code, seconds = run(step, skipped)
        times.append((step, seconds))
        if code != 0:
            failed = step
            break
    report(times, skipped)
    if failed:
        print(f"\nmake test: {failed} failed")
        return 1
    print(f"\nmake test: all {len(times)} steps passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
