//! The sysctl names that a plan may set.

use datapath::host::Host;
use datapath::tcp::cc::Algorithm;
use datapath::tcp::config::{Sysctl, SysctlError};

use super::diagnostic::suggest;
use super::doc::{Key, Kind, Node};
use super::network::SysctlSetting;
use super::read::{Faults, as_text};
use super::tc;

/// What a `[sysctl]` table says.
#[derive(Default)]
pub struct Settings {
    /// In the order of the file.
    pub sysctls: Vec<SysctlSetting>,
    /// `net.ipv4.tcp_congestion_control`.
    pub congestion_control: Option<Algorithm>,
    /// Those of the routes, as lines of `ip`.
    pub routing: Vec<String>,
}

/// Reads a `[sysctl]` table. Dotted keys may be quoted (`"net.ipv4.tcp_sack"`) or not, since TOML
/// then makes tables of them.
pub fn read(entries: &[(Key, Node)], faults: &Faults<'_>) -> Settings {
    let mut settings = Settings::default();
    for (name, key, node) in named(entries) {
        if name == CONGESTION_CONTROL {
            let word = as_text(node, faults);
            settings.congestion_control =
                word.and_then(|word| tc::congestion_control(word, &node.at, faults));
            continue;
        }
        if is_of_routes(&name) {
            settings.routing.push(line(&name, node));
            continue;
        }
        match check(&name, node) {
            Ok(setting) => settings.sysctls.push(setting),
            Err(Problem::Unknown) => {
                // `tcp_ecn`, as people call it.
                let known = names();
                let whole = known.iter().find(|known| known.ends_with(&format!(".{name}")));
                let help = match whole {
                    Some(whole) => Some(format!("did you mean \"{whole}\"?")),
                    None => suggest(&name, known.iter().map(String::as_str)),
                };
                faults.add(&key.at, format!("sysctl \"{name}\" is not modelled"), help);
            }
            Err(Problem::Value(problem)) => faults.add(&node.at, problem, None),
        }
    }
    settings
}

/// The settings of routes in a `[sysctl]` table, each as the line of `ip` that makes it, with the
/// places of its name and its value.
pub fn routing(entries: &[(Key, Node)]) -> Vec<(String, &Key, &Node)> {
    let of_routes = named(entries).into_iter().filter(|(name, ..)| is_of_routes(name));
    of_routes.map(|(name, key, node)| (line(&name, node), key, node)).collect()
}

/// Every setting with its whole name, in the order of the file.
fn named(entries: &[(Key, Node)]) -> Vec<(String, &Key, &Node)> {
    let mut list = Vec::new();
    collect("", entries, &mut list);
    list
}

fn collect<'a>(
    prefix: &str,
    entries: &'a [(Key, Node)],
    list: &mut Vec<(String, &'a Key, &'a Node)>,
) {
    for (key, node) in entries {
        let name =
            if prefix.is_empty() { key.name.clone() } else { format!("{prefix}.{}", key.name) };
        match &node.kind {
            Kind::Table(inner) => collect(&name, inner, list),
            _ => list.push((name, key, node)),
        }
    }
}

/// True of a setting that `ip` makes.
fn is_of_routes(name: &str) -> bool {
    ROUTING.iter().any(|(from, to)| name.starts_with(from) && name.ends_with(to))
}

/// The line of `ip` that makes a setting.
fn line(name: &str, value: &Node) -> String {
    format!("sysctl {name}={}", text(value))
}

const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";

/// Sysctls of routes: what their names begin and end with. Which there are, `ip` knows.
const ROUTING: [(&str, &str); 3] = [
    ("net.ipv4.fib_multipath_", ""),
    ("net.ipv6.fib_multipath_", ""),
    ("net.ipv", ".ignore_routes_with_linkdown"),
];

/// What lies in the kernel's `net.ipv4.route`.
const OF_ROUTES: [&str; 2] = ["min_pmtu", "mtu_expires"];

enum Problem {
    Unknown,
    Value(String),
}

fn check(name: &str, node: &Node) -> Result<SysctlSetting, Problem> {
    let value = text(node);
    if Host::IP_SYSCTLS.contains(&name) {
        return match Host::new().set_ip_sysctl(name, &value) {
            Err(SysctlError::Value(problem)) => Err(Problem::Value(problem)),
            _ => Ok(SysctlSetting { name: name.into(), value }),
        };
    }
    if Sysctl::short_of_elsewhere(name).is_some() {
        return match Sysctl::default().set(name, &value) {
            Err(SysctlError::Value(problem)) => Err(Problem::Value(problem)),
            _ => Ok(SysctlSetting { name: name.into(), value }),
        };
    }
    let short = name.strip_prefix("net.ipv4.").ok_or(Problem::Unknown)?;
    let short = match short.strip_prefix("route.") {
        Some(short) if OF_ROUTES.contains(&short) => short,
        None if !OF_ROUTES.contains(&short) => short,
        _ => return Err(Problem::Unknown),
    };
    Sysctl::default().set(short, &value).map_err(|error| match error {
        SysctlError::Unknown => Problem::Unknown,
        // An error names it as the file does.
        SysctlError::Value(problem) => match problem.strip_prefix(short) {
            Some(rest) => Problem::Value(format!("{name}{rest}")),
            None => Problem::Value(problem),
        },
    })?;
    Ok(SysctlSetting { name: short.into(), value })
}

/// A value as it would be written to the file: truth as 1 and 0, lists with spaces.
fn text(node: &Node) -> String {
    match &node.kind {
        Kind::Bool(truth) => u8::from(*truth).to_string(),
        Kind::List(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        _ => node.plain(),
    }
}

/// Every name that may be set.
fn names() -> Vec<String> {
    let others = ["tcp_rmem", "tcp_wmem", "tcp_congestion_control"];
    let full = |name: &&str| {
        let folder = if OF_ROUTES.contains(name) { "route." } else { "" };
        format!("{}{folder}{name}", Sysctl::folder(name))
    };
    let of_tcp = Sysctl::NAMES.iter().chain(&others).map(full);
    of_tcp.chain(Host::IP_SYSCTLS.map(String::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_that_may_be_set() {
        let known = |name: &str| {
            let at = super::super::doc::Origin::File(0..0);
            let node = Node { kind: Kind::Int(1), at };
            !matches!(check(name, &node), Err(Problem::Unknown))
        };
        for name in names() {
            assert!(known(&name) || name == CONGESTION_CONTROL, "{name}");
        }
        assert!(names().contains(&"net.ipv4.route.min_pmtu".to_string()));
        for name in ["net.ipv4.min_pmtu", "net.ipv4.route.tcp_sack", "net.core.tcp_sack"] {
            assert!(!known(name), "{name}");
        }
    }

    /// What a plan may say is what the kernel's file takes, and nothing else.
    #[test]
    fn the_bounds_are_those_of_the_files() {
        let told = |name: &str, number: i64| {
            let at = super::super::doc::Origin::File(0..0);
            match check(name, &Node { kind: Kind::Int(number), at }) {
                Ok(_) => None,
                Err(Problem::Value(problem)) => Some(problem),
                Err(Problem::Unknown) => panic!("{name} is unknown"),
            }
        };
        for short in Sysctl::NAMES {
            let folder = if OF_ROUTES.contains(short) { "route." } else { "" };
            let name = format!("{}{folder}{short}", Sysctl::folder(short));
            let range = Sysctl::range(short).expect("a range");
            let highest = if *short == "tcp_reordering" { 300 } else { *range.end() };
            assert_eq!((told(&name, *range.start()), told(&name, highest)), (None, None), "{name}");
            let problem = told(&name, range.start() - 1).expect("it is refused");
            let expected = format!("{name} takes a whole number from {} to ", range.start());
            assert!(problem.starts_with(&expected), "{problem}");
            if let Some(beyond) = highest.checked_add(1) {
                assert!(told(&name, beyond).is_some(), "{name}");
            }
        }
    }
}
