//! A program of two instructions that drops all that arrives at an interface once packet sockets have
//! seen it (`bpf(2)`, TCX), for as long as its link is held.

use super::owned;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// Holds the program to the interface; it goes with the process.
#[derive(Debug)]
pub struct Curtain {
    _link: OwnedFd,
}

/// `struct bpf_insn`: code, registers, offset, immediate.
#[repr(C)]
struct Instruction(u8, u8, i16, i32);

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

const BPF_PROG_LOAD: i32 = 5;
const BPF_LINK_CREATE: i32 = 28;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_TCX_INGRESS: u32 = 46;
/// `r0 = TCX_DROP; exit`.
const DROP: [Instruction; 2] = [Instruction(0xb7, 0, 0, 2), Instruction(0x95, 0, 0, 0)];

/// Draws the curtain before the kernel's own stack at the interface with this index.
///
/// # Errors
/// Without `CAP_BPF` and `CAP_NET_ADMIN`; before Linux 6.6 there is no TCX.
pub fn draw_curtain(index: i32) -> io::Result<Curtain> {
    let load = Load {
        program_type: BPF_PROG_TYPE_SCHED_CLS,
        instruction_count: DROP.len() as u32,
        instructions: DROP.as_ptr() as u64,
        license: c"MIT OR Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log_buffer: 0,
        kernel_version: 0,
        flags: 0,
    };
    let program = bpf(BPF_PROG_LOAD, &load)?;
    let link = Link {
        program: program.as_raw_fd() as u32,
        target: index as u32,
        attach_type: BPF_TCX_INGRESS,
        flags: 0,
        rest: [0; 2],
    };
    Ok(Curtain { _link: bpf(BPF_LINK_CREATE, &link)? })
}

fn bpf<T>(command: i32, attributes: &T) -> io::Result<OwnedFd> {
    let (from, len) = (std::ptr::from_ref(attributes), size_of::<T>());
    // SAFETY: the kernel reads `len` bytes of attributes, which has that size, and what they point to:
    // constants with the lengths that they tell. Both commands give a new descriptor.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, from, len) };
    owned(result as i32)
}
