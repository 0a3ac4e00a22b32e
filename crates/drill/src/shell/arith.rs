//! `$((…))`: whole numbers, `+ - * / %`, parentheses, shifts, comparison of none.

use super::Shell;
use super::words::{Part, Word};
use crate::fault::{Fault, Pos};

impl Shell {
    /// A word with its variables and sums put in.
    pub(super) fn expand(&self, word: &Word, pos: Pos) -> Result<String, Fault> {
        let mut out = String::new();
        for part in &word.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Variable(name) => out.push_str(&self.variable(name)),
                Part::Arithmetic(text) => {
                    let value = self.arithmetic(text).ok_or_else(|| {
                        let what = format!("`$(({text}))` is not a sum");
                        Fault::new(pos, what, "whole numbers, + - * / % << >> and parentheses")
                    })?;
                    out.push_str(&value.to_string());
                }
            }
        }
        Ok(out)
    }

    fn variable(&self, name: &str) -> String {
        match name {
            // The process of the runner: a suite names files of its own by it.
            "PPID" | "$" | "PACKETDRILL_PID" => "1".to_owned(),
            _ => self.variables.get(name).cloned().unwrap_or_default(),
        }
    }

    fn arithmetic(&self, text: &str) -> Option<i64> {
        let mut sum = Sum { shell: self, rest: text.trim(), depth: 0 };
        let value = sum.shifted()?;
        sum.rest.is_empty().then_some(value)
    }
}

struct Sum<'a> {
    shell: &'a Shell,
    rest: &'a str,
    depth: u32,
}

impl Sum<'_> {
    fn eat(&mut self, sign: &str) -> bool {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn shifted(&mut self) -> Option<i64> {
        let mut value = self.sum()?;
        loop {
            if self.eat("<<") {
                value = value.checked_shl(u32::try_from(self.sum()?).ok()?)?;
            } else if self.eat(">>") {
                value = value.checked_shr(u32::try_from(self.sum()?).ok()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn sum(&mut self) -> Option<i64> {
        let mut value = self.product()?;
        loop {
            if self.eat("+") {
                value = value.checked_add(self.product()?)?;
            } else if self.eat("-") {
                value = value.checked_sub(self.product()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn product(&mut self) -> Option<i64> {
        let mut value = self.factor()?;
        loop {
            if self.eat("*") {
                value = value.checked_mul(self.factor()?)?;
            } else if self.eat("/") {
                value = value.checked_div(self.factor()?)?;
            } else if self.eat("%") {
                value = value.checked_rem(self.factor()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn factor(&mut self) -> Option<i64> {
        self.depth += 1;
        if self.depth > 64 {
            return None;
        }
        if self.eat("(") {
            let value = self.shifted()?;
            return self.eat(")").then_some(value);
        }
        if self.eat("-") {
            return self.factor()?.checked_neg();
        }
        self.rest = self.rest.strip_prefix('$').unwrap_or(self.rest);
        let len = self.rest.bytes().take_while(|c| c.is_ascii_alphanumeric() || *c == b'_').count();
        let (word, rest) = self.rest.split_at(len);
        self.rest = rest.trim_start();
        if let Some(hex) = word.strip_prefix("0x") {
            return i64::from_str_radix(hex, 16).ok();
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().ok();
        }
        if word.is_empty() { None } else { self.shell.variable(word).parse().ok().or(Some(0)) }
    }
}
