#!/usr/bin/env python3
"""A random peer and a random application, played to a kernel; what it does becomes a packetdrill script.

usage: play.py OUT TOPIC FIRST COUNT      (as root; in the guest: drillfuzz.sh)
"""
import os
import random
import socket
import struct
import sys
import traceback

from kernel import EndOfScript, Kernel, sysctl
from topics import SYSCTLS, TOPICS
from wire import ACK, AE, CWR, ECE, FIN, PSH, RST, SYN, URG, Segment

MS = 1_000_000


class Play:
    """One scenario: the peer's view of the connection, and what may happen next."""

    def __init__(self, topic, seed):
        self.rng = random.Random("%s %d" % (topic, seed))
        self.weights, setting = TOPICS[topic]
        self.topic, self.seed = topic, seed
        rng = self.rng
        self.accecn = setting.get("accecn", 0) > rng.random()
        self.ecn = self.accecn or setting.get("ecn", 0) > rng.random()
        self.client = rng.random() < setting.get("client", 0.25)
        self.memory = rng.random() < setting.get("memory", 0)
        self.odd = setting.get("odd", 0.05)
        v6 = rng.random() < 0.2
        sysctls = [line for chance, lines in setting.get("sysctls", []) for line in [rng.choice(lines)] if rng.random() < chance]
        if "drawn" in setting:
            sysctls += [self.a_sysctl() for _ in range(rng.randrange(setting["drawn"] + 1))]
        if self.accecn:
            sysctls.append("net.ipv4.tcp_ecn=%d" % rng.choice([3, 3, 3, 4, 5]))
        elif self.ecn:
            sysctls.append("net.ipv4.tcp_ecn=%d" % rng.choice([1, 2]))
        self.mss = rng.choice([1000, 1000, 1000, 1460, 536, 100, 88, 700 + rng.randrange(600)])
        self.kernel = Kernel(v6, sysctls, rng.choice([None, None, self.mss]))
        self.nxt, self.rcv = 0, 0               # what the peer sends next; what it has of the host in order
        self.ranges = []                        # what came of the host out of order
        self.segments = []                      # every segment of the host with data
        self.hole = []                          # what the peer left out: (seq, length)
        self.acked, self.window, self.wscale = 0, 0, 0
        self.ts = self.sack = False
        self.clock = rng.choice([1, 200, 1000, 0xfffffff0, 0x7fffffff])
        self.last_ts = 0
        self.fd = self.listener = None
        self.shut = self.fin_sent = self.dead = False
        self.r_ceb, self.r_e0b, self.r_e1b, self.r_cep = 0, 1, 1, 5
        self.rcv_win = rng.choice([65535, 32792, 20000, 10000, 3000, 257, 1000])

    # What the peer hears.

    def look(self):
        for seg in self.kernel.sent:
            if seg.flags & RST:
                self.dead = True
            for name, *values in seg.options:
                if name == "TS":
                    self.last_ts = values[0]
            if seg.flags & SYN:
                self.rcv = max(self.rcv, 1)
                names = [option[0] for option in seg.options]
                self.host_options = names
                self.host_flags = seg.flags
                for name, *values in seg.options:
                    if name == "wscale":
                        self.wscale = values[0]
            if seg.flags & ACK:
                self.acked = seg.ack
                self.window = seg.win << (0 if seg.flags & SYN else self.wscale)
            if seg.length or seg.flags & FIN:
                self.segments.append(seg)
                if seg.mark == 3:
                    self.r_ceb += seg.length
                elif seg.mark == 2:
                    self.r_e0b += seg.length
                elif seg.mark == 1:
                    self.r_e1b += seg.length
                self.ranges.append((seg.seq, seg.end))
                self.ranges.sort()
                for left, right in self.ranges:
                    if left <= self.rcv < right:
                        self.rcv = right
        self.kernel.sent.clear()

    def wait(self, ms):
        self.kernel.wait(int(ms * MS))
        self.look()

    # What the peer says.

    def options(self, sack=()):
        out = []
        if self.ts:
            value = self.clock + self.kernel.now() // MS & 0xffffffff
            out = [("nop",), ("nop",), ("TS", value, self.last_ts)]
        if self.accecn and self.negotiated_accecn and self.rng.random() < 0.7 and not sack:
            out += [("ECN0", self.r_e0b, self.r_ceb, self.r_e1b), ("nop",)]
        if sack:
            out += [("nop",), ("nop",), ("sack", *sack[:3 if self.ts else 4])]
        return out

    def say(self, flags, seq, length=0, ack=None, win=None, options=None, urg=0, mark=0):
        ack = self.rcv if ack is None else ack
        if win is None:
            win = self.rcv_win
        if self.negotiated_accecn and flags & ACK and not flags & (SYN | RST):
            bits = self.r_cep & 7
            flags |= (AE if bits & 4 else 0) | (CWR if bits & 2 else 0) | (ECE if bits & 1 else 0)
        seg = Segment(flags, seq & 0xffffffff, length, ack & 0xffffffff, win, urg, mark,
                      self.options() if options is None else options)
        self.kernel.inject(seg)
        self.look()

    negotiated_accecn = False

    def mark(self):
        if not self.ecn:
            return 0
        return self.rng.choice([0, 2, 2, 2, 3, 1])

    # Opening.

    def syn_options(self, answer=None):
        rng = self.rng
        allowed = answer if answer is not None else ["mss", "sackOK", "TS", "wscale"]
        self.sack = "sackOK" in allowed and rng.random() < 0.75
        self.ts = "TS" in allowed and rng.random() < 0.4
        ws = "wscale" in allowed and rng.random() < 0.7
        out = [("mss", self.mss)] if rng.random() < 0.95 else []
        if self.sack:
            out += [("sackOK",)] + ([] if self.ts else [("nop",), ("nop",)])
        elif self.ts:
            out += [("nop",), ("nop",)]
        if self.ts:
            out += [("TS", self.clock, self.last_ts)]
        if ws:
            self.peer_scale = rng.choice([0, 0, 2, 7, 8, 14])
            out += [("nop",), ("wscale", self.peer_scale)]
        return out

    def open(self):
        rng, kernel = self.rng, self.kernel
        if self.client:
            fd = kernel.socket()
            self.early_options(fd)
            kernel.connect(fd)
            self.fd = fd
            self.look()
            for _ in range(8):
                if rng.random() >= self.odd * 4:
                    break
                self.odd_open(True)
            if self.dead:
                return
            self.rcv = 1
            flags = SYN | ACK
            if self.host_flags & ECE and self.ecn:
                if self.host_flags & AE:
                    flags |= rng.choice([CWR, CWR | AE, AE, ECE, AE | ECE, CWR | ECE, 0])
                    self.negotiated_accecn = flags & (CWR | AE) != 0 and flags & (AE | CWR | ECE) != AE | ECE
                elif rng.random() < 0.8:
                    flags |= ECE
            options = self.syn_options(self.host_options)
            if self.negotiated_accecn and rng.random() < 0.6 and not (self.ts and self.sack):
                options += [("ECN0", 1, 0, 1), ("nop",)]
            self.say(flags, 0, win=rng.choice([65535, 20000, 5840, 1000, 0]), options=options)
            self.nxt = 1
        else:
            self.listener = kernel.socket()
            self.early_options(self.listener)
            kernel.listen(self.listener)
            flags = SYN
            if self.accecn and rng.random() < 0.9:
                flags |= ECE | CWR | AE
            elif self.ecn:
                flags |= ECE | CWR
            if rng.random() < self.odd:
                flags |= rng.choice([ECE, CWR, AE, PSH, URG])
            options = self.syn_options()
            data = rng.choice([10, 1000]) if rng.random() < self.odd else 0
            again = lambda: self.say(flags, 0, length=data, ack=0, win=rng.choice([65535, 20000, 5840, 1000, 0]), options=options)
            again()
            # An echo of 0 is none that a script may have.
            self.ts = self.ts and "TS" in getattr(self, "host_options", [])
            self.nxt = 1
            if self.kernel.lines[-1].split()[1] == ">" and getattr(self, "host_flags", 0) & (AE | CWR) and flags & AE:
                self.negotiated_accecn = True
            for _ in range(8):
                if rng.random() >= self.odd * 4:
                    break
                if rng.random() < 0.2:
                    again()
                else:
                    self.odd_open(False)
            if self.dead:
                return
            self.wait(rng.choice([10, 10, 20, 50]))
            early = rng.random()
            if early < 0.15:
                self.data(early=True)
            elif early < 0.3:
                # Data of the peer before its ACK has arrived: out of order.
                self.say(ACK, self.nxt)
                for _ in range(rng.randrange(4)):
                    rng.choice([self.data, self.gap])()
            else:
                self.say(ACK, self.nxt)
            self.fd = kernel.accept(self.listener)
            if self.fd is None:
                self.wait(rng.choice([10, 1100]))
                self.say(ACK, self.nxt)
                self.fd = kernel.accept(self.listener)
        self.look()

    def early_options(self, fd):
        rng = self.rng
        if self.memory:
            if rng.random() < 0.6:
                self.kernel.setsockopt(fd, "SOL_SOCKET", "SO_RCVBUF", rng.choice([1, 2000, 2304, 4096, 5000, 10000, 20000, 65536, 100000, 300000]))
            if rng.random() < 0.4:
                self.kernel.setsockopt(fd, "SOL_SOCKET", "SO_SNDBUF", rng.choice([1, 2304, 4608, 10000, 20000, 50000]))
        if rng.random() < self.odd:
            self.kernel.setsockopt(fd, "SOL_TCP", "TCP_MAXSEG", rng.choice([88, 500, 1000, 1400]))
        if rng.random() < self.odd:
            self.kernel.setsockopt(fd, "SOL_TCP", "TCP_WINDOW_CLAMP", rng.choice([0, 1000, 5000, 30000]))
        if rng.random() < self.odd * 3:
            self.kernel.setsockopt(fd, "SOL_TCP", "TCP_NODELAY", 1)
        if rng.random() < self.odd * 2:
            self.kernel.setsockopt(fd, "SOL_TCP", "TCP_SYNCNT", rng.choice([1, 2]))
        if rng.random() < self.odd:
            self.kernel.setsockopt(fd, "SOL_TCP", "TCP_DEFER_ACCEPT", rng.choice([1, 3]))
        if self.weights.get("zerocopy"):
            self.kernel.setsockopt(fd, "SOL_SOCKET", "SO_ZEROCOPY", 1)

    def odd_open(self, client):
        """A segment that does not belong into a handshake, or time."""
        rng = self.rng
        if rng.random() < 0.35:
            return self.wait(rng.choice([0.1, 5, 200, 1000, 1001, 2100]))
        flags = rng.choice([ACK, RST, RST | ACK, SYN, SYN | ACK, FIN | ACK, 0, ACK | PSH, SYN | RST, FIN, URG | ACK, SYN | FIN])
        seq = rng.choice([0, 1, 1, 1, 2, 1000, 60000, 70000, -1, -1000])
        if client and flags & SYN:
            seq = 0              # a SYN says where the numbers of the script begin
        ack = rng.choice([0, 1, 1, 1, 2, -1, 1000])
        options = self.options() if rng.random() < 0.7 else []
        if flags & SYN and rng.random() < 0.7:
            options = [("mss", self.mss), ("nop",), ("wscale", 3)]
        self.say(flags, seq, rng.choice([0, 0, 0, 1, 100, 1000]) if not flags & RST else 0, ack=ack, win=rng.choice([1000, 0, 65535]), options=options)
        self.dead = False

    # The peer's actions.

    def data(self, early=False):
        rng = self.rng
        if self.hole and rng.random() < 0.3:
            seq, length = self.hole.pop(rng.randrange(len(self.hole)))
            return self.say(ACK | rng.choice([0, PSH]), seq, length, mark=self.mark())
        size = rng.choice([1, 10, 99, 500, self.mss, self.mss, self.mss, 2 * self.mss, self.mss - 1, 5 * self.mss, rng.randrange(1, 3000)])
        if self.memory and rng.random() < 0.2:
            size = min(60000, max(1, self.window - rng.choice([0, 0, 1, 100, -100, 1000])))
        if self.fin_sent:
            return self.data_again()
        self.say(ACK | rng.choice([0, PSH, PSH]), self.nxt, size, mark=self.mark())
        self.nxt += size

    def flood(self):
        size = self.rng.choice([self.mss, self.mss, 100, 1, 1448, 3 * self.mss])
        for _ in range(self.rng.randrange(2, 12)):
            if self.fin_sent or self.dead:
                return
            self.say(ACK, self.nxt, size, mark=self.mark())
            self.nxt += size

    def gap(self):
        """Data behind something that has not come."""
        rng = self.rng
        if self.fin_sent:
            return
        missing = rng.choice([1, 100, self.mss, 3 * self.mss, rng.randrange(1, 2000)])
        self.hole.append((self.nxt, missing))
        self.nxt += missing
        size = rng.choice([1, 10, self.mss, self.mss, 2 * self.mss, self.mss - 1, 5 * self.mss, rng.randrange(1, 3000)])
        self.say(ACK | rng.choice([0, PSH]), self.nxt, size, mark=self.mark())
        self.nxt += size

    def data_again(self):
        rng = self.rng
        low = max(1, self.nxt - rng.choice([1, 100, self.mss, 3000, 10000]))
        self.say(ACK | rng.choice([0, PSH]), low, rng.choice([1, 10, self.mss, 1000, 2000]), mark=self.mark())

    def beyond(self):
        """Data at or beyond the end of the window."""
        rng = self.rng
        if self.fin_sent:
            return
        edge = self.acked + self.window
        seq = rng.choice([self.nxt, self.nxt, edge - 1, edge, edge + 1, edge - 1000, edge + 1000, self.acked])
        size = rng.choice([1, 1000, max(1, min(60000, edge - seq)), max(1, min(60000, edge - seq + 1)), max(1, min(65000, edge - seq + rng.choice([1000, 5000, 60000])))])
        self.say(ACK | rng.choice([0, PSH, FIN]), seq, size)

    def ack(self):
        rng = self.rng
        choice = rng.random()
        ack = self.rcv
        outstanding = [seg for seg in self.segments if seg.end > 1]
        if choice < 0.25 and outstanding:
            ack = min(self.rcv, rng.choice(outstanding[-8:]).end)
        elif choice < 0.3 and outstanding:
            ack = min(self.rcv, rng.choice(outstanding[-8:]).seq + rng.randrange(1, 1500))
        if rng.random() < 0.15:
            self.rcv_win = rng.choice([65535, 32792, 20000, 10000, 3000, 257, 1000, 100, 50])
        if self.ecn and self.negotiated_accecn and rng.random() < 0.3:
            count = rng.choice([1, 1, 2, 3, 5])
            self.r_cep += count
            self.r_ceb += count * self.mss
            self.r_e0b += count * 10
        flags = ACK
        if self.ecn and not self.negotiated_accecn and rng.random() < 0.25:
            flags |= rng.choice([ECE, ECE, CWR])
        self.say(flags, self.nxt, ack=ack)

    def ack_all(self):
        self.say(ACK, self.nxt)

    def window_zero(self):
        self.rcv_win = self.rng.choice([0, 0, 0, 1, 10])
        self.say(ACK, self.nxt)

    def window_open(self):
        self.rcv_win = self.rng.choice([1000, 20000, 65535])
        self.say(ACK, self.nxt)

    def sack_some(self):
        """An ACK that leaves out segments: SACK, if it was agreed on."""
        rng = self.rng
        recent = [seg for seg in self.segments if seg.length][-12:]
        if not recent or not self.sack:
            return self.ack()
        base = min(self.rcv, rng.choice([recent[0].seq, recent[0].seq, self.rcv]))
        if self.last_said(base):
            base = max(base, self.last_said(base))
        blocks = []
        for _ in range(rng.randrange(1, 4)):
            seg = rng.choice(recent)
            step = self.mss
            count = max(1, -(-seg.length // step))
            left = seg.seq + step * rng.randrange(count)
            right = min(seg.end, left + step * rng.randrange(1, count + 1))
            if rng.random() < 0.05:
                left += rng.randrange(200)
            if base < left < right and not any(l < right and left < r for l, r in blocks):
                blocks.append((left, right))
        if rng.random() < 0.1 and base > 100:
            blocks.insert(0, (base - min(base - 1, self.mss), base))
        self.highest = max(getattr(self, "highest", 0), base)
        self.say(ACK, self.nxt, ack=base, options=self.options(blocks))

    def last_said(self, _):
        return getattr(self, "highest", 0)

    def bad_ack(self):
        rng = self.rng
        ack = rng.choice([self.rcv + 1, self.rcv + 1000, self.rcv + 100000, -1, 0, self.rcv - 1, self.rcv - 100000, 1])
        length = rng.choice([0, 0, 1, 100])
        self.say(ACK | rng.choice([0, PSH]), self.nxt, length, ack=ack, win=rng.choice([self.rcv_win, 0, 500]))
        if length and not self.fin_sent and self.acked >= self.nxt + length:
            self.nxt += length

    def bad_ts(self):
        if not self.ts:
            return self.bad_ack()
        rng = self.rng
        value = self.clock + self.kernel.now() // MS + rng.choice([-1, -10, -1000, -0x7fffffff, 1000, 0x7fffffff, 5])
        ack = rng.choice([self.rcv, self.rcv, self.rcv + 1, self.rcv + 3000, self.rcv - 1, self.rcv - 70000])
        length = rng.choice([0, 0, 1, 1000])
        seq = rng.choice([self.nxt, self.nxt, self.nxt + 1000, self.nxt - 1, max(1, self.nxt - 1000), self.nxt + 3000000])
        self.say(ACK, seq, length, ack=ack, options=[("nop",), ("nop",), ("TS", value & 0xffffffff, self.last_ts)])
        if self.acked == seq + length:
            self.nxt = max(self.nxt, self.acked)

    def odd_segment(self):
        rng = self.rng
        edge = self.acked + self.window
        flags = rng.choice([ACK, RST, RST | ACK, SYN, SYN | ACK, FIN | ACK, 0, ACK | PSH, SYN | RST, FIN, PSH, SYN | FIN | ACK, URG | ACK])
        seq = rng.choice([self.nxt, self.nxt, self.nxt, self.nxt + 1, self.nxt - 1, edge, edge - 1, edge + 1, 0, 1, self.nxt + 100, self.nxt + 100000, self.acked])
        ack = rng.choice([self.rcv, self.rcv, self.rcv, 0, 1, self.rcv + 1, self.rcv + 5000, self.rcv - 1])
        length = 0 if flags & RST else rng.choice([0, 0, 1, 100])
        self.say(flags, seq, length, ack=ack, win=rng.choice([self.rcv_win, 1000, 0]), options=self.options() if rng.random() < 0.8 else [],
                 urg=rng.choice([0, 1, 50]) if flags & URG else 0)
        if self.acked > self.nxt and not self.hole:
            self.nxt = self.acked

    def fin(self):
        rng = self.rng
        length = rng.choice([0, 0, 0, 1, self.mss])
        if not self.fin_sent:
            self.fin_at, self.nxt, self.fin_sent = self.nxt, self.nxt + length + 1, True
            return self.say(FIN | ACK, self.fin_at, length)
        self.say(FIN | ACK, self.nxt - 1)

    def rst(self):
        rng = self.rng
        if rng.random() < 0.5:
            return self.odd_segment()
        self.say(RST | rng.choice([0, ACK]), rng.choice([self.nxt, self.acked, self.acked + 1, self.nxt + 100]), options=rng.choice([[], self.options()]))

    def urgent(self):
        rng = self.rng
        if self.fin_sent:
            return
        size = rng.choice([1, 10, 100, self.mss])
        self.say(ACK | URG | PSH, self.nxt, size, urg=rng.choice([0, 1, size, size + 1, size - 1, 5, 2000]))
        self.nxt += size

    def icmp(self):
        rng = self.rng
        known = [seg for seg in self.segments if seg.length]
        if self.kernel.numbers.local is None:
            return
        seg = rng.choice(known[-6:]) if known else Segment(0, 1, 0)
        seq = seg.seq if rng.random() < 0.85 else seg.seq + rng.choice([-1000, 100000, 1])
        if seq < 0:
            return
        length = min(seg.length, self.mss)
        mtu = rng.choice([1300, 1000, 600, 1280, 1400, 500, 1500, 68, 0, 9000])
        if self.kernel.v6:
            kinds = [("packet_too_big mtu %d" % mtu, 2, 0, mtu), ("unreachable port_unreachable", 1, 4, 0),
                     ("unreachable admin_prohibited", 1, 1, 0), ("unreachable no_route", 1, 0, 0)]
            kinds = kinds[:1] * 3 + kinds
        else:
            kinds = [("unreachable frag_needed mtu %d" % mtu, 3, 4, mtu), ("unreachable host_unreachable", 3, 1, 0),
                     ("unreachable port_unreachable", 3, 3, 0), ("unreachable net_unreachable", 3, 0, 0),
                     ("unreachable protocol_unreachable", 3, 2, 0), ("unreachable source_route_failed", 3, 5, 0), ("source_quench", 4, 0, 0)]
            kinds = kinds[:1] * 4 + kinds
        text, kind, code, info = rng.choice(kinds)
        self.kernel.inject_icmp(text, kind, code, info, seq, length)
        self.look()

    # The application's actions.

    def write(self):
        size = self.rng.choice([1, 10, 100, 500, 1000, self.mss, 2 * self.mss, 5000, 10000, 10 * self.mss, 20000, self.rng.randrange(1, 5000)])
        self.kernel.send(self.fd, size)
        self.look()

    def write_small(self):
        self.kernel.send(self.fd, self.rng.choice([1, 10, 100, 300, self.mss - 1, self.mss, self.mss + 1]))
        self.look()

    def write_more(self):
        flags = self.rng.choice([["MSG_MORE"], ["MSG_EOR"], ["MSG_DONTWAIT"], ["MSG_MORE"]])
        self.kernel.send(self.fd, self.rng.choice([1, 10, 500, 1000, self.mss, 3000]), flags)
        self.look()

    def write_oob(self):
        self.kernel.send(self.fd, self.rng.choice([1, 2, 10, self.mss, 3000]), ["MSG_OOB"])
        self.look()

    def zerocopy(self):
        flags = ["MSG_ZEROCOPY"] + self.rng.choice([[], [], ["MSG_MORE"], ["MSG_EOR"]])
        self.kernel.send(self.fd, self.rng.choice([1, 100, 1000, 4000, 5000, 20000]), flags)
        self.look()

    def errqueue(self):
        self.kernel.errqueue(self.fd)

    def read(self):
        self.kernel.recv(self.fd, self.rng.choice([1, 10, 500, 1000, 5000, 20000, 100000]))
        self.look()

    def recv(self):
        flags = self.rng.choice([["MSG_PEEK"], ["MSG_DONTWAIT"], ["MSG_WAITALL"], ["MSG_OOB"], ["MSG_OOB", "MSG_PEEK"], ["MSG_TRUNC"]])
        self.kernel.recv(self.fd, self.rng.choice([1, 1, 10, 1000]) , flags)
        self.look()

    def setsockopt(self):
        rng = self.rng
        level, name, values = rng.choice([
            ("SOL_TCP", "TCP_NODELAY", [0, 1]), ("SOL_TCP", "TCP_CORK", [0, 1]), ("SOL_TCP", "TCP_QUICKACK", [0, 1]),
            ("SOL_TCP", "TCP_MAXSEG", [100, 500, 1400]), ("SOL_TCP", "TCP_WINDOW_CLAMP", [0, 500, 3000, 20000, 100000]),
            ("SOL_TCP", "TCP_NOTSENT_LOWAT", [1, 2000]), ("SOL_TCP", "TCP_USER_TIMEOUT", [500, 3000]),
            ("SOL_TCP", "TCP_KEEPIDLE", [1]), ("SOL_TCP", "TCP_KEEPINTVL", [1]), ("SOL_TCP", "TCP_KEEPCNT", [2]),
            ("SOL_SOCKET", "SO_KEEPALIVE", [0, 1]), ("SOL_SOCKET", "SO_RCVLOWAT", [1, 1000, 5000]),
            ("SOL_TCP", "TCP_LINGER2", [-1, 1, 3]), ("SOL_SOCKET", "SO_OOBINLINE", [0, 1])])
        self.kernel.setsockopt(self.fd, level, name, rng.choice(values))
        self.look()

    def getsockopt(self):
        level, name = self.rng.choice([("SOL_TCP", "TCP_MAXSEG"), ("SOL_SOCKET", "SO_SNDBUF"), ("SOL_SOCKET", "SO_RCVBUF"),
                                       ("SOL_SOCKET", "SO_ERROR"), ("SOL_TCP", "TCP_WINDOW_CLAMP"), ("SOL_TCP", "TCP_QUICKACK")])
        self.kernel.getsockopt(self.fd, level, name)

    def rcvbuf(self):
        self.kernel.setsockopt(self.fd, "SOL_SOCKET", "SO_RCVBUF", self.rng.choice([1, 2000, 4000, 10000, 20000, 100000]))
        self.look()

    def sndbuf(self):
        self.kernel.setsockopt(self.fd, "SOL_SOCKET", "SO_SNDBUF", self.rng.choice([1, 4000, 10000, 20000, 100000]))
        self.look()

    def look_around(self):
        choice = self.rng.random()
        if choice < 0.3:
            self.kernel.poll(self.fd)
        elif choice < 0.5:
            try:
                self.kernel.ioctl(self.fd)
            except OSError:
                pass
        elif choice < 0.6:
            self.getsockopt()
        else:
            self.kernel.check(self.fd)

    def pause(self):
        rng = self.rng
        self.wait(rng.choice([0.1, 1, 5, 10, 20, 39, 41, 50, 100, 210, 250, rng.uniform(0, 400)]))

    def pause_long(self):
        self.wait(self.rng.choice([300, 500, 1000, 1500, 3000, 7000]))

    def shutdown(self):
        self.kernel.shutdown(self.fd, self.rng.choice(["SHUT_WR", "SHUT_WR", "SHUT_RD", "SHUT_RDWR"]))
        self.look()

    def close(self):
        if self.rng.random() < 0.15:
            self.kernel.sockets[self.fd].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.kernel.line("setsockopt(%d, SOL_SOCKET, SO_LINGER, {onoff=1, linger=0}, 8) = 0" % self.fd)
        self.kernel.close(self.fd)
        self.fd = None
        self.look()

    def a_sysctl(self):
        name, values = self.rng.choice(list(SYSCTLS.items()))
        return "net.ipv4.%s=%d" % (name, self.rng.choice(values))

    def sysctl_now(self):
        line = self.a_sysctl()
        try:
            sysctl(line)
        except OSError:
            return
        self.kernel.line("`sysctl -q %s`" % line)

    def congestion(self):
        name = self.rng.choice(["reno", "cubic"])
        sock = self.kernel.sockets[self.fd]
        self.kernel.call('setsockopt(%d, SOL_TCP, TCP_CONGESTION, "%s", %d)' % (self.fd, name, len(name)),
                         lambda: sock.setsockopt(6, socket.TCP_CONGESTION, name.encode()))

    def setsockopt_rare(self):
        level, name, values = self.rng.choice([
            ("SOL_TCP", "TCP_THIN_LINEAR_TIMEOUTS", [0, 1]), ("SOL_TCP", "TCP_RTO_MAX_MS", [1000, 5000]), ("SOL_TCP", "TCP_SYNCNT", [1]),
            ("SOL_TCP", "TCP_DEFER_ACCEPT", [1]), ("SOL_SOCKET", "SO_RCVLOWAT", [3000, 50000, 300000]), ("SOL_SOCKET", "SO_PRIORITY", [3]),
            ("SOL_TCP", "TCP_INQ", [0, 1]), ("SOL_TCP", "TCP_SAVE_SYN", [1])])
        self.kernel.setsockopt(self.fd, level, name, self.rng.choice(values))
        self.look()

    OF_APPLICATION = set("""congestion setsockopt_rare write write_small write_more write_oob zerocopy errqueue read recv setsockopt getsockopt rcvbuf
     sndbuf look_around shutdown close""".split())

    def run(self):
        try:
            self.go()
        except EndOfScript:
            pass
        return self.kernel.script("%s, seed %d" % (self.topic, self.seed))

    def go(self):
        self.open()
        names, weights = zip(*self.weights.items())
        silent = 0
        for _ in range(self.rng.randrange(5, 45)):
            name = self.rng.choices(names, weights)[0]
            if name in self.OF_APPLICATION and self.fd is None:
                continue
            getattr(self, name)()
            if self.dead:
                silent += 1
                if silent > 4:
                    break
            if self.rng.random() < 0.3:
                self.wait(self.rng.choice([0.01, 1, 5, 10, 20, 40]))
            if self.fd is not None and self.rng.random() < 0.1:
                self.kernel.check(self.fd)
        self.wait(self.rng.choice([10, 500, 2000]))
        if self.fd is not None:
            self.kernel.check(self.fd)


def main():
    out, topics, first, count = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]), int(sys.argv[4])
    for topic in topics:
        for seed in range(first, first + count):
            child = os.fork()
            if child == 0:
                try:
                    script = Play(topic, seed).run()
                    with open("%s/%s-%05d.pkt" % (out, topic, seed), "w") as f:
                        f.write(script)
                except BaseException:
                    traceback.print_exc()
                    print("FAILED", topic, seed, flush=True)
                    sys.stderr.flush()
                os._exit(0)
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
