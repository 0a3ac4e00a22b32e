//! TCP options.

use super::{Parsed, Parser};
use crate::ast::OptionSpec;
use crate::fault::{Fault, Pos};
use crate::lex::Kind;

impl Parser {
    /// `<mss 1460,nop,…>` or `<...>`; the `<` is next. `None`: any options.
    pub(super) fn tcp_options(&mut self) -> Parsed<Option<Vec<OptionSpec>>> {
        let pos = self.peek().pos;
        self.expect('<')?;
        if self.peek().kind == Kind::Ellipsis {
            self.next();
            self.expect('>')?;
            return Ok(None);
        }
        let mut options = Vec::new();
        loop {
            options.push(self.tcp_option()?);
            if !self.eat(',') {
                break;
            }
        }
        self.expect('>')?;
        let len: usize = options.iter().map(OptionSpec::len).sum();
        if len > 40 {
            let what = format!("the TCP options have {len} bytes");
            return Err(Fault::new(pos, what, "a TCP header has room for 40"));
        }
        if !len.is_multiple_of(4) {
            let what = format!("the TCP options have {len} bytes, no multiple of four");
            return Err(Fault::new(pos, what, format!("add {} `nop`", 4 - len % 4)));
        }
        Ok(Some(options))
    }

    fn tcp_option(&mut self) -> Parsed<OptionSpec> {
        let (pos, word) = self.any_word("a TCP option")?;
        Ok(match word.as_str() {
            "nop" => OptionSpec::Nop,
            "eol" => OptionSpec::Eol,
            "mss" => OptionSpec::Mss(self.number("MSS", 0xffff)? as u16),
            "wscale" => OptionSpec::WindowScale(self.number("window scale", 0xff)? as u8),
            "sackOK" => OptionSpec::SackOk,
            "sack" => OptionSpec::Sack(self.sack_blocks()?),
            "md5" => {
                let digest = self.hex_blob()?.unwrap_or_default();
                if digest.len() > 16 {
                    return Err(Fault::new(pos, "an MD5 digest of more than 16 bytes", ""));
                }
                OptionSpec::Md5(digest)
            }
            "TS" => {
                self.expect_word("val")?;
                let value = self.number("TS val", u32::MAX)?;
                self.expect_word("ecr")?;
                OptionSpec::Timestamps(value, self.number("TS ecr", u32::MAX)?)
            }
            "FO" => self.fast_open(pos, false)?,
            "FOEXP" => self.fast_open(pos, true)?,
            "ECN" => self.acc_ecn()?,
            _ if MPTCP.contains(&word.as_str()) => {
                return Err(Fault::no_meaning(pos, "Multipath TCP is not modelled"));
            }
            _ => return Err(Fault::unknown(pos, "TCP option", &word, &KNOWN)),
        })
    }

    fn sack_blocks(&mut self) -> Parsed<Vec<(u32, u32)>> {
        let mut blocks = Vec::new();
        loop {
            let left = self.number("left edge of a SACK block", u32::MAX)?;
            self.expect(':')?;
            blocks.push((left, self.number("right edge of a SACK block", u32::MAX)?));
            if !matches!(self.peek().kind, Kind::Int(_)) {
                return Ok(blocks);
            }
        }
    }

    fn fast_open(&mut self, pos: Pos, experimental: bool) -> Parsed<OptionSpec> {
        // Longer than any valid one is allowed: scripts try what a host makes of it.
        let cookie = self.hex_blob()?.unwrap_or_default();
        if cookie.len() > 36 {
            return Err(Fault::new(pos, "the cookie does not fit in a TCP header", ""));
        }
        Ok(OptionSpec::FastOpen { cookie, experimental })
    }

    /// Hexadecimal digits, if a word or number follows.
    fn hex_blob(&mut self) -> Parsed<Option<Vec<u8>>> {
        if !matches!(self.peek().kind, Kind::Word(_) | Kind::Int(_)) {
            return Ok(None);
        }
        let token = self.next();
        let wrong = || Fault::new(token.pos, format!("`{}` is not hexadecimal", token.text), "");
        let digits: Option<Vec<u8>> =
            token.text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
        let digits = digits.ok_or_else(wrong)?;
        if !digits.len().is_multiple_of(2) {
            return Err(Fault::new(token.pos, "an odd number of hexadecimal digits", "add one"));
        }
        Ok(Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()))
    }

    /// `ECN e0b 1 ceb 2 e1b 3` or `ECN e1b 1 ceb 2 e0b 3`, or the first one or two of these.
    fn acc_ecn(&mut self) -> Parsed<OptionSpec> {
        let e0_first = if self.eat_word("e0b") {
            true
        } else if self.eat_word("e1b") {
            false
        } else {
            return Err(self.expected("`e0b` or `e1b`"));
        };
        let mut counters = vec![self.number("AccECN counter", MAX_ACC_ECN)?];
        if self.eat_word("ceb") {
            counters.push(self.number("AccECN counter", MAX_ACC_ECN)?);
            if self.eat_word(if e0_first { "e1b" } else { "e0b" }) {
                counters.push(self.number("AccECN counter", MAX_ACC_ECN)?);
            }
        }
        Ok(OptionSpec::AccEcn { e0_first, counters })
    }
}

impl OptionSpec {
    /// Bytes on the wire.
    pub fn len(&self) -> usize {
        match self {
            Self::Nop | Self::Eol => 1,
            Self::Mss(_) => 4,
            Self::WindowScale(_) => 3,
            Self::SackOk => 2,
            Self::Sack(blocks) => 2 + 8 * blocks.len(),
            Self::Md5(digest) => 2 + digest.len(),
            Self::Timestamps(..) => 10,
            Self::FastOpen { cookie, experimental } => {
                2 + cookie.len() + if *experimental { 2 } else { 0 }
            }
            Self::AccEcn { counters, .. } => 2 + 3 * counters.len(),
            Self::Other(_, data) => 2 + data.len(),
        }
    }

    /// No option has no bytes.
    pub const fn is_empty(&self) -> bool {
        false
    }
}

/// AccECN counters have 24 bits (RFC 9768 section 3.2.3).
const MAX_ACC_ECN: u32 = 0xff_ffff;

const KNOWN: [&str; 11] =
    ["nop", "eol", "mss", "wscale", "sackOK", "sack", "md5", "TS", "FO", "FOEXP", "ECN"];

/// Options of Multipath TCP in scripts of that project.
const MPTCP: [&str; 9] = [
    "mp_capable",
    "mp_join_syn",
    "mp_join_syn_ack",
    "mp_join_ack",
    "mp_fail",
    "mp_fastclose",
    "mp_reset",
    "dss",
    "add_address",
];
