//! tc filters on CAKE: a class that is not a tin but a queue and a host.

use super::hash::QUEUES;
use crate::packet::Packet;
use crate::qdisc::filter::Filter;

/// What a filter has chosen for a packet, instead of what the hash would say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Choice {
    /// The queue, from 0.
    pub queue: Option<u32>,
    /// The host, from 0: both source and destination.
    pub host: Option<u32>,
}

impl Choice {
    /// The choice of the first filter that matches `packet`: the minor number of its class is the
    /// queue, the major number the host, both from 1 to 1024; anything else leaves it to the hash.
    pub fn of(filters: &[Filter], packet: &Packet) -> Self {
        Filter::class_of(filters, packet).map_or(Self::default(), |class| Self {
            queue: numbered(class.minor()),
            host: numbered(class.major()),
        })
    }
}

/// Numbers count from 1.
fn numbered(number: u16) -> Option<u32> {
    let index = u32::from(number).checked_sub(1)?;
    (index < QUEUES as u32).then_some(index)
}
