//! Length compensation: what a packet costs on the link behind the device (`cake_overhead`).
//!
//! A modem adds headers, pads to cells, or inserts framing bytes. A shaper that doesn't know
//! this overruns the modem's buffer, so every length is translated first:
//!
//! ```text
//! bytes from the IP header on (or the whole frame with `raw`)
//!   + overhead, at least mpu, then ATM: 53 for every started 48; PTM: one more for every 64
//! ```

use super::config::{Config, Framing};
use super::ewma;
use crate::packet::Packet;

/// The sizes seen, before and after compensation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Smallest length before the overhead; [`Sizes::NONE_SEEN`] if none.
    pub min_network: u32,
    /// Largest length before the overhead; 0 if none.
    pub max_network: u32,
    /// Smallest compensated length; [`Sizes::NONE_SEEN`] if none.
    pub min_adjusted: u32,
    /// Largest compensated length; 0 if none.
    pub max_adjusted: u32,
    /// Moving average of the network header's offset, in 2⁻¹⁶ bytes.
    average_offset: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            min_network: Self::NONE_SEEN,
            max_network: 0,
            min_adjusted: Self::NONE_SEEN,
            max_adjusted: 0,
            average_offset: 0,
        }
    }
}

impl Sizes {
    /// The minimum while no packet was seen, as the kernel's 16-bit field shows it.
    pub const NONE_SEEN: u32 = 65535;

    /// Average offset of the network header in bytes, rounded.
    pub const fn header_offset(&self) -> u32 {
        (self.average_offset + 0x8000) >> 16
    }

    /// Forgets the extremes (a `change` of the overhead restarts them, not the average).
    pub fn restart(&mut self) {
        *self = Self { average_offset: self.average_offset, ..Self::default() };
    }

    /// The compensated length of `packet`, which is remembered in the statistics.
    pub fn adjust(&mut self, config: &Config, packet: &Packet) -> u32 {
        let offset = network_offset(packet);
        self.average_offset = ewma(self.average_offset.into(), u64::from(offset) << 16, 8) as u32;
        let segments = packet.segments();
        if segments == 1 || packet.meta.gso_size == 0 {
            return self.adjust_len(config, packet.len(), offset);
        }
        let segment_len = packet.header_len() + u32::from(packet.meta.gso_size);
        let carried = u32::from(packet.meta.gso_size) * (segments - 1);
        let last_len = packet.len().saturating_sub(carried);
        let segment = self.adjust_len(config, segment_len, offset);
        segment * (segments - 1) + self.adjust_len(config, last_len, offset)
    }

    /// The compensated length of one frame of `frame_len` bytes (`cake_calc_overhead`).
    fn adjust_len(&mut self, config: &Config, frame_len: u32, offset: u32) -> u32 {
        let skipped = if config.compensate { offset } else { 0 };
        let network = frame_len.saturating_sub(skipped);
        self.min_network = self.min_network.min(network);
        self.max_network = self.max_network.max(network);
        let adjusted = on_link(config, network);
        self.min_adjusted = self.min_adjusted.min(adjusted);
        self.max_adjusted = self.max_adjusted.max(adjusted);
        adjusted
    }
}

/// What `len` bytes take up on the link. A negative overhead stops at zero, where the kernel's
/// unsigned length would wrap round.
pub fn on_link(config: &Config, len: u32) -> u32 {
    let framed = len.saturating_add_signed(config.overhead).max(config.mpu);
    match config.framing {
        Framing::None => framed,
        Framing::Atm => framed.div_ceil(48) * 53,
        Framing::Ptm => framed + framed.div_ceil(64),
    }
}

/// Offset of the network header: the link-layer header and any VLAN tags in the frame.
fn network_offset(packet: &Packet) -> u32 {
    match &packet.extra {
        Some(extra) if !extra.raw.is_empty() => u32::from(extra.network_offset),
        Some(extra) => packet.link.len() + 4 * extra.vlan.len() as u32,
        None => packet.link.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths on the link that the kernel was seen to charge, by IP length.
    #[test]
    fn known_link_lengths() {
        let link = |overhead, mpu, framing| Config {
            overhead,
            mpu,
            framing,
            compensate: true,
            ..Config::default()
        };
        let pppoe_atm = link(44, 0, Framing::Atm);
        let ptm = link(30, 0, Framing::Ptm);
        let ethernet = link(38, 84, Framing::None);
        let docsis = link(18, 64, Framing::None);
        let cases = [
            (pppoe_atm, 28, 106),
            (pppoe_atm, 128, 212),
            (pppoe_atm, 1500, 1749),
            (ptm, 28, 59),
            (ptm, 1500, 1554),
            (ethernet, 28, 84),
            (ethernet, 128, 166),
            (ethernet, 1500, 1538),
            (docsis, 28, 64),
            (docsis, 1500, 1518),
            (link(-10, 0, Framing::None), 28, 18),
            (link(0, 0, Framing::Atm), 42, 53),
            (link(-64, 0, Framing::None), 28, 0),
        ];
        for (config, ip_len, expected) in cases {
            assert_eq!(on_link(&config, ip_len), expected, "{ip_len} bytes over {config:?}");
        }
    }
}
