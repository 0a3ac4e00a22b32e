//! Files that a workload names: sizes, traffic matrices, lists of flows.

use std::collections::BTreeMap;
use std::path::Path;

use datapath::units::Duration;

use super::super::limits::{HOST_FLOWS_MAX, TIME_MAX, WORKLOAD_FLOWS_MAX};
use super::super::suggest;
use super::rules::TraceFlow;
use super::sizes::{self, Points};
use crate::input;

/// The points of a cumulative distribution of sizes.
pub fn cdf(path: &Path) -> Result<Points, String> {
    let text = read(path)?;
    sizes::parse_cdf(&text).map_err(|why| format!("{}:{why}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    input::read_text(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A CSV without a head line: a row for each sender, a column for each receiver, in the order of the
/// hosts. Gives the sums of weights along each row. What hosts would send to themselves is left out.
pub fn matrix(path: &Path, hosts: usize) -> Result<Vec<Vec<f64>>, String> {
    let text = read(path)?;
    let name = path.display();
    let mut rows: Vec<Vec<f64>> = Vec::new();
    let mut reader = input::csv().has_headers(false).flexible(true).from_reader(text.as_bytes());
    for record in reader.records() {
        let record = record.map_err(|error| format!("{name}: {error}"))?;
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() != hosts {
            return Err(format!(
                "{name}:{line}: {hosts} hosts need {hosts} columns, not {}",
                record.len()
            ));
        }
        let mut sum = 0.0;
        let mut row = Vec::with_capacity(hosts);
        for (to, field) in record.iter().enumerate() {
            let weight = field.parse::<f64>().ok().filter(|it| it.is_finite() && *it >= 0.0);
            let Some(weight) = weight else {
                return Err(format!("{name}:{line}:{}: \"{field}\" is not a weight", to + 1));
            };
            sum += if to == rows.len() { 0.0 } else { weight };
            row.push(sum);
        }
        rows.push(row);
    }
    if rows.len() != hosts {
        return Err(format!("{name}: {hosts} hosts need {hosts} rows, not {}", rows.len()));
    }
    if rows.iter().all(|row| row.last().is_none_or(|sum| *sum == 0.0)) {
        return Err(format!("{name}: all weights are 0"));
    }
    Ok(rows)
}

/// A CSV with the columns `start` (seconds), `from`, `to` and `bytes`.
pub fn trace(
    path: &Path,
    hosts: &BTreeMap<&str, usize>,
    span: Duration,
) -> Result<Vec<TraceFlow>, String> {
    const COLUMNS: [&str; 4] = ["start", "from", "to", "bytes"];
    let text = read(path)?;
    let name = path.display();
    let mut reader = input::csv().from_reader(text.as_bytes());
    let head = reader.headers().map_err(|error| format!("{name}: {error}"))?.clone();
    let place = |column: &str| {
        let found = head.iter().position(|name| name == column);
        found.ok_or_else(|| {
            format!("{name}:1: there is no column \"{column}\" (start, from, to, bytes)")
        })
    };
    let [start, from, to, bytes] = COLUMNS.map(place);
    let (start, from, to, bytes) = (start?, from?, to?, bytes?);
    let mut flows = Vec::new();
    let mut of_host: BTreeMap<usize, usize> = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(|error| format!("{name}: {error}"))?;
        let line = record.position().map_or(0, csv::Position::line);
        let field = |place: usize| record.get(place).unwrap_or_default();
        let fault = |place: usize, why: String| format!("{name}:{line}:{}: {why}", place + 1);
        let host = |place: usize| {
            hosts.get(field(place)).copied().ok_or_else(|| {
                let near = suggest(field(place), hosts.keys().copied()).unwrap_or_default();
                fault(
                    place,
                    format!("no host of the workload is called \"{}\"; {near}", field(place)),
                )
            })
        };
        let seconds = field(start).parse::<f64>().ok();
        let longest = TIME_MAX.as_nanos() as f64 / 1e9;
        let Some(seconds) = seconds.filter(|it| (0.0..=longest).contains(it)) else {
            return Err(fault(start, format!("\"{}\" is not a number of seconds", field(start))));
        };
        let Some(size) = field(bytes).parse::<u64>().ok().filter(|it| (1..=1 << 40).contains(it))
        else {
            return Err(fault(
                bytes,
                format!("\"{}\" is not a number of bytes above 0", field(bytes)),
            ));
        };
        let at = Duration::from_nanos((seconds * 1e9).round() as u64);
        let flow = TraceFlow { at, from: host(from)?, to: host(to)?, bytes: size };
        if flow.from == flow.to {
            return Err(fault(to, "a flow needs two different hosts".into()));
        }
        if at >= span {
            return Err(fault(start, "the flow would start after the end of the workload".into()));
        }
        if flows.len() == WORKLOAD_FLOWS_MAX {
            return Err(fault(start, format!("at most {WORKLOAD_FLOWS_MAX} flows are possible")));
        }
        let sent = of_host.entry(flow.from).or_default();
        *sent += 1;
        if *sent > HOST_FLOWS_MAX {
            let why = format!(
                "at most {HOST_FLOWS_MAX} flows of one host are possible; let others send some of \"{}\"'s",
                field(from)
            );
            return Err(fault(from, why));
        }
        flows.push(flow);
    }
    if flows.is_empty() {
        return Err(format!("{name}: there are no flows"));
    }
    flows.sort_by_key(|flow| flow.at);
    Ok(flows)
}
