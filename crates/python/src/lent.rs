//! What methods of a congestion control are lent: the window, which they may change, and what there is to read.

use datapath::tcp::cc::{Ack as TcpAck, RateSample, Window as TcpWindow};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// No window has more segments, so that what is computed of it has room in 64 bits, whatever the MSS.
pub(crate) const MOST: u32 = 1 << 24;
/// `TCP_INFINITE_SSTHRESH`: no threshold.
const INFINITE: u32 = 0x7fff_ffff;

/// A threshold that may be.
pub(crate) fn threshold(what: &str, segments: u32) -> PyResult<u32> {
    if (2..=MOST).contains(&segments) || segments == INFINITE {
        return Ok(segments);
    }
    Err(PyValueError::new_err(format!(
        "{what}: a threshold must be 2 to {MOST} segments, or {INFINITE} for none, not {segments}"
    )))
}

/// The congestion window of a connection, lent for one call.
#[pyclass(module = "ackwright._native")]
pub struct Window {
    pub inner: TcpWindow,
    /// The pacing rate is its module's business.
    pub may_pace: bool,
}

impl Window {
    /// What a module may change.
    pub fn give_back(&self, window: &mut TcpWindow) {
        let grown = self.inner.snd_cwnd > window.snd_cwnd;
        let most = if grown { window.snd_cwnd_clamp } else { u32::MAX };
        window.snd_cwnd = self.inner.snd_cwnd.min(most);
        window.snd_cwnd_cnt = self.inner.snd_cwnd_cnt;
        window.snd_ssthresh = self.inner.snd_ssthresh;
        if self.may_pace {
            window.pacing_rate = self.inner.pacing_rate;
            window.needs_pacing = self.inner.needs_pacing;
        }
    }
}

#[pymethods]
impl Window {
    #[getter]
    fn cwnd(&self) -> u32 {
        self.inner.snd_cwnd
    }

    #[setter]
    fn set_cwnd(&mut self, segments: u32) -> PyResult<()> {
        if !(1..=MOST).contains(&segments) {
            let text = format!("a window must have 1 to {MOST} segments, not {segments}");
            return Err(PyValueError::new_err(text));
        }
        self.inner.snd_cwnd = segments;
        Ok(())
    }

    #[getter]
    fn ssthresh(&self) -> u32 {
        self.inner.snd_ssthresh
    }

    #[setter]
    fn set_ssthresh(&mut self, segments: u32) -> PyResult<()> {
        self.inner.snd_ssthresh = threshold("ssthresh", segments)?;
        Ok(())
    }

    #[getter]
    fn prior_cwnd(&self) -> u32 {
        self.inner.prior_cwnd
    }

    #[getter]
    fn is_cwnd_limited(&self) -> bool {
        self.inner.cwnd_limited()
    }

    #[getter]
    fn in_slow_start(&self) -> bool {
        self.inner.in_slow_start()
    }

    /// Bytes a second; `None`: unlimited.
    #[getter]
    fn pacing_rate(&self) -> Option<u64> {
        Some(self.inner.pacing_rate).filter(|rate| *rate < u64::MAX)
    }

    #[setter]
    fn set_pacing_rate(&mut self, bytes_per_second: Option<u64>) -> PyResult<()> {
        if !self.may_pace {
            let text = "TCP sets the pacing rate of a module without on_sample";
            return Err(PyValueError::new_err(text));
        }
        self.inner.pacing_rate = bytes_per_second.unwrap_or(u64::MAX);
        self.inner.needs_pacing = bytes_per_second.is_some();
        Ok(())
    }

    fn slow_start(&mut self, acked: u32) -> u32 {
        // Above the threshold nothing is left of slow start.
        if self.inner.snd_cwnd > self.inner.snd_ssthresh {
            return acked;
        }
        let left = self.inner.slow_start(acked);
        self.inner.snd_cwnd = self.inner.snd_cwnd.min(MOST);
        left
    }

    fn additive_increase(&mut self, per_increase: u32, acked: u32) -> PyResult<()> {
        if per_increase == 0 {
            return Err(PyValueError::new_err("additive_increase: for every 0 acknowledged"));
        }
        if acked > MOST {
            let text = format!("additive_increase: {acked} segments acknowledged at a time");
            return Err(PyValueError::new_err(text));
        }
        // Not counted beyond what an increase takes, nor beyond what it may come to.
        self.inner.snd_cwnd_cnt = self.inner.snd_cwnd_cnt.min(per_increase).min(MOST);
        self.inner.additive_increase(per_increase, acked);
        self.inner.snd_cwnd = self.inner.snd_cwnd.min(MOST);
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<Window cwnd={} ssthresh={}>", self.inner.snd_cwnd, self.inner.snd_ssthresh)
    }
}

/// What a module may read of its connection, lent for one call.
#[pyclass(module = "ackwright._native")]
pub struct Ack(pub TcpAck);

#[pymethods]
impl Ack {
    #[getter]
    fn now_us(&self) -> u64 {
        self.0.now_us
    }

    #[getter]
    fn mss(&self) -> u32 {
        self.0.mss
    }

    #[getter]
    fn packets_in_flight(&self) -> u32 {
        self.0.packets_in_flight
    }

    #[getter]
    fn srtt_us(&self) -> Option<u32> {
        self.0.srtt_us_8.map(|srtt| srtt.get() >> 3)
    }

    #[getter]
    fn min_rtt_us(&self) -> Option<u32> {
        Some(self.0.min_rtt_us).filter(|rtt| *rtt < u32::MAX)
    }

    #[getter]
    fn delivered(&self) -> u32 {
        self.0.delivered
    }

    #[getter]
    fn delivered_ce(&self) -> u32 {
        self.0.delivered_ce
    }

    #[getter]
    fn lost(&self) -> u32 {
        self.0.lost
    }
}

/// A sample of the delivery rate.
#[pyclass(frozen, module = "ackwright._native")]
pub struct Sample(pub RateSample);

#[pymethods]
impl Sample {
    #[getter]
    fn delivered(&self) -> Option<u32> {
        self.0.delivered
    }

    #[getter]
    fn interval_us(&self) -> u64 {
        self.0.interval_us
    }

    #[getter]
    fn rtt_us(&self) -> Option<u32> {
        self.0.rtt_us
    }

    #[getter]
    fn losses(&self) -> u32 {
        self.0.losses
    }

    #[getter]
    fn acked_sacked(&self) -> u32 {
        self.0.acked_sacked
    }

    #[getter]
    fn prior_in_flight(&self) -> u32 {
        self.0.prior_in_flight
    }

    #[getter]
    fn is_app_limited(&self) -> bool {
        self.0.is_app_limited
    }
}
