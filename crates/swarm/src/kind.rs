//! The kinds of cases.

use core::fmt;
use core::str::FromStr;

/// What kind of case is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// [`calls`](crate::calls): system calls at two hosts.
    Calls,
    /// [`qdisc`](crate::qdisc): trees of queueing disciplines under load.
    Qdisc,
    /// [`wire`](crate::wire): one live host and a hostile wire.
    Wire,
    /// [`route`](crate::route): forwarding tables.
    Route,
    /// [`router`](crate::router): a router between Ethernets.
    Router,
    /// [`world`](crate::world): whole worlds with impairments.
    World,
}

impl Kind {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 6] =
        [Self::Calls, Self::Qdisc, Self::Route, Self::Router, Self::Wire, Self::World];

    /// Its name on the command line and in case files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Qdisc => "qdisc",
            Self::Wire => "wire",
            Self::Route => "route",
            Self::Router => "router",
            Self::World => "world",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("no kind of case is called \"{text}\"; there are {names}")
        })
    }
}
