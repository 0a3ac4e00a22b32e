//! `$((…))`, `((…))`: whole numbers, arithmetic, comparisons, `&&`, `||`, `!`, and assignments to
//! one variable.

use super::{Done, Shell};
use crate::fault::{Fault, Pos};

impl Shell {
    /// What a sum comes to; an empty one to `empty`.
    pub(super) fn arithmetic_or_fault(&mut self, text: &str, empty: i64, pos: Pos) -> Done<i64> {
        if text.trim().is_empty() {
            return Ok(empty);
        }
        let value = match assignment(text) {
            Some((name, operator, right)) => self.operate(name, operator, right, pos)?,
            None => self.arithmetic(text),
        };
        value.ok_or_else(|| {
            let what = format!("`(({text}))` is not a sum");
            Fault::new(pos, what, "whole numbers, + - * / % << >> < > == && || ! and parentheses")
        })
    }

    /// `name operator right`: an assignment; a step behind the name gives what was before.
    fn operate(&mut self, name: &str, operator: &str, right: &str, pos: Pos) -> Done<Option<i64>> {
        let before = self.variable(name).trim().parse().unwrap_or(0_i64);
        let amount = if right.is_empty() { Some(1) } else { self.arithmetic(right) };
        let Some(amount) = amount else { return Ok(None) };
        let after = match operator {
            "=" => Some(amount),
            "+=" | "++" => before.checked_add(amount),
            "-=" | "--" => before.checked_sub(amount),
            "*=" => before.checked_mul(amount),
            _ => None,
        };
        let Some(after) = after else { return Ok(None) };
        self.assign(name, after.to_string(), pos)?;
        Ok(Some(if matches!(operator, "++" | "--") { before } else { after }))
    }

    fn arithmetic(&self, text: &str) -> Option<i64> {
        let mut sum = Sum { shell: self, rest: text.trim(), depth: 0 };
        let value = sum.any()?;
        sum.rest.is_empty().then_some(value)
    }
}

/// `name = right`, `name += right`, `name++`: name, operator, right.
fn assignment(text: &str) -> Option<(&str, &str, &str)> {
    let text = text.trim();
    let len = text.bytes().take_while(|c| c.is_ascii_alphanumeric() || *c == b'_').count();
    let (name, rest) = text.split_at(len);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let rest = rest.trim_start();
    for operator in ["++", "--"] {
        if rest == operator {
            return Some((name, operator, ""));
        }
    }
    for operator in ["+=", "-=", "*=", "="] {
        if let Some(right) = rest.strip_prefix(operator)
            && !right.starts_with('=')
        {
            return Some((name, operator, right));
        }
    }
    None
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

    fn any(&mut self) -> Option<i64> {
        let mut value = self.all()?;
        while self.eat("||") {
            let right = self.all()?;
            value = i64::from(value != 0 || right != 0);
        }
        Some(value)
    }

    fn all(&mut self) -> Option<i64> {
        let mut value = self.compared()?;
        while self.eat("&&") {
            let right = self.compared()?;
            value = i64::from(value != 0 && right != 0);
        }
        Some(value)
    }

    fn compared(&mut self) -> Option<i64> {
        let mut value = self.shifted()?;
        loop {
            let holds = if self.eat("==") {
                value == self.shifted()?
            } else if self.eat("!=") {
                value != self.shifted()?
            } else if self.eat("<=") {
                value <= self.shifted()?
            } else if self.eat(">=") {
                value >= self.shifted()?
            } else if self.eat("<") {
                value < self.shifted()?
            } else if self.eat(">") {
                value > self.shifted()?
            } else {
                return Some(value);
            };
            value = holds.into();
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
        if self.depth > MAX_DEPTH {
            return None;
        }
        let value = self.term();
        self.depth -= 1;
        value
    }

    fn term(&mut self) -> Option<i64> {
        if self.eat("(") {
            let value = self.any()?;
            return self.eat(")").then_some(value);
        }
        if self.eat("-") {
            return self.factor()?.checked_neg();
        }
        if !self.rest.starts_with("!=") && self.eat("!") {
            return self.factor().map(|value| i64::from(value == 0));
        }
        let dollar = self.eat("$");
        self.rest = self.rest.strip_prefix('{').unwrap_or(self.rest);
        let len = self.rest.bytes().take_while(|c| c.is_ascii_alphanumeric() || *c == b'_').count();
        let (word, rest) = self.rest.split_at(len);
        self.rest = rest.strip_prefix('}').unwrap_or(rest).trim_start();
        if dollar {
            return self.shell.variable(word).trim().parse().ok();
        }
        if let Some(hex) = word.strip_prefix("0x") {
            return i64::from_str_radix(hex, 16).ok();
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().ok();
        }
        if word.is_empty() { None } else { self.shell.variable(word).parse().ok().or(Some(0)) }
    }
}

/// Parentheses in each other.
const MAX_DEPTH: u32 = 64;
