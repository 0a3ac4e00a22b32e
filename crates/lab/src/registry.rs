//! What a library user adds to the words of experiment files, without a fork.
//!
//! Today that is congestion controls. A further kind (qdiscs, loss models, applications) is a
//! further map here, a method that fills it, and a question at the place where its words are read.

use std::collections::BTreeMap;
use std::path::Path;

use datapath::tcp::cc::{Algorithm, CongestionControl, Guest, GuestError};

use crate::plan::{Diagnostics, Error, Experiment};

/// Names that an experiment file may use besides those of the product.
///
/// ```
/// use datapath::tcp::cc::Reno;
/// let mut registry = lab::Registry::new();
/// registry.congestion_control("mine", || Reno)?;
/// let text = r#"
///     schema = 1
///     name = "two"
///     duration = "1s"
///     [nodes.a]
///     [nodes.b]
///     [links.wire]
///     ends = ["a", "b"]
///     rate = "10mbit"
///     [flows.transfer]
///     app = "bulk"
///     from = "a"
///     to = "b"
///     congestion_control = "mine"
/// "#;
/// let experiment = registry.parse("two.toml", text, &[])?;
/// assert_eq!(experiment.base.flows[0].congestion_control.map(|it| it.name()), Some("mine"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    congestion_controls: BTreeMap<&'static str, Guest>,
}

impl Registry {
    /// Nothing besides the product's own.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a congestion control: `make` makes a fresh module for each connection. Files name it
    /// wherever they name one: `congestion_control` and `net.ipv4.tcp_congestion_control`.
    ///
    /// # Errors
    /// When the name does not fit or there is one already.
    pub fn congestion_control<M, F>(&mut self, name: &str, make: F) -> Result<&mut Self, GuestError>
    where
        M: CongestionControl + Send + Sync + 'static,
        F: Fn() -> M + Send + Sync + 'static,
    {
        if self.congestion_controls.contains_key(name) {
            return Err(GuestError::Taken(name.to_owned()));
        }
        let guest = Guest::new(name, make)?;
        self.congestion_controls.insert(guest.name(), guest);
        Ok(self)
    }

    /// Reads the file at `path` with the given `KEY=VALUE` settings, as [`Experiment::load`].
    ///
    /// # Errors
    /// When the file cannot be read, or it or any of its points is invalid.
    pub fn load(&self, path: &Path, settings: &[String]) -> Result<Experiment, Error> {
        Experiment::load_with(self, path, settings)
    }

    /// Reads an experiment from `text`, as [`Experiment::parse`]; `name` stands in messages.
    ///
    /// # Errors
    /// When the text or any of its points is invalid.
    pub fn parse(
        &self,
        name: &str,
        text: &str,
        settings: &[String],
    ) -> Result<Experiment, Diagnostics> {
        Experiment::parse_with(self, name, text, settings)
    }

    /// The congestion control called `name`, ours or the product's.
    pub(crate) fn find_congestion_control(&self, name: &str) -> Option<Algorithm> {
        let own = self.congestion_controls.get(name).copied().map(Algorithm::Guest);
        own.or_else(|| Algorithm::by_name(name))
    }

    /// What congestion controls are called, for messages.
    pub(crate) fn congestion_control_names(&self) -> Vec<&'static str> {
        let own = self.congestion_controls.keys().copied();
        Algorithm::ALL.map(Algorithm::name).into_iter().chain(own).collect()
    }
}
