//! `ackwright iperf`.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iperf::client::{self, TestObserver};
use iperf::measure::{Interval, Test};
use iperf::wire::{LONGEST_OMISSION, Params};
use iperf::{report, server};
use live::endpoint::{Stack, TcpListener};

use super::stack::{StackArgs, algorithm};
use super::{Failure, Outcome, print, print_json};
use crate::interrupt;

/// Arguments of `ackwright iperf`.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("role").required(true).args(["client", "server"]), after_help = "\
Examples:
  ackwright iperf -s &                     our stack receives at 10.77.0.2; from the kernel's side:
  iperf3 -c 10.77.0.2
  iperf3 -s & ackwright iperf -c 10.77.0.1 -C dctcp -t 5 -P 2

It speaks iperf3's protocol (TCP, one direction at a time): the peer is a real iperf3, or this program.")]
pub struct Args {
    /// Run a test against the server at this address
    #[arg(short = 'c', long, value_name = "ADDRESS")]
    client: Option<IpAddr>,
    /// Wait for clients
    #[arg(short = 's', long)]
    server: bool,
    /// Serve one client, then exit
    #[arg(short = '1', long, requires = "server", conflicts_with = "client")]
    one_off: bool,
    /// Port of the server
    #[arg(short = 'p', long, default_value_t = 5_201)]
    port: u16,
    /// Duration of the test, in seconds
    #[arg(short = 't', long, default_value_t = 10, conflicts_with = "bytes")]
    time: u64,
    /// Seconds to run before the test that are omitted from the results, to skip slow start
    #[arg(short = 'O', long, default_value_t = 0, value_name = "SECONDS", conflicts_with = "server",
        value_parser = clap::value_parser!(u64).range(..=LONGEST_OMISSION))]
    omit: u64,
    /// Bytes to transfer, instead of --time: 10M, 2G
    #[arg(short = 'n', long, value_parser = size)]
    bytes: Option<u64>,
    /// Number of parallel streams
    #[arg(short = 'P', long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=128))]
    parallel: u8,
    /// The server sends
    #[arg(short = 'R', long)]
    reverse: bool,
    /// Congestion control of the sender
    #[arg(short = 'C', long, value_name = "NAME")]
    congestion: Option<String>,
    /// Bytes of each write
    #[arg(short = 'l', long, value_parser = size, default_value = "128K")]
    length: u64,
    /// Set `TCP_NODELAY`
    #[arg(short = 'N', long)]
    no_delay: bool,
    /// Set `TCP_MAXSEG`
    #[arg(short = 'M', long, default_value_t = 0)]
    set_mss: u16,
    /// Target rate of each stream in bit/s: 10M
    #[arg(short = 'b', long, value_parser = rate)]
    bitrate: Option<u64>,
    /// Seconds between reports
    #[arg(short = 'i', long, default_value_t = 1.0)]
    interval: f64,
    /// Print JSON
    #[arg(short = 'J', long)]
    json: bool,
    #[command(flatten)]
    stack: StackArgs,
}

/// How long the last bytes may take to arrive at the end.
const DRAIN: Duration = Duration::from_secs(2);

/// Runs a test, or serves.
pub fn run(args: &Args) -> Outcome {
    if !(0.1..=60.0).contains(&args.interval) {
        return Err(Failure::Usage(format!("-i {}: must be 0.1 to 60 s", args.interval)));
    }
    if !(1..=1 << 20).contains(&args.length) {
        return Err(Failure::Usage(format!("-l {}: must be 1 to 1M bytes", args.length)));
    }
    if args.client.is_some() && args.bytes.is_none() && !(1..=86_400).contains(&args.time) {
        return Err(Failure::Usage(format!("-t {}: must be 1 to 86400 s", args.time)));
    }
    // A receiver passes the name on to its server, which may know others.
    if !args.reverse || args.server {
        algorithm(args.congestion.as_deref())?;
    }
    let stop = interrupt::flag();
    let ours = args.congestion.as_deref().filter(|name| algorithm(Some(name)).is_ok());
    let stack = args.stack.open(ours)?;
    let done = match args.client {
        Some(server) => connect(args, &stack, (server, args.port).into(), &stop),
        None => serve(args, &stack, &stop),
    };
    stack.drain(DRAIN);
    done
}

fn connect(args: &Args, stack: &Stack, server: SocketAddr, stop: &AtomicBool) -> Outcome {
    let params = Params {
        seconds: if args.bytes.is_some() { 0 } else { args.time },
        omit: args.omit,
        bytes: args.bytes.unwrap_or(0),
        parallel: args.parallel.into(),
        len: args.length as usize,
        reverse: args.reverse,
        congestion: args.congestion.clone(),
        nodelay: args.no_delay,
        mss: args.set_mss,
        rate: args.bitrate.unwrap_or(0),
    };
    if !args.json {
        print(&format!("Connecting to host {}, port {}", server.ip(), server.port()))?;
    }
    let interval = Duration::from_secs_f64(args.interval);
    let mut printer = Printer { quiet: args.json };
    let host = server.ip().to_string();
    match client::run(stack, server, &params, interval, stop, &mut printer) {
        Ok(test) if args.json => print_json(&report::json(&test, Some((&host, server.port()))))?,
        Ok(test) => print(&format!("{}\niperf Done.", report::totals(&test)))?,
        Err(error) => {
            if args.json {
                print_json(&client::failed(&error))?;
            }
            let failed =
                if stop.load(Ordering::Relaxed) { Failure::Interrupted } else { Failure::Other };
            return Err(failed(error.to_string()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(args: &Args, stack: &Stack, stop: &AtomicBool) -> Outcome {
    let local = SocketAddr::new(args.stack.address(), args.port);
    let listener = TcpListener::bind(stack, local)
        .map_err(|error| Failure::Usage(format!("{local}: {error}")))?;
    let interval = Duration::from_secs_f64(args.interval);
    let mut printer = Printer { quiet: args.json };
    loop {
        if !args.json {
            print(&format!("{0}\nServer listening on {local}\n{0}", "-".repeat(59)))?;
        }
        match server::serve_one(&listener, interval, stop, &mut printer) {
            Ok(None) => return Ok(ExitCode::SUCCESS),
            Ok(Some(test)) if args.json => print_json(&report::json(&test, None))?,
            Ok(Some(test)) => print(&report::totals(&test))?,
            // The next client may do better, unless there is nothing left that it could come by.
            Err(error) if !args.one_off && stack.check().is_ok() => {
                stderr_line!("error: {error}");
            }
            Err(error) => return Err(Failure::Other(error.to_string())),
        }
        if args.one_off {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Prints a table line by line while the test runs.
struct Printer {
    quiet: bool,
}

impl Printer {
    fn print(&self, text: &str) {
        if !self.quiet {
            // The reader of the table may have gone; the test goes on to its end.
            let mut out = std::io::stdout().lock();
            let _is_gone = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }
}

impl TestObserver for Printer {
    fn connected(&mut self, test: &Test) {
        self.print(&report::head(test));
    }

    fn interval(&mut self, test: &Test, interval: &Interval) {
        self.print(&report::interval(test, interval));
    }

    fn connection_refused(&mut self, peer: SocketAddr, why: &str) {
        stderr_line!("note: connection from {peer} rejected: {why}");
    }
}

/// A number of bytes: `K`, `M`, `G` are powers of 1024, as of iperf3.
fn size(text: &str) -> Result<u64, String> {
    scaled(text, 1_024)
}

/// A rate: `K`, `M`, `G` are powers of 1000.
fn rate(text: &str) -> Result<u64, String> {
    scaled(text, 1_000)
}

fn scaled(text: &str, step: u64) -> Result<u64, String> {
    let wrong = || format!("{text:?}: expected a number above 0, optionally with K, M or G");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => step,
        "m" => step * step,
        "g" => step * step * step,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(factor).filter(|value| *value > 0).ok_or_else(wrong)
}
