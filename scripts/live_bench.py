#!/usr/bin/env python3
"""Longer figures of `ackwright shape`: rates through CAKE, and latency under load beside the kernel's tbf.

usage: scripts/live_bench.py BINARY [--seconds N]
       scripts/live_bench.py BINARY --soak [--seconds N]
       scripts/live_bench.py BUMP --speed [--seconds N]

The namespaces are those of live_test.py. Prints tables; docs/live.md has those of one machine.
--soak loads CAKE for ten minutes with long and short connections both ways, and looks whether memory stays flat.
--speed measures how fast packets can go, beside the kernel between the same veths; BUMP is
target/release/examples/bump (cargo build --release -p ackwright-live --example bump).
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import live_test
import namespaces
from live_test import HEADERS, LEFT, RIGHT, World
from namespaces import ip

ROW = ("tbf rate 30mbit burst 15k latency 300ms", "tbf rate 1mbit burst 3k latency 300ms")
CAKE = "cake bandwidth 30mbit"
TOOLS = ("ip", "tc", "ethtool", "iperf3", "ping")
SOAK = 600
# Memory counts as flat if its median grows by no more than this from the third fifth of the time to the last. The allocator takes it
# in steps of 2 MB until queues and pools have been as full as they get, which the first two fifths are for.
FLAT = 0.01


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
    # Datagrams at twice the rate keep the queue full; four connections may not, at 1 Mbit/s.
    print("cake, Mbit/s  datagrams, of what fits  4 TCP, of what fits  cpu of a core  late p50 us   p99   worst")
    for mbit in (1, 10, 100, 1000):
        def measure(world, mbit=mbit):
            shape = world.shape("--ab", f"cake bandwidth {mbit}mbit")
            datagrams = live_test.datagrams(world, seconds, mbit)
            before, begun = cpu(shape.process.pid), time.monotonic()
            found = live_test.iperf(world, seconds)
            used = (cpu(shape.process.pid) - before) / (time.monotonic() - begun)
            return datagrams, found, used, shape.stop()["late"]

        (datagrams, fits), found, used, late = fresh(measure)
        wanted = mbit * 1e6 * (1514 - HEADERS) / 1514
        print(f"{mbit:12}{datagrams / 1e6:11.2f}{datagrams / fits:14.2%}{found / 1e6:12.2f}{found / wanted:9.2%}{used:15.0%}"
              f"{late['p50_us']:13.0f}{late['p99_us']:6.0f}{late['max_us']:8.0f}", flush=True)


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


def soak(seconds):
    """Long connections both ways, and short ones one after the other, through CAKE; memory once in a while."""
    def measure(world):
        shape = world.shape("--ab", "cake bandwidth 200mbit", "--ba", "cake bandwidth 20mbit ack-filter")
        ports = {"long": (5301, f"-t {seconds + 5}"), "back": (5302, f"-t {seconds + 5} -R"), "short": (5303, "-t 1 -P 8")}
        servers = [subprocess.Popen(world.right.command(f"iperf3 -s -p {port}"), stdout=subprocess.DEVNULL)
                   for port, _ in ports.values()]
        time.sleep(0.5)
        client = lambda name: subprocess.Popen(
            world.left.command(f"iperf3 -c {RIGHT} -p {ports[name][0]} {ports[name][1]}"), stdout=subprocess.DEVNULL)
        longs, begun, seen, connections = [client("long"), client("back")], time.monotonic(), [], 0
        while (elapsed := time.monotonic() - begun) < seconds:
            connections += 8
            client("short").wait(timeout=60)
            seen.append((elapsed, live_test.resident(shape.process.pid) / 1024))
        for process in longs + servers:
            process.kill()
            process.wait()
        return seen, connections, shape.stop()

    seen, connections, account = fresh(measure)
    fifths = [[memory for at, memory in seen if fifth <= 5 * at / seconds < fifth + 1] for fifth in range(5)]
    early, late = statistics.median(fifths[2]), statistics.median(fifths[4])
    packets = sum(direction["taken_packets"] for direction in account["directions"])
    print(f"{seconds} s through cake, {connections} short connections beside two long ones, {packets} packets")
    medians = ", ".join(f"{statistics.median(fifth):.0f}" for fifth in fifths)
    is_flat = late <= early * (1 + FLAT)
    print(f"memory, median of each fifth of the time: {medians} KB: {'flat' if is_flat else 'GROWS'}")
    sys.exit(not is_flat)


# How fast it can go: datagrams of 64 and 1472 bytes and one TCP connection, from left to right, with checksums and
# super-packets off at all veths, so that all see the same packets. Everything shares the machine's cores.

PLAIN = "tx off rx off tso off gso off gro off"
SIZES = (64, 1472)


class Kernel:
    """The kernel passes packets on between a and b; `queue` at b shapes or not."""

    def __init__(self, world, queue=None):
        ip("link add br0 type bridge")
        for name in ("a", "b"):
            ip(f"link set dev {name} master br0")
        ip("link set br0 up")
        for words in (queue or []):
            subprocess.run(["tc", *words.split()], check=True)
        time.sleep(1.5)
        self.pid = None

    def stop(self):
        subprocess.run(["ip", "link", "delete", "dev", "br0"], capture_output=True)


class Bump:
    """Our program between two devices, forth and back through `queue`."""

    def __init__(self, world, devices, queue):
        command = [os.path.abspath(sys.argv[1]), *devices, queue, queue]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        line = self.process.stderr.readline()
        assert line.startswith("shaping between"), line
        self.pid = self.process.pid

    def stop(self):
        out, err = self.process.communicate("stop\n", timeout=20)
        account = json.loads(out)
        assert all(direction["unaccounted"] == 0 for direction in account["directions"]), account
        return account


def counted(world, name):
    """Packets that have come to the right."""
    return json.loads(world.right.run(f"ip -j -s link show dev {name}"))[0]["stats64"]["rx"]["packets"]


def flooded(world, path, size, seconds):
    """Datagrams a second that arrive while one sender sends what it can, and cores that our program took."""
    server = subprocess.Popen(world.right.command("iperf3 -s -1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.3)
    words = f"iperf3 -c {RIGHT} -u -b 0 -l {size} -t {seconds + 1.5:.0f}"
    flood = subprocess.Popen(world.left.command(words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    begun, before, used = time.monotonic(), counted(world, "e0"), cpu(path.pid) if path.pid else 0.0
    time.sleep(seconds)
    took = time.monotonic() - begun
    found = (counted(world, "e0") - before) / took
    used = (cpu(path.pid) - used) / took if path.pid else 0.0
    for process in (flood, server):
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:  # its control connection has waited behind the flood
            process.kill()
            process.wait()
    return found, used


def echoes(world):
    """Round trips of 200 echoes on an idle path, in us: median and 99 %."""
    pings = subprocess.run(world.left.command(f"ping -i 0.005 -c 200 {RIGHT}"), capture_output=True, text=True).stdout
    times = sorted(float(value) * 1000 for value in re.findall(r"time=([0-9.]+)", pings)) or [float("nan")]
    return times[len(times) // 2], times[len(times) * 99 // 100]


def tcp(world, path, seconds, how="-C cubic"):
    used, begun = cpu(path.pid) if path.pid else 0.0, time.monotonic()
    found = live_test.iperf(world, seconds, how) / 1e9
    used = (cpu(path.pid) - used) / (time.monotonic() - begun) if path.pid else 0.0
    return found, used


def speed(seconds):
    cake = "cake bandwidth 10gbit"
    paths = [("kernel: bridge", lambda world: Kernel(world)),
             ("kernel: tbf 10gbit", lambda world: Kernel(world, [
                 "qdisc add dev b root tbf rate 10gbit burst 1m latency 20ms"])),
             ("kernel: htb 10gbit", lambda world: Kernel(world, [
                 "qdisc add dev b root handle 1: htb default 1",
                 "class add dev b parent 1: classid 1:1 htb rate 10gbit"]))]
    for name, devices in (("AF_PACKET", ("a", "b")), ("ring", ("ring:a", "ring:b")), ("AF_XDP native", ("xdp:a,native,copy", "xdp:b,native,copy")),
                          ("AF_XDP generic", ("xdp:a,generic", "xdp:b,generic"))):
        for queue in ("pfifo", "fq_codel", cake):
            paths.append((f"{name}: {queue}", lambda world, devices=devices, queue=queue: Bump(world, devices, queue)))
    print(f"\n{'path':<38}{'64 B pps':>10}{'1472 B pps':>12}{'of a core':>10}{'pps/core':>10}{'TCP Gbit/s':>12}{'of a core':>10}"
          f"{'of bridge':>10}{'RTT p50 us':>12}{'p99':>8}")
    rows = {}
    for name, make in paths:
        def measure(world, make=make):
            for namespace in (world.left, world.right):
                namespace.run(f"ethtool -K e0 {PLAIN}")
            for dev in ("a", "b"):
                subprocess.run(["ethtool", "-K", dev, *PLAIN.split()], capture_output=True)
            path = make(world)
            try:
                found = [flooded(world, path, size, seconds) for size in SIZES]
                return found, tcp(world, path, seconds), echoes(world)
            finally:
                path.stop()

        (small, large), (goodput, used), (median, high) = fresh(measure)
        rows[name] = large[0], goodput
        bridge = rows["kernel: bridge"][1]
        per_core = f"{large[0] / large[1]:.0f}" if large[1] > 0.01 else "-"
        print(f"{name:<38}{small[0]:>10.0f}{large[0]:>12.0f}{large[1]:>10.0%}{per_core:>10}{goodput:>12.2f}{used:>10.0%}"
              f"{goodput / bridge:>10.0%}{median:>12.0f}{high:>8.0f}", flush=True)
    reached("half of the kernel's bridge", "of its packets of 1472 bytes / of its TCP", 0.5, {
        name: [mine / kernels for mine, kernels in zip(row, rows["kernel: bridge"])]
        for name, row in rows.items() if name.endswith(cake)})
    tun(seconds)


def reached(what, unit, wanted, rows):
    """Says for each figure of each row whether it is what is wanted, in words that cannot be overlooked."""
    print(f"\n{what}, through CAKE ({unit}):")
    for name, figures in rows.items():
        verdicts = " / ".join(f"{figure:.2f} {'reached' if figure >= wanted else 'MISSED'}" for figure in figures)
        print(f"  {name:<36}{verdicts}", flush=True)


def tun(seconds):
    """A kernel's TCP from left by its veth, with super-packets, to a TAP device of this namespace."""
    print(f"\n{'into a TAP device, offloads on':<36}{'TCP Gbit/s':>12}{'of a core':>10}{'Gbit/s a core':>15}")
    rows = {}
    for queue in ("pfifo", "fq_codel", "cake bandwidth 10gbit"):
        def measure(world, queue=queue):
            path = Bump(world, ("tap:lan0", "tap:lan1"), queue)
            with open("/proc/sys/net/ipv6/conf/lan0/disable_ipv6", "w") as file:
                file.write("1")
            ip(f"link set dev lan1 netns {world.right.process.pid}")
            world.right.run("ip address flush dev e0")
            world.right.run(f"ip address add {RIGHT}/24 dev lan1")
            world.right.run("ip link set lan1 up")
            ip("address add 10.9.0.1/24 dev lan0")
            ip("link set lan0 up")
            server = subprocess.Popen(world.right.command("iperf3 -s -1"), stdout=subprocess.DEVNULL)
            time.sleep(0.5)
            used, begun = cpu(path.pid), time.monotonic()
            client = subprocess.run(f"iperf3 -c {RIGHT} -J -t {seconds} -O 1 -C cubic".split(), capture_output=True,
                                    text=True)
            used = (cpu(path.pid) - used) / (time.monotonic() - begun)
            server.wait(timeout=10)
            path.stop()
            return json.loads(client.stdout)["end"]["sum_received"]["bits_per_second"] / 1e9, used

        found, used = fresh(measure)
        print(f"{queue:<36}{found:>12.2f}{used:>10.0%}{found / max(used, 0.01):>15.2f}", flush=True)
        rows[queue] = [found / max(used, 0.01)]
    reached("2 Gbit/s of a core (goal 5)", "Gbit/s", 2, {"TAP, offloads on": rows["cake bandwidth 10gbit"]})


def main():
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        sys.exit(f"not there: {', '.join(missing)} (Debian's packages are iproute2, ethtool, iperf3 and iputils-ping)")
    usual = SOAK if "--soak" in sys.argv else 10
    seconds = int(sys.argv[sys.argv.index("--seconds") + 1]) if "--seconds" in sys.argv else usual
    print(f"kernel {os.uname().release}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {LEFT} to {RIGHT}")
    if "--soak" in sys.argv:
        soak(seconds)
    if "--speed" in sys.argv:
        speed(seconds)
        return
    rates(seconds)
    latency(seconds)


if __name__ == "__main__":
    if namespaces.INSIDE not in os.environ:
        namespaces.enter()
    main()
