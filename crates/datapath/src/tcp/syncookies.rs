//! SYN cookies: SYN-ACKs whose sequence number holds all that has to be remembered
//! (`net/ipv4/syncookies.c` in our own words; the layout of the kernel, the hash our own).

use crate::packet::seq::Seq;
use crate::packet::{Tcp, TcpOptions};
use crate::tcp::Ends;
use crate::tcp::config::TcpConfig;
use crate::units::Instant;
use core::hash::Hasher as _;
use core::net::IpAddr;
use siphasher::sip::SipHasher24;

/// Segment sizes that a cookie can tell, IPv4 (`msstab`).
const MSS_V4: [u16; 4] = [536, 1_300, 1_440, 1_460];
/// And IPv6.
const MSS_V6: [u16; 4] = [1_220, 1_420, 1_440, 8_940];
/// Minutes that a cookie is good for (`MAX_SYNCOOKIE_AGE`).
const AGE_MAX: u32 = 2;
/// How long after the last overflow cookies are looked at, s (`TCP_SYNCOOKIE_VALID`).
pub const VALID_S: u64 = 120;
/// Bits of the sum that hold the data (`COOKIEBITS`).
const DATA_BITS: u32 = 24;
/// Bits of a timestamp that hold the options (`TSBITS`).
const OPTION_BITS: u32 = 6;
/// Window scale in the timestamp; this value means none (`TS_OPT_WSCALE_MASK`).
const NO_SCALE: u32 = 0xf;
/// SACK in the timestamp (`TS_OPT_SACK`).
const SACK_BIT: u32 = 1 << 4;
/// ECN in the timestamp (`TS_OPT_ECN`).
const ECN_BIT: u32 = 1 << 5;
/// Keys: fixed, because a run must repeat; mixed with the host's secret where it must not.
const SECRETS: [(u64, u64); 2] = [
    (0x7379_6e63_6f6f_6b69, 0x6573_2061_7265_206e),
    (0x6f74_2065_6469_626c, 0x6520_6174_2061_6c6c),
];

/// What a returned cookie says about the SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookieData {
    /// The options that the SYN had, as far as they were remembered; MSS rounded down.
    pub options: TcpOptions,
    /// ECN was agreed.
    pub ecn: bool,
}

/// The sequence number that answers `syn`, from a host with this `secret`, and the MSS that it remembers
/// (`cookie_init_sequence`).
pub fn make(secret: [u64; 2], now: Instant, ends: Ends, syn: &Tcp) -> Seq {
    let table = table(ends.local.ip());
    let wanted = if syn.options.mss == 0 { 536 } else { syn.options.mss };
    let index = table.iter().rposition(|&mss| mss <= wanted).unwrap_or(0) as u32;
    let count = minute(now);
    let first = hash(0, secret, ends, 0);
    let second = hash(1, secret, ends, count);
    let sum = first
        .wrapping_add(syn.seq.0)
        .wrapping_add(count << DATA_BITS)
        .wrapping_add(second.wrapping_add(index) & ((1 << DATA_BITS) - 1));
    Seq(sum)
}

/// Whether the ACK of a handshake returns a cookie of ours (`__cookie_v4_check`); `seq` is that
/// of the ACK. Gives the MSS.
pub fn check(secret: [u64; 2], now: Instant, ends: Ends, (seq, ack): (Seq, Seq)) -> Option<u16> {
    let cookie = (ack - 1).0;
    let syn_seq = (seq - 1).0;
    let rest = cookie.wrapping_sub(hash(0, secret, ends, 0)).wrapping_sub(syn_seq);
    let age = minute(now).wrapping_sub(rest >> DATA_BITS) & (u32::MAX >> DATA_BITS);
    if age >= AGE_MAX {
        return None;
    }
    let count = minute(now).wrapping_sub(age);
    let index = rest.wrapping_sub(hash(1, secret, ends, count)) & ((1 << DATA_BITS) - 1);
    table(ends.local.ip()).get(index as usize).copied()
}

/// The timestamp that remembers what the SYN offered (`cookie_init_timestamp`): never ahead of
/// `clock`.
pub fn encode_options(clock: u32, options: &TcpOptions, ecn: bool) -> u32 {
    let scale = options.window_scale().map_or(NO_SCALE, |scale| u32::from(scale.min(14)));
    let bits =
        scale | if options.sack_permitted { SACK_BIT } else { 0 } | if ecn { ECN_BIT } else { 0 };
    let stamped = clock >> OPTION_BITS << OPTION_BITS | bits;
    if stamped > clock { stamped.wrapping_sub(1 << OPTION_BITS) } else { stamped }
}

/// What an echoed timestamp remembers (`cookie_timestamp_decode`); `None` if our settings have
/// changed so that it must not be.
pub fn decode_options(config: &TcpConfig, ack: &TcpOptions, mss: u16) -> Option<CookieData> {
    let mut options = TcpOptions { mss, ..TcpOptions::default() };
    let Some(stamps) = ack.timestamps else {
        return Some(CookieData { options, ecn: false });
    };
    let sysctl = &config.sysctl;
    if sysctl.tcp_timestamps == 0 {
        return None;
    }
    options.timestamps = Some(stamps);
    options.sack_permitted = stamps.echo & SACK_BIT != 0;
    if options.sack_permitted && sysctl.tcp_sack == 0 {
        return None;
    }
    let scale = stamps.echo & NO_SCALE;
    if scale != NO_SCALE {
        if sysctl.tcp_window_scaling == 0 {
            return None;
        }
        options.window_scale_plus_one = scale as u8 + 1;
    }
    Some(CookieData { options, ecn: stamps.echo & ECN_BIT != 0 && sysctl.tcp_ecn != 0 })
}

fn table(ip: IpAddr) -> [u16; 4] {
    if ip.is_ipv4() { MSS_V4 } else { MSS_V6 }
}

fn minute(now: Instant) -> u32 {
    (now.as_millis() / 60_000) as u32
}

fn hash(which: usize, secret: [u64; 2], Ends { local, remote }: Ends, count: u32) -> u32 {
    let (key0, key1) = SECRETS[which];
    let mut hasher = SipHasher24::new_with_keys(key0 ^ secret[0], key1 ^ secret[1]);
    for end in [remote, local] {
        match end.ip() {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        hasher.write_u16(end.port());
    }
    hasher.write_u32(count);
    hasher.finish() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{TcpFlags, Timestamps};
    use crate::units::Duration;

    fn ends() -> Ends {
        let [local, remote] =
            ["192.168.0.1:8080", "192.0.2.1:40000"].map(|end| end.parse().unwrap());
        Ends { local, remote }
    }

    fn syn(mss: u16) -> Tcp {
        Tcp {
            src_port: 40_000,
            dst_port: 8_080,
            seq: Seq(123_456),
            ack: Seq(0),
            flags: TcpFlags::SYN,
            window: 65_535,
            urgent: 0,
            options: TcpOptions { mss, ..TcpOptions::default() },
        }
    }

    #[test]
    fn a_cookie_returns_its_mss_for_two_minutes() {
        let ends = ends();
        let made = Instant::ZERO + Duration::from_secs(59);
        for (offered, remembered) in [(100, 536), (1_000, 536), (1_400, 1_300), (9_000, 1_460)] {
            let cookie = make([0; 2], made, ends, &syn(offered));
            let at =
                |s| check([0; 2], made + Duration::from_secs(s), ends, (Seq(123_457), cookie + 1));
            assert_eq!(at(0), Some(remembered), "{offered}");
            assert_eq!(at(60), Some(remembered), "the next minute");
            assert_eq!(at(61), None, "the minute after");
        }
    }

    #[test]
    fn a_made_up_cookie_is_refused() {
        let ends = ends();
        let cookie = make([0; 2], Instant::ZERO, ends, &syn(1_460));
        let now = Instant::ZERO;
        assert_eq!(check([0; 2], now, ends, (Seq(123_457), cookie + 9)), None);
        assert_eq!(check([0; 2], now, ends, (Seq(123_557), cookie + 1)), None);
        let stranger = "192.0.2.2:40000".parse().unwrap();
        let returned = (Seq(123_457), cookie + 1);
        assert_eq!(check([0; 2], now, Ends { remote: stranger, ..ends }, returned), None);
        assert_eq!(check([1, 2], now, ends, returned), None, "another's secret");
    }

    #[test]
    fn options_survive_in_the_timestamp() {
        let offered =
            TcpOptions { sack_permitted: true, window_scale_plus_one: 8, ..TcpOptions::default() };
        for clock in [0x1_0000, 0x1_0001, 0x1_003f] {
            let value = encode_options(clock, &offered, true);
            assert!(value <= clock && clock - value < 128, "{value} at {clock}");
            let echoed = Timestamps { value: 1, echo: value };
            let ack = TcpOptions { timestamps: Some(echoed), ..TcpOptions::default() };
            let got = decode_options(&TcpConfig::default(), &ack, 1_460).unwrap();
            assert_eq!((got.options.window_scale(), got.options.sack_permitted), (Some(7), true));
            assert!(got.ecn);
        }
    }
}
