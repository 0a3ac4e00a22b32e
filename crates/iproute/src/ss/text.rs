//! The lines of `ss -tin`, as iproute2 6.1 prints them, with the words for TCP options (`ts sack ecn`)
//! that `-o` adds to them.

use super::{NO_SSTHRESH, RTO_UNKNOWN_US, SocketView, option};
use core::fmt::Write as _;
use datapath::tcp::cc::CcInfo;
use datapath::tcp::info::TcpInfo;

/// The line above all sockets.
pub fn head() -> String {
    "State      Recv-Q Send-Q Local Address:Port  Peer Address:Port\n".to_owned()
}

/// One socket: its queues and ends, then everything else after a tab.
pub fn text(socket: &SocketView) -> String {
    let SocketView { local, peer, recv_q, send_q, info, .. } = socket;
    let state = info.state.name();
    let mut out = format!("{state:<10} {recv_q:<6} {send_q:<6} {local:>18} {peer:>18}\n\t");
    let mut line = Words(&mut out);
    options(&mut line, socket);
    times(&mut line, info);
    line.count("mss", info.snd_mss);
    line.count("pmtu", info.pmtu);
    line.count("rcvmss", info.rcv_mss);
    line.count("advmss", info.advmss);
    line.count("cwnd", info.snd_cwnd);
    if info.snd_ssthresh < NO_SSTHRESH {
        line.count("ssthresh", info.snd_ssthresh);
    }
    volumes(&mut line, info);
    congestion_module(&mut line, socket);
    rates(&mut line, socket);
    limits(&mut line, info);
    losses(&mut line, info);
    receiver(&mut line, info);
    out.push('\n');
    out
}

/// Words with a space before each.
struct Words<'a>(&'a mut String);

impl Words<'_> {
    fn word(&mut self, text: core::fmt::Arguments<'_>) {
        self.0.push(' ');
        self.more(text);
    }

    /// What belongs to the word before.
    fn more(&mut self, text: core::fmt::Arguments<'_>) {
        self.0.write_fmt(text).expect("a string takes all");
    }

    /// `name:value`; zero is not said.
    fn count(&mut self, name: &str, value: impl Into<u64>) {
        let value = value.into();
        if value != 0 {
            self.word(format_args!("{name}:{value}"));
        }
    }

    /// `name:value` of µs in ms; zero is not said.
    fn millis(&mut self, name: &str, micros: u32) {
        if micros != 0 {
            self.word(format_args!("{name}:{}", general(f64::from(micros) / 1_000.0)));
        }
    }

    /// `name RATEbps` of bit/s; zero is not said.
    fn rate(&mut self, name: &str, bits_per_sec: f64) {
        if bits_per_sec != 0.0 {
            self.word(format_args!("{name} {bits_per_sec:.0}bps"));
        }
    }
}

fn options(line: &mut Words<'_>, socket: &SocketView) {
    for (bit, name) in [
        (option::TIMESTAMPS, "ts"),
        (option::SACK, "sack"),
        (option::ECN, "ecn"),
        (option::ECN_SEEN, "ecnseen"),
        (option::SYN_DATA, "fastopen"),
    ] {
        if socket.has(bit) {
            line.word(format_args!("{name}"));
        }
    }
    line.word(format_args!("{}", socket.congestion));
    if socket.has(option::WSCALE) {
        let TcpInfo { snd_wscale, rcv_wscale, .. } = socket.info;
        line.word(format_args!("wscale:{snd_wscale},{rcv_wscale}"));
    }
}

/// What the congestion module tells of itself.
fn congestion_module(line: &mut Words<'_>, socket: &SocketView) {
    match &socket.cc_info {
        // ss(8) has no words for Vegas.
        None | Some(CcInfo::Vegas(_)) => {}
        Some(CcInfo::Dctcp(dctcp)) if dctcp.enabled => line.word(format_args!(
            "dctcp:(ce_state:{},alpha:{},ab_ecn:{},ab_tot:{})",
            u8::from(dctcp.ce_state),
            dctcp.alpha,
            dctcp.ab_ecn,
            dctcp.ab_tot
        )),
        Some(CcInfo::Dctcp(_)) => line.word(format_args!("dctcp:fallback_mode")),
        Some(CcInfo::Bbr(bbr)) => {
            let bits_per_sec = bbr.bw as f64 * 8.0;
            let millis = general(f64::from(bbr.min_rtt_us) / 1_000.0);
            line.word(format_args!("bbr:(bw:{bits_per_sec:.0}bps,mrtt:{millis}"));
            for (name, gain) in [("pacing_gain", bbr.pacing_gain), ("cwnd_gain", bbr.cwnd_gain)] {
                if gain != 0 {
                    line.more(format_args!(",{name}:{}", general(f64::from(gain) / 256.0)));
                }
            }
            line.more(format_args!(")"));
        }
    }
}

fn times(line: &mut Words<'_>, info: &TcpInfo) {
    if info.rto != RTO_UNKNOWN_US {
        line.millis("rto", info.rto);
    }
    line.count("backoff", info.backoff);
    if info.rtt > 0 {
        let millis = |micros: u32| general(f64::from(micros) / 1_000.0);
        line.word(format_args!("rtt:{}/{}", millis(info.rtt), millis(info.rttvar)));
    }
    line.millis("ato", info.ato);
}

fn volumes(line: &mut Words<'_>, info: &TcpInfo) {
    line.count("bytes_sent", info.bytes_sent);
    line.count("bytes_retrans", info.bytes_retrans);
    line.count("bytes_acked", info.bytes_acked);
    line.count("bytes_received", info.bytes_received);
    line.count("segs_out", info.segs_out);
    line.count("segs_in", info.segs_in);
    line.count("data_segs_out", info.data_segs_out);
    line.count("data_segs_in", info.data_segs_in);
}

fn rates(line: &mut Words<'_>, socket: &SocketView) {
    let info = &socket.info;
    line.rate("send", socket.send_rate().unwrap_or(0.0));
    line.count("lastsnd", info.last_data_sent);
    line.count("lastrcv", info.last_data_recv);
    line.count("lastack", info.last_ack_recv);
    if info.pacing_rate != u64::MAX {
        line.rate("pacing_rate", info.pacing_rate as f64 * 8.0);
    }
    line.rate("delivery_rate", info.delivery_rate as f64 * 8.0);
    line.count("delivered", info.delivered);
    line.count("delivered_ce", info.delivered_ce);
    if info.delivery_rate_app_limited {
        line.word(format_args!("app_limited"));
    }
}

/// How long something was there to send, and what held it back.
fn limits(line: &mut Words<'_>, info: &TcpInfo) {
    if info.busy_time == 0 {
        return;
    }
    line.word(format_args!("busy:{}ms", info.busy_time / 1_000));
    for (name, time) in
        [("rwnd_limited", info.rwnd_limited), ("sndbuf_limited", info.sndbuf_limited)]
    {
        if time > 0 {
            let share = 100.0 * time as f64 / info.busy_time as f64;
            line.word(format_args!("{name}:{}ms({share:.1}%)", time / 1_000));
        }
    }
}

fn losses(line: &mut Words<'_>, info: &TcpInfo) {
    line.count("unacked", info.unacked);
    if info.retrans > 0 || info.total_retrans > 0 {
        line.word(format_args!("retrans:{}/{}", info.retrans, info.total_retrans));
    }
    line.count("lost", info.lost);
    line.count("sacked", info.sacked);
    line.count("dsack_dups", info.dsack_dups);
    if info.reordering != DEFAULT_REORDERING {
        line.word(format_args!("reordering:{}", info.reordering));
    }
    line.count("reord_seen", info.reord_seen);
}

fn receiver(line: &mut Words<'_>, info: &TcpInfo) {
    line.millis("rcv_rtt", info.rcv_rtt);
    line.count("rcv_space", info.rcv_space);
    line.count("rcv_ssthresh", info.rcv_ssthresh);
    line.count("notsent", info.notsent_bytes);
    line.millis("minrtt", if info.min_rtt == u32::MAX { 0 } else { info.min_rtt });
    line.count("rcv_ooopack", info.rcv_ooopack);
    line.count("snd_wnd", info.snd_wnd);
}

/// `tcp_reordering`'s default, which `ss` does not say.
const DEFAULT_REORDERING: u32 = 3;

/// C's `%g`: six significant digits, no zeroes at the end, an exponent when it gets long.
pub(super) fn general(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{value:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    if (-4..6).contains(&exponent) {
        return trimmed(&format!("{value:.*}", (5 - exponent) as usize)).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

/// Without zeroes after the point, and without a point after which nothing is left.
fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}
