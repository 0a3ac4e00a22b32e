//! The words of tc, ip and ss: grammar in, text and JSON out.

pub mod ip;
pub mod ss;
pub mod tc;
pub mod tcp_metrics;
pub mod units;
pub mod words;
