//! Congestion controls that are Python classes: for teaching and for trying out.
//!
//! A connection has an object of its own. Its methods are called while the run goes on, each time with
//! the interpreter's lock; those that a class does not override are not called. An exception ends the
//! run, and is what `run` raises.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datapath::tcp::cc::{
    Ack as TcpAck, AckSample, CongestionControl, CwndEvent, RateSample, Window as TcpWindow,
};
use lab::run::Error;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString, PyType};

/// The first exception of a module.
#[derive(Default)]
pub struct Trouble {
    error: Mutex<Option<PyErr>>,
    /// There is one: nothing is called any more.
    any: AtomicBool,
}

impl Trouble {
    /// Forgets what an earlier run has said.
    pub fn clear(&self) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.any.store(false, Ordering::Relaxed);
    }

    /// The exception, if there is one.
    ///
    /// # Errors
    /// That.
    pub fn check(&self, py: Python<'_>) -> PyResult<()> {
        if !self.any.load(Ordering::Relaxed) {
            return Ok(());
        }
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        error.as_ref().map_or(Ok(()), |error| Err(error.clone_ref(py)))
    }

    /// What a run that goes on, or has ended, is worth after an exception.
    ///
    /// # Errors
    /// Nothing: it counts as stopped.
    pub fn or_stopped(&self) -> Result<(), Error> {
        if self.is_any() { Err(Error::Stopped) } else { Ok(()) }
    }

    fn note(&self, error: PyErr) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.any.store(true, Ordering::Relaxed);
    }

    fn is_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }
}

/// The methods of a module that may be overridden.
const METHODS: [&str; 7] =
    ["on_start", "on_ack", "on_loss", "on_undo", "on_rtt", "on_sample", "on_event"];

/// Which of them a class overrides.
#[derive(Clone, Copy)]
struct Overrides([bool; METHODS.len()]);

impl Overrides {
    fn of(class: &Bound<'_, PyType>, base: &Bound<'_, PyType>) -> PyResult<Self> {
        let mut found = [false; METHODS.len()];
        for (method, found) in METHODS.iter().zip(&mut found) {
            *found = !class.getattr(*method)?.is(&base.getattr(*method)?);
        }
        Ok(Self(found))
    }

    fn has(self, method: &str) -> bool {
        METHODS.iter().zip(self.0).any(|(name, has)| *name == method && has)
    }
}

/// A class that is a congestion control.
pub struct Class {
    itself: Py<PyType>,
    overrides: Overrides,
    needs_ecn: bool,
}

impl Class {
    /// What makes modules of it, whose exceptions are that trouble.
    pub fn maker(self: Arc<Self>, trouble: Arc<Trouble>) -> impl Fn() -> Module + Send + Sync {
        move || Module {
            class: Python::attach(|py| self.itself.clone_ref(py)),
            trouble: Arc::clone(&trouble),
            overrides: self.overrides,
            needs_ecn: self.needs_ecn,
            object: None,
        }
    }
}

/// Reads a class.
///
/// # Errors
/// When it is no congestion control.
pub fn read(class: &Bound<'_, PyAny>) -> PyResult<Class> {
    let py = class.py();
    let base = py.import("ackwright.congestion")?.getattr("CongestionControl")?;
    let (base, class) = (base.cast::<PyType>()?, class.cast::<PyType>()?);
    if !class.is_subclass(base)? {
        let text = format!("{} does not derive from CongestionControl", class.name()?);
        return Err(PyTypeError::new_err(text));
    }
    let overrides = Overrides::of(class, base)?;
    for method in ["on_loss", if overrides.has("on_sample") { "on_sample" } else { "on_ack" }] {
        if !overrides.has(method) {
            let text = format!("{} has no {method}", class.name()?);
            return Err(PyTypeError::new_err(text));
        }
    }
    let needs_ecn = class.getattr("needs_ecn")?.is_truthy()?;
    Ok(Class { itself: class.clone().unbind(), overrides, needs_ecn })
}

/// No window has more segments, so that what is computed of it has room in 64 bits, whatever the MSS.
const MOST: u32 = 1 << 24;
/// `TCP_INFINITE_SSTHRESH`: no threshold.
const INFINITE: u32 = 0x7fff_ffff;

/// A number of segments that a method has returned.
fn returned(method: &str, value: &Bound<'_, PyAny>) -> PyResult<u32> {
    value.extract().map_err(|_| {
        let shown = value.repr().map_or_else(|_| "it".to_owned(), |it| it.to_string());
        PyTypeError::new_err(format!("{method}: returned {shown}, which is no number of segments"))
    })
}

/// A threshold that may be.
fn threshold(what: &str, segments: u32) -> PyResult<u32> {
    if (2..=MOST).contains(&segments) || segments == INFINITE {
        return Ok(segments);
    }
    Err(PyValueError::new_err(format!(
        "{what}: a threshold is 2 to {MOST} segments, or {INFINITE} for none, not {segments}"
    )))
}

/// One connection's module.
pub struct Module {
    class: Py<PyType>,
    trouble: Arc<Trouble>,
    overrides: Overrides,
    needs_ecn: bool,
    object: Option<Object>,
}

/// The object, and what its methods are lent.
struct Object {
    itself: Py<PyAny>,
    window: Py<Window>,
    ack: Py<Ack>,
}

impl Module {
    /// Calls a method, unless an exception has come before; what it returned is read by `read`.
    fn call<'py, R>(
        &mut self,
        method: &Bound<'py, PyString>,
        window: &mut TcpWindow,
        ack: &TcpAck,
        argument: Option<Bound<'py, PyAny>>,
        read: impl FnOnce(Bound<'py, PyAny>) -> PyResult<R>,
    ) -> Option<R> {
        if self.trouble.is_any() {
            return None;
        }
        let py = method.py();
        let called = || -> PyResult<R> {
            let may_pace = self.overrides.has("on_sample");
            let (lend, show) = (Window { inner: *window, may_pace }, Ack(*ack));
            let Object { itself, window: lent, ack: read_only } = self.object(lend, show, py)?;
            let itself = itself.bind(py);
            let value = match argument {
                None => itself.call_method1(method, (lent, read_only)),
                Some(argument) => itself.call_method1(method, (lent, read_only, argument)),
            };
            let value = read(value?)?;
            lent.borrow(py).give_back(window);
            Ok(value)
        };
        called().map_err(|error| self.trouble.note(error)).ok()
    }

    /// Calls a method that returns nothing.
    fn tell(
        &mut self,
        method: &Bound<'_, PyString>,
        window: &mut TcpWindow,
        ack: &TcpAck,
        argument: Option<Bound<'_, PyAny>>,
    ) {
        self.call(method, window, ack, argument, |_| Ok(()));
    }

    /// The object, made at the first call, which is lent these from now on.
    fn object(&mut self, window: Window, ack: Ack, py: Python<'_>) -> PyResult<&Object> {
        if let Some(object) = &self.object {
            *object.window.borrow_mut(py) = window;
            *object.ack.borrow_mut(py) = ack;
        } else {
            let itself = self.class.bind(py).call0()?.unbind();
            let (window, ack) = (Py::new(py, window)?, Py::new(py, ack)?);
            self.object = Some(Object { itself, window, ack });
        }
        Ok(self.object.as_ref().expect("it is there now"))
    }
}

impl CongestionControl for Module {
    fn init(&mut self, window: &mut TcpWindow, ack: &TcpAck) {
        if self.overrides.has("on_start") {
            Python::attach(|py| {
                let method = pyo3::intern!(py, "on_start");
                self.tell(method, window, ack, None);
            });
        }
    }

    fn ssthresh(&mut self, window: &TcpWindow, ack: &TcpAck) -> u32 {
        let mut lent = *window;
        let read = |value: Bound<'_, PyAny>| threshold("on_loss", returned("on_loss", &value)?);
        let threshold = Python::attach(|py| {
            self.call(pyo3::intern!(py, "on_loss"), &mut lent, ack, None, read)
        });
        threshold.unwrap_or(window.snd_cwnd.max(2))
    }

    fn cong_avoid(&mut self, window: &mut TcpWindow, ack: &TcpAck, acked: u32) {
        Python::attach(|py| {
            let acked = PyInt::new(py, acked).into_any();
            self.tell(pyo3::intern!(py, "on_ack"), window, ack, Some(acked));
        });
    }

    fn has_cong_control(&self) -> bool {
        self.overrides.has("on_sample")
    }

    fn cong_control(&mut self, window: &mut TcpWindow, ack: &TcpAck, sample: &RateSample) {
        Python::attach(|py| {
            let method = pyo3::intern!(py, "on_sample");
            match Bound::new(py, Sample(*sample)) {
                Ok(it) => self.tell(method, window, ack, Some(it.into_any())),
                Err(error) => self.trouble.note(error),
            }
        });
    }

    fn pkts_acked(&mut self, window: &mut TcpWindow, ack: &TcpAck, sample: &AckSample) {
        if let (true, Some(rtt_us)) = (self.overrides.has("on_rtt"), sample.rtt_us) {
            Python::attach(|py| {
                let rtt_us = PyInt::new(py, rtt_us).into_any();
                self.tell(pyo3::intern!(py, "on_rtt"), window, ack, Some(rtt_us));
            });
        }
    }

    fn cwnd_event(&mut self, window: &mut TcpWindow, ack: &TcpAck, event: CwndEvent) {
        if self.overrides.has("on_event") {
            let name = match event {
                CwndEvent::TxStart => "tx_start",
                CwndEvent::CwndRestart => "cwnd_restart",
                CwndEvent::CompleteCwr => "complete_cwr",
                CwndEvent::Loss => "loss",
            };
            Python::attach(|py| {
                let name = PyString::intern(py, name).into_any();
                self.tell(pyo3::intern!(py, "on_event"), window, ack, Some(name));
            });
        }
    }

    fn undo_cwnd(&mut self, window: &TcpWindow, ack: &TcpAck) -> u32 {
        let usual = window.snd_cwnd.max(window.prior_cwnd);
        if !self.overrides.has("on_undo") {
            return usual;
        }
        let mut lent = *window;
        let least = window.snd_cwnd;
        let read = |value: Bound<'_, PyAny>| {
            let cwnd = returned("on_undo", &value)?;
            if cwnd < least || cwnd > MOST.max(least) {
                let text =
                    format!("on_undo: a window of {least}, as it is now, to {MOST}, not {cwnd}");
                return Err(PyValueError::new_err(text));
            }
            Ok(cwnd)
        };
        let cwnd = Python::attach(|py| {
            self.call(pyo3::intern!(py, "on_undo"), &mut lent, ack, None, read)
        });
        cwnd.unwrap_or(usual)
    }

    fn needs_ecn(&self) -> bool {
        self.needs_ecn
    }
}

/// The congestion window of a connection, lent for one call.
#[pyclass(module = "ackwright._native")]
pub struct Window {
    inner: TcpWindow,
    /// The pacing rate is its module's business.
    may_pace: bool,
}

impl Window {
    /// What a module may change.
    fn give_back(&self, window: &mut TcpWindow) {
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
            let text = format!("a window of {segments} segments; it has 1 to {MOST}");
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
pub struct Ack(TcpAck);

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
pub struct Sample(RateSample);

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
