//! The numbers behind the names of the socket API, as on Linux (asm-generic, x86-64 and arm64
//! alike): families, flags, levels, options, requests. [`by_name`] finds any of them.

macro_rules! numbers {
    ($($kind:ty { $($name:ident = $value:expr;)* })*) => {
        $($(
            #[doc = concat!("`", stringify!($name), "`.")]
            pub const $name: $kind = $value;
        )*)*

        /// The number of that name. Flags with the highest bit set are positive.
        pub fn by_name(name: &str) -> Option<i64> {
            match name {
                $($(stringify!($name) => Some(i64::from($name)),)*)*
                _ => None,
            }
        }

        /// Every name, for error messages.
        pub const NAMES: &[&str] = &[$($(stringify!($name)),*),*];
    };
}

numbers! {
    i32 {
        // socket(2)
        AF_UNSPEC = 0;
        AF_UNIX = 1;
        AF_INET = 2;
        AF_INET6 = 10;
        PF_INET = 2;
        PF_INET6 = 10;
        SOCK_STREAM = 1;
        SOCK_DGRAM = 2;
        SOCK_RAW = 3;
        SOCK_NONBLOCK = 0o4000;
        SOCK_CLOEXEC = 0o2_000_000;
        IPPROTO_IP = 0;
        IPPROTO_ICMP = 1;
        IPPROTO_TCP = 6;
        IPPROTO_UDP = 17;
        IPPROTO_IPV6 = 41;
        IPPROTO_ICMPV6 = 58;
        IPPROTO_UDPLITE = 136;
        IPPROTO_MPTCP = 262;
        // open(2), fcntl(2)
        O_RDONLY = 0;
        O_WRONLY = 1;
        O_RDWR = 2;
        O_CREAT = 0o100;
        O_TRUNC = 0o1000;
        O_APPEND = 0o2000;
        O_NONBLOCK = 0o4000;
        O_CLOEXEC = 0o2_000_000;
        F_DUPFD = 0;
        F_GETFD = 1;
        F_SETFD = 2;
        F_GETFL = 3;
        F_SETFL = 4;
        FD_CLOEXEC = 1;
        // shutdown(2)
        SHUT_RD = 0;
        SHUT_WR = 1;
        SHUT_RDWR = 2;
        // send(2), recv(2)
        MSG_OOB = 0x1;
        MSG_PEEK = 0x2;
        MSG_DONTROUTE = 0x4;
        MSG_CTRUNC = 0x8;
        MSG_TRUNC = 0x20;
        MSG_DONTWAIT = 0x40;
        MSG_EOR = 0x80;
        MSG_WAITALL = 0x100;
        MSG_FIN = 0x200;
        MSG_SYN = 0x400;
        MSG_CONFIRM = 0x800;
        MSG_RST = 0x1000;
        MSG_ERRQUEUE = 0x2000;
        MSG_NOSIGNAL = 0x4000;
        MSG_MORE = 0x8000;
        MSG_WAITFORONE = 0x10000;
        MSG_ZEROCOPY = 0x400_0000;
        MSG_FASTOPEN = 0x2000_0000;
        MSG_CMSG_CLOEXEC = 0x4000_0000;
        // splice(2)
        SPLICE_F_MOVE = 1;
        SPLICE_F_NONBLOCK = 2;
        SPLICE_F_MORE = 4;
        // ioctl(2)
        FIONREAD = 0x541B;
        FIONBIO = 0x5421;
        SIOCINQ = 0x541B;
        SIOCOUTQ = 0x5411;
        SIOCOUTQNSD = 0x894B;
        SIOCATMARK = 0x8905;
        // epoll_create(2), epoll_ctl(2)
        EPOLL_CLOEXEC = 0o2_000_000;
        EPOLL_CTL_ADD = 1;
        EPOLL_CTL_DEL = 2;
        EPOLL_CTL_MOD = 3;
        // Levels of options and control messages
        SOL_IP = 0;
        SOL_SOCKET = 1;
        SOL_TCP = 6;
        SOL_UDP = 17;
        SOL_IPV6 = 41;
        // SOL_SOCKET
        SO_DEBUG = 1;
        SO_REUSEADDR = 2;
        SO_TYPE = 3;
        SO_ERROR = 4;
        SO_DONTROUTE = 5;
        SO_BROADCAST = 6;
        SO_SNDBUF = 7;
        SO_RCVBUF = 8;
        SO_KEEPALIVE = 9;
        SO_OOBINLINE = 10;
        SO_NO_CHECK = 11;
        SO_PRIORITY = 12;
        SO_LINGER = 13;
        SO_REUSEPORT = 15;
        SO_RCVLOWAT = 18;
        SO_SNDLOWAT = 19;
        SO_RCVTIMEO = 20;
        SO_SNDTIMEO = 21;
        SO_BINDTODEVICE = 25;
        SO_TIMESTAMP = 29;
        SO_ACCEPTCONN = 30;
        SO_SNDBUFFORCE = 32;
        SO_RCVBUFFORCE = 33;
        SO_TIMESTAMPNS = 35;
        SO_MARK = 36;
        SO_TIMESTAMPING = 37;
        SO_PROTOCOL = 38;
        SO_DOMAIN = 39;
        SO_RXQ_OVFL = 40;
        SO_PEEK_OFF = 42;
        SO_BUSY_POLL = 46;
        SO_MAX_PACING_RATE = 47;
        SO_INCOMING_CPU = 49;
        SO_MEMINFO = 55;
        SO_INCOMING_NAPI_ID = 56;
        SO_COOKIE = 57;
        SO_ZEROCOPY = 60;
        SO_TXTIME = 61;
        SO_BUF_LOCK = 72;
        SO_TXREHASH = 74;
        // SOL_TCP
        TCP_NODELAY = 1;
        TCP_MAXSEG = 2;
        TCP_CORK = 3;
        TCP_KEEPIDLE = 4;
        TCP_KEEPINTVL = 5;
        TCP_KEEPCNT = 6;
        TCP_SYNCNT = 7;
        TCP_LINGER2 = 8;
        TCP_DEFER_ACCEPT = 9;
        TCP_WINDOW_CLAMP = 10;
        TCP_INFO = 11;
        TCP_QUICKACK = 12;
        TCP_CONGESTION = 13;
        TCP_MD5SIG = 14;
        TCP_THIN_LINEAR_TIMEOUTS = 16;
        TCP_THIN_DUPACK = 17;
        TCP_USER_TIMEOUT = 18;
        TCP_REPAIR = 19;
        TCP_REPAIR_QUEUE = 20;
        TCP_QUEUE_SEQ = 21;
        TCP_REPAIR_OPTIONS = 22;
        TCP_FASTOPEN = 23;
        TCP_TIMESTAMP = 24;
        TCP_NOTSENT_LOWAT = 25;
        TCP_CC_INFO = 26;
        TCP_SAVE_SYN = 27;
        TCP_SAVED_SYN = 28;
        TCP_REPAIR_WINDOW = 29;
        TCP_FASTOPEN_CONNECT = 30;
        TCP_ULP = 31;
        TCP_MD5SIG_EXT = 32;
        TCP_FASTOPEN_KEY = 33;
        TCP_FASTOPEN_NO_COOKIE = 34;
        TCP_ZEROCOPY_RECEIVE = 35;
        TCP_INQ = 36;
        TCP_CM_INQ = 36;
        TCP_TX_DELAY = 37;
        TCP_RTO_MAX_MS = 44;
        TCP_RTO_MIN_US = 45;
        TCP_DELACK_MAX_US = 46;
        TCP_MD5SIG_FLAG_PREFIX = 1;
        TCP_MD5SIG_FLAG_IFINDEX = 2;
        // SOL_IP
        IP_TOS = 1;
        IP_TTL = 2;
        IP_OPTIONS = 4;
        IP_RECVOPTS = 6;
        IP_RETOPTS = 7;
        IP_PKTINFO = 8;
        IP_MTU_DISCOVER = 10;
        IP_RECVERR = 11;
        IP_RECVTTL = 12;
        IP_RECVTOS = 13;
        IP_MTU = 14;
        IP_FREEBIND = 15;
        IP_PASSSEC = 18;
        IP_TRANSPARENT = 19;
        IP_RECVORIGDSTADDR = 20;
        IP_ORIGDSTADDR = 20;
        IP_MINTTL = 21;
        IP_CHECKSUM = 23;
        IP_BIND_ADDRESS_NO_PORT = 24;
        IP_RECVFRAGSIZE = 25;
        IP_RECVERR_RFC4884 = 26;
        IP_MULTICAST_TTL = 33;
        IP_MULTICAST_LOOP = 34;
        IP_MULTICAST_ALL = 49;
        IP_LOCAL_PORT_RANGE = 51;
        IP_PMTUDISC_DONT = 0;
        IP_PMTUDISC_WANT = 1;
        IP_PMTUDISC_DO = 2;
        IP_PMTUDISC_PROBE = 3;
        IP_PMTUDISC_INTERFACE = 4;
        IP_PMTUDISC_OMIT = 5;
        // SOL_IPV6
        IPV6_FLOWINFO = 11;
        IPV6_UNICAST_HOPS = 16;
        IPV6_MULTICAST_HOPS = 18;
        IPV6_MULTICAST_LOOP = 19;
        IPV6_MTU_DISCOVER = 23;
        IPV6_MTU = 24;
        IPV6_RECVERR = 25;
        IPV6_V6ONLY = 26;
        IPV6_MULTICAST_ALL = 29;
        IPV6_RECVERR_RFC4884 = 31;
        IPV6_FLOWINFO_SEND = 33;
        IPV6_RECVPKTINFO = 49;
        IPV6_PKTINFO = 50;
        IPV6_RECVHOPLIMIT = 51;
        IPV6_HOPLIMIT = 52;
        IPV6_RECVPATHMTU = 60;
        IPV6_DONTFRAG = 62;
        IPV6_AUTOFLOWLABEL = 70;
        IPV6_RECVTCLASS = 66;
        IPV6_TCLASS = 67;
        IPV6_MINHOPCOUNT = 73;
        IPV6_RECVORIGDSTADDR = 74;
        IPV6_ORIGDSTADDR = 74;
        IPV6_TRANSPARENT = 75;
        IPV6_RECVFRAGSIZE = 77;
        IPV6_FREEBIND = 78;
        // SOL_UDP
        UDP_CORK = 1;
        UDP_NO_CHECK6_TX = 101;
        UDP_NO_CHECK6_RX = 102;
        UDP_SEGMENT = 103;
        UDP_GRO = 104;
        // Control messages and the error queue
        SCM_RIGHTS = 1;
        SCM_CREDENTIALS = 2;
        SCM_TIMESTAMPING = 37;
        SCM_TXTIME = 61;
        SO_EE_ORIGIN_NONE = 0;
        SO_EE_ORIGIN_LOCAL = 1;
        SO_EE_ORIGIN_ICMP = 2;
        SO_EE_ORIGIN_ICMP6 = 3;
        SO_EE_ORIGIN_TIMESTAMPING = 4;
        SO_EE_ORIGIN_ZEROCOPY = 5;
        SO_EE_CODE_ZEROCOPY_COPIED = 1;
        SCM_TSTAMP_SND = 0;
        SCM_TSTAMP_SCHED = 1;
        SCM_TSTAMP_ACK = 2;
        // SO_TIMESTAMPING
        SOF_TIMESTAMPING_TX_HARDWARE = 1;
        SOF_TIMESTAMPING_TX_SOFTWARE = 2;
        SOF_TIMESTAMPING_RX_HARDWARE = 4;
        SOF_TIMESTAMPING_RX_SOFTWARE = 8;
        SOF_TIMESTAMPING_SOFTWARE = 16;
        SOF_TIMESTAMPING_SYS_HARDWARE = 32;
        SOF_TIMESTAMPING_RAW_HARDWARE = 64;
        SOF_TIMESTAMPING_OPT_ID = 128;
        SOF_TIMESTAMPING_TX_SCHED = 256;
        SOF_TIMESTAMPING_TX_ACK = 512;
        SOF_TIMESTAMPING_OPT_CMSG = 1024;
        SOF_TIMESTAMPING_OPT_TSONLY = 2048;
        SOF_TIMESTAMPING_OPT_STATS = 4096;
        SOF_TIMESTAMPING_OPT_PKTINFO = 8192;
        SOF_TIMESTAMPING_OPT_TX_SWHW = 16384;
        SOF_TIMESTAMPING_BIND_PHC = 32768;
        SOF_TIMESTAMPING_OPT_ID_TCP = 65536;
        SOF_TIMESTAMPING_OPT_RX_FILTER = 131_072;
        // poll(2)
        POLLIN = 0x001;
        POLLPRI = 0x002;
        POLLOUT = 0x004;
        POLLERR = 0x008;
        POLLHUP = 0x010;
        POLLNVAL = 0x020;
        POLLRDNORM = 0x040;
        POLLRDBAND = 0x080;
        POLLWRNORM = 0x100;
        POLLWRBAND = 0x200;
        POLLRDHUP = 0x2000;
    }
    u32 {
        EPOLLIN = 0x001;
        EPOLLPRI = 0x002;
        EPOLLOUT = 0x004;
        EPOLLERR = 0x008;
        EPOLLHUP = 0x010;
        EPOLLRDNORM = 0x040;
        EPOLLRDBAND = 0x080;
        EPOLLWRNORM = 0x100;
        EPOLLWRBAND = 0x200;
        EPOLLRDHUP = 0x2000;
        EPOLLEXCLUSIVE = 1 << 28;
        EPOLLONESHOT = 1 << 30;
        EPOLLET = 1 << 31;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        for (name, number) in [
            ("AF_INET6", 10),
            ("MSG_FASTOPEN", 0x2000_0000),
            ("TCP_USER_TIMEOUT", 18),
            ("EPOLLET", 0x8000_0000),
        ] {
            assert_eq!(by_name(name), Some(number), "{name}");
        }
        assert_eq!(by_name("TCP_NOSUCH"), None);
    }
}
