//! Taps: what passes on chosen links, and what is dropped, written to a pcapng file.

use crate::link::LinkId;
use crate::record::{DropPlace, Interest, Observer};
use datapath::packet::{LinkHeader, Packet};
use datapath::reason::Reason;
use datapath::units::Instant;
use pcap::{Interface, InterfaceId, LinkType, Snap, Writer};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Which end of a link is tapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Packets when they are put on the link.
    Sent,
    /// Packets when they come out at its far end.
    Delivered,
}

/// Writes the packets of its taps to a capture, one interface each. A packet dropped at a tapped
/// place appears on an interface of its own, with the reason as its comment.
///
/// An observer cannot fail: the first error is kept, nothing is written after it, and
/// [`Capture::finish`] tells.
#[derive(Debug)]
pub struct Capture<W: Write> {
    writer: Writer<W>,
    snap: Snap,
    links: BTreeMap<(LinkId, Side), Tap>,
    drops: BTreeMap<DropPlace, Tap>,
    error: Option<io::Error>,
}

/// A tap; the file learns of its interface at the first packet, which shows its link type.
#[derive(Debug)]
struct Tap {
    name: String,
    interface: Option<InterfaceId>,
}

impl Tap {
    fn new(name: String) -> Self {
        Self { name, interface: None }
    }
}

impl<W: Write> Capture<W> {
    /// A capture without taps.
    pub fn new(writer: Writer<W>, snap: Snap) -> Self {
        Self { writer, snap, links: BTreeMap::new(), drops: BTreeMap::new(), error: None }
    }

    /// Taps one side of a link, by the name of an interface.
    pub fn tap(&mut self, link: LinkId, side: Side, name: &str) {
        self.links.insert((link, side), Tap::new(name.to_owned()));
    }

    /// Records what is dropped in a node or on a link.
    pub fn tap_drops(&mut self, place: DropPlace, name: &str) {
        self.drops.insert(place, Tap::new(format!("{name} drops")));
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The first error there was. The file is whole up to the packet before it.
    pub fn finish(self) -> io::Result<W> {
        match self.error {
            Some(error) => Err(error),
            None => self.writer.finish(),
        }
    }

    fn passed(&mut self, now: Instant, link: LinkId, side: Side, packet: &Packet) {
        let Self { writer, snap, links, error, .. } = self;
        if let Some(tap) = links.get_mut(&(link, side)) {
            write(writer, tap, *snap, now, packet, None, error);
        }
    }
}

fn write<W: Write>(
    writer: &mut Writer<W>,
    tap: &mut Tap,
    snap: Snap,
    now: Instant,
    packet: &Packet,
    comment: Option<&str>,
    error: &mut Option<io::Error>,
) {
    if error.is_some() {
        return;
    }
    let interface = match tap.interface {
        Some(interface) => Ok(interface),
        None => writer.add_interface(&Interface {
            name: Some(tap.name.clone()),
            link_type: match packet.link {
                LinkHeader::Ethernet { .. } => LinkType::ETHERNET,
                LinkHeader::None => LinkType::RAW,
            },
            snap_len: 0,
        }),
    };
    let written = interface.and_then(|interface| {
        tap.interface = Some(interface);
        writer.write_packet(interface, now, packet, snap, comment)
    });
    *error = written.err();
}

impl<W: Write> Observer for Capture<W> {
    fn interest(&self) -> Interest {
        Interest { events: false, ..Interest::PACKETS }
    }

    fn wants_link(&self, link: LinkId) -> bool {
        self.links.keys().any(|(tapped, _)| *tapped == link)
    }

    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        self.passed(now, link, Side::Sent, packet);
    }

    fn delivered(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        self.passed(now, link, Side::Delivered, packet);
    }

    fn dropped(&mut self, now: Instant, place: DropPlace, reason: Reason, packet: &Packet) {
        let Self { writer, snap, drops, error, .. } = self;
        if let Some(tap) = drops.get_mut(&place) {
            let comment = format!("dropped: {}", reason.name());
            write(writer, tap, *snap, now, packet, Some(&comment), error);
        }
    }
}
