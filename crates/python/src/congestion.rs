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

use crate::lent::{Ack, MOST, Sample, Window, threshold};

/// The first exception of a module.
#[derive(Default)]
pub struct FirstException {
    error: Mutex<Option<PyErr>>,
    /// There is one: nothing is called any more.
    any: AtomicBool,
}

impl FirstException {
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
    pub fn maker(
        self: Arc<Self>,
        trouble: Arc<FirstException>,
    ) -> impl Fn() -> Module + Send + Sync {
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

/// A number of segments that a method has returned.
fn returned(method: &str, value: &Bound<'_, PyAny>) -> PyResult<u32> {
    value.extract().map_err(|_| {
        let shown = value.repr().map_or_else(|_| "it".to_owned(), |it| it.to_string());
        PyTypeError::new_err(format!(
            "{method}: returned {shown}, which is not a number of segments"
        ))
    })
}

/// One connection's module.
pub struct Module {
    class: Py<PyType>,
    trouble: Arc<FirstException>,
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
    fn call_method(
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
                self.call_method(method, window, ack, None);
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
            self.call_method(pyo3::intern!(py, "on_ack"), window, ack, Some(acked));
        });
    }

    fn has_cong_control(&self) -> bool {
        self.overrides.has("on_sample")
    }

    fn cong_control(&mut self, window: &mut TcpWindow, ack: &TcpAck, sample: &RateSample) {
        Python::attach(|py| {
            let method = pyo3::intern!(py, "on_sample");
            match Bound::new(py, Sample(*sample)) {
                Ok(it) => self.call_method(method, window, ack, Some(it.into_any())),
                Err(error) => self.trouble.note(error),
            }
        });
    }

    fn pkts_acked(&mut self, window: &mut TcpWindow, ack: &TcpAck, sample: &AckSample) {
        if let (true, Some(rtt_us)) = (self.overrides.has("on_rtt"), sample.rtt_us) {
            Python::attach(|py| {
                let rtt_us = PyInt::new(py, rtt_us).into_any();
                self.call_method(pyo3::intern!(py, "on_rtt"), window, ack, Some(rtt_us));
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
                self.call_method(pyo3::intern!(py, "on_event"), window, ack, Some(name));
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
                let text = format!(
                    "on_undo: the window must be {least}, as it is now, to {MOST}, not {cwnd}"
                );
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
