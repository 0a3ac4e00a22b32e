//! A router over several devices: a [`Host`] that forwards, turned by the law of the datapath.
//!
//! | module | what it holds |
//! |---|---|
//! | `plan` | a file of `ip`, `tc` and `sysctl` lines, read and checked as a whole |
//! | `commands` | the same words at run time |
//! | `queues` | `tc` on the ports |
//! | `follow` | the kernel's routes, kept in step with |
//! | `turn` | the loop |
//! | `report` | what has passed, as text and JSON |
//!
//! Ports are interfaces by name, in the order in which they were given, and if the kernel's routes are
//! followed all others of the kernel's behind them: packets for those are dropped.

mod commands;
mod follow;
mod plan;
mod queues;
mod report;
mod sysctl;
mod turn;

pub use plan::Plan;

use crate::account::Lateness;
use crate::commands::CommandError;
use crate::control::Control;
use crate::device::{Device, Pools, RING};
use crate::end::{Phase, PolledDevice};
use crate::open::Fault;
use crate::rtnetlink::Monitor;
use crate::sys::{self, Epoll, Timer};
use datapath::fib::{LinkState, Settings as FibSettings};
use datapath::host::{Host, IcmpLimits, PortConfig};
use datapath::neighbour::{Neighbours, Settings as NeighbourSettings};
use datapath::node::Port;
use datapath::packet::{LinkHeader, MacAddr, Packet};
use datapath::profile::Profile;
use datapath::reason::Reason;
use datapath::rng::Rng;
use datapath::units::{Duration, Instant};
use follow::RouteFollower;
use iproute::ip::Devices;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// How a router is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Routes and addresses are the kernel's, which answers for itself; else they are in the file.
    pub follow_kernel: bool,
    /// The file, to be read again.
    pub file: Option<PathBuf>,
    /// How long queues may drain once the end has come.
    pub drain: Duration,
    /// If a queue wants to be asked again sooner than this, the loop looks and does not sleep.
    pub busy_poll: Duration,
    /// Seed of random numbers.
    pub seed: u64,
    /// The kernel that it is to be like: limits of ICMP errors, and what queues have from the kernel.
    pub profile: Profile,
}

/// A router that runs.
#[derive(Debug)]
pub struct Router {
    host: Host,
    names: Devices,
    ends: Vec<PortDevice>,
    /// By port, which of `ends` it is; ports that are not ours have none.
    end_of: Vec<Option<usize>>,
    settings: Settings,
    /// The `tc` lines that were carried out last, by device.
    queues: BTreeMap<String, Vec<String>>,
    following: Option<RouteFollower>,
    monitor: Monitor,
    pools: Pools,
    epoll: Epoll,
    timer: Timer,
    /// Readable once the end has come; never waited for.
    stop: UnixStream,
    control: Option<Control>,
    dropped: BTreeMap<Reason, u64>,
    left: u64,
    lateness: Lateness,
    began: Instant,
    phase: Phase,
    packets: Vec<Packet>,
}

/// The device of a port.
#[derive(Debug)]
struct PortDevice {
    end: PolledDevice,
    port: Port,
    mac: Option<MacAddr>,
    refused: u64,
    gone: bool,
}

/// Tokens of devices come behind those of the control socket and its clients.
const DEVICES: u64 = 1 << 16;

impl Router {
    /// A router between these devices, with routes from the kernel or none yet.
    ///
    /// # Errors
    /// The kernel does not tell its routes, or has no descriptors left.
    pub fn new(
        devices: Vec<Device>,
        pools: Pools,
        stop: UnixStream,
        settings: Settings,
    ) -> Result<Self, Fault> {
        let kernel = |what: &str, error: &io::Error| {
            Fault::Other(format!("{what}: the kernel refuses: {error}"))
        };
        // Subscribe before the dump, so that no change in between is missed.
        let monitor =
            Monitor::new(settings.follow_kernel).map_err(|error| kernel("rtnetlink", &error))?;
        let mut host = Host::new();
        host.forwarding = true;
        host.set_icmp_limits(IcmpLimits::of(&settings.profile), Rng::stream(settings.seed, 1));
        let prefers_source = settings.profile.multipath_prefers_source;
        let hashed = *host.fib().settings();
        host.fib_mut().set_settings(FibSettings { prefers_source, ..hashed });
        let table = Neighbours::new(NeighbourSettings::default(), Rng::stream(settings.seed, 2));
        host.enable_neighbours(table, settings.follow_kernel);
        let mut names = Devices::new();
        let mut ends = Vec::new();
        for (index, device) in (0_u16..).zip(devices) {
            names.add(device.name());
            let mac = device.is_ethernet().then(|| mac_of(&device)).transpose();
            let mac = mac.map_err(|error| kernel(device.name(), &error))?;
            let port = Port(index);
            let link = mac.map_or(LinkHeader::None, |src| LinkHeader::Ethernet {
                dst: MacAddr::default(),
                src,
            });
            host.add_port(PortConfig { mtu: device.mtu(), link, ..PortConfig::default() });
            let end = PolledDevice::new(device, DEVICES + u64::from(index));
            ends.push(PortDevice { end, port, mac, refused: 0, gone: false });
        }
        let now = sys::now();
        let mut router = Self {
            end_of: (0..ends.len()).map(Some).collect(),
            host,
            names,
            ends,
            settings,
            queues: BTreeMap::new(),
            following: None,
            monitor,
            pools,
            epoll: Epoll::new().map_err(|error| kernel("epoll", &error))?,
            timer: Timer::new().map_err(|error| kernel("timerfd", &error))?,
            stop,
            control: None,
            dropped: BTreeMap::new(),
            left: 0,
            lateness: Lateness::default(),
            began: now,
            phase: Phase::Running,
            packets: Vec::with_capacity(2 * RING),
        };
        for index in 0..router.ends.len() {
            let port = router.ends[index].port;
            router.host.grant(now, port, RING as u32);
            router.host.set_neighbour_link(now, port);
        }
        router.poll(now);
        if router.settings.follow_kernel {
            router.import(now)?;
        }
        Ok(router)
    }

    /// Names of the devices, in the order of their ports.
    pub fn device_names(&self) -> Vec<String> {
        self.ends.iter().map(|attached| attached.end.device.name().to_owned()).collect()
    }

    /// Carries a file's lines out. Before the run and when it is read again: what the file does not say
    /// any more is gone then, and queues that it says as before are left alone.
    ///
    /// # Errors
    /// The line from 1, the line itself and what is wrong with it; nothing is changed then.
    pub fn load(&mut self, text: &str) -> Result<(), (usize, String, CommandError)> {
        let plan = Plan::read(text, &self.device_names(), self.settings.follow_kernel)?;
        self.check_queues(&plan)?;
        let now = sys::now();
        if !self.settings.follow_kernel {
            self.install(now, &plan);
        }
        for (name, value) in &plan.sysctls {
            self.set_sysctl(now, name, value);
        }
        for command in &plan.neighbours {
            // Who is there already, or gone already, is as the file wants it.
            let _ = self.change_neighbours(now, command);
        }
        self.apply_queues(now, plan.queues);
        self.poll(now);
        Ok(())
    }

    /// Routes, rules, next hops and addresses of a plan take the place of those that are.
    fn install(&mut self, now: Instant, plan: &Plan) {
        let mut names = plan.ip.devices.clone();
        let mut fib = plan.ip.fib.clone();
        for attached in &self.ends {
            add_link_local(&mut names, &mut fib, attached);
        }
        for attached in &self.ends {
            let (was, wanted) = (self.host.fib().link(attached.port.0), fib.link(attached.port.0));
            let link = LinkState { up: was.up, carrier: was.carrier, ..wanted };
            fib.set_link(now, attached.port.0, link);
        }
        let prefers_source = self.settings.profile.multipath_prefers_source;
        let hashed = *fib.settings();
        fib.set_settings(FibSettings { prefers_source, ..hashed });
        *self.host.fib_mut() = fib;
        self.names = names;
        self.sync_addresses(now);
    }

    /// The host's ports have the addresses that stand by the names.
    fn sync_addresses(&mut self, now: Instant) {
        for index in 0..self.ends.len() {
            let port = self.ends[index].port;
            let addresses = self.names.addresses(port.0).to_vec();
            if self.host.port(port).config.addresses != addresses {
                // The routes have been told of all addresses, those of `lo` among them.
                self.host.port_config_mut(port).addresses = addresses;
                self.host.set_neighbour_link(now, port);
            }
        }
        self.poll(now);
    }

    /// Commands may come by this socket.
    pub fn listen(&mut self, control: Control) {
        self.control = Some(control);
    }

    /// An interface has gone up or down, or its carrier has come or gone.
    fn set_link(&mut self, now: Instant, port: Port, link: LinkState) {
        let was = self.host.fib().link(port.0);
        let link = LinkState { up: link.up, carrier: link.carrier, ..was };
        let works = link.up && link.carrier;
        if self.host.port(port).is_up() != works && self.end_of[usize::from(port.0)].is_some() {
            self.host.set_port_up(now, port, works);
        }
        if self.host.fib().link(port.0) != link {
            self.host.fib_mut().set_link(now, port.0, link);
        }
        if !link.up {
            self.host.change_neighbours(now, |table| table.flush(port.0));
        } else if !works {
            self.host.change_neighbours(now, |table| table.flush_learnt(port.0));
        }
        self.poll(now);
    }
}

/// `fe80::/64` with the interface identifier that the kernel makes of an Ethernet address
/// (`addrconf_ifid_eui48`), unless the file has given the port an address of the link.
fn add_link_local(names: &mut Devices, fib: &mut datapath::fib::Fib, attached: &PortDevice) {
    let Some(MacAddr([a, b, c, d, e, f])) = attached.mac else { return };
    let of_link = |(address, _): &(IpAddr, u8)| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    let addresses = names.addresses(attached.port.0);
    let v6 = addresses.iter().any(|(address, _)| address.is_ipv6());
    if !v6 || addresses.iter().any(of_link) {
        return;
    }
    let octets = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f];
    let mut ip = iproute::ip::Ip {
        fib: std::mem::take(fib),
        devices: std::mem::take(names),
        ..iproute::ip::Ip::default()
    };
    let name = attached.end.device.name();
    let words = format!("address add {}/64 dev {name}", Ipv6Addr::from(octets));
    // Two ports have the same network: the first has its route.
    let _ = ip.run(&words);
    (*fib, *names) = (ip.fib, ip.devices);
}

/// The Ethernet address by which we send: that of an interface; an own one beside the kernel's end of a TAP
/// device.
fn mac_of(device: &Device) -> io::Result<MacAddr> {
    if let Device::Packet(_) | Device::Xdp(_) = device {
        return sys::hardware_address(device.name()).map(MacAddr);
    }
    // Administered here, and the same each time: FNV-1a of the name.
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = device.name().bytes().fold(0xcbf2_9ce4_8422_2325, fold);
    let [a, b, c, d, e, ..] = hash.to_be_bytes();
    Ok(MacAddr([2, a, b, c, d, e]))
}
