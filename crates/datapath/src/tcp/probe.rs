//! Snapshots of a connection's state for the event stream (`tcp:tcp_probe`).

use super::Connection;
use super::state::State;
use super::timer::Timer;
use crate::trace::{CaState, Limit, Probe};

impl Connection {
    /// The present state.
    pub(crate) fn probe(&self) -> Probe {
        Probe {
            local: self.local(),
            remote: self.remote(),
            limit: self.limit(),
            ca_state: self.window.ca_state,
            snd_cwnd: self.window.snd_cwnd,
            snd_ssthresh: self.window.snd_ssthresh,
            in_flight: self.packets_in_flight(),
            mss: self.snd.mss,
            snd_una: self.snd.una,
            snd_nxt: self.snd.nxt,
            snd_wnd: self.snd.wnd,
            srtt_us: self.rtt.srtt_us(),
            min_rtt_us: self.rtt.min.get_us(),
            pacing_rate: self.window.pacing_rate,
        }
    }

    /// What keeps it from sending more: the first that would stop the output (`tcp_write_xmit`),
    /// after the states in which another rule decides.
    fn limit(&self) -> Limit {
        match self.state {
            State::SynSent | State::SynRecv => return Limit::Handshake,
            State::Close | State::Listen | State::TimeWait | State::FinWait2 => {
                return Limit::Closed;
            }
            State::Established
            | State::FinWait1
            | State::CloseWait
            | State::LastAck
            | State::Closing => {}
        }
        if matches!(self.window.ca_state, CaState::Recovery | CaState::Loss) {
            return Limit::Recovery;
        }
        let Some(id) = self.queue.send_head() else {
            let full = self.packets_in_flight() >= self.window.snd_cwnd;
            return match (self.state.can_send(), self.snd.no_space) {
                (true, true) if full => Limit::Cwnd,
                (true, true) => Limit::SendBuffer,
                (true, false) => Limit::Application,
                (false, _) => Limit::Closed,
            };
        };
        let skb = self.queue.get(id);
        let first_end = if skb.len() > self.snd.mss { skb.seq + self.snd.mss } else { skb.end_seq };
        if self.packets_in_flight() >= self.window.snd_cwnd {
            Limit::Cwnd
        } else if first_end.after(self.wnd_end()) {
            Limit::ReceiveWindow
        } else if self.snd.throttled {
            Limit::SmallQueue
        } else if self.timers.is_set(Timer::Pacing) {
            Limit::Pacing
        } else if self.notsent_bytes() < u64::from(self.snd.mss) {
            Limit::Batching
        } else {
            self.deferring_limit()
        }
    }

    /// There is room, but a super-packet waits for more of it (`tcp_tso_should_defer`): of what there is
    /// less.
    fn deferring_limit(&self) -> Limit {
        let free = self.window.snd_cwnd.saturating_sub(self.packets_in_flight());
        let (cwnd, peer) =
            (free.saturating_mul(self.snd.mss), self.wnd_end().bytes_since(self.snd.nxt));
        if cwnd <= peer { Limit::Cwnd } else { Limit::ReceiveWindow }
    }
}
