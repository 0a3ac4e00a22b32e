//! Captures: pcapng files of packets at chosen ports.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use pcap::{Snap, Writer};
use sim::capture::{Capture, LinkEnd};
use sim::record::DropPlace;

use super::Error;
use super::build::BuiltWorld;
use crate::plan::Plan;
use crate::store::{Error as StoreError, Pending, Store};

/// A file, and the capture that the world writes to it.
pub type OpenCapture = (PathBuf, Rc<RefCell<Capture<Pending>>>);

/// The file of a port's capture.
pub fn file_name(run: &str, port: &str) -> String {
    format!("pcap/{run}-{port}.pcapng")
}

/// The files of all captures of a run.
pub fn files(plan: &Plan, run: &str) -> Vec<String> {
    let ports = plan.measure.pcap.iter().map(|&(link, end)| plan.port_name(link, end));
    ports.map(|port| file_name(run, &port)).collect()
}

/// Adds the ports that these patterns name to what a plan captures.
pub fn add(plan: &mut Plan, patterns: &[String]) {
    let called: Vec<_> = patterns.iter().flat_map(|pattern| plan.ports_called(pattern)).collect();
    for port in called {
        if !plan.measure.pcap.contains(&port) {
            plan.measure.pcap.push(port);
        }
    }
}

/// Begins a capture for each port that the plan names: both directions, and drops in the
/// node.
pub fn begin(
    built: &mut BuiltWorld,
    plan: &Plan,
    store: &Store,
    run: &str,
) -> Result<Vec<OpenCapture>, Error> {
    let mut captures = Vec::new();
    for &(link, end) in &plan.measure.pcap {
        let port_name = plan.port_name(link, end);
        let name = file_name(run, &port_name);
        let path = store.root().join(&name);
        let writer = Writer::new(store.begin(&name)?).map_err(|problem| failed(&path, problem))?;
        let mut capture = Capture::new(writer, Snap::Bytes(plan.measure.snaplen));
        let (node, port) = built.ends[link][end];
        let (far_node, far_port) = built.ends[link][1 - end];
        capture.tap(built.world.link_of(node, port), LinkEnd::Sent, &format!("{port_name} out"));
        let inward = built.world.link_of(far_node, far_port);
        capture.tap(inward, LinkEnd::Delivered, &format!("{port_name} in"));
        capture.tap_drops(DropPlace::Node(node), &plan.nodes[plan.links[link].ends[end]].name);
        let capture = Rc::new(RefCell::new(capture));
        built.world.observe(Box::new(Rc::clone(&capture)));
        captures.push((path, capture));
    }
    Ok(captures)
}

/// Ends all captures after the world has gone.
pub fn finish(captures: Vec<OpenCapture>) -> Result<(), Error> {
    for (path, capture) in captures {
        let Some(capture) = Rc::into_inner(capture) else { continue };
        let pending = capture.into_inner().finish().map_err(|problem| failed(&path, problem))?;
        pending.commit()?;
    }
    Ok(())
}

fn failed(path: &Path, problem: std::io::Error) -> Error {
    Error::Store(StoreError { path: path.into(), problem })
}
