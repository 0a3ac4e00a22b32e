//! `drill`, `replay`, `ecmp`, `tc`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ::drill::report;
use ::drill::settings::{IpVersion, command_line_flag};
use ::drill::suite::{self, File, Plan};
use datapath::fib::Prefix;
use iproute::ip::config::Config;
use iproute::ip::{Devices, IpError};
use lab::ecmp::{self as what_if, Names};
use lab::plan::quantity;
use lab::plan::tc_session::Session;
use lab::replay::{self as captures, Error, Files, Options, PacketSelection};
use lab::run::NoProgress;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value as Json, json};

use crate::run::{supervised, unless_stopped};
use crate::{errors, values};

/// What came out, for programs and for people.
type Answer<'py> = (Bound<'py, PyAny>, String);

fn wrong(message: impl Into<String>) -> PyErr {
    PyValueError::new_err(message.into())
}

/// Runs packetdrill scripts: those below `paths`, or one `text`.
#[pyfunction]
pub fn drill(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    text: Option<String>,
    versions: Vec<String>,
    flags: Vec<(String, Option<String>)>,
    jobs: usize,
) -> PyResult<Answer<'_>> {
    let version = |word: &String| {
        let known = "ipv4, ipv6, ipv4-mapped-ipv6";
        IpVersion::by_name(word).ok_or_else(|| {
            wrong(format!("ip_version: unknown version {word:?}; valid are {known}"))
        })
    };
    let versions = versions.iter().map(version).collect::<PyResult<Vec<_>>>()?;
    let flags: Vec<_> =
        flags.iter().map(|(name, value)| command_line_flag(name, value.as_deref())).collect();
    let checked = versions.first().copied().unwrap_or(IpVersion::Ipv4);
    ::drill::settings::Settings::of_run(checked, &[], &flags)
        .map_err(|it| wrong(it.to_string()))?;
    let plan = Plan { versions, flags, jobs };
    let of_text = text.is_some();
    let work = || match text {
        None => {
            let files = suite::find(&paths)?;
            suite::run_all(&files, &plan, |_| {})
        }
        Some(text) => {
            let name = "script".to_owned();
            let file = File { path: PathBuf::from(&name), name, root: PathBuf::from(".") };
            suite::run_texts(&[file], &[text], &plan, |_| {})
        }
    };
    let reports = py.detach(work)?;
    if reports.is_empty() && !of_text {
        return Err(wrong("no .pkt files found"));
    }
    Ok((values::from_json(py, &report::json(&reports))?, report::text(&reports)))
}

/// What a capture is put through.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the words of `ackwright replay`")]
pub fn replay(
    py: Python<'_>,
    capture: PathBuf,
    qdiscs: Vec<String>,
    rate: Option<String>,
    from: Option<String>,
    to: Option<String>,
    interface: Option<String>,
    seed: u64,
    partial: bool,
    out: Option<PathBuf>,
) -> PyResult<Answer<'_>> {
    let prefix = |what: &str, text: Option<String>| -> PyResult<Option<Prefix>> {
        let read = |text: String| {
            text.parse().map_err(|_| wrong(format!("{what}: {text:?} is not an address or prefix")))
        };
        text.map(read).transpose()
    };
    let rate =
        rate.map(|text| quantity::rate(&text).map_err(|fault| wrong(format!("rate: {fault}"))));
    let rate = rate.transpose()?;
    if rate.is_some_and(|rate| rate.bits_per_sec() == 0) {
        return Err(wrong("rate: a link of rate zero sends nothing"));
    }
    if out.as_deref().is_some_and(|out| lab::store::same_file(out, &capture)) {
        return Err(wrong("out: that is the capture itself"));
    }
    let select = PacketSelection { from: prefix("from_", from)?, to: prefix("to", to)?, interface };
    let options = Options { qdiscs, rate, select, seed, partial };
    let stop = AtomicBool::new(false);
    let work = || {
        let files = Files { out: out.as_deref(), trace: None };
        captures::replay(&capture, &options, files, &NoProgress, &stop)
    };
    let (done, stopped) = supervised(py, &stop, work, |_| Ok(()));
    let done = done.map_err(|_| errors::run(py, "a mistake in ackwright"))?;
    let report = match (done, stopped) {
        (Ok(report), stopped) => unless_stopped(py, report, stopped)?,
        (Err(Error::Stopped), Some(why)) => return Err(why),
        (Err(Error::Store(error)), _) => return Err(errors::store(py, &error)),
        (Err(Error::Words(words)), _) => return Err(words_error(py, &words)),
        (Err(error), _) => {
            return Err(errors::at(py, &capture.display().to_string(), None, &error.to_string()));
        }
    };
    Ok((values::from_json(py, &report.to_json())?, report.tc_text.clone()))
}

/// `--qdisc:1:COLUMN: MESSAGE` as an exception with the column.
fn words_error(py: Python<'_>, words: &str) -> PyErr {
    let place = || {
        let rest = words.strip_prefix("--qdisc:1:")?;
        let (column, message) = rest.split_once(": ")?;
        Some((column.parse().ok()?, message))
    };
    match place() {
        Some((column, message)) => errors::at(py, "qdisc", Some((1, column)), message),
        None => errors::at(py, "qdisc", None, words.trim_start_matches("--qdisc ")),
    }
}

/// Ports by the names of the routes' file.
struct Named<'a>(&'a Devices);

impl Names for Named<'_> {
    fn port(&self, port: u16) -> String {
        self.0.name(port).to_owned()
    }
}

/// The load of each next hop, and what failures move.
#[pyfunction]
pub fn ecmp<'py>(
    py: Python<'py>,
    flows: PathBuf,
    routes: &str,
    routes_name: &str,
    fail: Vec<String>,
    policy: Option<&str>,
    seed: Option<u32>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut ip = Config::parse(routes)
        .map_err(|(line, error)| {
            let (column, message) = match &error {
                IpError::Grammar(fault) => (fault.column, fault.message.clone()),
                other => (0, other.to_string()),
            };
            errors::at(py, routes_name, Some((line, column + 1)), &message)
        })?
        .ip;
    let mut settings = *ip.fib.settings();
    if let Some(word) = policy {
        let policy = what_if::ask::policy(word).ok_or_else(|| {
            wrong(format!("policy: {word:?} is not 0 or l3, 1 or l4, 2 or inner, 3 or custom"))
        })?;
        (settings.v4.policy, settings.v6.policy) = (policy, policy);
    }
    if let Some(seed) = seed {
        settings.key = datapath::fib::hash::HashKey::from_seed(seed);
    }
    ip.fib.set_settings(settings);
    let input = read_flows(py, &flows)?;
    let answer = py.detach(|| -> Result<Json, String> {
        let load = what_if::load(&ip.fib, &input.flows);
        let failures = what_if::ask::failures(&fail, &ip, &input.flows, &load)?;
        let names = Named(&ip.devices);
        Ok(json!({
            "flows": input.flows.len(),
            "bytes": input.flows.iter().map(|flow| flow.bytes).sum::<u64>(),
            "skipped": input.skipped,
            "load": load.to_json(&names),
            "failures": failures.iter().map(|one| one.to_json(&names)).collect::<Vec<_>>(),
        }))
    });
    values::from_json(py, &answer.map_err(|problem| wrong(format!("fail: {problem}")))?)
}

fn read_flows(py: Python<'_>, file: &Path) -> PyResult<what_if::Input> {
    let name = file.display().to_string();
    let input = py.detach(|| what_if::read(file)).map_err(|error| {
        let place = (error.line > 0).then_some((error.line, error.column.max(1)));
        errors::at(py, &name, place, &error.message)
    })?;
    if input.flows.is_empty() {
        return Err(errors::at(py, &name, None, "the file contains no flows"));
    }
    Ok(input)
}

/// Carries out `tc` commands on qdiscs that no packet passes.
#[pyfunction]
pub fn tc(py: Python<'_>, commands: Vec<String>) -> PyResult<Answer<'_>> {
    let mut session = Session::default();
    for (index, command) in commands.iter().enumerate() {
        session.command(command).map_err(|problem| {
            let place = Some((index + 1, problem.column));
            errors::at(py, "tc", place, &problem.message)
        })?;
    }
    Ok((values::from_json(py, &session.json())?, session.text()))
}
