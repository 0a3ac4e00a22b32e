//! A swarm tester: one number (the seed) is one case, and every case is judged by oracles that share no code with what
//! they judge.
//!
//! | module | what it holds |
//! |---|---|
//! | [`case`] | what every kind of case can do: be drawn, run, shrunk |
//! | [`draw`] | the random choices of a seed |
//! | [`judge`](mod@judge) | runs a case twice and catches its panics |
//! | [`shrink`](mod@shrink) | reduces a failing case |
//! | [`campaign`] | many seeds on many threads |
//! | [`file`](mod@file) | a case as a file: read, written, run again |
//! | [`fuzzer`] | a case from a fuzzer's input |
//! | [`oracle`] | what must hold for every case |
//! | [`calls`] | system calls at two hosts over a bad wire |
//! | [`qdisc`] | trees of queueing disciplines under load, changed while packets wait |
//! | [`wire`] | one live host and a hostile wire |
//! | [`router`] | a router between Ethernets, and neighbours that are late, move and lie |
//! | [`route`] | routes, rules and next hops, changed while packets are looked up |
//! | [`world`] | hosts, routers, applications and impairments; repaired at the end, so that every flow ends |
//!
//! A case is plain data, drawn from its seed before anything runs, so that a failing case can be shrunk by leaving
//! parts out. When the generator of a kind learns something new, the same seed means another case. So cases that
//! failed once are kept as files in `regressions/`.

pub mod calls;
pub mod campaign;
pub mod case;
pub mod draw;
pub mod file;
pub mod fuzzer;
pub mod judge;
mod kind;
mod limits;
pub mod oracle;
pub mod qdisc;
pub mod route;
pub mod router;
pub mod shrink;
pub mod wire;
pub mod world;

pub use kind::Kind;

/// Calls a generic function with the case type of a kind: `with_case!(kind, judge::seed(7))`.
#[macro_export]
macro_rules! with_case {
    ($kind:expr, $($path:ident)::+ ( $($argument:expr),* )) => {
        match $kind {
            $crate::Kind::Calls => $($path)::+::<$crate::calls::Case>($($argument),*),
            $crate::Kind::Qdisc => $($path)::+::<$crate::qdisc::Case>($($argument),*),
            $crate::Kind::Wire => $($path)::+::<$crate::wire::Case>($($argument),*),
            $crate::Kind::Route => $($path)::+::<$crate::route::Case>($($argument),*),
            $crate::Kind::Router => $($path)::+::<$crate::router::Case>($($argument),*),
            $crate::Kind::World => $($path)::+::<$crate::world::Case>($($argument),*),
        }
    };
}
