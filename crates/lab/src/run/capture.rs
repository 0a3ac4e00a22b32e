//! Captures: pcapng files of what passes chosen ports.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use pcap::{Snap, Writer};
use sim::capture::{Capture, Side};
use sim::record::DropPlace;

use super::Error;
use super::build::Built;
use crate::plan::Plan;
use crate::store::{Error as StoreError, Pending, Store};

/// A file and the capture that the world writes to it.
pub type Running = (PathBuf, Rc<RefCell<Capture<Pending>>>);

/// Begins a capture for each port that the plan names: both directions, and what is dropped in the
/// node.
pub fn begin(
    built: &mut Built,
    plan: &Plan,
    store: &Store,
    run: &str,
) -> Result<Vec<Running>, Error> {
    let mut captures = Vec::new();
    for &(link, end) in &plan.measure.pcap {
        let port_name = plan.port_name(link, end);
        let name = format!("pcap/{run}-{port_name}.pcapng");
        let path = store.root().join(&name);
        let writer = Writer::new(store.begin(&name)?).map_err(|problem| failed(&path, problem))?;
        let mut capture = Capture::new(writer, Snap::Bytes(plan.measure.snaplen));
        let (node, port) = built.ends[link][end];
        let (far_node, far_port) = built.ends[link][1 - end];
        capture.tap(built.world.link_of(node, port), Side::Sent, &format!("{port_name} out"));
        let inward = built.world.link_of(far_node, far_port);
        capture.tap(inward, Side::Delivered, &format!("{port_name} in"));
        capture.tap_drops(DropPlace::Node(node), &plan.nodes[plan.links[link].ends[end]].name);
        let capture = Rc::new(RefCell::new(capture));
        built.world.observe(Box::new(Rc::clone(&capture)));
        captures.push((path, capture));
    }
    Ok(captures)
}

/// Ends all captures after the world has gone.
pub fn finish(captures: Vec<Running>) -> Result<(), Error> {
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
