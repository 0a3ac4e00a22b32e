//! Applications of a library user, by name and behind one type.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use apps::App;
use datapath::tcp::config::TcpConfig;

/// What a flow is, whose `app` a library user has named: made from the words behind the name.
pub trait Application: Send + Sync {
    /// The two ends of one flow, fresh for each: who sends or asks, and who receives or answers. The
    /// second one starts with the experiment and has to listen at `remote`.
    fn ends(&self, place: &Place) -> (Box<dyn App>, Box<dyn App>);

    /// True if it runs over TCP.
    fn is_tcp(&self) -> bool {
        true
    }

    /// True if it comes to an end by itself, which its report tells as `finished`.
    fn is_finite(&self) -> bool {
        false
    }
}

/// Where a flow runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// The sending or asking end.
    pub local: SocketAddr,
    /// The receiving or answering end.
    pub remote: SocketAddr,
    /// How its sockets are configured: congestion control, sysctls, TOS.
    pub client: TcpConfig,
    /// Those of the receiving end.
    pub server: TcpConfig,
    /// TOS byte of what the sending end sends.
    pub tos: u8,
    /// That of what comes back.
    pub reply_tos: u8,
}

/// Applications that a library user has named: how their words are read.
///
/// It lives as long as the program, so that it can be copied wherever an application stands.
#[derive(Clone, Copy)]
pub struct ApplicationKind(&'static Entry);

type Make = Box<dyn Fn(&[&str]) -> Result<Box<dyn Application>, String> + Send + Sync>;

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
    application: Box<dyn Application>,
}

/// An application of a library user in the words of a flow.
#[derive(Clone, Copy)]
pub struct GuestApp(&'static Wording);

impl ApplicationKind {
    pub(crate) fn new<A, F>(name: &str, make: F) -> Self
    where
        A: Application + 'static,
        F: Fn(&[&str]) -> Result<A, String> + Send + Sync + 'static,
    {
        let make: Make = Box::new(move |words| {
            let made: Box<dyn Application> = Box::new(make(words)?);
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
    pub(crate) fn read(self, words: &[&str]) -> Result<GuestApp, String> {
        let text = words.join(" ");
        let mut read = self.0.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = read.get(&text) {
            return Ok(GuestApp(known));
        }
        let application = (self.0.make)(words)?;
        let wording = Wording { kind: self.name(), words: text.clone(), application };
        let wording: &'static Wording = Box::leak(Box::new(wording));
        read.insert(text, wording);
        Ok(GuestApp(wording))
    }
}

impl GuestApp {
    /// What it is called.
    pub fn name(self) -> &'static str {
        self.0.kind
    }

    /// What the words have made.
    pub fn application(self) -> &'static dyn Application {
        &*self.0.application
    }
}

/// Two are the same if one kind was given the same words.
impl PartialEq for GuestApp {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for GuestApp {}

impl fmt::Debug for GuestApp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuestApp({} {})", self.0.kind, self.0.words)
    }
}

impl fmt::Debug for ApplicationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApplicationKind({})", self.name())
    }
}
