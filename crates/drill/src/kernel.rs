//! What stands in for the kernel: a host with one interface, its descriptors, its settings.

use crate::ast::Direction;
use crate::kept_settings;
use crate::settings::Settings;
use crate::tunnel::Tunnel;
use core::net::{IpAddr, SocketAddr};
use datapath::fib::{Prefix, Route};
use datapath::host::{Host, Offloads, PortConfig};
use datapath::node::{Poll as Said, Port, Rx};
use datapath::packet::{GsoType, LinkHeader, Packet};
use datapath::qdisc::Sched;
use datapath::qdisc::fifo::PfifoFast;
use datapath::rng::Rng;
use datapath::socket::{Call, Errno, Fd, Return, Sockets, Syscall};
use datapath::tcp::config::{Sysctl, SysctlError, TcpConfig};
use datapath::trace::Event;
use datapath::units::Instant;
use iproute::ip::{Ip, IpError};
use iproute::tc::{Device, parse_qdisc};
use std::collections::{BTreeMap, VecDeque};
use std::task::Poll;

/// The name of the interface in scripts.
pub const DEVICE: &str = "tun0";

/// A host under test.
#[derive(Debug)]
pub struct Kernel {
    /// The stack.
    pub host: Host,
    /// The application's descriptors.
    pub sockets: Sockets,
    /// Now.
    pub now: Instant,
    /// What the host has sent, and when; the script takes it from here.
    pub sent: VecDeque<(Instant, Packet)>,
    /// Every packet that crossed the interface, and when.
    pub seen: Vec<(Direction, Instant, Packet)>,
    /// What the host's TCP told, if it is asked to ([`Host::set_tracing`]): when, after how many of
    /// the packets, and what.
    pub events: Vec<(Instant, usize, Event)>,
    /// Names and values of settings that were written and are only kept.
    kept: BTreeMap<String, String>,
    /// Counters at the last `nstat`.
    nstat: BTreeMap<String, u64>,
    port: Port,
    tunnels: Vec<Tunnel>,
    mtu: u32,
    /// `txqueuelen` of the interface.
    tx_queue_len: u32,
    local: IpAddr,
}

/// What became of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// It is set.
    Done,
    /// There is no such setting.
    Unknown,
    /// It does not take that value.
    Invalid(String),
}

impl Kernel {
    /// A fresh host at `now`.
    pub fn new(settings: &Settings, now: Instant) -> Self {
        let mut host = Host::new();
        host.set_tcp_defaults(TcpConfig::for_profile(settings.profile.clone()));
        let port = host.add_port(PortConfig {
            mtu: settings.mtu,
            addresses: vec![(settings.local, settings.local_prefix_len)],
            link: LinkHeader::None,
            queue_limit: TX_QUEUE_LEN,
            offloads: Offloads { gso: true, tso: true, gro: false },
            orphans: true,
            ..PortConfig::default()
        });
        let network = Prefix::containing(settings.remote, settings.remote_prefix_len)
            .expect("settings check prefix lengths");
        // A script may name a remote network that holds the local address already.
        let _ = host.fib_mut().append(Route::on_link(network, port.0));
        let mut kernel = Self {
            host,
            sockets: Sockets::new(),
            now,
            sent: VecDeque::new(),
            seen: Vec::new(),
            events: Vec::new(),
            kept: BTreeMap::new(),
            nstat: BTreeMap::new(),
            port,
            tunnels: Vec::new(),
            mtu: settings.mtu,
            tx_queue_len: TX_QUEUE_LEN,
            local: settings.local,
        };
        kernel.set_root_qdisc(Sched::new(
            datapath::qdisc::Handle::NONE,
            PfifoFast::new(TX_QUEUE_LEN),
        ));
        kernel.host.grant(now, port, 1);
        // Time may pass before the first call.
        kernel.drain_output();
        kernel
    }

    fn set_root_qdisc(&mut self, qdisc: Sched) {
        self.host.set_qdisc(self.now, self.port, qdisc);
    }

    /// Hands a packet to the host.
    pub fn receive(&mut self, packet: Packet) {
        self.seen.push((Direction::Inbound, self.now, packet.clone()));
        let from_tunnel =
            self.tunnels.iter().find_map(|tunnel| Some((tunnel.port, tunnel.unwrap(&packet)?)));
        match from_tunnel {
            None => self.receive_on(self.port, packet),
            Some((port, Some(inner))) => self.receive_on(port, inner),
            Some((_, None)) => {}
        }
        self.drain_output();
    }

    fn receive_on(&mut self, port: Port, mut packet: Packet) {
        if let Rx::Forward(out) = self.host.receive(self.now, port, &mut packet) {
            self.send(out, packet);
        }
    }

    /// The script has taken a packet sent at `at`. A packet socket shows it everything up to there,
    /// and lets go of it; what came in later it still holds.
    pub fn sniffed(&mut self, at: Instant) {
        let latest = self.seen.iter().rev().find(|seen| seen.0 == Direction::Inbound);
        if latest.is_none_or(|seen| seen.1 <= at) {
            self.host.packet_sockets_read();
        }
    }

    /// Carries a call on, and takes what the host sends by it.
    pub fn call(&mut self, call: &mut Call) -> Poll<Result<Return, Errno>> {
        let done = self.sockets.call(self.now, &mut self.host, call);
        self.drain_output();
        done
    }

    /// A call that never waits.
    pub fn call_now(&mut self, syscall: Syscall) -> Result<Return, Errno> {
        match self.call(&mut Call::from(syscall)) {
            Poll::Ready(done) => done,
            Poll::Pending => Err(Errno::EAGAIN),
        }
    }

    /// Takes all that the host has to say at this instant.
    pub fn drain_output(&mut self) {
        let mut place = Packet::default();
        loop {
            match self.host.poll(self.now, &mut place) {
                Said::Send { port, .. } => self.send(port, place.take()),
                Said::Event(event) => self.events.push((self.now, self.seen.len(), *event)),
                Said::Drop(_) | Said::Ready(_) => {}
                Said::Idle(_) => return,
            }
        }
    }

    fn send(&mut self, port: Port, packet: Packet) {
        let tunnel = self.tunnels.iter_mut().find(|tunnel| tunnel.port == port);
        let packet = match tunnel {
            Some(tunnel) => tunnel.wrap(&packet),
            None => packet,
        };
        // tun0 cannot cut what carries ACE: the stack does it (`NETIF_F_GSO_ACCECN`).
        let cut = packet.gso_type.contains(GsoType::ACC_ECN) && packet.meta.gso_size > 0;
        if cut {
            for segment in packet.segment() {
                self.seen.push((Direction::Outbound, self.now, segment.clone()));
                self.sent.push_back((self.now, segment));
            }
        } else {
            self.seen.push((Direction::Outbound, self.now, packet.clone()));
            self.sent.push_back((self.now, packet));
        }
        self.host.credit(self.now, port);
    }

    /// When the host wants to be called next; not before now.
    pub fn wake_at(&self) -> Option<Instant> {
        self.host.wake_at().map(|at| at.max(self.now))
    }

    /// Moves the clock and does what is due.
    pub fn advance(&mut self, to: Instant) {
        assert!(to >= self.now, "time ran backwards");
        self.now = to;
        self.drain_output();
    }

    // Settings.

    /// Writes a setting by its name (`net.ipv4.tcp_ecn`) or its file below `/proc/sys` or `/sys`.
    pub fn set(&mut self, name: &str, value: &str) -> Setting {
        let name = setting_name(name);
        let value = value.trim();
        let of_tcp = name.starts_with("net.ipv4.") || Sysctl::short_of_elsewhere(&name).is_some();
        let outcome = if of_tcp || name.starts_with("net.ipv6.ip6frag_") {
            match self.host.set_tcp_sysctl(&name, value) {
                Ok(()) => Setting::Done,
                Err(SysctlError::Value(why)) => Setting::Invalid(why),
                Err(SysctlError::Unknown) => stored_setting(&name, value),
            }
        } else if let Some(parameter) = name.strip_prefix("/sys/module/tcp_dctcp/parameters/") {
            match self.host.set_dctcp_parameter(parameter, value) {
                Ok(()) => Setting::Done,
                Err(SysctlError::Value(why)) => Setting::Invalid(why),
                Err(SysctlError::Unknown) => Setting::Unknown,
            }
        } else {
            stored_setting(&name, value)
        };
        if outcome == Setting::Done {
            self.kept.insert(name, value.to_owned());
        }
        outcome
    }

    /// Reads a setting.
    pub fn get(&self, name: &str) -> Option<String> {
        let name = setting_name(name);
        if let Some(value) = self.kept.get(&name) {
            return Some(value.clone());
        }
        if let Some(value) = self.host.ip_sysctl(&name) {
            return Some(value.to_string());
        }
        if let Some(default) = kept_settings::default(&name) {
            return Some(default.to_owned());
        }
        let mut config = self.host.tcp_defaults();
        let short = Sysctl::short_of_elsewhere(&name).or_else(|| name.strip_prefix("net.ipv4."));
        match short? {
            "tcp_congestion_control" => Some(config.congestion_control.name().to_owned()),
            "tcp_rmem" => Some(triple(config.sysctl.tcp_rmem)),
            "tcp_wmem" => Some(triple(config.sysctl.tcp_wmem)),
            short => config.sysctl.scalar_mut(short).map(|value| value.to_string()),
        }
    }

    /// `tc qdisc …`: what `tc` would print, or why it would fail.
    pub fn tc(&mut self, command: &str) -> Result<String, String> {
        let parsed = parse_qdisc(command).map_err(|error| error.to_string())?;
        if parsed.device != DEVICE {
            return Err(format!("Cannot find device \"{}\"", parsed.device));
        }
        let device = Device {
            psched_mtu: self.mtu,
            tx_queue_len: self.tx_queue_len,
            ..Device::of(&self.host.tcp_defaults().profile)
        };
        let done = self.host.change_qdisc(self.now, self.port, |root, cx| {
            parsed.apply(root, device, Rng::stream(1, 1), cx).map(|_| ())
        });
        self.drain_output();
        done.map(|()| String::new()).map_err(|refused| refused.to_string())
    }

    /// Changes the `txqueuelen` of an interface: qdiscs that are added from now on have it as their limit, and pfifo_fast has
    /// it at once (`dev_change_tx_queue_len`). 0 is the usual one again as soon as one is added (`qdisc_create`).
    pub fn set_tx_queue_len(&mut self, port: Port, packets: u32) {
        if port == self.port {
            self.tx_queue_len =
                if packets == 0 { datapath::qdisc::fifo::TX_QUEUE_LEN } else { packets };
        }
        self.host.change_qdisc(self.now, port, |root, cx| root.change_tx_queue_len(packets, cx));
        self.drain_output();
    }

    /// Changes the MTU of an interface.
    pub fn set_mtu(&mut self, port: Port, mtu: u32) {
        if port == self.port {
            self.mtu = mtu;
        }
        self.host.port_config_mut(port).mtu = mtu;
    }

    /// `ip tunnel add …`, `ip link add … type gre …`: why it would fail.
    ///
    /// # Errors
    /// What is wrong with it, or not modelled.
    pub fn add_tunnel(&mut self, words: &[&str]) -> Result<(), String> {
        let index = u16::try_from(self.host.port_count()).map_err(|_| "too many devices")?;
        let tunnel = Tunnel::read(words, Port(index), self.local)?;
        if self.tunnels.len() >= MAX_TUNNELS || self.device(&tunnel.name).is_some() {
            return Err(format!("add tunnel \"{}\" failed: File exists", tunnel.name));
        }
        let port = self.host.add_port(PortConfig {
            mtu: self.mtu - tunnel.overhead().min(self.mtu),
            addresses: Vec::new(),
            link: LinkHeader::None,
            queue_limit: TX_QUEUE_LEN,
            offloads: Offloads { gso: true, tso: false, gro: false },
            orphans: true,
            ..PortConfig::default()
        });
        // Packets that leave by a device without addresses have one of another device.
        self.host.set_addresses(port, vec![(self.local, 32)]);
        self.host.grant(self.now, port, 1);
        self.tunnels.push(tunnel);
        Ok(())
    }

    /// The interface of that name.
    pub fn device(&self, name: &str) -> Option<Port> {
        if name == DEVICE {
            return Some(self.port);
        }
        self.tunnels.iter().find(|tunnel| tunnel.name == name).map(|tunnel| tunnel.port)
    }

    /// `ip addr add ADDRESS/LEN dev DEVICE`.
    pub fn add_address(&mut self, port: Port, address: IpAddr, len: u8) {
        let network = Prefix::containing(address, len);
        let _ = self.host.fib_mut().append(Route::local(address, port.0));
        if let Some(network) = network.filter(|network| !network.is_host()) {
            let _ = self.host.fib_mut().append(Route::on_link(network, port.0));
        }
        let mut addresses = self.host.port(port).config.addresses.clone();
        addresses.insert(0, (address, len));
        self.host.set_addresses(port, addresses);
    }

    /// Changes the offloads of the interface (`ethtool -K`).
    pub fn set_offload(&mut self, name: &str, on: bool) -> bool {
        let offloads = &mut self.host.port_config_mut(self.port).offloads;
        match name {
            "tso" | "tcp-segmentation-offload" => offloads.tso = on,
            "gso" | "generic-segmentation-offload" => {
                offloads.gso = on;
                // Without GSO a device that takes super-packets cannot be given any.
                offloads.tso &= on;
            }
            "gro" | "generic-receive-offload" => offloads.gro = on,
            "tx" | "rx" | "sg" | "lro" | "rxvlan" | "txvlan" => {}
            _ => return false,
        }
        true
    }

    /// Every counter that `nstat` would print, with its value.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let of_ip = self.host.ip_counters().map(|(name, value)| (name.to_owned(), value));
        let mut list: Vec<_> = of_ip.collect();
        let mib = self.host.tcp_mib();
        list.extend(mib.entries().map(|(name, value)| (name.to_owned(), value)));
        list
    }

    /// Counters less what they were at the last `nstat`.
    pub fn counter_increments(&self) -> Vec<(String, u64)> {
        let before = |name: &str| self.nstat.get(name).copied().unwrap_or(0);
        self.counters()
            .into_iter()
            .map(|(name, value)| (name.clone(), value.saturating_sub(before(&name))))
            .collect()
    }

    /// Counts from here on.
    pub fn reset_counters(&mut self) {
        self.nstat = self.counters().into_iter().collect();
    }

    /// Lines of `/proc/net/tcp` (or `tcp6`): local end, remote end, state.
    pub fn proc_net_tcp(&self, ipv6: bool) -> Vec<(SocketAddr, SocketAddr, u8)> {
        let lines =
            self.host.tcp_sockets().map(|(local, remote, state)| (local, remote, state as u8));
        lines.filter(|(local, ..)| local.is_ipv6() == ipv6).collect()
    }

    /// The `TCP_INFO` of a descriptor and what goes with it.
    pub fn option(&mut self, fd: Fd, level: i32, name: i32) -> Option<Return> {
        self.call_now(Syscall::get(fd, level, name)).ok()
    }

    /// `ip tcp_metrics …`: what `ip` would print, or why it would fail.
    pub fn tcp_metrics(&mut self, words: &[&str]) -> Result<String, String> {
        iproute::tcp_metrics::run(&mut self.host, self.now, words)
    }

    /// `ip route …` or `ip rule …`: what `ip` would print, or why it would fail.
    pub fn ip(&mut self, command: &str) -> Result<String, IpError> {
        let mut ip = Ip { now: self.now, ..Ip::new() };
        core::mem::swap(&mut ip.fib, self.host.fib_mut());
        let port = ip.devices.add(DEVICE);
        for &(address, len) in &self.host.port(self.port).config.addresses {
            ip.devices.add_address(port, address, len);
        }
        for tunnel in &self.tunnels {
            let port = ip.devices.add(&tunnel.name);
            for &(address, len) in &self.host.port(tunnel.port).config.addresses {
                ip.devices.add_address(port, address, len);
            }
        }
        let done = ip.run(command);
        core::mem::swap(&mut ip.fib, self.host.fib_mut());
        self.drain_output();
        done
    }
}

/// A setting that is only kept.
fn stored_setting(name: &str, value: &str) -> Setting {
    if kept_settings::may_be(name, value) { Setting::Done } else { Setting::Unknown }
}

/// `net.ipv4.tcp_ecn`, `net/ipv4/tcp_ecn` and `/proc/sys/net/ipv4/tcp_ecn` are the same.
fn setting_name(name: &str) -> String {
    let name = name.strip_prefix("/proc/sys/").unwrap_or(name);
    match name.strip_prefix("/sys/") {
        Some(_) => name.to_owned(),
        None => name.replace('/', "."),
    }
}

fn triple([a, b, c]: [u32; 3]) -> String {
    format!("{a}\t{b}\t{c}")
}

const MAX_TUNNELS: usize = 16;

/// `txqueuelen` of a tun device.
const TX_QUEUE_LEN: u32 = 500;
