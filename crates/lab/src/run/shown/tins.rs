//! The tins of CAKE over time, and the ACKs that its filter dropped.

use std::sync::Arc;

use datapath::qdisc::cake::{AckRule, Cake, TinStats};
use datapath::qdisc::{AnyQdisc, Sched};
use sim::world::World;

use crate::plan::Plan;
use crate::results::{Column, Series};
use crate::run::apps;
use crate::run::build::{BuiltWorld, WatchedPort};

/// The tins of all watched ports that have a CAKE.
pub struct Tins {
    time_ns: Vec<i64>,
    ports: Vec<PortTins>,
}

struct PortTins {
    /// Which of the watched ports.
    index: usize,
    name: String,
    tins: Vec<TinSamples>,
}

struct TinSamples {
    name: &'static str,
    last: Option<TinStats>,
    columns: [Vec<Option<i64>>; COLUMNS.len()],
}

/// What is sampled; of counters, what came since the sample before.
const COLUMNS: [&str; 8] = [
    "enqueued_bits_per_sec",
    "backlog_bytes",
    "average_delay_us",
    "drops",
    "ecn_mark",
    "ack_drops",
    "sparse_flows",
    "bulk_flows",
];

/// The first CAKE of a port.
fn cake<'a>(world: &'a World, place: &WatchedPort) -> Option<&'a Cake> {
    let root = world.host(place.node).port(place.port).qdisc();
    root.tree().into_iter().find_map(|(_, sched)| match sched.qdisc() {
        AnyQdisc::Cake(cake) => Some(&**cake),
        _ => None,
    })
}

impl Tins {
    /// Nothing sampled yet; from now on filtered ACKs are logged.
    pub fn new(plan: &Plan, built: &mut BuiltWorld) -> Self {
        let mut ports = Vec::new();
        for (index, &(link, end)) in plan.measure.queues.iter().enumerate() {
            let place = &built.ports[index];
            let Some(cake) = cake(&built.world, place) else { continue };
            let tin = |tin: &TinStats| TinSamples {
                name: tin.name,
                last: None,
                columns: Default::default(),
            };
            let tins = cake.cake_stats().tins.iter().map(tin).collect();
            ports.push(PortTins { index, name: plan.port_name(link, end), tins });
            let (node, port) = (place.node, place.port);
            built.world.with_host(node, |now, host| {
                host.change_qdisc(now, port, |root, _| {
                    let handles: Vec<_> = root.tree().iter().map(|(_, it)| it.handle).collect();
                    for handle in handles {
                        let found = root.find_mut(handle);
                        if let Some(AnyQdisc::Cake(cake)) = found.map(Sched::qdisc_mut) {
                            cake.log_filtered_acks();
                        }
                    }
                });
            });
        }
        Self { time_ns: Vec::new(), ports }
    }

    /// A sample is due.
    pub fn take(&mut self, built: &BuiltWorld) {
        if self.ports.is_empty() {
            return;
        }
        let now = built.world.now().as_nanos() as i64;
        let span = now - self.time_ns.last().copied().unwrap_or(0);
        self.time_ns.push(now);
        for port in &mut self.ports {
            let stats = cake(&built.world, &built.ports[port.index]).map(Cake::cake_stats);
            let stats = stats.map(|stats| stats.tins).unwrap_or_default();
            for (place, tin) in port.tins.iter_mut().enumerate() {
                // A command may have changed how many there are.
                tin.take(stats.get(place).copied(), span);
            }
        }
    }

    /// The samples: a series a tin.
    pub fn into_series(self) -> Vec<Series> {
        let mut out = Vec::new();
        let time_ns: Arc<[i64]> = self.time_ns.into();
        for port in self.ports {
            for (place, tin) in port.tins.into_iter().enumerate() {
                let column = |(name, values): (&&str, Vec<_>)| Column {
                    name: (*name).into(),
                    values: values.into(),
                };
                out.push(Series {
                    name: format!("tin-{}-{place}-{}", port.name, tin.name.replace(' ', "_")),
                    time_ns: Arc::clone(&time_ns),
                    columns: COLUMNS.iter().zip(tin.columns).map(column).collect(),
                });
            }
        }
        out
    }
}

impl TinSamples {
    fn take(&mut self, now: Option<TinStats>, span_ns: i64) {
        let counted = |read: fn(&TinStats) -> u64| {
            let before = self.last.as_ref().map_or(0, read);
            now.as_ref().map(|tin| read(tin).wrapping_sub(before) as i64)
        };
        let stands = |read: fn(&TinStats) -> u64| now.as_ref().map(|tin| read(tin) as i64);
        let rate =
            |bytes: i64| (i128::from(bytes) * 8_000_000_000 / i128::from(span_ns.max(1))) as i64;
        let values = [
            counted(|tin| tin.sent_bytes).map(rate),
            stands(|tin| tin.backlog_bytes.into()),
            stands(|tin| tin.average_delay_us),
            counted(|tin| tin.drops.into()),
            counted(|tin| tin.ecn_mark.into()),
            counted(|tin| tin.ack_drops.into()),
            stands(|tin| tin.sparse_flows.into()),
            stands(|tin| tin.bulk_flows.into()),
        ];
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(value);
        }
        self.last = now;
    }
}

/// The ACKs that were filtered at each watched port, in order of time: `acks-PORT`. `rule` is the place of the rule among
/// those that drop, `flow` that of the flow in the plan, −1 for none of them.
pub fn filtered(plan: &Plan, built: &BuiltWorld) -> Vec<Series> {
    let mut out = Vec::new();
    for (place, &(link, end)) in built.ports.iter().zip(&plan.measure.queues) {
        let gone = cake(&built.world, place).map(Cake::filtered_acks).unwrap_or_default();
        if gone.is_empty() {
            continue;
        }
        let mut time_ns = Vec::new();
        let mut columns: [Vec<Option<i64>>; 4] = Default::default();
        for judgement in gone {
            let Some(ack) = judgement.gone else { continue };
            time_ns.push(judgement.at.as_nanos() as i64);
            let flow =
                flow_of(plan, ack.flow.src_port).or_else(|| flow_of(plan, ack.flow.dst_port));
            let values = [
                number(judgement.rule),
                i64::from(ack.ack.0),
                i64::from(ack.newest.0),
                flow.unwrap_or(-1),
            ];
            for (column, value) in columns.iter_mut().zip(values) {
                column.push(Some(value));
            }
        }
        let names = ["rule", "ack", "newest_ack", "flow"];
        let column =
            |(name, values): (&str, Vec<_>)| Column { name: name.into(), values: values.into() };
        out.push(Series {
            name: format!("acks-{}", plan.port_name(link, end)),
            time_ns: time_ns.into(),
            columns: names.into_iter().zip(columns).map(column).collect(),
        });
    }
    out
}

/// The flow whose server listens there.
fn flow_of(plan: &Plan, port: u16) -> Option<i64> {
    let index = usize::from(port.checked_sub(apps::server_port(0))?);
    plan.flows.get(index).filter(|flow| flow.app.is_tcp()).map(|_| index as i64)
}

fn number(rule: AckRule) -> i64 {
    const DROPS: [AckRule; 4] =
        [AckRule::FirstOfTwo, AckRule::LastBefore, AckRule::First, AckRule::EveryOther];
    DROPS.iter().position(|known| *known == rule).map_or(-1, |place| place as i64)
}
