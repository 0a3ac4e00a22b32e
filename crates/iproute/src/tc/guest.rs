//! Qdiscs of a library user, in the words of `tc`.

use super::Device;
use crate::words::{Result, Words};
use core::fmt;
use datapath::qdisc::{Guest, GuestQdisc, Handle};
use datapath::rng::Rng;

/// What a qdisc needs to know of the place where it is attached.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The device.
    pub device: Device,
    /// The handle of the qdisc.
    pub handle: Handle,
    /// Where its random draws come from.
    pub rng: Rng,
}

/// A kind of qdisc that a library user has named: how its options are read, and it is made.
///
/// It lives as long as the program, so that it can be copied wherever a kind stands.
#[derive(Clone, Copy)]
pub struct GuestKind(&'static Entry);

type Make = Box<dyn Fn(&mut Words<'_>, Setting) -> Result<Box<dyn GuestQdisc>> + Send + Sync>;

struct Entry {
    name: String,
    make: Make,
}

/// A guest and its options, read and found good.
#[derive(Clone, Debug, PartialEq)]
pub struct GuestWords {
    kind: GuestKind,
    options: String,
}

impl GuestKind {
    /// Names a kind. `make` reads the options to the last word, and makes the qdisc; whether the words
    /// are right must not depend on the [`Setting`].
    pub fn new<Q, F>(name: &str, make: F) -> Self
    where
        Q: GuestQdisc + 'static,
        F: Fn(&mut Words<'_>, Setting) -> Result<Q> + Send + Sync + 'static,
    {
        let make: Make = Box::new(move |words, setting| {
            let made: Box<dyn GuestQdisc> = Box::new(make(words, setting)?);
            Ok(made)
        });
        Self(Box::leak(Box::new(Entry { name: name.to_owned(), make })))
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// Reads options up to the end of the words.
    ///
    /// # Errors
    /// What the kind says of them, or a word that it has left.
    pub(super) fn read(self, words: &mut Words<'_>) -> Result<GuestWords> {
        let options = words.rest().to_owned();
        let handle = Handle::NONE;
        let setting = Setting { device: Device::default(), handle, rng: Rng::stream(0, 0) };
        (self.0.make)(words, setting)?;
        match words.next() {
            None => Ok(GuestWords { kind: self, options }),
            Some(word) => Err(word.unknown(self.name(), &[])),
        }
    }
}

impl GuestWords {
    /// The kind.
    pub fn kind(&self) -> &'static str {
        self.kind.name()
    }

    /// Makes the qdisc.
    pub(super) fn build(&self, setting: Setting) -> Guest {
        let made = (self.kind.0.make)(&mut Words::new(&self.options), setting);
        let made = made.unwrap_or_else(|error| {
            panic!("{}: options are right in one place and not in another: {error}", self.kind())
        });
        Guest::new(self.kind(), self.options.clone(), made)
    }
}

/// Two are the same if they come from one call of [`GuestKind::new`].
impl PartialEq for GuestKind {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl Eq for GuestKind {}

impl fmt::Debug for GuestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuestKind({})", self.name())
    }
}
