//! The same commands to our `ip` and to the running kernel's, in a network namespace of its own:
//! every answer and every listing must be equal, character by character.
//!
//! Needs root and iproute2; where either is missing the test says so and compares nothing.

use iproute::ip::Ip;
use std::io::{Write as _, stderr};
use std::process::{Command, Output};

/// The commands that give both the same interfaces.
const SETUP: &str = "
link add a1
link add a2
link add a3
link add in0
address add 10.0.1.1/24 dev a1
address add 10.0.2.1/24 dev a2
address add 10.0.3.1/24 dev a3
address add 10.9.0.1/16 dev in0
address add fd00:1::1/64 dev a1
address add fd00:2::1/64 dev a2
address add fd00:3::1/64 dev a3
address add fd09::1/16 dev in0
";

/// What both are told, one after the other. Refused commands must be refused by both.
const COMMANDS: &str = include_str!("kernel/commands.txt");

/// Asked of both at the end; the answers must be equal.
const QUESTIONS: &str = include_str!("kernel/questions.txt");

struct Namespace(String);

impl Namespace {
    /// A fresh namespace with the interfaces of [`SETUP`], or why there is none.
    fn new() -> Result<Self, String> {
        let name = format!("ackwright-ip-{}", std::process::id());
        run("ip", &["netns", "add", &name])?;
        let namespace = Self(name);
        namespace.set_up()?;
        Ok(namespace)
    }

    fn set_up(&self) -> Result<(), String> {
        self.must("link set lo up")?;
        for line in SETUP.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(device) = line.strip_prefix("link add ") {
                self.must(&format!("link add {device} type veth peer name p{device}"))?;
                for end in [device.to_owned(), format!("p{device}")] {
                    self.must(&format!("link set {end} addrgenmode none"))?;
                    self.must(&format!("link set {end} up"))?;
                }
            } else if line.contains(':') {
                self.must(&format!("-6 {line} nodad"))?;
            } else {
                self.must(&line.replacen("address add", "address add broadcast +", 1))?;
            }
        }
        for setting in [
            "net.ipv4.ip_forward=1",
            "net.ipv6.conf.all.forwarding=1",
            "net.ipv4.conf.all.rp_filter=0",
            "net.ipv4.fib_multipath_hash_seed=1",
        ] {
            run("ip", &["netns", "exec", &self.0, "sysctl", "-qw", setting])?;
        }
        Ok(())
    }

    fn ip(&self, command: &str) -> Output {
        let mut arguments = vec!["-n", &self.0];
        arguments.extend(command.split_whitespace());
        Command::new("ip").args(arguments).output().expect("ip ran a moment ago")
    }

    fn must(&self, command: &str) -> Result<(), String> {
        let output = self.ip(command);
        let problem = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(format!("ip {command}: {problem}")) }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output().map_err(|e| e.to_string())?;
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{program} {arguments:?}: {problem}"))
    }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

#[test]
fn the_kernel_agrees() {
    let kernel = match Namespace::new() {
        Ok(kernel) => kernel,
        Err(reason) => {
            // Past the capture of a passing test: scripts/steps.py lists it.
            let _ = writeln!(stderr(), "SKIPPED: the kernel's ip: no network namespace: {reason}");
            return;
        }
    };
    let mut ours = Ip::new();
    ours.run_all(SETUP).expect("the setup is valid");
    let mut differences = Vec::new();
    for command in lines(COMMANDS) {
        let theirs = kernel.ip(command);
        let refused = String::from_utf8_lossy(&theirs.stderr).trim().to_owned();
        let result = ours.run(command);
        if theirs.status.success() != result.is_ok() {
            differences.push(format!("ip {command}\n  kernel: {refused:?}\n  ours: {result:?}"));
        }
        // Words are refused with a column and a suggestion more than `ip` gives.
        if let Err(error @ (iproute::ip::IpError::Fib(_) | iproute::ip::IpError::Answer(_))) =
            result
            && error.to_string() != refused
        {
            differences.push(format!("ip {command}\n  kernel: {refused}\n  ours:   {error}"));
        }
    }
    for question in lines(QUESTIONS) {
        let theirs = kernel.ip(question);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        let expected = if theirs.stdout.is_empty() { &theirs.stderr } else { &theirs.stdout };
        let (expected, got) = (
            text(expected),
            match ours.run(question) {
                Ok(answer) => answer.trim_end().to_owned(),
                Err(error) => error.to_string(),
            },
        );
        if expected != got {
            differences.push(format!("ip {question}\n--- kernel\n{expected}\n--- ours\n{got}"));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n\n"));
}
