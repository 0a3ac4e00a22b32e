//! The kernel's routes: taken over at the beginning, and kept in step with. A route that comes or goes is
//! one change; links, addresses, next hops and rules are few, and what follows from them the kernel does
//! not tell one by one (`fib_disable_ip`), so all is dumped again.

use super::{PortDevice, Router};
use crate::open::Fault;
use crate::rtnetlink::{self, MonitorEvent};
use crate::sys;
use datapath::fib::{LinkState, RouteFilter};
use datapath::host::PortConfig;
use datapath::node::Port;
use datapath::units::Instant;
use iproute::ip::import::{self, Numbers, RTM_NEWLINK};
use iproute::ip::netlink::{RTM_DELROUTE, RTM_NEWROUTE};

/// What is known of the kernel's routes.
#[derive(Debug)]
pub(super) struct RouteFollower {
    numbers: Numbers,
    /// Whole dumps, and changes of one route.
    pub dumps: u64,
    pub changes: u64,
}

const RTM_DELLINK: u16 = 17;
/// A message about a device itself.
const AF_UNSPEC: u8 = 0;

impl Router {
    /// Takes over all that the kernel has.
    pub(super) fn import(&mut self, now: Instant) -> Result<(), Fault> {
        let messages = rtnetlink::dump_all().map_err(|error| {
            Fault::Other(format!("cannot ask the kernel over rtnetlink: {error}"))
        })?;
        // Ours by their numbers: an interface that is renamed stays at its port.
        let number = |port: u16| {
            let ours = self.end_of.get(usize::from(port)).copied().flatten()?;
            self.ends[ours].end.device.index().map(|index| index as u32)
        };
        let named = |port| (self.names.name(port).to_owned(), number(port));
        let known: Vec<_> = self.names.ports().map(named).collect();
        let (ip, numbers, skipped) = import::import_onto(&known, &messages).map_err(|error| {
            Fault::Other(format!("cannot parse the kernel's rtnetlink answer: {error}"))
        })?;
        for what in skipped {
            crate::tell!("note: not imported: {what}");
        }
        for _ in self.host.port_count()..ip.devices.ports().count() {
            // What is not ours never has room.
            let port = self.host.add_port(PortConfig::default());
            self.host.set_port_up(now, port, false);
            self.end_of.push(None);
        }
        let mut fib = ip.fib;
        fib.set_settings(*self.host.fib().settings());
        let told = |attached: &PortDevice| {
            let device = &attached.end.device;
            let called = device.index().and_then(|index| sys::interface_name(index).ok());
            let [ignore_linkdown, ignore_linkdown_v6] =
                rtnetlink::ignores_linkdown(called.as_deref().unwrap_or(device.name()));
            let link = fib.link(attached.port.0);
            (attached.port, LinkState { ignore_linkdown, ignore_linkdown_v6, ..link })
        };
        let links: Vec<(Port, LinkState)> = self.ends.iter().map(told).collect();
        *self.host.fib_mut() = fib;
        self.names = ip.devices;
        for (port, link) in links {
            let works = link.up && link.carrier;
            if self.host.port(port).is_up() != works {
                self.host.set_port_up(now, port, works);
            }
            self.host.fib_mut().set_link(now, port.0, link);
            if !works {
                self.host.change_neighbours(now, |table| table.flush(port.0));
            }
        }
        if self.following.is_none() {
            let known = |(name, value): &(String, String)| !rtnetlink::is_random_seed(name, value);
            for (name, value) in rtnetlink::hash_settings().filter(known) {
                self.set_hash(now, &format!("{name}={value}"));
            }
        }
        for (_, body) in messages.iter().filter(|(kind, _)| *kind == RTM_NEWLINK) {
            self.mtu_changed(body);
        }
        let (dumps, changes) = self.following.as_ref().map_or((0, 0), |it| (it.dumps, it.changes));
        self.following = Some(RouteFollower { numbers, dumps: dumps + 1, changes });
        self.sync_addresses(now);
        Ok(())
    }

    /// The kernel has told something.
    pub(super) fn read_kernel_events(&mut self) -> Result<(), Fault> {
        let now = sys::now();
        let heard = self.monitor.read();
        let heard = heard.map_err(|error| Fault::Other(format!("rtnetlink: {error}")))?;
        let messages = match heard {
            MonitorEvent::Lost if self.following.is_some() => return self.import(now),
            // Only links are listened to, and they will tell again.
            MonitorEvent::Lost => return Ok(()),
            MonitorEvent::Messages(messages) => messages,
        };
        if self.following.is_none() {
            for (kind, body) in &messages {
                self.link_changed(now, *kind, body)?;
            }
            return Ok(());
        }
        if messages.iter().any(|(kind, _)| !matches!(*kind, RTM_NEWROUTE | RTM_DELROUTE)) {
            return self.import(now);
        }
        let done = messages.iter().all(|(kind, body)| self.route_changed(*kind, body));
        self.poll(now);
        // A change that does not fit what is here: begin anew.
        if done { Ok(()) } else { self.import(now) }
    }

    /// An interface has changed, or is gone: then nothing brings its device back.
    fn link_changed(&mut self, now: Instant, kind: u16, body: &[u8]) -> Result<(), Fault> {
        // A bridge tells of its ports by the same messages, in a family of its own.
        if !matches!(kind, RTM_NEWLINK | RTM_DELLINK) || body.first() != Some(&AF_UNSPEC) {
            return Ok(());
        }
        let Ok((number, _, link)) = import::read_link(body) else { return Ok(()) };
        // By its number: it may be called something else by now, and another what it was.
        let is_it = |attached: &PortDevice| attached.end.device.index() == Some(number as i32);
        let index = self.ends.iter().position(is_it);
        let Some(index) = index.filter(|&index| !self.ends[index].gone) else { return Ok(()) };
        if kind == RTM_DELLINK {
            return self.lose(now, index);
        }
        self.set_link(now, self.ends[index].port, link);
        self.mtu_changed(body);
        Ok(())
    }

    /// An interface has another MTU: what is too long for it is cut or refused with an ICMP error from now on, and
    /// does not vanish at the device. It grows no further than it was at the start, for which there are buffers.
    fn mtu_changed(&mut self, body: &[u8]) {
        let Some((number, mtu)) = import::read_mtu(body) else { return };
        let is_it = |attached: &&PortDevice| attached.end.device.index() == Some(number as i32);
        let Some(attached) = self.ends.iter().find(is_it) else { return };
        let (port, mtu) = (attached.port, mtu.min(attached.end.device.mtu()));
        if self.host.port(port).config.mtu != mtu {
            self.host.port_config_mut(port).mtu = mtu;
        }
    }

    /// One route has come or gone; false if that does not go with what is here.
    fn route_changed(&mut self, kind: u16, body: &[u8]) -> bool {
        let Some(following) = &mut self.following else { return false };
        let route = match import::read_route(body, &following.numbers) {
            Ok(Some(route)) => route,
            Ok(None) => return true,
            // What was not understood when it came was not taken over.
            Err(error) => return kind == RTM_DELROUTE && !error.is_malformed(),
        };
        following.changes += 1;
        // Whether it replaces another, and its place among equals, is in the header that was cut off: where
        // there is one of this prefix, table and metric already, a dump tells.
        let exact = RouteFilter::exactly(&route);
        if kind == RTM_DELROUTE {
            return self.host.fib_mut().delete(&exact).is_ok();
        }
        self.host.fib_mut().add(route).is_ok()
    }
}
