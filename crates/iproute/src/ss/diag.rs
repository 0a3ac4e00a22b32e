//! The attributes of an inet_diag answer (`inet_sk_diag_fill`), as `ss -i` asks for them.

use super::SocketView;
use core::fmt;
use datapath::tcp::info::TcpInfo;

/// What `ss -i` sets in `idiag_ext`: bit n-1 asks for attribute n.
pub const EXT_INFO: u8 = bit(INET_DIAG_INFO) | bit(INET_DIAG_VEGASINFO) | bit(INET_DIAG_CONG);

/// `INET_DIAG_INFO`: `struct tcp_info`.
pub const INET_DIAG_INFO: u16 = 2;
/// `INET_DIAG_VEGASINFO`: also asks for the structures of other modules.
pub const INET_DIAG_VEGASINFO: u16 = 3;
/// `INET_DIAG_CONG`: the congestion control's name.
pub const INET_DIAG_CONG: u16 = 4;

/// Bytes of `struct tcp_info` as of Linux 5.4 to 6.1.
pub const TCP_INFO_LEN: usize = 232;

const fn bit(attribute: u16) -> u8 {
    1 << (attribute - 1)
}

/// The answer has no room for an attribute (`EMSGSIZE`): the dump goes on in another message, and
/// nothing is left out in silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// The attribute that did not fit.
    pub attribute: u16,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EMSGSIZE: no room for attribute {}", self.attribute)
    }
}

impl core::error::Error for NoRoom {}

/// The attributes that `ext` asks for, in the kernel's order, within `room` bytes.
///
/// # Errors
/// One does not fit; then none is given.
pub fn attributes(socket: &SocketView, ext: u8, room: usize) -> Result<Vec<u8>, NoRoom> {
    let mut out = Vec::new();
    let mut put = |attribute: u16, value: &[u8]| {
        let len = 4 + value.len();
        if out.len() + len.next_multiple_of(4) > room {
            return Err(NoRoom { attribute });
        }
        out.extend((len as u16).to_le_bytes());
        out.extend(attribute.to_le_bytes());
        out.extend(value);
        out.resize(out.len().next_multiple_of(4), 0);
        Ok(())
    };
    if ext & bit(INET_DIAG_CONG) != 0 {
        let mut name = socket.congestion.as_bytes().to_vec();
        name.push(0);
        put(INET_DIAG_CONG, &name)?;
    }
    if ext & bit(INET_DIAG_INFO) != 0 {
        put(INET_DIAG_INFO, &tcp_info(&socket.info))?;
    }
    if let Some(info) = socket.cc_info.filter(|info| info.is_requested(ext)) {
        put(info.attribute(), &info.to_bytes())?;
    }
    Ok(out)
}

/// `struct tcp_info` as it lies in memory on a little-endian machine.
pub fn tcp_info(info: &TcpInfo) -> [u8; TCP_INFO_LEN] {
    let mut out = Vec::with_capacity(TCP_INFO_LEN);
    out.extend([
        info.state as u8,
        info.ca_state as u8,
        info.retransmits,
        info.probes,
        info.backoff,
        info.options,
        info.snd_wscale | info.rcv_wscale << 4,
        u8::from(info.delivery_rate_app_limited),
    ]);
    // fackets and last_ack_sent have no field of their own.
    let words = [
        info.rto,
        info.ato,
        info.snd_mss,
        info.rcv_mss,
        info.unacked,
        info.sacked,
        info.lost,
        info.retrans,
        0,
        info.last_data_sent,
        0,
        info.last_data_recv,
        info.last_ack_recv,
        info.pmtu,
        info.rcv_ssthresh,
        info.rtt,
        info.rttvar,
        info.snd_ssthresh,
        info.snd_cwnd,
        info.advmss,
        info.reordering,
        info.rcv_rtt,
        info.rcv_space,
        info.total_retrans,
    ];
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    let volumes = [info.pacing_rate, info.max_pacing_rate, info.bytes_acked, info.bytes_received];
    out.extend(volumes.iter().flat_map(|word| word.to_le_bytes()));
    let words = [
        info.segs_out,
        info.segs_in,
        info.notsent_bytes,
        info.min_rtt,
        info.data_segs_in,
        info.data_segs_out,
    ];
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    let times = [info.delivery_rate, info.busy_time, info.rwnd_limited, info.sndbuf_limited];
    out.extend(times.iter().flat_map(|word| word.to_le_bytes()));
    out.extend([info.delivered, info.delivered_ce].iter().flat_map(|word| word.to_le_bytes()));
    out.extend([info.bytes_sent, info.bytes_retrans].iter().flat_map(|word| word.to_le_bytes()));
    let words = [info.dsack_dups, info.reord_seen, info.rcv_ooopack, info.snd_wnd];
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    out.try_into().expect("the fields add up")
}
