//! `ackwright proxy`.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use live::proxy::{OurSide, Proxy};

use super::stack::{StackArgs, socket_address};
use super::{Failure, Outcome, print, print_json};
use crate::interrupt;

/// Arguments of `ackwright proxy`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright proxy --listen 10.77.0.2:8080 --to 192.0.2.1:80 --cc dctcp
      clients reach our stack, the kernel connects to the server
  ackwright proxy --listen 127.0.0.1:8080 --to 10.77.0.1:80 --cc dctcp --set tcp_ecn=1
      clients reach the kernel, our stack connects to the server

If --listen has the address of --address, our stack listens; otherwise our stack connects to the server.
SIGTERM and Ctrl-C end it: no new connections are accepted, and open ones may go on for --drain.")]
pub struct Args {
    /// Address that clients connect to
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: String,
    /// Address of the server
    #[arg(long, value_name = "ADDRESS:PORT")]
    to: String,
    /// Congestion control of our stack
    #[arg(long, value_name = "NAME")]
    cc: Option<String>,
    /// Seconds that open connections may go on after SIGTERM or Ctrl-C
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    drain: u64,
    /// Print the final statistics as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    stack: StackArgs,
}

/// Passes connections on until a signal comes.
pub fn run(args: &Args) -> Outcome {
    let listen = socket_address("--listen", &args.listen, args.stack.address())?;
    let to: SocketAddr = socket_address("--to", &args.to, [127, 0, 0, 1].into())?;
    let ours =
        if listen.ip() == args.stack.address() { OurSide::Listens } else { OurSide::Connects };
    if ours == OurSide::Listens && to.ip() == listen.ip() {
        return Err(Failure::Usage(format!(
            "--to {to}: this is the address of our stack, which the kernel's side cannot connect to"
        )));
    }
    for (option, address) in [("--listen", listen), ("--to", to)] {
        if address.port() == 0 {
            return Err(Failure::Usage(format!("{option} {address}: the port must be 1 to 65535")));
        }
    }
    let stop = interrupt::flag();
    let stack = args.stack.open(args.cc.as_deref())?;
    let proxy = Proxy::start(&stack, ours, listen, to)
        .map_err(|error| Failure::Usage(format!("--listen {listen}: {error}")))?;
    stderr_line!("proxying connections from {listen} to {to}; our stack {}", side(ours));
    while !stop.load(Ordering::Relaxed) && stack.check().is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
    proxy.stop();
    let end = Instant::now() + Duration::from_secs(args.drain);
    while proxy.open() > 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    stack.drain(end.saturating_duration_since(Instant::now()));
    let statistics = proxy.json();
    let shown = if args.json {
        print_json(&statistics)
    } else {
        let lines = statistics.as_object().into_iter().flatten();
        let lines: Vec<String> = lines.map(|(name, value)| format!("{name:<18}{value}")).collect();
        print(&lines.join("\n"))
    };
    stack.check().map_err(|error| Failure::Other(error.to_string()))?;
    shown?;
    Ok(ExitCode::SUCCESS)
}

fn side(ours: OurSide) -> &'static str {
    match ours {
        OurSide::Listens => "listens",
        OurSide::Connects => "connects",
    }
}
