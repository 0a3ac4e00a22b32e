//! ECN by RFC 3168, where neither Accurate ECN nor DCTCP can be in use: which packets are ECN-capable, and for how
//! long a mark is echoed.

use super::frame::{Segment, flag};
use super::seq::after;
use crate::case::BrokenLaw;

/// `ECE` and `CWR`, and `AE`.
const ECE: u16 = 0x40;
const CWR: u16 = 0x80;
const AE: u16 = 0x100;
/// The codepoint CE.
const CE: u8 = 3;

/// What was seen of one flow's marks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// Flags of the latest SYN of host and peer; those that differ make everything uncertain, and so
    /// does a peer that speaks of Accurate ECN.
    host_syn: Option<u16>,
    peer_syn: Option<u16>,
    is_uncertain: bool,
    /// Just past data that came with CE: an ACK of it must echo the mark.
    marked: Option<u32>,
    /// The peer has said that it has reduced, and no mark has come since.
    must_stop: bool,
}

impl Marks {
    /// Nobody can know what was agreed.
    pub fn uncertain(&mut self) {
        self.is_uncertain = true;
    }

    /// Both ends agreed on ECN, by what they said (RFC 3168 section 6.1.1).
    fn agreed(&self) -> bool {
        let both = ECE | CWR;
        let pair = (self.host_syn, self.peer_syn);
        let answered = |syn: u16, answer: u16| syn & both == both && answer & both == ECE;
        // Two crossing SYNs have both asked, and neither side has to answer (`tcp_ecn_rcv_syn`).
        let crossed =
            |one: u16, other: u16| one & other & both == both && (one | other) & flag::ACK == 0;
        match pair {
            (Some(host), Some(peer)) if !self.is_uncertain => {
                answered(host, peer) || answered(peer, host) || crossed(host, peer)
            }
            _ => false,
        }
    }

    /// A segment comes with this codepoint. `plain`: the host has no reason not to take it; it has
    /// nothing else to say at present.
    pub fn on_inbound(&mut self, segment: &Segment, ecn: u8, plain: bool) {
        if segment.has(flag::SYN) {
            let other = self.peer_syn.is_some_and(|before| before != segment.flags);
            self.is_uncertain |=
                other || segment.has(AE) || segment.has(flag::ACK) && segment.has(CWR);
            self.peer_syn = Some(segment.flags);
            return;
        }
        if segment.has(CWR) {
            self.marked = None;
        }
        if ecn == CE {
            self.must_stop = false;
            if plain && segment.len > 0 && !segment.has(CWR) {
                self.marked = Some(segment.end());
            }
        } else if plain && segment.has(CWR) {
            self.must_stop = true;
        }
    }

    /// A segment leaves with this codepoint; `again`: all its data was sent before.
    ///
    /// # Errors
    /// The law that this breaks.
    pub fn sent(&mut self, segment: &Segment, ecn: u8, again: bool) -> Result<(), BrokenLaw> {
        if segment.has(flag::SYN) {
            self.is_uncertain |= self.host_syn.is_some_and(|before| before != segment.flags);
            self.host_syn = Some(segment.flags);
            (self.marked, self.must_stop) = (None, false);
        }
        if self.is_uncertain {
            return Ok(());
        }
        if ecn != 0 && (segment.len == 0 || again) {
            let what = format!("codepoint {ecn} on what is no new data");
            return Err(("ECN", what));
        }
        if ecn != 0 && !self.agreed() {
            return Err(("ECN", format!("codepoint {ecn}, though ECN was not agreed on")));
        }
        if segment.has(flag::SYN) || segment.has(flag::RST) || !self.agreed() {
            return Ok(());
        }
        let echoes = segment.has(ECE);
        if self.must_stop && echoes {
            return Err(("ECN", "ECE, though the peer has said CWR and no mark came".to_owned()));
        }
        match self.marked {
            Some(end) if !echoes && !after(end, segment.ack) => {
                let what = format!("no ECE, though data up to {end} came with CE");
                Err(("ECN", what))
            }
            _ => Ok(()),
        }
    }
}
