//! A workload as the runner sees it.

use datapath::units::Duration;

use super::matrix::Matrix;
use super::sizes::Sizes;
use crate::plan::app::FlowPlan;

/// Many flows by rule.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadPlan {
    /// Name, unique among workloads, flows and groups.
    pub name: String,
    /// The hosts that take part.
    pub hosts: Vec<usize>,
    /// The rack of each of them.
    pub racks: Vec<u32>,
    /// How large flows are.
    pub sizes: Sizes,
    /// Who sends to whom.
    pub matrix: Matrix,
    /// Of an incast: the hosts that ask, as indices of `hosts`.
    pub clients: Vec<usize>,
    /// When flows begin.
    pub arrivals: Arrivals,
    /// No flow begins before.
    pub start: Duration,
    /// No flow begins at or after.
    pub stop: Duration,
    /// Settings of its connections, as of a flow.
    pub template: FlowPlan,
}

/// When flows begin.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// At random: so many events a second, of all hosts together.
    Poisson(f64),
    /// The same on average, but each host is on and off for exponentially distributed times of these
    /// means.
    OnOff(f64, Duration, Duration),
    /// Each host has so many at a time, and pauses so long behind each.
    Closed(u32, Duration),
    /// Each client of an incast asks again when all parts of an answer are there.
    Requests(RequestPattern),
    /// As listed.
    Trace(Vec<TraceFlow>),
}

/// The requests of a client over persistent connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPattern {
    /// Requests that it has going at a time.
    pub concurrency: u32,
    /// The pause between the last part of an answer and the next request.
    pub think: Duration,
    /// Bytes of a request to one server.
    pub bytes: u64,
    /// So many, one after the other; without end if nothing is said.
    pub count: Option<u64>,
}

/// A flow of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFlow {
    /// When it begins, after the workload's start.
    pub at: Duration,
    /// Who sends, as an index of the workload's hosts.
    pub from: usize,
    /// Who receives.
    pub to: usize,
    /// Bytes.
    pub bytes: u64,
}

impl WorkloadPlan {
    /// Events a second at a host that are drawn, while it is on: flows that it begins, of an incast requests.
    pub(crate) fn event_rate(&self, host: usize) -> Option<f64> {
        let share = match self.matrix {
            Matrix::Incast(_) if self.clients.binary_search(&host).is_err() => 0.0,
            Matrix::Incast(_) => 1.0 / self.clients.len() as f64,
            _ => self.matrix.source_share(host, self.hosts.len()),
        };
        match self.arrivals {
            Arrivals::Poisson(rate) => Some(rate * share),
            Arrivals::OnOff(rate, on, off) => {
                let (busy, idle) = (on.as_nanos() as f64, off.as_nanos() as f64);
                Some(rate * share * (busy + idle) / busy)
            }
            Arrivals::Closed(..) | Arrivals::Requests(_) | Arrivals::Trace(_) => None,
        }
    }

    /// The flows that an event makes: of an incast, the parts of an answer.
    pub(crate) fn flows_of_event(&self) -> usize {
        if let Matrix::Incast(senders) = self.matrix { senders } else { 1 }
    }

    /// The share of the flows that the host sends which sends most. In an incast no host answers
    /// itself.
    pub(super) fn busiest_share(&self) -> f64 {
        let hosts = self.hosts.len();
        if let Matrix::Incast(_) = self.matrix {
            let clients = self.clients.len() as f64;
            let asking = if self.clients.len() < hosts { clients } else { clients - 1.0 };
            return asking / clients / (hosts - 1) as f64;
        }
        (0..hosts).map(|host| self.matrix.source_share(host, hosts)).fold(0.0, f64::max)
    }

    /// The seconds in which its average rate makes as many flows as are to be expected. A host that is on and off begins
    /// with a time of sending: the longer the pauses are, the more that counts.
    pub(super) fn even_span(&self) -> f64 {
        let seconds = |time: Duration| time.as_nanos() as f64 / 1e9;
        let span = seconds(self.stop - self.start);
        let Arrivals::OnOff(_, on, off) = self.arrivals else { return span };
        let (on, off) = (seconds(on), seconds(off));
        // The share of hosts that are on falls from all of them to the average with this constant.
        let settling = on * off / (on + off);
        span - off * off / (on + off) * libm::expm1(-span / settling)
    }
}
