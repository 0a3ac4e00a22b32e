use super::diag::{EXT_INFO, INET_DIAG_CONG, INET_DIAG_INFO, NoRoom, attributes};
use super::text::general;
use super::*;
use datapath::tcp::cc::dctcp::DctcpInfo;
use datapath::tcp::state::State;
use datapath::trace::CaState;

fn socket(dctcp: DctcpInfo) -> SocketView {
    let info = TcpInfo {
        state: State::Established,
        ca_state: CaState::Open,
        retransmits: 0,
        probes: 0,
        backoff: 0,
        options: if dctcp.enabled { 15 } else { 7 },
        snd_wscale: 7,
        rcv_wscale: 7,
        delivery_rate_app_limited: false,
        rto: 228_000,
        ato: 0,
        snd_mss: 1_448,
        rcv_mss: 536,
        unacked: 8,
        sacked: 0,
        lost: 0,
        retrans: 0,
        last_data_sent: 0,
        last_data_recv: 1_232,
        last_ack_recv: 4,
        pmtu: 1_500,
        rcv_ssthresh: 64_088,
        rtt: 26_593,
        rttvar: 8_714,
        snd_ssthresh: 6,
        snd_cwnd: 8,
        advmss: 1_448,
        reordering: 3,
        rcv_rtt: 0,
        rcv_space: 14_480,
        total_retrans: 2,
        pacing_rate: 522_709,
        bytes_acked: 463_361,
        bytes_received: 0,
        segs_out: 336,
        segs_in: 173,
        notsent_bytes: 30_408,
        min_rtt: 20_012,
        data_segs_in: 0,
        data_segs_out: 334,
        delivery_rate: 268_878,
        busy_time: 1_228_000,
        rwnd_limited: 12_000,
        sndbuf_limited: 0,
        delivered: 328,
        delivered_ce: 113,
        bytes_sent: 483_632,
        bytes_retrans: 2_896,
        dsack_dups: 0,
        reord_seen: 0,
        rcv_ooopack: 0,
        snd_wnd: 664_704,
        rcv_wnd: 65_535,
        max_pacing_rate: u64::MAX,
        rehash: 0,
        total_rto: 0,
        total_rto_recoveries: 0,
        total_rto_time: 0,
        received_ce: 0,
        delivered_e1_bytes: 0,
        delivered_e0_bytes: 0,
        delivered_ce_bytes: 0,
        received_e1_bytes: 0,
        received_e0_bytes: 0,
        received_ce_bytes: 0,
        ecn_mode: 0,
        accecn_opt_seen: 0,
        accecn_fail_mode: 0,
    };
    SocketView {
        local: "10.0.1.2:40001".parse().expect("an address"),
        peer: "10.0.3.2:5001".parse().expect("an address"),
        recv_q: 0,
        send_q: 41_992,
        info,
        congestion: if dctcp.enabled { "dctcp" } else { "dctcp-reno" },
        cc_info: Some(CcInfo::Dctcp(dctcp)),
    }
}

fn at_work() -> DctcpInfo {
    DctcpInfo { enabled: true, ce_state: false, alpha: 259, ab_ecn: 0, ab_tot: 2_896 }
}

/// The words and their order are those of `ss -tino` of iproute2 6.1 on such a connection.
#[test]
fn the_line_of_ss() {
    assert_eq!(
        text(&socket(at_work())),
        "ESTAB      0      41992      10.0.1.2:40001      10.0.3.2:5001\n\
         \t ts sack ecn dctcp wscale:7,7 rto:228 rtt:26.593/8.714 mss:1448 pmtu:1500 rcvmss:536 \
         advmss:1448 cwnd:8 ssthresh:6 bytes_sent:483632 bytes_retrans:2896 bytes_acked:463361 \
         segs_out:336 segs_in:173 data_segs_out:334 \
         dctcp:(ce_state:0,alpha:259,ab_ecn:0,ab_tot:2896) send 3484827bps lastrcv:1232 lastack:4 \
         pacing_rate 4181672bps delivery_rate 2151024bps delivered:328 delivered_ce:113 \
         busy:1228ms rwnd_limited:12ms(1.0%) unacked:8 retrans:0/2 rcv_space:14480 \
         rcv_ssthresh:64088 notsent:30408 minrtt:20.012 snd_wnd:664704\n"
    );
}

#[test]
fn without_ecn_it_says_fallback() {
    let text = text(&socket(DctcpInfo::default()));
    assert!(text.contains("\t ts sack dctcp-reno wscale:7,7 "), "{text}");
    assert!(text.contains(" dctcp:fallback_mode "), "{text}");
}

/// `TCPI_OPT_*`, one word each, in the order of their bits but for window scaling.
#[test]
fn options_have_their_words() {
    let mut socket = socket(at_work());
    for (options, words) in [
        (0, "\t dctcp rto:"),
        (4, "\t dctcp wscale:7,7 rto:"),
        (1 | 2, "\t ts sack dctcp rto:"),
        (8 | 16, "\t ecn ecnseen dctcp rto:"),
        (63, "\t ts sack ecn ecnseen fastopen dctcp wscale:7,7 rto:"),
    ] {
        socket.info.options = options;
        assert!(text(&socket).contains(words), "{options}: {}", text(&socket));
        assert_eq!(json(&socket)["fastopen"], options & 32 != 0);
    }
}

#[test]
fn json_has_the_same_numbers() {
    let value = json(&socket(at_work()));
    assert_eq!(value["dctcp"]["alpha"], 259);
    assert_eq!(value["cwnd"], 8);
    assert_eq!(value["rtt_us"], 26_593);
    assert_eq!(value["send_bps"], 3_484_826);
    assert_eq!(value["congestion"], "dctcp");
}

/// 521f1cf1db: an answer that is too small says so; it does not lack the attribute in silence.
#[test]
fn the_attribute_is_there_or_the_dump_says_that_it_is_full() {
    let socket = socket(at_work());
    let whole = attributes(&socket, EXT_INFO, 4_096).expect("room");
    let kinds = kinds(&whole);
    assert_eq!(kinds, [(INET_DIAG_CONG, 6), (INET_DIAG_INFO, 232), (9, 16)]);
    for room in 0..whole.len() {
        let NoRoom { attribute } = attributes(&socket, EXT_INFO, room).expect_err("no room");
        assert!(kinds.iter().any(|(kind, _)| *kind == attribute), "{room}");
    }
    assert_eq!(attributes(&socket, EXT_INFO, whole.len()), Ok(whole));
}

/// dcf1158b27: its own size, not that of the union with the larger structures of others.
#[test]
fn the_attribute_is_as_long_as_its_structure() {
    for dctcp in [at_work(), DctcpInfo::default()] {
        let all = attributes(&socket(dctcp), EXT_INFO, 4_096).expect("room");
        assert_eq!(kinds(&all).last(), Some(&(9, DctcpInfo::LEN)));
    }
    let quiet = SocketView { cc_info: None, congestion: "cubic", ..socket(at_work()) };
    let all = attributes(&quiet, EXT_INFO, 4_096).expect("room");
    assert_eq!(kinds(&all), [(INET_DIAG_CONG, 6), (INET_DIAG_INFO, 232)]);
}

fn kinds(mut bytes: &[u8]) -> Vec<(u16, usize)> {
    let mut found = Vec::new();
    while let Some([a, b, c, d]) = bytes.first_chunk() {
        let len = usize::from(u16::from_le_bytes([*a, *b]));
        found.push((u16::from_le_bytes([*c, *d]), len - 4));
        bytes = &bytes[len.next_multiple_of(4)..];
    }
    found
}

#[test]
fn numbers_are_those_of_percent_g() {
    for (value, text) in [
        (228.0, "228"),
        (26.593, "26.593"),
        (0.285, "0.285"),
        (0.0, "0"),
        (0.04, "0.04"),
        (1_234_567.0, "1.23457e+06"),
        (123_456.7, "123457"),
        (0.000_012_5, "1.25e-05"),
    ] {
        assert_eq!(general(value), text);
    }
}
