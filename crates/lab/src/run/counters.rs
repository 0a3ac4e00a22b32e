//! What hosts and policers count.

use datapath::tcp::mib::Mib;
use sim::link::NodeId;

use super::build::BuiltWorld;
use super::metric::push;
use crate::plan::Plan;
use crate::results::Metric;

/// The hosts' TCP counters, summed. An RTO is an expiry of the retransmission timer.
pub fn tcp(out: &mut Vec<Metric>, built: &BuiltWorld) {
    type Read = fn(&Mib) -> u64;
    let counters: [(&str, Read); 8] = [
        ("reordering", |mib| mib.sack_reorder + mib.reno_reorder + mib.ts_reorder),
        ("out of order", |mib| mib.ofo_queue),
        ("rto", |mib| mib.timeouts),
        ("retransmits", |mib| mib.retrans_segs),
        ("lost retransmits", |mib| mib.lost_retransmit),
        ("fast recoveries", |mib| mib.sack_recovery + mib.reno_recovery),
        ("tail loss probes", |mib| mib.loss_probes),
        ("spurious recoveries", |mib| {
            mib.full_undo + mib.dsack_undo + mib.loss_undo + mib.partial_undo
        }),
    ];
    let nodes = 0..built.world.node_count() as u32;
    let mibs: Vec<Mib> = nodes.map(|node| built.world.host(NodeId(node)).tcp_mib()).collect();
    for (name, read) in counters {
        let unit = if name == "retransmits" { "segments" } else { "" };
        push(out, "total", name, unit, mibs.iter().map(read).sum::<u64>() as f64);
    }
}

/// What each policer let pass and dropped, in the order of the plan.
pub fn policers(out: &mut Vec<Metric>, plan: &Plan, built: &BuiltWorld) {
    for (link, ends) in built.ends.iter().enumerate() {
        for (end, &(node, port)) in ends.iter().enumerate() {
            for (_, police) in built.world.host(node).policers().iter().filter(|(p, _)| *p == port)
            {
                let stats = police.stats();
                let name = plan.port_name(link, end);
                push(out, &name, "policed", "packets", stats.packets as f64);
                push(out, &name, "police drops", "packets", stats.drops as f64);
            }
        }
    }
}
