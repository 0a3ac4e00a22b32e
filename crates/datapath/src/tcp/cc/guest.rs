//! Modules from outside: a library user's own, by name and behind one type.
//!
//! The modules of the product are variants of a closed enum, so that a connection's calls are
//! direct. What a user brings cannot be: one variant holds it in a box, and only its connections
//! pay for the call through a table.

use super::{Algorithm, CongestionControl};
use core::fmt;
use core::hash::{Hash, Hasher};

/// The user's module of one connection.
pub type BoxedModule = Box<dyn CongestionControl + Send + Sync>;

/// A congestion control that a library user has named.
///
/// It is a name and a way to make a fresh module for each connection, and lives as long as the
/// program, so that it can be copied wherever an [`Algorithm`] stands.
///
/// ```
/// use datapath::tcp::TcpConfig;
/// use datapath::tcp::cc::{Ack, Algorithm, CongestionControl, Guest, Window};
/// struct Constant;
/// impl CongestionControl for Constant {
///     fn ssthresh(&mut self, window: &Window, _: &Ack) -> u32 { window.snd_cwnd.max(2) }
///     fn cong_avoid(&mut self, _: &mut Window, _: &Ack, _: u32) {}
///     fn undo_cwnd(&mut self, window: &Window, _: &Ack) -> u32 { window.snd_cwnd }
/// }
/// let constant = Guest::new("constant", || Constant)?;
/// let config =
///     TcpConfig { congestion_control: Algorithm::Guest(constant), ..TcpConfig::default() };
/// assert_eq!(config.congestion_control.name(), "constant");
/// # Ok::<(), datapath::tcp::cc::GuestError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Guest(&'static Entry);

struct Entry {
    name: String,
    needs_ecn: bool,
    make: Box<dyn Fn() -> BoxedModule + Send + Sync>,
}

/// Why a name cannot be a congestion control's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestError {
    /// It is empty, longer than 15 bytes (`TCP_CA_NAME_MAX`), or has other characters than ASCII
    /// letters, digits, `-`, `_` and `.`.
    Name(String),
    /// A module of the product, or one registered before, is called so.
    InUse(String),
}

impl Guest {
    /// Longest name, bytes: `TCP_CA_NAME_MAX` less the zero at its end.
    pub const NAME_MAX: usize = 15;

    /// Names the modules that `make` makes, one for each connection.
    ///
    /// # Errors
    /// When the name does not fit ([`GuestError::Name`]) or is that of a module of the product.
    pub fn new<M, F>(name: &str, make: F) -> Result<Self, GuestError>
    where
        M: CongestionControl + Send + Sync + 'static,
        F: Fn() -> M + Send + Sync + 'static,
    {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > Self::NAME_MAX || !name.chars().all(fits) {
            return Err(GuestError::Name(name.to_owned()));
        }
        if Algorithm::by_name(name).is_some() {
            return Err(GuestError::InUse(name.to_owned()));
        }
        let needs_ecn = make().needs_ecn();
        let make = Box::new(move || Box::new(make()) as BoxedModule);
        Ok(Self(Box::leak(Box::new(Entry { name: name.to_owned(), needs_ecn, make }))))
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// Its modules need ECN (`TCP_CONG_NEEDS_ECN`).
    pub fn needs_ecn(self) -> bool {
        self.0.needs_ecn
    }

    /// A fresh module for a connection.
    pub fn make(self) -> BoxedModule {
        (self.0.make)()
    }
}

/// Two are the same if they come from one call of [`Guest::new`].
impl PartialEq for Guest {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl Eq for Guest {}

impl Hash for Guest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guest({})", self.name())
    }
}

impl fmt::Display for GuestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "\"{name}\" cannot name a congestion control: 1 to {} letters, digits, \"-\", \
                 \"_\" or \".\"",
                Guest::NAME_MAX
            ),
            Self::InUse(name) => write!(f, "there is a congestion control \"{name}\" already"),
        }
    }
}

impl core::error::Error for GuestError {}

#[cfg(test)]
mod tests {
    use super::super::Reno;
    use super::*;

    #[test]
    fn a_guests_name_is_valid_and_unused() {
        assert!(Guest::new("fifteen-letters", || Reno).is_ok());
        for name in ["", "sixteen-letters.", "two words", "ümlaut"] {
            assert_eq!(Guest::new(name, || Reno), Err(GuestError::Name(name.to_owned())), "{name}");
        }
        assert_eq!(Guest::new("cubic", || Reno), Err(GuestError::InUse("cubic".to_owned())));
    }

    #[test]
    fn each_registration_is_itself() {
        let [one, other] = [(); 2].map(|()| Guest::new("mine", || Reno).unwrap());
        assert_eq!(one, one);
        assert_ne!(one, other);
        assert_eq!(one.name(), other.name());
    }
}
