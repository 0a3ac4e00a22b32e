#!/usr/bin/env python3
"""Tests our TCP endpoints (`ackwright iperf`, `ackwright proxy`) against the kernel's TCP.

usage: [SCALE=N] scripts/endpoint_test.py BINARY [NAME...]

    left [ackwright's stack - TUN - the kernel, which routes] -- a [ackwright shape] b -- right [the kernel]

The namespaces are those of live_test.py; impairments are netem of `ackwright shape`. Bytes are random and are
compared by their digests; what the kernel counts as wrong must stay 0. With SCALE they are N times as many: `make live-bench`
moves gigabytes.
"""

import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from live_test import RIGHT, World, resident
from namespaces import Skip, libc, run_tests

OURS = "10.77.0.2"
SCALE = int(os.environ.get("SCALE", "1"))
ALGORITHMS = ("reno", "cubic", "bbr")
# What no peer of ours may bring the kernel to count.
WRONG = ("TcpInErrs", "TcpInCsumErrors", "IpInHdrErrors", "TcpExtTCPChallengeACK", "TcpExtTCPSYNChallenge",
         "TcpExtTCPMD5Failure", "TcpExtPAWSEstab", "TcpExtTCPWqueueTooBig", "TcpExtTCPBacklogDrop")
# A SYN or an RST that comes twice is answered, and counted, so: a copy of the network's, or a SYN-ACK sent again because
# the kernel's ACK of the first was lost. An ACK that others have overtaken is old by its time stamp.
CHALLENGES = ("TcpExtTCPChallengeACK", "TcpExtTCPSYNChallenge", "TcpInErrs")
OVERTAKEN = ("TcpExtPAWSEstab",)


class Endpoints(World):
    def __init__(self, binary, folder):
        super().__init__(binary, folder)
        if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
            self.close()
            raise Skip("/dev/net/tun is not for us")
        self.left.run("sysctl -qw net.ipv4.ip_forward=1")
        self.right.run("ip route add 10.77.0.0/24 via 10.9.0.1")
        for namespace in (self.left, self.right):
            # Loss of a super-packet would be the loss of all that is in it.
            namespace.run("ethtool -K e0 tso off gso off gro off")
        self.programs = []

    def start(self, *words, ready):
        """A program of ours in the left namespace, once it says that it is ready."""
        command = self.left.command([self.binary, *map(str, words)])
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.programs.append(process)
        line = process.stderr.readline() if ready else ""
        assert line.startswith(ready), line + process.stderr.read()
        return process

    def proxy(self, role, *words):
        if role == "listens":
            ends = ("--listen", f"{OURS}:7000", "--to", "127.0.0.1:7001")
        else:
            ends = ("--listen", "127.0.0.1:7000", "--to", f"{RIGHT}:7001")
        return self.start("proxy", *ends, "--json", *words, ready="proxying connections")

    def client(self, role):
        """A socket that reaches the proxy."""
        made = (self.right if role == "listens" else self.left).socket(socket.SOCK_STREAM)
        made.settimeout(20)
        return made, (OURS if role == "listens" else "127.0.0.1", 7000)

    def server(self, role):
        made = (self.left if role == "listens" else self.right).socket(socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1" if role == "listens" else RIGHT, 7001))
        made.listen()
        made.settimeout(20)
        return made

    def wrong(self, provoked=()):
        """What the kernel on the right has counted as wrong."""
        counters = {}
        for line in self.right.run("nstat -asz").splitlines():
            words = line.split()
            if len(words) == 3 and words[0] in WRONG and words[0] not in provoked and int(words[1]):
                counters[words[0]] = int(words[1])
        return counters

    def close(self):
        for process in getattr(self, "programs", []):
            process.kill()
            process.wait()
        super().close()


def finish(process, code=0):
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    assert process.returncode == code, (process.returncode, err)
    return json.loads(out) if out else {}


def set_congestion(sock, algorithm):
    """Sets it, and reads it back: this machine's default may be anything."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
    found = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
    assert found == algorithm, found


def known(algorithm):
    available = open("/proc/sys/net/ipv4/tcp_available_congestion_control").read().split()
    return algorithm in available


def pump(sock, size, result, pause=0.0):
    """Sends random bytes and receives at the same time; digests go to `result`."""
    sent, got = hashlib.sha256(), hashlib.sha256()

    def send():
        left = size
        while left > 0:
            piece = os.urandom(min(left, 1 << 16))
            sock.sendall(piece)
            sent.update(piece)
            left -= len(piece)
        sock.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    time.sleep(pause)
    count = 0
    while piece := sock.recv(1 << 17):
        got.update(piece)
        count += len(piece)
    sender.join()
    result.append((sent.hexdigest(), got.hexdigest(), count))
    sock.close()


def exchange(world, role, size, algorithm="cubic", pause=0.0, both=True):
    """Random bytes both ways through the proxy; the seconds it took."""
    listener = world.server(role)
    client, address = world.client(role)
    kernels = client if role == "listens" else listener
    set_congestion(kernels, algorithm)
    begun = time.monotonic()
    client.connect(address)
    server, _ = listener.accept()
    server.settimeout(20)
    client.settimeout(20)
    if role == "connects":
        set_congestion(server, algorithm)
    at_client, at_server = [], []
    other = threading.Thread(target=pump, args=(server, size if both else 1, at_server, pause))
    other.start()
    pump(client, size, at_client)
    other.join()
    listener.close()
    assert at_client and at_server, "an end has failed: " + str([finish(it) for it in world.programs if it.poll() is None])
    (forth, back_got, back_count), (back, forth_got, count) = at_client[0], at_server[0]
    assert forth == forth_got and back == back_got, (role, algorithm, count, "bytes differ")
    if SCALE > 1:
        print(f"    {(back_count + count) / 1e6:.0f} MB are the same at both ends", flush=True)
    return time.monotonic() - begun


def with_impairment(world, ab, ba, size, provoked=(), ecn=None):
    shape = world.shape("--ab", ab, "--ba", ba, "--drain", "0")
    for role in ("listens", "connects"):
        for algorithm in filter(known, ALGORITHMS):
            words = ["--cc", "cubic", "--no-offload"] + (["--set", "tcp_ecn=1"] if ecn else [])
            proxy = world.proxy(role, *words)
            took = exchange(world, role, size, algorithm)
            done = finish(proxy)
            assert done["failed"] == 0 and done["open"] == 0, done
            print(f"    ours {role}, kernel's {algorithm}: {2 * size / took / 125e3:.1f} Mbit/s, we sent again "
                  f"{done['retransmits']}", flush=True)
    # Its account is not that of packets that netem has doubled.
    shape.process.terminate()
    shape.process.communicate(timeout=20)
    wrong = world.wrong(provoked)
    assert not wrong, wrong


# Tests: each gets a fresh world.

def test_both_roles_and_all_algorithms(world):
    with_impairment(world, "pfifo", "pfifo", SCALE * (4 << 20))


def test_loss(world):
    words = "netem loss 1% delay 3ms limit 5000"
    with_impairment(world, words, words, SCALE << 19, provoked=CHALLENGES)


def test_reordering(world):
    words = "netem delay 4ms reorder 25% 50% limit 5000"
    with_impairment(world, words, words, SCALE << 19, provoked=OVERTAKEN)


def test_duplication(world):
    words = "netem duplicate 5% delay 1ms limit 5000"
    with_impairment(world, words, words, SCALE << 19, provoked=CHALLENGES)


def test_ecn_marks(world):
    world.right.run("sysctl -qw net.ipv4.tcp_ecn=1")
    words = "netem delay 2ms loss 2% ecn limit 5000"
    with_impairment(world, words, words, SCALE << 19, provoked=CHALLENGES, ecn=True)
    counted = {line.split()[0]: int(line.split()[1]) for line in world.right.run("nstat -asz").splitlines()[1:]}
    assert counted["IpExtInCEPkts"] > 10 and counted["TcpExtTCPDeliveredCE"] > 10, counted


def test_super_packets(world):
    """With offloads on both sides: what the kernel sends whole we take whole, and the other way round."""
    world.right.run("ethtool -K e0 tso on gso on gro on")
    world.left.run("ethtool -K e0 tso on gso on gro on")
    shape = world.shape()
    for role in ("listens", "connects"):
        proxy = world.proxy(role)
        exchange(world, role, SCALE * (16 << 20))
        done = finish(proxy)
        assert done["failed"] == 0, done
    shape.stop()
    wrong = world.wrong()
    assert not wrong, wrong


def test_a_peer_that_does_not_read(world):
    """The window closes and opens again; what waits meanwhile is bounded by buffers."""
    shape = world.shape()
    for role in ("listens", "connects"):
        proxy = world.proxy(role)
        # One way: the server reads nothing for two seconds.
        took = exchange(world, role, 24 << 20, pause=2.0, both=False)
        memory = resident(proxy.pid)
        assert took > 2 and memory < 300 << 20, (took, memory)
        assert finish(proxy)["failed"] == 0
    shape.stop()
    wrong = world.wrong()
    assert not wrong, wrong


def test_the_mtu_of_the_path_changes(world):
    """Narrower links in the middle of a transfer: the router between tells our stack by ICMP, and the kernel."""
    shape = world.shape("--ab", "tbf rate 20mbit burst 20k limit 200k", "--ba", "tbf rate 20mbit burst 20k limit 200k")
    for role in ("listens", "connects"):
        proxy = world.proxy(role, "--no-offload")

        def change(mtu, device_mtu):
            # A veth takes nothing that is longer than its own MTU, so both ends change.
            world.left.run(f"ip link set dev e0 mtu {mtu}")
            world.right.run(f"ip link set dev e0 mtu {mtu}")
            world.left.run(f"ip link set dev ack0 mtu {device_mtu}")

        narrower = threading.Timer(0.5, change, (1200, 1100))
        narrower.start()
        exchange(world, role, 2 << 20)
        narrower.join()
        change(1500, 1500)
        assert finish(proxy)["failed"] == 0
        world.right.run("ip route flush cache")
    shape.stop()
    wrong = world.wrong()
    assert not wrong, wrong


def test_half_close_and_reset(world):
    shape = world.shape()
    for role in ("listens", "connects"):
        proxy = world.proxy(role)
        listener = world.server(role)
        # The client is through and still hears.
        client, address = world.client(role)
        client.connect(address)
        server, _ = listener.accept()
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        heard = b""
        while piece := server.recv(100):
            heard += piece
        time.sleep(0.1)
        server.sendall(b"answer")
        server.close()
        answer = b""
        while piece := client.recv(100):
            answer += piece
        assert (heard, answer) == (b"question", b"answer"), (heard, answer)
        client.close()
        # An abortive close on either side is one on the other.
        for first in ("client", "server"):
            client, address = world.client(role)
            client.connect(address)
            server, _ = listener.accept()
            client.sendall(b"x")
            assert server.recv(1) == b"x"
            ends = {"client": client, "server": server}
            ends[first].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            ends[first].close()
            other = ends["server" if first == "client" else "client"]
            other.settimeout(5)
            try:
                other.recv(1)
                raise AssertionError(f"{role}: {first} was reset, and the other end was told of an ordinary end")
            except ConnectionResetError:
                pass
            other.close()
        listener.close()
        # Nobody is there any more: a client that our stack has taken is reset.
        client, address = world.client(role)
        client.settimeout(5)
        try:
            # The reset may be there before connect() has returned.
            client.connect(address)
            client.recv(1)
            raise AssertionError("nobody was there, and nobody told")
        except ConnectionResetError:
            pass
        done = finish(proxy)
        assert done["open"] == 0 and done["unreachable"] == 1 and done["failed"] == 2, done
    shape.stop()
    wrong = world.wrong()
    assert not wrong, wrong


def test_after_kill_9_the_peer_is_reset(world):
    """Half-open: our end is gone without a word; the next start answers with a reset, and nothing is left."""
    shape = world.shape()
    proxy = world.proxy("listens")
    listener = world.server("listens")
    client, address = world.client("listens")
    client.connect(address)
    server, _ = listener.accept()
    client.sendall(b"x")
    assert server.recv(1) == b"x"
    proxy.kill()
    proxy.wait()
    assert "ack0" not in world.left.run("ip link"), "the device is left"
    again = world.proxy("listens")
    client.settimeout(10)
    try:
        client.sendall(b"y")
        client.recv(1)
        raise AssertionError("the peer was told of an ordinary end")
    except ConnectionResetError:
        pass
    listener.close()
    exchange(world, "listens", 1 << 18)
    finish(again)
    shape.stop()


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def test_a_flood_of_syns(world):
    """More half-open connections than there is room for: SYN cookies, and a real client gets through."""
    shape = world.shape()
    proxy = world.proxy("listens")
    made = []

    def make():
        with open(f"/proc/{world.right.process.pid}/ns/net") as file:
            libc.setns(file.fileno(), 0)
        made.append(socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    raw = made[0]
    destination = socket.inet_aton(OURS)
    for number in range(12_000):
        source = struct.pack("!I", 0xC6120000 + number)  # 198.18.0.0/15: for benchmarks, nobody's
        tcp = struct.pack("!HHIIBBHHHBBH", 1024 + number % 50_000, 7000, number * 7919, 0, 6 << 4, 2, 65535, 0, 0,
                          2, 4, 1460)
        pseudo = source + destination + struct.pack("!BBH", 0, 6, len(tcp))
        tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), number & 0xFFFF, 0, 64, 6, 0, source, destination)
        raw.sendto(head + tcp, (OURS, 0))
        if number % 4000 == 3999:
            exchange(world, "listens", 1 << 16)
    done = finish(proxy)
    assert done["failed"] == 0, done
    shape.stop()
    wrong = world.wrong()
    assert not wrong, wrong


def iperf3(namespace, words):
    done = subprocess.run(namespace.command(f"iperf3 {words}"), capture_output=True, text=True, timeout=60)
    try:
        return json.loads(done.stdout)
    except ValueError as error:
        raise AssertionError(f"iperf3 {words}: {done.stdout} {done.stderr}") from error


def need_iperf3():
    if subprocess.run(["which", "iperf3"], capture_output=True).returncode != 0:
        raise Skip("no iperf3; scripts/needs.sh installs it")


def test_iperf_server_with_a_real_client(world):
    need_iperf3()
    shape = world.shape()
    server = world.start("iperf", "-s", "--json", ready="")
    time.sleep(0.5)
    for words in ("-t 1", "-t 1 -R", "-P 3 -t 1", "-n 5M", "-R -n 5M", "-t 1 -C reno", "-t 1 -R -C reno -P 2"):
        real = iperf3(world.right, f"-c {OURS} -J {words}")
        assert "error" not in real, (words, real["error"])
        end = real["end"]
        sent, received = end["sum_sent"]["bytes"], end["sum_received"]["bytes"]
        assert sent >= received > 1 << 20, (words, sent, received)
        if "-n" in words:
            assert sent >= 5 << 20, (words, sent)
        if "-R" in words:
            wanted = "reno" if "reno" in words else "cubic"
            assert end["sender_tcp_congestion"] == wanted, end
        print(f"    iperf3 -c {words}: {end['sum_received']['bits_per_second'] / 1e6:.0f} Mbit/s", flush=True)
    real = iperf3(world.right, f"-c {OURS} -J -O 1 -t 1")
    assert "error" not in real, real["error"]
    kept = [it["sum"]["bytes"] for it in real["intervals"] if not it["sum"]["omitted"]]
    left_out = sum(it["sum"]["bytes"] for it in real["intervals"]) - sum(kept)
    both = iperf3(world.right, f"-c {OURS} -J -u -t 1")
    assert "error" in both, "UDP is not there"
    server.send_signal(signal.SIGTERM)
    out, err = server.communicate(timeout=10)
    assert server.returncode == 0 and "udp" in err, (out, err)
    reports = out.strip().splitlines()
    assert len(reports) == 8 and all("sum_received" in json.loads(line)["end"] for line in reports), out
    ours = json.loads(reports[-1])
    omitted = sum(it["sum"]["bytes"] for it in ours["intervals"] if it["sum"]["omitted"])
    received = real["end"]["sum_received"]
    assert ours["start"]["test_start"]["omit"] == 1 and 0.9 < received["seconds"] < 1.2, received
    assert omitted > 0.5 * left_out and received["bytes"] < sum(kept) + 0.5 * left_out, (omitted, left_out, kept, received)
    shape.stop()
    wrong = world.wrong()
    assert not wrong, wrong


def test_strangers_do_not_end_an_iperf_server_nor_keep_it_from_clients(world):
    shape = world.shape()
    server = world.start("iperf", "-s", "-1", "--json", ready="")
    time.sleep(0.5)
    cookie = b"abcdefghijklmnopqrstuvwxyz234567abcd\0"

    def come(words=b""):
        stranger = world.right.socket(socket.SOCK_STREAM)
        stranger.settimeout(20)
        stranger.connect((OURS, 5201))
        stranger.sendall(words)
        return stranger

    def is_closed(stranger):
        try:
            return stranger.recv(100).strip(b"\x09") == b""
        except ConnectionError:
            return True

    silent, half = come(), come(cookie[:20])
    for words in (b"GET / HTTP/1.1\r\nHost: ackwright.example.net\r\n\r\n", bytes(100), os.urandom(5000),
                  cookie + b"\xff\xff\xff\xff", cookie + b"\0\0\0\2{x"):
        assert is_closed(come(words)), words
    begun = time.monotonic()
    client = come(cookie)
    assert client.recv(1) == b"\x09" and time.monotonic() - begun < 2, "it asks a client what it wants"
    client.close()
    assert is_closed(silent) and is_closed(half)
    assert server.poll() is None, "it still waits for its one client"
    need_iperf3()
    end = iperf3(world.right, f"-c {OURS} -J -t 1")["end"]
    assert end["sum_received"]["bytes"] > 1 << 20, end
    out, err = server.communicate(timeout=10)
    assert server.returncode == 0 and "does not speak iperf3's protocol" in err, (out, err)
    assert "sent no cookie in time" in err, err
    shape.stop()


def test_what_a_client_sent_last_is_counted(world):
    """CAKE lets the word that the test is over pass the data, which are on another connection."""
    need_iperf3()
    shape = world.shape("--ab", "cake bandwidth 20mbit", "--ba", "cake bandwidth 20mbit")
    server = world.start("iperf", "-s", "--json", ready="")
    time.sleep(0.5)
    for words in 3 * ("-n 1M", "-n 1M -P 3", "-k 8"):
        end = iperf3(world.right, f"-c {OURS} -J {words}")["end"]
        sent, received = end["sum_sent"]["bytes"], end["sum_received"]["bytes"]
        assert sent >= received >= 1 << 20, (words, sent, received)
        assert "-P" in words or sent == received, (words, sent, received)
        assert end["sum_received"]["bits_per_second"] < 20e6, end["sum_received"]
    server.send_signal(signal.SIGTERM)
    out, err = server.communicate(timeout=10)
    assert server.returncode == 0 and len(out.splitlines()) == 9, (out, err)
    shape.stop()
    wrong = world.wrong()
    assert not wrong, wrong


def test_iperf_client_with_a_real_server(world):
    need_iperf3()
    shape = world.shape()
    for words in ("-t 1", "-t 1 -R", "-P 3 -t 1", "-n 5M", "-t 1 -C dctcp", "-t 1 -R -C reno -P 2", "-t 1 -O 1", "-n 5M -O 1"):
        server = subprocess.Popen(world.right.command("iperf3 -s -1 -J"), stdout=subprocess.PIPE, text=True)
        time.sleep(0.3)
        done = subprocess.run(world.left.command([world.binary, "iperf", "-c", RIGHT, "--json", *words.split()]),
                              capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, (words, done)
        ours, theirs = json.loads(done.stdout), json.loads(server.communicate(timeout=10)[0])
        end = ours["end"]
        sent, received = end["sum_sent"]["bytes"], end["sum_received"]["bytes"]
        # Each end leaves out what had come by its own clock.
        assert received > 1 << 20 and (sent >= received or "-O" in words), (words, sent, received)
        if "-n" in words:
            # A block that has begun counts from there on.
            assert 0 <= sent - (5 << 20) <= (128 << 10 if "-O" in words else 0), (words, sent)
        if "-O" in words:
            omitted = [it["sum"]["omitted"] for it in ours["intervals"]]
            assert omitted[0] and ours["start"]["test_start"]["omit"] == 1, ours["intervals"]
            assert end["sum_sent"]["seconds"] < 1.2, end["sum_sent"]
        # A server that sends prints its report before it knows what was received.
        said = theirs["end"]["sum_sent" if "-R" in words else "sum_received"]["bytes"]
        assert "error" not in theirs and said >= received, (words, theirs)
        if "-C" in words:
            # Without ECN, DCTCP falls back to what the kernel calls dctcp-reno.
            assert end["sender_tcp_congestion"].startswith(words.split("-C ")[1].split()[0]), end
        if "-R" not in words and ours["intervals"]:
            first = ours["intervals"][0]["streams"][0]
            assert first["snd_cwnd"] > 0 and first["rtt"] > 0 and "retransmits" in first, first
        print(f"    ackwright iperf -c {words}: {end['sum_received']['bits_per_second'] / 1e6:.0f} Mbit/s", flush=True)
    shape.stop()
    wrong = world.wrong()
    assert not wrong, wrong


def test_a_device_that_is_deleted_is_the_end(world):
    """With a word, an exit code and the figures, for whoever waits for clients and for whoever has one."""
    proxy = world.proxy("listens")
    world.left.run("ip link delete ack0")
    out, err = proxy.communicate(timeout=20)
    assert proxy.returncode == 1 and "ack0 has gone away" in err, (proxy.returncode, err)
    assert json.loads(out)["accepted"] == 0, out
    server = world.start("iperf", "-s", ready="")
    assert "listening" in "".join(server.stdout.readline() for _ in range(3))
    world.left.run("ip link delete ack0")
    out, err = server.communicate(timeout=20)
    assert server.returncode == 1 and "ack0 has gone away" in err, (server.returncode, err)
    assert "listening" not in out, out


def test_a_client_that_waits_can_be_stopped(world):
    """For a host that is not there, and for a server that says nothing."""
    for target in ("10.77.0.9", "10.77.0.1"):
        with world.left.socket(socket.SOCK_STREAM) as silent:
            silent.bind(("0.0.0.0", 5999))
            silent.listen()
            client = world.start("iperf", "-c", target, "-p", "5999", ready="")
            assert "Connecting" in client.stdout.readline()
            time.sleep(0.5)
            client.send_signal(signal.SIGINT)
            begun = time.monotonic()
            _, err = client.communicate(timeout=20)
        assert time.monotonic() - begun < 5, "it is not heard"
        assert client.returncode == 130 and "interrupted before the test began" in err, (client.returncode, err)


def refused(world, words, *expected, code=2):
    done = subprocess.run(world.left.command([world.binary, *words.split()]), capture_output=True, text=True, timeout=40)
    assert done.returncode == code, (words, done)
    for text in expected:
        assert text in done.stderr, (words, text, done.stderr)
    assert "ack0" not in world.left.run("ip link"), "a device is left"


def test_mistakes_are_told(world):
    proxy = "proxy --listen 10.77.0.2:7000 --to 127.0.0.1:7001 "
    refused(world, proxy + "--cc vegetarian", "vegetarian", "cubic", "dctcp")
    refused(world, proxy + "--set tcp_nothing=1", "tcp_nothing")
    refused(world, proxy + "--set tcp_ecn", "NAME=VALUE")
    refused(world, proxy + "--kernel 10.77.0.1", "prefix length")
    refused(world, proxy + "--mtu 100", "576 to 65535")
    refused(world, proxy + "--address 10.9.0.1 --kernel 10.9.0.9/24", "has this address already")
    refused(world, proxy + "--dev e0", "e0: cannot make the TUN device")
    refused(world, "proxy --listen nowhere --to 127.0.0.1:1", "--listen", "an address and a port")
    refused(world, "proxy --listen 10.77.0.2:0 --to 127.0.0.1:1", "--listen 10.77.0.2:0", "the port must be 1")
    refused(world, "iperf -c 10.77.0.1 -t 0", "-t 0")
    refused(world, "iperf -c 10.77.0.1 -t 1", "cannot connect", "refused", code=1)
    running = world.proxy("listens")
    done = subprocess.run(world.left.command([world.binary, *proxy.split()]), capture_output=True, text=True)
    assert done.returncode == 2 and "10.77.0.1" in done.stderr, done
    other = proxy + "--kernel 10.78.0.1/24 --address 10.78.0.2"
    done = subprocess.run(world.left.command([world.binary, *other.split()]), capture_output=True, text=True)
    assert done.returncode == 2 and "it is in use" in done.stderr, done
    finish(running)
    if os.path.exists("/usr/bin/setpriv"):
        unable = ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin", world.binary, *proxy.split()]
        done = subprocess.run(world.left.command(unable), capture_output=True, text=True)
        assert done.returncode == 2 and "CAP_NET_ADMIN" in done.stderr, done


if __name__ == "__main__":
    sys.exit(run_tests("endpoint", globals(), Endpoints))
