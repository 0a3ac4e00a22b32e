#!/usr/bin/env python3
"""Writes the small traces of experiments/data that stand for cellular links.

They are made, not recorded: a rate that wanders (an Ornstein-Uhlenbeck process of its logarithm), with
fades and handovers in which nothing is sent, as recordings of LTE and 5G show them. The form is that of
Mahimahi (USENIX ATC 2015): a line for each packet of 1500 bytes that may leave, the ms of it.
"""
import math
import pathlib
import random

PACKET_BITS = 1500 * 8
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "experiments" / "data"


def trace(seed, seconds, mbit, spread, memory_ms, outages, outage_ms):
    """The ms at which packets may leave."""
    rng = random.Random(seed)
    keep = math.exp(-1 / memory_ms)
    level, credit, silent, times = 0.0, 0.0, 0, []
    for ms in range(1, 1000 * seconds + 1):
        level = keep * level + math.sqrt(1 - keep * keep) * rng.gauss(0, spread)
        if silent == 0 and rng.random() < outages / 1000:
            silent = rng.randint(outage_ms // 2, outage_ms * 3 // 2)
        if silent > 0:
            silent -= 1
            continue
        credit += mbit * 1e3 * math.exp(level - spread * spread / 2) / PACKET_BITS
        times += [ms] * int(credit)
        credit -= int(credit)
    # The last line ends the period.
    return times + [1000 * seconds] if times[-1] < 1000 * seconds else times


TRACES = {
    "lte-down.trace": (1, 10, 12, 0.5, 300, 0.2, 150),
    "lte-up.trace": (2, 10, 4, 0.5, 300, 0.2, 150),
    "5g-down.trace": (3, 4, 60, 0.8, 60, 0.7, 60),
    "5g-up.trace": (4, 4, 10, 0.7, 60, 0.7, 60),
}

if __name__ == "__main__":
    for name, words in TRACES.items():
        lines = trace(*words)
        (FOLDER / name).write_text("".join(f"{ms}\n" for ms in lines))
        print(f"{name}: {len(lines)} packets, {len(lines) * 12 / lines[-1]:.1f} Mbit/s")
