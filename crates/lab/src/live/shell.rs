//! A shell inside an experiment: its links, queues and routers, and a kernel at each host.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use datapath::units::{Duration, Instant};

use super::Driver;
use crate::plan::{Plan, Role, Stack};
use crate::run::build;

/// How often it is checked whether the shell has ended.
const LOOK: Duration = Duration::from_millis(50);

/// The first address of each node.
///
/// # Errors
/// The plan is impossible.
pub fn addresses(plan: &Plan) -> Result<Vec<IpAddr>, String> {
    let mut plan = plan.clone();
    plan.flows.clear();
    plan.workloads.clear();
    Ok(build::build(&plan, true)?.addresses)
}

/// Runs `command` in the namespace of a node while the experiment's network is there; its exit code.
///
/// # Errors
/// There is no such host, or namespaces and devices cannot be made.
pub fn shell(
    plan: &Plan,
    node: &str,
    command: &[String],
    stop: &AtomicBool,
) -> Result<i32, String> {
    let index = plan.nodes.iter().position(|one| one.name == node);
    let hosts = || plan.nodes.iter().filter(|one| one.role == Role::Host);
    let index = index.filter(|index| plan.nodes[*index].role == Role::Host).ok_or_else(|| {
        let names: Vec<&str> = hosts().map(|one| one.name.as_str()).collect();
        format!("no host is called \"{node}\"; hosts are {}", names.join(", "))
    })?;
    let mut plan = plan.clone();
    plan.flows.clear();
    plan.workloads.clear();
    for one in plan.nodes.iter_mut().filter(|one| one.role == Role::Host) {
        one.stack = Stack::Kernel;
    }
    let mut built = build::build(&plan, true)?;
    let mut driver = Driver::start(&plan, &mut built)?;
    // The links carry from time zero on.
    driver.run_until(&mut built.world, Instant::ZERO)?;
    let namespace = driver.namespace(index).ok_or("the host has no namespace")?;
    let shell = live::program::in_foreground(namespace, command.to_vec())
        .map_err(|error| format!("{}: {error}", command.join(" ")))?;
    let mut at = Instant::ZERO;
    while !shell.is_finished() && !stop.load(Ordering::Relaxed) {
        at += LOOK;
        driver.run_until(&mut built.world, at)?;
        built.changes.apply_due(&mut built.world)?;
    }
    shell.code().map_err(|error| format!("{}: {error}", command.join(" ")))
}
