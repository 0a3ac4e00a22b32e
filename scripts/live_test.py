#!/usr/bin/env python3
"""Tests `ackwright shape` between real programs, in network namespaces of its own.

usage: scripts/live_test.py BINARY [NAME...]

Three namespaces: left, middle, right, joined by veths. In the middle the program shapes between `a` and `b`.
Where no namespace can be made, it says so loudly ("SKIPPED: ...") and ends with success.
"""

import hashlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request

from namespaces import Namespace, Skip, ip, run_tests

LEFT, RIGHT = "10.9.0.1", "10.9.0.2"
HEADERS = 14 + 20 + 32  # Ethernet, IPv4, TCP with timestamps


class World:
    """left -- a [the program] b -- right"""

    def __init__(self, binary, folder):
        self.binary, self.folder, self.number = binary, folder, 0
        self.left, self.right = Namespace(), Namespace()
        self.join(self.left, "a", LEFT)
        self.join(self.right, "b", RIGHT)

    def join(self, namespace, name, address):
        ip(f"link add name {name} type veth peer name e0 netns {namespace.process.pid}")
        with open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w") as file:
            file.write("1")
        ip(f"link set dev {name} up")
        namespace.run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1")
        namespace.run(f"ip address add {address}/24 dev e0")
        namespace.run("ip link set e0 up")
        time.sleep(0.05)

    def shape(self, *arguments, between=("a", "b")):
        return Shape(self, between, arguments)

    def close(self):
        for namespace in (self.left, self.right):
            namespace.process.kill()
            namespace.process.wait()


class Shape:
    """A running `ackwright shape`."""

    def __init__(self, world, between, arguments):
        world.number += 1
        self.binary = world.binary
        self.ctl_path = os.path.join(world.folder, f"ctl{world.number}")
        self.capture = os.path.join(world.folder, f"sent{world.number}.pcapng")
        where = ["--between", *between] if between else []
        command = [world.binary, "shape", *where, "--json", "--ctl", self.ctl_path, *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        self.said = line
        while line.startswith("note: "):
            line = self.process.stderr.readline()
            self.said += line
        assert line.startswith("shaping between"), line + self.process.stderr.read()

    def ctl(self, *words):
        return subprocess.run([self.binary, "ctl", "--ctl", self.ctl_path, *words], capture_output=True, text=True)

    def stop(self, how=signal.SIGTERM, code=0):
        """Ends it; the account, in which nothing may be missing."""
        if how:
            self.process.send_signal(how)
        out, err = self.process.communicate(timeout=20)
        assert self.process.returncode == code, (self.process.returncode, err)
        account = json.loads(out)
        for direction in account["directions"]:
            assert direction["unaccounted"] == 0, direction
        account["error"] = err
        return account


def transfer(world, size, port=5001, source=None, target=RIGHT):
    """Sends random bytes by TCP from left to right; both ends' digests, and the seconds it took."""
    listener = world.right.socket(socket.SOCK_STREAM) if source is None else source[1](socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((target, port))
    listener.listen()
    got = hashlib.sha256()

    def take():
        connection, _ = listener.accept()
        with connection:
            while piece := connection.recv(1 << 16):
                got.update(piece)

    taker = threading.Thread(target=take)
    taker.start()
    data = os.urandom(size)
    begun = time.monotonic()
    with (world.left.socket(socket.SOCK_STREAM) if source is None else source[0](socket.SOCK_STREAM)) as sender:
        sender.settimeout(30)
        sender.connect((target, port))
        sender.sendall(data)
    taker.join(timeout=60)
    listener.close()
    assert got.hexdigest() == hashlib.sha256(data).hexdigest(), "what arrives is not what was sent"
    return time.monotonic() - begun


def frames(capture):
    """(interface, ns, length on the wire, bytes) of each frame of a pcapng file."""
    data = open(capture, "rb").read()
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:
            interface, high, low, kept, wire = struct.unpack_from("<IIIII", data, at + 8)
            yield interface, high << 32 | low, wire, data[at + 28:at + 28 + kept]
        at += length


def check_rate(capture, interface, rate, slack):
    """Over no stretch was more sent than the rate allows, but for a packet and for how late we were."""
    deepest = credit = 0.0
    last = None
    for _, nanos, wire, _ in (frame for frame in frames(capture) if frame[0] == interface):
        if last is not None:
            credit = min(0.0, credit + (nanos - last) * rate / 8e9)
        credit -= wire
        deepest, last = min(deepest, credit), nanos
    allowed = 1514 + rate / 8 * slack
    assert -deepest <= allowed, f"a burst of {-deepest:.0f} bytes at {rate} bit/s, {allowed:.0f} are allowed"


# Tests: each gets a fresh world.


def test_a_file_arrives_whole(world):
    shape = world.shape("--ab", "cake bandwidth 50mbit", "--ba", "cake bandwidth 5mbit ack-filter")
    took = transfer(world, 4 << 20)
    account = shape.stop()
    assert took > (4 << 20) * 8 / 50e6, f"faster than the rate: {took} s"
    forth, back = account["directions"]
    assert forth["taken_packets"] > 2800 and back["taken_packets"] > 50, account
    assert forth["refused"] == back["refused"] == 0, account


def test_any_tree_and_super_packets_are_cut(world):
    queues = os.path.join(world.folder, "queues.tc")
    with open(queues, "w") as file:
        file.write("tc qdisc add dev b root handle 1: tbf rate 40mbit burst 10k limit 100k  # outer\n\n"
                   "qdisc add dev b parent 1:1 handle 10: fq_codel\n")
    shape = world.shape("--tc", queues, "--capture", os.path.join(world.folder, "tree.pcapng"))
    transfer(world, 2 << 20)
    shape.stop()
    longest = max(wire for _, _, wire, _ in frames(os.path.join(world.folder, "tree.pcapng")))
    assert longest == 1514, f"a frame of {longest} bytes"


def test_datagrams_stay_in_order(world):
    # A veth pair keeps the order of one core only: who sends from another core in between may be
    # overtaken in the kernel. So everything runs on one.
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        datagrams_stay_in_order(world)
    finally:
        os.sched_setaffinity(0, cores)


def datagrams_stay_in_order(world):
    # A queue that drops for no delay: how late the loop is must not matter.
    shape = world.shape("--ab", "tbf rate 100mbit burst 20k limit 1m")
    receiver, sender = world.right.socket(socket.SOCK_DGRAM), world.left.socket(socket.SOCK_DGRAM)
    receiver.bind((RIGHT, 9))
    receiver.settimeout(5)
    got = []
    for number in range(1500):
        sender.sendto(struct.pack(">I", number) + bytes(1000), (RIGHT, 9))
        if number % 50 == 49:
            got += [struct.unpack(">I", receiver.recv(2000)[:4])[0] for _ in range(50)]
    assert got == list(range(1500)), "out of order"
    account = shape.stop()
    assert account["directions"][0]["dropped"] == {}, account


def test_the_viewer_hears_of_it(world):
    """`ackwright view` at the control socket: events that agree with `ctl show`, and one when it is gone."""
    shape = world.shape("--ab", "cake bandwidth 50mbit diffserv4")
    ip("link set lo up")  # in the namespace of this test
    view = subprocess.Popen([world.binary, "view", shape.ctl_path, "--no-open"], stdout=subprocess.PIPE, text=True)
    try:
        with urllib.request.urlopen(view.stdout.readline().strip() + "live", timeout=20) as stream:
            assert stream.headers["Content-Type"] == "text/event-stream", stream.headers
            low = event(stream)[1]["account"]["directions"][0]["taken_packets"]
            transfer(world, 1 << 20)
            sent = json.loads(shape.ctl("show", "-j").stdout)["directions"][0]["taken_packets"]
            assert sent > low + 700, (low, sent)
            # The stream has what happened before it was read: at most some events of the time of the transfer.
            states = (event(stream)[1] for _ in range(20))
            state = next(state for state in states if state["account"]["directions"][0]["taken_packets"] >= sent)
            cake = next(it for it in state["tc"] if it["dev"] == "b")
            assert len(cake["tins"]) == 4 and sum(tin["sent_packets"] for tin in cake["tins"]) >= 700, cake
            shape.stop()
            assert "gone" in (event(stream)[0] for _ in range(20)), "nothing said that it is gone"
    finally:
        view.send_signal(signal.SIGINT)
        view.wait(timeout=10)


def event(stream):
    """The next server-sent event: its kind, and its data as JSON."""
    kind, data = "message", None
    while line := stream.readline().decode().rstrip("\n"):
        name, _, value = line.partition(": ")
        kind, data = (value, data) if name == "event" else (kind, json.loads(value))
    return kind, data


def iperf(world, seconds, how="-P 4"):
    """bit/s of payload that arrives on the right: of four connections, or as `how` says."""
    server = subprocess.Popen(world.right.command("iperf3 -s -1"), stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    client = world.left.run(f"iperf3 -c {RIGHT} -J -t {seconds} -O 1 {how}")
    server.wait(timeout=10)
    return json.loads(client)["end"]["sum_received"]["bits_per_second"]


# Datagrams at twice the rate: whatever TCP does, the queue is never empty.
DATAGRAM = 1448


def datagrams(world, seconds, mbit):
    """bit/s of payload of datagrams sent at twice `mbit`, and what fits into that rate."""
    found = iperf(world, seconds, f"-u -l {DATAGRAM} -b {2 * mbit}M")
    return found, mbit * 1e6 * DATAGRAM / (DATAGRAM + 14 + 20 + 8)


def resident(pid):
    """Memory of a process that lies in RAM, bytes."""
    return int(open(f"/proc/{pid}/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def check_cake(world, mbit):
    if subprocess.run(["which", "iperf3"], capture_output=True).returncode != 0:
        raise Skip("no iperf3; scripts/needs.sh installs it")
    # The rate must hold in one of three runs, because others use the machine; the upper bound in each.
    for attempt in range(3):
        sent = os.path.join(world.folder, f"rate{mbit}-{attempt}.pcapng")
        shape = world.shape("--ab", f"cake bandwidth {mbit}mbit", "--capture", sent)
        found, wanted = datagrams(world, 4, mbit)
        late = shape.stop()["late"]
        # Twice: it may be kept from running again while it makes up for the first time.
        check_rate(sent, 1, mbit * 1e6, 2 * late["max_us"] * 1e-6 + 0.0005)
        print(f"    cake {mbit} Mbit/s: goodput {found / 1e6:.3f}, wanted {wanted / 1e6:.3f}; late p50 "
              f"{late['p50_us']:.0f} us, p99 {late['p99_us']:.0f}, worst {late['max_us']:.0f}", flush=True)
        if abs(found / wanted - 1) < 0.01:
            return
    raise AssertionError(f"{found / 1e6:.3f} Mbit/s, wanted are {wanted / 1e6:.3f}")


def test_cake_at_10_mbit(world):
    check_cake(world, 10)


def test_cake_at_100_mbit(world):
    check_cake(world, 100)


def test_changes_at_run_time(world):
    shape = world.shape("--ab", "cake bandwidth 100mbit", "--ba", "pfifo limit 500")
    shown = json.loads(shape.ctl("tc", "-s", "-j", "qdisc", "show", "dev", "b").stdout)
    assert shown[0]["kind"] == "cake" and shown[0]["options"]["bandwidth"] == 12_500_000, shown
    assert shape.ctl("tc", "qdisc", "change", "dev", "b", "root", "cake", "bandwidth", "8mbit").returncode == 0
    took = transfer(world, 1 << 20)
    assert took > 1.0, f"{took} s for 8 Mbit at 8 Mbit/s"
    wrong = shape.ctl("tc", "qdisc", "change", "dev", "b", "root", "cake", "bandwith", "8mbit")
    assert wrong.returncode == 2 and "did you mean" in wrong.stderr and "^" in wrong.stderr, wrong
    assert shape.ctl("tc", "qdisc", "show", "dev", "c").returncode == 2
    assert "bandwidth 8Mbit" in shape.ctl("tc", "-s", "qdisc", "show").stdout
    assert "packets received" in shape.ctl("show").stdout
    assert shape.ctl("stop").returncode == 0
    account = shape.stop(how=None)
    assert account["directions"][0]["sent_packets"] > 700, account
    assert not os.path.exists(shape.ctl_path), "the socket is left"


def flood(world, count):
    sender = world.left.socket(socket.SOCK_DGRAM)
    for _ in range(count):
        sender.sendto(bytes(1400), (RIGHT, 9))
        time.sleep(0.0005)
    time.sleep(0.1)


def test_what_a_change_discards_is_counted(world):
    shape = world.shape("--ab", "tbf rate 200kbit burst 3k limit 1m", "--drain", "0")
    flood(world, 100)
    assert shape.ctl("tc", "qdisc", "replace", "dev", "b", "root", "pfifo").returncode == 0
    account = shape.stop()
    forth = account["directions"][0]
    assert forth["dropped"].get("QUEUE_PURGE", 0) > 50, forth


def test_the_end_drains_and_counts_the_rest(world):
    shape = world.shape("--ab", "tbf rate 400kbit burst 3k limit 1m", "--drain", "500ms")
    flood(world, 100)
    begun = time.monotonic()
    account = shape.stop(how=signal.SIGINT)
    took = time.monotonic() - begun
    forth = account["directions"][0]
    assert 0.45 < took < 2 and forth["left"] > 20, (took, forth)


def test_vlan_tags_pass(world):
    vlan_tags_pass(world, "a")
    vlan_tags_pass(world, "ring:a")


def vlan_tags_pass(world, device):
    sent = os.path.join(world.folder, "vlan.pcapng")
    shape = world.shape("--ab", "cake bandwidth 50mbit", "--capture", sent, between=(device, "b"))
    tagged = bytes.fromhex("ffffffffffff" "020000000001" "8100" "2007" "88b5") + bytes(range(100))
    sender = world.left.socket(socket.SOCK_RAW, socket.AF_PACKET)
    sender.bind(("e0", 0))
    sender.send(tagged)
    time.sleep(0.2)
    shape.stop()
    assert tagged in [frame for _, _, _, frame in frames(sent)], "the kernel takes a tag out; it is not put back"


def checksum(data):
    words = struct.unpack(f">{len(data) // 2}H", data[:len(data) // 2 * 2])
    total = sum(words) + (data[-1] << 8 if len(data) % 2 else 0)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def hostile_packets(seed, count):
    """IP packets of every kind, most of them broken: (EtherType, bytes). The same for the same seed."""
    draw = random.Random(seed)
    for _ in range(count):
        kind = draw.choice((6, 17, 1, 58, draw.randrange(256)))
        body = bytearray(draw.randbytes(draw.choice((0, 3, 8, 20, 40, draw.randrange(1400)))))
        if kind == 6 and len(body) >= 20:
            struct.pack_into(">HHIIBB", body, 0, 5000, 5201, draw.getrandbits(32), draw.getrandbits(32),
                             draw.choice((0x50, 0x60, 0xF0, draw.randrange(256))), draw.randrange(256))
        if draw.random() < 0.7:
            header = bytearray(struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(body), draw.randrange(65536),
                                           draw.choice((0, 0x4000, 0x2000, draw.randrange(65536))), 64, kind, 0,
                                           socket.inet_aton(LEFT), socket.inet_aton(RIGHT)))
            struct.pack_into(">H", header, 10, checksum(header))
            protocol = 0x0800
        else:
            header = bytearray(struct.pack(">IHBB", 0x60000000, len(body), draw.choice((kind, 0, 43, 44, 60)), 64))
            header += draw.randbytes(32)
            protocol = 0x86DD
        packet = header + body
        for _ in range(draw.choice((0, 0, 1, 4))):
            packet[draw.randrange(len(packet))] = draw.randrange(256)
        if draw.random() < 0.1:
            del packet[draw.randrange(1, len(packet)):]
        yield protocol, bytes(packet)


def test_hostile_frames_from_the_wire(world):
    """Whatever comes: no panic, all accounted for, and honest traffic goes on."""
    ways = [("a", "b"), ("ring:a", "ring:b")]
    if can_bpf():
        ways += [("xdp:a,native", "xdp:b,native"), ("xdp:a,generic", "b")]
        whole_checksums(world)
    for number, between in enumerate(ways):
        shape = world.shape("--ab", "cake bandwidth 200mbit ack-filter split-gso", "--ba", "fq_codel", between=between)
        sender = world.left.socket(socket.SOCK_RAW, socket.AF_PACKET)
        sender.bind(("e0", 0))
        addresses = b"\xff" * 6 + b"\x02\0\0\0\0\x01"
        sent = 0
        for protocol, packet in hostile_packets(number, 5000):
            tags = (b"", b"", b"\x81\0\0\x07", b"\x88\xa8\0\x07\x81\0\0\x08")[sent % 4]
            try:
                sender.send(addresses + tags + protocol.to_bytes(2, "big") + packet)
                sent += 1
            except OSError:
                pass  # the kernel's own device refuses it
        time.sleep(0.2)
        transfer(world, 1 << 18, port=5001 + number)
        forth = shape.stop()["directions"][0]
        seen = forth["taken_packets"] + sum(forth["lost"].values())
        assert sent > 4500 and seen >= sent, (sent, forth)


def test_hostile_packets_to_an_endpoint(world):
    """Through the TUN device into our TCP stack, which goes on serving."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise Skip("/dev/net/tun is not for us")
    if subprocess.run(["which", "iperf3"], capture_output=True).returncode != 0:
        raise Skip("no iperf3; scripts/needs.sh installs it")
    server = subprocess.Popen([world.binary, "iperf", "-s", "--dev", "ackh0", "--address", "10.78.0.2", "--kernel",
                               "10.78.0.1/24"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for _ in range(100):
            if subprocess.run(["ip", "link", "show", "dev", "ackh0", "up"], capture_output=True).stdout:
                break
            time.sleep(0.05)
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
        source, target = socket.inet_aton("10.78.0.1"), socket.inet_aton("10.78.0.2")
        for number, (protocol, packet) in enumerate(hostile_packets(7, 10000)):
            if protocol == 0x0800 and len(packet) >= 20 and number % 8:
                packet = bytearray(packet[:12] + source + target + packet[20:])
                packet[10:12] = b"\0\0"
                packet[10:12] = checksum(packet[:20]).to_bytes(2, "big")
            try:
                sender.sendto(bytes(packet), ("ackh0", protocol))
            except OSError:
                pass
        client = subprocess.run("iperf3 -c 10.78.0.2 -t 1 -J".split(), capture_output=True, text=True, timeout=30)
        assert client.returncode == 0 and server.poll() is None, (client.stdout[-600:], client.stderr)
        assert json.loads(client.stdout)["end"]["sum_received"]["bytes"] > 1 << 18, client.stdout[-600:]
    finally:
        server.terminate()
        said = server.communicate(timeout=20)[0]
    assert "panicked" not in said, said


def can_bpf():
    return open("/proc/self/uid_map").read().split() == ["0", "0", "4294967295"]


def needs_bpf():
    if not can_bpf():
        raise Skip("BPF is not for user namespaces")


def whole_checksums(world):
    """XDP sees frames without what the kernel knows of them: checksums have to be in them."""
    for namespace in (world.left, world.right):
        namespace.run("ethtool -K e0 tx off tso off gso off gro off")


def test_after_kill_9_the_next_start_cleans(world):
    shape = world.shape()
    shape.process.kill()
    shape.process.wait()
    assert os.path.exists(shape.ctl_path)
    world.number -= 1
    again = world.shape("--ab", "cake bandwidth 50mbit")
    transfer(world, 1 << 18)
    again.stop()


def test_fail_open_and_closed(world):
    """However it ends: open, the kernel passes packets on; closed, nothing passes."""
    needs_bpf()

    def passes():
        world.left.run("ip neighbour flush dev e0")
        return subprocess.run(world.left.command(f"ping -c 2 -i 0.2 -W 1 {RIGHT}"), capture_output=True)

    assert passes().returncode != 0, "there is a way round"
    tried = subprocess.run([world.binary, "shape", "--between", "a", "b", "--fail", "open", "--ab", "nothing"],
                           capture_output=True, text=True)
    assert tried.returncode == 2 and passes().returncode != 0, "what is refused changes nothing"
    shape = world.shape("--fail", "open")
    replies = passes().stdout.decode()
    assert "2 received" in replies and "DUP" not in replies, replies
    shape.process.kill()
    shape.process.wait()
    replies = passes().stdout.decode()
    assert "2 received" in replies and "DUP" not in replies, replies
    shape = world.shape()
    assert passes().returncode == 0
    shape.stop()
    assert passes().returncode != 0, "closed, and packets pass"


def test_nobody_reads_what_is_said(world):
    """Neither the messages nor the final table: no panic, and the exit code is that of what happened."""
    shape = world.shape()
    shape.process.stderr.close()
    shape.process.stdout.close()
    ip("link delete dev a")
    assert shape.process.wait(timeout=10) == 1, shape.process.returncode
    nowhere = subprocess.Popen([world.binary, "shape", "--between", "b", "nowhere"], stderr=subprocess.PIPE)
    nowhere.stderr.close()
    assert nowhere.wait(timeout=10) == 2, nowhere.returncode
    full = subprocess.run([world.binary, "ctl", "--ctl", "/nowhere", "show"], stderr=open("/dev/full", "w"))
    assert full.returncode == 1, full


def refused(world, words, *expected):
    done = subprocess.run([world.binary, "shape", *words], capture_output=True, text=True, timeout=10)
    assert done.returncode == 2, (words, done)
    for text in expected:
        assert text in done.stderr, (words, text, done.stderr)


def test_mistakes_are_told(world):
    pair = ["--between", "a", "b"]
    refused(world, ["--between", "a", "nowhere"], "nowhere: no such interface")
    refused(world, ["--between", "a", "a"], "both devices are a")
    refused(world, pair + ["--ab", "cake bandwith 5mbit"], "--ab:6:", "did you mean", "^")
    refused(world, pair + ["--drain", "soon"], "--drain")
    refused(world, ["--between", "a", "file:/nowhere"], "two files are needed")
    refused(world, ["--between", "a,fanout=0", "b"], "fanout=N", "from 1 to 256")
    refused(world, ["--between", "a,queues=2", "b"], "unknown option \"queues=2\": valid is fanout=N")
    refused(world, ["--between", "a", "tap:lan0,queues=300"], "queues=N", "from 1 to 256")
    for name in ("tap:", "tap:averyverylongname", "tun:x%d", "tap:a/b"):
        refused(world, ["--between", name, "b"], "the name of a device has 1 to 15 bytes")
    refused(world, ["--between", "xdp:a,fast", "b"], "xdp:a: unknown option \"fast\"", "native or generic")
    refused(world, ["--dev", "a", "--between", "a", "b"], "cannot be used with")
    refused(world, ["--dev", "nowhere"], "nowhere: no such interface")
    ip("link set dev b mtu 1400")
    refused(world, pair, "b of 1400", "ip link set a mtu 1400")
    ip("link set dev b mtu 1500")
    ip("link set dev b down")
    refused(world, pair, "b: the interface is down")
    ip("link set dev b up")
    ip("link add br0 type bridge")
    ip("link set dev b master br0")
    refused(world, pair, "belongs to a kernel bridge")
    ip("link delete br0")
    shape = world.shape()
    refused(world, pair, "another ackwright uses this interface")
    shape.stop()
    if os.path.exists("/usr/bin/setpriv"):
        unable = ["setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw", world.binary, "shape", *pair]
        done = subprocess.run(unable, capture_output=True, text=True)
        assert done.returncode == 2 and "CAP_NET_RAW" in done.stderr, done


if __name__ == "__main__":
    sys.exit(run_tests("live", globals(), World))
