//! What segments do to a listener: SYNs open connections or are answered with cookies, ACKs return these
//! (`tcp_conn_request`, `cookie_v4_check`).

use super::Listener;
use crate::host::Host;
use crate::metrics::RouteMetrics;
use crate::packet::seq::Seq;
use crate::packet::{Packet, Tcp, TcpFlags};
use crate::tcp::config::TcpConfig;
use crate::tcp::fastopen::Admission;
use crate::tcp::state::State;
use crate::tcp::{Connection, Ends, Gate, syncookies};
use crate::units::{Duration, Instant};
use core::num::NonZeroU16;
use std::sync::Arc;

impl Host {
    /// A segment that belongs to no connection, but a listener is there. False: it is to be reset.
    /// `iss`: see [`open_passively`](Self::open_passively).
    pub(in crate::host) fn segment_at_listener(
        &mut self,
        now: Instant,
        listener: u32,
        ends: Ends,
        iss: Option<Seq>,
        packet: &Packet,
    ) -> bool {
        let Some(tcp) = packet.tcp() else { return false };
        let Some(state) = self.listener_at(listener) else { return false };
        if let Err(refusal) = crate::tcp::md5::inspect(&state.config.socket.md5, packet) {
            self.tcp_stack().mib.count_md5(refusal);
            return true;
        }
        if tcp.flags.contains(TcpFlags::RST) {
            return true;
        }
        if tcp.flags.contains(TcpFlags::ACK) {
            return self.cookie_returns(now, listener, ends, packet);
        }
        if tcp.flags.contains(TcpFlags::SYN) && !tcp.flags.contains(TcpFlags::FIN) {
            self.open_passively(now, listener, ends, iss, packet);
        }
        true
    }

    /// A SYN (`tcp_conn_request`). `iss`: the number to begin with if it reopens a connection that
    /// was in TIME-WAIT; its peer is evidently real, so that no cookie has to prove it.
    fn open_passively(
        &mut self,
        now: Instant,
        listener: u32,
        ends: Ends,
        iss: Option<Seq>,
        syn: &Packet,
    ) {
        let Some(state) = self.tcp_listener_mut(listener) else { return };
        let sysctl = &state.config.sysctl;
        let cookies = sysctl.tcp_syncookies;
        let crowded = state.half_open >= state.backlog.max(1);
        let config = Arc::clone(&state.config);
        if iss.is_none() && (cookies == 2 || crowded) {
            if cookies == 0 {
                let mib = &mut self.tcp_stack().mib;
                mib.req_q_full_drop += 1;
                mib.listen_drops += 1;
                return;
            }
            if self.listener_at(listener).is_some_and(Listener::queue_is_full) {
                return self.drop_syn();
            }
            if self.has_no_way_to(&config, ends) {
                return;
            }
            return self.send_syn_cookie(now, listener, ends, &config, syn);
        }
        if state.queue_is_full() {
            return self.drop_syn();
        }
        let limit = i64::from(state.config.sysctl.tcp_max_syn_backlog as i32);
        let room = limit - i64::from(state.half_open);
        if self.has_no_way_to(&config, ends) {
            return;
        }
        if iss.is_none() && cookies == 0 && room < limit >> 2 && !self.peer_is_proven(now, ends) {
            self.tcp_stack().mib.listen_drops += 1;
            return;
        }
        let admission = self.admit_fast_open(now, listener, syn);
        let mut endpoints = self.endpoints(now, ends, &config);
        endpoints.iss = iss.unwrap_or(endpoints.iss);
        endpoints.reopens = iss.is_some();
        let id = self.reserve_socket(now, &config);
        let connection = self.with_cx(now, Gate::default(), |cx| {
            Connection::accept(id, config, endpoints, syn, admission, cx)
        });
        let Some(connection) = connection else { return self.sockets.release(id) };
        let opened = connection.is_passive_fast_open();
        let dead = connection.state() == State::Close;
        self.install_connection(id, connection, Some(listener));
        let Some(state) = self.tcp_listener_mut(listener) else { return };
        if opened && !dead {
            state.fast_open.unfinished += 1;
            self.queue_connection(listener, id);
        } else {
            state.half_open += 1;
        }
        self.check_listener(listener);
    }

    /// Whether a SYN came from behind a gateway, which `SO_DONTROUTE` forbids: it is dropped (`inet_csk_route_req`).
    fn has_no_way_to(&mut self, config: &TcpConfig, ends: Ends) -> bool {
        let unreachable = self.is_out_of_scope(config, ends.remote.ip());
        if unreachable {
            self.stats.out_no_routes += 1;
            self.tcp_stack().mib.listen_drops += 1;
        }
        unreachable
    }

    /// Some connection has measured the RTT to that peer, so it is no forged address (`tcp_peer_is_proven`).
    fn peer_is_proven(&mut self, now: Instant, ends: Ends) -> bool {
        let known = self.tcp_stack().shared.metrics.get(&(ends.local.ip(), ends.remote.ip()));
        known.is_some_and(|known| known.believed(now, &RouteMetrics::default()).rtt_us_8 != 0)
    }

    fn drop_syn(&mut self) {
        let mib = &mut self.tcp_stack().mib;
        mib.listen_overflows += 1;
        mib.listen_drops += 1;
    }

    /// Whether a listener takes part in Fast Open now.
    fn admit_fast_open(&mut self, now: Instant, listener: u32, syn: &Packet) -> Admission {
        let Some(state) = self.tcp_listener_mut(listener) else { return Admission::No };
        if syn.body.len == 0 && syn.extra.is_none() {
            return Admission::No;
        }
        let own = state.config.socket.fastopen_key;
        let keys = own.unwrap_or(state.config.sysctl.tcp_fastopen_key);
        if state.fast_open.max == 0 {
            return Admission::No;
        }
        if !state.fast_open.has_room(now) {
            self.tcp_stack().mib.fast_open_listen_overflow += 1;
            return Admission::No;
        }
        Admission::Yes(keys)
    }

    /// Answers a SYN without remembering it.
    fn send_syn_cookie(
        &mut self,
        now: Instant,
        listener: u32,
        ends: Ends,
        config: &Arc<TcpConfig>,
        syn: &Packet,
    ) {
        let Some(mut tcp) = syn.tcp().copied() else { return };
        // Our own limit cuts what the peer says before the cookie remembers it (`tcp_parse_options`).
        tcp.options.mss = tcp.options.mss.min(config.max_segment.map_or(u16::MAX, NonZeroU16::get));
        let mut endpoints = self.endpoints(now, ends, config);
        endpoints.iss = syncookies::make(self.tcp_stack().secret, now, ends, &tcp);
        let config = Arc::clone(config);
        self.tcp_stack().mib.req_q_full_do_cookies += 1;
        // It has no socket, but goes as that of one.
        let id = self.reserve_socket(now, &config);
        self.with_cx(now, Gate::default(), |cx| {
            Connection::send_cookie(config, endpoints, syn, cx)
        });
        self.sockets.release(id);
        if let Some(state) = self.tcp_listener_mut(listener) {
            state.cookies_sent_at = Some(now);
        }
    }

    /// An ACK for a listener: perhaps it returns a cookie (`cookie_v4_check`). False: it does not.
    fn cookie_returns(&mut self, now: Instant, listener: u32, ends: Ends, packet: &Packet) -> bool {
        let (Some(&tcp), Some(state)) = (packet.tcp(), self.listener_at(listener)) else {
            return false;
        };
        let recent = state
            .cookies_sent_at
            .is_some_and(|at| now.saturating_since(at) < Duration::from_secs(syncookies::VALID_S));
        if state.config.sysctl.tcp_syncookies == 0 || !recent || tcp.flags.contains(TcpFlags::SYN) {
            return false;
        }
        let config = Arc::clone(&state.config);
        let full = state.queue_is_full();
        let secret = self.tcp_stack().secret;
        let numbers = (tcp.seq, tcp.ack);
        let Some(mss) = syncookies::check(secret, now, ends, numbers) else {
            self.tcp_stack().mib.syn_cookies_failed += 1;
            return false;
        };
        self.tcp_stack().mib.syn_cookies_recv += 1;
        let Some(remembered) = syncookies::decode_options(&config, &tcp.options, mss) else {
            return true;
        };
        if full {
            self.drop_syn();
            return true;
        }
        if self.is_out_of_scope(&config, ends.remote.ip()) {
            return true;
        }
        let syn =
            Tcp { seq: tcp.seq - 1, flags: TcpFlags::SYN, options: remembered.options, ..tcp };
        let mut endpoints = self.endpoints(now, ends, &config);
        endpoints.iss = Seq((tcp.ack - 1).0);
        let id = self.reserve_socket(now, &config);
        let connection = self.with_cx(now, Gate::default(), |cx| {
            Connection::from_cookie(id, config, endpoints, &syn, remembered.ecn, cx)
        });
        self.install_connection(id, connection, Some(listener));
        if let Some(state) = self.tcp_listener_mut(listener) {
            state.half_open += 1;
        }
        self.with_connection(now, id, |tcp, cx| {
            cx.gate.cookie = true;
            // It has been counted as it came to the listener.
            cx.mib.in_segs -= u64::from(packet.segments());
            tcp.segment_arrives(packet, cx);
        });
        // Nobody would send the SYN-ACK again: what is not taken now is forgotten.
        if self.connection_at(id).is_some_and(|tcp| tcp.state() == State::SynRecv) {
            self.request_failed(id, listener);
        }
        self.check_listener(listener);
        true
    }
}
