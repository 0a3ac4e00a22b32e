"""Builds Ethernet frames of many protocols as the first bytes that matter; what follows is zero."""
import socket
import struct

TO, FROM = bytes.fromhex("020000000002"), bytes.fromhex("0200000000")


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(ether_type, payload, tags=()):
    """A frame; tags are (TPID, TCI), the outermost first."""
    head = b"".join(struct.pack("!HH", *tag) for tag in tags)
    return TO + FROM + b"\0" + head + struct.pack("!H", ether_type) + payload


def with_index(frame, index):
    """The frame that says which input it is: in the last two bytes of its source address."""
    return frame[:10] + struct.pack("!H", index) + frame[12:]


def index_of(frame):
    return struct.unpack("!H", frame[10:12])[0]


def network(frame):
    """The EtherType behind all tags, and where its header begins."""
    at = 12
    while frame[at : at + 2] in (b"\x81\0", b"\x88\xa8"):
        at += 4
    kind = struct.unpack("!H", frame[at : at + 2])[0] if len(frame) >= at + 2 else 0
    return kind, at + 2


def tos_of(frame):
    kind, at = network(frame)
    if kind == 0x800 and len(frame) > at + 1:
        return frame[at + 1]
    if kind == 0x86DD and len(frame) > at + 1:
        return struct.unpack("!H", frame[at : at + 2])[0] >> 4 & 255
    return 0


def ipv4(protocol, payload, src, dst, tos=0, length=None, options=b"", fragment=0):
    """`length` is that of all the header is told to carry."""
    words = 5 + len(options) // 4
    carried = len(payload) if length is None else length - words * 4
    head = struct.pack("!BBHHHBBH", 0x40 | words, tos, (words * 4 + carried) & 0xFFFF, 0, fragment, 64, protocol, 0)
    head += socket.inet_aton(src) + socket.inet_aton(dst) + options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def ipv6(following, payload, src, dst, tos=0, length=None, label=0):
    carried = len(payload) if length is None else length - 40
    head = struct.pack("!IHBB", 6 << 28 | tos << 20 | label, carried & 0xFFFF, following, 64)
    return head + socket.inet_pton(socket.AF_INET6, src) + socket.inet_pton(socket.AF_INET6, dst) + payload


def udp(sport, dport, length=8):
    return struct.pack("!HHHH", sport, dport, length & 0xFFFF, 0)


def tcp(sport, dport, seq=1, ack=1, flags=0x10, window=1000, options=b""):
    options += b"\1" * (-len(options) % 4)
    head = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, (5 + len(options) // 4) << 4, flags, window, 0, 0)
    return head + options


def timestamps(value, echo):
    return b"\1\1\x08\x0a" + struct.pack("!II", value, echo)


def sack(*blocks):
    return b"\1\1\5" + bytes([2 + 8 * len(blocks)]) + b"".join(struct.pack("!II", *block) for block in blocks)


# The key of the flow hash that mkfix.sh gives the kernel.
HASH_KEY = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
WORD = (1 << 64) - 1


def siphash(data):
    """SipHash-2-4."""
    rotate = lambda word, by: (word << by | word >> (64 - by)) & WORD
    masks = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v0, v1, v2, v3 = (mask ^ HASH_KEY[at % 2] for at, mask in enumerate(masks))

    def rounds(count):
        nonlocal v0, v1, v2, v3
        for _ in range(count):
            v0, v2 = v0 + v1 & WORD, v2 + v3 & WORD
            v1, v3 = rotate(v1, 13) ^ v0, rotate(v3, 16) ^ v2
            v0, v2 = rotate(v0, 32) + v3 & WORD, v2 + v1 & WORD
            v3, v1 = rotate(v3, 21) ^ v0, rotate(v1, 17) ^ v2
            v2 = rotate(v2, 32)

    padded = data + b"\0" * (7 - len(data) % 8) + bytes([len(data) & 255])
    for (word,) in struct.iter_unpack("<Q", padded):
        v3 ^= word
        rounds(2)
        v0 ^= word
    v2 ^= 255
    rounds(4)
    return v0 ^ v1 ^ v2 ^ v3


def hash_of_flow(src, dst, protocol, ports):
    """What the kernel's flow dissector makes of an IPv4 packet with these addresses (four bytes each)."""
    addresses = sorted((src, dst), key=lambda address: address[::-1])
    ends = sorted((struct.pack("!H", port) for port in ports), key=lambda port: port[::-1])
    data = struct.pack("!HBB", 0x800, protocol, 0) + b"\0" * 24 + b"".join(ends) + b"\0" * 4 + b"".join(addresses) + b"\0" * 4
    return siphash(data) & 0xFFFFFFFF or 1


def hash_of_host(address):
    """What CAKE makes of one address, whichever side it is on."""
    return hash_of_flow(address, b"\0" * 4, 0, (0, 0))
