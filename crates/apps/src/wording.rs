//! Things of a library user that are made from words, by name: loss models, applications.
//!
//! The words of a thing are read once, however often a file is read, and live as long as the program: so
//! what stands for them can be copied, and compared, wherever a thing of the product could stand.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A kind of thing that a library user has named: how the words behind the name are read.
pub struct Kind<T: ?Sized + 'static>(&'static Entry<T>);

/// A thing in the words that it was made from, which were read and found good.
pub struct Wording<T: ?Sized + 'static>(&'static Made<T>);

type Make<T> = Box<dyn Fn(&[&str]) -> Result<Box<T>, String> + Send + Sync>;

struct Entry<T: ?Sized + 'static> {
    name: String,
    make: Make<T>,
    /// Each wording once.
    read: Mutex<BTreeMap<String, &'static Made<T>>>,
}

struct Made<T: ?Sized> {
    kind: &'static str,
    words: String,
    thing: Box<T>,
}

impl<T: ?Sized> Kind<T> {
    /// Names a kind. `make` reads the words behind the name, and makes the thing.
    pub fn new(
        name: &str,
        make: impl Fn(&[&str]) -> Result<Box<T>, String> + Send + Sync + 'static,
    ) -> Self {
        let entry = Entry { name: name.to_owned(), make: Box::new(make), read: Mutex::default() };
        Self(Box::leak(Box::new(entry)))
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// Reads the words behind the name.
    ///
    /// # Errors
    /// What the kind says of them.
    pub fn read(self, words: &[&str]) -> Result<Wording<T>, String> {
        let text = words.join(" ");
        let mut read = self.0.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = read.get(&text) {
            return Ok(Wording(known));
        }
        let thing = (self.0.make)(words)?;
        let made = Made { kind: self.name(), words: text.clone(), thing };
        let made: &'static Made<T> = Box::leak(Box::new(made));
        read.insert(text, made);
        Ok(Wording(made))
    }
}

impl<T: ?Sized> Wording<T> {
    /// What its kind is called.
    pub fn name(self) -> &'static str {
        self.0.kind
    }

    /// What the words have made.
    pub fn value(self) -> &'static T {
        &self.0.thing
    }
}

impl<T: ?Sized> Clone for Kind<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Kind<T> {}

impl<T: ?Sized> fmt::Debug for Kind<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({})", self.name())
    }
}

impl<T: ?Sized> Clone for Wording<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Wording<T> {}

/// Two are the same if one kind was given the same words.
impl<T: ?Sized> PartialEq for Wording<T> {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl<T: ?Sized> Eq for Wording<T> {}

impl<T: ?Sized> fmt::Debug for Wording<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wording({} {})", self.0.kind, self.0.words)
    }
}
