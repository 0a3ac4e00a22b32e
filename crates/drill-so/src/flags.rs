//! `--so_flags`: packetdrill's own flags, which its shared objects are not told of, in one text.
//!
//! `--so_flags="--ip_version=ipv6 --mss=1000 --root=/suite"`.

use drill::settings::{IpVersion, Settings, command_line_flag};
use std::path::PathBuf;

/// What an instance is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// As for any run.
    pub settings: Settings,
    /// Below this folder a script's own `defaults.sh` may be read; empty: nowhere.
    pub root: PathBuf,
}

impl Flags {
    /// Reads the text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        let pairs: Vec<(&str, Option<&str>)> = text
            .split_whitespace()
            .map(|word| {
                let word = word.trim_start_matches('-');
                word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)))
            })
            .collect();
        let value = |wanted: &str| {
            let found = pairs.iter().rev().find(|(name, _)| *name == wanted);
            found.and_then(|(_, value)| *value)
        };
        let version = match value("ip_version") {
            None => IpVersion::Ipv4,
            Some(name) => {
                IpVersion::by_name(name).ok_or_else(|| format!("no IP version `{name}`"))?
            }
        };
        let flags: Vec<_> = pairs
            .iter()
            .filter(|(name, _)| !matches!(*name, "root" | "ip_version"))
            .map(|(name, value)| command_line_flag(name, *value))
            .collect();
        let settings = Settings::of_run(version, &[], &flags).map_err(|fault| fault.to_string())?;
        Ok(Self { settings, root: value("root").map(PathBuf::from).unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::IpAddr;

    #[test]
    fn flags_are_packetdrills() {
        let text = "--ip_version=ipv6 --mss=1000  --remote_ip=fd00::2 --root=/suite";
        let flags = Flags::read(text).expect("flags");
        assert_eq!(flags.settings.ip_version, IpVersion::Ipv6);
        assert_eq!((flags.settings.mss, flags.settings.mtu), (1000, 1520));
        assert_eq!(flags.settings.remote, "fd00::2".parse::<IpAddr>().expect("an address"));
        assert_eq!(flags.root, PathBuf::from("/suite"));
    }

    #[test]
    fn nothing_said_is_ipv4() {
        let flags = Flags::read("").expect("flags");
        assert_eq!(flags.settings, Settings::of_run(IpVersion::Ipv4, &[], &[]).expect("settings"));
    }

    #[test]
    fn faults_are_told() {
        for text in ["--ip_version=ipv5", "--mss=0", "--msss=1000", "--remote_ip=::1"] {
            assert!(Flags::read(text).is_err(), "{text}");
        }
    }
}
