//! The configuration of a service: TOML, every mistake with its line and column.

use core::fmt;
use core::ops::Range;
use iproute::tc;
use iproute::words::{Word, Words};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use toml::Spanned;

/// What a file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    user: Option<String>,
    #[serde(default)]
    log: Log,
    metrics: Option<Spanned<String>>,
    ctl: Option<PathBuf>,
    drain: Option<Spanned<String>>,
    busy_poll: Option<Spanned<String>>,
    seed: Option<u64>,
    shape: Option<ShapeTable>,
    route: Option<RouteTable>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ShapeTable {
    between: [String; 2],
    ab: Option<Spanned<String>>,
    ba: Option<Spanned<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RouteTable {
    dev: Spanned<Vec<String>>,
    file: Option<PathBuf>,
    #[serde(default)]
    import_kernel: bool,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Log {
    /// A line of words each.
    #[default]
    Text,
    /// A line of JSON each.
    Json,
}

/// Where metrics may be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// HTTP on an address of this machine.
    Tcp(SocketAddr),
    /// HTTP on a Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tool {
    /// A bump in the wire between two devices, with the qdiscs from the first to the second and back.
    Shape {
        /// The devices.
        between: [String; 2],
        /// From the first to the second.
        ab: Option<String>,
        /// From the second to the first.
        ba: Option<String>,
    },
    /// A router.
    Route {
        /// Its devices.
        dev: Vec<String>,
        /// Lines of `ip`, `tc` and `sysctl`.
        file: Option<PathBuf>,
        /// Routes are the kernel's.
        import_kernel: bool,
    },
}

/// A service, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whom the process becomes once devices are open.
    pub user: Option<String>,
    /// How logs are written.
    pub log: Log,
    /// Where metrics are.
    pub metrics: Option<ListenAddress>,
    /// The control socket.
    pub ctl: Option<PathBuf>,
    /// Longest time for queues to drain at the end, in ns.
    pub drain_nanos: u64,
    /// How far ahead the loop does not sleep, in ns.
    pub busy_poll_nanos: u64,
    /// Seed of random numbers.
    pub seed: u64,
    /// What runs.
    pub tool: Tool,
}

/// A mistake, and where it is: line and column from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Line.
    pub line: usize,
    /// Column in characters.
    pub column: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl Config {
    /// Reads a file's text.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().unwrap_or(0..0);
            mistake(text, &at, error.message().to_owned())
        })?;
        let time = |value: &Option<Spanned<String>>, usual: u64| match value {
            None => Ok(usual),
            Some(value) => iproute::units::time(Word { text: value.get_ref(), column: 0 }, "time")
                .map(datapath::units::Duration::as_nanos)
                .map_err(|error| mistake(text, &value.span(), error.message)),
        };
        let metrics = file.metrics.as_ref().map(|value| {
            place(value.get_ref()).map_err(|message| mistake(text, &value.span(), message))
        });
        let tool = match (file.shape, file.route) {
            (Some(shape), None) => shape.check(text)?,
            (None, Some(route)) => route.check(text)?,
            (None, None) => {
                let message = "a table [shape] or [route] is missing: what is to run?";
                return Err(mistake(text, &(text.len()..text.len()), message.to_owned()));
            }
            (Some(_), Some(_)) => {
                let at = text.find("[route").unwrap_or(0);
                let message = "[shape] and [route] are mutually exclusive: run two services";
                return Err(mistake(text, &(at..at), message.to_owned()));
            }
        };
        Ok(Self {
            drain_nanos: time(&file.drain, 2_000_000_000)?,
            busy_poll_nanos: time(&file.busy_poll, 0)?,
            user: file.user,
            log: file.log,
            metrics: metrics.transpose()?,
            ctl: file.ctl,
            seed: file.seed.unwrap_or(1),
            tool,
        })
    }

    /// What cannot be changed while it runs and yet is another in `new`; `None` if all can.
    pub fn fixed_difference(&self, new: &Self) -> Option<&'static str> {
        let tool = match (&self.tool, &new.tool) {
            (Tool::Shape { between, .. }, Tool::Shape { between: other, .. }) => between == other,
            (Tool::Route { .. }, Tool::Route { .. }) => self.tool == new.tool,
            _ => false,
        };
        [
            (tool, "`dev`, `file` or `import-kernel`"),
            (self.user == new.user, "user"),
            (self.log == new.log, "log"),
            (self.metrics == new.metrics, "metrics"),
            (self.ctl == new.ctl, "ctl"),
            (self.drain_nanos == new.drain_nanos, "drain"),
            (self.busy_poll_nanos == new.busy_poll_nanos, "busy-poll"),
            (self.seed == new.seed, "seed"),
        ]
        .into_iter()
        .find_map(|(same, what)| (!same).then_some(what))
    }
}

impl ShapeTable {
    fn check(self, text: &str) -> Result<Tool, ConfigError> {
        for words in [&self.ab, &self.ba].into_iter().flatten() {
            tc::parse_spec(&mut Words::new(words.get_ref())).map_err(|error| {
                // Behind the quotation mark.
                let at = words.span().start + 1 + error.column;
                mistake(text, &(at..at), error.message)
            })?;
        }
        let words = |value: Option<Spanned<String>>| value.map(Spanned::into_inner);
        Ok(Tool::Shape { between: self.between, ab: words(self.ab), ba: words(self.ba) })
    }
}

impl RouteTable {
    fn check(self, text: &str) -> Result<Tool, ConfigError> {
        let at = self.dev.span();
        let dev = self.dev.into_inner();
        if dev.is_empty() {
            return Err(mistake(text, &at, "a router needs a device".to_owned()));
        }
        if self.file.is_none() && !self.import_kernel {
            let message = "no routes given: set file = \"…\" or import-kernel = true";
            return Err(mistake(text, &at, message.to_owned()));
        }
        Ok(Tool::Route { dev, file: self.file, import_kernel: self.import_kernel })
    }
}

fn place(text: &str) -> Result<ListenAddress, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(ListenAddress::Unix(path.into()));
    }
    let address: SocketAddr = text.parse().map_err(|_| {
        format!("\"{text}\": an address with a port, as in \"127.0.0.1:9101\", or \"unix:PATH\"")
    })?;
    if address.ip().is_loopback() {
        Ok(ListenAddress::Tcp(address))
    } else {
        Err(format!("{address}: metrics are for this machine only: 127.0.0.1, [::1] or unix:PATH"))
    }
}

fn mistake(text: &str, at: &Range<usize>, message: String) -> ConfigError {
    let before = text.get(..at.start.min(text.len())).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.matches('\n').count() + 1;
    ConfigError { line, column: before[line_start..].chars().count() + 1, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: &str = r#"
user = "nobody"
log = "json"
metrics = "127.0.0.1:9101"
drain = "500ms"
[shape]
between = ["eth0", "eth1"]
ab = "cake bandwidth 30mbit"
"#;

    #[test]
    fn a_file_is_read() {
        let config = Config::parse(SHAPE).expect("it is right");
        assert_eq!((config.log, config.drain_nanos), (Log::Json, 500_000_000));
        assert_eq!(
            config.metrics,
            Some(ListenAddress::Tcp("127.0.0.1:9101".parse().expect("one")))
        );
        let faster = Config::parse(&SHAPE.replace("30mbit", "40mbit")).expect("it is right");
        assert_eq!(config.fixed_difference(&faster), None);
        let other = Config::parse(&SHAPE.replace("nobody", "daemon")).expect("it is right");
        assert_eq!(config.fixed_difference(&other), Some("user"));
    }

    #[test]
    fn mistakes_have_their_places() {
        for (wrong, right, line, column) in [
            ("30mbit", "30mbti", 8, 22),
            ("log = \"json\"", "log = \"xml\"", 3, 7),
            ("127.0.0.1", "0.0.0.0", 4, 11),
            ("drain", "drian", 5, 1),
            ("500ms", "500 parsecs", 5, 9),
            ("between", "betwen", 7, 1),
            ("[shape]", "[route]", 8, 1),
        ] {
            let text = SHAPE.replace(wrong, right);
            let mistake = Config::parse(&text).expect_err(right);
            assert_eq!((mistake.line, mistake.column), (line, column), "{mistake}");
        }
    }
}
