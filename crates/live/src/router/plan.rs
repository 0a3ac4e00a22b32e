//! A file of lines in the words of `ip`, `tc` and `sysctl`, read as a whole: what is wrong in any line is
//! said before anything is changed.

use super::sysctl::{check_sysctl, is_own_sysctl};
use crate::commands::CommandError;
use iproute::ip::neigh::{self, NeighCommand, SetVerb};
use iproute::ip::{Ip, IpError};
use iproute::tc;
use iproute::words::{Word, Words};

/// What a file says.
#[derive(Debug, Default)]
pub struct Plan {
    /// Routes, rules, next hops, addresses.
    pub(super) ip: Ip,
    /// `sysctl` of the neighbour layer and of ICMP, by name.
    pub(super) sysctls: Vec<(String, String)>,
    pub(super) neighbours: Vec<NeighCommand>,
    /// Device, number of the line, and the command.
    pub(super) queues: Vec<(String, usize, String)>,
}

/// The line from 1, what it says, and what is wrong with it.
type RefusedLine = (usize, String, CommandError);

impl Plan {
    /// Reads lines for ports of these names. Empty lines and what is behind `#` mean nothing.
    ///
    /// # Errors
    /// The first line that makes no sense.
    pub fn read(text: &str, ports: &[String], follow_kernel: bool) -> Result<Self, RefusedLine> {
        let mut plan = Self::default();
        for name in ports {
            plan.ip.devices.add(name);
        }
        for (number, line) in (1..).zip(text.lines()) {
            let command = line.split('#').next().unwrap_or_default();
            plan.line(number, command, ports, follow_kernel)
                .map_err(|wrong| (number, line.to_owned(), wrong))?;
        }
        Ok(plan)
    }

    fn line(
        &mut self,
        number: usize,
        command: &str,
        ports: &[String],
        follow_kernel: bool,
    ) -> Result<(), CommandError> {
        let mut words = Words::new(command);
        words.accept("ip");
        let Some(first) = words.peek() else { return Ok(()) };
        match first.text {
            "tc" => {
                let object = Words::new(command).nth(1).map_or("", |word| word.text);
                let device = match object {
                    "qdisc" => tc::parse_qdisc(command)?.device,
                    "class" => tc::parse_class(command)?.device,
                    "filter" => tc::parse_filter(command)?.device,
                    _ => {
                        let column = first.column;
                        let message = "qdisc, class or filter is expected after tc".to_owned();
                        return Err(CommandError { column, message });
                    }
                };
                if !ports.contains(&device) {
                    let message =
                        format!("no device \"{device}\": devices are {}", ports.join(", "));
                    return Err(CommandError { column: first.column, message });
                }
                self.queues.push((device, number, command.trim().to_owned()));
            }
            "-4" | "-6" if is_neigh(words.clone().nth(1)) => {
                let family = Some(words.next().is_some_and(|word| word.text == "-6"));
                words.next();
                self.neighbour(&mut words, family)?;
            }
            _ if is_neigh(Some(first)) => {
                words.next();
                self.neighbour(&mut words, None)?;
            }
            "sysctl" => {
                words.next();
                for word in words.filter(|word| !word.text.starts_with('-')) {
                    let (name, value) = word.text.split_once('=').ok_or_else(|| CommandError {
                        column: word.column,
                        message: "expected NAME=VALUE".to_owned(),
                    })?;
                    let name = name.replace('/', ".");
                    if is_own_sysctl(&name) {
                        check_sysctl(&name, value)
                            .map_err(|message| CommandError { column: word.column, message })?;
                        self.sysctls.push((name, value.to_owned()));
                    } else {
                        let done = self.ip.run(&format!("sysctl {}", word.text));
                        done.map_err(|error| {
                            let wrong = of_ip(&error);
                            CommandError { column: word.column, ..wrong }
                        })?;
                        self.sysctls.push((name, value.to_owned()));
                    }
                }
            }
            // Files of `ackwright ip` begin with their interfaces.
            "link" | "l"
                if words.clone().any(|word| word.text == "add")
                    && words.clone().any(|word| ports.iter().any(|port| port == word.text)) => {}
            _ if follow_kernel => {
                let message = "routes and addresses are the kernel's here: change them with ip(8)";
                return Err(CommandError { column: first.column, message: message.to_owned() });
            }
            "link" | "l" if words.clone().any(|word| word.text == "add") => {
                let message = format!(
                    "a configuration cannot add devices; the router's are {}",
                    ports.join(", ")
                );
                return Err(CommandError { column: first.column, message });
            }
            _ => drop(self.ip.run(command).map_err(|error| of_ip(&error))?),
        }
        Ok(())
    }

    fn neighbour(
        &mut self,
        words: &mut Words<'_>,
        family: Option<bool>,
    ) -> Result<(), CommandError> {
        let parsed = neigh::parse(words, &self.ip.devices, family);
        self.neighbours.push(once_more(parsed.map_err(|error| of_ip(&error))?));
        Ok(())
    }
}

/// Whether this is the object of `ip neigh`.
pub(super) fn is_neigh(word: Option<Word<'_>>) -> bool {
    word.is_some_and(|word| matches!(word.text, "neigh" | "neighbour" | "neighbor" | "n"))
}

/// A file is read again: what it adds may be there from the last time.
fn once_more(command: NeighCommand) -> NeighCommand {
    match command {
        NeighCommand::Set { verb: SetVerb::Add, key, mac, state } => {
            NeighCommand::Set { verb: SetVerb::Replace, key, mac, state }
        }
        other => other,
    }
}

/// What `ip` says of a command.
pub(super) fn of_ip(error: &IpError) -> CommandError {
    match error {
        IpError::Grammar(error) => error.clone().into(),
        other => {
            let text = other.to_string();
            let message = text.strip_prefix("Error: ").unwrap_or(&text).to_owned();
            CommandError { column: 0, message }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
link add a
address add 10.0.1.1/24 dev a   # ours
ip address add 10.0.2.1/24 dev b
ip route add default via 10.0.2.2
sysctl net.ipv4.fib_multipath_hash_policy=1 net.ipv4.neigh.default.gc_stale_time=30
neigh replace 10.0.1.9 lladdr 02:00:00:00:00:09 dev a
tc qdisc add dev b root cake bandwidth 10mbit
";

    fn read(text: &str, follow: bool) -> Result<Plan, RefusedLine> {
        Plan::read(text, &["a".to_owned(), "b".to_owned()], follow)
    }

    #[test]
    fn a_file_is_read() {
        let plan = read(FILE, false).expect("it is right");
        assert_eq!(plan.ip.devices.addresses(1), [("10.0.2.1".parse().expect("an address"), 24)]);
        assert_eq!((plan.sysctls.len(), plan.neighbours.len(), plan.queues.len()), (2, 1, 1));
    }

    #[test]
    fn faults_are_reported_with_position() {
        for (line, column) in [
            ("route add default via 10.0.2.2 devv b", 31),
            ("tc qdisc add dev c root pfifo", 0),
            ("neigh add 10.0.1.9 lladdr 2 dev a", 26),
            ("sysctl net.ipv4.neigh.default.gc_stale_time=x", 7),
            ("link add c", 0),
        ] {
            let text = format!("{FILE}{line}\n");
            let (number, said, wrong) = read(&text, false).expect_err(line);
            assert_eq!(
                (number, said.as_str(), wrong.column),
                (8, line, column),
                "{}",
                wrong.message
            );
        }
        let (number, ..) = read(FILE, true).expect_err("routes are the kernel's");
        assert_eq!(number, 2);
    }
}
