//! Programs of a few instructions at an interface (`bpf(2)`), for as long as their links are held: one that
//! drops all that arrives once packet sockets have seen it, those of a detour (TCX), and that of AF_XDP.

use super::{done, owned};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Holds programs to interfaces; they go with the process.
#[derive(Debug)]
pub struct AttachedPrograms {
    _links: Vec<OwnedFd>,
}

/// `struct bpf_insn`: code, registers, offset, immediate.
#[repr(C)]
pub(super) struct Instruction(pub u8, pub u8, pub i16, pub i32);

/// `union bpf_attr` of `BPF_PROG_LOAD`, as far as it is used.
#[repr(C)]
struct Load {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buffer: u64,
    kernel_version: u32,
    flags: u32,
}

/// `union bpf_attr` of `BPF_LINK_CREATE`, as far as it is used.
#[repr(C)]
struct Link {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    rest: [u64; 2],
}

/// `union bpf_attr` of `BPF_MAP_CREATE`, as far as it is used.
#[repr(C)]
struct Map {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    rest: [u64; 2],
}

/// `union bpf_attr` of `BPF_MAP_UPDATE_ELEM`.
#[repr(C, align(8))]
struct Element {
    map: u32,
    key: u64,
    value: u64,
    flags: u64,
}

const BPF_MAP_CREATE: i32 = 0;
const BPF_MAP_UPDATE_ELEM: i32 = 2;
const BPF_PROG_LOAD: i32 = 5;
const BPF_LINK_CREATE: i32 = 28;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_TCX_INGRESS: u32 = 46;
const BPF_TCX_EGRESS: u32 = 47;
const BPF_FUNC_REDIRECT: i32 = 23;
/// `skb->mark` of what has been round by [`detour`], until the kernel's stack gets it: "ackw".
pub const DETOUR_MARK: u32 = 0x6163_6b77;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
/// `r0 = TCX_DROP; exit`.
const DROP: [Instruction; 2] = [Instruction(0xb7, 0, 0, 2), Instruction(0x95, 0, 0, 0)];

/// Draws the curtain before the kernel's own stack at the interface with this index.
///
/// # Errors
/// Without `CAP_BPF` and `CAP_NET_ADMIN`; before Linux 6.6 there is no TCX.
pub fn draw_curtain(index: i32) -> io::Result<AttachedPrograms> {
    Ok(AttachedPrograms { _links: vec![attach_tcx(&DROP, index, BPF_TCX_INGRESS)?] })
}

/// Puts a TAP device between the kernel's own stack and an interface: what the stack sends by `interface` leaves
/// by `tap`, and what comes by `tap` has come by `interface`. What comes by `interface` itself is only for packet
/// sockets, which know by [`DETOUR_MARK`] what has been round.
///
/// # Errors
/// As for [`draw_curtain`].
pub fn detour(interface: i32, tap: i32) -> io::Result<AttachedPrograms> {
    const BPF_F_INGRESS: i32 = 1;
    const MARK: i16 = 8;
    let mark = DETOUR_MARK as i32;
    // return bpf_redirect(to, flags);
    let redirect = |to, flags| {
        [
            Instruction(0xb7, 1, 0, to),
            Instruction(0xb7, 2, 0, flags),
            Instruction(0x85, 0, 0, BPF_FUNC_REDIRECT),
            Instruction(0x95, 0, 0, 0),
        ]
    };
    // skb->mark = DETOUR_MARK; return bpf_redirect(interface, BPF_F_INGRESS);
    let mut back = vec![Instruction(0xb7, 2, 0, mark), Instruction(0x63, 0x21, MARK, 0)];
    back.extend(redirect(interface, BPF_F_INGRESS));
    // if (skb->mark != DETOUR_MARK) return TCX_DROP; skb->mark = 0; return TCX_NEXT;
    let arrived = [
        Instruction(0x61, 0x12, MARK, 0),
        Instruction(0x15, 2, 2, mark),
        Instruction(0xb7, 0, 0, 2),
        Instruction(0x95, 0, 0, 0),
        Instruction(0xb7, 2, 0, 0),
        Instruction(0x63, 0x21, MARK, 0),
        Instruction(0xb7, 0, 0, -1),
        Instruction(0x95, 0, 0, 0),
    ];
    // The way back first, and the curtain last: nothing comes twice.
    Ok(AttachedPrograms {
        _links: vec![
            attach_tcx(&back, tap, BPF_TCX_INGRESS)?,
            attach_tcx(&redirect(tap, 0), interface, BPF_TCX_EGRESS)?,
            attach_tcx(&arrived, interface, BPF_TCX_INGRESS)?,
        ],
    })
}

fn attach_tcx(program: &[Instruction], index: i32, at: u32) -> io::Result<OwnedFd> {
    attach(BPF_PROG_TYPE_SCHED_CLS, program, index, at, 0)
}

/// Attaches a program that sees frames before the kernel's stack (XDP); the link that holds it there.
///
/// # Errors
/// What `bpf(2)` says.
pub(super) fn attach_xdp(program: &[Instruction], index: i32, flags: u32) -> io::Result<OwnedFd> {
    attach(BPF_PROG_TYPE_XDP, program, index, BPF_XDP, flags)
}

fn attach(
    program_type: u32,
    instructions: &[Instruction],
    index: i32,
    attach_type: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let load = Load {
        program_type,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"MIT OR Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log_buffer: 0,
        kernel_version: 0,
        flags: 0,
    };
    let program = owned(bpf(BPF_PROG_LOAD, &load)?)?;
    let link = Link {
        program: program.as_raw_fd() as u32,
        target: index as u32,
        attach_type,
        flags,
        rest: [0; 2],
    };
    owned(bpf(BPF_LINK_CREATE, &link)?)
}

/// A map from queues to AF_XDP sockets, for so many queues.
pub(super) fn make_xsk_map(queues: u32) -> io::Result<OwnedFd> {
    let map = Map {
        kind: BPF_MAP_TYPE_XSKMAP,
        key_size: 4,
        value_size: 4,
        max_entries: queues,
        rest: [0; 2],
    };
    owned(bpf(BPF_MAP_CREATE, &map)?)
}

/// Puts a number into a map.
pub(super) fn set_element(map: &OwnedFd, key: u32, value: u32) -> io::Result<()> {
    let element = Element {
        map: map.as_raw_fd() as u32,
        key: &raw const key as u64,
        value: &raw const value as u64,
        flags: 0,
    };
    bpf(BPF_MAP_UPDATE_ELEM, &element).map(drop)
}

fn bpf<T>(command: i32, attributes: &T) -> io::Result<i32> {
    let (from, len) = (std::ptr::from_ref(attributes), size_of::<T>());
    // SAFETY: the kernel reads `len` bytes of attributes, which has that size, and what they point to, which
    // the callers above borrow: programs with the lengths that they tell, constants, and one key and one
    // value of 4 bytes. No command used here writes.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, from, len) };
    done(result as i32)
}
