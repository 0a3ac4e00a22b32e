//! In the place of the driver of devices, where there are none: nothing can be started.

use datapath::units::Instant;

use crate::plan::Plan;
use crate::results::Metric;
use crate::run::Error;
use crate::run::build::BuiltWorld;
use crate::store::Store;

/// A driver of which there is none.
pub enum Driver {}

impl Driver {
    /// Refuses: there are no devices.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: &Plan, _: &mut BuiltWorld) -> Result<Self, String> {
        Err("a live run needs Linux and the feature `live`".into())
    }

    /// Is never called.
    ///
    /// # Errors
    /// Never.
    pub fn run_until(&mut self, _: &mut sim::world::World, _: Instant) -> Result<(), String> {
        match *self {}
    }

    /// Is never called.
    ///
    /// # Errors
    /// Never.
    pub fn finish(
        self,
        _: &Plan,
        _: &str,
        _: Option<&Store>,
        _: &mut Vec<String>,
        _: &mut Vec<Metric>,
    ) -> Result<(), Error> {
        match self {}
    }
}
