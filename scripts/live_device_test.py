#!/usr/bin/env python3
"""Tests the devices of `ackwright shape` between real programs: rings, several sockets and queues, TUN and TAP, captures,
AF_XDP, the traffic of this machine itself, and interfaces that go away.

usage: scripts/live_device_test.py BINARY [NAME...]

The namespaces are those of live_test.py.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

from live_test import LEFT, RIGHT, World, flood, frames, needs_bpf, refused, transfer, whole_checksums
from namespaces import Skip, busy, ip, run_tests


def test_a_receive_ring(world):
    """Super-packets come whole, as by the socket alone, and checksums are those of the sender."""
    shape = world.shape("--ab", "cake bandwidth 50mbit", "--ba", "fq_codel", between=("ring:a", "ring:b"))
    took = transfer(world, 4 << 20)
    assert took > (4 << 20) * 8 / 50e6, f"faster than the rate: {took} s"
    flood(world, 20)
    forth = shape.stop()["directions"][0]
    assert forth["taken_packets"] > 2800 and forth["lost"]["unreadable"] == forth["lost"]["no_buffer"] == 0, forth
    shape = world.shape(between=("ring:a", "b"))
    ip("link delete dev a")
    assert "the interface has gone away" in shape.stop(how=None, code=1)["error"]


def test_a_tap_device_of_our_own(world):
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise Skip("/dev/net/tun is not for us")
    shape = world.shape("--ab", "cake bandwidth 50mbit", between=("a", "tap:lan0"))
    ip("address add 10.9.0.9/24 dev lan0")
    ip("link set lan0 up")
    transfer(world, 2 << 20, source=(world.left.socket, lambda kind: socket.socket(socket.AF_INET, kind)),
             target="10.9.0.9")
    shape.stop()
    assert subprocess.run(["ip", "link", "show", "dev", "lan0"], capture_output=True).returncode != 0, "it is left"


def test_several_sockets_share_an_interface(world):
    """What arrives comes once, by one of them, from the first frame on, and each flow keeps its order."""
    flood_from, stop = world.left.socket(socket.SOCK_DGRAM), threading.Event()

    def talk():
        while not stop.is_set():
            for port in range(40_000, 40_016):
                flood_from.sendto(bytes(100), (RIGHT, port))
            time.sleep(0.002)

    before = received(world.right)
    talking = threading.Thread(target=talk)
    talking.start()
    shape = world.shape("--ab", "tbf rate 100mbit burst 20k limit 1m", between=("a,fanout=4", "b,fanout=2"))
    sockets = [line.split() for line in open("/proc/net/packet").read().splitlines()[1:]]
    time.sleep(0.5)
    stop.set()
    talking.join()
    time.sleep(0.2)
    came = received(world.right) - before
    transfer(world, 2 << 20)
    forth, back = shape.stop()["directions"]
    assert len(sockets) >= 6, sockets
    assert came > 200 and forth["taken_packets"] > 1500 and back["taken_packets"] > 50, (came, forth)
    shape = world.shape("--ab", "tbf rate 100mbit burst 20k limit 1m", between=("a,fanout=4", "b,fanout=2"))
    before = received(world.right)
    for number in range(640):
        flood_from.sendto(bytes(100), (RIGHT, 40_000 + number % 16))
        if number % 32 == 0:
            time.sleep(0.005)
    time.sleep(0.3)
    came = received(world.right) - before
    assert came == 640, f"{came} of 640 came: sent twice or lost"
    in_order_by_all_sockets(world)
    shape.stop()


def received(namespace):
    """Datagrams that a namespace has got, whether somebody wanted them or not."""
    counters = dict(line.split()[:2] for line in namespace.run("nstat -asz").splitlines() if line[:1] != "#")
    return int(counters["UdpInDatagrams"]) + int(counters["UdpNoPorts"])


def in_order_by_all_sockets(world):
    receivers = []
    for port in range(41_000, 41_008):
        receiver = world.right.socket(socket.SOCK_DGRAM)
        receiver.bind((RIGHT, port))
        receiver.settimeout(5)
        receivers.append(receiver)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        sender = world.left.socket(socket.SOCK_DGRAM)
        for number in range(400):
            sender.sendto(struct.pack(">I", number), (RIGHT, 41_000 + number % 8))
            if number % 40 == 39:
                time.sleep(0.01)
    finally:
        os.sched_setaffinity(0, cores)
    for number, receiver in enumerate(receivers):
        got = [struct.unpack(">I", receiver.recv(100))[0] for _ in range(50)]
        assert got == list(range(number, 400, 8)), (number, got)


def test_a_tap_device_with_several_queues(world):
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise Skip("/dev/net/tun is not for us")
    shape = world.shape("--ab", "cake bandwidth 50mbit", between=("a", "tap:lan0,queues=4"))
    told = subprocess.run("ip -d link show dev lan0".split(), capture_output=True, text=True).stdout
    assert "multi_queue" in told and "numqueues 4" in told, told
    ip("address add 10.9.0.9/24 dev lan0")
    ip("link set lan0 up")
    ends = (world.left.socket, lambda kind: socket.socket(socket.AF_INET, kind))
    several = [threading.Thread(target=transfer, args=(world, 1 << 19, 5001 + number, ends, "10.9.0.9"))
               for number in range(4)]
    for one in several:
        one.start()
    for one in several:
        one.join()
    refused(world, ["--between", "b", "tap:lan0,queues=2"], "lan0: another ackwright uses this interface")
    account = shape.stop()
    assert all(direction["refused"] == 0 for direction in account["directions"]), account
    assert subprocess.run(["ip", "link", "show", "dev", "lan0"], capture_output=True).returncode != 0, "it is left"


def test_a_tap_device_that_is_there_before(world):
    """One with several queues, made by somebody else, who keeps it."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise Skip("/dev/net/tun is not for us")
    ip("tuntap add dev lan0 mode tap multi_queue")
    try:
        ip("address add 10.9.0.9/24 dev lan0")
        refused(world, ["--between", "a", "tap:lan0"], "tap:lan0,queues=1")
        for queues in (1, 3):
            shape = world.shape("--ab", "cake bandwidth 50mbit", between=("a", f"tap:lan0,queues={queues}"))
            ip("link set lan0 up")
            transfer(world, 1 << 19, port=5001 + queues, target="10.9.0.9",
                     source=(world.left.socket, lambda kind: socket.socket(socket.AF_INET, kind)))
            shape.stop()
        assert subprocess.run(["ip", "link", "show", "dev", "lan0"], capture_output=True).returncode == 0, "it is gone"
    finally:
        ip("link delete lan0")


def test_a_tap_device_is_deleted(world):
    """Even if there is another one of its name at once."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise Skip("/dev/net/tun is not for us")
    shape = world.shape("--ab", "cake bandwidth 50mbit", between=("tap:lan0", "b"))
    ip("link delete lan0")
    ip("link add lan0 type veth peer name other")
    try:
        account = shape.stop(how=None, code=1)
        assert "lan0: the interface has gone away" in account["error"], account["error"]
    finally:
        ip("link delete lan0")


def test_capture_files_are_devices(world):
    """What is in one file comes at its distances, and goes to the other end's; then the run ends by itself."""
    paths = [os.path.join(world.folder, name) for name in ("in.pcap", "out.pcapng", "none.pcap", "unused.pcapng")]
    wanted = [bytes.fromhex("02" * 12 + "88b5") + bytes([number]) * 1000 for number in range(20)]
    for path, recorded in ((paths[0], wanted), (paths[2], [])):
        with open(path, "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
            for number, frame in enumerate(recorded):
                file.write(struct.pack("<IIII", 5, 10_000 * number, len(frame), len(frame)) + frame)
    devices = [f"file:{paths[0]},{paths[3]}", f"file:{paths[2]},{paths[1]}"]
    shape = world.shape("--ab", "tbf rate 10mbit burst 3k limit 100k", between=devices)
    account = shape.stop(how=None)
    found = [frame for _, _, _, frame in frames(paths[1])]
    assert found == wanted and 0.18 < account["seconds"] < 2, (len(found), account)


def test_no_file_of_others_is_lost(world):
    """A control socket, a capture or a device never takes the place of a file that holds something else."""
    precious = os.path.join(world.folder, "precious")
    with open(precious, "w") as file:
        file.write("precious")
    refused(world, ["--between", "a", "b", "--ctl", precious], "not a socket of ackwright")
    recorded = os.path.join(world.folder, "in.pcap")
    frame = b"\xff" * 6 + b"\x02\0\0\0\0\x01" + b"\x08\x00" + bytes(46)
    capture = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    capture += struct.pack("<IIII", 1, 0, len(frame), len(frame)) + frame
    for name, content in (("in.pcap", capture), ("cut.pcap", capture[:30])):
        with open(os.path.join(world.folder, name), "wb") as file:
            file.write(content)
    again, out = os.path.join(world.folder, "again.pcap"), os.path.join(world.folder, "out.pcapng")
    os.link(recorded, again)
    for other in (recorded, again):
        refused(world, ["--between", "a", f"file:{recorded},{other}"], "this is the file that is read")
    device = f"file:{recorded},{out}"
    refused(world, ["--between", "a", device, "--capture", recorded], "one of the devices has this file open")
    os.remove(out)
    refused(world, ["--between", "a", f"file:{world.folder}/cut.pcap,{out}"], "the file ends within")
    assert not os.path.exists(out), "half-written"
    assert open(precious).read() == "precious" and open(recorded, "rb").read() == capture


def test_af_xdp_in_every_mode(world):
    needs_bpf()
    whole_checksums(world)
    for port, how in enumerate(("", ",native,copy", ",generic")):
        shape = world.shape("--ab", "cake bandwidth 50mbit", "--ba", "cake bandwidth 5mbit ack-filter",
                            between=(f"xdp:a{how}", f"xdp:b{how}"))
        took = transfer(world, 2 << 20, port=5001 + port)
        shown = json.loads(subprocess.run(["ip", "-j", "link", "show", "dev", "a"], capture_output=True).stdout)[0]
        mode = {1: "native", 2: "generic"}[shown["xdp"]["mode"]]
        assert mode == ("generic" if "generic" in how else "native"), shown["xdp"]
        assert f"AF_XDP {mode}" in shape.said, shape.said
        account = shape.stop()
        assert took > (2 << 20) * 8 / 50e6, f"faster than the rate: {took} s"
        forth, back = account["directions"]
        assert forth["taken_packets"] > 1400 and back["taken_packets"] > 20, account
        assert forth["lost"]["unreadable"] == forth["refused"] == back["refused"] == 0, account
        left = json.loads(subprocess.run(["ip", "-j", "link", "show", "dev", "a"], capture_output=True).stdout)[0]
        assert "xdp" not in left, "the program is left"


def test_af_xdp_goes_with_kill_9(world):
    needs_bpf()
    whole_checksums(world)
    shape = world.shape(between=("xdp:a", "b"))
    refused(world, ["--between", "xdp:a", "b"], "another ackwright uses this interface")
    shape.process.kill()
    shape.process.wait()
    again = world.shape("--ab", "cake bandwidth 50mbit", between=("xdp:a", "b"))
    transfer(world, 1 << 18)
    again.stop()


def test_af_xdp_loses_its_interface(world):
    needs_bpf()
    whole_checksums(world)
    shape = world.shape("--ab", "tbf rate 200kbit burst 3k limit 1m", between=("xdp:a", "xdp:b"))
    flood(world, 50)
    ip("link set dev b down")
    flood(world, 20)
    ip("link set dev b up")
    time.sleep(0.2)
    transfer(world, 1 << 13)
    ip("link delete dev b")
    account = shape.stop(how=None, code=1)
    assert "b: the interface has gone away" in account["error"], account


def here(kind):
    return socket.socket(socket.AF_INET, kind)


def test_the_own_traffic_of_this_machine(world):
    """--dev: what this machine sends and gets by an interface is shaped; nothing is left, not even by kill -9."""
    needs_bpf()
    ip("address add 10.9.0.3/24 dev a")
    ways = {"down": ((world.left.socket, here), "10.9.0.3"), "up": ((here, world.left.socket), LEFT)}
    shape = world.shape("--dev", "a", "--egress", "cake bandwidth 8mbit", "--ingress", "cake bandwidth 16mbit",
                        between=None)
    refused(world, ["--dev", "a"], "another ackwright uses this interface")
    for port, (way, mbit) in enumerate((("up", 8), ("down", 16))):
        source, target = ways[way]
        took = transfer(world, 1 << 20, port=5001 + port, source=source, target=target)
        assert 8.39 / mbit < took < 2 * 8.39 / mbit, f"{way}: {took} s for 8.39 Mbit at {mbit} Mbit/s"
    replies = subprocess.run(["ping", "-c", "3", "-i", "0.2", "-s", "4000", LEFT], capture_output=True, text=True).stdout
    assert "3 received" in replies and "DUP" not in replies, replies
    assert "8Mbit" in shape.ctl("tc", "qdisc", "show", "dev", "a").stdout
    account = shape.stop()
    down, up = account["directions"]
    assert down["from"] == "a" and up["to"] == "a" and up["sent_packets"] > 740, account
    assert subprocess.run(["ip", "link", "show", "dev", "ackdev0"], capture_output=True).returncode != 0, "it is left"
    assert transfer(world, 1 << 20, port=5003, source=ways["up"][0], target=LEFT) < 0.5, "still shaped"
    shape = world.shape("--dev", "a", "--egress", "cake bandwidth 8mbit", between=None)
    shape.process.kill()
    shape.process.wait()
    assert transfer(world, 1 << 20, port=5004, source=ways["up"][0], target=LEFT) < 0.5, "kill -9 leaves something"
    ip("address del 10.9.0.3/24 dev a")


def test_an_interface_goes_down_and_up(world):
    shape = world.shape("--ab", "cake bandwidth 50mbit")
    transfer(world, 1 << 18)
    ip("link set dev b down")
    flood(world, 20)
    ip("link set dev b up")
    time.sleep(0.2)
    transfer(world, 1 << 18, port=5002)
    shape.stop()


def test_an_interface_that_goes_down_at_the_end_is_waited_for(world):
    shape = world.shape("--ab", "netem delay 1500ms", "--drain", "5s")
    flood(world, 1)
    shape.ctl("stop")
    ip("link set dev a down")
    assert busy(shape.process.pid) < 0.1, "of an error that nobody hears it is told for ever"
    account = shape.stop(how=None)
    assert account["directions"][0]["sent_packets"] > 0, account


def test_an_interface_that_is_renamed_stays(world):
    """The kernel knows it by its number, and so do we; tc calls it what it was called at the start."""
    shape = world.shape("--ab", "cake bandwidth 50mbit")
    ip("link set dev b down")
    ip("link set dev b name far")
    flood(world, 20)
    time.sleep(0.3)
    ip("link set dev far up")
    time.sleep(0.3)
    transfer(world, 1 << 18)
    assert shape.ctl("tc", "qdisc", "show", "dev", "b").returncode == 0
    ip("link delete dev far")
    account = shape.stop(how=None, code=1)
    assert "b: the interface has gone away" in account["error"], account["error"]


def test_an_interface_that_is_renamed_again_and_again_stays(world):
    """Asked about by a name that it had a moment ago, it is not gone: only its number says so."""
    shape = world.shape("--ab", "cake bandwidth 50mbit")
    for _ in range(20):
        flood(world, 20)
        ip("link set dev b down")
        # Within one process, so that both names last a few microseconds.
        names = "link set dev b name far\nlink set dev far name b\n"
        subprocess.run(["ip", "-batch", "-"], input=names * 50, text=True, check=True)
        ip("link set dev b up")
    assert shape.process.poll() is None, "it ended"
    transfer(world, 1 << 18)
    shape.stop()


def test_an_interface_that_is_down_goes_away(world):
    """Of which the kernel says nothing any more, and no packet can either."""
    shape = world.shape("--ab", "cake bandwidth 50mbit")
    ip("link set dev a down")
    time.sleep(0.3)
    ip("link delete dev a")
    account = shape.stop(how=None, code=1)
    assert "a: the interface has gone away" in account["error"], account["error"]


def test_an_interface_goes_away(world):
    shape = world.shape("--ab", "tbf rate 200kbit burst 3k limit 1m")
    flood(world, 50)
    ip("link delete dev b")
    account = shape.stop(how=None, code=1)
    assert "b: the interface has gone away" in account["error"], account


if __name__ == "__main__":
    sys.exit(run_tests("live device", globals(), World))
