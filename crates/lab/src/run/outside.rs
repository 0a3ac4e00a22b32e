//! Ends of flows that run outside of the world: on the sockets of a kernel, or as programs. In the world
//! each has a place from which its report is read.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use apps::{App, AppCx, AppReport};
use datapath::units::{Duration, Instant};

/// The report of an end outside, shared with its placeholder in the world.
pub type Report = Arc<Mutex<AppReport>>;

/// One end of a flow that runs outside.
#[derive(Clone, Debug)]
pub struct ExternalEnd {
    /// Which flow of the plan.
    pub flow: usize,
    /// It sends or requests; the other end receives or responds.
    pub sends: bool,
    /// The address of the sending end.
    pub from: IpAddr,
    /// The address of the receiving end.
    pub remote: SocketAddr,
    /// When it begins.
    pub start: Instant,
    /// When it stops, if before the end.
    pub stop: Option<Duration>,
    /// Its report.
    pub report: Report,
}

/// The placeholder in the world for an end that runs outside.
pub struct Placeholder(pub Report);

impl App for Placeholder {
    fn start(&mut self, _cx: &mut AppCx<'_>) {}

    fn report(&self) -> AppReport {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
