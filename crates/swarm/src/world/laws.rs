//! What must hold for a world whenever it stops, and at its end.

use core::net::{IpAddr, SocketAddr};
use std::cell::RefCell;
use std::rc::Rc;

use datapath::host::Host;
use datapath::qdisc::Qdisc as _;
use datapath::tcp::SocketError;
use datapath::tcp::state::State;
use datapath::units::Duration;
use sim::link::NodeId;

use super::build::{self, micros};
use super::ledger::Entry;
use super::plan::{App, ChangeKind, Node, Offload};
use super::run::{HEALED_MTU, WorldRun, ports};
use super::wire::WireChecker;
use crate::case::Violation;

/// After that time no queue is so long that a round trip takes longer than a timeout.
const DRAINED_WITHIN: Duration = Duration::from_secs(10);
/// Sockets that one end of a flow may leave behind for each connection that it tries, TIME-WAIT
/// and half-open ones included.
const SOCKETS_PER_TRY: usize = 12;
/// Headers of a datagram below the link layer, the longer ones of IPv6, bytes.
const DATAGRAM_HEADERS: u32 = 48;

impl WorldRun<'_> {
    /// What must hold at every stop.
    pub(super) fn check(&self) -> Result<(), Violation> {
        self.work_is_limited()?;
        self.sockets_are_few()?;
        self.check_shared_buffers()?;
        let Some(witness) = &self.witness else { return Ok(()) };
        let witness = witness.borrow();
        if let Some(broken) = &witness.broken {
            return Err(broken.clone());
        }
        self.cookies_skip_bytes(&witness)?;
        self.links_lose_nothing(&witness)?;
        self.routers_lose_nothing(&witness)
    }

    fn sockets_are_few(&self) -> Result<(), Violation> {
        let tries = |flow: &super::plan::Flow| match flow.app {
            App::Talk { count, .. } => count as usize,
            App::Connect { count, .. } => count as usize,
            App::Query { ref more, .. } => 1 + more.len(),
            _ => 1,
        };
        for node in 0..self.case.nodes.len() {
            let flows = self.case.flows.iter().filter(|flow| flow.involves(node));
            let most: usize = flows.map(|flow| 1 + SOCKETS_PER_TRY * tries(flow)).sum();
            let open = self.built.world.host(NodeId(node as u32)).sockets.len();
            if open > most {
                let what = format!("node {node} has {open} sockets, {most} are plenty");
                return Err(Violation::new("work", self.at(), what));
            }
        }
        Ok(())
    }

    /// What waits at the ports of a node never exceeds the memory that they share, where no netem makes
    /// copies of what has been let in.
    fn check_shared_buffers(&self) -> Result<(), Violation> {
        if self.duplicates() {
            return Ok(());
        }
        for node in 0..self.case.nodes.len() {
            let host = self.built.world.host(NodeId(node as u32));
            let Some(buffer) = host.shared_buffer() else { continue };
            let waiting: u64 =
                ports(host).map(|port| u64::from(host.port(port).qdisc().backlog().bytes)).sum();
            let most = if self.cuts() { 3 * u64::from(buffer.bytes) } else { buffer.bytes.into() };
            if waiting > most {
                let what = format!("node {node}: {waiting} bytes wait in {buffer:?}");
                return Err(Violation::new("conservation", self.at(), what));
            }
        }
        Ok(())
    }

    /// Only a host that has taken a SYN cookie back may believe that it has bytes which never came.
    fn cookies_skip_bytes(&self, witness: &WireChecker) -> Result<(), Violation> {
        for (from, to) in &witness.skipped {
            let node = self.built.addresses.iter().position(|them| them.contains(&to.ip()));
            let host = node.map(|node| self.built.world.host(NodeId(node as u32)));
            if host.is_none_or(|host| host.tcp_mib().syn_cookies_recv == 0) {
                let what = format!("{to} acknowledges to {from} what has not come");
                return Err(Violation::new("wire", self.at(), what));
            }
        }
        Ok(())
    }

    /// What was put on a link has arrived, was dropped with a reason, or is on it.
    fn links_lose_nothing(&self, witness: &WireChecker) -> Result<(), Violation> {
        let world = &self.built.world;
        for (id, link) in world.links() {
            let books = witness.links[id.0 as usize];
            let entered = books.entered + link.stats.duplicated;
            let on_it = world.in_flight(id) as u64;
            let gone = books.left + books.dropped;
            // A super-packet on its way counts as one.
            let fits = entered >= gone + on_it && (on_it > 0 || entered == gone);
            if !fits || books.entered != link.stats.packets {
                let what = format!("{id:?}: {books:?}, {on_it} on it, {:?}", link.stats);
                return Err(Violation::new("conservation", self.at(), what));
            }
        }
        Ok(())
    }

    /// What arrived at a router, or was made there, has gone on, was dropped with a reason, was for
    /// the router itself, or waits.
    fn routers_lose_nothing(&self, witness: &WireChecker) -> Result<(), Violation> {
        if self.duplicates() {
            return Ok(());
        }
        for (node, _) in self.case.nodes.iter().enumerate().filter(|(_, node)| node.router) {
            let host = self.built.world.host(NodeId(node as u32));
            let books = witness.nodes[node];
            // No counter includes the fragments that a queue refuses.
            let cuts = |ipv6| {
                let snmp = host.snmp(ipv6);
                snmp.frag_creates + snmp.frag_fails > 0
            };
            if cuts(false) || cuts(true) {
                continue;
            }
            let entered = books.entered + host.stats.out_requests;
            let gone = books.left + books.dropped + host.stats.in_delivers;
            let waiting =
                ports(host).map(|port| u64::from(host.port(port).backlog().packets)).sum::<u64>()
                    + ports(host).map(|port| host.port(port).rx_waiting() as u64).sum::<u64>();
            if entered < gone + waiting || (waiting == 0 && entered != gone) {
                let what = format!("node {node}: {books:?}, {waiting} wait, {:?}", host.stats);
                return Err(Violation::new("conservation", self.at(), what));
            }
        }
        Ok(())
    }

    /// Whether a qdisc cuts super-packets after they have been let in. Each piece has headers of its own,
    /// which are at most twice as long as the least that TCP sends (`TCP_MIN_MSS` less its options).
    fn cuts(&self) -> bool {
        let joins = |node: &Node| node.gro || node.offload != Offload::Off;
        self.case.nodes.iter().any(joins)
            && ["tbf", "cake", "netem"].iter().any(|word| self.has_word(word))
    }

    /// Whether a qdisc makes copies.
    pub(super) fn duplicates(&self) -> bool {
        self.has_word("duplicate")
    }

    /// Whether words of `tc` contain this one.
    pub(super) fn has_word(&self, word: &str) -> bool {
        let says = |words: &String| words.contains(word);
        let changes = self.case.changes.iter().any(|change| match &change.what {
            ChangeKind::Tc { words, .. } => says(words),
            _ => false,
        });
        let ports = self.case.wires.iter().flat_map(|wire| [&wire.there, &wire.back]);
        changes || ports.flat_map(|port| &port.tc).any(says)
    }

    /// No connection waits for anything but a peer that is gone.
    pub(super) fn check_connections_ended(&self) -> Result<(), Violation> {
        let world = &self.built.world;
        for node in 0..self.case.nodes.len() {
            let host = world.host(NodeId(node as u32));
            for tcp in host.tcp_connections() {
                let (local, remote) = (tcp.local(), tcp.remote());
                let idle = tcp.unacked_bytes() == 0 && tcp.unsent_bytes() == 0;
                let waits =
                    matches!(tcp.state(), State::Established | State::CloseWait | State::FinWait2);
                if waits && idle && !self.has_connection(remote, local) {
                    continue;
                }
                let peer = self.connection_state(remote, local);
                let what = format!(
                    "node {node}: {local} to {remote} is {:?}, {} bytes unsent, {} unacknowledged, the peer {peer:?}",
                    tcp.state(),
                    tcp.unsent_bytes(),
                    tcp.unacked_bytes(),
                );
                return Err(Violation::new("liveness", self.at(), what));
            }
        }
        Ok(())
    }

    fn has_connection(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let state = self.connection_state(local, remote);
        state.is_some_and(|state| !matches!(state, State::Close | State::TimeWait))
    }

    fn connection_state(&self, local: SocketAddr, remote: SocketAddr) -> Option<State> {
        let mut all = self.host_at(local.ip())?.tcp_connections();
        all.find(|tcp| tcp.local() == local && tcp.remote() == remote)
            .map(datapath::tcp::Connection::state)
    }

    /// The host with this address.
    fn host_at(&self, address: IpAddr) -> Option<&Host> {
        let node = self.built.addresses.iter().position(|of_node| of_node.contains(&address))?;
        Some(self.built.world.host(NodeId(node as u32)))
    }

    /// All queues and links are empty, and every socket but listeners and those of datagrams is gone.
    pub(super) fn check_empty(&self) -> Result<(), Violation> {
        let world = &self.built.world;
        for node in 0..self.case.nodes.len() {
            let host = world.host(NodeId(node as u32));
            if let Some(tcp) = host.tcp_connections().next() {
                let what = format!(
                    "node {node}: {} to {} is {:?}",
                    tcp.local(),
                    tcp.remote(),
                    tcp.state()
                );
                return Err(Violation::new("liveness", self.at(), what));
            }
            for port in ports(host) {
                let backlog = host.port(port).backlog();
                if backlog.packets > 0 || backlog.bytes > 0 {
                    let what = format!("node {node}, {port:?}: {backlog:?} wait for ever");
                    return Err(Violation::new("liveness", self.at(), what));
                }
            }
        }
        self.check_frames_returned()?;
        for (id, _) in world.links() {
            if world.in_flight(id) > 0 {
                return Err(Violation::new("liveness", self.at(), format!("{id:?} is not empty")));
            }
        }
        Ok(())
    }

    /// Of the frames that packets have lain in none is held, and none is there but in pools of hosts.
    fn check_frames_returned(&self) -> Result<(), Violation> {
        let hosts =
            (0..self.case.nodes.len()).map(|node| self.built.world.host(NodeId(node as u32)));
        let (kept, held) = hosts.fold((0, 0), |(all_kept, all_held), host| {
            let (kept, held) = host.frames();
            (all_kept + kept, all_held + held)
        });
        let seen = |witness: &Rc<RefCell<WireChecker>>| {
            witness.borrow().frames.values().filter(|frame| frame.holders() > 0).count()
        };
        let left = self.witness.as_ref().map_or(0, seen);
        if held > 0 || left > kept {
            let what = format!("{left} frames are left, {kept} in pools, {held} of these held");
            return Err(Violation::new("conservation", self.at(), what));
        }
        Ok(())
    }

    /// No application reads what was not written, and one that sees end of file has read everything.
    pub(super) fn check_bytes(&self) -> Result<(), Violation> {
        let ledger = self.built.ledger.entries();
        for entry in ledger.iter().filter(|entry| entry.active) {
            let peers: Vec<&Entry> = ledger
                .iter()
                .filter(|it| (it.local, it.remote) == (entry.remote, entry.local))
                .collect();
            let again =
                ledger.iter().filter(|it| (it.local, it.remote) == (entry.local, entry.remote));
            let ([peer], 1) = (&peers[..], again.count()) else { continue };
            if self.skips_bytes(entry.local, entry.remote) {
                continue;
            }
            for (reader, writer) in [(entry, *peer), (*peer, entry)] {
                if let Some(offset) = reader.wrong {
                    let what = format!("byte {offset} is not the one that was written: {reader:?}");
                    return Err(Violation::new("bytes", self.at(), what));
                }
                let whole = !reader.eof || reader.read == writer.written;
                if reader.read > writer.written || !whole {
                    let what = format!("read: {reader:?}\nwritten: {writer:?}");
                    return Err(Violation::new("bytes", self.at(), what));
                }
            }
        }
        self.check_streams()?;
        for (flow, apps) in self.case.flows.iter().zip(&self.built.apps) {
            if let App::Request { response, .. } | App::Query { response, .. } = &flow.app {
                let client = self.built.world.report(apps.0);
                if client.received * response > client.received_bytes {
                    let what = format!("an answer is not whole: {flow:?}: {client:?}");
                    return Err(Violation::new("bytes", self.at(), what));
                }
            }
            let (App::Send { .. }, (sender, Some(sink))) = (&flow.app, apps) else { continue };
            if self.always_sends_cookies(flow.to) {
                // One comes back with a late segment when its connection is gone: what that carries
                // is read again.
                continue;
            }
            let (sent, read) = (self.built.world.report(*sender), self.built.world.report(*sink));
            if read.received_bytes > sent.sent_bytes {
                let what = format!("{flow:?}: {sent:?}, {read:?}");
                return Err(Violation::new("bytes", self.at(), what));
            }
        }
        Ok(())
    }

    /// The same for all other applications, where the run carries bytes. A SYN cookie that comes back late
    /// brings bytes again: where one was taken, nothing is said.
    fn check_streams(&self) -> Result<(), Violation> {
        let cookies =
            |address| self.host_at(address).is_some_and(|host| host.tcp_mib().syn_cookies_recv > 0);
        let all = || self.built.world.streams().flat_map(|(_, streams)| streams.all());
        for reader in all() {
            if cookies(reader.local.ip()) || cookies(reader.remote.ip()) {
                continue;
            }
            let ends = (reader.remote, reader.local);
            let mut writers = all().filter(|it| (it.local, it.remote) == ends);
            let (Some(writer), None) = (writers.next(), writers.next()) else { continue };
            let missing = reader.eof && reader.read < writer.written;
            if reader.wrong.is_some() || reader.read > writer.written || missing {
                let what = format!("read: {reader:?}\nwritten: {writer:?}");
                return Err(Violation::new("bytes", self.at(), what));
            }
        }
        Ok(())
    }

    /// Whether a node answers every SYN by a cookie (`tcp_syncookies`).
    fn always_sends_cookies(&self, node: usize) -> bool {
        let is_set = |words: &String| words.contains("tcp_syncookies=2");
        let changed = self.case.changes.iter().any(|change| match &change.what {
            ChangeKind::Sysctl { node: at, words } => *at == node && is_set(words),
            _ => false,
        });
        changed || self.case.nodes[node].sysctls.iter().any(is_set)
    }

    /// The user timeout of an entry's own end, if it has one, has passed without a word of the peer.
    fn is_in_a_hurry(&self, entry: &Entry, witness: &WireChecker) -> bool {
        let flow = &self.case.flows[entry.flow];
        let options = if entry.active { &flow.client } else { &flow.server };
        let patience = Duration::from_millis(options.user_timeout_ms.into());
        let silence =
            entry.failed_at.saturating_since(witness.last_arrival(entry.remote, entry.local));
        options.user_timeout_ms > 0 && silence >= patience
    }

    /// A tbf cuts a super-packet into a queue that drops another packet for each piece, and tells that
    /// all were lost (`tbf_segment`), though they will leave: TCP believes to have sent nothing, and no
    /// acknowledgment of it counts (`tcp_ack`).
    fn is_taken_for_lost(&self, entry: &Entry, witness: &WireChecker) -> bool {
        self.has_word("tbf") && witness.restarts_behind(entry.local, entry.remote)
    }

    /// Everything was healed, queues had run empty, and what the connection tried last got through.
    fn in_peace(&self, entry: &Entry, witness: &WireChecker) -> bool {
        let flow = &self.case.flows[entry.flow];
        let healed = micros(self.case.heal_us) + DRAINED_WITHIN;
        entry.failed_at > healed
            && flow.client.md5 == flow.server.md5
            && flow.client.user_timeout_ms == 0
            && flow.server.user_timeout_ms == 0
            && !witness.may_be_unanswered(entry.local, entry.remote)
    }

    fn skips_bytes(&self, from: SocketAddr, to: SocketAddr) -> bool {
        let Some(witness) = &self.witness else { return true };
        let witness = witness.borrow();
        let takes_cookies =
            self.host_at(to.ip()).is_some_and(|host| host.tcp_mib().syn_cookies_recv > 0);
        witness.skipped.contains(&(from, to))
            || takes_cookies && witness.overtaken.contains(&(from, to))
    }

    /// Every datagram that was sent has been read or was dropped with a reason, where none is copied,
    /// cut or damaged beyond recognition.
    pub(super) fn check_datagrams(&self) -> Result<(), Violation> {
        let Some(witness) = &self.witness else { return Ok(()) };
        let witness = witness.borrow();
        if self.duplicates() || self.has_word("corrupt") || self.copies() {
            return Ok(());
        }
        for (index, (flow, apps)) in self.case.flows.iter().zip(&self.built.apps).enumerate() {
            let (App::Cbr { size, .. } | App::Probe { size, .. }, (sender, Some(reader))) =
                (&flow.app, apps)
            else {
                continue;
            };
            if size + DATAGRAM_HEADERS > self.least_mtu() {
                continue;
            }
            let ends = build::ends_of(index, flow, &self.built.addresses);
            let dropped = witness.datagrams_dropped.get(&ends).copied().unwrap_or(0);
            let sent = self.built.world.report(*sender).sent;
            let read = self.built.world.report(*reader).received;
            if sent != read + dropped {
                let what =
                    format!("{ends:?}: {sent} datagrams sent, {read} read, {dropped} dropped");
                return Err(Violation::new("conservation", self.at(), what));
            }
        }
        Ok(())
    }

    /// Whether links make copies.
    fn copies(&self) -> bool {
        let mut links = self.case.wires.iter().flat_map(|wire| [&wire.there, &wire.back]);
        links.any(|link| link.impairments.copies())
    }

    /// The smallest MTU that there ever was.
    fn least_mtu(&self) -> u32 {
        let begun = self.case.wires.iter().map(|wire| wire.mtu);
        let changed = self.case.changes.iter().filter_map(|change| match change.what {
            ChangeKind::Mtu { mtu, .. } => Some(mtu),
            _ => None,
        });
        begun.chain(changed).chain([HEALED_MTU]).min().unwrap_or(HEALED_MTU)
    }

    /// Every error that an application got has its cause on the wire.
    pub(super) fn errors_are_explained(&self) -> Result<(), Violation> {
        let Some(witness) = &self.witness else { return Ok(()) };
        let witness = witness.borrow();
        for entry in self.built.ledger.entries().iter().filter(|entry| entry.failed) {
            let Some(error) = entry.error else { continue };
            let reset = witness.resets(entry.remote, entry.local) > 0;
            let told = witness.errors[entry.node as usize] > 0;
            let flow = &self.case.flows[entry.flow];
            let lost = witness.dropped(entry.local, entry.remote) > 0
                || flow.client.md5 != flow.server.md5;
            let explained = match error {
                SocketError::Reset | SocketError::BrokenPipe => reset || entry.aborted,
                SocketError::Refused => reset || told,
                // Where no socket is left, the reset is not signed, and so it is ignored.
                SocketError::TimedOut => {
                    let unheard = reset && flow.client.md5.is_some();
                    let excused = self.is_in_a_hurry(entry, &witness)
                        || self.is_taken_for_lost(entry, &witness);
                    (lost && !self.in_peace(entry, &witness)) || told || unheard || excused
                }
                _ => told || lost,
            };
            if !explained {
                let what = format!("{error:?} for no reason: {entry:?}");
                return Err(Violation::new("errno", self.at(), what));
            }
        }
        Ok(())
    }
}
