//! How a world is shrunk.

use super::plan::{
    App, Case, ChangeKind, CloseMode, Direction, Impairments, Node, Options, ReadMode,
};
use crate::shrink::without_parts;

/// Takes changes that may make a case simpler.
type Changes<'a> = dyn FnMut(&dyn Fn(&mut Case)) + 'a;

/// Worlds a little simpler, the boldest first.
pub fn simpler(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    for flows in without_parts(&case.flows) {
        all.push(Case { flows, ..case.clone() });
    }
    for changes in without_parts(&case.changes) {
        all.push(Case { changes, ..case.clone() });
    }
    all.extend((0..case.nodes.len()).filter_map(|node| without_node(case, node)));
    all.extend((0..case.wires.len()).filter_map(|wire| without_wire(case, wire)));
    for stops_us in without_parts(&case.stops_us) {
        all.push(Case { stops_us, ..case.clone() });
    }
    let mut with = |change: &dyn Fn(&mut Case)| {
        let mut simpler = case.clone();
        change(&mut simpler);
        if simpler != *case {
            all.push(simpler);
        }
    };
    with(&|case| {
        case.late_us = 0;
        case.nodes.iter_mut().for_each(|node| node.slow = false);
    });
    with(&|case| case.heal_us /= 2);
    with(&|case| case.flows.iter_mut().for_each(|flow| flow.ipv6 = false));
    for index in 0..case.nodes.len() {
        with(&|case| {
            let node = &mut case.nodes[index];
            *node =
                Node { router: node.router, profile: "linux-7.x".to_owned(), ..Node::default() };
        });
        with(&|case| case.nodes[index].sysctls.clear());
        for sysctls in without_parts(&case.nodes[index].sysctls) {
            with(&|case| case.nodes[index].sysctls.clone_from(&sysctls));
        }
        with(&|case| "linux-7.x".clone_into(&mut case.nodes[index].profile));
        with(&|case| {
            let node = &mut case.nodes[index];
            (node.policy, node.algorithm) = (0, 0);
        });
        with(&|case| case.nodes[index].gro = false);
        with(&|case| case.nodes[index].rx_usecs = 0);
        with(&|case| case.nodes[index].offload = super::plan::Offload::Off);
        with(&|case| case.nodes[index].buffer = None);
        with(&|case| case.nodes[index].slow = false);
    }
    for index in 0..case.wires.len() {
        with(&|case| case.wires[index].mtu = 1_500);
        with(&|case| case.wires[index].veth = false);
        for end in [0, 1] {
            direction(case, index, end, &mut with);
        }
    }
    for index in 0..case.flows.len() {
        flow(case, index, &mut with);
    }
    all
}

fn direction(case: &Case, wire: usize, end: usize, with: &mut Changes<'_>) {
    let set = |case: &mut Case, direction: Direction| {
        let wire = &mut case.wires[wire];
        *[&mut wire.there, &mut wire.back][end] = direction;
    };
    let now = [&case.wires[wire].there, &case.wires[wire].back][end].clone();
    let mut to = |direction: Direction| with(&|case| set(case, direction.clone()));
    to(Direction {
        impairments: Impairments::default(),
        tc: Vec::new(),
        police: None,
        ..now.clone()
    });
    to(Direction { impairments: Impairments::default(), ..now.clone() });
    for tc in without_parts(&now.tc) {
        to(Direction { tc, ..now.clone() });
    }
    to(Direction { police: None, ..now.clone() });
    to(Direction { healed: "pfifo".to_owned(), ..now.clone() });
    to(Direction { kbit: 0, ..now.clone() });
    to(Direction { steps: Vec::new(), period_us: 0, ..now.clone() });
    let fewer = now.steps[..now.steps.len().div_ceil(2)].to_vec();
    to(Direction { steps: fewer, ..now.clone() });
    to(Direction { period_us: 0, ..now.clone() });
    to(Direction { ring: 1, ..now.clone() });
    to(Direction { delay_us: now.delay_us.min(1_000), ..now.clone() });
    let impairments = &now.impairments;
    for rules in without_parts(&impairments.rules) {
        to(Direction { impairments: Impairments { rules, ..impairments.clone() }, ..now.clone() });
    }
    let zero: [fn(&mut Impairments); 6] = [
        |impairments| impairments.loss = 0,
        |impairments| impairments.corruption = 0,
        |impairments| impairments.duplication = 0,
        |impairments| impairments.reordering = 0,
        |impairments| impairments.jitter_us = 0,
        |impairments| impairments.jitter_reorders = false,
    ];
    for zero in zero {
        let mut impairments = impairments.clone();
        zero(&mut impairments);
        to(Direction { impairments, ..now.clone() });
    }
}

fn flow(case: &Case, index: usize, with: &mut Changes<'_>) {
    with(&|case| case.flows[index].client = Options::default());
    with(&|case| case.flows[index].server = Options::default());
    with(&|case| case.flows[index].ipv6 = false);
    with(&|case| case.flows[index].stop_us = 0);
    with(&|case| case.flows[index].start_us = 0);
    with(&|case| case.flows[index].start_us /= 2);
    let fields: [fn(&mut Options); 18] = [
        |options| options.congestion = None,
        |options| options.nodelay = false,
        |options| options.sndbuf = 0,
        |options| options.rcvbuf = 0,
        |options| options.pacing = 0,
        |options| options.keepalive_s = 0,
        |options| options.user_timeout_ms = 0,
        |options| options.maxseg = 0,
        |options| options.tos = 0,
        |options| options.syncnt = 0,
        |options| options.defer_accept = 0,
        |options| options.window_clamp = 0,
        |options| options.notsent_lowat = 0,
        |options| options.rcvlowat = 0,
        |options| options.linger2_s = 0,
        |options| options.md5 = None,
        |options| options.pmtu = 0,
        |options| options.fastopen = 0,
    ];
    for field in fields {
        with(&|case| field(&mut case.flows[index].client));
        with(&|case| field(&mut case.flows[index].server));
    }
    match &case.flows[index].app {
        App::Talk { .. } => {
            for answers in [false, true] {
                talk(index, answers, with);
            }
            with(&|case| talk_of(case, index, |count, _, _| *count = 1));
            with(&|case| talk_of(case, index, |_, fast_open, _| *fast_open = false));
            with(&|case| talk_of(case, index, |_, _, listen_us| *listen_us = 0));
        }
        App::Send { .. } => {
            let fewer: [fn(&mut App); 4] = [
                |app| {
                    if let App::Send { bytes, .. } = app {
                        *bytes /= 2;
                    }
                },
                |app| {
                    if let App::Send { gap_us, .. } = app {
                        *gap_us = 0;
                    }
                },
                |app| {
                    if let App::Send { on_off_us, .. } = app {
                        *on_off_us = [0, 0];
                    }
                },
                |app| {
                    if let App::Send { pause, .. } = app {
                        *pause = [0, 0];
                    }
                },
            ];
            for fewer in fewer {
                with(&|case| fewer(&mut case.flows[index].app));
            }
        }
        _ => {
            with(&|case| {
                if let App::Query { more, .. } = &mut case.flows[index].app {
                    more.pop();
                }
            });
            let fewer = |app: &mut App| match app {
                App::Request { count, .. }
                | App::Query { count, .. }
                | App::Connect { count, .. } => {
                    *count = (*count / 2).max(1);
                }
                App::Cbr { every_us, .. }
                | App::Ping { every_us, .. }
                | App::Probe { every_us, .. } => {
                    *every_us = (*every_us * 2).min(100_000_000);
                }
                _ => {}
            };
            with(&|case| fewer(&mut case.flows[index].app));
        }
    }
}

fn talk_of(case: &mut Case, index: usize, change: impl Fn(&mut u32, &mut bool, &mut u64)) {
    if let App::Talk { count, fast_open, listen_us, .. } = &mut case.flows[index].app {
        change(count, fast_open, listen_us);
    }
}

fn talk(index: usize, answers: bool, with: &mut Changes<'_>) {
    let fewer: [fn(&mut super::plan::EndBehaviour); 6] = [
        |manners| manners.write = 0,
        |manners| manners.write /= 2,
        |manners| manners.gap_us = 0,
        |manners| manners.chunk = 100_000,
        |manners| manners.reading = ReadMode::Eager,
        |manners| manners.ending = CloseMode::Shutdown,
    ];
    for fewer in fewer {
        with(&|case| {
            if let App::Talk { client, server, .. } = &mut case.flows[index].app {
                fewer(if answers { server } else { client });
            }
        });
    }
}

/// Without a node that no flow needs, and the wires that end there.
fn without_node(case: &Case, gone: usize) -> Option<Case> {
    let needed = case.flows.iter().any(|flow| flow.involves(gone));
    if needed || case.nodes.len() <= 2 {
        return None;
    }
    let mut simpler = case.clone();
    while let Some(wire) = simpler.wires.iter().position(|wire| wire.ends.contains(&gone)) {
        remove_wire(&mut simpler, wire);
    }
    simpler.nodes.remove(gone);
    let renumber = |node: &mut usize| *node -= usize::from(*node > gone);
    simpler.wires.iter_mut().flat_map(|wire| &mut wire.ends).for_each(renumber);
    for flow in &mut simpler.flows {
        renumber(&mut flow.from);
        renumber(&mut flow.to);
        if let App::Query { more, .. } = &mut flow.app {
            more.iter_mut().for_each(renumber);
        }
    }
    simpler.changes.retain(|change| match &change.what {
        ChangeKind::Sysctl { node, .. } | ChangeKind::FlushMetrics { node } => *node != gone,
        ChangeKind::Rule { node, to, .. } => *node != gone && *to != gone,
        _ => true,
    });
    for change in &mut simpler.changes {
        match &mut change.what {
            ChangeKind::Sysctl { node, .. } | ChangeKind::FlushMetrics { node } => renumber(node),
            ChangeKind::Rule { node, to, .. } => {
                renumber(node);
                renumber(to);
            }
            _ => {}
        }
    }
    is_connected(&simpler).then_some(simpler)
}

fn without_wire(case: &Case, gone: usize) -> Option<Case> {
    let mut simpler = case.clone();
    remove_wire(&mut simpler, gone);
    is_connected(&simpler).then_some(simpler)
}

fn remove_wire(case: &mut Case, gone: usize) {
    case.wires.remove(gone);
    let wire_of = |what: &ChangeKind| match what {
        ChangeKind::Link { wire, .. }
        | ChangeKind::Rate { wire, .. }
        | ChangeKind::Mtu { wire, .. }
        | ChangeKind::Tc { wire, .. } => Some(*wire),
        _ => None,
    };
    case.changes.retain(|change| wire_of(&change.what) != Some(gone));
    for change in &mut case.changes {
        if let ChangeKind::Link { wire, .. }
        | ChangeKind::Rate { wire, .. }
        | ChangeKind::Mtu { wire, .. }
        | ChangeKind::Tc { wire, .. } = &mut change.what
        {
            *wire -= usize::from(*wire > gone);
        }
    }
}

/// Whether a way over routers leads from every node to every other.
fn is_connected(case: &Case) -> bool {
    let mut reached = vec![false; case.nodes.len()];
    let mut border = vec![0];
    reached[0] = true;
    while let Some(node) = border.pop() {
        for wire in &case.wires {
            for [one, other] in [wire.ends, [wire.ends[1], wire.ends[0]]] {
                if one == node && !reached[other] && (node == 0 || case.nodes[node].router) {
                    reached[other] = true;
                    border.push(other);
                }
            }
        }
    }
    reached.iter().all(|reached| *reached)
}
