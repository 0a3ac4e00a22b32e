//! The receive ring of a packet socket (TPACKET_V3): blocks of memory shared with the kernel, which hands each over
//! when it is full or a millisecond old.

use super::batch::FrameInfo;
use super::{done, set_option};
use libc::c_void;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a block, of which the longest super-packet takes a quarter, and how many there are: 8 MiB.
const BLOCK: usize = 256 << 10;
const BLOCKS: usize = 32;
/// A block is handed over after this many ms even if it is not full; there is no shorter time.
const RETIRE_MS: u32 = 1;
/// Bytes of `struct virtio_net_hdr` before each frame.
const VNET: usize = 10;

/// A ring, mapped as long as this lives.
#[derive(Debug)]
pub struct ReceiveRing {
    memory: NonNull<u8>,
    /// The block that comes next.
    block: usize,
    /// Frames of it that are still to be read, and where in it the first of them is.
    left: u32,
    offset: usize,
}

// SAFETY: the mapping belongs to this value alone, and the kernel does not mind which thread reads it.
unsafe impl Send for ReceiveRing {}

impl ReceiveRing {
    /// Gives a packet socket that is not bound yet a ring. Headers (`PACKET_VNET_HDR`) must be on already.
    ///
    /// # Errors
    /// `ENOMEM`; `EINVAL` from a kernel without TPACKET_V3.
    pub fn open(socket: BorrowedFd<'_>) -> io::Result<Self> {
        const FRAME: usize = 2_048;
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let wanted = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: (BLOCK / FRAME * BLOCKS) as u32,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &wanted)?;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let fd = socket.as_raw_fd();
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let mapped =
            unsafe { libc::mmap(std::ptr::null_mut(), BLOCK * BLOCKS, protection, flags, fd, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(mapped.cast::<u8>()).expect("a mapping is somewhere");
        Ok(Self { memory, block: 0, left: 0, offset: 0 })
    }

    /// Hands over what has come, `most` frames at most: the header, the frame and what is known of it. How many.
    pub fn receive(
        &mut self,
        most: usize,
        mut take: impl FnMut(&[u8; VNET], &[u8], FrameInfo),
    ) -> usize {
        for count in 0..most {
            if self.left == 0 && !self.open_block() {
                return count;
            }
            let (next, header, frame, landed) = self.frame();
            take(header, frame, landed);
            self.offset += next;
            self.left -= 1;
            if self.left == 0 {
                self.close_block();
            }
        }
        most
    }

    /// Looks whether the next block is ours; blocks without frames are given back.
    fn open_block(&mut self) -> bool {
        while self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0 {
            self.left = self.number(12);
            self.offset = self.number(16) as usize;
            if self.left > 0 {
                return true;
            }
            self.close_block();
        }
        false
    }

    fn close_block(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.block = (self.block + 1) % BLOCKS;
    }

    /// `block_status` of the next block (`struct tpacket_hdr_v1` behind two numbers).
    fn status(&self) -> &AtomicU32 {
        // SAFETY: the block begins at a multiple of the page size within the mapping, which lives as long as
        // `self`; kernel and program both change this number, as a whole.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(self.block * BLOCK + 8).cast()) }
    }

    /// A number of 4 bytes in the next block.
    fn number(&self, at: usize) -> u32 {
        u32::from_ne_bytes(*self.bytes(at, 4).first_chunk().expect("four bytes"))
    }

    /// Bytes of the next block, which is ours.
    fn bytes(&self, at: usize, len: usize) -> &[u8] {
        assert!(at + len <= BLOCK, "the kernel names a place outside of its block");
        // SAFETY: within the block, by the line above. The kernel does not write there between the load of
        // `TP_STATUS_USER` and the store of `TP_STATUS_KERNEL`, for which `self` is borrowed mutably.
        unsafe {
            std::slice::from_raw_parts(self.memory.as_ptr().add(self.block * BLOCK + at), len)
        }
    }

    /// The frame at `offset` (`struct tpacket3_hdr`), and how far the next is.
    fn frame(&self) -> (usize, &[u8; VNET], &[u8], FrameInfo) {
        let at = self.offset;
        let number = |field: usize| self.number(at + field);
        let (next, kept, len, status) = (number(0), number(12), number(16), number(20));
        let short = |field: usize| {
            u16::from_ne_bytes(*self.bytes(at + field, 2).first_chunk().expect("two bytes"))
        };
        let mac = at + usize::from(short(24));
        let tpid = match status & libc::TP_STATUS_VLAN_TPID_VALID {
            0 => 0x8100,
            _ => short(36),
        };
        let tagged = status & libc::TP_STATUS_VLAN_VALID != 0;
        let landed = FrameInfo {
            len: kept as usize + VNET,
            truncated: kept < len,
            vlan: tagged.then(|| (tpid, number(32) as u16)),
        };
        let header = self.bytes(mac - VNET, VNET).first_chunk().expect("as many bytes");
        (next as usize, header, self.bytes(mac, kept as usize), landed)
    }
}

impl Drop for ReceiveRing {
    fn drop(&mut self) {
        let memory = self.memory.as_ptr().cast::<c_void>();
        // SAFETY: the mapping of `open`, to which there is no reference any more.
        let _ = done(unsafe { libc::munmap(memory, BLOCK * BLOCKS) });
    }
}
