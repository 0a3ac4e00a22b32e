"""TCP segments: to bytes, from bytes, and as packetdrill writes them."""
import struct
from dataclasses import dataclass, field

LOCAL4, REMOTE4 = bytes([192, 168, 0, 1]), bytes([192, 0, 2, 1])
LOCAL6 = bytes.fromhex("fd3d0a0b17d600000000000000000001")
REMOTE6 = bytes.fromhex("fd3dfa7bd17d00000000000000000001")
MARKS = ["[noecn] ", "[ect1] ", "[ect0] ", "[ce] "]
LETTERS = [(1, "F"), (2, "S"), (4, "R"), (8, "P"), (32, "U"), (64, "E"), (128, "W"), (256, "A"), (16, ".")]
FIN, SYN, RST, PSH, URG, ECE, CWR, AE, ACK = (bit for bit, _ in LETTERS)


class SecondConnection(Exception):
    """A SYN of another connection between the same ports: a script counts from the first one."""


@dataclass
class Segment:
    """Sequence numbers are counted from the initial one of each side (see `Numbers`)."""
    flags: int
    seq: int
    length: int
    ack: int = 0
    win: int = 0
    urg: int = 0
    mark: int = 0
    options: list = field(default_factory=list)

    @property
    def end(self):
        return self.seq + self.length + bool(self.flags & SYN) + bool(self.flags & FIN)


@dataclass
class Numbers:
    """What a script's numbers are on the wire."""
    local: int = 0
    remote: int = 0
    first_ts: int = None

    def ts(self, live):
        return live if self.first_ts is None else (live - self.first_ts + 100) & 0xffffffff

    def live_ts(self, script):
        return script if self.first_ts is None else (script + self.first_ts - 100) & 0xffffffff


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def option_bytes(options, numbers, acks=True):
    """`acks`: the echo is that of an ACK. Of other segments packetdrill takes it as it stands."""
    out = b""
    for name, *values in options:
        if name == "nop":
            out += b"\1"
        elif name == "eol":
            out += b"\0"
        elif name == "mss":
            out += struct.pack("!BBH", 2, 4, values[0])
        elif name == "wscale":
            out += bytes([3, 3, values[0]])
        elif name == "sackOK":
            out += b"\4\2"
        elif name == "TS":
            out += struct.pack("!BBII", 8, 10, values[0], numbers.live_ts(values[1]) if values[1] and acks else values[1])
        elif name == "sack":
            out += bytes([5, 2 + 8 * len(values)])
            for left, right in values:
                out += struct.pack("!II", left + numbers.local & 0xffffffff, right + numbers.local & 0xffffffff)
        elif name == "FO":
            out += bytes([34, 2 + len(values[0]) // 2]) + bytes.fromhex(values[0])
        elif name in ("ECN0", "ECN1"):
            out += bytes([172 if name == "ECN0" else 174, 2 + 3 * len(values)])
            for value in values:
                out += (value & 0xffffff).to_bytes(3, "big")
        else:
            raise ValueError(name)
    assert len(out) % 4 == 0 and len(out) <= 40, options
    return out


def option_text(options):
    parts = []
    for name, *values in options:
        if name == "TS":
            parts.append("TS val %d ecr %d" % tuple(values))
        elif name == "sack":
            parts.append("sack " + " ".join("%d:%d" % block for block in values))
        elif name in ("ECN0", "ECN1"):
            names = ["e0b", "ceb", "e1b"] if name == "ECN0" else ["e1b", "ceb", "e0b"]
            parts.append("ECN " + " ".join("%s %d" % pair for pair in zip(names, values)))
        else:
            parts.append(" ".join([name, *map(str, values)]))
    return " <%s>" % ",".join(parts) if parts else ""


def parse_options(data, numbers):
    options, at = [], 0
    while at < len(data):
        kind = data[at]
        if kind < 2:
            options.append(("nop",) if kind else ("eol",))
            at += 1
            continue
        body = data[at + 2:at + data[at + 1]]
        at += data[at + 1]
        if kind == 2:
            options.append(("mss", *struct.unpack("!H", body)))
        elif kind == 3:
            options.append(("wscale", body[0]))
        elif kind == 4:
            options.append(("sackOK",))
        elif kind == 5:
            edges = [(value - numbers.remote) & 0xffffffff for value in struct.unpack("!%dI" % (len(body) // 4), body)]
            options.append(("sack", *zip(edges[::2], edges[1::2])))
        elif kind == 8:
            value, echo = struct.unpack("!II", body)
            if numbers.first_ts is None:
                numbers.first_ts = value
            options.append(("TS", numbers.ts(value), echo))
        elif kind == 34:
            options.append(("FO", body.hex()) if body else ("FO",))
        elif kind in (172, 174):
            fields = [int.from_bytes(body[i:i + 3], "big") for i in range(0, len(body), 3)]
            options.append(("ECN0" if kind == 172 else "ECN1", *fields))
        else:
            raise ValueError("option %d" % kind)
    return options


def flag_text(flags):
    return "".join(letter for bit, letter in LETTERS if flags & bit) or "-"


def text(segment, direction, with_window=True):
    out = "%s %s%s %d:%d(%d)" % (
        direction, MARKS[segment.mark] if direction == ">" or segment.mark else "", flag_text(segment.flags),
        segment.seq, segment.seq + segment.length & 0xffffffff, segment.length)
    if segment.flags & ACK:
        out += " ack %d" % segment.ack
    if with_window and (direction == "<" or not segment.flags & RST or segment.win):
        out += " win %d" % segment.win
    if segment.flags & URG:
        out += " urg %d" % segment.urg
    return out + option_text(segment.options)


def to_bytes(segment, numbers, ports, v6):
    """An inbound packet."""
    local, remote = (LOCAL6, REMOTE6) if v6 else (LOCAL4, REMOTE4)
    options = option_bytes(segment.options, numbers, segment.flags & ACK)
    header = struct.pack("!HHIIHHHH", ports[1], ports[0], segment.seq + numbers.remote & 0xffffffff,
                         segment.ack + numbers.local & 0xffffffff if segment.flags & ACK else 0,
                         (5 + len(options) // 4) << 12 | segment.flags, segment.win, 0, segment.urg)
    tcp = header + options + bytes(segment.length)
    pseudo = remote + local + (struct.pack("!II", len(tcp), 6) if v6 else struct.pack("!HH", 6, len(tcp)))
    total = checksum(pseudo + tcp)
    tcp = tcp[:16] + struct.pack("!H", total) + tcp[18:]
    return ip_header(6, len(tcp), segment.mark, v6) + tcp


def ip_header(protocol, length, tos, v6):
    if v6:
        return struct.pack("!IHBB", 6 << 28 | tos << 20, length, protocol, 255) + REMOTE6 + LOCAL6
    header = struct.pack("!BBHHHBBH", 0x45, tos, 20 + length, 0, 0, 255, protocol, 0) + REMOTE4 + LOCAL4
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:]


def from_bytes(data, numbers):
    """An outbound packet, and its ports; nothing if it isn't TCP."""
    v6 = data[0] >> 4 == 6
    if v6:
        protocol, mark, tcp = data[6], data[1] >> 4 & 3, data[40:40 + struct.unpack("!H", data[4:6])[0]]
    else:
        protocol, mark, tcp = data[9], data[1] & 3, data[20:struct.unpack("!H", data[2:4])[0]]
    if protocol != 6:
        return None
    source, to, seq, ack, offset, win, _, urg = struct.unpack("!HHIIHHHH", tcp[:20])
    header, flags = (offset >> 12) * 4, offset & 0x1ff
    if flags & SYN:
        if numbers.local not in (None, seq):
            raise SecondConnection
        numbers.local = seq
    # A reset of nothing that we know has the number zero, or that of our ACK.
    base = numbers.local if numbers.local is not None else seq
    segment = Segment(flags, (seq - base) & 0xffffffff, len(tcp) - header,
                      (ack - numbers.remote) & 0xffffffff if flags & ACK else 0, win, urg, mark,
                      parse_options(tcp[20:header], numbers))
    return segment, source, to


def icmp(kind, code, info, quoted, numbers, ports, v6):
    """An ICMP error about an outbound segment (`quoted`: its sequence number)."""
    tcp = struct.pack("!HHI", ports[0], ports[1], quoted + numbers.local & 0xffffffff)
    if v6:
        tcp += bytes(12)
        inner = struct.pack("!IHBB", 6 << 28, 20, 6, 64) + LOCAL6 + REMOTE6 + tcp
        body = struct.pack("!BBHI", kind, code, 0, info) + inner
        total = checksum(REMOTE6 + LOCAL6 + struct.pack("!II", len(body), 58) + body)
        body = body[:2] + struct.pack("!H", total) + body[4:]
        return ip_header(58, len(body), 0, True) + body
    inner = struct.pack("!BBHHHBBH", 0x45, 0, 1000, 0, 0x4000, 64, 6, 0) + LOCAL4 + REMOTE4 + tcp
    body = struct.pack("!BBHI", kind, code, 0, info) + inner
    body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    return ip_header(1, len(body), 0, False) + body
