//! `ip tcp_metrics`: what a host has kept of its peers, shown and forgotten, with the words of iproute2 6.1.

use core::fmt::Write as _;
use core::net::IpAddr;
use datapath::fib::Prefix;
use datapath::host::Host;
use datapath::tcp::shared::Metrics;
use datapath::units::Instant;

/// What `ip` says of a peer of which nothing is known.
const NOBODY: &str = "RTNETLINK answers: No such process";

/// Runs a command, the words behind `ip tcp_metrics`: what `ip` would print, or its error.
///
/// # Errors
/// It makes no sense, or nothing is known of the one peer that it names.
pub fn run(host: &mut Host, now: Instant, words: &[&str]) -> Result<String, String> {
    let (verb, selector) = match words {
        [] => ("show", words),
        [verb, "address", selector @ ..] | [verb, selector @ ..] => (*verb, selector),
    };
    let which = Which::read(selector)?;
    let is = |word: &str| !verb.is_empty() && word.starts_with(verb);
    if is("show") || is("list") {
        let known = host.tcp_metrics();
        let meant: Vec<_> = known.iter().filter(|((_, peer), _)| which.means(*peer)).collect();
        which.refuse_nobody(meant.is_empty())?;
        return Ok(meant.into_iter().map(|(ends, known)| line(now, *ends, known)).collect());
    }
    if is("flush") || is("delete") {
        if is("delete") && matches!(which, Which::All) {
            return Err("Error: argument \"address\" is required".to_owned());
        }
        let known = host.forget_tcp_metrics(|peer| which.means(peer));
        return which.refuse_nobody(known == 0).map(|()| String::new());
    }
    Err(format!("Command \"{verb}\" is unknown, try \"ip tcp_metrics help\"."))
}

/// Which peers a command is about.
enum Which {
    All,
    In(Prefix),
}

impl Which {
    fn read(selector: &[&str]) -> Result<Self, String> {
        match selector {
            [] | ["all" | "any"] => Ok(Self::All),
            [prefix] => prefix.parse().map(Self::In).map_err(|_| {
                format!("Error: any valid prefix is expected rather than \"{prefix}\".")
            }),
            [_, other, ..] => {
                Err(format!("Error: either \"address\" is duplicate, or \"{other}\" is a garbage."))
            }
        }
    }

    fn means(&self, peer: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::In(prefix) => prefix.contains(peer),
        }
    }

    /// Who asks for a single peer wants to know that it is not there.
    fn refuse_nobody(&self, nobody: bool) -> Result<(), String> {
        match self {
            Self::In(prefix) if prefix.is_host() && nobody => Err(NOBODY.to_owned()),
            Self::In(_) | Self::All => Ok(()),
        }
    }
}

/// A line of `ip tcp_metrics show`.
fn line(now: Instant, (local, peer): (IpAddr, IpAddr), known: &Metrics) -> String {
    let age = now.saturating_since(known.updated).as_millis();
    let mut line = format!("{peer} age {}.{:03}sec", age / 1_000, age % 1_000);
    for (name, value, unit) in [
        ("ssthresh", known.ssthresh, ""),
        ("cwnd", known.cwnd, ""),
        ("reordering", known.reordering, ""),
        ("rtt", known.rtt_us_8 >> 3, "us"),
        ("rttvar", known.rttvar_us_4 >> 2, "us"),
        ("fo_mss", known.mss.into(), ""),
    ] {
        if value != 0 {
            write!(line, " {name} {value}{unit}").expect("a string takes anything");
        }
    }
    writeln!(line, " source {local}").expect("a string takes anything");
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use datapath::units::Duration;

    /// As iproute2 6.1 shows and refuses it.
    #[test]
    fn peers_are_shown_and_forgotten() {
        let mut host = Host::new();
        let now = Instant::ZERO + Duration::from_secs(100);
        let at = |text: &str| text.parse::<IpAddr>().expect("an address");
        let known = Metrics {
            rtt_us_8: 320_264,
            rttvar_us_4: 120_100,
            cwnd: 10,
            updated: now,
            ..Metrics::default()
        };
        for (local, peer, ssthresh) in [
            ("192.168.0.1", "192.0.2.1", 0),
            ("192.168.0.1", "192.0.2.2", 7),
            ("fd00::1", "fd00::2", 0),
        ] {
            host.set_tcp_metrics(at(local), at(peer), Metrics { ssthresh, ..known });
        }
        let later = now + Duration::from_millis(548);
        let mut ip = |command: &str| {
            let words: Vec<&str> = command.split_whitespace().collect();
            run(&mut host, later, &words)
        };
        let first =
            "192.0.2.1 age 0.548sec cwnd 10 rtt 40033us rttvar 30025us source 192.168.0.1\n";
        let second = "192.0.2.2 age 0.548sec ssthresh 7 cwnd 10 rtt 40033us rttvar 30025us \
                      source 192.168.0.1\n";
        let third = "fd00::2 age 0.548sec cwnd 10 rtt 40033us rttvar 30025us source fd00::1\n";
        let all = [first, second, third].concat();
        for (command, answer) in [
            ("", Ok(all.as_str())),
            ("show", Ok(&all)),
            ("show 192.0.2.1", Ok(first)),
            ("list address 192.0.2.2", Ok(second)),
            ("show 192.0.2.0/24", Ok(&[first, second].concat())),
            ("show 10.0.0.0/8", Ok("")),
            ("show 10.0.0.1", Err(NOBODY)),
            ("show bogus", Err("Error: any valid prefix is expected rather than \"bogus\".")),
            ("delete", Err("Error: argument \"address\" is required")),
            ("delete 10.0.0.1", Err(NOBODY)),
            (
                "del 192.0.2.1 source",
                Err("Error: either \"address\" is duplicate, or \"source\" is a garbage."),
            ),
            ("bogus", Err("Command \"bogus\" is unknown, try \"ip tcp_metrics help\".")),
            ("del 192.0.2.1", Ok("")),
            ("show", Ok(&[second, third].concat())),
            ("flush 10.0.0.0/8", Ok("")),
            ("flush fd00::/64", Ok("")),
            ("show", Ok(second)),
            ("flush all", Ok("")),
            ("show", Ok("")),
        ] {
            let expected = answer.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(ip(command), expected, "{command}");
        }
    }
}
