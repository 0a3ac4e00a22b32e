//! A host that was driven from outside, as packetdrill's scripts do: its packets and events, once
//! all is over.

use std::collections::BTreeMap;
use std::io::{self, Write};

use datapath::packet::Packet;
use datapath::trace::Event;
use datapath::units::Instant;

use super::TraceItem;
use super::conns::Conns;
use super::explain::{HEAD, Story};
use super::tracks::Tracks;

/// What a host did: events in their order.
#[derive(Clone, Copy, Debug)]
pub enum HostEvent<'a> {
    /// It sent a packet.
    Sent(&'a Packet),
    /// A packet came.
    Received(&'a Packet),
    /// Its TCP told something.
    Event(&'a Event),
}

impl<'a> HostEvent<'a> {
    fn into_item(self) -> TraceItem<'a> {
        match self {
            Self::Sent(packet) => TraceItem::Sent(packet),
            Self::Received(packet) => TraceItem::Received(packet),
            Self::Event(event) => TraceItem::Event(event),
        }
    }
}

/// Writes a trace for Perfetto with the host as its only process.
///
/// # Errors
/// When it cannot be written.
pub fn trace<'a, W: Write>(
    out: W,
    name: &str,
    moments: impl Iterator<Item = (Instant, HostEvent<'a>)>,
) -> io::Result<W> {
    let mut tracks = Tracks::new(out);
    tracks.node(0, name);
    let mut conns = Conns::default();
    let mut end = Instant::ZERO;
    for (at, moment) in moments {
        end = at;
        if let Some(index) = conns.of(0, moment.into_item()) {
            tracks.on_item(at, index, conns.get(index), "tcp", moment.into_item());
        }
    }
    tracks.finish(end)
}

/// Tells what the host did, connection by connection, with every packet.
pub fn explain<'a>(moments: impl Iterator<Item = (Instant, HostEvent<'a>)>) -> String {
    let mut conns = Conns::default();
    let mut stories: BTreeMap<usize, Story> = BTreeMap::new();
    let mut end = Instant::ZERO;
    for (at, moment) in moments {
        end = at;
        if let Some(index) = conns.of(0, moment.into_item()) {
            let story = stories.entry(index).or_insert_with(|| Story::new(true));
            story.on_event(at, conns.get(index), moment.into_item());
        }
    }
    let mut out = String::new();
    for (index, mut story) in stories {
        let conn = conns.get(index);
        let title = format!("{} > {}", conn.local, conn.remote);
        out.extend([title.as_str(), ":\n", HEAD, story.lines()]);
        if story.has_sent() {
            out += &story.paragraph(&title, end, None);
        } else if let Some(why) = story.in_vain(&title) {
            out += &why;
        }
    }
    out
}
