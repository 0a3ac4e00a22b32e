//! `[nodes]`: what each node is, and what it says about its stack.

use std::num::NonZeroU32;
use std::rc::Rc;

use datapath::host::SharedBuffer;
use datapath::profile::{DctcpAck, LostRetransmit, Profile};
use datapath::tcp::cc::dctcp;

use super::doc::{Key, Kind, Node, Origin};
use super::ip::Lines;
use super::names::{check_name, check_unique, numbered};
use super::network::{NodePlan, Offload, Role, Stack};
use super::read::{Faults, Reader};
use super::{ip, limit_checks, limits, sysctl};

const STACKS: [(&str, Stack); 2] = [("ours", Stack::Ours), ("kernel", Stack::Kernel)];
const OFFLOADS: [(&str, Offload); 4] =
    [("off", Offload::Off), ("gso", Offload::Gso), ("tso", Offload::Tso), ("nic", Offload::Nic)];

/// The longest time that an interrupt may wait, in µs.
const MAX_RX_USECS: i64 = 1_000_000;

/// The nodes of an experiment.
#[derive(Default)]
pub struct Nodes<'a> {
    /// What each of them is.
    pub plans: Vec<NodePlan>,
    /// Where each was written.
    pub places: Vec<&'a Origin>,
    /// The tables about each that may tell it lines of `ip`, in the order of the file.
    pub lines: Vec<Vec<Rc<Lines<'a>>>>,
}

/// Nodes, or `count` equal ones called `NAME-1`, `NAME-2`, …. `None` if they are too many.
pub fn read_nodes<'a>(
    entries: &'a [(Key, Node)],
    defaults: &NodePlan,
    faults: &Faults<'_>,
) -> Option<Nodes<'a>> {
    let mut nodes = Nodes::default();
    let mut texts = 0;
    for (key, node) in entries {
        check_name(key, "node", faults);
        let Some(mut table) = Reader::new(node, faults) else { continue };
        let role = table.word("role", &[("host", Role::Host), ("router", Role::Router)]);
        let count = table.integer("count", 1..=limits::NODES_MAX as i64);
        let base = NodePlan {
            name: key.name.clone(),
            role: role.unwrap_or(Role::Host),
            ..defaults.clone()
        };
        let plan = read_node(&mut table, base);
        table.finish();
        let several = count.unwrap_or(1) as usize;
        texts += several * (plan.ip.len() + plan.at.len() + plan.sysctls.len());
        if !limit_checks::within_limit(
            "nodes",
            nodes.plans.len(),
            Some(several),
            limits::NODES_MAX,
            &key.at,
            faults,
        ) || !limit_checks::within_limit(
            "lines for nodes",
            0,
            Some(texts),
            limits::TEXTS_MAX,
            &key.at,
            faults,
        ) {
            return None;
        }
        let lines = Rc::new(Lines::of(&key.name, node));
        for name in numbered(&key.name, count) {
            nodes.plans.push(NodePlan { name, ..plan.clone() });
            nodes.places.push(&key.at);
            nodes.lines.push(vec![Rc::clone(&lines)]);
        }
    }
    nodes.check_names(faults);
    Some(nodes)
}

impl Nodes<'_> {
    /// No two of them may be called alike.
    pub fn check_names(&self, faults: &Faults<'_>) {
        let names = self.plans.iter().map(|node| node.name.as_str());
        check_unique("node", names, &self.places, faults);
    }
}

/// What a node says about its stack, or the whole experiment about all nodes.
pub fn read_node(table: &mut Reader<'_, '_>, base: NodePlan) -> NodePlan {
    let profiles = Profile::NAMES.map(|name| (name, name));
    let detectors = LostRetransmit::ALL.map(|detector| (detector.name(), detector));
    let rules = DctcpAck::ALL.map(|rule| (rule.name(), rule));
    let profile = table.word("profile", &profiles).and_then(Profile::by_name);
    let settings = sysctl::read(table.tables("sysctl"), table.faults);
    NodePlan {
        stack: table.word("stack", &STACKS).unwrap_or(base.stack),
        profile: profile.unwrap_or(base.profile),
        lost_retransmit: table.word("lost_retransmit", &detectors).or(base.lost_retransmit),
        sack_fast_path: table.boolean("sack_fast_path").unwrap_or(base.sack_fast_path),
        forward_retransmits: table
            .boolean("forward_retransmits")
            .unwrap_or(base.forward_retransmits),
        initial_ssthresh: table
            .integer("initial_ssthresh", 0..=u32::MAX.into())
            .map_or(base.initial_ssthresh, |segments| NonZeroU32::new(segments as u32)),
        dctcp_ack: table.word("dctcp_ack", &rules).or(base.dctcp_ack),
        dctcp: dctcp::Params {
            shift_g: table
                .integer("dctcp_shift_g", 0..=10)
                .map_or(base.dctcp.shift_g, |shift| shift as u8),
            alpha_on_init: table
                .integer("dctcp_alpha_on_init", 0..=dctcp::MAX_ALPHA.into())
                .map_or(base.dctcp.alpha_on_init, |alpha| alpha as u32),
        },
        dctcp_syn_ect: table.boolean("dctcp_syn_ect").unwrap_or(base.dctcp_syn_ect),
        sysctls: base.sysctls.into_iter().chain(settings.sysctls).collect(),
        congestion_control: settings.congestion_control.or(base.congestion_control),
        offload: table.word("offload", &OFFLOADS).unwrap_or(base.offload),
        gro: table.switch("gro").unwrap_or(base.gro),
        rx_usecs: table
            .integer("rx_usecs", 0..=MAX_RX_USECS)
            .map_or(base.rx_usecs, |delay| delay as u32),
        ip: base.ip.into_iter().chain(settings.routing).chain(ip::lines(table)).collect(),
        at: base.at.into_iter().chain(ip::timed_lines(table)).collect(),
        mp_algo: table.word("mp_algo", &ip::ALGORITHMS).unwrap_or(base.mp_algo),
        buffer: read_buffer(table).or(base.buffer),
        ..base
    }
}

/// `buffer = SIZE` and `buffer_alpha = "1/4"`, which may also be a number.
fn read_buffer(table: &mut Reader<'_, '_>) -> Option<SharedBuffer> {
    let size = table.size("buffer");
    let alpha = match table.node("buffer_alpha") {
        None => (1, 1),
        Some(node) => match (positive_fraction(&node.kind), size) {
            (Some(alpha), Some(_)) => alpha,
            (Some(_), None) => {
                table.faults.add(&node.at, "\"buffer_alpha\" needs \"buffer\"", None);
                return None;
            }
            (None, _) => {
                let message =
                    "\"buffer_alpha\" must be a positive number, or a fraction such as \"1/4\"";
                table.faults.add(&node.at, message, None);
                return None;
            }
        },
    };
    let bytes = u32::try_from(size?).unwrap_or(u32::MAX);
    Some(SharedBuffer::new(bytes, alpha))
}

/// Numerator and denominator of `2`, `0.25`, `"0.25"` or `"7/33"`.
fn positive_fraction(kind: &Kind) -> Option<(u32, u32)> {
    let text = match kind {
        Kind::Int(number) => number.to_string(),
        Kind::Float(number) => number.to_string(),
        Kind::Text(text) => text.clone(),
        _ => return None,
    };
    let (over, under) = text.split_once('/').unwrap_or((&text, "1"));
    let (whole, places) = over.trim().split_once('.').unwrap_or((over.trim(), ""));
    let over: u32 = format!("{whole}{places}").parse().ok()?;
    let under: u32 = under.trim().parse().ok()?;
    let under = under.checked_mul(10_u32.checked_pow(u32::try_from(places.len()).ok()?)?)?;
    (over > 0 && under > 0).then_some((over, under))
}
