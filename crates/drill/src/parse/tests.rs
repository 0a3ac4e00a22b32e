use super::{Family, Parser};
use crate::ast::{
    Action, CallSpec, Direction, ExprKind, OptionSpec, PacketSpec, Quoted, Script, TcpSpec, Time,
    TosSpec, TransportSpec,
};
use crate::fault::Fault;
use crate::lex::Defines;

fn parse_with(text: &str, family: Family, defines: &Defines) -> Result<Script, Fault> {
    let mut parser = Parser::new(text)?;
    let flags = parser.flags()?;
    parser.script(flags, family, defines)
}

fn parse(text: &str) -> Result<Script, Fault> {
    parse_with(text, Family::V4, &Defines::new())
}

fn packet(text: &str) -> PacketSpec {
    let script = parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    match script.events.into_iter().next().expect("an event").action {
        Action::Packet(packet) => *packet,
        other => panic!("{other:?}"),
    }
}

fn tcp(text: &str) -> TcpSpec {
    match packet(text).transport {
        TransportSpec::Tcp(tcp) => tcp,
        other => panic!("{other:?}"),
    }
}

fn call(text: &str) -> CallSpec {
    let script = parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    match script.events.into_iter().next().expect("an event").action {
        Action::Call(call) => *call,
        other => panic!("{other:?}"),
    }
}

#[test]
fn times() {
    for (text, time) in [
        ("0.1 close(3) = 0", Time::Absolute(100_000)),
        ("+.0000019 close(3) = 0", Time::Relative(1)),
        ("* > . 1:1(0) ack 1", Time::Any),
        ("1~2 > . 1:1(0) ack 1", Time::AbsoluteRange(1_000_000, 2_000_000)),
        ("+.02 ~+2 > . 1:1(0) ack 1", Time::RelativeRange(20_000, 2_000_000)),
    ] {
        assert_eq!(parse(text).expect(text).events[0].at, time);
    }
}

#[test]
fn tcp_segments() {
    let syn = tcp("+0 < SEW 0:0(0) win 32792 <mss 1000,nop,wscale 7>");
    assert_eq!((syn.flags, syn.window), (0x0c2, Some(32792)));
    let options = [OptionSpec::Mss(1000), OptionSpec::Nop, OptionSpec::WindowScale(7)];
    assert_eq!(syn.options.as_deref(), Some(&options[..]));
    let data = tcp("+0 > P. 1:1001(1000) ack 5 urg 3");
    assert_eq!((data.seq, data.len, data.ack, data.urgent), (1, 1000, 5, 3));
    assert_eq!((data.flags, data.window, data.options), (0x18, None, Some(vec![])));
    assert_eq!(tcp("+0 > . 1:1(0) <...>").options, None);
    assert_eq!(tcp("+0 > - 1:1(0)").flags, 0);
    assert_eq!((tcp("+0 > P.5 1:1(0)").flags, tcp("+0 > P.5 1:1(0)").ace), (0x158, true));
    assert_eq!(tcp("+0 > SEWA 0:0(0)").flags, 0x1c2);
    let sack = tcp("+0 > . 1:1(0) ack 1 <nop,nop,sack 3:5 7:9>");
    assert_eq!(sack.options.expect("options")[2], OptionSpec::Sack(vec![(3, 5), (7, 9)]));
    let echo = tcp("+0 > . 1:1(0) ack 1 <ECN e1b 1 ceb 2 e0b 3,nop>");
    let counters = OptionSpec::AccEcn { e0_first: false, counters: vec![1, 2, 3] };
    assert_eq!(echo.options.expect("options")[0], counters);
    let ports = tcp("+0 < 80 > 1000 . 1:1(0) win 1").ports;
    assert_eq!((ports.src, ports.dst), (80, 1000));
}

#[test]
fn ip_fields_and_encapsulation() {
    assert_eq!(packet("+0 > [ect01] . 1:1(0)").ip.tos, TosSpec::Ect01);
    assert_eq!(packet("+0 > (tos 0x1c) . 1:1(0)").ip.tos, TosSpec::Tos(0x1c));
    let both = packet("+0 > [ce, flowlabel 0x12] . 1:1(0)").ip;
    assert_eq!((both.tos, both.flow_label), (TosSpec::Ecn(3), 0x12));
    let wrapped = packet(
        "+0 > ipv4 192.0.2.1 > 10.0.0.1: gre: ipv6 ::1 > ::2: mpls (label 1,tc 2,[S],ttl 3): . 1:1(0)",
    );
    assert_eq!(wrapped.outer.len(), 4);
    let udp = packet("+0 < udp 7 > 8 (100)");
    assert!(matches!(udp.transport, TransportSpec::Udp(ports, 100) if ports.dst == 8));
    let icmp = packet("+0 < icmp unreachable frag_needed mtu 1400 [1:1001(1000)]");
    let TransportSpec::Icmp(icmp) = icmp.transport else { panic!("not ICMP") };
    assert_eq!((icmp.kind, icmp.code, icmp.mtu), (3, 4, Some(1400)));
    assert_eq!(icmp.quoted, Quoted::Tcp { seq: 1, len: 1000 });
    let text = "+0 < icmp packet_too_big mtu 1400 [1:1001(1000)]";
    assert!(parse_with(text, Family::V6, &Defines::new()).is_ok());
    assert_eq!(packet("+0 < . 1:1(0) win 1").direction, Direction::Inbound);
}

#[test]
fn calls() {
    let accept = call("+0...0.200 accept(3, ..., ...) = 4");
    assert_eq!((accept.end, accept.name.as_str(), accept.args.len()), (Some(200_000), "accept", 3));
    let write = call("+0 write(4, ..., 1000) = -1 EPIPE (Broken pipe)");
    assert_eq!(write.errno.expect("errno").1, "EPIPE");
    let flags = call("+0 fcntl(3, F_GETFL) = 0x2 (flags O_RDWR)");
    assert_eq!(flags.result.kind, ExprKind::Int(2));
    for text in [
        "+0 poll([{fd=3, events=POLLIN|POLLOUT, revents=POLLOUT}], 1, 0) = 1",
        "+0 epoll_ctl(5, EPOLL_CTL_ADD, 4, {events=EPOLLIN|EPOLLET, fd=4}) = 0",
        "+0 sendmsg(4, {msg_name(...)=..., msg_iov(2)=[{..., 1},{..., 2}], msg_flags=0}, 0) = 3",
        "+0 recvmsg(4, {msg_name(...)=..., msg_iov(1)=[{...,0}], msg_flags=MSG_ERRQUEUE,
            msg_control=[{cmsg_level=SOL_SOCKET, cmsg_type=SCM_TIMESTAMPING,
            cmsg_data={scm_sec=0,scm_nsec=1}}, {cmsg_level=SOL_IP, cmsg_type=IP_RECVERR,
            cmsg_data={ee_errno=ENOMSG, ee_origin=4, ee_type=0, ee_code=0, ee_info=0, ee_data=1}}
            ]}, MSG_ERRQUEUE) = 0",
        "+0 setsockopt(4, SOL_SOCKET, SO_LINGER, {onoff=1, linger=0}, 8) = 0",
        "+0 setsockopt(4, SOL_TCP, TCP_CONGESTION, \"re\" \"no\", 4) = 0",
        "+0 connect(3, {sa_family = AF_INET, sin_port = htons(80), sin_addr = inet_addr(\"1.2.3.4\")}, 16) = 0",
    ] {
        call(text);
    }
}

#[test]
fn init_cleanup_flags_and_defines() {
    let text = "--mss=1000\n--define=N=7\n`a`\n0 close(N) = 0\n`b`";
    let mut parser = Parser::new(text).expect("lexes");
    let flags = parser.flags().expect("flags");
    assert_eq!(flags[1].value.as_deref(), Some("N=7"));
    let defines: Defines = [("N".to_owned(), "7".to_owned())].into();
    let script = parser.script(flags, Family::V4, &defines).expect("parses");
    assert_eq!(script.init.expect("init").text, "a");
    assert_eq!(script.cleanup.expect("cleanup").text, "b");
    let Action::Call(call) = &script.events[0].action else { panic!("not a call") };
    assert_eq!(call.args[0].kind, ExprKind::Int(7));
}

/// Every fault names line and column, and says what would be right.
#[test]
fn faults() {
    for (text, place, what) in [
        ("+0 < . 1:1(0)", "1:4", "win"),
        ("+0 > . 1:2(0)", "1:8", "add up"),
        ("+0 > X. 1:1(0)", "1:6", "flag"),
        ("+0 > SE5 1:1(0)", "1:6", "ACE"),
        ("+0 > . 1:1(0) <mss 1460,nop>", "1:15", "add 3 `nop`"),
        ("+0 > . 1:1(0) <mss 1460,wscal 7>", "1:25", "did you mean `wscale`?"),
        ("+0 > . 1:1(0) <mss 70000>", "1:20", "0 to 65535"),
        ("+0 < icmp unreachable host_unreachble [1:1(0)]", "1:23", "host_unreachable"),
        ("+0 < [ect01] . 1:1(0) win 1", "1:7", "ect0"),
        ("* close(3) = 0", "1:1", "outbound"),
        ("2~1 > . 1:1(0)", "1:1", "backwards"),
        ("-1 close(3) = 0", "1:1", "negative"),
        ("\n\n   close(3) = 0", "3:4", "a time"),
        ("+0 close(3", "1:11", "`)`"),
        ("", "1:1", "an event"),
        ("+0 %{ assert tcpi_x == }%", "1:24", "a value"),
    ] {
        let fault = parse(text).expect_err(text);
        assert_eq!(fault.pos.to_string(), place, "{text}: {fault}");
        assert!(fault.to_string().contains(what), "{text}: {fault}");
    }
}

#[test]
fn scripts_that_need_a_kernel_are_told_from_faulty_ones() {
    for text in ["+0 > encap psp spi 1 . 1:1(0)", "+0 > S 0:0(0) <mp_capable v0 flags_a,nop>"] {
        assert!(parse(text).expect_err(text).no_meaning, "{text}");
    }
}

mod properties {
    use super::parse;
    use proptest::prelude::*;

    /// Pieces of scripts, so that random texts get past the lexer.
    fn piece() -> impl Strategy<Value = String> {
        let words = [
            "+0 ",
            "0 ",
            "*",
            "+.1~+.2 ",
            "< ",
            "> ",
            "S. ",
            ". ",
            "P.",
            ".5 ",
            "1:1(0) ",
            "1:1001(1000) ",
            "ack 1 ",
            "win 1 ",
            "<mss 1460>",
            "<...>",
            "sack 1:2 ",
            "TS val 1 ",
            "socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n",
            "write(",
            "[",
            "]",
            "{",
            "}",
            "(",
            ")",
            "|",
            "=",
            ",",
            "...",
            "%{ assert x }%",
            "`ls`",
            "--mss=1",
            "\"a\\x",
            "\"",
            "icmp ",
            "unreachable ",
            "ipv4 ",
            "gre: ",
            "mpls ",
            "192.0.2.1",
            "::1",
            "msg_name(...)=",
            "/*",
            "//",
            "\n",
            "if x:\n",
            "0x",
            "-",
            ".",
            "1e9",
            "999999999999999999999",
        ];
        prop_oneof![
            8 => prop::sample::select(words.to_vec()).prop_map(str::to_owned),
            1 => "\\PC{0,8}",
        ]
    }

    proptest! {
        /// No text makes the parser panic.
        #[test]
        fn the_parser_never_panics(pieces in prop::collection::vec(piece(), 0..40)) {
            let _ = parse(&pieces.concat());
        }

        #[test]
        fn nor_with_any_characters(text in "\\PC*") {
            let _ = parse(&text);
        }

        #[test]
        fn nor_within_code_blocks(text in "[ a-z0-9=<>()\\[\\]%'\".,;:+*/\n-]{0,80}") {
            let _ = parse(&format!("+0 %{{{text}}}%"));
        }
    }
}

#[test]
fn any_number_of_names_may_be_joined() {
    let many = format!("0 socket(..., SOCK_STREAM{}, 0) = 3", "|0".repeat(100_000));
    let ExprKind::Or(terms) = &call(&many).args[1].kind else { panic!("names joined by |") };
    assert_eq!(terms.len(), 100_001);
}
