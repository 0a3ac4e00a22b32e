//! The clock of a run: virtual time, or this machine's clock.

#[cfg(not(all(feature = "live", target_os = "linux")))]
mod no_driver;

use datapath::units::Instant;

use super::build::BuiltWorld;
use super::{Error, LiveOverrides};
use crate::plan::Plan;
use crate::results::Metric;
use crate::store::Store;

#[cfg(all(feature = "live", target_os = "linux"))]
use crate::live::Driver;
#[cfg(not(all(feature = "live", target_os = "linux")))]
use no_driver::Driver;

/// The clock of one run.
pub enum Clock {
    /// Virtual time.
    Virtual,
    /// The machine's: packets go over devices meanwhile.
    WallClock(Box<Driver>),
}

impl Clock {
    /// The clock that a run is to have.
    ///
    /// # Errors
    /// Namespaces and devices cannot be made.
    pub fn begin(
        plan: &Plan,
        built: &mut BuiltWorld,
        live: Option<LiveOverrides>,
    ) -> Result<Self, Error> {
        if live.is_none() {
            return Ok(Self::Virtual);
        }
        let driver = Driver::start(plan, built).map_err(Error::World)?;
        Ok(Self::WallClock(Box::new(driver)))
    }

    /// Lets the world go on until `at`.
    ///
    /// # Errors
    /// A device or a program has failed.
    pub fn run_until(&mut self, built: &mut BuiltWorld, at: Instant) -> Result<(), Error> {
        match self {
            Self::Virtual => built.world.run_until(at),
            Self::WallClock(driver) => {
                driver.run_until(&mut built.world, at).map_err(Error::World)?;
            }
        }
        Ok(())
    }

    /// Adds how late it was, and the reports of what ran outside; writes its files.
    ///
    /// # Errors
    /// What ran outside has failed, or a file cannot be written.
    pub fn finish(
        self,
        plan: &Plan,
        name: &str,
        store: Option<&Store>,
        files: &mut Vec<String>,
        metrics: &mut Vec<Metric>,
    ) -> Result<(), Error> {
        match self {
            Self::Virtual => Ok(()),
            Self::WallClock(driver) => driver.finish(plan, name, store, files, metrics),
        }
    }
}
