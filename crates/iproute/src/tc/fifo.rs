//! `pfifo`, `bfifo`, `pfifo_head_drop`: `[ limit NUMBER ]`.

use super::qdisc_text::{QdiscText, map};
use crate::units::{show_size, size};
use crate::words::{Result, Words};
use datapath::qdisc::fifo::{Fifo, FifoKind};
use serde_json::json;

/// Reads the limit: packets or bytes, which tc reads alike (`64k` packets are 65536).
pub(super) fn parse(words: &mut Words<'_>, kind: &str) -> Result<Option<u32>> {
    let mut limit = None;
    while let Some(word) = words.next() {
        match word.text {
            "limit" => limit = Some(size(words.value(word)?, "limit")?),
            _ => return Err(word.unknown(kind, &["limit"])),
        }
    }
    Ok(limit)
}

/// As tc shows it: packets with a `p`, bytes as a size.
pub(super) fn shown(fifo: &Fifo) -> QdiscText {
    let (limit, unit) = match fifo.kind() {
        FifoKind::Packets(limit) | FifoKind::HeadDrop(limit) => (limit, format!("{limit}p")),
        FifoKind::Bytes(limit) => (limit, show_size(limit)),
        FifoKind::NoQueue => return QdiscText::default(),
    };
    let options_json = map([("limit", json!(limit))]);
    QdiscText { options: format!("limit {unit}"), options_json, ..QdiscText::default() }
}
