//! packetdrill scripts against the datapath, in virtual time.

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
