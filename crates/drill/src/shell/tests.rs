use super::{Shell, Status};
use crate::ast::Command;
use crate::fault::{Fault, Pos};
use crate::kernel::Kernel;
use crate::settings::{IpVersion, Settings};
use datapath::units::Instant;
use std::path::PathBuf;

fn kernel() -> Kernel {
    Kernel::new(&Settings::for_version(IpVersion::Ipv4), Instant::from_nanos(1_000_000_000))
}

fn run_in(shell: &mut Shell, kernel: &mut Kernel, text: &str) -> Result<Status, Fault> {
    let command = Command { pos: Pos { line: 1, column: 1 }, text: text.to_owned() };
    shell.run(&command, kernel)
}

fn run(text: &str) -> (Result<Status, Fault>, Kernel, Shell) {
    let (mut kernel, mut shell) = (kernel(), Shell::new(PathBuf::new(), PathBuf::new()));
    let status = run_in(&mut shell, &mut kernel, text);
    (status, kernel, shell)
}

#[test]
fn settings_are_written_and_read() {
    let (status, kernel, shell) = run("../common/defaults.sh\n\
         ../common/set_sysctls.py /proc/sys/net/ipv4/tcp_timestamps=0 \\\n /proc/sys/net/ipv4/tcp_ecn=0x2\n\
         sysctl -q net.ipv4.tcp_rmem=\"4096 540000 $((15*1024*1024))\"   # a remark\n\
         echo 4 > /proc/sys/net/ipv4/tcp_min_tso_segs; cat /proc/sys/net/ipv4/tcp_min_tso_segs\n\
         sysctl -n net.ipv4.tcp_ecn | grep -q 2 && echo yes || echo no");
    assert_eq!(status, Ok(Status::SUCCESS));
    assert_eq!(shell.printed, "4\nyes\n");
    for (name, value) in [
        ("net.ipv4.tcp_timestamps", "0"),
        ("net.ipv4.tcp_rmem", "4096 540000 15728640"),
        ("net.ipv4.tcp_wmem", "4096 262144 4194304"),
        ("net.ipv4.tcp_congestion_control", "cubic"),
    ] {
        assert_eq!(kernel.get(name).as_deref(), Some(value), "{name}");
    }
}

#[test]
fn the_status_is_that_of_the_last_command() {
    for (text, status) in [
        ("true; false", 1),
        ("false; true", 0),
        ("false || true", 0),
        ("true && false", 1),
        ("exit 3; true", 3),
        ("nstat | grep TcpExtNothing > /dev/null", 1),
        ("nstat -n; sysctl net.ipv4.tcp_sack=x 2>&1 | grep -q Invalid", 0),
        ("tc qdisc add dev tun0 root pfifo; tc qdisc add dev tun0 root pfifo 2>/dev/null", 1),
        ("tc qdisc replace dev tun0 root pfifo limit 0", 0),
        ("ethtool -K tun0 tso off gso off", 0),
        ("ip link set dev tun0 mtu 9000", 0),
        ("/tmp/sysctl_restore_${PPID}.sh", 0),
        ("X=5; test_it=$X; echo $test_it | grep -q 5", 0),
        ("X=5 true; test -z \"$X\"", 0),
        ("bash -c 'false'", 1),
        (
            "sysctl -e -q -w net.ipv4.tcp_nothing=1 net.ipv4.tcp_ecn=1 && sysctl -n net.ipv4.tcp_ecn | grep 1",
            0,
        ),
        ("grep -q dctcp /proc/sys/net/ipv4/tcp_available_congestion_control", 0),
        ("ip addr add 10.0.0.1/8 dev tun0 && ip addr add 10.0.0.2/8 dev eth7", 1),
        ("ip tunnel add gre1 mode gre remote 192.0.2.1; ip link set gre1 up mtu 1400", 0),
        (
            "ip tunnel add x mode ipip remote 192.0.2.1; ip tunnel add x mode sit remote 192.0.2.1",
            1,
        ),
        ("grep \" 0A \" /proc/net/tcp | grep ':1F90'", 1),
    ] {
        assert_eq!(run(text).0, Ok(Status(status)), "{text}");
    }
}

#[test]
fn files_are_virtual() {
    let (status, _, mut shell) = run(
        "rm -f /tmp/x; dd bs=1 count=5 if=/dev/zero of=/tmp/x status=none; echo hi > /tmp/y; cat /tmp/y",
    );
    assert_eq!(status, Ok(Status::SUCCESS));
    assert_eq!(shell.printed, "hi\n");
    let files = shell.take_new_files();
    assert!(files.contains(&("/tmp/x".to_owned(), Some(5))), "{files:?}");
    assert!(!std::path::Path::new("/tmp/ackwright-drill-test").exists());
}

/// Nothing of the machine is read, written or run.
#[test]
fn there_is_no_way_out() {
    for text in [
        "cat /etc/passwd",
        "cat ../../secret",
        "./evil.sh",
        "../../bin/evil",
        "echo x > /etc/ackwright",
        "echo x > out",
        "dd if=/etc/passwd of=/tmp/x bs=1 count=1",
        "dd if=/dev/zero of=/etc/x bs=1 count=1",
        "dd if=/dev/zero of=/tmp/x bs=1G count=1G",
        "cat < /etc/passwd",
        "true &",
        "echo 'open",
    ] {
        let fault = run(text).0.expect_err(text);
        assert!(!fault.no_meaning, "{text}: {fault}");
        assert_eq!(fault.pos.line, 1);
    }
}

/// The language of the shell: what a real one prints is what ours prints.
#[test]
fn the_language_of_the_shell() {
    for (text, printed) in [
        ("if true; then echo a; else echo b; fi", "a\n"),
        ("if false; then echo a\nelif [ 1 -lt 2 ]; then echo b\nelse echo c\nfi", "b\n"),
        ("for i in 1 2 3; do echo $i; done", "1\n2\n3\n"),
        ("for i in $(seq 2); do for j in a b; do echo -n $i$j; done; done", "1a1b2a2b"),
        ("for ((i = 0; i < 3; i++)); do echo -n $i; done", "012"),
        ("i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo -n $i; done", "123"),
        ("i=3; until ((i == 0)); do ((i--)); done; echo $i", "0\n"),
        (
            "for i in 1 2 3 4; do [ $i = 2 ] && continue; [ $i = 4 ] && break; echo -n $i; done",
            "13",
        ),
        ("case ipv6 in ipv4) echo 4;; ipv[56]|x) echo 6;; *) echo no;; esac", "6\n"),
        ("f() { echo $# $1; return 3; }; f a b; echo $?", "2 a\n3\n"),
        ("function g { local x=1; echo $x; }; g", "1\n"),
        ("x=\"a  b\"; echo $x; echo \"$x\"", "a b\na  b\n"),
        ("x='$y'; y=2; echo $x \"$y\" '$y' \\$y", "$y 2 $y $y\n"),
        ("echo ${x:-def} ${x:=set} $x ${x:+yes} ${#x}", "def set set yes 3\n"),
        ("f=a/b.pkt; echo ${f#*/} ${f%.pkt} $(basename $f .pkt) $(dirname $f)", "b.pkt a/b b a\n"),
        ("set -- a 'b c' d; echo $#; shift; for i in \"$@\"; do echo $i; done", "3\nb c\nd\n"),
        ("echo a b > /tmp/x; read one two < /tmp/x; echo $two", "b\n"),
        ("printf '1\\n2\\n' | while read n; do echo $((n * 10)); done", "10\n20\n"),
        ("cat <<EOF | grep -c .\n$((1+1))\nb\nEOF\necho z", "2\nz\n"),
        ("cat <<'EOF'\n$x\nEOF", "$x\n"),
        ("grep b <<< 'abc'", "abc\n"),
        ("(x=1; exit 3); echo $? $x", "3\n"),
        ("{ echo a; echo b; } | wc -l", "2\n"),
        ("! false && echo yes", "yes\n"),
        ("false; echo $?; true; echo $?", "1\n0\n"),
        ("x=$(false); echo $?", "1\n"),
        ("[[ ipv4 == ipv* && 1 -lt 2 ]] && echo yes", "yes\n"),
        (
            "[ -f /proc/sys/net/ipv4/tcp_ecn ] && [ ! -e /proc/sys/net/ipv4/nothing ] && echo y",
            "y\n",
        ),
        (
            "echo 1 | tee /proc/sys/net/ipv4/tcp_ecn > /dev/null; cat /proc/sys/net/ipv4/tcp_ecn",
            "1\n",
        ),
        ("(echo out; echo err >&2) 2>/dev/null", "out\n"),
        ("echo a 1>&2 2>/dev/null | wc -l; (echo b >&2) 2>&1 | wc -l", "0\n1\n"),
        ("echo a > /tmp/f; echo b >> /tmp/f; cat /tmp/f", "a\nb\n"),
        ("eval 'a=1; echo $a'", "1\n"),
        ("echo a:b:c | cut -d: -f2; echo abc | tr a-b x", "b\nxxc\n"),
        ("echo '1 2 3' | awk '{print $2}'; echo a:b | awk -F: '/a/ {print $2, $1}'", "2\nb a\n"),
        ("set -e; if false; then :; fi; false || true; echo still", "still\n"),
        ("echo begin # and a remark; echo not\necho end", "begin\nend\n"),
    ] {
        let (status, _, shell) = run(text);
        assert!(status.is_ok(), "{text}: {status:?}");
        assert_eq!(shell.printed, printed, "{text}");
    }
}

#[test]
fn strict_scripts_end_where_a_command_fails() {
    let (status, _, shell) = run("set -e; echo a; false; echo b");
    assert_eq!((status, shell.printed.as_str()), (Ok(Status(1)), "a\n"));
}

/// Whatever does not end by itself is ended.
#[test]
fn endless_commands_end() {
    for text in [
        "while true; do :; done",
        "until false; do :; done",
        "while :; do x=$x$x.; done",
        "x=a; while :; do x=$x$x; done",
        "f() { f; }; f",
        "for ((;;)); do :; done",
        "x='eval $x'; eval $x",
        "seq 1000000000",
        "while true; do echo line >> /tmp/x; done",
        "bash -c 'while true; do true; done'",
    ] {
        assert!(run(text).0.is_err(), "{text}");
    }
    let deep = "(".repeat(10_000) + &")".repeat(10_000);
    assert!(run(&deep).0.is_err());
    assert!(run(&"$(".repeat(5_000)).0.is_err());
    assert!(run(&"if ".repeat(5_000)).0.is_err());
}

/// What is not a command of the language is told with its place.
#[test]
fn faults_of_the_language() {
    for (text, column) in [
        ("if true; echo", 14),
        ("done", 1),
        ("for ; do :; done", 5),
        ("case x in a echo;; esac", 13),
        ("echo $(true", 6),
        ("true && && true", 9),
        ("[ a = b", 1),
        ("echo ${x", 6),
    ] {
        let fault = run(text).0.expect_err(text);
        assert!(!fault.no_meaning, "{text}: {fault}");
        assert_eq!((fault.pos.line, fault.pos.column), (1, column + 1), "{text}: {fault}");
    }
}

/// What would need a kernel is told apart from what is wrong.
#[test]
fn what_is_not_modelled_skips() {
    for text in [
        "iptables -A INPUT -j DROP",
        "echo $(id)",
        "select x in a b; do true; done",
        "sysctl -q net.mptcp.enabled=1",
        "curl http://example.org",
        "cat /proc/cpuinfo",
        "awk 'BEGIN { while (1) {} }'",
        "ip neigh add 10.0.0.1 dev tun0",
        "ip tunnel add vti1 mode vti remote 10.0.0.1",
    ] {
        assert!(run(text).0.expect_err(text).no_meaning, "{text}");
    }
}

/// Scripts of the suite are read, with their arguments; faults in them name both places.
#[test]
fn scripts_of_the_suite() {
    let root = std::env::temp_dir().join(format!("ackwright-drill-scripts-{}", std::process::id()));
    std::fs::create_dir_all(root.join("tests")).expect("a folder");
    let file = |name: &str, text: &str| std::fs::write(root.join(name), text).expect("a file");
    file("init.sh", "#!/bin/bash\n. ./values.sh\nfor it in \"$@\"; do echo $VALUE $it; done\n");
    file("tests/values.sh", "VALUE=5\n");
    file("broken.sh", "true\nif true\n");
    file("loop.sh", "../loop.sh\n");
    let run = |text: &str| {
        let (mut kernel, mut shell) = (kernel(), Shell::new(root.join("tests"), root.clone()));
        (run_in(&mut shell, &mut kernel, text), shell)
    };
    let (status, shell) = run("../init.sh a 'b c'; echo -$VALUE");
    assert_eq!((status, shell.printed.as_str()), (Ok(Status::SUCCESS), "5 a\n5 b c\n-\n"));
    let fault = run("true\n../broken.sh").0.expect_err("broken");
    assert_eq!(fault.pos.line, 2);
    assert!(fault.what.starts_with("../broken.sh:3:"), "{fault}");
    assert!(run("../loop.sh").0.is_err());
    assert!(run("../../outside.sh").0.expect_err("outside").what.contains("below the directory"));
    std::fs::remove_dir_all(&root).expect("tidy");
}

/// A suite's own `defaults.sh` is read if it lies below the directory of the run, and only then.
#[test]
fn a_suites_own_defaults() {
    let root = std::env::temp_dir().join(format!("ackwright-drill-{}", std::process::id()));
    std::fs::create_dir_all(root.join("tests")).expect("a folder");
    std::fs::write(root.join("defaults.sh"), "sysctl -q net.ipv4.tcp_reordering=7").expect("file");
    let read = |root: PathBuf, folder: PathBuf| {
        let (mut kernel, mut shell) = (kernel(), Shell::new(folder, root));
        run_in(&mut shell, &mut kernel, "../defaults.sh").expect("runs");
        kernel.get("net.ipv4.tcp_reordering")
    };
    assert_eq!(read(root.clone(), root.join("tests")).as_deref(), Some("7"));
    assert_eq!(read(root.join("tests"), root.join("tests")).as_deref(), Some("3"));
    std::fs::remove_dir_all(&root).expect("tidy");
}

#[test]
fn faults_name_the_line_of_the_command() {
    let fault = run("true\n\n  cat /etc/passwd").0.expect_err("outside");
    assert_eq!(fault.pos, Pos { line: 3, column: 3 });
}

/// As Linux 6.18 was seen to do: a qdisc keeps the limit that it was made with, the next one takes the new one, and none is the
/// usual one.
#[test]
fn txqueuelen_is_the_limit_of_new_queues() {
    use datapath::qdisc::AnyQdisc;
    use datapath::qdisc::fifo::FifoKind;
    for (commands, limit) in [
        ("tc qdisc replace dev tun0 root pfifo", 500),
        ("ip link set dev tun0 txqueuelen 7; tc qdisc replace dev tun0 root pfifo", 7),
        ("tc qdisc replace dev tun0 root pfifo; ip link set tun0 qlen 7", 500),
        ("ip link set dev tun0 txqueuelen 0; tc qdisc replace dev tun0 root pfifo", 1_000),
        ("ip link set dev tun0 txqueuelen x; tc qdisc replace dev tun0 root pfifo", 500),
    ] {
        let (status, kernel, _) = run(commands);
        assert_eq!(status, Ok(Status::SUCCESS), "{commands}");
        let port = kernel.host.port(datapath::node::Port(0));
        let AnyQdisc::Fifo(fifo) = port.qdisc().qdisc() else { panic!("{commands}") };
        assert_eq!(fifo.kind(), FifoKind::Packets(limit), "{commands}");
    }
}
