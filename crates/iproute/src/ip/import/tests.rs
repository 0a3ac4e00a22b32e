use super::*;

const RTM_NEWNEXTHOP: u16 = netlink::RTM_NEWNEXTHOP;
const RTM_NEWROUTE: u16 = netlink::RTM_NEWROUTE;

/// A message: its fixed part, then attributes.
fn message(kind: u16, header: &[u8], attributes: &[(u16, &[u8])]) -> Message {
    let mut body = header.to_vec();
    for (kind, value) in attributes {
        body.extend((4 + value.len() as u16).to_le_bytes());
        body.extend(kind.to_le_bytes());
        body.extend(*value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    (kind, body)
}

/// `a1`, the kernel's interface 3, is up and has 10.0.1.1/24.
fn router() -> Vec<Message> {
    let link = [0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0];
    vec![
        message(RTM_NEWLINK, &link, &[(IFLA_IFNAME, b"a1\0")]),
        message(RTM_NEWADDR, &[2, 24, 0, 0, 3, 0, 0, 0], &[(IFA_LOCAL, &[10, 0, 1, 1])]),
        message(
            RTM_NEWROUTE,
            &[2, 24, 0, 0, 254, 2, 253, 1, 0, 0, 0, 0],
            &[(1, &[10, 0, 1, 0]), (4, &[3, 0, 0, 0])],
        ),
    ]
}

/// A rule of IPv4 that leads to table 100, with a priority of 12.
fn rule(from_len: u8, attributes: &[(u16, &[u8])]) -> Message {
    let all = [&[(6u16, &[12, 0, 0, 0][..]), (15, &[100, 0, 0, 0])], attributes].concat();
    message(RTM_NEWRULE, &[2, 0, from_len, 0, 100, 0, 0, 1, 0, 0, 0, 0], &all)
}

fn taken(one: Message) -> (Ip, Skipped) {
    let mut messages = router();
    messages.push(one);
    import(&messages).expect("nothing is malformed")
}

/// `ip nexthop add id 9 via 10.0.0.9 fdb`, and a group of such.
#[test]
fn objects_that_forward_frames_are_skipped() {
    let hop: [(u16, &[u8]); 3] = [(1, &[9, 0, 0, 0]), (6, &[10, 0, 0, 9]), (11, &[])];
    let group: [(u16, &[u8]); 3] = [(1, &[9, 0, 0, 0]), (2, &[8, 0, 0, 0, 0, 0, 0, 0]), (11, &[])];
    for attributes in [hop, group] {
        let object = message(RTM_NEWNEXTHOP, &[2, 253, 0, 0, 0, 0, 0, 0], &attributes);
        let (ip, skipped) = taken(object);
        assert!(ip.fib.objects().get(9).is_none());
        assert_eq!(skipped, ["nexthop id 9: fdb is not supported"]);
    }
}

/// `a1`, known as the kernel's 3, is called `far` there now, and another interface `a1`.
#[test]
fn an_interface_that_was_renamed_keeps_its_port() {
    let mut messages = router();
    let link = |index: u8| [0, 0, 0, 0, index, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0];
    messages[0] = message(RTM_NEWLINK, &link(3), &[(IFLA_IFNAME, b"far\0")]);
    messages.push(message(RTM_NEWLINK, &link(9), &[(IFLA_IFNAME, b"a1\0")]));
    let known = [("b1".to_owned(), Some(4)), ("a1".to_owned(), Some(3))];
    let (ip, numbers, _) = import_onto(&known, &messages).expect("nothing is malformed");
    assert_eq!((ip.devices.port("a1"), numbers.port(3), numbers.index(1)), (Some(1), 1, 3));
    assert_eq!((ip.devices.port("a1@9"), numbers.port(9)), (Some(2), 2));
    assert_eq!(ip.devices.port("far"), None);
    assert!(ip.fib.link(1).up && !ip.fib.link(0).up);
    assert_eq!(ip.devices.addresses(1), [("10.0.1.1".parse().expect("an address"), 24)]);
    // The next dump knows the stranger by the name that it was given.
    let known = [known[0].clone(), known[1].clone(), ("a1@9".to_owned(), None)];
    let (again, numbers, _) = import_onto(&known, &messages).expect("nothing is malformed");
    assert_eq!((again.devices.ports().count(), numbers.port(9)), (ip.devices.ports().count(), 2));
}

#[test]
fn an_mtu_is_read_if_the_message_has_one() {
    let link = [0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0];
    let name: (u16, &[u8]) = (IFLA_IFNAME, b"a1\0");
    let told = message(RTM_NEWLINK, &link, &[name, (IFLA_MTU, &1_280_u32.to_le_bytes())]);
    assert_eq!(read_mtu(&told.1), Some((3, 1_280)));
    for (_, silent) in [message(RTM_NEWLINK, &link, &[name]), message(RTM_NEWLINK, &link[..9], &[])]
    {
        assert_eq!(read_mtu(&silent), None);
    }
}

#[test]
fn only_what_is_malformed_ends_an_import() {
    let bare = message(RTM_NEWNEXTHOP, &[2, 0, 0, 0, 0, 0, 0, 0], &[(1, &[7, 0, 0, 0])]);
    let strange = message(RTM_NEWROUTE, &[2, 0, 0, 0, 254, 4, 0, 99, 0, 0, 0, 0], &[]);
    let too_long = rule(33, &[(2, &[10, 0, 0, 0])]);
    let nameless = message(RTM_NEWLINK, &[0; 16], &[]);
    for (one, note) in [
        (bare, "nexthop id 7: device is missing"),
        (strange, "route: route type 99 is unknown"),
        (too_long, "rule: Error: Invalid prefix for given prefix length."),
        (nameless, "link: interface name is missing"),
    ] {
        let (mut ip, skipped) = taken(one);
        assert_eq!(skipped, [note]);
        assert!(ip.run("route show").unwrap().contains("10.0.1.0/24 dev a1"), "{note}");
    }
    // An address of MCTP is one byte.
    let (_, skipped) = taken(message(RTM_NEWADDR, &[45, 0, 0, 0, 3, 0, 0, 0], &[(2, &[8])]));
    assert_eq!(skipped, [""; 0]);
    for mut bent in [rule(8, &[(2, &[10, 0, 0])]), rule(0, &[])] {
        bent.1.pop();
        assert!(import(&[bent]).is_err());
    }
}

/// `ip rule add pref 12 from 10.0.0.5/8 table 100`: a kernel keeps the bits, and does not look at them.
#[test]
fn bits_beyond_the_length_are_no_part_of_a_rule() {
    let (mut ip, skipped) = taken(rule(8, &[(2, &[10, 0, 0, 5])]));
    assert_eq!(skipped, [""; 0]);
    assert_eq!(ip.run("rule show").unwrap(), "12:\tfrom 10.0.0.0/8 lookup 100\n");
}

#[test]
fn a_rule_with_a_condition_that_we_do_not_know_is_skipped() {
    for (kind, value, note) in [
        (12, &[0, 0, 0, 0, 0, 0, 0, 1][..], "tun_id"),
        (19, &[1], "l3mdev"),
        (20, &[232, 3, 0, 0, 232, 3, 0, 0], "uidrange"),
        (25, &[8], "dscp"),
        (99, &[], "attribute 99"),
    ] {
        let (mut ip, skipped) = taken(rule(0, &[(kind, value)]));
        assert_eq!(skipped, [format!("rule 12: {note} is not supported")]);
        assert!(!ip.run("rule show").unwrap().contains("lookup 100"), "{note}");
    }
    // Neither narrows: no group suppressed, realms, and who made it.
    let (mut ip, skipped) =
        taken(rule(0, &[(13, &[255; 4]), (11, &[1, 0, 0, 0]), (21, &[4]), (14, &[255; 4])]));
    assert_eq!(skipped, [""; 0]);
    assert_eq!(ip.run("rule show").unwrap(), "12:\tfrom all lookup 100\n");
}

/// Its interface has not been given to the router, or does not exist: the rule is kept for it.
#[test]
fn a_rule_for_another_interface_waits() {
    let (mut ip, skipped) = taken(rule(0, &[(3, b"eth9\0")]));
    assert_eq!(skipped, [""; 0]);
    assert_eq!(ip.run("rule show").unwrap(), "12:\tfrom all iif eth9 [detached] lookup 100\n");
}

#[test]
fn groups_of_interfaces_and_what_rules_ignore_of_them() {
    let mut messages = router();
    let link = [0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0];
    let attributes = [(IFLA_IFNAME, &b"a2\0"[..]), (IFLA_GROUP, &[7, 0, 0, 0])];
    messages.push(message(RTM_NEWLINK, &link, &attributes));
    messages.push(rule(0, &[(13, &[7, 0, 0, 0])]));
    let (mut ip, skipped) = import(&messages).unwrap();
    assert_eq!(skipped, [""; 0]);
    assert_eq!(ip.run("rule show").unwrap(), "12:\tfrom all lookup 100 suppress_ifgroup 7\n");
    assert!(ip.run("link show a2").unwrap().contains("group 7"));
    assert!(!ip.run("link show a1").unwrap().contains("group"));
}

/// `ip -6 route add 2001:dc4::/32 from 2001:db8::/32 dev a1`
#[test]
fn a_route_from_a_source_prefix_is_skipped() {
    let (mut to, mut from) = ([0; 16], [0; 16]);
    to[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xc4]);
    from[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
    let header = [10, 32, 32, 0, 254, 3, 0, 1, 0, 0, 0, 0];
    let route = message(RTM_NEWROUTE, &header, &[(1, &to), (2, &from), (4, &[3, 0, 0, 0])]);
    let (mut ip, skipped) = taken(route);
    assert_eq!(skipped, ["route 2001:dc4::/32: a source prefix is not supported"]);
    assert_eq!(ip.run("-6 route show").unwrap(), "");
}
