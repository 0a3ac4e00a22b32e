#!/usr/bin/env python3
"""Longer figures of our TCP endpoints: rates beside the kernel's over a veth, and gigabytes compared by digest.

usage: scripts/endpoint_bench.py BINARY [--seconds N] [--gigabytes N]

The namespaces are those of live_test.py. Prints tables; docs/live.md has those of one machine.
"""

import os
import subprocess
import sys
import tempfile
import time

import endpoint_test
import namespaces
from endpoint_test import Endpoints, exchange, finish, iperf3
from live_bench import cpu


def fresh(measure):
    """Runs `measure` in a world of its own."""
    with tempfile.TemporaryDirectory() as folder:
        world = Endpoints(os.path.abspath(sys.argv[1]), folder)
        try:
            return measure(world)
        finally:
            world.close()
            for link in ("a", "b"):
                subprocess.run(["ip", "link", "delete", "dev", link], capture_output=True)


def row(name, rate, used):
    print(f"{name:<58}{rate / 1e9:8.2f}{used:14.0%}", flush=True)


def over_tun(seconds):
    """Our stack on a TUN device and the kernel at its other end; and the kernel with itself over a veth."""
    print("Gbit/s of payload, one connection, cubic                       rate   our CPU, of a core")

    def measure(world, words, extra=()):
        server = world.start("iperf", "-s", "--json", *extra, ready="")
        time.sleep(0.5)
        before, begun = cpu(server.pid), time.monotonic()
        found = iperf3(world.left, f"-c {endpoint_test.OURS} -J -t {seconds} -C cubic {words}")["end"]
        used = (cpu(server.pid) - before) / (time.monotonic() - begun)
        server.terminate()
        return found["sum_received"]["bits_per_second"], used

    for name, words, extra in (
            ("we receive over TUN, super-packets", "", ()), ("we send over TUN, super-packets", "-R", ()),
            ("we receive over TUN, cut to 1500", "", ("--no-offload",)),
            ("we send over TUN, cut to 1500", "-R", ("--no-offload",))):
        rate, used = fresh(lambda world: measure(world, words, extra))
        row(name, rate, used)

    def kernels(world, offloads):
        subprocess.run(["ip", "link", "add", "v0", "type", "veth", "peer", "name", "e1", "netns",
                        str(world.right.process.pid)], check=True)
        subprocess.run(["ip", "link", "set", "v0", "netns", str(world.left.process.pid)], check=True)
        for namespace, device, address in ((world.left, "v0", "10.8.0.1"), (world.right, "e1", "10.8.0.2")):
            namespace.run(f"ip address add {address}/24 dev {device}")
            namespace.run(f"ip link set {device} up")
            if not offloads:
                namespace.run(f"ethtool -K {device} tso off gso off gro off tx off")
        server = subprocess.Popen(world.right.command("iperf3 -s -1"), stdout=subprocess.DEVNULL)
        time.sleep(0.3)
        found = iperf3(world.left, f"-c 10.8.0.2 -J -t {seconds} -C cubic")["end"]
        server.wait(timeout=10)
        assert found["sender_tcp_congestion"] == "cubic", found["sender_tcp_congestion"]
        return found["sum_received"]["bits_per_second"]

    row("the kernel with itself over a veth, super-packets", fresh(lambda world: kernels(world, True)), 0)
    row("the kernel with itself over a veth, cut to 1500", fresh(lambda world: kernels(world, False)), 0)


def gigabytes(count):
    print(f"{count} GB each way through `ackwright proxy`, digests compared; what the kernel counts as wrong is 0")

    def measure(world, role, algorithm, words):
        shape = world.shape("--ab", words, "--ba", words, "--drain", "0")
        proxy = world.proxy(role)
        took = exchange(world, role, count << 30, algorithm)
        done = finish(proxy)
        shape.stop()
        wrong = world.wrong()
        assert done["failed"] == 0 and not wrong, (done, wrong)
        resent = done["retransmits"]
        print(f"  ours {role}, kernel's {algorithm}, {words}: {2 * (count << 30) / took / 125e6:.2f} Gbit/s, "
              f"{resent} segments sent again", flush=True)

    for role in ("listens", "connects"):
        for algorithm in filter(endpoint_test.known, endpoint_test.ALGORITHMS):
            for words in ("pfifo", "netem loss 0.01% limit 10000"):
                fresh(lambda world: measure(world, role, algorithm, words))


def option(name, default):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default


if __name__ == "__main__":
    if namespaces.INSIDE not in os.environ:
        namespaces.enter()
    over_tun(option("--seconds", 5))
    gigabytes(option("--gigabytes", 1))
