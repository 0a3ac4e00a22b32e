//! What a generated network looks like: its nodes and links by name, without rates.

use datapath::rng::Rng;
use datapath::units::{Duration, Rate};

use super::super::network::Role;
use super::random;

/// Nodes and links of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Name and role.
    pub nodes: Vec<(String, Role)>,
    /// What joins them.
    pub links: Vec<ShapeLink>,
}

/// A link of a [`Shape`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeLink {
    /// Unique in the shape.
    pub name: String,
    /// Indices of its nodes.
    pub ends: [usize; 2],
    /// Which of the two rates and delays it has.
    pub tier: Tier,
    /// Its own rate, where a graph file says one.
    pub rate: Option<Rate>,
    /// Its own delay, where a graph file says one.
    pub delay: Option<Duration>,
    /// What a path pays for it, in millionths, where a graph file says it.
    pub cost: Option<u64>,
}

/// What a link joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// A host and its switch.
    Access,
    /// Two switches.
    Fabric,
}

/// The networks that numbers describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `left-1` … and `right-1` … on either side of the link `bottleneck`.
    Dumbbell {
        /// Hosts on each side.
        hosts: usize,
    },
    /// `router-1` to `router-(hops + 1)` in a row, joined by `hop-1` …, each with `host-R-1` ….
    ParkingLot {
        /// Links in the row.
        hops: usize,
        /// Hosts of each router.
        hosts: usize,
    },
    /// `host-1` … around `switch`.
    Star {
        /// Hosts.
        hosts: usize,
    },
    /// Each `leaf-L` with its `host-L-1` … has a link to each `spine-S`.
    LeafSpine {
        /// Leaves.
        leaves: usize,
        /// Spines.
        spines: usize,
        /// Hosts of each leaf.
        hosts: usize,
    },
    /// `core-C`, `agg-POD-A`, `edge-POD-E` and `host-POD-E-H` of switches with `k` ports (Al-Fares
    /// et al., "A scalable, commodity data center network architecture", SIGCOMM 2008).
    FatTree {
        /// Ports of a switch, an even number.
        k: usize,
        /// Hosts of each edge switch; k/2 in the paper.
        hosts: usize,
    },
    /// `switch-S` with `host-S-1` …, each joined to `degree` others at random (Singla et al.,
    /// "Jellyfish: networking data centers randomly", NSDI 2012).
    RandomRegular {
        /// Switches.
        switches: usize,
        /// Links from each switch to others.
        degree: usize,
        /// Hosts of each switch.
        hosts: usize,
        /// What decides the links.
        seed: u64,
    },
}

impl Kind {
    /// How many nodes and links that makes; `None` if more than can be counted.
    pub fn counts(self) -> Option<(usize, usize)> {
        let product =
            |factors: &[usize]| factors.iter().try_fold(1_usize, |all, one| all.checked_mul(*one));
        let (switches, hosts, fabric) = match self {
            Self::Dumbbell { hosts } => (2, product(&[2, hosts])?, 1),
            Self::ParkingLot { hops, hosts } => {
                let routers = hops.checked_add(1)?;
                (routers, product(&[routers, hosts])?, hops)
            }
            Self::Star { hosts } => (1, hosts, 0),
            Self::LeafSpine { leaves, spines, hosts } => (
                leaves.checked_add(spines)?,
                product(&[leaves, hosts])?,
                product(&[leaves, spines])?,
            ),
            Self::FatTree { k, hosts } => {
                let half = k / 2;
                let switches = product(&[5, half, half])?;
                (switches, product(&[k, half, hosts])?, product(&[2, k, half, half])?)
            }
            Self::RandomRegular { switches, degree, hosts, .. } => {
                (switches, product(&[switches, hosts])?, product(&[switches, degree])? / 2)
            }
        };
        Some((switches.checked_add(hosts)?, hosts.checked_add(fabric)?))
    }

    /// The network itself.
    pub fn shape(self) -> Shape {
        let mut shape = Shape::default();
        match self {
            Self::Dumbbell { hosts } => shape.dumbbell(hosts),
            Self::ParkingLot { hops, hosts } => shape.parking_lot(hops, hosts),
            Self::Star { hosts } => {
                let switch = shape.node("switch".into(), Role::Router);
                shape.hosts(switch, "host", hosts);
            }
            Self::LeafSpine { leaves, spines, hosts } => shape.leaf_spine(leaves, spines, hosts),
            Self::FatTree { k, hosts } => shape.fat_tree(k, hosts),
            Self::RandomRegular { switches, degree, hosts, seed } => {
                shape.random_regular(switches, degree, hosts, seed);
            }
        }
        shape
    }
}

impl Shape {
    /// Adds a node; its index.
    pub fn node(&mut self, name: String, role: Role) -> usize {
        self.nodes.push((name, role));
        self.nodes.len() - 1
    }

    /// Adds `count` hosts `PREFIX-1` … to a switch, each with a link of its own name.
    pub fn hosts(&mut self, switch: usize, prefix: &str, count: usize) {
        for number in 1..=count {
            let name = format!("{prefix}-{number}");
            let host = self.node(name.clone(), Role::Host);
            self.link(name, [host, switch], Tier::Access);
        }
    }

    fn link(&mut self, name: String, ends: [usize; 2], tier: Tier) {
        self.links.push(ShapeLink { name, ends, tier, rate: None, delay: None, cost: None });
    }

    /// A link between two switches, called `LOWER-UPPER`.
    fn uplink(&mut self, lower: usize, upper: usize) {
        let name = format!("{}-{}", self.nodes[lower].0, self.nodes[upper].0);
        self.link(name, [lower, upper], Tier::Fabric);
    }

    /// Routers `PREFIX-1` to `PREFIX-count`.
    fn routers(&mut self, prefix: &str, count: usize) -> Vec<usize> {
        (1..=count).map(|number| self.node(format!("{prefix}-{number}"), Role::Router)).collect()
    }

    fn dumbbell(&mut self, hosts: usize) {
        let routers = self.routers("router", 2);
        self.hosts(routers[0], "left", hosts);
        self.hosts(routers[1], "right", hosts);
        self.link("bottleneck".into(), [routers[0], routers[1]], Tier::Fabric);
    }

    fn parking_lot(&mut self, hops: usize, hosts: usize) {
        let routers = self.routers("router", hops + 1);
        for (number, &router) in (1..).zip(&routers) {
            self.hosts(router, &format!("host-{number}"), hosts);
        }
        for (number, two) in (1..).zip(routers.windows(2)) {
            self.link(format!("hop-{number}"), [two[0], two[1]], Tier::Fabric);
        }
    }

    fn leaf_spine(&mut self, leaves: usize, spines: usize, hosts: usize) {
        let spines = self.routers("spine", spines);
        let leaves = self.routers("leaf", leaves);
        for (number, &leaf) in (1..).zip(&leaves) {
            self.hosts(leaf, &format!("host-{number}"), hosts);
            for &spine in &spines {
                self.uplink(leaf, spine);
            }
        }
    }

    /// Aggregation switch number a of every pod has the a-th k/2 core switches.
    fn fat_tree(&mut self, k: usize, hosts: usize) {
        let half = k / 2;
        let cores = self.routers("core", half * half);
        for pod in 1..=k {
            let aggs = self.routers(&format!("agg-{pod}"), half);
            let edges = self.routers(&format!("edge-{pod}"), half);
            for (&agg, group) in aggs.iter().zip(cores.chunks(half)) {
                for &core in group {
                    self.uplink(agg, core);
                }
            }
            for (number, &edge) in (1..).zip(&edges) {
                self.hosts(edge, &format!("host-{pod}-{number}"), hosts);
                for &agg in &aggs {
                    self.uplink(edge, agg);
                }
            }
        }
    }

    fn random_regular(&mut self, switches: usize, degree: usize, hosts: usize, seed: u64) {
        let switches = self.routers("switch", switches);
        for (number, &switch) in (1..).zip(&switches) {
            self.hosts(switch, &format!("host-{number}"), hosts);
        }
        let mut rng = Rng::stream(seed, RANDOM_REGULAR_STREAM);
        for [a, b] in random::regular(switches.len(), degree, &mut rng) {
            self.uplink(switches[a], switches[b]);
        }
    }
}

/// The random stream of the links of a random regular network.
const RANDOM_REGULAR_STREAM: u64 = 1 << 47;
