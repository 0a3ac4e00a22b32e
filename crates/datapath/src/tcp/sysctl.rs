//! Sysctls as text: what the files under `/proc/sys/net/ipv4` take (`proc_dointvec_minmax` and its
//! kin), and what they refuse with `EINVAL`.

use super::config::ranges::INT_MAX;
use super::config::{Sysctl, SysctlError};
use super::fastopen::Keys;
use core::ops::RangeInclusive;

impl Sysctl {
    /// Those that lie elsewhere than in `net.ipv4`: folder and name.
    pub const ELSEWHERE: [(&'static str, &'static str); 4] = [
        ("net.core.", "txrehash"),
        ("net.ipv6.", "auto_flowlabels"),
        ("net.ipv6.", "flowlabel_reflect"),
        ("net.ipv6.", "flowlabel_state_ranges"),
    ];

    /// The folder of a scalar sysctl: `net.ipv4.` for nearly all.
    pub fn folder(short: &str) -> &'static str {
        let other = Self::ELSEWHERE.into_iter().find(|(_, name)| *name == short);
        other.map_or("net.ipv4.", |(folder, _)| folder)
    }

    /// The short name of a sysctl outside of `net.ipv4`.
    pub fn short_of_elsewhere(name: &str) -> Option<&'static str> {
        let is = |(folder, short): &(&str, &str)| name.strip_prefix(folder) == Some(short);
        Self::ELSEWHERE.iter().find(|other| is(other)).map(|(_, short)| *short)
    }

    /// Sets `name`, with or without the `net.ipv4.` in front, from the text that one would write
    /// to the file. Those that lie [elsewhere](Self::ELSEWHERE) by their whole name.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SysctlError> {
        if let Some(short) = Self::short_of_elsewhere(name) {
            let range = Self::range(short).ok_or(SysctlError::Unknown)?;
            let number = number_within(name, value, range)?;
            *self.scalar_mut(short).ok_or(SysctlError::Unknown)? = number;
            return Ok(());
        }
        let name = match name.strip_prefix("net.ipv4.") {
            Some(short) if Self::folder(short) != "net.ipv4." => return Err(SysctlError::Unknown),
            Some(short) => short,
            None => name,
        };
        match name {
            "tcp_rmem" => self.tcp_rmem = triple(name, value, self.tcp_rmem)?,
            "tcp_wmem" => self.tcp_wmem = triple(name, value, self.tcp_wmem)?,
            "tcp_fastopen_key" => {
                self.tcp_fastopen_key = Keys::parse(value).ok_or_else(|| {
                    SysctlError::Value(format!("{name} wants xxxxxxxx-xxxxxxxx-xxxxxxxx-xxxxxxxx"))
                })?;
            }
            _ => {
                let mut range = Self::range(name).ok_or(SysctlError::Unknown)?;
                if name == "tcp_reordering" {
                    range = 1..=self.tcp_max_reordering.into();
                }
                let number = number_within(name, value, range)?;
                *self.scalar_mut(name).ok_or(SysctlError::Unknown)? = number;
            }
        }
        Ok(())
    }

    /// A number of seconds as it counts: the files take negative ones, which are over at once.
    pub fn seconds(value: u32) -> u32 {
        (value as i32).max(0) as u32
    }
}

/// A number in a range; one below zero as the same 32 bits.
pub(crate) fn number_within(
    name: &str,
    text: &str,
    range: RangeInclusive<i64>,
) -> Result<u32, SysctlError> {
    let refuse = || {
        let (from, to) = (range.start(), range.end());
        SysctlError::Value(format!("{name} takes a whole number from {from} to {to}, not {text}"))
    };
    let number = number(text.trim()).filter(|number| range.contains(number)).ok_or_else(refuse)?;
    Ok(if number < 0 { number as i32 as u32 } else { number.min(u32::MAX.into()) as u32 })
}

/// Three positive numbers; what is left out stays as it is.
fn triple(name: &str, text: &str, mut values: [u32; 3]) -> Result<[u32; 3], SysctlError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if !(1..=3).contains(&words.len()) {
        return Err(SysctlError::Value(format!("{name} wants three numbers")));
    }
    for (place, word) in values.iter_mut().zip(words) {
        *place = number_within(name, word, 1..=INT_MAX)?;
    }
    Ok(values)
}

/// A number as the kernel reads it: decimal, hexadecimal after `0x`, octal after `0`.
fn number(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let magnitude = if let Some(digits) = digits.strip_prefix("0x") {
        i64::from_str_radix(digits, 16)
    } else if digits.len() > 1 && digits.starts_with('0') {
        i64::from_str_radix(digits, 8)
    } else if digits.starts_with(|first: char| first.is_ascii_digit()) {
        digits.parse()
    } else {
        return None;
    };
    magnitude.ok().filter(|magnitude| *magnitude >= 0).map(|magnitude| sign * magnitude)
}

#[cfg(test)]
mod tests;
