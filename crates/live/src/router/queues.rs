//! `tc` on the ports of a router.

use super::{Plan, Router};
use crate::commands::{CommandError, ShowOptions, TcRequest};
use datapath::host::{Host, PortConfig};
use datapath::node::Port;
use datapath::qdisc::fifo::{Fifo, FifoKind};
use datapath::rng::Rng;
use datapath::units::Instant;
use iproute::tc::{self, Device as TcDevice, FilterAction};
use iproute::words::Words;
use std::collections::BTreeMap;

fn wrong(message: impl Into<String>) -> CommandError {
    CommandError { column: 0, message: message.into() }
}

impl Router {
    /// Runs all `tc` lines of a plan on ports that carry nothing, to see whether they can be.
    pub(super) fn check_queues(&self, plan: &Plan) -> Result<(), (usize, String, CommandError)> {
        let mut scratch = Host::new();
        for attached in &self.ends {
            scratch
                .add_port(PortConfig { mtu: attached.end.device.mtu(), ..PortConfig::default() });
        }
        for (device, number, line) in &plan.queues {
            let port = self.names.port(device).map(Port).expect("the file was checked");
            run(&mut scratch, Instant::ZERO, port, self.tc_device(port), 1, line)
                .map_err(|wrong| (*number, line.clone(), wrong))?;
        }
        Ok(())
    }

    /// Carries the `tc` lines of a plan out for those devices whose lines are not what they were: a
    /// lone root of the same kind is changed as `tc qdisc change` does, anything else begins anew.
    pub(super) fn apply_queues(&mut self, now: Instant, lines: Vec<(String, usize, String)>) {
        let mut wanted: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (device, _, line) in lines {
            wanted.entry(device).or_default().push(line);
        }
        for device in self.device_names() {
            let (new, old) = (wanted.get(&device), self.queues.get(&device));
            if new == old {
                continue;
            }
            let port = self.names.port(&device).map(Port).expect("it is one of ours");
            let lines = new.cloned().unwrap_or_default();
            if let [line] = &lines[..]
                && let Some(replacing) = as_replace(line)
            {
                let device = self.tc_device(port);
                run(&mut self.host, now, port, device, self.settings.seed, &replacing)
                    .expect("the lines were checked");
                continue;
            }
            let limit = self.host.port(port).config.queue_limit;
            self.host.set_qdisc(now, port, Fifo::new(FifoKind::Packets(limit)).into());
            for line in &lines {
                let device = self.tc_device(port);
                run(&mut self.host, now, port, device, self.settings.seed, line)
                    .expect("the lines were checked");
            }
        }
        self.queues = wanted;
    }

    fn tc_device(&self, port: Port) -> TcDevice {
        let attached = self.end_of[usize::from(port.0)].map(|index| &self.ends[index]);
        let link =
            if attached.is_some_and(|attached| attached.end.device.is_ethernet()) { 14 } else { 0 };
        let mtu = attached.map_or(1_500, |attached| attached.end.device.mtu());
        TcDevice { psched_mtu: mtu + link, ..TcDevice::of(&self.settings.profile) }
    }

    /// One command: `tc [-s] [-d] [-j] [-p] qdisc|class show [dev NAME]`, or one that changes something.
    pub(super) fn tc(&mut self, now: Instant, command: &str) -> Result<String, CommandError> {
        let device = match TcRequest::read(command)? {
            TcRequest::Show { manner, device } => {
                let only = device.map(|name| self.port(name)).transpose()?;
                return Ok(self.show_queues(now, only, manner));
            }
            TcRequest::Qdisc => tc::parse_qdisc(command)?.device,
            TcRequest::Class => tc::parse_class(command)?.device,
            TcRequest::Filter => tc::parse_filter(command)?.device,
        };
        let port = self.port(&device)?;
        self.run_tc(now, port, command)
    }

    fn run_tc(&mut self, now: Instant, port: Port, command: &str) -> Result<String, CommandError> {
        let (device, seed) = (self.tc_device(port), self.settings.seed);
        let done = run(&mut self.host, now, port, device, seed, command);
        self.poll(now);
        // The file's lines are carried out again when it is read again.
        self.queues.remove(self.names.name(port.0));
        done.map(|()| String::new())
    }

    fn port(&self, name: &str) -> Result<Port, CommandError> {
        let known = self.ends.iter().find(|attached| attached.end.device.name() == name);
        known.map(|attached| attached.port).ok_or_else(|| {
            wrong(format!("no device \"{name}\": devices are {}", self.device_names().join(", ")))
        })
    }

    fn show_queues(&self, now: Instant, only: Option<Port>, manner: ShowOptions) -> String {
        let ends =
            self.ends.iter().filter(|attached| only.is_none_or(|port| port == attached.port));
        manner.show(
            now,
            ends.map(|attached| {
                (attached.end.device.name(), self.host.port(attached.port).qdisc())
            }),
        )
    }
}

/// `tc qdisc add dev … root …` as one that changes what is there, if it makes a root.
fn as_replace(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let root = words.contains(&"root") && words.get(1) == Some(&"qdisc");
    root.then(|| {
        let replaced = words.iter().enumerate();
        let words = replaced.map(|(at, word)| if at == 2 { "replace" } else { word });
        words.collect::<Vec<_>>().join(" ")
    })
}

/// Carries out a `tc` command that changes something on this port.
fn run(
    host: &mut Host,
    now: Instant,
    port: Port,
    device: TcDevice,
    seed: u64,
    command: &str,
) -> Result<(), CommandError> {
    match Words::new(command).find(|word| word.text != "tc").map_or("", |word| word.text) {
        "filter" => {
            let parsed = tc::parse_filter(command)?;
            if matches!(parsed.outcome, FilterAction::Police(_)) {
                return Err(wrong("policers are not supported by a router yet"));
            }
            let done = host.change_qdisc(now, port, |root, _| parsed.apply(root));
            let refused = || wrong("the filter's parent is not a qdisc that uses filters");
            done.then_some(()).ok_or_else(refused)
        }
        "class" => {
            let parsed = tc::parse_class(command)?;
            host.change_qdisc(now, port, |root, cx| parsed.apply(root, cx).map(drop))
                .map_err(|refused| wrong(refused.to_string()))
        }
        _ => {
            let parsed = tc::parse_qdisc(command)?;
            let rng = Rng::stream(seed, now.as_nanos() ^ u64::from(port.0));
            host.change_qdisc(now, port, |root, cx| parsed.apply(root, device, rng, cx).map(drop))
                .map_err(|refused| wrong(refused.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::qdisc::Sched;

    #[test]
    fn a_device_may_be_called_like_an_object_of_tc() {
        let mut host = Host::new();
        let port = host.add_port(PortConfig::default());
        for command in [
            "tc qdisc add dev filter root handle 1: htb",
            "tc class add dev filter parent 1: classid 1:1 htb rate 1mbit",
            "tc filter add dev class parent 1: protocol ip u32 match ip dport 80 0xffff flowid 1:1",
            "qdisc replace dev class parent 1:1 handle 2: pfifo",
        ] {
            let device = TcDevice::default();
            let done = run(&mut host, Instant::ZERO, port, device, 1, command);
            assert_eq!(done.map_err(|refused| refused.message), Ok(()), "{command}");
        }
        let kind = |(_, sched): (_, &Sched)| sched.qdisc().kind();
        let kinds: Vec<_> = host.port(port).qdisc().tree().into_iter().map(kind).collect();
        assert_eq!(kinds, ["htb", "pfifo"]);
    }
}
