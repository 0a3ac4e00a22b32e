//! A socket as a JSON object. `ss` has none: the keys are its words, the units those of
//! `struct tcp_info` and in the name where they are not plain counts.

use super::{NO_SSTHRESH, SocketView, option};
use datapath::tcp::cc::CcInfo;
use datapath::tcp::info::TcpInfo;
use serde_json::{Value, json};

/// One socket.
pub fn json(socket: &SocketView) -> Value {
    let mut value = ends_and_options(socket);
    for part in [sender(socket), history(&socket.info)] {
        let Value::Object(part) = part else { continue };
        value.as_object_mut().expect("an object").extend(part);
    }
    match &socket.cc_info {
        None => {}
        Some(CcInfo::Dctcp(dctcp)) => {
            value["dctcp"] = json!({
                "enabled": dctcp.enabled,
                "ce_state": u8::from(dctcp.ce_state),
                "alpha": dctcp.alpha,
                "ab_ecn": dctcp.ab_ecn,
                "ab_tot": dctcp.ab_tot,
            });
        }
        Some(CcInfo::Bbr(bbr)) => {
            value["bbr"] = json!({
                "bw_bps": bbr.bw.saturating_mul(8),
                "min_rtt_us": bbr.min_rtt_us,
                "pacing_gain": f64::from(bbr.pacing_gain) / 256.0,
                "cwnd_gain": f64::from(bbr.cwnd_gain) / 256.0,
            });
        }
        Some(CcInfo::Vegas(vegas)) => {
            value["vegas"] = json!({
                "enabled": vegas.enabled,
                "rtt_count": vegas.rtt_count,
                "rtt_us": vegas.rtt,
                "min_rtt_us": vegas.min_rtt,
            });
        }
    }
    value
}

fn ends_and_options(socket: &SocketView) -> Value {
    let info = &socket.info;
    json!({
        "state": info.state.name(),
        "recv_q": socket.recv_q,
        "send_q": socket.send_q,
        "local": socket.local.to_string(),
        "peer": socket.peer.to_string(),
        "ts": socket.has(option::TIMESTAMPS),
        "sack": socket.has(option::SACK),
        "ecn": socket.has(option::ECN),
        "ecnseen": socket.has(option::ECN_SEEN),
        "fastopen": socket.has(option::SYN_DATA),
        "congestion": socket.congestion,
        "wscale": [info.snd_wscale, info.rcv_wscale],
    })
}

/// What the sender works with.
fn sender(socket: &SocketView) -> Value {
    let TcpInfo { snd_ssthresh, pacing_rate, .. } = socket.info;
    let info = &socket.info;
    json!({
        "ca_state": info.ca_state as u8,
        "rto_us": info.rto,
        "backoff": info.backoff,
        "rtt_us": info.rtt,
        "rttvar_us": info.rttvar,
        "ato_us": info.ato,
        "mss": info.snd_mss,
        "pmtu": info.pmtu,
        "rcvmss": info.rcv_mss,
        "advmss": info.advmss,
        "cwnd": info.snd_cwnd,
        "ssthresh": (snd_ssthresh < NO_SSTHRESH).then_some(snd_ssthresh),
        "send_bps": socket.send_rate().map(|rate| rate as u64),
        "pacing_rate_bps": (pacing_rate != u64::MAX).then(|| pacing_rate.saturating_mul(8)),
    })
}

/// What has happened so far.
fn history(info: &TcpInfo) -> Value {
    let min_rtt = info.min_rtt;
    json!({
        "bytes_sent": info.bytes_sent,
        "bytes_retrans": info.bytes_retrans,
        "bytes_acked": info.bytes_acked,
        "bytes_received": info.bytes_received,
        "segs_out": info.segs_out,
        "segs_in": info.segs_in,
        "data_segs_out": info.data_segs_out,
        "data_segs_in": info.data_segs_in,
        "lastsnd_ms": info.last_data_sent,
        "lastrcv_ms": info.last_data_recv,
        "lastack_ms": info.last_ack_recv,
        "delivery_rate_bps": info.delivery_rate.saturating_mul(8),
        "delivered": info.delivered,
        "delivered_ce": info.delivered_ce,
        "app_limited": info.delivery_rate_app_limited,
        "busy_us": info.busy_time,
        "rwnd_limited_us": info.rwnd_limited,
        "sndbuf_limited_us": info.sndbuf_limited,
        "unacked": info.unacked,
        "retrans": info.retrans,
        "retrans_total": info.total_retrans,
        "lost": info.lost,
        "sacked": info.sacked,
        "dsack_dups": info.dsack_dups,
        "reordering": info.reordering,
        "reord_seen": info.reord_seen,
        "rcv_rtt_us": info.rcv_rtt,
        "rcv_space": info.rcv_space,
        "rcv_ssthresh": info.rcv_ssthresh,
        "notsent": info.notsent_bytes,
        "minrtt_us": (min_rtt != u32::MAX).then_some(min_rtt),
        "rcv_ooopack": info.rcv_ooopack,
        "snd_wnd": info.snd_wnd,
    })
}
