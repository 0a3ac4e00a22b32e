//! The applications' calls, and what their results say about flows.

use core::net::SocketAddr;
use core::task::Poll;

use datapath::socket::{Call as Waiting, Errno, Return, Syscall, number};
use datapath::tcp::state::State;

use super::bench::{Bench, LISTENER, SERVER};
use super::calls::Call;
use crate::case::BrokenLaw;
use crate::oracle::tcp::ObservedFlow;

impl Bench {
    pub(super) fn call(&mut self, call: &Call) -> Result<(), BrokenLaw> {
        if self.open.is_empty() && !matches!(call, Call::Socket) {
            return Ok(());
        }
        if matches!(call, Call::Key(_)) {
            // What GRO still holds is not signed.
            self.signs = true;
            self.flows.iter_mut().for_each(|flow| flow.taken.released());
        }
        self.by_default &= !matches!(call, Call::Set(_, _, number::TCP_NOTSENT_LOWAT, _));
        self.other_ecn |= matches!(call, Call::CongestionControl(_, name) if name == "dctcp");
        self.fast_open |= matches!(
            call,
            Call::ConnectWith(..) | Call::Set(_, _, number::TCP_FASTOPEN_CONNECT, _)
        );
        let slot = match self.open.len() {
            0 => 0,
            count => count - 1 - usize::from(call.slot()) % count,
        };
        let fd = self.open.get(slot).map_or(-1, |(fd, _)| *fd);
        let [here, there] = self.addresses;
        if let (Call::Shutdown(..), Some((_, Some(flow)))) = (call, self.open.get(slot)) {
            self.flows[*flow].shut = true;
        }
        let here = SocketAddr::new(here, LISTENER).into();
        let there = SocketAddr::new(there, SERVER).into();
        for syscall in call.syscalls(fd, here, there, self.ipv6) {
            let at = self.open.get(slot).and_then(|(_, flow)| *flow);
            let look = at.and_then(|at| self.view(at));
            let outcome = self.syscall(&syscall);
            self.digest.add(outcome.as_ref().map_or(u64::MAX, |done| done.value as u64));
            self.note(slot, &syscall, &outcome);
            self.note_writer(fd, call, &outcome);
            self.drain_output()?;
            self.check_read(slot)?;
            if let Some(at) = at.filter(|_| matches!(syscall, Syscall::Send { .. })) {
                self.check_sense(at, look.as_ref(), true)?;
            }
            if let Some(at) = at.filter(|_| matches!(syscall, Syscall::Receive { .. })) {
                self.check_opened(at, &outcome)?;
            }
        }
        if matches!(call, Call::Close(_) | Call::Abort(_)) && slot < self.open.len() {
            self.open.remove(slot);
        }
        Ok(())
    }

    /// Carries out a call that does not wait. One that would is given up.
    pub(super) fn syscall(&mut self, syscall: &Syscall) -> Result<Return, Errno> {
        let mut call = Waiting::from(syscall.clone());
        let living = self.living_before_a_cookie();
        let unread = self.no_longer_read(syscall);
        let outcome = match self.sockets.call(self.now, &mut self.host, &mut call) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => Err(Errno::EAGAIN),
        };
        for at in living {
            if !self.lives(at) {
                self.flows[at].on_ended_by_call();
            }
        }
        if let Some(at) = unread.filter(|at| self.lives(*at)) {
            self.flows[at].reads_no_more();
        }
        outcome
    }

    /// The flow whose connection has no reader any more after this call.
    fn no_longer_read(&self, syscall: &Syscall) -> Option<usize> {
        let fd = match *syscall {
            Syscall::Close { fd } => fd,
            Syscall::Shutdown { fd, how } if how != number::SHUT_WR => fd,
            _ => return None,
        };
        let connection = self.host.tcp_connection(self.sockets.host_socket(fd)?)?;
        if connection.state() == State::Close { None } else { self.find_flow(fd) }
    }

    fn lives(&self, at: usize) -> bool {
        self.state_of(at).is_some_and(|state| state != State::Close)
    }

    /// Flows that have a connection while something waits that may bring a cookie back.
    fn living_before_a_cookie(&self) -> Vec<usize> {
        if self.host.port(self.port).rx_waiting() == 0 {
            return Vec::new();
        }
        let both = |at: &usize| self.flows[*at].cookie_waits() && self.lives(*at);
        (0..self.flows.len()).filter(both).collect()
    }

    /// What a call says about flows.
    pub(super) fn note(&mut self, slot: usize, syscall: &Syscall, outcome: &Result<Return, Errno>) {
        match (syscall, outcome) {
            (Syscall::Socket { .. }, Ok(done)) => self.open.push((done.value as i32, None)),
            (Syscall::Accept { .. }, Ok(done)) => {
                let fd = done.value as i32;
                let flow = self.find_flow(fd);
                self.open.push((fd, flow));
            }
            (Syscall::Connect { .. } | Syscall::Send { .. }, outcome) => {
                let (fd, known) = self.open[slot];
                let flow = known.or_else(|| self.begin_flow(fd));
                self.open[slot].1 = flow;
                if let (Some(flow), Syscall::Send { .. }, Ok(done)) = (flow, syscall, outcome) {
                    self.flows[flow].written += done.value as u64;
                }
            }
            (Syscall::Receive { flags, .. }, Ok(done)) => {
                let counts = flags & (number::MSG_PEEK | number::MSG_OOB | number::MSG_ERRQUEUE);
                if let (0, Some(flow)) = (counts, self.open[slot].1) {
                    self.flows[flow].read += done.value as u64;
                }
            }
            _ => {}
        }
    }

    /// The ports of the connection behind a descriptor.
    pub(super) fn ports_of(&self, fd: i32) -> Option<(u16, u16)> {
        let connection = self.host.tcp_connection(self.sockets.host_socket(fd)?)?;
        Some((connection.local().port(), connection.remote().port()))
    }

    pub(super) fn find_flow(&self, fd: i32) -> Option<usize> {
        let ports = self.ports_of(fd)?;
        self.flows.iter().position(|flow| flow.ports == ports)
    }

    /// A socket has just sent a SYN: from here on its flow is another one.
    pub(super) fn begin_flow(&mut self, fd: i32) -> Option<usize> {
        let ports = self.ports_of(fd)?;
        self.flows.retain(|flow| flow.ports != ports || flow.written == 0);
        if let Some(at) = self.find_flow(fd) {
            return Some(at);
        }
        let peer_next = u32::from(ports.0).wrapping_mul(0x85eb_ca6b);
        let mut flow = ObservedFlow::new(ports, peer_next);
        flow.active = true;
        self.flows.push(flow);
        Some(self.flows.len() - 1)
    }

    pub(super) fn check_read(&self, slot: usize) -> Result<(), BrokenLaw> {
        let Some((_, Some(flow))) = self.open.get(slot) else { return Ok(()) };
        let flow = &self.flows[*flow];
        if flow.read <= flow.in_order() {
            return Ok(());
        }
        let what = format!("{} bytes were read, {} came in order", flow.read, flow.in_order());
        Err(("exact bytes", what))
    }
}
