//! Results in a browser.
//!
//! | file | what it holds |
//! |---|---|
//! | [`source`] | what is looked at: a directory of results, a capture, a running `shape` |
//! | [`api`] | questions of the page and their answers, as JSON |
//! | [`series`] | time series, cut down to what a screen can show |
//! | [`capture`], [`graph`], [`decode`] | connections of a capture; one as a time/sequence graph; a packet's fields |
//! | [`explain`] | the story of a flow, line by line |
//! | [`page`] | the page itself: a server's, or one file with all its answers ([`export()`]) |
//! | [`mod@serve`], [`live`] | HTTP on this machine; a running `shape` |
//!
//! It reads what `lab::store` has written, and captures; nothing else, and it writes nothing but an exported page.
//! An answer is a function of the files and the question, so what a server says and what an exported page holds are the same.

pub mod api;
pub mod capture;
pub mod decode;
pub mod explain;
pub mod export;
mod fault;
pub mod graph;
pub mod live;
pub mod page;
pub mod series;
pub mod serve;
pub mod source;

pub use export::export;
pub use fault::Fault;
pub use serve::{BoundServer, serve};
pub use source::Source;
