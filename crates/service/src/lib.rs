//! A live tool as a service.
//!
//! | module | what it holds |
//! |---|---|
//! | [`config`] | the file: what runs, between which devices, as whom |
//! | [`metrics`] | what has passed, in the words of Prometheus |
//! | [`http`] | where metrics are asked for |
//! | [`logs`] | what happens, as text or JSON |
//! | [`view`] | what `ackwright top` shows |
//!
//! Nothing here is in a packet's way: metrics and views ask the control socket, as anybody may.

pub mod config;
pub mod http;
pub mod logs;
pub mod metrics;
pub mod view;
