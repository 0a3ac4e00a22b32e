//! Taps: packets on chosen links, and drops, written to a pcapng file.

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
pub enum LinkEnd {
    /// Packets when they are put on the link.
    Sent,
    /// Packets when they come out at its far end.
    Delivered,
}

/// Writes the packets of its taps to a capture, one interface each. A packet dropped at a tapped
/// place appears on an interface of its own, with the reason as its comment.
///
/// An observer cannot fail: the first error is kept, nothing is written after it, and [`Capture::finish`] returns it.
#[derive(Debug)]
pub struct Capture<W: Write> {
    writer: Writer<W>,
    snap: Snap,
    taps: BTreeMap<TapPoint, Tap>,
    error: Option<io::Error>,
}

/// Where a tap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TapPoint {
    Link(LinkId, LinkEnd),
    Drops(DropPlace),
}

/// A tap; its interface is written to the file at the first packet, which shows its link type.
#[derive(Debug)]
struct Tap {
    name: String,
    interface: Option<InterfaceId>,
}

impl<W: Write> Capture<W> {
    /// A capture without taps.
    pub fn new(writer: Writer<W>, snap: Snap) -> Self {
        Self { writer, snap, taps: BTreeMap::new(), error: None }
    }

    /// Taps one side of a link, by the name of an interface.
    pub fn tap(&mut self, link: LinkId, side: LinkEnd, name: &str) {
        let tap = Tap { name: name.to_owned(), interface: None };
        self.taps.insert(TapPoint::Link(link, side), tap);
    }

    /// Records what is dropped in a node or on a link.
    pub fn tap_drops(&mut self, place: DropPlace, name: &str) {
        let tap = Tap { name: format!("{name} drops"), interface: None };
        self.taps.insert(TapPoint::Drops(place), tap);
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The first error. The file is complete up to the packet before it.
    pub fn finish(self) -> io::Result<W> {
        match self.error {
            Some(error) => Err(error),
            None => self.writer.finish(),
        }
    }

    fn note(&mut self, now: Instant, place: TapPoint, packet: &Packet, dropped: Option<Reason>) {
        if self.error.is_none() {
            self.error = self.write(now, place, packet, dropped).err();
        }
    }

    fn write(
        &mut self,
        now: Instant,
        place: TapPoint,
        packet: &Packet,
        dropped: Option<Reason>,
    ) -> io::Result<()> {
        let Some(tap) = self.taps.get_mut(&place) else { return Ok(()) };
        let interface = match tap.interface {
            Some(interface) => interface,
            None => *tap.interface.insert(self.writer.add_interface(&Interface {
                name: Some(tap.name.clone()),
                link_type: match packet.link {
                    LinkHeader::Ethernet { .. } => LinkType::ETHERNET,
                    LinkHeader::None => LinkType::RAW,
                },
                snap_len: 0,
            })?),
        };
        let comment = dropped.map(|reason| format!("dropped: {}", reason.name()));
        self.writer.write_packet(interface, now, packet, self.snap, comment.as_deref())
    }
}

impl<W: Write> Observer for Capture<W> {
    fn interest(&self) -> Interest {
        Interest { events: false, ..Interest::PACKETS }
    }

    fn wants_link(&self, link: LinkId) -> bool {
        let is_tapped = |side| self.taps.contains_key(&TapPoint::Link(link, side));
        is_tapped(LinkEnd::Sent) || is_tapped(LinkEnd::Delivered)
    }

    fn sent(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        self.note(now, TapPoint::Link(link, LinkEnd::Sent), packet, None);
    }

    fn delivered(&mut self, now: Instant, link: LinkId, packet: &Packet) {
        self.note(now, TapPoint::Link(link, LinkEnd::Delivered), packet, None);
    }

    fn dropped(&mut self, now: Instant, place: DropPlace, reason: Reason, packet: &Packet) {
        self.note(now, TapPoint::Drops(place), packet, Some(reason));
    }
}
