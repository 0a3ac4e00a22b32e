//! What flent calls a test and the series of its flows.

use super::app::{App, FlowPlan};
use super::measure::FlentTest;

/// The name that flent's test gives each flow of a plan, in the plan's order; `None` for flows that
/// it does not know.
///
/// # Errors
/// When the plan has not the flows that the test has.
pub fn series_names(test: FlentTest, flows: &[FlowPlan]) -> Result<Vec<Option<String>>, String> {
    let prober = flows.iter().find(|flow| matches!(flow.app, App::Ping { .. }));
    let client = prober.ok_or("flent's tests have a ping")?.from;
    let (mut ups, mut downs, mut probes, mut pings) = (0, 0, 0, 0);
    let names: Vec<Option<String>> = flows
        .iter()
        .map(|flow| match &flow.app {
            App::Ping { .. } => {
                pings += 1;
                (pings == 1).then(|| "Ping (ms) ICMP".into())
            }
            App::Probe { .. } => {
                probes += 1;
                probe_name(test, probes)
            }
            App::Cbr { .. } | App::Request { .. } | App::Guest(_) => None,
            _ if flow.from == client => {
                ups += 1;
                stream_name(test, ups).map(|name| format!("TCP upload{name}"))
            }
            _ => {
                downs += 1;
                stream_name(test, downs)
                    .filter(|_| test != FlentTest::TcpNup)
                    .map(|name| format!("TCP download{name}"))
            }
        })
        .collect();
    match test {
        FlentTest::Rrul | FlentTest::RrulBe if (ups, downs, probes) != (4, 4, 3) => {
            Err("it needs four TCP flows each way and three UDP probes".into())
        }
        FlentTest::TcpNup if ups == 0 => Err("it needs TCP flows from the host that pings".into()),
        _ => Ok(names),
    }
}

fn stream_name(test: FlentTest, number: usize) -> Option<String> {
    const CLASSES: [&str; 4] = [" BE", " BK", " CS5", " EF"];
    match test {
        FlentTest::Rrul => CLASSES.get(number - 1).map(|class| (*class).into()),
        FlentTest::RrulBe if number == 1 => Some(" BE".into()),
        FlentTest::RrulBe => Some(format!(" BE{number}")),
        FlentTest::TcpNup => Some(format!("::{number}")),
    }
}

fn probe_name(test: FlentTest, number: usize) -> Option<String> {
    const CLASSES: [&str; 3] = ["BE", "BK", "EF"];
    match test {
        FlentTest::Rrul => CLASSES.get(number - 1).map(|class| format!("Ping (ms) UDP {class}")),
        FlentTest::RrulBe => Some(format!("Ping (ms) UDP BE{number}")),
        FlentTest::TcpNup => None,
    }
}

impl FlentTest {
    /// flent's name of the test.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rrul => "rrul",
            Self::RrulBe => "rrul_be",
            Self::TcpNup => "tcp_nup",
        }
    }
}
