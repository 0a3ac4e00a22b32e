//! packetdrill scripts against the datapath, in virtual time.
//!
//! ```
//! use drill::run::{ScriptFolder, Verdict, run};
//! use drill::settings::IpVersion;
//!
//! let text = "
//!     0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
//!    +0 bind(3, ..., ...) = 0
//!    +0 listen(3, 1) = 0
//!    +0 < S 0:0(0) win 1000 <mss 1000>
//!    +0 > S. 0:0(0) ack 1 <mss 1460>
//! ";
//! let (script, settings) = drill::suite::read(text, IpVersion::Ipv4, &[]).expect("a script");
//! let report = run(&script, &settings, &ScriptFolder::default());
//! assert_eq!((report.verdict, report.packets.len()), (Verdict::Pass, 2));
//! ```

pub mod actual;
pub mod ast;
pub mod capture;
pub mod code;
pub mod compare;
pub mod encap;
pub mod fault;
pub mod harness;
pub mod icmp_names;
pub mod kept_settings;
pub mod kernel;
pub mod lex;
pub mod parse;
pub mod report;
pub mod run;
pub mod settings;
pub mod shell;
pub mod show;
pub mod suite;
pub mod tunnel;
pub mod wire;
