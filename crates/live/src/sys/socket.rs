//! Packet sockets (`packet(7)`) and TUN/TAP devices.

use super::bpf::DETOUR_MARK;
use super::interface::request;
use super::{done, owned, set_option};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

/// Bytes of packets that may wait to be read, and to be sent: `SO_RCVBUF`, `SO_SNDBUF`. The kernel
/// doubles them. The second is what a device may have in hand at a time.
const RECEIVE_BUFFER: i32 = 8 << 20;
const SEND_BUFFER: i32 = 512 << 10;

/// What a packet socket is to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// All frames that arrive, whatever their destination.
    All,
    /// Nothing, until the socket [shares](share_out) with others.
    Later,
    /// What arrives for this machine, and not what a [detour](super::detour) has brought back.
    Own,
}

/// A packet socket that gets tags, lengths of segments and partial checksums with each frame, and nothing that
/// is sent. It sees nothing until it is [started](start_packet_socket).
///
/// # Errors
/// `EPERM` without `CAP_NET_RAW`.
pub fn open_packet_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // Protocol 0: nothing arrives until the socket is bound.
    // SAFETY: the call takes no pointer.
    let socket = owned(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    let fd = socket.as_fd();
    let set = |name, value: i32| set_option(fd, libc::SOL_PACKET, name, &value);
    set(libc::PACKET_AUXDATA, 1)?;
    set(libc::PACKET_VNET_HDR, 1)?;
    set(libc::PACKET_IGNORE_OUTGOING, 1)?;
    set(libc::PACKET_QDISC_BYPASS, 1)?;
    for (forced, asked, bytes) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, RECEIVE_BUFFER),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, SEND_BUFFER),
    ] {
        // Beyond the system's limits only an administrator may go.
        set_option(fd, libc::SOL_SOCKET, forced, &bytes)
            .or_else(|_| set_option(fd, libc::SOL_SOCKET, asked, &bytes))?;
    }
    Ok(socket)
}

/// Has sockets that are [started](start_packet_socket) at one interface share what arrives there, by flow, so that none
/// sees what another does (`PACKET_FANOUT_HASH`). Until they do, none sees anything.
///
/// # Errors
/// `ENOSPC`, `EINVAL`: more than the kernel lets share.
pub fn share_out(sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    let Some((first, others)) = sockets.split_first() else { return Ok(()) };
    let flags = libc::PACKET_FANOUT_HASH | FANOUT_FLAG_IGNORE_OUTGOING;
    // The first asks for a group of its own.
    join_group(*first, 0, flags | libc::PACKET_FANOUT_FLAG_UNIQUEID)?;
    let group = group_of(*first)?;
    others.iter().try_for_each(|socket| join_group(*socket, group, flags))?;
    for socket in sockets {
        set_option(*socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0_i32)?;
    }
    Ok(())
}

/// `linux/if_packet.h`: nothing that is sent.
const FANOUT_FLAG_IGNORE_OUTGOING: u32 = 0x4000;

fn join_group(socket: BorrowedFd<'_>, group: u16, mode: u32) -> io::Result<()> {
    let word = u32::from(group) | mode << 16;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &word)
}

fn group_of(socket: BorrowedFd<'_>) -> io::Result<u16> {
    let mut word: u32 = 0;
    let mut len = size_of::<u32>() as libc::socklen_t;
    let (level, name) = (libc::SOL_PACKET, libc::PACKET_FANOUT);
    let to = (&raw mut word).cast::<libc::c_void>();
    // SAFETY: the kernel writes at most `len` bytes to a number of that size.
    done(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, to, &raw mut len) })?;
    Ok(word as u16)
}

/// From now on the socket sees what arrives at the interface with this index.
///
/// # Errors
/// What the kernel says of the interface.
pub fn start_packet_socket(fd: BorrowedFd<'_>, index: i32, frames: Frames) -> io::Result<()> {
    match frames {
        Frames::All => become_promiscuous(fd, index)?,
        Frames::Later => {
            become_promiscuous(fd, index)?;
            let nothing = libc::BPF_RET | libc::BPF_K;
            filter(fd, &mut [libc::sock_filter { code: nothing as u16, jt: 0, jf: 0, k: 0 }])?;
        }
        Frames::Own => only_own(fd)?,
    }
    bind_to(fd, index, libc::ETH_P_ALL as u16)
}

/// Has the kernel keep from the socket what is for others, and what has been round already.
fn only_own(socket: BorrowedFd<'_>) -> io::Result<()> {
    let step = |code: u32, jt, jf, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |what: libc::c_int| {
        let at = (libc::SKF_AD_OFF + what) as u32;
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at)
    };
    let equal = |jt, jf, k| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, jf, k);
    let mut steps = [
        load(libc::SKF_AD_PKTTYPE),
        equal(2, 0, u32::from(libc::PACKET_OTHERHOST)),
        load(libc::SKF_AD_MARK),
        equal(0, 1, DETOUR_MARK),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    ];
    filter(socket, &mut steps)
}

fn filter(socket: BorrowedFd<'_>, steps: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Has the interface take in frames for others too, for as long as the socket is held.
pub(super) fn become_promiscuous(socket: BorrowedFd<'_>, index: i32) -> io::Result<()> {
    let all = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &all)
}

/// Binds a packet socket to frames of this protocol at the interface.
pub(super) fn bind_to(socket: BorrowedFd<'_>, index: i32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    let address = (&raw const address).cast::<libc::sockaddr>();
    // SAFETY: the kernel reads `len` bytes from an address of that size.
    done(unsafe { libc::bind(socket.as_raw_fd(), address, len) }).map(drop)
}

/// Packets that found the receive buffer full since this was last asked (`PACKET_STATISTICS`).
pub fn socket_drops(socket: BorrowedFd<'_>) -> u64 {
    let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
    let to = (&raw mut stats).cast::<libc::c_void>();
    // SAFETY: the kernel writes at most `len` bytes to a structure of that size.
    let got = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, to, &raw mut len) };
    if got == 0 { u64::from(stats.tp_drops) } else { 0 }
}

/// A TUN (`tap` false) or TAP device of this name, which goes away with the file. Frames have a
/// header before them that tells lengths of segments and partial checksums (`IFF_VNET_HDR`). If it has `several`
/// queues, each call opens one more (`IFF_MULTI_QUEUE`).
///
/// # Errors
/// `EPERM` without `CAP_NET_ADMIN`; `EBUSY` if another process has it; `EINVAL` if it is there with several queues
/// and this asks for one, or the other way round; `E2BIG`: too many queues.
pub fn open_tun(name: &str, tap: bool, several: bool) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/net/tun")?;
    let kind = if tap { libc::IFF_TAP } else { libc::IFF_TUN };
    let mut asked = request(name)?;
    let queues = if several { libc::IFF_MULTI_QUEUE } else { 0 };
    let flags = kind | libc::IFF_NO_PI | libc::IFF_VNET_HDR | queues;
    asked.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the request reads an ifreq and writes the device's name to it; one is there.
    done(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut asked) })?;
    // What the kernel may hand over: checksums to be filled in, TCP and UDP to be cut.
    let all = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    let offloads = libc::c_ulong::from(all | TUN_F_USO4 | TUN_F_USO6);
    let without_udp = libc::c_ulong::from(all);
    for wanted in [offloads, without_udp, 0] {
        // SAFETY: this request takes a number and no pointer.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, wanted) } == 0 {
            break;
        }
    }
    Ok(file)
}

/// The kernel hands over no super-packets and no checksums to be filled in, from now on.
///
/// # Errors
/// The device is gone.
pub fn refuse_offloads(tun: &File) -> io::Result<()> {
    let none: libc::c_ulong = 0;
    // SAFETY: this request takes a number and no pointer.
    done(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, none) }).map(drop)
}

/// `linux/if_tun.h`.
const TUN_F_CSUM: u32 = 0x01;
const TUN_F_TSO4: u32 = 0x02;
const TUN_F_TSO6: u32 = 0x04;
const TUN_F_TSO_ECN: u32 = 0x08;
const TUN_F_USO4: u32 = 0x20;
const TUN_F_USO6: u32 = 0x40;

/// Reads one frame into several places, one after the other.
pub fn read_vectored(file: &File, places: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
    let mut file = file;
    io::Read::read_vectored(&mut file, places)
}

/// `SO_KEEPALIVE`.
///
/// # Errors
/// The connection is gone.
pub fn keep_alive(socket: &std::net::TcpStream) -> io::Result<()> {
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1)
}

/// Resets the connection and wakes all threads that wait for it (`connect(2)` to no address).
///
/// # Errors
/// `EBUSY` from some kernels if a thread waits for it.
pub fn disconnect(socket: &std::net::TcpStream) -> io::Result<()> {
    let nowhere =
        libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    let len = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes from an address of that size.
    done(unsafe { libc::connect(socket.as_raw_fd(), &raw const nowhere, len) }).map(drop)
}
