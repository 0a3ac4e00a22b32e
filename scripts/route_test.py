#!/usr/bin/env python3
"""Tests `ackwright route` between real programs, in network namespaces of its own.

usage: scripts/route_test.py BINARY [NAME...]

    left (10.1.0.2) -- a [the router] b -- (10.2.0.2) right
                                    c -- (10.3.0.2) right, a second way

Where no namespace can be made, it says so loudly ("SKIPPED: ...") and ends with success.
"""

import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import time

from live_test import transfer
from namespaces import Namespace, Skip, busy, ip, run_tests

FILE = """\
address add 10.1.0.1/24 dev a
address add 10.2.0.1/24 dev b
address add 10.3.0.1/24 dev c
address add fd01::1/64 dev a
address add fd02::1/64 dev b
sysctl net.ipv4.conf.all.ignore_routes_with_linkdown=1 net.ipv4.fib_multipath_hash_policy=1
"""


class World:
    """left and right, and the three interfaces here that the router gets; here none has an address."""

    def __init__(self, binary, folder):
        self.binary, self.folder, self.number, self.processes = binary, folder, 0, []
        self.left, self.right = Namespace(), Namespace()
        for name, namespace, end in (("a", self.left, "e0"), ("b", self.right, "e0"), ("c", self.right, "e1")):
            ip(f"link add name {name} type veth peer name {end} netns {namespace.process.pid}")
            with open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w") as file:
                file.write("1")
            ip(f"link set dev {name} up")
            namespace.run(f"sysctl -qw net.ipv6.conf.{end}.accept_dad=0 net.ipv6.conf.{end}.accept_ra=0")
            namespace.run(f"ip link set {end} up")
        for words in ("-4 address add 10.1.0.2/24 dev e0", "-6 address add fd01::2/64 dev e0 nodad",
                      "-4 route add default via 10.1.0.1", "-6 route add default via fd01::1"):
            self.left.run(f"ip {words}")
        for words in ("-4 address add 10.2.0.2/24 dev e0", "-6 address add fd02::2/64 dev e0 nodad",
                      "-4 address add 10.3.0.2/24 dev e1", "-4 address add 10.9.9.9/32 dev lo",
                      "-4 route add default via 10.2.0.1", "-6 route add default via fd02::1"):
            self.right.run(f"ip {words}")
        self.right.run("sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.e0.rp_filter=0 "
                       "net.ipv4.conf.e1.rp_filter=0")

    def route(self, text=FILE, arguments=(), devices=("a", "b", "c")):
        return Router(self, text, arguments, devices)

    def close(self):
        for process in [self.left.process, self.right.process, *self.processes]:
            process.kill()
            process.wait()


class Router:
    """A running `ackwright route`."""

    def __init__(self, world, text, arguments, devices):
        world.number += 1
        self.binary = world.binary
        self.ctl_path = os.path.join(world.folder, f"ctl{world.number}")
        self.file = os.path.join(world.folder, f"routes{world.number}.ip")
        command = [world.binary, "route", "--ctl", self.ctl_path, *arguments]
        for device in devices:
            command += ["--dev", device]
        if text is not None:
            self.write(text)
            command += ["--config", self.file]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        world.processes.append(self.process)
        line = self.process.stderr.readline()
        while line.startswith("note: "):
            line = self.process.stderr.readline()
        assert line.startswith("routing between"), line + self.process.stderr.read()

    def write(self, text):
        with open(self.file, "w") as file:
            file.write(text)

    def ctl(self, words):
        """What the command answers; a wrong one is an error."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(self.ctl_path)
            asking.sendall(words.encode() + b"\n")
            answer = b""
            while piece := asking.recv(1 << 16):
                answer += piece
        head, _, text = answer.decode().partition("\n")
        if head != "0":
            raise ValueError(text)
        return text

    def json(self, words):
        return json.loads(self.ctl(words))

    def stop(self):
        self.ctl("stop")
        out, err = self.process.communicate(timeout=20)
        assert self.process.returncode == 0, (self.process.returncode, err)
        return err


def ping(namespace, target, *arguments, count=3):
    """How many answers came."""
    command = namespace.command(["ping", "-n", "-i", "0.05", "-W", "1", "-c", str(count), *arguments, target])
    out = subprocess.run(command, capture_output=True, text=True).stdout
    return int(re.search(r"(\d+) received", out)[1]), out


def until(condition, seconds=5):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)
    return value


# Tests: each gets a fresh world.


def test_hosts_reach_each_other_and_us(world):
    router = world.route()
    for target in ("10.2.0.2", "10.1.0.1", "10.2.0.1", "fd02::2", "fd01::1"):
        received, out = ping(world.left, target)
        assert received == 3, (target, out)
    assert "ttl=63" in ping(world.left, "10.2.0.2")[1]
    known = {entry["dst"]: entry for entry in router.json("ip -j neigh show")}
    for address in ("10.1.0.2", "10.2.0.2", "fd01::2", "fd02::2"):
        assert known[address]["state"][0] in ("REACHABLE", "STALE", "DELAY", "PROBE"), known[address]
    theirs = world.left.run("ip neigh show 10.1.0.1")
    ours = re.search("link/ether (\\S+)", subprocess.run(["ip", "link", "show", "a"], capture_output=True, text=True).stdout)
    assert ours[1] in theirs, theirs
    links = {link["ifname"]: link["stats64"] for link in router.json("ip -s -j link show")}
    for words in ("ip -j addr show dev b", "ip -4 -j address show b"):
        [shown] = router.json(words)
        assert shown["ifname"] == "b" and shown["addr_info"][0]["local"] == "10.2.0.1", shown
    brief = [line.split() for line in router.ctl("ip -br link").splitlines()]
    assert [line[:2] for line in brief] == [["a", "UP"], ["b", "UP"], ["c", "UP"]], brief
    assert router.ctl("ip -br -4 addr show dev b") == f"{'b':16} {'UP':14} 10.2.0.1/24 \n"
    policy = "net.ipv4.fib_multipath_hash_policy"
    assert router.ctl(f"sysctl {policy}") == f"{policy} = 1\n"
    for wrong, told in (("nstat", "valid are ip, tc, sysctl"), ("tc filter show dev b", "filters are not shown")):
        try:
            raise AssertionError(f"{wrong} was taken: {router.ctl(wrong)}")
        except ValueError as error:
            assert told in str(error), error
    assert "inet 10.2.0.1/24" in router.ctl("ip a") and len(router.json("ip -j link show dev b")) == 1
    assert links["b"]["tx"]["packets"] >= 3 and links["a"]["rx"]["packets"] >= 9, links
    router.stop()


def test_a_file_arrives_whole_through_a_queue(world):
    router = world.route(FILE + "tc qdisc add dev b root cake bandwidth 50mbit\n")
    took = transfer(world, 4 << 20, target="10.2.0.2")
    assert took > (4 << 20) * 8 / 50e6, f"faster than the rate: {took} s"
    cake = router.json("tc -s -j qdisc show dev b")[0]
    assert cake["kind"] == "cake" and cake["packets"] > 2500, cake
    router.ctl("tc qdisc change dev b root cake bandwidth 100mbit")
    assert router.json("tc -s -j qdisc show dev b")[0]["options"]["bandwidth"] == 12_500_000
    router.stop()


def test_time_to_live_and_the_limit_of_errors(world):
    router = world.route()
    received, out = ping(world.left, "10.2.0.2", "-t", "1", count=1)
    assert received == 0 and "From 10.1.0.1" in out and "Time to live exceeded" in out, out
    received, out = ping(world.left, "fd02::2", "-t", "1", count=1)
    assert received == 0 and "From fd01::1" in out, out
    # Six at once to one address, then one a second (icmp_ratelimit); two have gone.
    _, out = ping(world.left, "10.2.0.2", "-t", "1", count=20)
    told = out.count("Time to live exceeded")
    assert 4 <= told <= 8, (told, out)
    router.ctl("sysctl net.ipv4.icmp_ratelimit=0")
    _, out = ping(world.left, "10.2.0.2", "-t", "1", count=20)
    assert out.count("Time to live exceeded") >= 19, out
    router.stop()


def times_exceeded(namespace):
    """How many ICMP errors of this kind the kernel has got."""
    names, values = (line.split() for line in namespace.run("cat /proc/net/snmp").splitlines() if line.startswith("Icmp:"))
    return int(dict(zip(names, values))["InTimeExcds"])


def test_the_limit_of_errors_for_all_is_the_kernels(world):
    for profile, least, most in (("linux-6.18", 40, 150), ("linux-7.x", 190, 200)):
        router = world.route(arguments=("--profile", profile))
        router.ctl("sysctl net.ipv4.icmp_ratelimit=0")
        ping(world.left, "10.2.0.2", count=1)
        # All at once: 50 are told and a thousand a second, or all. The socket of ping does not hold so many.
        before = times_exceeded(world.left)
        ping(world.left, "10.2.0.2", "-t", "1", "-l", "200", count=200)
        told = times_exceeded(world.left) - before
        assert least <= told <= most, (profile, told)
        router.stop()


def test_path_mtu_and_fragments(world):
    world.right.run("ip link set e0 mtu 1400")
    ip("link set dev b mtu 1400")
    router = world.route()
    received, out = ping(world.left, "10.2.0.2", "-s", "1472", "-M", "do", count=2)
    assert received == 0 and "mtu = 1400" in out.replace("mtu=", "mtu = "), out
    assert "mtu 1400" in world.left.run("ip route get 10.2.0.2"), "the path is learnt"
    received, out = ping(world.left, "fd02::2", "-s", "1400", count=4)
    assert received >= 2, out
    world.left.run("ip route flush cache")
    # Larger than either: fragments come and are cut again.
    received, out = ping(world.left, "10.2.0.2", "-s", "4000", "-M", "dont", count=3)
    assert received == 3, out
    assert router.json("show -j")["counters"]["IpFragCreates"] >= 6
    transfer(world, 1 << 20, target="10.2.0.2")
    router.stop()


def test_who_does_not_answer(world):
    router = world.route()
    router.ctl("sysctl net.ipv4.neigh.default.retrans_time_ms=100")
    received, out = ping(world.left, "10.2.0.77", "-i", "0.2", count=3)
    assert received == 0 and "Destination Host Unreachable" in out, out
    assert [it["state"] for it in router.json("ip -j neigh show") if it["dst"] == "10.2.0.77"][0] in (["FAILED"], ["INCOMPLETE"])
    received, out = ping(world.left, "172.16.0.1", count=1)
    assert "Destination Net Unreachable" in out, out
    router.ctl("route add prohibit 172.16.0.0/12")
    assert "Packet filtered" in ping(world.left, "172.16.0.1", count=1)[1]
    router.stop()


def test_several_ways_as_the_kernel_chooses(world):
    router = world.route(FILE + "sysctl net.ipv4.fib_multipath_hash_seed=7\n"
                         "route add 10.9.9.9 nexthop via 10.2.0.2 nexthop via 10.3.0.2\n")
    # The kernel as router on the same topology: a namespace with the same interfaces and the same seed.
    kernel = Namespace()
    try:
        for name, network in (("a", 1), ("b", 2), ("c", 3)):
            kernel.run(f"ip link add name {name} type veth peer name {name}far")
            kernel.run(f"ip link set dev {name} up")
            kernel.run(f"ip link set dev {name}far up")
            kernel.run(f"ip address add 10.{network}.0.1/24 dev {name}")
        kernel.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv4.fib_multipath_hash_policy=1 "
                   "net.ipv4.fib_multipath_hash_seed=7")
        kernel.run("ip route add 10.9.9.9 nexthop via 10.2.0.2 nexthop via 10.3.0.2")
        seen = set()
        for port in range(1000, 1032):
            words = f"route get 10.9.9.9 from 10.1.0.2 iif a ipproto udp sport {port} dport 53"
            theirs = json.loads(kernel.run(f"ip -j {words}"))[0]["gateway"]
            ours = router.json(f"ip -j {words}")[0]["gateway"]
            assert ours == theirs, (port, ours, theirs)
            seen.add(ours)
        assert len(seen) == 2, seen
        # And what packets do is what it says.
        before = {link["ifname"]: link["stats64"]["tx"]["packets"] for link in router.json("ip -s -j link")}
        expected = {"10.2.0.2": 0, "10.3.0.2": 0}
        with world.left.socket(socket.SOCK_DGRAM) as sender:
            sender.bind(("10.1.0.2", 0))
            source = sender.getsockname()[1]
            for port in range(2000, 2040):
                sender.sendto(b"x", ("10.9.9.9", port))
                words = f"route get 10.9.9.9 from 10.1.0.2 iif a ipproto udp sport {source} dport {port}"
                expected[json.loads(kernel.run(f"ip -j {words}"))[0]["gateway"]] += 1
        time.sleep(0.2)
        after = {link["ifname"]: link["stats64"]["tx"]["packets"] for link in router.json("ip -s -j link")}
        # One question for the address is sent, too.
        for name, gateway in (("b", "10.2.0.2"), ("c", "10.3.0.2")):
            assert 0 <= after[name] - before[name] - expected[gateway] <= 2, (before, after, expected)
    finally:
        kernel.process.kill()
        kernel.process.wait()
    router.stop()


MULTIPATH_HELPER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "multipath_kernel.py")
WEIGHTS = {"e0": 1, "e1": 3}
WEIGHTED = "route add 10.9.0.0/16 nexthop via 10.2.0.2 weight 1 nexthop via 10.3.0.2 weight 3"


def numbered_packets(count):
    """Lines for the helper: UDP, TCP and ICMP packets of as many flows, between addresses that come several times."""
    draw = random.Random(11)
    lines = []
    for number in range(1, count + 1):
        protocol = draw.choice((6, 17, 17, 1))
        source, target = f"10.1.0.{draw.randrange(3, 250)}", f"10.9.{draw.randrange(4)}.{draw.randrange(1, 250)}"
        ports = struct.pack("!HH", draw.randrange(1024, 65536), draw.choice((53, 443, 8080)))
        body = {6: ports + struct.pack("!IIHHHH", number, 0, 0x5010, 1000, 0, 0), 17: ports + struct.pack("!HH", 12, 0),
                1: struct.pack("!BBHHH", 8, 0, 0, number, 1)}[protocol] + struct.pack("!I", number)
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), number, 0, 64, protocol, 0)
        head += socket.inet_aton(source) + socket.inet_aton(target)
        total = sum(struct.unpack("!10H", head))
        total = (total & 0xffff) + (total >> 16)
        head = head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xffff) + head[12:]
        lines.append(f"{number} {(head + body).hex()}")
    return lines


def exits_of(hosts, lines):
    """By which exit each packet left the router that the cables of `hosts` lead to."""
    done = subprocess.run(hosts.command([sys.executable, MULTIPATH_HELPER, "frames", "in", *WEIGHTS]), input="\n".join(lines),
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


def far_ends(hosts):
    """All ends of the cables in one namespace, whose addresses are those of the next hops."""
    for name, network in (("in", 1), ("e0", 2), ("e1", 3)):
        hosts.run(f"ip address replace 10.{network}.0.2/24 dev {name}")
        hosts.run(f"ip link set dev {name} up")


def test_packets_of_many_flows_go_as_by_the_kernels_router(world):
    """The same frames through our router and a kernel's, with the same seed: the same exit, flow by flow."""
    kernel, hosts = Namespace(), Namespace()
    world.processes += [kernel.process, hosts.process]
    for name, network, end in (("a", 1, "in"), ("b", 2, "e0"), ("c", 3, "e1")):
        kernel.run(f"ip link add name {name} type veth peer name {end} netns {hosts.process.pid}")
        kernel.run(f"ip address add 10.{network}.0.1/24 dev {name}")
        kernel.run(f"ip link set dev {name} up")
    kernel.run("ip link set dev a address 02:00:00:00:09:01")
    kernel.run("sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.a.rp_filter=0")
    kernel.run(f"ip {WEIGHTED}")
    far_ends(hosts)
    ip("link set dev a address 02:00:00:00:09:01")
    world.left.run(f"ip link set dev e0 netns {world.right.process.pid} name in")
    far_ends(world.right)
    router = world.route(FILE + WEIGHTED + "\n")
    lines = numbered_packets(1200)
    policies = []
    for policy, seed in ((0, 7), (1, 7), (1, 8), (3, 7)):
        words = f"net.ipv4.fib_multipath_hash_policy={policy} net.ipv4.fib_multipath_hash_seed={seed}"
        kernel.run(f"sysctl -qw {words}")
        router.ctl(f"sysctl {words}")
        ours, theirs = exits_of(world.right, lines), exits_of(hosts, lines)
        assert len(theirs) == len(lines) and ours == theirs, [it for it in theirs.items() if ours.get(it[0]) != it[1]][:5]
        policies.append(ours)
        for name, weight in WEIGHTS.items():
            share = list(ours.values()).count(name) / len(lines)
            # Of 1,200 flows the share has a standard deviation of 1.25 %.
            assert abs(share - weight / 4) < 0.0625, (policy, seed, name, share)
    assert policies[0] != policies[1] != policies[2], "the policy and the seed change nothing"
    router.stop()


def test_an_mtu_that_changes_is_told(world):
    """Whoever sends what is too long hears of it, and does not wait for answers that never come."""
    router = world.route()
    assert ping(world.left, "10.2.0.2", "-s", "1400", "-M", "do")[0] == 3
    ip("link set dev b mtu 1300")
    world.right.run("ip link set e0 mtu 1300")
    until(lambda: router.json("ip -j link show")[1]["mtu"] == 1300)
    for target in ("10.2.0.2", "fd02::2"):
        received, out = ping(world.left, target, "-s", "1400", "-M", "do", count=2)
        assert received == 0 and "mtu 1300" in world.left.run(f"ip route get {target}"), out
    assert ping(world.left, "10.2.0.2", "-s", "1400", "-M", "dont")[0] == 3, "cut into fragments"
    ip("link set dev b mtu 1500")
    world.right.run("ip link set e0 mtu 1500")
    until(lambda: router.json("ip -j link show")[1]["mtu"] == 1500)
    world.left.run("ip route flush cache")
    assert ping(world.left, "10.2.0.2", "-s", "1400", "-M", "do")[0] == 3
    router.stop()


def test_an_interface_that_goes_down(world):
    router = world.route(FILE + "route add 10.9.9.9 nexthop via 10.2.0.2 nexthop via 10.3.0.2\n")
    assert ping(world.left, "10.9.9.9")[0] == 3
    world.right.run("ip link set e0 down")
    until(lambda: not router.json("ip -j link show")[1]["operstate"] == "UP")
    world.right.run("ip route add default via 10.3.0.1")
    received, out = ping(world.left, "10.9.9.9", count=10)
    assert received == 10, out
    world.right.run("ip link set e0 up")
    until(lambda: router.json("ip -j link show")[1]["operstate"] == "UP")
    world.right.run("ip link set e1 down")
    world.right.run("ip route replace default via 10.2.0.1")
    until(lambda: router.json("ip -j link show")[2]["operstate"] == "DOWN")
    received, out = ping(world.left, "10.9.9.9", count=10)
    assert received == 10, out
    router.stop()


def test_a_device_that_is_deleted_leaves_the_others(world):
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise Skip("/dev/net/tun is not for us")
    text = FILE.replace("dev c", "dev lan0")
    router = world.route(text, devices=("a", "b", "tap:lan0"))
    assert ping(world.left, "10.2.0.2")[0] == 3
    ip("link delete lan0")
    assert ping(world.left, "10.2.0.2", count=5)[0] == 5
    assert busy(router.process.pid) < 0.1, "it waits for a device that is gone, and never sleeps"
    assert "lan0 has gone away" in router.stop()


def test_an_interface_that_goes_down_at_the_end_is_waited_for(world):
    router = world.route(FILE + "tc qdisc add dev b root netem delay 1500ms\n", ["--drain", "5s"])
    ping(world.left, "10.2.0.2", count=1)
    router.ctl("stop")
    ip("link set dev a down")
    assert busy(router.process.pid) < 0.1, "of an error that nobody hears it is told for ever"
    router.process.communicate(timeout=10)
    assert router.process.returncode == 0


def test_without_any_device_it_is_over(world):
    """Whoever started it is to hear of that: a service is started again."""
    router = world.route("address add 10.1.0.1/24 dev a\naddress add 10.2.0.1/24 dev b\n", devices=("a", "b"))
    ip("link delete dev a")
    time.sleep(0.3)
    assert router.process.poll() is None, "it goes on with the other"
    ip("link delete dev b")
    _, err = router.process.communicate(timeout=10)
    assert router.process.returncode == 1 and "all devices have gone away" in err, (router.process.returncode, err)


def renamed(world, router):
    """Takes `b` through another name, and puts another interface in its place; traffic passes all the time."""
    ip("link set dev b down")
    ip("link set dev b name far")
    ip("link set dev far up")
    until(lambda: router.json("ip -j link show")[1]["operstate"] == "UP")
    until(lambda: ping(world.left, "10.2.0.2", count=1)[0] == 1)
    ip("link add name b type veth peer name other")
    ip("link set dev b up")
    ip("link delete dev b")
    received, out = ping(world.left, "10.2.0.2", count=5)
    assert received == 5, out
    ip("link set dev far name b")
    received, out = ping(world.left, "10.2.0.2", count=5)
    assert received == 5, out
    assert "gone away" not in router.stop()


def test_an_interface_that_is_renamed_stays(world):
    renamed(world, world.route())


def test_an_interface_that_is_renamed_stays_where_the_kernels_routes_are_followed(world):
    for name, network in (("a", 1), ("b", 2)):
        ip(f"address add 10.{network}.0.1/24 dev {name}")
    subprocess.run(["sysctl", "-qw", "net.ipv4.ip_forward=0"], check=True)
    router = world.route(None, ["--import-kernel"])
    assert ping(world.left, "10.2.0.2")[0] == 3
    renamed(world, router)


def test_by_af_xdp_we_are_called_as_the_interface_is(world):
    try:
        router = world.route(devices=("xdp:a", "b", "c"))
    except AssertionError as error:
        raise Skip(f"no AF_XDP: {error}")
    own = json.loads(subprocess.run(["ip", "-j", "link", "show", "dev", "a"], capture_output=True).stdout)[0]["address"]
    world.left.run("ethtool -K e0 tx off")
    assert ping(world.left, "10.2.0.2")[0] == 3
    assert f"lladdr {own}" in world.left.run("ip neigh show 10.1.0.1"), "a frame for another address may be filtered"
    router.stop()


def test_the_kernels_routes_are_followed(world):
    for name, network in (("a", 1), ("b", 2), ("c", 3)):
        ip(f"address add 10.{network}.0.1/24 dev {name}")
    subprocess.run(["sysctl", "-qw", "net.ipv4.ip_forward=0"], check=True)
    router = world.route(None, ["--import-kernel"])
    assert ping(world.left, "10.2.0.2")[0] == 3, "the kernel does not forward, we do"
    assert ping(world.left, "10.1.0.1")[0] == 3, "it answers for its addresses"
    ip("route add 10.9.9.9 via 10.2.0.2")
    until(lambda: router.json("ip -j route get 10.9.9.9")[0].get("gateway") == "10.2.0.2")
    assert ping(world.left, "10.9.9.9")[0] == 3
    ip("route replace 10.9.9.9 via 10.3.0.2")
    until(lambda: router.json("ip -j route get 10.9.9.9")[0].get("gateway") == "10.3.0.2")
    ip("route del 10.9.9.9")
    until(lambda: "10.9.9.9" not in router.ctl("ip route show"))
    ip("nexthop add id 7 via 10.2.0.2 dev b")
    ip("route add 10.9.9.9 nhid 7")
    until(lambda: router.json("ip -j route get 10.9.9.9")[0].get("gateway") == "10.2.0.2")
    # More changes than a socket holds: whatever is missed is dumped.
    batch = "\n".join(f"route add 10.{64 + n // 250}.{n % 250}.0/24 via 10.2.0.2" for n in range(4000))
    subprocess.run(["ip", "-batch", "-"], input=batch, text=True, check=True)
    until(lambda: router.json("show -j")["routes"] > 4000, 10)
    ip("link set dev c down")
    until(lambda: "10.3.0.0/24" not in router.ctl("ip route show"))
    try:
        router.ctl("ip route add 10.8.0.0/16 via 10.2.0.2")
        raise AssertionError("routes of the kernel's were changed")
    except ValueError as error:
        assert "ip(8)" in str(error)
    router.stop()


def test_a_file_is_read_again_or_refused(world):
    router = world.route(FILE + "tc qdisc add dev b root cake bandwidth 50mbit\n")
    router.write(FILE + "route add 10.8.0.0/16 via 10.2.0.2\ntc qdisc add dev b root cake bandwidth 20mbit\n")
    router.ctl("reload")
    assert "10.8.0.0/16 via 10.2.0.2 dev b" in router.ctl("ip route show")
    assert router.json("tc -s -j qdisc show dev b")[0]["options"]["bandwidth"] == 2_500_000
    router.write(FILE + "route add 10.8.0.0/16 vai 10.2.0.2\n")
    try:
        router.ctl("reload")
        raise AssertionError("nonsense was taken")
    except ValueError as error:
        assert ":7:23: " in str(error), error
    assert "10.8.0.0/16 via 10.2.0.2 dev b" in router.ctl("ip route show"), "the old one stays"
    assert ping(world.left, "10.2.0.2")[0] == 3
    router.stop()


def test_frames_of_any_kind_are_survived(world):
    router = world.route()
    assert ping(world.left, "10.2.0.2", count=1)[0] == 1
    flood = """
import os, random, socket
random.seed(5)
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
    wire.bind(("e0", 0))
    mac = open("/proc/net/arp").read().split("10.1.0.1")[1].split()[2]
    us = bytes.fromhex(mac.replace(":", ""))
    kinds = [b"\\x08\\x06", b"\\x86\\xdd", b"\\x08\\x00", b"\\x81\\x00", b"\\x88\\xcc"]
    heads = [b"\\x00\\x01\\x08\\x00\\x06\\x04\\x00\\x01", b"\\x60\\x00\\x00\\x00\\x00\\x20\\x3a\\xff", b"\\x45\\x00\\x00\\x54", b"", b""]
    for _ in range(20000):
        which = random.randrange(5)
        body = heads[which] + os.urandom(random.randrange(0, 120))
        to = random.choice([us, b"\\xff" * 6, b"\\x33\\x33\\xff\\x00\\x00\\x01"])
        wire.send(to + os.urandom(6) + kinds[which] + body)
"""
    world.left.run([sys.executable, "-c", flood])
    assert ping(world.left, "10.2.0.2")[0] == 3
    assert router.process.poll() is None
    router.stop()


if __name__ == "__main__":
    sys.exit(run_tests("route", globals(), World))
