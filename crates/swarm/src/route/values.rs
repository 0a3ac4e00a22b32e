//! Addresses, prefixes and interfaces, so few that they often coincide.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::draw::Draw;

/// One of the interfaces.
pub fn any_port(ports: u8, draw: &mut Draw) -> u8 {
    draw.range(0..=u64::from(ports) - 1) as u8
}

/// An address near others: a few bits away from one of few.
pub fn any_address(v6: bool, draw: &mut Draw) -> IpAddr {
    let flips = draw.range(0..=3);
    if v6 {
        let bases = [0x2001_0db8_u128 << 96, 0, 0xfd00 << 112, u128::MAX >> 1];
        let mut bits = *draw.one_of(&bases);
        for _ in 0..flips {
            bits ^= 1 << draw.range(0..=127);
        }
        return Ipv6Addr::from_bits(bits).into();
    }
    let bases = [0x0a00_0000, 0x0a00_ffff, 0xc0a8_0000, 0, u32::MAX, 0x8000_0000];
    let mut bits: u32 = *draw.one_of(&bases);
    for _ in 0..flips {
        bits ^= 1 << draw.range(0..=31);
    }
    Ipv4Addr::from_bits(bits).into()
}

/// A prefix, its host bits zero.
pub fn any_prefix(draw: &mut Draw) -> (IpAddr, u8) {
    let addr = any_address(draw.percent(30), draw);
    let len = any_len(addr, draw);
    (masked(addr, len), len)
}

/// The length of a prefix.
pub fn any_len(addr: IpAddr, draw: &mut Draw) -> u8 {
    let most = if addr.is_ipv4() { 32 } else { 128 };
    match draw.range(0..=9) {
        0..=1 => *draw.one_of(&[0, 1, most - 1, most]),
        2..=6 => *draw.one_of(&[8, 16, 24, most]),
        _ => draw.range(0..=u64::from(most)) as u8,
    }
}

/// A next router, of few.
pub fn any_gateway(v6: bool, draw: &mut Draw) -> IpAddr {
    let last = draw.range(1..=3);
    if v6 {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last as u16).into()
    } else {
        Ipv4Addr::new(172, 16, 0, last as u8).into()
    }
}

/// The first address of the prefix of this length.
pub fn masked(addr: IpAddr, len: u8) -> IpAddr {
    match addr {
        IpAddr::V4(addr) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            Ipv4Addr::from_bits(addr.to_bits() & mask).into()
        }
        IpAddr::V6(addr) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            Ipv6Addr::from_bits(addr.to_bits() & mask).into()
        }
    }
}
