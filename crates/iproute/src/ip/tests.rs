mod answers;
mod family;
mod metrics;
mod rules;
mod taken;

use super::*;

/// A router with three interfaces and their subnets.
fn router() -> Ip {
    let mut ip = Ip::new();
    let setup = "link add a1\nlink add a2\nlink add in0
        address add 10.0.1.1/24 dev a1
        address add 10.0.2.1/24 dev a2  # a comment
        address add 10.9.0.1/16 dev in0
        address add fd00:1::1/64 dev a1
        address add fd00:2::1/64 dev a2";
    assert_eq!(ip.run_all(setup), Ok(String::new()));
    ip
}

#[test]
fn a_listing_reads_back_as_what_it_lists() {
    let mut first = router();
    for command in [
        "route add 198.18.0.0/15 nexthop via 10.0.1.2 weight 3 nexthop via 10.0.2.2 dev a2",
        "route add 2.0.0.0/8 via 10.0.1.2 proto static metric 7 src 10.0.1.1",
        "route add 3.0.0.0/8 via 10.0.1.2 tos 0x10 mp_algo per-packet",
        "route add 4.0.0.0/8 via 77.0.0.1 dev a1 onlink",
        "route add blackhole 5.0.0.0/8",
        "route add prohibit 6.0.0.0/8 metric 9",
        "route add 7.0.0.0/8 via 10.0.1.2 metric 4 features ecn",
        "route add 8.0.0.0/8 via 10.0.1.2 mtu lock 1400 advmss 1000 initcwnd 4 rto_min 5ms",
        "route add default via 10.0.1.2",
        "-6 route add fd45::/64 nexthop via fd00:1::2 nexthop via fd00:2::2 weight 5",
        "-6 route add unreachable fd46::/64",
    ] {
        assert_eq!(first.run(command), Ok(String::new()), "{command}");
    }
    let mut second = router();
    for family in ["", "-6 "] {
        let listing = first.run(&format!("{family}route show")).unwrap();
        let joined = listing.replace("\n\tnexthop", " nexthop");
        for line in joined.lines() {
            second.run(&format!("{family}route replace {line}")).expect(line);
        }
        assert_eq!(second.run(&format!("{family}route show")).unwrap(), listing);
    }
}

/// As Linux 6.18 lists them with iproute2 6.1.
#[test]
fn a_device_alone_is_on_the_link_but_not_as_nexthop() {
    let mut ip = router();
    ip.run("route add 4.0.0.0/8 dev a1").unwrap();
    ip.run("route add 5.0.0.0/8 nexthop dev a1 weight 5").unwrap();
    let scope = |prefix: &str| {
        let prefix = prefix.parse().unwrap();
        ip.fib.routes().into_iter().find(|route| route.prefix == prefix).unwrap().scope
    };
    assert_eq!(
        [scope("4.0.0.0/8"), scope("5.0.0.0/8")],
        [datapath::fib::Scope::LINK, datapath::fib::Scope::UNIVERSE]
    );
}

#[test]
fn mistakes_have_a_column_and_a_suggestion() {
    let mut ip = router();
    for (command, column, nearest) in [
        ("route add 198.18.0.0/15 vai 10.0.1.2", 24, Some("via")),
        ("route dad 198.18.0.0/15 via 10.0.1.2", 6, Some("add")),
        ("roote add 198.18.0.0/15", 0, Some("route")),
        ("route add 198.18.0.0/15 via 10.0.1.2 dev a9", 41, Some("a1")),
        ("route add 198.18.0.0/15 nexthop via 10.0.1.2 wieght 3", 45, Some("weight")),
        ("route add 198.18.0.0/15 nexthop via 10.0.1.2 weight 257", 52, None),
        ("route add 198.18.0.0/33 via 10.0.1.2", 10, None),
        ("route add 198.18.0.0/15 via 10.0.1.2 mp_algo pre-packet", 45, Some("per-packet")),
        ("route add 198.18.0.0/15 via 10.0.1.2 proto statc", 43, Some("static")),
        ("route add 198.18.0.0/15 via 10.0.1.2 features enc", 46, Some("ecn")),
        ("rule add form 10.0.0.0/8 table 100", 9, Some("from")),
        ("nexthop add id 1 gruop 1/2", 17, Some("group")),
        ("route get 198.18.0.1 form 10.9.0.1", 21, Some("from")),
        ("route add 198.18.0.0/15 via", 27, None),
    ] {
        let Err(IpError::Grammar(error)) = ip.run(command) else {
            panic!("{command} was understood");
        };
        assert_eq!((error.column, error.nearest.as_deref()), (column, nearest), "{command}");
    }
    for name in ["drr", "random", "wrandom"] {
        let command = format!("route add 9.0.0.0/8 via 10.0.1.2 mp_algo {name}");
        let error = ip.run(&command).unwrap_err().to_string();
        assert!(error.contains(&format!("{name} is reserved")), "{error}");
    }
}

#[test]
fn get_tells_why() {
    let mut ip = router();
    ip.run("route add 198.18.0.0/15 nexthop via 10.0.1.2 nexthop via 10.0.2.2").unwrap();
    let answer = ip.run("-d route get 198.18.0.1 from 10.9.0.7 iif in0").unwrap();
    assert!(answer.starts_with("unicast 198.18.0.1 from 10.9.0.7 via 10.0."), "{answer}");
    assert!(answer.contains("rule 32766: from all lookup main"), "{answer}");
    assert!(answer.contains("route 198.18.0.0/15 table main"), "{answer}");
    assert!(answer.contains("policy 0"), "{answer}");
    assert_eq!(answer.matches(" <-").count(), 1, "{answer}");
    ip.run("link set a1 down").unwrap();
    let answer = ip.run("-d route get 198.18.0.1 from 10.9.0.7 iif in0").unwrap();
    assert!(answer.contains("dev a1 weight 1 out of service"), "{answer}");
    assert!(answer.contains("dev a2 weight 1 bounds 0x00000000..0x7fffffff <-"), "{answer}");
    let json = ip.run("-j -d route get 198.18.0.1 from 10.9.0.7 iif in0").unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["why"]["nexthops"][1]["upper_bound"], i32::MAX);
    assert_eq!(json[0]["why"]["rule"], 32766);
    let bare = ip.run("route get 198.18.0.1 from 10.9.0.7 iif in0").unwrap();
    assert_eq!(bare.lines().count(), 2, "without -d it is ip's answer: {bare}");
    assert!(answer.contains("via 10.0.2.2 dev a2"), "{answer}");
    let shown = ip.run("route show 198.18.0.0/15").unwrap();
    assert!(shown.contains("nexthop via 10.0.1.2 dev a1 weight 1 dead linkdown \n"), "{shown}");
}

/// Commands with a word taken away, doubled, or changed for another: whatever comes of it, it is
/// an answer and not a panic.
#[test]
fn bent_commands_never_panic() {
    let commands = [
        "-6 -j route add fd45::/64 nexthop via fd00:1::2 weight 2 nexthop via fd00:2::2 dev a2",
        "-d route show table all proto static root 10.0.0.0/8",
        "route get 198.18.0.1 from 10.9.0.7 iif in0 ipproto udp sport 5 dport 7 tos 0x10 mark 3",
        "rule add not from 10.0.0.0/8 to 1.0.0.0/8 fwmark 1/3 iif lo sport 1-9 goto 5 pref 7",
        "nexthop add id 1 group 1,3/2 type resilient buckets 8 idle_timer 60",
        "nexthop bucket show id 20",
        "nexthop bucket get id 20 index 1",
        "address add 10.0.1.1/24 dev a1",
        "address del 10.0.1.1/24 dev a1",
    ];
    let strange = ["", "0", "4294967296", "/", "::/129", "default", "-1", "\u{1f980}", "lo"];
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        for at in 0..words.len() {
            let mut ip = router();
            let _ = ip.run(&words[..at].join(" "));
            let _ = ip.run(&[&words[..at], &words[at + 1..]].concat().join(" "));
            let _ = ip.run(&[&words[..=at], &words[at..]].concat().join(" "));
            for odd in strange {
                let _ = ip.run(&[&words[..at], &[odd], &words[at + 1..]].concat().join(" "));
            }
        }
    }
}

/// Linux 6.18: each family has its own policy and fields, and one seed serves both.
#[test]
fn ipv6_hashes_by_sysctls_of_its_own() {
    let mut ip = router();
    let hashed = |ip: &Ip| {
        let settings = ip.fib.settings();
        [settings.v4, settings.v6].map(|one| (one.policy as u32, one.fields.number()))
    };
    assert_eq!(hashed(&ip), [(0, 7), (0, 7)]);
    ip.run("sysctl net.ipv4.fib_multipath_hash_policy=1").unwrap();
    assert_eq!(hashed(&ip), [(1, 7), (0, 7)]);
    ip.run("sysctl -w net.ipv6.fib_multipath_hash_policy=3").unwrap();
    ip.run("sysctl net/ipv6/fib_multipath_hash_fields=0x3f").unwrap();
    assert_eq!(hashed(&ip), [(1, 7), (3, 63)]);
    for refused in [
        "net.ipv6.fib_multipath_hash_policy=4",
        "net.ipv6.fib_multipath_hash_fields=0",
        "net.ipv6.fib_multipath_hash_fields=4096",
        "net.ipv6.fib_multipath_hash_seed=1",
        "net.ipv6.fib_multipath_use_neigh=1",
        "net.ipv4.fib_multipath_use_neigh=2",
    ] {
        ip.run(&format!("sysctl {refused}")).expect_err(refused);
    }
    assert_eq!(hashed(&ip), [(1, 7), (3, 63)], "what is refused changes nothing");
}

/// Without a value a setting is shown, as 6.18's sysctl does.
#[test]
fn sysctls_are_shown() {
    let mut ip = router();
    let told = |ip: &mut Ip, names: &str| ip.run(&format!("sysctl {names}")).unwrap();
    let names = "net.ipv4.fib_multipath_hash_seed net.ipv4.fib_multipath_hash_fields";
    ip.run("sysctl net.ipv4.fib_multipath_hash_seed=7").unwrap();
    let before = "net.ipv4.fib_multipath_hash_seed = 7\nnet.ipv4.fib_multipath_hash_fields = 7\n";
    assert_eq!(told(&mut ip, names), before);
    for setting in [
        "net.ipv4.fib_multipath_hash_policy",
        "net.ipv6.fib_multipath_hash_policy",
        "net.ipv4.fib_multipath_use_neigh",
        "net.ipv4.conf.all.ignore_routes_with_linkdown",
        "net.ipv6.conf.all.ignore_routes_with_linkdown",
    ] {
        assert_eq!(told(&mut ip, setting), format!("{setting} = 0\n"));
        assert_eq!(told(&mut ip, &format!("-w {setting}=1")), "");
        assert_eq!(told(&mut ip, setting), format!("{setting} = 1\n"));
    }
    assert_eq!(
        told(&mut ip, "net/ipv6/fib_multipath_hash_fields"),
        "net.ipv6.fib_multipath_hash_fields = 7\n"
    );
    let unknown = ip.run("sysctl net.ipv4.fib_multipath_hash_polcy").unwrap_err();
    assert!(format!("{unknown:?}").contains("fib_multipath_hash_policy"), "{unknown:?}");
    // As `ip -br` prints them, blanks at the end included.
    let brief = ip.run("-br link").unwrap();
    assert!(brief.contains("a1               UP             <UP,LOWER_UP> \n"), "{brief}");
    let brief = ip.run("-br -4 address show dev a1").unwrap();
    assert_eq!(brief, "a1               UP             10.0.1.1/24 \n");
    assert!(ip.run("help").unwrap().contains("nexthop"));
    // Options that change nothing here are habits all the same.
    assert_eq!(ip.run("-s -c route").unwrap(), ip.run("route").unwrap());
}

/// What is saved says the same when it is read.
#[test]
fn a_saved_configuration_reads_back() {
    let mut ip = router();
    ip.run_all(
        "sysctl net.ipv4.fib_multipath_hash_policy=3 net.ipv4.fib_multipath_hash_fields=0x37\n\
         sysctl net.ipv6.fib_multipath_hash_policy=2 net.ipv6.fib_multipath_hash_fields=010\n\
         sysctl net.ipv4.fib_multipath_hash_seed=77 net.ipv4.conf.a1.ignore_routes_with_linkdown=1\n\
         nexthop add id 5 via 10.0.1.2 dev a1\n\
         nexthop add id 6 via 10.0.2.2 dev a2\n\
         nexthop add id 2 group 5,7/6\n\
         nexthop add id 3 group 5/6 type resilient buckets 8 idle_timer 9\n\
         nexthop add id 4 blackhole\n\
         -6 nexthop add id 7 blackhole\n\
         -6 nexthop add id 8 dev a1\n\
         -6 route add fd60::/64 nhid 8\n\
         route add 1.0.0.0/8 nhid 2\n\
         route add 198.18.0.0/15 mp_algo l4 nexthop via 10.0.1.2 nexthop via 10.0.2.2 weight 9\n\
         route append 198.18.0.0/15 via 10.0.2.2 metric 7 proto static src 10.0.2.1 features ecn\n\
         route add prohibit 3.0.0.0/8 tos 0x10 table 100\n\
         route del 10.0.2.0/24 dev a2\n\
         rule add not from 10.8.0.0/16 fwmark 3/7 table 100 suppress_prefixlength 4\n\
         rule del priority 32767\n\
         -6 rule add to fd00::/8 prohibit\n\
         link set a1 down",
    )
    .unwrap();
    let saved = ip.save();
    let mut again = Ip::new();
    again.run_all(&saved).unwrap_or_else(|(line, error)| panic!("{line}: {error}\n{saved}"));
    assert_eq!(again.save(), saved);
    for question in
        ["route show table all", "-6 route show", "rule show", "nexthop show", "link show"]
    {
        assert_eq!(again.run(question).unwrap(), ip.run(question).unwrap(), "{question}");
    }
    assert_eq!(again.fib.settings(), ip.fib.settings());
    assert_eq!(
        again.fib.link(again.devices.port("a1").unwrap()),
        ip.fib.link(ip.devices.port("a1").unwrap())
    );
}

/// Two addresses of one subnet bring the same route along in IPv6; a local address may be another
/// subnet's broadcast. None of this is an error, or half done.
#[test]
fn addresses_that_bring_the_same_route_along_are_added() {
    let mut ip = Ip::new();
    ip.run_all(
        "link add a0\nlink add a1\naddress add fd00::1/64 dev a0\naddress add fd00::2/64 dev a0\n\
         address add 10.0.255.255/16 dev a1\naddress add 10.0.0.1/16 dev a0\n\
         address add 10.0.0.1/24 dev a0",
    )
    .unwrap();
    for twice in ["fd00::2/64 dev a0", "fd00::2/48 dev a0", "10.0.0.1/24 dev a0"] {
        let before = ip.save();
        assert!(ip.run(&format!("address add {twice}")).is_err(), "{twice}");
        assert_eq!(ip.save(), before, "{twice}");
    }
    let mut again = Ip::new();
    again.run_all(&ip.save()).unwrap();
    assert_eq!(again.save(), ip.save());
}

/// `get_prefix` of iproute2: octets that are missing are zero, and a length may be a netmask.
#[test]
fn prefixes_are_read_in_every_form_that_ip_takes() {
    for (said, meant) in [
        ("10/8", "10.0.0.0/8"),
        ("10.5/16", "10.5.0.0/16"),
        ("10.5.1/24", "10.5.1.0/24"),
        ("10", "10.0.0.0"),
        ("0x0a.0/8", "10.0.0.0/8"),
        ("10.0.0.0/255.0.0.0", "10.0.0.0/8"),
        ("10.5/255.255", "10.5.0.0/16"),
        ("10.1.2.3/255.255.255.255", "10.1.2.3"),
        ("0/0", "default"),
        ("0.0.0.0/0.0.0.0", "default"),
        ("fd45::/0x40", "fd45::/64"),
    ] {
        let mut ip = router();
        ip.run(&format!("route add blackhole {said}")).expect(said);
        let family = if said.contains(':') { "-6 " } else { "" };
        let shown = ip.run(&format!("{family}route show type blackhole")).expect(said);
        assert!(shown.starts_with(&format!("blackhole {meant} ")), "{said}: {shown}");
    }
    for wrong in
        ["10./8", "10.256/16", "1.2.3.4.5/8", "10/255.0.255.0", "10/33", "10/", "/8", "a/8"]
    {
        let error = router().run(&format!("route add blackhole {wrong}"));
        let Err(IpError::Grammar(error)) = error else { panic!("{wrong}: {error:?}") };
        assert_eq!(error.column, 20, "{wrong}");
        assert!(error.message.contains("any valid prefix is expected"), "{wrong}: {error}");
    }
    let mut ip = router();
    ip.run("route add 10/8 via 10.0.1.2").unwrap();
    ip.run("route add 11/8 via 10.1").unwrap_err();
    ip.run("address add 10.77.1/255.255.255.0 dev a1").unwrap();
    assert!(ip.run("route show 10.77.1/24").unwrap().contains("10.77.1.0/24 dev a1"));
}

#[test]
fn interfaces_are_shown_with_their_addresses() {
    let mut ip = router();
    let all = ip.run("address show").unwrap();
    for same in ["addr", "a", "ip address list", "addr ls"] {
        assert_eq!(ip.run(same).unwrap(), all, "{same}");
    }
    ip.run_all("address add 10.0.1.9/24 dev a1\naddress add fe80::1/64 dev a1").unwrap();
    let expected = "2: a1: <UP,LOWER_UP> state UP
    inet 10.0.1.1/24 scope global a1
       valid_lft forever preferred_lft forever
    inet 10.0.1.9/24 scope global secondary a1
       valid_lft forever preferred_lft forever
    inet6 fd00:1::1/64 scope global \n       valid_lft forever preferred_lft forever
    inet6 fe80::1/64 scope link \n       valid_lft forever preferred_lft forever\n";
    assert_eq!(ip.run("addr show dev a1").unwrap(), expected);
    assert_eq!(ip.run("addr show a1").unwrap(), expected);
    assert!(ip.run("addr show").unwrap().contains(expected));
    // `in0` has no address of IPv6.
    let names = |shown: String| -> Vec<String> {
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        shown.as_array().unwrap().iter().map(|link| link["ifname"].to_string()).collect()
    };
    assert_eq!(names(ip.run("-6 -j addr show").unwrap()), ["\"a1\"", "\"a2\""]);
    assert_eq!(names(ip.run("-4 -j addr show").unwrap()), ["\"a1\"", "\"a2\"", "\"in0\""]);
    let json: serde_json::Value =
        serde_json::from_str(&ip.run("-j addr show dev a1").unwrap()).unwrap();
    let second = serde_json::json!({
        "family": "inet", "local": "10.0.1.9", "prefixlen": 24, "scope": "global", "secondary": true,
        "label": "a1", "valid_life_time": u32::MAX, "preferred_life_time": u32::MAX,
    });
    assert_eq!(json[0]["addr_info"][1], second);
    assert_eq!(json[0]["operstate"], "UP");
}

#[test]
fn one_interface_is_shown_by_its_name() {
    let mut ip = router();
    ip.run("link set a2 down").unwrap();
    for one in ["link show dev a2", "link show a2", "link list dev a2"] {
        assert_eq!(ip.run(one).unwrap(), "3: a2: <> state DOWN\n", "{one}");
    }
    assert_eq!(ip.run("link show").unwrap().lines().count(), 3);
    assert_eq!(ip.run("link show dev lo").unwrap(), "1: lo: <UP,LOWER_UP> state UP\n");
    for (wrong, column) in [
        ("link show dev", 13),
        ("link show dev a7", 14),
        ("addr show a7", 10),
        ("addr show dev a1 a2", 17),
    ] {
        let Err(IpError::Grammar(error)) = ip.run(wrong) else { panic!("{wrong}") };
        assert_eq!(error.column, column, "{wrong}");
    }
}

/// As Linux 6.18 answers; a route that is there already stays, out of service.
#[test]
fn no_new_route_leads_over_an_interface_that_is_down() {
    let mut ip = router();
    ip.run_all("route add 20.0.0.0/8 dev a1\n-6 route add fd20::/64 dev a1").unwrap();
    ip.run("link set a1 down").unwrap();
    let (plain, nexthop) =
        ("Error: Device for nexthop is not up.", "Error: Nexthop device is not up.");
    for (command, answer) in [
        ("route add 21.0.0.0/8 dev a1", plain),
        ("route append 21.0.0.0/8 dev a1", plain),
        ("route prepend 21.0.0.0/8 dev a1", plain),
        ("route replace 21.0.0.0/8 dev a1", plain),
        ("route change 20.0.0.0/8 dev a1", plain),
        ("route add 20.0.0.0/8 dev a1", plain),
        ("route add 21.0.0.0/8 nexthop dev a1 nexthop dev a2", plain),
        ("route add broadcast 30.0.0.255 dev a1", plain),
        ("route add 21.0.0.0/8 via 10.0.1.2 dev a1 onlink", nexthop),
        ("route add 21.0.0.0/8 nexthop via 10.0.2.2 nexthop via 10.0.1.2 dev a1 onlink", nexthop),
        ("route add 21.0.0.0/8 via 10.0.1.2", "Error: Nexthop has invalid gateway."),
        ("-6 route add fd45::/64 dev a1", nexthop),
        ("-6 route add fd45::/64 via fe80::2 dev a1", nexthop),
        ("-6 route add fd45::/64 via fd00:1::2 dev a1 onlink", nexthop),
        ("-6 route add local fd45::1 dev a1", nexthop),
    ] {
        let before = ip.save();
        let error = ip.run(command).expect_err(command).to_string();
        assert_eq!(error, answer, "{command}");
        assert_eq!(ip.save(), before, "{command}");
    }
    // What is on the host itself, an address, and taking a route away need no interface that is up.
    for command in [
        "route add local 30.0.0.1 dev a1",
        "route add 50.0.0.0/8 dev a1 scope host",
        "address add 10.0.9.1/24 dev a1",
        "route add 21.0.0.0/8 dev a2",
        "route del 20.0.0.0/8 dev a1",
    ] {
        ip.run(command).expect(command);
    }
    ip.run("link set a1 carrier off up").unwrap();
    ip.run("route add 22.0.0.0/8 dev a1").expect("no carrier is no reason");
}

/// What `ip route show table all` lists of one interface.
fn over(ip: &mut Ip, dev: &str) -> Vec<String> {
    let text =
        ip.run("route show table all").unwrap() + &ip.run("-6 route show table all").unwrap();
    let named = |line: &&str| line.contains(&format!("dev {dev} "));
    text.lines().filter(named).map(str::to_owned).collect()
}

#[test]
fn an_address_goes_with_the_routes_that_it_brought() {
    let mut ip = router();
    let before = over(&mut ip, "a1");
    for addr in ["10.7.0.1/24", "fd07::1/64"] {
        ip.run(&format!("address add {addr} dev a1")).unwrap();
        assert!(over(&mut ip, "a1").len() > before.len(), "{addr}");
        assert_eq!(ip.run(&format!("addr del {addr} dev a1")), Ok(String::new()));
        assert_eq!(over(&mut ip, "a1"), before, "{addr}");
        assert!(!ip.run("address show a1").unwrap().contains(addr));
    }
}

/// `EADDRNOTAVAIL`.
#[test]
fn an_address_that_is_not_there_cannot_be_deleted() {
    let mut ip = router();
    for words in
        ["10.0.1.2/24 dev a1", "10.0.1.1/25 dev a1", "10.0.1.1/24 dev a2", "fd00:1::1 dev a1"]
    {
        let error = ip.run(&format!("address del {words}")).unwrap_err().to_string();
        assert_eq!(error, "RTNETLINK answers: Cannot assign requested address", "{words}");
    }
    assert_eq!(ip.run("address del 10.0.1.1 dev a1"), Ok(String::new()), "any length");
}

/// `__inet_del_ifa` with `promote_secondaries` 0.
#[test]
fn deleting_a_primary_address_deletes_its_secondaries() {
    let mut ip = router();
    ip.run("address add 10.0.1.7/24 dev a1").unwrap();
    ip.run("address add 10.0.1.7/25 dev a1").unwrap();
    ip.run("address del 10.0.1.7/24 dev a1").unwrap();
    assert!(ip.run("address show a1").unwrap().contains("10.0.1.1/24"));
    ip.run("address add 10.0.1.8/24 dev a1").unwrap();
    ip.run("address del 10.0.1.1/24 dev a1").unwrap();
    let shown = ip.run("-4 address show a1").unwrap();
    assert_eq!(shown.matches("inet ").count(), 1, "another length, another network: {shown}");
    assert!(shown.contains("10.0.1.7/25"), "{shown}");
}

/// `fib_sync_down_addr`, `fib_disable_ip`, `rt6_remove_prefsrc`.
#[test]
fn routes_from_an_address_go_with_it_and_those_of_ipv6_forget_it() {
    let mut ip = router();
    let lines = "address add 10.7.0.1/24 dev a1
        route add 4.0.0.0/8 via 10.0.2.2 src 10.7.0.1
        route add 5.0.0.0/8 via 10.0.2.2
        route add 6.0.0.0/8 via 10.0.1.2
        route add 7.0.0.0/8 via 10.0.2.2 src 10.7.0.1 table 7
        address add fd07::1/64 dev a1
        -6 route add fd45::/64 via fd00:1::2 src fd07::1";
    ip.run_all(lines).unwrap();
    let there = |ip: &mut Ip| {
        let shown = ip.run("route show table all").unwrap();
        ["4.0.0.0", "5.0.0.0", "6.0.0.0", "7.0.0.0"].map(|net| shown.contains(net))
    };
    ip.run("address del 10.7.0.1/24 dev a1").unwrap();
    assert_eq!(there(&mut ip), [false, true, true, true], "table main alone");
    ip.run("address del 10.0.1.1/24 dev a1").unwrap();
    assert_eq!(there(&mut ip), [false, true, false, true], "no address is left on a1");
    ip.run("address del fd07::1/64 dev a1").unwrap();
    let shown = ip.run("-6 route show fd45::/64").unwrap();
    assert!(shown.contains("via fd00:1::2") && !shown.contains("src"), "{shown}");
}

/// `nexthop_flush_dev` has deleted what the route asks for.
#[test]
fn no_route_is_added_by_an_object_whose_device_is_down() {
    let mut ip = router();
    let lines = "nexthop add id 1 via 10.0.1.2 dev a1
        nexthop add id 2 via 10.0.2.2 dev a2
        nexthop add id 3 group 1/2
        link set a1 down";
    ip.run_all(lines).unwrap();
    let error = ip.run("route add 9.0.0.0/8 nhid 1").unwrap_err();
    assert_eq!(error, IpError::Fib(FibError::NoSuchObject));
    assert_eq!(ip.run("route add 9.0.0.0/8 nhid 3"), Ok(String::new()), "a member is left");
    ip.run("link set a1 up").unwrap();
    assert_eq!(ip.run("route add 8.0.0.0/8 nhid 1"), Ok(String::new()));
}
