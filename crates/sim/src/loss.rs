//! Loss models from outside: a library user's own, by name and behind one type.

use core::fmt;
use datapath::packet::Packet;
use datapath::rng::Rng;
use datapath::units::Instant;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Decides for one direction of a link which packets are lost.
pub trait LossModel: Send + Sync {
    /// True if this packet, whose last bit leaves at `now`, is lost. Asked once for each packet, in the
    /// order in which they leave; `rng` is the link's own.
    fn strikes(&mut self, now: Instant, packet: &Packet, rng: &mut Rng) -> bool;

    /// The same once more, with all that it knows.
    fn boxed_clone(&self) -> Box<dyn LossModel>;
}

/// Loss models that a library user has named: how their words are read, and they are made.
///
/// It lives as long as the program, so that it can be copied wherever a model stands.
#[derive(Clone, Copy)]
pub struct LossKind(&'static Entry);

type Make = Box<dyn Fn(&[&str]) -> Result<Box<dyn LossModel>, String> + Send + Sync>;

struct Entry {
    name: String,
    make: Make,
    /// Each wording once, however often a file is read.
    read: Mutex<BTreeMap<String, &'static Wording>>,
}

/// Words that were read and found good, and what they make.
struct Wording {
    kind: &'static str,
    words: String,
    model: Box<dyn LossModel>,
}

/// A model of a library user in the words of a link: fresh for each direction of each link.
#[derive(Clone, Copy)]
pub struct GuestLoss(&'static Wording);

impl LossKind {
    /// Names a kind. `make` reads the words behind the name, and makes a model that has not seen any
    /// packet.
    pub fn new<M, F>(name: &str, make: F) -> Self
    where
        M: LossModel + 'static,
        F: Fn(&[&str]) -> Result<M, String> + Send + Sync + 'static,
    {
        let make: Make = Box::new(move |words| {
            let made: Box<dyn LossModel> = Box::new(make(words)?);
            Ok(made)
        });
        Self(Box::leak(Box::new(Entry { name: name.to_owned(), make, read: Mutex::default() })))
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// Reads the words behind the name.
    ///
    /// # Errors
    /// What the kind says of them.
    pub fn read(self, words: &[&str]) -> Result<GuestLoss, String> {
        let text = words.join(" ");
        let mut read = self.0.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = read.get(&text) {
            return Ok(GuestLoss(known));
        }
        let model = (self.0.make)(words)?;
        let wording = Wording { kind: self.name(), words: text.clone(), model };
        let wording: &'static Wording = Box::leak(Box::new(wording));
        read.insert(text, wording);
        Ok(GuestLoss(wording))
    }
}

impl GuestLoss {
    /// A model that has not seen any packet.
    pub(crate) fn make(self) -> Guest {
        Guest(self.0.model.boxed_clone())
    }
}

/// Two are the same if one kind was given the same words.
impl PartialEq for GuestLoss {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl Eq for GuestLoss {}

impl fmt::Debug for GuestLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuestLoss({} {})", self.0.kind, self.0.words)
    }
}

impl fmt::Debug for LossKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LossKind({})", self.name())
    }
}

/// The model of one direction of a link.
pub(crate) struct Guest(pub Box<dyn LossModel>);

impl Clone for Guest {
    fn clone(&self) -> Self {
        Self(self.0.boxed_clone())
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guest")
    }
}
