//! Loss models of a library user, by name and behind one type.

use apps::wording::{Kind, Wording};
use core::fmt;
use datapath::packet::Packet;
use datapath::rng::Rng;
use datapath::units::Instant;

/// Decides for one direction of a link which packets are lost.
pub trait LossModel: Send + Sync {
    /// True if this packet, whose last bit leaves at `now`, is lost. Asked once for each packet, in the
    /// order in which they leave; `rng` is the link's own.
    fn strikes(&mut self, now: Instant, packet: &Packet, rng: &mut Rng) -> bool;

    /// The same once more, with all that it knows.
    fn boxed_clone(&self) -> Box<dyn LossModel>;
}

/// Loss models registered by a library user: how their words are parsed, and how they are made.
pub type LossKind = Kind<dyn LossModel>;

/// A model of a library user in the words of a link: fresh for each direction of each link.
pub type GuestLoss = Wording<dyn LossModel>;

/// The model of one direction of a link. That of the words, which it is a clone of, never sees a packet.
pub(crate) struct Guest(pub Box<dyn LossModel>);

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guest")
    }
}
