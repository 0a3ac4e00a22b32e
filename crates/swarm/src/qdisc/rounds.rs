//! fq_codel's rounds (RFC 8290, section 4), replayed: which flow is served next, which one loses packets when there are
//! too many, and CoDel in each flow. The classification of packets into flows is taken from the qdisc.

use std::collections::{BTreeMap, VecDeque};

use datapath::packet::Packet;
use datapath::qdisc::fq_codel::FqCodelConfig;

use super::call::Call;
use super::standing::{StandingQueue, WaitingPacket, is_signal};
use crate::case::BrokenLaw;

/// All flows.
#[derive(Clone, Debug)]
pub struct Rounds {
    config: FqCodelConfig,
    flows: BTreeMap<u32, Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
}

#[derive(Clone, Debug, Default)]
struct Flow {
    queue: VecDeque<WaitingPacket>,
    deficit: i64,
    is_listed: bool,
    standing: StandingQueue,
}

impl Rounds {
    /// No packets.
    pub fn new(config: &FqCodelConfig) -> Self {
        Self { config: *config, flows: BTreeMap::new(), new: VecDeque::new(), old: VecDeque::new() }
    }

    /// A packet of `flow` came (`fq_codel_enqueue`).
    pub fn entered(&mut self, call: &Call<'_>, came: &Packet, flow: u32) -> Result<(), BrokenLaw> {
        let state = self.flows.entry(flow).or_default();
        state.queue.push_back(WaitingPacket::new(came, call.now));
        if !state.is_listed {
            state.is_listed = true;
            state.deficit = i64::from(self.config.quantum);
            self.new.push_back(flow);
        }
        let expected = if self.is_over() { self.relieve() } else { Vec::new() };
        let dropped: Vec<u32> =
            call.dropped.iter().map(|(_, packet)| packet.body.number()).collect();
        if expected == dropped {
            return Ok(());
        }
        Err(("limit", format!("{expected:?} were to be dropped, {dropped:?} were")))
    }

    fn all(&self) -> impl Iterator<Item = &WaitingPacket> {
        self.flows.values().flat_map(|flow| &flow.queue)
    }

    fn is_over(&self) -> bool {
        let memory: u64 = self.all().map(|waits| u64::from(waits.truesize)).sum();
        self.all().count() as u64 > u64::from(self.config.limit)
            || memory > u64::from(self.config.memory_limit)
    }

    /// The first of the flows with the most bytes loses from its head half of them, and at most a
    /// batch (`fq_codel_drop`).
    fn relieve(&mut self) -> Vec<u32> {
        let bytes = |flow: &Flow| flow.queue.iter().map(|waits| u64::from(waits.len)).sum::<u64>();
        let most = self.flows.values().map(bytes).max().unwrap_or(0);
        let Some(fattest) = self.flows.values_mut().find(|flow| bytes(flow) == most) else {
            return Vec::new();
        };
        let (mut gone, mut relieved) = (Vec::new(), 0);
        while let Some(waits) = fattest.queue.pop_front() {
            gone.push(waits.number);
            relieved += u64::from(waits.len);
            if gone.len() as u64 >= u64::from(self.config.drop_batch) || relieved >= most / 2 {
                break;
            }
        }
        gone
    }

    /// The device asked (`fq_codel_dequeue`).
    pub fn on_dequeue(
        &mut self,
        call: &Call<'_>,
        packet: Option<&Packet>,
    ) -> Result<(), BrokenLaw> {
        let mut dropped = call.dropped.iter().filter(|drop| is_signal(drop)).peekable();
        while let Some((flow, is_new)) = self.next_flow() {
            let mut after_drop = false;
            while let Some((_, gone)) = dropped.next_if(|(_, gone)| self.is_first(flow, gone)) {
                self.remove_head(flow, call, gone, None)?;
                after_drop = true;
            }
            match packet.filter(|packet| self.is_first(flow, packet)) {
                Some(packet) => {
                    self.remove_head(flow, call, packet, Some(packet))?;
                    self.flow(flow).deficit -= i64::from(packet.wire_len());
                    return nothing_else(dropped.next().map(|(_, gone)| gone));
                }
                None if self.flow(flow).queue.is_empty() => {
                    self.flow(flow).standing.found_empty(after_drop);
                    self.retire(flow, is_new);
                }
                None => {
                    let number = packet.map(|packet| packet.body.number());
                    let turn = self.flow(flow).queue.front().map(|waits| waits.number);
                    let what =
                        format!("it was the turn of {turn:?} of flow {flow}, not {number:?}");
                    return Err(("rounds", what));
                }
            }
        }
        nothing_else(packet.or(dropped.next().map(|(_, gone)| gone)))
    }

    fn flow(&mut self, flow: u32) -> &mut Flow {
        self.flows.entry(flow).or_default()
    }

    fn is_first(&mut self, flow: u32, packet: &Packet) -> bool {
        self.flow(flow).queue.front().is_some_and(|waits| waits.number == packet.body.number())
    }

    /// The first packet of a flow leaves or is dropped. What counts as waiting behind it are the bytes of
    /// all flows.
    fn remove_head(
        &mut self,
        flow: u32,
        call: &Call<'_>,
        packet: &Packet,
        left: Option<&Packet>,
    ) -> Result<(), BrokenLaw> {
        let params = self.config.params;
        let Some(waits) = self.flow(flow).queue.pop_front() else {
            return Err(("packets", format!("{} does not wait", packet.body.number())));
        };
        let behind = self.all().map(|waits| waits.len).sum();
        self.flow(flow).standing.on_head_removed(&params, &waits, call.now, behind, left)
    }

    /// New flows go first; a flow without credit gets a quantum, and goes behind the old ones.
    fn next_flow(&mut self) -> Option<(u32, bool)> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let flow = *list.front()?;
            if self.flow(flow).deficit > 0 {
                return Some((flow, is_new));
            }
            let list = if is_new { &mut self.new } else { &mut self.old };
            list.pop_front();
            self.old.push_back(flow);
            let quantum = i64::from(self.config.quantum);
            self.flow(flow).deficit += quantum;
        }
    }

    /// A flow was found empty at its turn. A new one passes through the old ones, if there are any.
    fn retire(&mut self, flow: u32, is_new: bool) {
        let others_wait = !self.old.is_empty();
        let list = if is_new { &mut self.new } else { &mut self.old };
        list.pop_front();
        if is_new && others_wait {
            self.old.push_back(flow);
        } else {
            self.flow(flow).is_listed = false;
        }
    }
}

/// Whatever else left or was dropped did so out of turn.
fn nothing_else(other: Option<&Packet>) -> Result<(), BrokenLaw> {
    other.map_or(Ok(()), |other| {
        Err(("rounds", format!("it was not the turn of {}", other.body.number())))
    })
}
