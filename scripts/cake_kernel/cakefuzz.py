"""cakefuzz.py DIRECTORY COUNT FIRST_SEED: random CAKE scenarios, one schedule each.

Any words of tc, any traffic, and `tc qdisc change` while packets wait. A scenario depends on its seed alone.
"""
import json
import os
import random
import struct
import sys

from frames import *

MS = 10**6
SECOND = 10**9
TINS = ("besteffort", "diffserv3", "diffserv4", "diffserv8", "precedence")
FLOWS = ("flowblind", "srchost", "dsthost", "hosts", "flows", "dual-srchost", "dual-dsthost", "triple-isolate", "triple-isolate")
LINKS = (
    "raw", "conservative", "ethernet", "docsis", "ether-vlan", "ether-vlan ethernet", "pppoe-ptm", "bridged-ptm", "ptm", "atm", "noatm",
    "ipoa-vcmux", "ipoa-llcsnap", "bridged-vcmux", "bridged-llcsnap", "pppoa-vcmux", "pppoa-llc", "pppoe-vcmux", "pppoe-llcsnap", "overhead 44 atm",
)
RTTS = ("datacentre", "lan", "metro", "regional", "internet", "oceanic", "satellite", "interplanetary", "rtt 500us", "rtt 1ms", "rtt 5ms", "rtt 10ms", "rtt 20ms", "rtt 50ms", "rtt 200ms", "rtt 1s")
MEMORY = (0, 4000, 5000, 10000, 20000, 40000, 100000, 400000)
DSCP = (0, 0, 0, 8, 1, 46, 34, 48, 26, 4, 18, 56, 2, 44, 5, 10, 16, 20, 22, 24, 32, 36, 38, 40, 45, 62)


class Traffic:
    """One flow: what its frames of a given length begin with."""

    def __init__(self, build, least, headers=0, ipv6=False):
        self.build, self.least, self.headers, self.ipv6 = build, least, headers, ipv6


def overhead(r):
    kind = r.random()
    if kind < 0.4:
        return f"overhead {r.randint(-20, 250)} mpu {r.randint(0, 255)}"
    if kind < 0.7:
        return f"overhead {r.randint(-20, 60)}" + r.choice(("", " noatm", " atm", " ptm"))
    return r.choice(LINKS)


def words(r, kbit):
    """The words of `tc qdisc add`."""
    said = []
    chance = r.random()
    if chance < 0.07:
        said.append("unlimited")
    elif chance > 0.04 + 0.07:
        said.append(f"bandwidth {kbit}kbit")
    if chance < 0.14:
        said.append("autorate-ingress")
    said += [r.choice(TINS), r.choice(FLOWS)]
    optional = (
        (0.5, lambda: overhead(r)),
        (0.4, lambda: r.choice(RTTS)),
        (0.15, lambda: r.choice(("wash", "nowash"))),
        (0.25, lambda: "ingress"),
        (0.3, lambda: r.choice(("ack-filter", "ack-filter-aggressive"))),
        (0.25, lambda: f"memlimit {r.choice(MEMORY)}"),
        (0.25, lambda: "no-split-gso"),
        (0.2, lambda: "fwmark " + r.choice(("0x1", "0x3", "0x7", "0xf", "0xf0"))),
    )
    said += [make() for odds, make in optional if r.random() < odds]
    return " ".join(said)


def changed(r, kbit):
    """The words of `tc qdisc change`."""
    rate = lambda: f"bandwidth {max(8, int(kbit * r.choice((0.1, 0.3, 0.6, 2, 4, 10))))}kbit"
    makers = (
        rate, rate, lambda: r.choice(TINS), lambda: r.choice(TINS), lambda: r.choice(FLOWS), lambda: overhead(r), lambda: r.choice(RTTS),
        lambda: r.choice(("wash", "nowash")), lambda: r.choice(("ingress", "egress")), lambda: "autorate-ingress", lambda: "unlimited",
        lambda: r.choice(("ack-filter", "ack-filter-aggressive", "no-ack-filter")), lambda: f"memlimit {r.choice(MEMORY)}",
        lambda: r.choice(("split-gso", "no-split-gso")), lambda: "fwmark " + r.choice(("0x1", "0x3", "0x7", "0xf0")),
    )
    said = [r.choice(makers)() for _ in range(r.choice((1, 1, 2, 3)))]
    # tc takes any word twice but these.
    intervals = [word for word in said if word in RTTS]
    return " ".join(word for word in said if word not in intervals[1:])


def transport(r, k):
    """A header above IP: its protocol, its bytes for a payload, its length."""
    ports = r.choice(((1000 + k, 80), (1000 + k, 443), (80, 1000 + k), (443, 80), (1000, 1000)))
    crowd = r.random() < 0.05
    # The kernel's dump of classes loses some when they are more than fit one message, some 180.
    draw = lambda: (r.randint(1, 11), r.randint(100, 111)) if crowd else ports
    flags = r.choice((0x10, 0x10, 0x18, 0x11, 0x50, 0x90))
    options = timestamps(5, 6) if r.random() < 0.5 else b""
    if r.random() < 0.5:
        return 17, lambda n: udp(*draw(), n), 8
    return 6, lambda n: tcp(*draw(), 1, 1000, flags, 1000, options), 20 + len(options)


def ports_of(r, k):
    return struct.pack("!HH", *r.choice(((1000 + k, 80), (443, 80), (1000, 1000), (5, k))))


def oddity(r, k):
    """The payload of an unusual IP protocol: number, bytes, whether only in IPv6."""
    inner4 = lambda body, kind: ipv4(kind, body, f"192.168.{r.randint(1, 3)}.2", f"192.168.9.{r.randint(1, 3)}", r.choice((0, 0x45)), 20 + len(body) + 40)
    inner6 = lambda body, kind, label=0: ipv6(kind, body, "fd02::1", f"fd02::{r.randint(1, 3)}", r.choice((0, 0xB8)), 48 + len(body), label)
    kind, make, length = transport(r, k)
    body = make(length)
    four, six = inner4(body, kind), inner6(body, kind, r.choice((0, 0, 7)))
    fragment6 = lambda at: inner6(struct.pack("!BBHI", kind, 0, at, 9) + body, 44)
    gre = lambda flags, ether_type, rest: struct.pack("!HH", flags, ether_type) + rest
    ppp = r.choice((b"\xff\3\0\x21" + four, b"\xff\3\0\x57" + six, b"\xff\3\xc0\x21"))
    choices = (
        (1, bytes([r.choice((0, 8, 3, 13)), 0, 0, 0]) + ports_of(r, k)), (2, b"\x16\0\0\0\xe0\0\0\1"), (4, four), (4, four), (41, six), (41, six), (41, six),
        (41, fragment6(r.choice((0, 1, 8, 9)))), (33, ports_of(r, k)), (132, ports_of(r, k)), (136, ports_of(r, k)), (50, ports_of(r, k) + b"\0\0\0\1"),
        (51, bytes([kind, 4, 0, 0, 0, 0, 0, r.randint(1, 3)]) + b"\0\0\0\1" + b"\0\0\0\7" * 3 + body), (89, b"\2\1\0\x2c"), (103, ports_of(r, k)),
        (112, b"\x21\1\x64\1"), (115, struct.pack("!I", r.randint(0, 5))), (137, struct.pack("!I", r.randint(16, 20) << 12 | 0x1FF) + four), (46, ports_of(r, k)),
        (47, gre(0, 0x800, four)), (47, gre(0x2000, 0x86DD, struct.pack("!I", r.randint(1, 3)) + six)), (47, gre(0x8000, 0x800, b"\0" * 4 + four)),
        (47, gre(0x3000, 0x6558, struct.pack("!II", r.randint(1, 3), 9) + b"\2" * 12 + b"\x08\0" + four)), (47, gre(0x2001, 0x880B, struct.pack("!HHI", 9, r.randint(1, 3), 7)[:4] + ppp)),
        (47, gre(0x3081, 0x880B, struct.pack("!HHII", 9, r.randint(1, 3), 7, 8) + ppp)), (47, gre(0x4000, 0x800, four)), (47, gre(2, 0x800, four)), (47, gre(0, 0x8847, b"\0\1\1\xff" + four)),
        (94, four), (99, ports_of(r, k)), (253, ports_of(r, k)), (255, ports_of(r, k)), (0, ports_of(r, k)), (59, b"zz"),
    )
    return r.choice(choices)


def extended(r, k):
    """A chain of IPv6 extension headers."""
    kind, make, length = transport(r, k)
    body = make(length)
    following = r.choice((0, 43, 44, 60, 60, 135))
    if following == 44:
        return 44, struct.pack("!BBHI", kind, 0, r.choice((0, 1, 8, 9)), 7) + body
    if r.random() < 0.3:
        body, kind = bytes([kind, 0, 1, 4, 0, 0, 0, 0]) + body, 60
    words = r.choice((0, 0, 1, 2))
    return following, bytes([kind, words]) + (b"\1\4" + b"\0" * 4).ljust(6 + 8 * words, b"\0") + body


def tags(r):
    tag = lambda kind=0x8100: (kind, r.choice((0, 1, 100, 0x2007, 0x6064, 0x1001)))
    chance = r.random()
    if chance < 0.8:
        return ()
    return (tag(),) if chance < 0.92 else (tag(r.choice((0x88A8, 0x8100))), tag())


def strange(r, k, tagged):
    """A frame that is not IP."""
    arp = struct.pack("!HHBBH", 1, 0x800, 6, 4, r.choice((1, 2))) + FROM + b"\0" + socket.inet_aton(f"10.0.0.{r.randint(1, 3)}") + TO + socket.inet_aton(f"10.1.0.{k + 1}")
    kind, make, length = transport(r, k)
    four = ipv4(kind, make(length), f"10.7.0.{r.randint(1, 3)}", "10.7.1.1", 0, 80)
    six = ipv6(kind, make(length), f"fd07::{r.randint(1, 3)}", "fd07:1::1", 0, 80)
    session = lambda ppp, body: struct.pack("!BBHH", 0x11, 0, r.randint(1, 3), 60) + ppp + body
    choices = [(0x806, arp), (0x806, arp), (0x806, arp), (0x8035, arp)]
    choices += [(0x8864, session(b"\0\x21", four)), (0x8864, session(b"\0\x57", six)), (0x8864, session(b"\x21", four)), (0x8864, session(b"\xc0\x21", b"\1\1"))]
    choices += [(0x8863, b"\x11\x09\0\0\0\0"), (0x8847, struct.pack("!I", r.randint(16, 20) << 12 | 0x1FF) + four), (0x8848, b"\0\1\1\xff" + four)]
    choices += [(0x88CA, b"\x5a\0\0\x18" + b"\0" * 8 + struct.pack("!I", r.randint(1, 3)) + b"\0" * 8), (0x8906, b"\0" * 60), (0x88F7, b"\5" * 60)]
    choices += [(r.choice((0x892F, 0x88FB)), struct.pack("!HHH", 60, r.randint(0, 9), 0x800) + four), (0x892F, struct.pack("!HHH", 60, 1, 0x892F) + struct.pack("!HHH", 60, 1, 0x86DD) + six)]
    choices += [(0x4305, bytes([r.choice((0x40, 0x40, 0x43)), r.choice((15, 15, 14)), 50, 0]) + TO + TO + FROM + b"\0" + b"\x86\xdd" + six)]
    choices += [(kind, bytes([k]) * 40) for kind in (0x600, 0x8137, 0x88CC, 0x8808, 0x88B5, 0x6002, 0x0BAD, 0x9000)]
    choices += [(None, b"\x42\x42\3" + bytes([k])), (None, b"\xff\xff" + bytes([k])), (None, b"\xaa\xaa\3\0\0\0\x08\0" + four)]
    ether_type, body = r.choice(choices)
    return lambda n: ethernet(max(n - 14 - 4 * len(tagged), 0) & 0x5FF if ether_type is None else ether_type, body, tagged), 14 + 4 * len(tagged) + len(body)


def traffic(r, k):
    tagged = tags(r)
    link = 14 + 4 * len(tagged)
    if r.random() < 0.03:
        return colliding(r)
    chance, tos = r.random(), r.choice(DSCP) << 2 | r.choice((0, 0, 0, 2, 1, 3))
    a, b = r.randint(1, 3), r.randint(1, 3)
    if chance < 0.1:
        return Traffic(*strange(r, k, tagged))
    ip6 = r.random() < 0.35
    label = r.choice((0, 0, 0x777 + k)) if ip6 else 0
    spread = r.random() < 0.03
    host = lambda side: f"10.{side}.77.{r.randint(1, 11)}" if spread else f"10.{side}.0.{(a, b)[side]}"
    host6 = lambda side: f"fd0{side}::{r.randint(1, 11) if spread else (a, b)[side]:x}"

    lie = r.choice((-8, -1, 1, 30, 2000)) if r.random() < 0.04 else 0

    def wrap(kind, body, n, options=b"", fragment=0):
        length = max(n - link + lie, 40 if ip6 else 20 + len(options))
        if ip6:
            return ethernet(0x86DD, ipv6(kind, body, host6(0), host6(1), tos, length, label), tagged)
        return ethernet(0x800, ipv4(kind, body, host(0), host(1), tos, length, options, fragment), tagged)

    if chance < 0.7:
        kind, make, length = transport(r, k)
        options = r.choice((b"\1\1\1\1\1\1\1\1", b"\x94\4\0\0")) if not ip6 and r.random() < 0.04 else b""
        fragment = r.choice((0x2000, 0x2064, 0x64, 0x4000, 1)) if not ip6 and r.random() < 0.12 else 0
        at = link + (40 if ip6 else 20 + len(options))
        build = lambda n: wrap(kind, make(n - at), n, options, fragment)
        whole = kind == 6 and not options and not fragment & 0x3FFF and not lie
        return Traffic(build, at + length, at + length if whole else 0, ip6)
    kind, body = extended(r, k) if ip6 and r.random() < 0.4 else oddity(r, k)
    if ip6 and kind == 1:
        kind = 58
    return Traffic(lambda n: wrap(kind, body, n), link + (40 if ip6 else 20) + len(body))


def colliding(r):
    """UDP of a dozen hosts that all want the same eight queues, and these hosts the same eight slots."""
    seen, wanted = [], r.randrange(128)
    while len(seen) < 12:
        src = bytes([10, 0, r.randint(0, 255), r.randint(1, 250)])
        if hash_of_host(src) % 1024 >> 3 == wanted:
            seen.append((src, r.choice((b"\x0a\1\0\1", b"\x0a\1\0\2"))))
    flows = []
    for src, dst in seen:
        ports = (r.randint(1, 65535), 80)
        while hash_of_flow(src, dst, 17, ports) % 1024 >> 3 != wanted:
            ports = (r.randint(1, 65535), 80)
        flows.append((socket.inet_ntoa(src), socket.inet_ntoa(dst), ports))

    def build(n):
        src, dst, ports = r.choice(flows)
        return ethernet(0x800, ipv4(17, udp(*ports, n - 34), src, dst, 0, n - 14))

    return Traffic(build, 42)


class Scenario:
    def __init__(self, seed):
        self.name, self.events = f"w{seed:06}", []
        r = self.r = random.Random(f"cake {seed}")
        self.kbit = r.choice((8, 16, 32, 64, 64, 64)) if r.random() < 0.2 else int(10 ** r.uniform(1.7, 4.4))
        self.cake, self.handle = words(r, self.kbit), r.choice(("", "", "handle 1:", "handle a:"))
        kbit = self.kbit if "bandwidth" in self.cake else r.choice((200, 3000, 20000))
        self.bits_per_second = kbit * 1000
        many = r.choice((10, 16, 40, 40, 100, 100, 100, 130, 200, 230, 350))
        load = r.choice((0.6, 0.95, 1.2, 1.5, 2.5, 5))
        self.end = max(MS, int(many * r.choice((300, 700, 1000)) * 8 * SECOND / (self.bits_per_second * load)))
        for k in range(r.choice((1, 1, 2, 2, 3, 4, 5, 6, 12))):
            self.flow(k, many, load)
        if "ack-filter" in self.cake or r.random() < 0.2:
            self.acknowledgments()
        self.events.sort(key=lambda event: event[0])
        self.events = self.events[: many + 1]
        self.end = self.events[-1][0] + 1 if self.events else MS
        for _ in range(r.choice((0, 0, 1, 2, 5))):
            self.events.append((r.randint(0, self.end), "X", "tc qdisc change dev v0 root cake " + changed(r, self.kbit)))
        for number in range(r.choice((1, 1, 2, 3))):
            self.events.append((r.randint(0, self.end), "S", f"mid{number}"))
        self.events.sort(key=lambda event: event[0])

    def packet(self, time, frame, length, meta, gso=0, flow=None):
        self.events.append((int(time), "P", frame, length, *meta, gso, flow))

    def flow(self, k, many, load):
        r, flow = self.r, traffic(self.r, k)
        rate = max(self.bits_per_second * load * r.choice((0.2, 0.5, 1)), 1000)
        sizes = r.choice(((1514,), (1514, 1514, 100), (300,), (200, 700, 1200), (1000,), (flow.least + 6,), (128, 1400), (60,), (1500, 600)))
        sizes = tuple(max(size, flow.least) for size in sizes)
        # The device drops larger frames behind the qdisc.
        gso = flow.headers and r.random() < 0.3 and min(r.choice((1448, 1448, 1000, 536, 1400, 1414)), 1514 - flow.headers)
        minor = r.randint(0, 9)
        priority = r.choice((0, 0, 0, 0, 6, 7, 0x10000 | minor, 0xA0000 | minor, 0x20001))
        meta = (priority, r.choice((0, 0, 1, 2, 3, 5, 0x30, 0xF0, 0xFF)))
        begin, end = r.randint(0, self.end // 3), r.randint(2 * self.end // 3, self.end)
        pattern, burst, time = r.random(), r.randint(2, 60), begin
        gap = r.choice((0, 0, 1000, 50000))
        for _ in range(many):
            if time >= end:
                break
            size = r.choice(sizes)
            if gso and r.random() < 0.8:
                payload = gso * r.choice((1, 1, 2, 2, 3, 5, 10, 20)) + r.choice((0, 1, 7, gso // 2, gso))
                size = min(payload, 44 * gso) + flow.headers
            in_one = gso if gso and size - flow.headers > gso else 0
            size = size if in_one else min(size, 1514)
            self.packet(time, flow.build(size), size, meta, in_one, flow)
            spacing = size * 8 * SECOND / rate
            if pattern < 0.4:
                time += spacing
            elif pattern < 0.7:
                time += spacing * r.expovariate(1)
            else:
                time += gap if r.random() > 1 / burst else spacing * burst

    def acknowledgments(self):
        """A download's ACKs, some of them with SACK blocks, ECE or data."""
        r, time, ack, stamp, hole = self.r, 0, 1000, 50, None
        ip6, tagged, rate, echo = r.random() < 0.3, tags(r), self.bits_per_second * r.choice((0.1, 0.4, 1.0)), r.choice((0, 0, 0.1))
        while time < self.end and len(self.events) < 1500:
            time += int(r.expovariate(1) * 66 * 8 * SECOND / rate)
            stamp += r.random() < 0.4
            options = timestamps(stamp, stamp - 9) if r.random() < 0.97 else b""
            if hole is None and r.random() < 0.05:
                hole = ack + 1448
            if hole:
                options = timestamps(stamp, stamp - 9) + sack((hole, hole + 1448 * r.randint(1, 4)))
                if r.random() < 0.2:
                    ack, hole = hole + 5792, None
            else:
                ack += 1448 * r.randint(0, 2)
            header = tcp(7000, 443, 1, ack, 0x10 | (0x40 if r.random() < echo else 0), 1000, options)
            data = 100 if r.random() < 0.02 else 0
            if ip6:
                frame = ethernet(0x86DD, ipv6(6, header, "fd00::1", "fd01::9", 0, 40 + len(header) + data), tagged)
            else:
                frame = ethernet(0x800, ipv4(6, header, "10.0.0.1", "10.1.0.9", 0, 20 + len(header) + data), tagged)
            self.packet(time, frame, len(frame) + data, (0, 0))

    def write(self, directory):
        lines, packets = [], []
        for event in self.events:
            if event[1] == "X":
                lines.append(f"T {event[0]} {event[2][3:]}")
            elif event[1] == "S":
                lines.append(f"S {event[0]} {event[2]}")
            else:
                time, _, frame, length, priority, mark, gso, flow = event
                index = len(packets)
                frame = with_index(frame, index)[:length]
                frame = frame[:14] + frame[14:].rstrip(b"\0")
                start = start_of_tcp(frame) if gso else 0
                lines.append(f"F {index % 4096} {frame.hex()}")
                lines.append(f"P {time} {index % 4096} {length} {priority} {mark} {gso} {index} {start} {int(bool(flow and flow.ipv6))}")
                packets.append([time, frame.hex(), length] + ([priority, mark, gso] if priority or mark or gso else []))
        lowest = 8000 if "bandwidth" in str(self.events) or self.kbit < 100 else self.bits_per_second / 10
        drain = min(30 * SECOND, int(sum(packet[2] for packet in packets) * 10 * SECOND / lowest)) + 2 * SECOND
        lines.append(f"E {self.end + drain}")
        events = [event[:3] for event in self.events if event[1] != "P"]
        about = dict(name=self.name, cake=self.cake, handle=self.handle, events=events, packets=packets)
        for ending, text in ((".sched", "\n".join(lines) + "\n"), (".cfg", f"{self.cake}|{self.handle}|\n"), (".json", json.dumps(about))):
            with open(os.path.join(directory, self.name + ending), "w") as file:
                file.write(text)


def start_of_tcp(frame):
    kind, at = network(frame)
    return at + (40 if kind == 0x86DD else (frame[at] & 15) * 4)


if __name__ == "__main__":
    directory, count, first = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    os.makedirs(directory, exist_ok=True)
    for seed in range(first, first + count):
        Scenario(seed).write(directory)
