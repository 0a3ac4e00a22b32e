//! Tins: which packets share a priority, what each tin may use, and in which order they are shown.

use super::config::{Config, TinMode};
use crate::packet::{EtherType, Network, Packet};
use crate::qdisc::Handle;

/// One tin of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// The tin's name in `tc -s qdisc`.
    pub name: &'static str,
    /// Share of the configured rate.
    pub share: RateFraction,
    /// Deficit given to the tin in turn when the rate is unlimited.
    pub quantum: u32,
}

/// A fraction of the configured rate, computed as the kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateFraction {
    /// rate >> n.
    Shifted(u32),
    /// 7/8 of the rate, n times.
    SevenEighths(u32),
}

impl RateFraction {
    /// This share of `rate` byte/s.
    pub fn of(self, rate: u64) -> u64 {
        match self {
            Self::Shifted(bits) => rate >> bits,
            Self::SevenEighths(times) => (0..times).fold(rate, |rate, _| (rate * 7) >> 3),
        }
    }
}

impl TinMode {
    /// The tins of this mode by internal index: with a shaper, the highest index that is due is
    /// served first.
    pub const fn classes(self) -> &'static [Class] {
        match self {
            Self::Besteffort => &BESTEFFORT,
            Self::Diffserv3 => &DIFFSERV3,
            Self::Diffserv4 => &DIFFSERV4,
            Self::Precedence | Self::Diffserv8 => &EIGHT,
        }
    }

    /// The tins of this mode by internal index: a bit each.
    pub const fn mask(self) -> u8 {
        match self {
            Self::Besteffort => 0b1,
            Self::Diffserv3 => 0b111,
            Self::Diffserv4 => 0b1111,
            Self::Precedence | Self::Diffserv8 => 0b1111_1111,
        }
    }

    /// Internal index by position in the output, which is also how marks and priorities count.
    pub const fn display_order(self) -> &'static [usize] {
        match self {
            Self::Besteffort => &[0],
            Self::Diffserv3 => &[1, 0, 2],
            Self::Diffserv4 => &[1, 0, 2, 3],
            Self::Precedence | Self::Diffserv8 => &[0, 1, 2, 3, 4, 5, 6, 7],
        }
    }

    /// The tin (internal index) for a DSCP, 0 to 63.
    pub const fn tin_of_dscp(self, dscp: u8) -> usize {
        match self {
            Self::Besteffort => 0,
            Self::Precedence => (dscp >> 3) as usize,
            Self::Diffserv3 => match dscp {
                1 | 8 => 1,
                4 | 44 | 46 | 48 | 56 => 2,
                _ => 0,
            },
            Self::Diffserv4 => match dscp {
                1 | 8 => 1,
                4 | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38 => 2,
                32 | 40 | 44 | 46 | 48 | 56 => 3,
                _ => 0,
            },
            Self::Diffserv8 => match dscp {
                1 => 0,
                2 | 8 | 10 | 12 | 14 => 1,
                24 | 26 | 28 | 30 | 34 | 36 | 38 => 3,
                4 | 18 | 20 | 22 => 4,
                16 => 5,
                32 | 40 | 44 | 46 => 6,
                48 | 56 => 7,
                _ => 2,
            },
        }
    }
}

/// The tin (internal index) for `packet` (`cake_select_tin`): the firewall mark wins, then
/// `skb->priority` with this qdisc's major number, then the DSCP.
pub fn select(config: &Config, handle: Handle, packet: &Packet) -> usize {
    if config.tins == TinMode::Besteffort {
        return 0;
    }
    let order = config.tins.display_order();
    let by_number = |number: u32| order.get(number.checked_sub(1)? as usize).copied();
    let mark = fwmark(config.fwmark_mask, packet.meta.mark);
    let priority = packet.meta.priority;
    let same_major = handle != Handle::NONE && priority >> 16 == u32::from(handle.major());
    let minor = if same_major { priority & 0xffff } else { 0 };
    by_number(mark)
        .or_else(|| by_number(minor))
        .unwrap_or_else(|| config.tins.tin_of_dscp(dscp(&packet.network)))
}

/// The DSCP that decides: ARP counts as network control, anything else without one as best effort.
fn dscp(network: &Network) -> u8 {
    match network {
        Network::Other(EtherType::ARP) => CS7,
        network => network.tos() >> 2,
    }
}

fn fwmark(mask: u32, mark: u32) -> u32 {
    match mask {
        0 => 0,
        mask => (mark & mask) >> mask.trailing_zeros(),
    }
}

/// DSCP class selector 7.
const CS7: u8 = 56;

const fn class(name: &'static str, share: RateFraction, quantum: u32) -> Class {
    Class { name, share, quantum }
}

const BESTEFFORT: [Class; 1] = [class("Tin 0", RateFraction::Shifted(0), 65535)];

const DIFFSERV3: [Class; 3] = [
    class("Best Effort", RateFraction::Shifted(0), 1024),
    class("Bulk", RateFraction::Shifted(4), 64),
    class("Voice", RateFraction::Shifted(2), 256),
];

const DIFFSERV4: [Class; 4] = [
    class("Best Effort", RateFraction::Shifted(0), 1024),
    class("Bulk", RateFraction::Shifted(4), 64),
    class("Video", RateFraction::Shifted(1), 512),
    class("Voice", RateFraction::Shifted(2), 256),
];

/// Precedence and diffserv8 differ only in their DSCP maps.
const EIGHT: [Class; 8] = [
    class("Tin 0", RateFraction::SevenEighths(0), 256),
    class("Tin 1", RateFraction::SevenEighths(1), 224),
    class("Tin 2", RateFraction::SevenEighths(2), 196),
    class("Tin 3", RateFraction::SevenEighths(3), 171),
    class("Tin 4", RateFraction::SevenEighths(4), 149),
    class("Tin 5", RateFraction::SevenEighths(5), 130),
    class("Tin 6", RateFraction::SevenEighths(6), 113),
    class("Tin 7", RateFraction::SevenEighths(7), 98),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Which DSCPs the kernel was seen to put in each tin, in display order; the rest go to the
    /// default tin.
    #[test]
    fn dscp_maps() {
        /// Tins, each with its DSCPs.
        type Map = &'static [(usize, &'static [u8])];
        let maps: [(TinMode, usize, Map); 3] = [
            (TinMode::Diffserv3, 1, &[(0, &[1, 8]), (2, &[4, 44, 46, 48, 56])]),
            (
                TinMode::Diffserv4,
                1,
                &[
                    (0, &[1, 8]),
                    (2, &[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38]),
                    (3, &[32, 40, 44, 46, 48, 56]),
                ],
            ),
            (
                TinMode::Diffserv8,
                2,
                &[
                    (0, &[1]),
                    (1, &[2, 8, 10, 12, 14]),
                    (3, &[24, 26, 28, 30, 34, 36, 38]),
                    (4, &[4, 18, 20, 22]),
                    (5, &[16]),
                    (6, &[32, 40, 44, 46]),
                    (7, &[48, 56]),
                ],
            ),
        ];
        for (mode, default, named) in maps {
            for dscp in 0..64 {
                let shown = named.iter().find(|(_, list)| list.contains(&dscp));
                let shown = shown.map_or(default, |(tin, _)| *tin);
                let expected = mode.display_order()[shown];
                assert_eq!(mode.tin_of_dscp(dscp), expected, "DSCP {dscp} in {mode:?}");
            }
        }
        assert!((0..64).all(|dscp| {
            TinMode::Precedence.tin_of_dscp(dscp) == usize::from(dscp / 8)
                && TinMode::Besteffort.tin_of_dscp(dscp) == 0
        }));
    }

    #[test]
    fn every_class_has_a_bit() {
        use TinMode::{Besteffort, Diffserv3, Diffserv4, Diffserv8, Precedence};
        for mode in [Besteffort, Diffserv3, Diffserv4, Diffserv8, Precedence] {
            assert_eq!(mode.mask().trailing_ones() as usize, mode.classes().len());
            assert_eq!(mode.mask().count_ones() as usize, mode.classes().len());
        }
    }

    #[test]
    fn shares_are_the_kernels() {
        assert_eq!(RateFraction::SevenEighths(2).of(45_250), 34_643);
        assert_eq!(RateFraction::Shifted(4).of(1_116_952), 69_809);
    }

    #[test]
    fn marks_are_shifted_to_their_mask() {
        assert_eq!(fwmark(0xf0, 0x1230), 3);
        assert_eq!(fwmark(0, 7), 0);
    }
}
