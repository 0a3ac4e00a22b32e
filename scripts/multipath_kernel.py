#!/usr/bin/env python3
"""Shows by which exit the kernel sends packets, in the network namespace that it is run in.

usage: scripts/multipath_kernel.py frames  IN EXIT... < LIST    lines "NUMBER PACKET", the IP packet in hexadecimal
       scripts/multipath_kernel.py sockets EXIT...    < LIST    lines "NUMBER udp|tcp SRC SPORT DST DPORT"

EXITs are what the exits of the router lead to: the far ends of its virtual cables, where the packets are
caught. `frames` sends each packet into the far end IN of the cable to the router; `sockets` sends from a
bound socket of this machine. Answers with lines "NUMBER EXIT". Caught packets are told apart by their
last four bytes, SYNs by their addresses and ports.
"""

import select
import socket
import struct
import sys
import time

ETH_P_ALL = 3
ROUTER = bytes.fromhex("020000000901")  # what the router's entrance must be called
SENDER = bytes.fromhex("020000000902")
AT_ONCE = 32  # packets on the way, so that no receive buffer overflows
PATIENCE = 5.0  # seconds without any packet before we give up


class Exits:
    """Catches what leaves, and remembers by which exit."""

    def __init__(self, names):
        self.found = {}
        self.last = time.monotonic()
        self.sockets = {}
        for name in names:
            caught = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            caught.bind((name, ETH_P_ALL))
            caught.setblocking(False)
            self.sockets[caught] = name

    def take(self, names_of, seconds):
        """Takes in what has come; `names_of` says which packet a frame may be."""
        for caught in select.select(list(self.sockets), [], [], seconds)[0]:
            while True:
                try:
                    frame, address = caught.recvfrom(65535)
                except BlockingIOError:
                    break
                if address[2] == socket.PACKET_OUTGOING:
                    continue
                self.last = time.monotonic()
                for name in names_of(frame):
                    self.found.setdefault(name, self.sockets[caught])

    def wait(self, names, names_of):
        """Waits until all of these have been seen."""
        self.last = time.monotonic()
        while any(name not in self.found for name in names):
            self.take(names_of, 0.05)
            if time.monotonic() - self.last > PATIENCE:
                missing = [name for name in names if name not in self.found]
                sys.exit(f"{len(missing)} packets left by none of the exits, among them {missing[0]}")


def by_tail(frame):
    """The number in the last four bytes."""
    return [struct.unpack("!I", frame[-4:])[0]]


def by_ends(frame):
    """Protocol, addresses and ports of a TCP segment without extension headers."""
    kind, packet = frame[12:14], frame[14:]
    if kind == b"\x08\x00" and packet[9] == 6:
        start, family, source, target = (packet[0] & 15) * 4, socket.AF_INET, packet[12:16], packet[16:20]
    elif kind == b"\x86\xdd" and packet[6] == 6:
        start, family, source, target = 40, socket.AF_INET6, packet[8:24], packet[24:40]
    else:
        return []
    ports = struct.unpack("!HH", packet[start:start + 4])
    ends = [socket.inet_ntop(family, address) for address in (source, target)]
    return [(ends[0], ports[0], ends[1], ports[1])]


def send_frames(entrance, exits, lines):
    """Sends each packet to the router and tells where it came out."""
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sender.bind((entrance, 0))
    sent, waiting = [], []
    for line in lines:
        number, packet = line.split()
        packet = bytes.fromhex(packet)
        kind = b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\x00"
        sender.send(ROUTER + SENDER + kind + packet)
        sent.append(int(number))
        waiting.append(int(number))
        if len(waiting) >= AT_ONCE:
            exits.wait(waiting, by_tail)
            waiting.clear()
    exits.wait(waiting, by_tail)
    return [(number, exits.found[number]) for number in sent]


def send_by_sockets(exits, lines):
    """Sends a datagram or a SYN from each socket and tells where it came out."""
    answers, open_sockets, waiting = [], [], {}

    def settle():
        exits.wait(list(waiting.values()), lambda frame: by_tail(frame) + by_ends(frame))
        answers.extend((number, exits.found[name]) for number, name in waiting.items())
        waiting.clear()
        while open_sockets:
            open_sockets.pop().close()

    for line in lines:
        number, protocol, source, sport, target, dport = line.split()
        number, sport, dport = int(number), int(sport), int(dport)
        family = socket.AF_INET6 if ":" in target else socket.AF_INET
        kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
        sending = socket.socket(family, kind)
        sending.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sending.setblocking(False)
        sending.bind((source, sport))
        open_sockets.append(sending)
        if protocol == "udp":
            sending.sendto(struct.pack("!I", number), (target, dport))
            waiting[number] = number
        else:
            sending.connect_ex((target, dport))
            waiting[number] = (source, sport, target, dport)
        if len(waiting) >= AT_ONCE:
            settle()
    settle()
    return answers


def main():
    mode, names = sys.argv[1], sys.argv[2:]
    lines = [line for line in sys.stdin.read().splitlines() if line]
    if mode == "frames":
        answers = send_frames(names[0], Exits(names[1:]), lines)
    else:
        answers = send_by_sockets(Exits(names), lines)
    for number, name in answers:
        print(number, name)


if __name__ == "__main__":
    main()
