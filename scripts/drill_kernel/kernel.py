"""The kernel under observation: a namespace with tun0, its sockets, and the script that writes down what happens."""
import ctypes
import errno
import fcntl
import mmap
import os
import select
import socket
import struct
import time

import wire
from wire import Numbers

MS = 1_000_000
# Nothing comes in 10 us after something else: ACKs that are held back go then (`tcp_comp_sack_slack_ns`), before it or after it.
STEP = 3_000
errno.errorcode[errno.EOPNOTSUPP] = "EOPNOTSUPP"     # Python calls it ENOTSUP
LIBC = ctypes.CDLL(None, use_errno=True)
DEFAULTS = """net.ipv4.tcp_rmem=4096 540000 15728640
net.ipv4.tcp_wmem=4096 262144 4194304
net.ipv4.tcp_congestion_control=cubic
net.ipv4.tcp_slow_start_after_idle=0
net.ipv4.tcp_ecn=0
net.ipv4.tcp_syn_retries=5
net.ipv4.tcp_synack_retries=5
net.ipv4.tcp_fastopen=1
net.ipv4.tcp_fastopen_key=a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4""".splitlines()

# `struct tcp_info`: what follows its eight bytes of small fields.
WORDS = """rto ato snd_mss rcv_mss unacked sacked lost retrans fackets last_data_sent last_ack_sent last_data_recv
 last_ack_recv pmtu rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd advmss reordering rcv_rtt rcv_space total_retrans""".split()
LONGS = "pacing_rate max_pacing_rate bytes_acked bytes_received".split()
WORDS2 = "segs_out segs_in notsent_bytes min_rtt data_segs_in data_segs_out".split()
LONGS2 = "delivery_rate busy_time rwnd_limited sndbuf_limited".split()
WORDS3 = "delivered delivered_ce".split()
LONGS3 = "bytes_sent bytes_retrans".split()
WORDS4 = "dsack_dups reord_seen rcv_ooopack snd_wnd rcv_wnd rehash".split()
LAYOUT = "=7Bx%dI%dQ%dI%dQ%dI%dQ%dI" % tuple(map(len, (WORDS, LONGS, WORDS2, LONGS2, WORDS3, LONGS3, WORDS4)))
NAMES = ["state", "ca_state", "retransmits", "probes", "backoff", "options", "wscales",
         *WORDS, *LONGS, *WORDS2, *LONGS2, *WORDS3, *LONGS3, *WORDS4]
MEMORY = ["RMEM_ALLOC", "RCVBUF", "WMEM_ALLOC", "SNDBUF", "FWD_ALLOC", "WMEM_QUEUED", "OPTMEM", "BACKLOG", "DROPS"]
# Nothing that is measured in time, nor of what every driver has its own idea.
ASSERTED = """state ca_state retransmits probes backoff options snd_mss rcv_mss unacked sacked lost retrans pmtu
 rcv_ssthresh snd_ssthresh snd_cwnd advmss reordering rcv_space total_retrans bytes_acked bytes_received segs_out segs_in
 notsent_bytes data_segs_in data_segs_out delivered delivered_ce bytes_sent bytes_retrans dsack_dups reord_seen rcv_ooopack
 snd_wnd rcv_wnd rto""".split()
ERRQUEUE = """recvmsg(%d, {msg_name(...)=..., msg_iov(1)=[{...,0}], msg_flags=MSG_ERRQUEUE, msg_control=[{cmsg_level=CMSG_LEVEL_IP,
     cmsg_type=CMSG_TYPE_RECVERR, cmsg_data={ee_errno=0, ee_origin=SO_EE_ORIGIN_ZEROCOPY, ee_type=0, ee_code=%s, ee_info=%d, ee_data=%d}}]},
     MSG_ERRQUEUE)"""


class EndOfScript(Exception):
    """What comes next cannot be written down."""


def sysctl(line):
    name, value = line.split("=", 1)
    with open("/proc/sys/" + name.replace(".", "/"), "w") as f:
        f.write(value)


class Kernel:
    """Plays what it is told, at once, and writes each event and each outbound packet as a line of a script."""

    def __init__(self, v6, sysctls, mss):
        self.v6, self.mss, self.sysctls = v6, mss, sysctls
        self.numbers = Numbers(local=None)
        self.ports = (8080, 40000)
        self.lines, self.sockets, self.next_fd = [], {}, 3
        self.sent = []                                   # segments that came out and nobody has looked at
        self._namespace()
        for line in DEFAULTS + sysctls:
            try:
                sysctl(line)
            except PermissionError:
                pass
        # packetdrill looks at what passes tun0, and while it has not looked a packet is shared: nothing joins it.
        self.sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0x0300)
        self.sniffer.bind(("tun0", 3))
        self.sniffer.setblocking(False)
        # Packets that have left and that the packet socket has not shown.
        self.unseen = 0
        self.debt = 0
        LIBC.prctl(29, 1, 0, 0, 0)            # PR_SET_TIMERSLACK: sleeps end in time
        self._align()
        self.start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    def _namespace(self):
        assert LIBC.unshare(0x40000000) == 0, "unshare"
        self.tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        name = b"tun0".ljust(16, b"\0")
        fcntl.ioctl(self.tun, 0x400454ca, struct.pack("16sH22x", name, 0x0001 | 0x1000 | 0x4000))   # TUNSETIFF
        fcntl.ioctl(self.tun, 0x400454d0, 1 | 2 | 4 | 8)                                             # TUNSETOFFLOAD
        control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        if self.v6:
            fcntl.ioctl(control, 0x8922, struct.pack("16si20x", name, 1520))                         # SIOCSIFMTU
            for line in ("accept_dad=0", "dad_transmits=0", "router_solicitations=0"):
                sysctl("net.ipv6.conf.tun0." + line)
        for device in (b"lo".ljust(16, b"\0"), name):
            fcntl.ioctl(control, 0x8914, struct.pack("16sh22x", device, 1 | 0x40))                   # SIOCSIFFLAGS
        if self.v6:
            six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            index = socket.if_nametoindex("tun0")
            fcntl.ioctl(six, 0x8916, wire.LOCAL6 + struct.pack("Ii", 64, index))                     # SIOCSIFADDR
            fcntl.ioctl(six, 0x890b, self._route6(index))
        else:
            address = struct.pack("HH4s8x", socket.AF_INET, 0, wire.LOCAL4)
            fcntl.ioctl(control, 0x8916, struct.pack("16s16s8x", name, address))
            mask = struct.pack("HH4s8x", socket.AF_INET, 0, bytes([255, 255, 0, 0]))
            fcntl.ioctl(control, 0x891c, struct.pack("16s16s8x", name, mask))
            fcntl.ioctl(control, 0x890b, self._route4())

    def _route4(self):
        """`struct rtentry`: 192.0.2.0/24 by way of tun0."""
        def address(data):
            return struct.pack("HH4s8x", socket.AF_INET, 0, bytes(data))
        self.device = ctypes.create_string_buffer(b"tun0")
        return (struct.pack("L", 0) + address([192, 0, 2, 0]) + address([0, 0, 0, 0]) + address([255, 255, 255, 0])
                + struct.pack("HhLLhxxxxxxPLLHxxxxxx", 1, 0, 0, 0, 0, ctypes.addressof(self.device), 0, 0, 0))

    def _route6(self, index):
        """`struct in6_rtmsg`: the network of the remote address by way of tun0."""
        return (wire.REMOTE6[:8] + bytes(8) + bytes(16) + bytes(16)
                + struct.pack("IHHIxxxxLIi", 0, 64, 0, 1, 0, 1, index))

    def _align(self):
        """A quarter of a millisecond into a tick, as packetdrill begins."""
        time.sleep(0.02)
        # Timers lie in a wheel by absolute ticks: begin where `ackwright drill` does, 1,000 s after `INITIAL_JIFFIES`
        # (-300 s), which is tick 700,000 of 2^20. One tick more passes below.
        # Ticks lie at whole milliseconds of the monotonic clock; the coarse one is behind by less than that, and differs.
        with open("/proc/timer_list") as f:
            jiffies = int(next(line for line in f if line.startswith("jiffies:")).split()[1])
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        until = now // MS * MS + (700_000 - jiffies) % (1 << 20) * MS + MS // 4
        time.sleep((until - now) / 1e9)

    # Time and packets.

    def now(self):
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) - self.start

    def line(self, text, at=None):
        at = self.now() if at is None else at
        self.lines.append("%d.%06d %s" % (at // 10**9, at % 10**9 // 1000, text))
        self.debt += 1

    def drain(self):
        """Writes down what has left."""
        while True:
            try:
                data = os.read(self.tun, 70000)
            except BlockingIOError:
                return
            self.unseen += 1
            try:
                found = wire.from_bytes(data[10:], self.numbers)
            except wire.SecondConnection:
                raise EndOfScript from None
            if found is None:
                continue
            segment, source, to = found
            if segment.flags & wire.RST and self.numbers.local and data[10:][24 if not self.v6 else 44:][:4] == bytes(4):
                # Its number is 0 on the wire; a script cannot say so.
                raise EndOfScript
            if self.ports[0] != source:
                self.ports = (source, self.ports[1] if to == self.ports[1] else to)
            self.line(wire.text(segment, ">"))
            self.sent.append(segment)
            self._sniff()

    def _sniff(self):
        """A packet socket shows packetdrill one packet after the other, up to what has left: what comes in after that it holds."""
        try:
            while self.unseen > 0:
                self.unseen -= self.sniffer.recvfrom(1)[1][2] == socket.PACKET_OUTGOING
        except BlockingIOError:
            self.unseen = 0

    def wait(self, ns):
        """Lets time pass; false if nothing came out meanwhile."""
        self.drain()
        until, before = self.now() + ns, len(self.sent)
        poll = select.poll()
        poll.register(self.tun, select.POLLIN)
        while (left := until - self.now()) > 0:
            # poll() counts in ms, rounded up: the last part is slept.
            if left >= 1_000_000:
                poll.poll(left // 1_000_000)
            else:
                time.sleep(left / 1e9)
            self.drain()
        return len(self.sent) > before

    def pass_time(self):
        """Every line of the script takes a microsecond, as it does in `ackwright drill`, and what comes in comes at a whole one,
        which is given: a multiple of `STEP`. What has come out by then comes before it. A clean kernel's clock goes a quarter of
        a microsecond further each time that it is read."""
        while True:
            debt, self.debt = self.debt, 0
            now = self.now()
            until = -(-(now + debt * 1000) // STEP) * STEP
            if until > now:
                time.sleep((until - now) / 1e9)
            self.drain()
            if not self.debt:
                break
        for _ in range(100):
            now = self.now()
            if now % STEP < 256:
                break
        return now

    def inject(self, segment):
        data = wire.to_bytes(segment, self.numbers, self.ports, self.v6)
        self.line(wire.text(segment, "<"), self.pass_time())
        kind = (4 if self.v6 else 1) if self.mss else 0
        os.writev(self.tun, [struct.pack("BBHHHH", 0, kind, 0, self.mss or 0, 0, 0), data])
        self.drain()

    def inject_icmp(self, text, kind, code, info, seq, length):
        data = wire.icmp(kind, code, info, seq, self.numbers, self.ports, self.v6)
        self.line("< icmp %s [%d:%d(%d)]" % (text, seq, seq + length, length), self.pass_time())
        os.writev(self.tun, [bytes(10), data])
        self.drain()

    # System calls. Each is written down with its outcome.

    def call(self, text, action):
        at = self.pass_time()
        try:
            result = action()
            outcome = str(result if isinstance(result, int) else 0)
        except OSError as error:
            result = error
            outcome = "-1 %s (%s)" % (errno.errorcode[error.errno], os.strerror(error.errno))
        self.line("%s = %s" % (text, outcome), at)
        self.drain()
        return result

    def register(self, sock):
        fd, self.next_fd = self.next_fd, self.next_fd + 1
        self.sockets[fd] = sock
        return fd

    def socket(self):
        sock = socket.socket(socket.AF_INET6 if self.v6 else socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        fd = self.register(sock)
        self.line("socket(..., SOCK_STREAM, IPPROTO_TCP) = %d" % fd)
        self.line("fcntl(%d, F_SETFL, O_RDWR|O_NONBLOCK) = 0" % fd)
        return fd

    def listen(self, fd, backlog=1):
        sock = self.sockets[fd]
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("::" if self.v6 else "0.0.0.0", self.ports[0]))
        sock.listen(backlog)
        self.line("setsockopt(%d, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0" % fd)
        self.line("bind(%d, ..., ...) = 0" % fd)
        self.line("listen(%d, %d) = 0" % (fd, backlog))

    def remote(self):
        if self.v6:
            return socket.inet_ntop(socket.AF_INET6, wire.REMOTE6), self.ports[1]
        return socket.inet_ntop(socket.AF_INET, wire.REMOTE4), self.ports[1]

    def connect(self, fd):
        self.numbers = Numbers(local=None)
        return self.call("connect(%d, ..., ...)" % fd, lambda: self.sockets[fd].connect(self.remote()))

    def accept(self, listener):
        made = []

        def action():
            sock, _ = self.sockets[listener].accept()
            sock.setblocking(False)
            made.append(self.register(sock))
            return made[0]
        self.call("accept(%d, ..., ...)" % listener, action)
        if made:
            self.line("fcntl(%d, F_SETFL, O_RDWR|O_NONBLOCK) = 0" % made[0])
            return made[0]
        return None

    def send(self, fd, count, flags=()):
        value = sum(getattr(socket, name, 0x4000000 if name == "MSG_ZEROCOPY" else 0) for name in flags)
        if flags:
            memory = mmap.mmap(-1, count)      # What is pinned for zero-copy begins with a page.
            return self.call("send(%d, ..., %d, %s)" % (fd, count, "|".join(flags)),
                             lambda: self.sockets[fd].send(memory, value | socket.MSG_NOSIGNAL))
        return self.call("write(%d, ..., %d)" % (fd, count), lambda: self.sockets[fd].send(bytes(count), socket.MSG_NOSIGNAL))

    def recv(self, fd, count, flags=()):
        value = sum(getattr(socket, name) for name in flags)
        if flags:
            buffer = bytearray(count)
            return self.call("recv(%d, ..., %d, %s)" % (fd, count, "|".join(flags)),
                             lambda: self.sockets[fd].recv_into(buffer, count, value))
        return self.call("read(%d, ..., %d)" % (fd, count), lambda: len(self.sockets[fd].recv(count)))

    def errqueue(self, fd):
        """One completion of zero-copy, as `recvmsg` gives it."""
        try:
            _, control, flags, _ = self.sockets[fd].recvmsg(0, 200, socket.MSG_ERRQUEUE)
        except OSError:
            return False
        for _, _, data in control:
            number, origin, _, code, _, info, value = struct.unpack("IBBBBII", data[:16])
            assert (number, origin) == (0, 5), data
            name = "SO_EE_CODE_ZEROCOPY_COPIED" if code else "0"
            self.line(ERRQUEUE % (fd, name, info, value) + " = 0")
        return True

    def setsockopt(self, fd, level, name, value):
        number = getattr(socket, name, {"TCP_INQ": 36, "TCP_NOTSENT_LOWAT": 25, "SO_ZEROCOPY": 60, "TCP_TX_DELAY": 37,
                                        "TCP_THIN_LINEAR_TIMEOUTS": 16, "TCP_SAVE_SYN": 27, "TCP_RTO_MAX_MS": 44}.get(name))
        self.call("setsockopt(%d, %s, %s, [%d], 4)" % (fd, level, name, value),
                  lambda: self.sockets[fd].setsockopt(6 if level == "SOL_TCP" else 1, number, value))

    def getsockopt(self, fd, level, name):
        number = getattr(socket, name, {"TCP_INQ": 36, "TCP_NOTSENT_LOWAT": 25, "SO_ZEROCOPY": 60}.get(name))
        try:
            value = self.sockets[fd].getsockopt(6 if level == "SOL_TCP" else 1, number)
        except OSError:
            return
        text = str(value)
        if name == "SO_ERROR" and value:
            text = errno.errorcode[value]
        self.line("getsockopt(%d, %s, %s, [%s], [4]) = 0" % (fd, level, name, text))
        self.drain()

    def ioctl(self, fd):
        buffer = fcntl.ioctl(self.sockets[fd], 0x541b, struct.pack("i", 0))
        self.line("ioctl(%d, SIOCINQ, [%d]) = 0" % (fd, struct.unpack("i", buffer)[0]))

    def poll(self, fd):
        names = [("POLLIN", 1), ("POLLPRI", 2), ("POLLOUT", 4), ("POLLERR", 8), ("POLLHUP", 16), ("POLLRDHUP", 0x2000)]
        poll = select.poll()
        poll.register(self.sockets[fd], 1 | 2 | 4 | 0x2000)
        found = poll.poll(0)
        told = "|".join(name for name, bit in names if found and found[0][1] & bit) or "0"
        self.line("poll([{fd=%d, events=POLLIN|POLLPRI|POLLOUT|POLLRDHUP, revents=%s}], 1, 0) = %d" % (fd, told, len(found)))

    def info(self, fd):
        data = self.sockets[fd].getsockopt(6, 11, 400)
        return dict(zip(NAMES, struct.unpack(LAYOUT, data[:struct.calcsize(LAYOUT)])))

    def check(self, fd, names=ASSERTED, memory=("RMEM_ALLOC", "RCVBUF", "SNDBUF", "WMEM_QUEUED")):
        try:
            info = self.info(fd)
            mem = dict(zip(MEMORY, struct.unpack("=9I", self.sockets[fd].getsockopt(1, 55, 36))))
        except OSError:
            return
        self.line("%{")
        for name in names:
            self.lines.append("assert tcpi_%s == %d, tcpi_%s" % (name, info[name], name))
        for name in memory:
            self.lines.append("assert SK_MEMINFO_%s == %d, SK_MEMINFO_%s" % (name, mem[name], name))
        self.lines.append("}%")

    def shutdown(self, fd, how):
        self.call("shutdown(%d, %s)" % (fd, how), lambda: self.sockets[fd].shutdown(getattr(socket, how)))

    def close(self, fd):
        sock = self.sockets.pop(fd)
        self.call("close(%d)" % fd, lambda: os.close(sock.detach()))

    def script(self, title):
        flags = ["--ip_version=ipv6"] if self.v6 else []
        flags += ["--mss=%d" % self.mss] if self.mss else []
        flags += ["--tcp_ts_tick_usecs=1000"] if self.numbers.first_ts is not None else []
        settings = "".join('\nsysctl -q "%s"' % line for line in self.sysctls)
        return "// %s\n\n%s\n\n`../defaults.sh%s`\n\n%s\n" % (title, "\n".join(flags), settings, "\n".join(self.lines))
