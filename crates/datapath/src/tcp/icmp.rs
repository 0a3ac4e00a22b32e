//! What ICMP errors mean to a connection (`tcp_v4_err`, `tcp_v6_err`), and why connections fail.

use super::error_queue::{ConnectError, ErrorQueueEntry};
use super::state::State;
use super::{Connection, Cx, config::PmtuDiscovery};
use crate::metrics::PathMtu;
use crate::node::SocketReady;
use crate::packet::icmp::{kind, kind_v6};
use crate::packet::seq::Seq;
use crate::trace::Cause;
use core::net::IpAddr;

/// Why a connection failed (`sk_err`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketError {
    /// `ECONNRESET`.
    Reset,
    /// `ECONNREFUSED`.
    Refused,
    /// `ETIMEDOUT`.
    TimedOut,
    /// `EPIPE`.
    BrokenPipe,
    /// `ENETUNREACH`.
    NetUnreachable,
    /// `EHOSTUNREACH`.
    HostUnreachable,
    /// `EHOSTDOWN`.
    HostDown,
    /// `ENONET`: the host is not on the network.
    HostIsolated,
    /// `ENOPROTOOPT`: the host knows no TCP.
    ProtocolUnreachable,
    /// `EMSGSIZE`: too large for the path.
    MessageSize,
    /// `EOPNOTSUPP`: the source route failed.
    SourceRoute,
    /// `EPROTO`: a parameter problem.
    Parameter,
    /// `EACCES`: forbidden on the way.
    Forbidden,
    /// `ECONNABORTED`: the application gave it up.
    Aborted,
    /// `EADDRNOTAVAIL`: no port is free.
    AddressNotAvailable,
}

/// An ICMP error about one of a connection's segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// It came as ICMPv6.
    pub ipv6: bool,
    /// Its type.
    pub kind: u8,
    /// Its code.
    pub code: u8,
    /// MTU of the next hop, where there is one, bytes.
    pub mtu: u32,
    /// Sequence number that it quotes.
    pub seq: Seq,
}

/// What an ICMP error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Nothing for TCP.
    Nothing,
    /// Packets are too large for the path.
    TooBig,
    /// Something is wrong; `revert`: timeouts so far were the fault of the route (RFC 6069).
    Error { error: SocketError, revert: bool },
}

/// IPv6's minimum MTU.
pub(crate) const MTU_MIN_V6: u32 = 1_280;

impl IcmpError {
    /// `icmp_err_convert`, `icmpv6_err_convert`.
    fn meaning(self) -> Meaning {
        use SocketError as E;
        let error = |error| Meaning::Error { error, revert: false };
        if self.ipv6 {
            return match (self.kind, self.code) {
                (kind_v6::PACKET_TOO_BIG, _) => Meaning::TooBig,
                (kind_v6::UNREACHABLE, 0) => {
                    Meaning::Error { error: E::NetUnreachable, revert: true }
                }
                (kind_v6::UNREACHABLE, 1 | 5 | 6) => error(E::Forbidden),
                (kind_v6::UNREACHABLE, 4) => error(E::Refused),
                (kind_v6::UNREACHABLE, 2 | 3) | (kind_v6::TIME_EXCEEDED, _) => {
                    error(E::HostUnreachable)
                }
                (kind_v6::UNREACHABLE | kind_v6::PARAMETER_PROBLEM, _) => error(E::Parameter),
                _ => Meaning::Nothing,
            };
        }
        match (self.kind, self.code) {
            (kind::UNREACHABLE, 4) => Meaning::TooBig,
            (kind::UNREACHABLE, 0) => Meaning::Error { error: E::NetUnreachable, revert: true },
            (kind::UNREACHABLE, 1) => Meaning::Error { error: E::HostUnreachable, revert: true },
            (kind::UNREACHABLE, 2) => error(E::ProtocolUnreachable),
            (kind::UNREACHABLE, 3) => error(E::Refused),
            (kind::UNREACHABLE, 5) => error(E::SourceRoute),
            (kind::UNREACHABLE, 6 | 9 | 11) => error(E::NetUnreachable),
            (kind::UNREACHABLE, 7) => error(E::HostDown),
            (kind::UNREACHABLE, 8) => error(E::HostIsolated),
            (kind::UNREACHABLE, 10 | 12..=15) | (kind::TIME_EXCEEDED, _) => {
                error(E::HostUnreachable)
            }
            (kind::PARAMETER_PROBLEM, _) => error(E::Parameter),
            _ => Meaning::Nothing,
        }
    }

    /// What it tells a socket without a connection, and whether at once (`icmp_err_convert`,
    /// `icmpv6_err_convert`): a soft error is told to those who have asked for errors only.
    pub(crate) fn for_datagrams(self) -> Option<(SocketError, bool)> {
        match self.meaning() {
            Meaning::Nothing => None,
            Meaning::TooBig => Some((SocketError::MessageSize, true)),
            Meaning::Error { error, .. } => Some((error, !self.is_soft())),
        }
    }

    /// Of an error: it may pass.
    fn is_soft(self) -> bool {
        match (self.ipv6, self.kind) {
            (false, kind::UNREACHABLE) => matches!(self.code, 0 | 1 | 5 | 11 | 12),
            (false, kind) => kind == kind::TIME_EXCEEDED,
            (true, kind_v6::UNREACHABLE) => matches!(self.code, 0 | 2 | 3),
            (true, kind) => kind == kind_v6::TIME_EXCEEDED,
        }
    }

    /// The packet was larger than the path takes.
    pub(crate) fn is_too_big(self) -> bool {
        self.meaning() == Meaning::TooBig
    }

    /// A half-open passive connection is given up for it.
    pub fn ends_request(self) -> bool {
        if self.ipv6 {
            return matches!(self.meaning(), Meaning::Error { .. }) && !self.is_soft();
        }
        matches!(self.kind, kind::PARAMETER_PROBLEM | kind::TIME_EXCEEDED)
            || (self.kind == kind::UNREACHABLE && matches!(self.code, 0 | 1))
    }
}

impl Connection {
    /// The network complains about a segment of this connection.
    pub fn icmp_arrives(&mut self, error: IcmpError, cx: &mut Cx<'_>) {
        if matches!(self.state, State::TimeWait | State::Close | State::Listen)
            || self.waits_as_time_wait()
        {
            return;
        }
        let fast_open = self.is_passive_fast_open();
        let lowest = if fast_open { self.snd.iss } else { self.snd.una };
        if error.seq.before(lowest) || error.seq.after(self.snd.nxt) {
            cx.mib.out_of_window_icmps += 1;
            return;
        }
        if self.state == State::SynRecv && !fast_open && cx.gate.request {
            // Of a request there is the SYN-ACK alone (`tcp_req_err`).
            if error.seq != self.snd.iss {
                cx.mib.out_of_window_icmps += 1;
            } else if error.ends_request() {
                cx.mib.attempt_fails += 1;
                self.done(cx);
            }
            return;
        }
        let at_head = error.seq == self.snd.una;
        match error.meaning() {
            Meaning::Nothing => {}
            Meaning::TooBig => self.path_is_narrow(error.mtu, cx),
            Meaning::Error { error: meant, revert } => {
                if revert && !fast_open && at_head {
                    self.revert_timeout(cx);
                }
                self.network_error((meant, error), fast_open, cx);
            }
        }
    }

    /// Fatal while connecting; afterwards remembered in case the connection times out, or told at
    /// once if the application asked for that (RFC 1122 section 4.2.3.9).
    fn network_error(
        &mut self,
        (error, icmp): (SocketError, IcmpError),
        fast_open: bool,
        cx: &mut Cx<'_>,
    ) {
        let connecting = matches!(self.state, State::SynSent | State::SynRecv);
        if connecting && !(fast_open && cx.gate.accepted) {
            // Only over IPv6 it has to be asked for (`ip_icmp_error`, `ipv6_icmp_error`).
            if !icmp.ipv6 || self.config.socket.recverr {
                let (local, remote) = (self.local(), self.remote());
                let told = ConnectError { error, icmp, local, remote };
                self.rare().error_queue.push_back(ErrorQueueEntry::Icmp(told));
            }
            self.fail(error, cx);
        } else if self.config.recverr(self.local.ip.is_ipv6()) {
            self.error = Some(error);
            cx.ready |= SocketReady::ERROR | SocketReady::READABLE | SocketReady::WRITABLE;
        } else {
            self.soft_error = Some(error);
        }
    }

    /// The timeouts were the route's fault, not congestion: takes one back (`tcp_ld_RTO_revert`,
    /// RFC 6069).
    fn revert_timeout(&mut self, cx: &mut Cx<'_>) {
        let Some(head) = self.queue.rtx_head() else { return };
        if self.retransmits == 0 || self.backoff == 0 {
            return;
        }
        self.backoff -= 1;
        self.set_rto_backed_off();
        let sent_ms = self.queue.get(head).sent_us() / 1_000;
        let elapsed = cx.now.as_millis().saturating_sub(sent_ms) as u32;
        let left = self.rto.saturating_sub(elapsed);
        if left > 0 {
            self.reset_xmit_timer(super::timer::Pending::Retransmit, left, cx.now);
        } else {
            self.retransmit_timeout(cx);
        }
    }

    /// The path takes only packets of `mtu` bytes (`tcp_v4_mtu_reduced`).
    fn path_is_narrow(&mut self, mtu: u32, cx: &mut Cx<'_>) {
        let how = self.config.pmtu_discovery(self.local.ip.is_ipv6());
        let ignored = matches!(how, PmtuDiscovery::Interface | PmtuDiscovery::Omit);
        if self.route_metrics().mtu_locked {
            return;
        }
        let is_ipv4 = self.local.ip.is_ipv4();
        if !is_ipv4 && (ignored || mtu < MTU_MIN_V6 || self.mss_of_mtu(mtu) >= self.snd.mss) {
            // Not to be believed, or our segments fit as they are: nothing is learned (`tcp_v6_err`).
            return;
        }
        // With IPv4 the route learns it whoever is told (`tcp_v4_mtu_reduced`).
        let believed = !(ignored || is_ipv4 && how == PmtuDiscovery::Dont);
        let path = match self.local.ip {
            IpAddr::V4(_) => PathMtu::from_report(mtu, self.snd.pmtu, self.config.sysctl.min_pmtu),
            IpAddr::V6(_) => PathMtu { bytes: mtu.max(MTU_MIN_V6), locked: false },
        };
        if path.locked {
            self.rare().route.mtu_locked = true;
        }
        let mtu = path.bytes;
        cx.egress.learn_path_mtu(cx.now, self.remote.ip, path);
        if !believed || mtu >= self.snd.pmtu {
            return;
        }
        self.snd.pmtu = mtu;
        self.sync_mss();
        self.ack.unclocked = true;
        self.simple_retransmit(cx);
        self.ack.unclocked = false;
    }

    /// Everything larger than a segment now may be, with its options, is lost and goes again at once
    /// (`tcp_simple_retransmit`).
    pub(super) fn simple_retransmit(&mut self, cx: &mut Cx<'_>) {
        // SYN and its data are two records, and it was both together that did not fit.
        let all = self.state == State::SynSent
            && self.rare.as_ref().is_some_and(|rare| rare.fast_open.syn_data);
        let mss = self.current_mss(cx.now);
        for index in 0..self.queue.rtx_len() {
            let Some(id) = self.queue.rtx_at(index) else { break };
            let skb = self.queue.get(id);
            let segment = if skb.pcount > 1 { u32::from(skb.gso_size) } else { skb.len() };
            if all || segment > mss {
                self.mark_skb_lost(id, Cause::PathMtu, cx);
            }
        }
        if self.rec.lost_out > 0 {
            if !self.is_sack() {
                self.limit_reno_sacked();
            }
            self.retransmit_without_congestion(Cause::PathMtu, cx);
        }
    }
}
