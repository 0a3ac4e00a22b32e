#!/usr/bin/env python3
"""Longer figures of `ackwright shape`: rates through CAKE, and latency under load beside the kernel's tbf.

usage: scripts/live_bench.py BINARY [--seconds N]

The namespaces are those of live_test.py. Prints tables; docs/live.md has those of one machine.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

import live_test
from live_test import HEADERS, LEFT, RIGHT, World, ip

ROW = ("tbf rate 30mbit burst 15k latency 300ms", "tbf rate 1mbit burst 3k latency 300ms")
CAKE = "cake bandwidth 30mbit"


def cpu(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fresh(measure):
    """Runs `measure` in a world of its own."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(os.path.abspath(sys.argv[1]), folder)
        try:
            return measure(world)
        finally:
            world.close()
            for link in ("a", "b", "br0"):
                subprocess.run(["ip", "link", "delete", "dev", link], capture_output=True)


def rates(seconds):
    print("cake, Mbit/s   goodput   of what fits   cpu of a core   late p50 us   p99   worst")
    for mbit in (1, 10, 100, 1000):
        def measure(world, mbit=mbit):
            shape = world.shape("--ab", f"cake bandwidth {mbit}mbit")
            before, begun = cpu(shape.process.pid), time.monotonic()
            found = live_test.iperf(world, seconds)
            used = (cpu(shape.process.pid) - before) / (time.monotonic() - begun)
            return found, used, shape.stop()["late"]

        found, used, late = fresh(measure)
        wanted = mbit * 1e6 * (1514 - HEADERS) / 1514
        print(f"{mbit:12}{found / 1e6:10.2f}{found / wanted:13.2%}{used:15.0%}{late['p50_us']:14.0f}"
              f"{late['p99_us']:6.0f}{late['max_us']:8.0f}", flush=True)


def loaded(world, seconds):
    """Down (left to right) and up together, and pings meanwhile: Mbit/s down and up, RTT median and 99 %."""
    servers = [subprocess.Popen(world.right.command(f"iperf3 -s -1 -p {port}"), stdout=subprocess.DEVNULL)
               for port in (5301, 5302)]
    time.sleep(0.3)
    clients = [subprocess.Popen(world.left.command(f"iperf3 -c {RIGHT} -J -t {seconds} -O 2 -p {port} -C cubic {way}"),
                                stdout=subprocess.PIPE, text=True)
               for port, way in ((5301, ""), (5302, "-R"))]
    time.sleep(2)
    pings = subprocess.run(world.left.command(f"ping -i 0.05 -c {(seconds - 2) * 20} {RIGHT}"),
                           capture_output=True, text=True).stdout
    found = [json.loads(client.communicate()[0])["end"]["sum_received"]["bits_per_second"] / 1e6 for client in clients]
    for server in servers:
        server.wait(timeout=20)
    times = sorted(float(value) for value in re.findall(r"time=([0-9.]+)", pings))
    return found[0], found[1], times[len(times) // 2], times[len(times) * 99 // 100]


def latency(seconds):
    def kernel(world):
        ip("link add br0 type bridge")
        for name, queue in (("b", ROW[0]), ("a", ROW[1])):
            ip(f"link set dev {name} master br0")
            subprocess.run(["tc", "qdisc", "add", "dev", name, "root", *queue.split()], check=True)
        ip("link set br0 up")
        subprocess.run("ethtool -K a tso off gso off gro off; ethtool -K b tso off gso off gro off", shell=True,
                       capture_output=True)
        time.sleep(1)
        return loaded(world, seconds)

    def ours(ab, ba):
        def measure(world):
            shape = world.shape("--ab", ab, "--ba", ba)
            figures = loaded(world, seconds)
            shape.stop()
            return figures
        return measure

    print("\n30 Mbit/s one way, 1 Mbit/s back, both loaded by CUBIC; 64-byte echoes")
    print(f"{'queue':<34}  down Mbit/s   up Mbit/s   RTT p50 ms   p99 ms")
    for name, measure in (
        ("kernel's tbf", kernel),
        ("ours: tbf", ours(*ROW)),
        ("ours: cake", ours(CAKE, "cake bandwidth 1mbit")),
        ("ours: cake ack-filter", ours(CAKE, "cake bandwidth 1mbit ack-filter")),
    ):
        down, up, median, high = fresh(measure)
        print(f"{name:<34}{down:13.2f}{up:12.3f}{median:13.1f}{high:9.1f}", flush=True)


def main():
    seconds = int(sys.argv[sys.argv.index("--seconds") + 1]) if "--seconds" in sys.argv else 10
    print(f"kernel {os.uname().release}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {LEFT} to {RIGHT}")
    rates(seconds)
    latency(seconds)


if __name__ == "__main__":
    if live_test.INSIDE not in os.environ:
        live_test.enter()
    main()
