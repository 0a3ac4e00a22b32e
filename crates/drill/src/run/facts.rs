//! What code blocks can look at: `TCP_INFO`, `TCP_CC_INFO`, `SO_MEMINFO` and names of constants.

use crate::kernel::Kernel;
use datapath::socket::number::{SO_MEMINFO, SOL_SOCKET, SOL_TCP, TCP_CC_INFO, TCP_INFO};
use datapath::socket::{CcInfo, Data, Fd, OptionValue};
use datapath::tcp::info::TcpInfo;
use std::collections::BTreeMap;

type Facts = BTreeMap<&'static str, i128>;

/// Looks up everything about a socket; false if it has no `TCP_INFO`.
pub(super) fn collect(kernel: &mut Kernel, fd: Fd, facts: &mut Facts) -> bool {
    facts.clear();
    facts.extend(CONSTANTS.iter().map(|(name, value)| (*name, i128::from(*value))));
    let Some(done) = kernel.option(fd, SOL_TCP, TCP_INFO) else { return false };
    let Some(info) = done.tcp_info() else { return false };
    tcp_info(info, facts);
    if let Some(done) = kernel.option(fd, SOL_TCP, TCP_CC_INFO)
        && let Data::Option(OptionValue::CcInfo(info)) = done.data
    {
        cc_info(info, facts);
    }
    if let Some(done) = kernel.option(fd, SOL_SOCKET, SO_MEMINFO)
        && let Data::Option(OptionValue::MemInfo(values)) = done.data
    {
        facts.extend(MEM_INFO.iter().zip(values).map(|(name, value)| (*name, i128::from(value))));
    }
    true
}

macro_rules! facts {
    ($facts:ident, $info:ident, $($name:literal $field:ident),* $(,)?) => {
        $($facts.insert($name, i128::from($info.$field));)*
    };
}

fn tcp_info(info: &TcpInfo, facts: &mut Facts) {
    facts.insert("tcpi_state", info.state as i128);
    facts.insert("tcpi_ca_state", info.ca_state as i128);
    // Gone from the kernel; it says 0.
    for name in ["tcpi_fackets", "tcpi_last_ack_sent", "tcpi_options2"] {
        facts.insert(name, 0);
    }
    facts!(
        facts, info,
        "tcpi_retransmits" retransmits,
        "tcpi_probes" probes,
        "tcpi_backoff" backoff,
        "tcpi_options" options,
        "tcpi_snd_wscale" snd_wscale,
        "tcpi_rcv_wscale" rcv_wscale,
        "tcpi_delivery_rate_app_limited" delivery_rate_app_limited,
        "tcpi_rto" rto,
        "tcpi_ato" ato,
        "tcpi_snd_mss" snd_mss,
        "tcpi_rcv_mss" rcv_mss,
        "tcpi_unacked" unacked,
        "tcpi_sacked" sacked,
        "tcpi_lost" lost,
        "tcpi_retrans" retrans,
        "tcpi_last_data_sent" last_data_sent,
        "tcpi_last_data_recv" last_data_recv,
        "tcpi_last_ack_recv" last_ack_recv,
        "tcpi_pmtu" pmtu,
        "tcpi_rcv_ssthresh" rcv_ssthresh,
        "tcpi_rtt" rtt,
        "tcpi_rttvar" rttvar,
        "tcpi_snd_ssthresh" snd_ssthresh,
        "tcpi_snd_cwnd" snd_cwnd,
        "tcpi_advmss" advmss,
        "tcpi_reordering" reordering,
        "tcpi_rcv_rtt" rcv_rtt,
        "tcpi_rcv_space" rcv_space,
        "tcpi_total_retrans" total_retrans,
        "tcpi_pacing_rate" pacing_rate,
        "tcpi_bytes_acked" bytes_acked,
        "tcpi_bytes_received" bytes_received,
        "tcpi_segs_out" segs_out,
        "tcpi_segs_in" segs_in,
        "tcpi_notsent_bytes" notsent_bytes,
        "tcpi_min_rtt" min_rtt,
        "tcpi_data_segs_in" data_segs_in,
        "tcpi_data_segs_out" data_segs_out,
        "tcpi_delivery_rate" delivery_rate,
        "tcpi_busy_time" busy_time,
        "tcpi_rwnd_limited" rwnd_limited,
        "tcpi_sndbuf_limited" sndbuf_limited,
        "tcpi_delivered" delivered,
        "tcpi_delivered_ce" delivered_ce,
        "tcpi_bytes_sent" bytes_sent,
        "tcpi_bytes_retrans" bytes_retrans,
        "tcpi_dsack_dups" dsack_dups,
        "tcpi_reord_seen" reord_seen,
        "tcpi_rcv_ooopack" rcv_ooopack,
        "tcpi_snd_wnd" snd_wnd,
        "tcpi_rcv_wnd" rcv_wnd,
        "tcpi_max_pacing_rate" max_pacing_rate,
        "tcpi_rehash" rehash,
        "tcpi_total_rto" total_rto,
        "tcpi_total_rto_recoveries" total_rto_recoveries,
        "tcpi_total_rto_time" total_rto_time,
        "tcpi_received_ce" received_ce,
        "tcpi_delivered_e1_bytes" delivered_e1_bytes,
        "tcpi_delivered_e0_bytes" delivered_e0_bytes,
        "tcpi_delivered_ce_bytes" delivered_ce_bytes,
        "tcpi_received_e1_bytes" received_e1_bytes,
        "tcpi_received_e0_bytes" received_e0_bytes,
        "tcpi_received_ce_bytes" received_ce_bytes,
        "tcpi_ecn_mode" ecn_mode,
        "tcpi_accecn_opt_seen" accecn_opt_seen,
        "tcpi_accecn_fail_mode" accecn_fail_mode,
    );
}

fn cc_info(info: CcInfo, facts: &mut Facts) {
    match info {
        CcInfo::None => {}
        CcInfo::Dctcp { enabled, ce_state, alpha, ab_ecn, ab_tot } => {
            facts.insert("dctcp_enabled", enabled.into());
            facts.insert("dctcp_ce_state", ce_state.into());
            facts.insert("dctcp_alpha", alpha.into());
            facts.insert("dctcp_ab_ecn", ab_ecn.into());
            facts.insert("dctcp_ab_tot", ab_tot.into());
        }
        CcInfo::Bbr { bw, min_rtt, pacing_gain, cwnd_gain } => {
            facts.insert("bbr_bw_lo", (bw as u32).into());
            facts.insert("bbr_bw_hi", ((bw >> 32) as u32).into());
            facts.insert("bbr_min_rtt", min_rtt.into());
            facts.insert("bbr_pacing_gain", pacing_gain.into());
            facts.insert("bbr_cwnd_gain", cwnd_gain.into());
        }
        CcInfo::Vegas { enabled, rttcnt, rtt, minrtt } => {
            facts.insert("tcpv_enabled", enabled.into());
            facts.insert("tcpv_rttcnt", rttcnt.into());
            facts.insert("tcpv_rtt", rtt.into());
            facts.insert("tcpv_minrtt", minrtt.into());
        }
    }
}

/// `SK_MEMINFO_*` in the order of `SO_MEMINFO`.
const MEM_INFO: [&str; 9] = [
    "SK_MEMINFO_RMEM_ALLOC",
    "SK_MEMINFO_RCVBUF",
    "SK_MEMINFO_WMEM_ALLOC",
    "SK_MEMINFO_SNDBUF",
    "SK_MEMINFO_FWD_ALLOC",
    "SK_MEMINFO_WMEM_QUEUED",
    "SK_MEMINFO_OPTMEM",
    "SK_MEMINFO_BACKLOG",
    "SK_MEMINFO_DROPS",
];

/// Names that scripts compare fields with.
const CONSTANTS: [(&str, i32); 36] = [
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16),
    ("TCPI_OPT_SYN_DATA", 32),
    ("TCPI_OPT_USEC_TS", 64),
    ("TCPI_OPT_TFO_CHILD", 128),
    ("TCPI_ECN_MODE_DISABLED", 0),
    ("TCPI_ECN_MODE_RFC3168", 1),
    ("TCPI_ECN_MODE_ACCECN", 2),
    ("TCPI_ECN_MODE_PENDING", 3),
    ("TCP_ACCECN_OPT_NOT_SEEN", 0),
    ("TCP_ACCECN_OPT_EMPTY_SEEN", 1),
    ("TCP_ACCECN_OPT_COUNTER_SEEN", 2),
    ("TCP_ACCECN_OPT_FAIL_SEEN", 3),
    ("TCP_ACCECN_ACE_FAIL_SEND", 1),
    ("TCP_ACCECN_ACE_FAIL_RECV", 2),
    ("TCP_ACCECN_OPT_FAIL_SEND", 4),
    ("TCP_ACCECN_OPT_FAIL_RECV", 8),
];
