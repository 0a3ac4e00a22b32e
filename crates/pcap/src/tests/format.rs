//! Files made byte by byte, as the formats are written down.

use super::{ng, read};
use crate::{Interface, LinkType, Record};

/// Integers in one byte order, one after the other.
pub struct Bytes {
    big_endian: bool,
    pub out: Vec<u8>,
}

impl Bytes {
    pub fn new(big_endian: bool) -> Self {
        Self { big_endian, out: Vec::new() }
    }

    pub fn u16(mut self, values: &[u16]) -> Self {
        for value in values {
            let bytes = if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
            self.out.extend(bytes);
        }
        self
    }

    pub fn u32(mut self, values: &[u32]) -> Self {
        for value in values {
            let bytes = if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
            self.out.extend(bytes);
        }
        self
    }

    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.out.extend(bytes);
        self
    }

    /// Appends a pcapng block around what `body` makes.
    fn block(self, kind: u32, body: impl FnOnce(Self) -> Self) -> Self {
        let mut inner = body(Self::new(self.big_endian)).out;
        inner.resize(inner.len().next_multiple_of(4), 0);
        let len = inner.len() as u32 + 12;
        self.u32(&[kind, len]).raw(&inner).u32(&[len])
    }

    fn section(self) -> Self {
        self.block(ng::SECTION_HEADER, |b| {
            b.u32(&[ng::BYTE_ORDER]).u16(&[1, 0]).u32(&[u32::MAX, u32::MAX])
        })
    }
}

#[test]
fn pcap_in_both_byte_orders_and_resolutions() {
    for big_endian in [false, true] {
        for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let file = Bytes::new(big_endian)
                .u32(&[magic])
                .u16(&[2, 4])
                .u32(&[0, 0, 96, 1])
                .u32(&[1000, 5, 3, 60])
                .raw(&[7, 8, 9])
                .u32(&[1001, 999_999, 0, 0])
                .out;
            let (interfaces, records) = read(&file).expect("reads");
            assert_eq!(
                interfaces,
                [Interface { name: None, link_type: LinkType(1), snap_len: 96 }]
            );
            let expected = [
                Record {
                    interface: 0,
                    nanos: Some(1_000_000_000_000 + 5 * unit),
                    bytes: vec![7, 8, 9],
                    original_len: 60,
                    comments: vec![],
                },
                Record {
                    interface: 0,
                    nanos: Some(1_001_000_000_000 + 999_999 * unit),
                    bytes: vec![],
                    original_len: 0,
                    comments: vec![],
                },
            ];
            assert_eq!(records, expected);
        }
    }
}

#[test]
fn pcapng_blocks_interfaces_and_clocks() {
    for big_endian in [false, true] {
        let packet = |number: u32, high: u32, low: u32| {
            move |b: Bytes| b.u32(&[number, high, low, 2, 1500]).raw(&[1, 2, 0, 0])
        };
        let offset = |seconds: u64| {
            let words = [(seconds >> 32) as u32, seconds as u32];
            if big_endian { words } else { [words[1], words[0]] }
        };
        let file = Bytes::new(big_endian)
            .section()
            // Microseconds by default; a name; nothing known about the frames.
            .block(ng::INTERFACE, |b| b.u16(&[147, 0]).u32(&[4]).u16(&[2, 3]).raw(b"eth\0"))
            // 2^-10 seconds from second 100 on.
            .block(ng::INTERFACE, |b| {
                b.u16(&[1, 0, 0, 0, 9, 1]).raw(&[0x8a, 0, 0, 0]).u16(&[14, 8]).u32(&offset(100))
            })
            // Picoseconds.
            .block(ng::INTERFACE, |b| b.u16(&[1, 0, 0, 0, 9, 1]).raw(&[12, 0, 0, 0]))
            .block(ng::ENHANCED_PACKET, packet(0, 1, 0))
            .block(0x0bad, |b| b.raw(b"nobody knows this"))
            .block(ng::ENHANCED_PACKET, packet(1, 0, 1536))
            .block(ng::ENHANCED_PACKET, |b| {
                packet(2, 0, 5999)(b).u16(&[1, 5]).raw(b"first\0\0\0").u16(&[1, 6]).raw(b"second")
            })
            .block(ng::SIMPLE_PACKET, |b| b.u32(&[1500]).raw(&[1, 2, 3, 4]))
            .block(ng::OBSOLETE_PACKET, |b| {
                b.u16(&[2, 17]).u32(&[0, 7000, 2, 2]).raw(&[9, 9, 0, 0])
            })
            // A section in the other byte order counts its interfaces anew.
            .raw(
                &Bytes::new(!big_endian)
                    .section()
                    .block(ng::INTERFACE, |b| b.u16(&[101, 0]).u32(&[0]))
                    .block(ng::ENHANCED_PACKET, |b| b.u32(&[0, 0, 1, 0, 0]))
                    .out,
            )
            .out;
        let (interfaces, records) = read(&file).expect("reads");
        let names: Vec<_> = interfaces.iter().map(|it| (it.link_type.0, it.snap_len)).collect();
        assert_eq!(names, [(147, 4), (1, 0), (1, 0), (101, 0)]);
        assert_eq!(interfaces[0].name.as_deref(), Some("eth"));
        let seen: Vec<_> = records.iter().map(|it| (it.interface, it.nanos)).collect();
        let expected = [
            (0, Some(4_294_967_296_000)),
            (1, Some(101_500_000_000)),
            (2, Some(5)),
            (0, None),
            (2, Some(7)),
            (3, Some(1000)),
        ];
        assert_eq!(seen, expected);
        assert_eq!(records[2].comments, ["first", "second"]);
        assert_eq!((&records[3].bytes[..], records[3].original_len), (&[1, 2, 3, 4][..], 1500));
    }
}

#[test]
fn errors_say_where_and_what() {
    let section = || Bytes::new(false).section();
    let described = || section().block(ng::INTERFACE, |b| b.u16(&[1, 0]).u32(&[0]));
    let table: [(Vec<u8>, &str); 12] = [
        (vec![], "at byte 0 of the capture: the file ends within the magic number: 0 of 4"),
        (vec![0x1f, 0x8b, 8, 0, 0], "neither pcap nor pcapng: it is compressed with gzip"),
        (vec![1, 2, 3, 4, 5], "at byte 0 of the capture: the file begins with [01, 02, 03, 04]"),
        (Bytes::new(false).u32(&[0xa1b2_c3d4]).u16(&[2, 4]).out, "within the pcap header: 4 of 20"),
        (
            Bytes::new(false).u32(&[0xa1b2_c3d4]).u16(&[3, 0]).u32(&[0; 4]).out,
            "at byte 4 of the capture: pcap version 3 is not supported, only 2",
        ),
        (
            Bytes::new(true).u32(&[0xa1b2_c3d4]).u16(&[2, 4]).u32(&[0; 6]).u32(&[1 << 30, 0]).out,
            "at byte 24 of the capture: a record claims 1073741824 captured bytes",
        ),
        (
            section().block(ng::ENHANCED_PACKET, |b| b.u32(&[3, 0, 0, 0, 0])).out,
            "at byte 28 of the capture: a packet of interface 3, which was not described",
        ),
        (
            described().block(ng::ENHANCED_PACKET, |b| b.u32(&[0, 0, 0, 8, 8, 0])).out,
            "at byte 48 of the capture: a packet of 8 bytes in a block with room for 4",
        ),
        (described().u32(&[6, 13]).out, "at byte 48 of the capture: a block claims to have 13"),
        (described().u32(&[5, 16, 0, 20]).out, "a block begins with length 16 and ends with 20"),
        (described().u32(&[5, 16, 0]).out, "the file ends within a block: 4 of 8 bytes are there"),
        (
            section().block(ng::INTERFACE, |b| b.u16(&[1, 0, 0, 0, 2, 9])).out,
            "at byte 28 of the capture: option 2 claims 9 bytes of the 0 that are left",
        ),
    ];
    for (file, what) in table {
        let error = read(&file).expect_err(what).to_string();
        assert!(error.contains(what), "{error}\ndoes not contain\n{what}");
    }
}
