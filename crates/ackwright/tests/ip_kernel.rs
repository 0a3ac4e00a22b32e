//! `ackwright ip --import-kernel` beside the running kernel, in a network namespace of its own.
#![cfg(target_os = "linux")]

mod namespace;

use namespace::{in_namespace, read, scratch};
use std::fmt::Write as _;

/// What is skipped where no namespace can be had.
const WHAT: &str = "the kernel's routes";
const NEEDS: &str = "ip link show lo";

/// Links, addresses and IPv6 without surprises.
const LINKS: &str = "
set -e
ip link set lo up
for i in 1 2 3; do
  ip link add a$i type veth peer name pa$i
  for d in a$i pa$i; do ip link set $d addrgenmode none; ip link set $d up; done
done
";

const CONFIGURATION: &str = "
for i in 1 2 3; do
  ip address add 10.0.$i.1/24 dev a$i
  ip -6 address add fd00:$i::1/64 dev a$i nodad
done
ip route add 198.18.0.0/15 nexthop via 10.0.1.2 nexthop via 10.0.2.2 weight 3
ip route add 2.0.0.0/8 via 10.0.3.2 proto static metric 7 src 10.0.3.1
ip route append 2.0.0.0/8 via 10.0.2.2 metric 7
ip route add 55.0.0.0/8 via 10.0.1.2 tos 0x10
ip route add 77.0.0.0/8 via 88.0.0.1 dev a1 onlink
ip route add 60.0.0.0/8 via inet6 fd00:1::2 dev a1
ip nexthop add id 1 via 10.0.1.2 dev a1
ip nexthop add id 2 via 10.0.2.2 dev a2
ip nexthop add id 4 blackhole
ip nexthop add id 10 group 1,3/2
ip nexthop add id 11 group 1/2 type resilient buckets 16 idle_timer 60
ip route add 30.0.0.0/8 nhid 10
ip route add 31.0.0.0/8 nhid 11 proto static metric 7
ip route add blackhole 5.0.0.0/8
ip route add throw 8.0.0.0/8
ip route add 9.0.0.0/8 dev a3 table 100
ip -6 route add fd45::/64 nexthop via fd00:1::2 nexthop via fd00:2::2 weight 5
ip -6 route add unreachable fd47::/64
ip -6 route add default via fd00:3::2 metric 5
ip rule add from 10.8.0.0/16 table 100 priority 100
ip rule add fwmark 0x10/0xf0 ipproto udp dport 53-60 lookup 100
ip rule add iif lo oif a2 table 103
ip rule add not to 1.0.0.0/8 goto 32766 priority 50
ip rule add table main suppress_prefixlength 0 priority 54
ip -6 rule add to fd99::/32 blackhole
";

const QUESTIONS: [&str; 13] = [
    "route show",
    "route show table 100",
    "route show table local",
    "-6 route show",
    "rule show",
    "-6 rule show",
    "nexthop show",
    "-j route show",
    "-j -6 route show",
    "-j rule show",
    "-j nexthop show",
    "route get 2.2.2.2",
    "-6 route get fd47::1",
];

/// Every listing of ours over the imported routes is the kernel's, and so is every listing over
/// the file that the import was saved to.
#[test]
fn what_is_imported_is_listed_as_the_kernel_lists_it() {
    let directory = scratch("ip-kernel");
    let ours = env!("CARGO_BIN_EXE_ackwright");
    let dir = directory.display();
    let mut script =
        format!("{LINKS}{CONFIGURATION}{ours} ip --import-kernel save > {dir}/saved\n");
    for (index, question) in QUESTIONS.iter().enumerate() {
        let _ = write!(
            script,
            "ip {question} > {dir}/kernel.{index} 2>&1 || true\n\
             {ours} ip --bare --import-kernel {question} > {dir}/import.{index} 2> {dir}/error.{index} || true\n\
             {ours} ip --bare --config {dir}/saved {question} > {dir}/saved.{index} 2> {dir}/error2.{index} || true\n"
        );
    }
    let Some(output) = in_namespace(WHAT, NEEDS, &script) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (index, question) in QUESTIONS.iter().enumerate() {
        let expected = read(&directory, &format!("kernel.{index}"));
        for (kind, error) in [("import", "error"), ("saved", "error2")] {
            let mut got = read(&directory, &format!("{kind}.{index}"));
            if got.is_empty() {
                let error = read(&directory, &format!("{error}.{index}"));
                let last = error.lines().next_back().unwrap_or("");
                got = last.trim_start_matches("error: ").to_owned();
            }
            assert_eq!(got, expected, "{kind}: ip {question}");
        }
    }
}

/// The round trip: what is saved, given back to `ip` line by line in another namespace, makes the
/// same routes, rules and next hops.
#[test]
fn what_is_saved_makes_the_same_kernel_configuration() {
    let directory = scratch("ip-round-trip");
    let ours = env!("CARGO_BIN_EXE_ackwright");
    let dir = directory.display();
    let list = |to: &str| -> String {
        let asked = QUESTIONS[..11].iter().enumerate();
        let line =
            |(index, question): (usize, &&str)| format!("ip {question} > {dir}/{to}.{index}");
        asked.map(line).collect::<Vec<_>>().join("\n") + "\n"
    };
    let first = format!(
        "{LINKS}{CONFIGURATION}{}{ours} ip --import-kernel save > {dir}/saved\n",
        list("first")
    );
    let Some(output) = in_namespace(WHAT, NEEDS, &first) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Links and what the kernel makes by itself are there already.
    let second = format!(
        "{LINKS}grep -vE '^(link|sysctl)|table local| dev lo$' {dir}/saved | while read -r line; do\n\
         case $line in *address*:*) line=\"$line nodad\";; esac\n\
         ip $line || echo \"FAILED: ip $line\"; done\n{}",
        list("second")
    );
    let Some(output) = in_namespace(WHAT, NEEDS, &second) else { return };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && !said.contains("FAILED"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for (index, question) in QUESTIONS[..11].iter().enumerate() {
        let [first, second] =
            ["first", "second"].map(|to| read(&directory, &format!("{to}.{index}")));
        assert_eq!(first, second, "ip {question}");
    }
}
