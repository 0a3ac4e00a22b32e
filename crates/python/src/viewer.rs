//! What `ackwright view` shows: served on this machine, or as one page.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use ::view::{Fault, Source};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::errors;

/// A page that is served while this is open.
#[pyclass(frozen, module = "ackwright._native")]
pub struct Viewer {
    url: String,
    stop: Arc<AtomicBool>,
    serving: Mutex<Option<JoinHandle<std::io::Result<()>>>>,
    /// The process that serves.
    process: u32,
}

#[pymethods]
impl Viewer {
    /// The address, with the token without which nothing is answered.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// Ends it; once more does nothing.
    fn close(&self, py: Python<'_>) {
        self.stop.store(true, Ordering::Relaxed);
        let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A fork has the page's address, but not the thread that serves it: there is nothing to wait for.
        if self.process != std::process::id() {
            return std::mem::forget(serving);
        }
        // An error of the server no longer matters once it is being stopped.
        let _ = py.detach(|| serving.map(JoinHandle::join));
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn open(py: Python<'_>, what: &Path) -> PyResult<Source> {
    py.detach(|| Source::open(what)).map_err(|fault| wrong(&fault))
}

fn wrong(fault: &Fault) -> PyErr {
    PyValueError::new_err(fault.to_string())
}

/// Serves results, a capture or a running `shape` at a port of this machine (0: a free one).
#[pyfunction]
pub fn view(py: Python<'_>, what: PathBuf, port: u16) -> PyResult<Viewer> {
    let source = open(py, &what)?;
    let server = ::view::serve(source, port)
        .map_err(|error| PyOSError::new_err(format!("port {port}: {error}; try another port")))?;
    let (url, stop) = (server.url(), Arc::<AtomicBool>::default());
    let until = Arc::clone(&stop);
    let serving = thread::spawn(move || server.run(&until));
    Ok(Viewer { url, stop, serving: Mutex::new(Some(serving)), process: std::process::id() })
}

/// Writes all that there is to see of `what` into one page; returns its bytes.
#[pyfunction]
pub fn export(py: Python<'_>, what: PathBuf, file: PathBuf) -> PyResult<usize> {
    let source = open(py, &what)?;
    let page = py.detach(|| ::view::export(&source)).map_err(|fault| wrong(&fault))?;
    py.detach(|| lab::store::replace(&file, page.as_bytes()))
        .map_err(|error| errors::store(py, &error))?;
    Ok(page.len())
}
