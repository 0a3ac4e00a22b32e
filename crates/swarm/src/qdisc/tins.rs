//! CAKE's tins by separate tables (sch_cake.c: `diffserv8`, `diffserv4`, `diffserv3`, `precedence`,
//! `cake_select_tin`), and what CAKE counts, compared with what was observed.

use std::collections::BTreeSet;

use datapath::packet::{Ecn, EtherType, Network, Packet};
use datapath::qdisc::Handle;
use datapath::qdisc::cake::{Cake, Config, TinMode};

use super::call::Call;
use crate::case::BrokenLaw;

/// What was seen since the last change.
#[derive(Clone, Debug)]
pub struct Tins {
    config: Config,
    handle: Handle,
    /// Packets that each tin had counted, as shown.
    entered: Vec<u32>,
    /// Marks that all tins together had counted.
    marked: u64,
    /// Packets that left with a mark that they did not come with, and with any mark.
    new_marks: u64,
    marks: u64,
    /// Numbers of packets that came with a mark.
    came_marked: BTreeSet<u32>,
}

/// DSCPs of each tin, as shown; all others are of the tin behind them.
type Table = (&'static [&'static [u8]], usize);

const DIFFSERV8: Table = (
    &[
        &[1],
        &[8, 10, 12, 14, 2],
        &[],
        &[24, 26, 28, 30, 34, 36, 38],
        &[4, 18, 20, 22],
        &[16],
        &[32, 40, 44, 46],
        &[48, 56],
    ],
    2,
);
const DIFFSERV4: Table = (
    &[&[1, 8], &[], &[4, 16, 18, 20, 22, 24, 26, 28, 30, 34, 36, 38], &[32, 40, 44, 46, 48, 56]],
    1,
);
const DIFFSERV3: Table = (&[&[1, 8], &[], &[4, 44, 46, 48, 56]], 1);
/// ARP is as urgent as network control (`cake_handle_diffserv`).
const ARP: u8 = 56;

impl Tins {
    /// CAKE as it is now.
    pub fn new(cake: &Cake, handle: Handle) -> Self {
        Self {
            config: *cake.config(),
            handle,
            entered: entered(cake),
            marked: marked(cake),
            new_marks: 0,
            marks: 0,
            came_marked: BTreeSet::new(),
        }
    }

    /// CAKE has other settings; what waits in it may have come with a mark.
    pub fn changed(&mut self, cake: &Cake) {
        let came_marked = core::mem::take(&mut self.came_marked);
        *self = Self { came_marked, ..Self::new(cake, self.handle) };
    }

    /// A packet came.
    pub fn entered(&mut self, _: &Call<'_>, cake: &Cake, came: &Packet) -> Result<(), BrokenLaw> {
        if Ecn::from_bits(came.network.tos()) == Ecn::Ce {
            self.came_marked.insert(came.body.number());
        }
        let pieces = if self.config.split_gso { came.segments() } else { 1 };
        let mut expected = self.entered.clone();
        let tin = self.tin(came);
        expected[tin] += pieces;
        self.entered = entered(cake);
        if self.entered == expected {
            return Ok(());
        }
        let what = format!(
            "packet {} of DSCP {} and mark {:#x} belongs to tin {tin}: {:?} were expected to have \
             entered, {:?} are counted",
            came.body.number(),
            came.network.tos() >> 2,
            came.meta.mark,
            expected,
            self.entered
        );
        Err(("tin", what))
    }

    /// CAKE was asked, and gave this packet.
    pub fn on_dequeue(&mut self, cake: &Cake, packet: Option<&Packet>) -> Result<(), BrokenLaw> {
        if let Some(packet) = packet
            && Ecn::from_bits(packet.network.tos()) == Ecn::Ce
        {
            self.marks += 1;
            self.new_marks += u64::from(!self.came_marked.contains(&packet.body.number()));
        }
        let counted = marked(cake).wrapping_sub(self.marked);
        if (self.new_marks..=self.marks).contains(&counted) {
            return Ok(());
        }
        let (new, all) = (self.new_marks, self.marks);
        Err(("marks", format!("{counted} are counted; {all} marked packets left, {new} newly so")))
    }

    /// The tin of a packet, as shown.
    fn tin(&self, packet: &Packet) -> usize {
        let count = self.entered.len();
        let numbered =
            |number: u32| (1..=count as u32).contains(&number).then(|| number as usize - 1);
        let mask = self.config.fwmark_mask;
        let by_mark =
            if mask == 0 { 0 } else { (packet.meta.mark & mask) >> mask.trailing_zeros() };
        let priority = Handle(packet.meta.priority);
        let is_ours = self.handle != Handle::NONE && priority.major() == self.handle.major();
        let by_priority = if is_ours { u32::from(priority.minor()) } else { 0 };
        let dscp = match packet.network {
            Network::Other(EtherType::ARP) => ARP,
            ref network => network.tos() >> 2,
        };
        let by_table = |(tins, other): Table| {
            tins.iter().position(|dscps| dscps.contains(&dscp)).unwrap_or(other)
        };
        let by_dscp = || match self.config.tins {
            TinMode::Besteffort => 0,
            TinMode::Precedence => usize::from(dscp / 8),
            TinMode::Diffserv8 => by_table(DIFFSERV8),
            TinMode::Diffserv4 => by_table(DIFFSERV4),
            TinMode::Diffserv3 => by_table(DIFFSERV3),
        };
        if self.config.tins == TinMode::Besteffort {
            return 0;
        }
        numbered(by_mark).or_else(|| numbered(by_priority)).unwrap_or_else(by_dscp)
    }
}

fn entered(cake: &Cake) -> Vec<u32> {
    cake.cake_stats().tins.iter().map(|tin| tin.sent_packets).collect()
}

fn marked(cake: &Cake) -> u64 {
    cake.cake_stats().tins.iter().map(|tin| u64::from(tin.ecn_mark)).sum()
}
