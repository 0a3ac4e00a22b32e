//! A file of `ip` lines that commands change: what is written by hand stays as it is.

use super::{Ip, IpError, IpResult};

/// A configuration and the lines that it was read from.
#[derive(Debug)]
pub struct Config {
    lines: Vec<String>,
    /// What they say.
    pub ip: Ip,
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What `ip` prints.
    pub output: String,
    /// The configuration is another one now.
    pub changed: bool,
}

/// Words of a command that do not tell what it is about.
const COMMON: [&str; 16] = [
    "ip", "route", "rule", "nexthop", "link", "address", "add", "append", "prepend", "replace",
    "change", "del", "via", "dev", "table", "metric",
];

impl Config {
    /// Reads the lines of a file.
    ///
    /// # Errors
    /// The first line that fails, counted from 1, and why.
    pub fn parse(text: &str) -> Result<Self, (usize, IpError)> {
        let mut ip = Ip::new();
        ip.run_all(text)?;
        Ok(Self { lines: text.lines().map(str::to_owned).collect(), ip })
    }

    /// A configuration that was read from no lines.
    pub fn of(ip: Ip) -> Self {
        Self { lines: Vec::new(), ip }
    }

    /// The lines as they are now.
    pub fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    /// Runs one command. If it changes the configuration, the lines change with it.
    ///
    /// # Errors
    /// As for [`Ip::run`]; the lines stay as they were.
    pub fn run(&mut self, command: &str) -> IpResult<Answer> {
        if is_query(command) {
            return Ok(Answer { output: self.ip.run(command)?, changed: false });
        }
        let before = self.ip.save();
        let output = self.ip.run(command)?;
        let after = self.ip.save();
        let changed = before != after;
        if changed {
            self.lines = self.edited(command, &before, &after);
        }
        Ok(Answer { output, changed })
    }

    /// The lines with the least change after which they say `wanted`: without the line that the
    /// command takes back, with the command in place of the line that it replaces, or with the
    /// command at the end, which always is right.
    ///
    /// Each line that is tried takes another reading of all of them. So lines that add something are left alone by a
    /// command that does nothing but add, and in a long file few others are tried.
    fn edited(&self, command: &str, before: &str, wanted: &str) -> Vec<String> {
        let command = command.trim();
        let says = |lines: &[String]| {
            let mut ip = Ip::new();
            ip.run_all(&lines.join("\n")).is_ok() && ip.save() == wanted
        };
        let subject = subject(command);
        let related = |line: &&usize| {
            let words = self.lines[**line].split('#').next().unwrap_or("");
            words.split_whitespace().any(|word| subject.contains(&word))
        };
        let only_adds = has_all_lines(wanted, before);
        let may_go = |line: &&usize| !(only_adds && adds(&self.lines[**line]));
        let all: Vec<usize> = (0..self.lines.len()).rev().collect();
        let most = (LINES_READ / self.lines.len().max(1)).max(LINES_TRIED);
        for &at in all.iter().filter(may_go).filter(related).take(most) {
            let mut lines = self.lines.clone();
            lines.remove(at);
            if says(&lines) {
                return lines;
            }
            lines.insert(at, command.to_owned());
            if says(&lines) {
                return lines;
            }
        }
        let mut lines = self.lines.clone();
        lines.push(command.to_owned());
        lines
    }
}

/// So many lines are read again to find the one that a command is about,
const LINES_READ: usize = 200_000;
/// but so many places are tried at least.
const LINES_TRIED: usize = 4;

/// Object and verb, if they are written out.
fn object_and_verb(command: &str) -> (Option<&str>, Option<&str>) {
    let words = command.split('#').next().unwrap_or_default().split_whitespace();
    let mut words = words.filter(|word| !word.starts_with('-')).peekable();
    words.next_if_eq(&"ip");
    (words.next(), words.next())
}

/// A command that changes nothing, whatever there is.
fn is_query(command: &str) -> bool {
    matches!(object_and_verb(command), (Some(_), Some("show" | "get")))
}

/// A command that adds something, and takes nothing away.
fn adds(command: &str) -> bool {
    matches!(
        object_and_verb(command),
        (
            Some("route" | "rule" | "nexthop" | "address" | "link"),
            Some("add" | "append" | "prepend")
        )
    )
}

/// Whether each line of `part` is one of `all`.
fn has_all_lines(all: &str, part: &str) -> bool {
    let sorted = |text| {
        let mut lines: Vec<&str> = str::lines(text).collect();
        lines.sort_unstable();
        lines
    };
    let mut all = sorted(all).into_iter();
    sorted(part).into_iter().all(|line| all.any(|there| there == line))
}

/// The words of a command that a line about the same thing would have too.
fn subject(command: &str) -> Vec<&str> {
    command.split_whitespace().filter(|word| !COMMON.contains(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# two ways out
link add a1
link add a2
address add 10.0.1.1/24 dev a1
address add 10.0.2.1/24 dev a2

route add default via 10.0.1.2   # for now
route add 198.18.0.0/15 nexthop via 10.0.1.2 nexthop via 10.0.2.2 weight 3
";

    fn after(commands: &[&str]) -> String {
        let mut config = Config::parse(FILE).unwrap();
        for command in commands {
            assert!(config.run(command).unwrap().changed, "{command}");
            let again = Config::parse(&config.text()).unwrap();
            assert_eq!(again.ip.save(), config.ip.save(), "{command}");
        }
        config.text()
    }

    #[test]
    fn additions_go_to_the_end_and_deletions_take_their_line_away() {
        let added = after(&["route add 9.0.0.0/8 via 10.0.2.2"]);
        assert_eq!(added, format!("{FILE}route add 9.0.0.0/8 via 10.0.2.2\n"));
        let removed = after(&["route del default"]);
        assert_eq!(removed, FILE.replace("route add default via 10.0.1.2   # for now\n", ""));
    }

    #[test]
    fn a_replacement_keeps_the_place_of_the_replaced_line() {
        let replaced = after(&["route replace default via 10.0.2.2"]);
        let expected = FILE.replace(
            "route add default via 10.0.1.2   # for now",
            "route replace default via 10.0.2.2",
        );
        assert_eq!(replaced, expected);
    }

    #[test]
    fn what_no_line_says_is_written_as_the_command() {
        let text = after(&["route del 10.0.1.0/24 dev a1", "link set a2 down"]);
        assert!(text.ends_with("route del 10.0.1.0/24 dev a1\nlink set a2 down\n"), "{text}");
    }

    /// Every line shares a word with each command; all lines were read again for each of them.
    #[test]
    fn a_long_file_is_changed_at_once() {
        let mut lines = vec![FILE.to_owned()];
        lines.extend((0..5_000).map(|number| {
            format!("route add 20.{}.{}.0/24 via 10.0.1.2 dev a1\n", number / 256, number % 256)
        }));
        let mut config = Config::parse(&lines.concat()).unwrap();
        config.run("route add 9.0.0.0/8 via 10.0.1.2 dev a1").unwrap();
        config.run("route replace 20.0.0.0/24 via 10.0.1.2 dev a1 metric 5").unwrap();
        config.run("route del 20.1.0.0/24").unwrap();
        lines.remove(1 + 256);
        lines.push("route add 9.0.0.0/8 via 10.0.1.2 dev a1\n".to_owned());
        lines.push("route replace 20.0.0.0/24 via 10.0.1.2 dev a1 metric 5\n".to_owned());
        assert_eq!(config.text(), lines.concat());
    }

    #[test]
    fn questions_and_errors_change_nothing() {
        let mut config = Config::parse(FILE).unwrap();
        assert!(!config.run("route show").unwrap().changed);
        assert!(config.run("route add default via 10.0.2.2").is_err());
        assert!(config.run("route add 9.0.0.0/8 via 10.9.9.9").is_err());
        assert_eq!(config.text(), FILE);
        let (line, error) = Config::parse("link add a1\nroute addd 1.2.3.4").unwrap_err();
        assert_eq!((line, error.to_string().contains("addd")), (2, true));
    }
}
