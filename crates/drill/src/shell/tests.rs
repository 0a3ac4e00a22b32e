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
        ("X=5 true; test_it=$X; echo $test_it | grep -q 5", 0),
        ("bash -c 'false'", 1),
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

/// What would need a kernel is told apart from what is wrong.
#[test]
fn what_is_not_modelled_skips() {
    for text in [
        "iptables -A INPUT -j DROP",
        "echo $(id)",
        "for i in 1 2; do true; done",
        "sysctl -q net.mptcp.enabled=1",
        "curl http://example.org",
        "ip addr add 10.0.0.1/8 dev tun0",
    ] {
        assert!(run(text).0.expect_err(text).no_meaning, "{text}");
    }
}

/// A suite's own `defaults.sh` is read if it lies below the folder of the run, and only then.
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
