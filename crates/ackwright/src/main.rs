//! The command line: reads arguments, calls the laboratory, prints, exits.

// `eprintln!` panics if the reader of standard error has gone: messages go by `stderr_line!`.
#![deny(clippy::print_stderr)]

#[macro_use]
mod stderr;

mod cmd;
mod habits;
mod import_note;
mod interrupt;
mod progress;
#[cfg(target_os = "linux")]
mod rtnetlink;
#[cfg(target_os = "linux")]
mod screen;
mod table;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

/// Worlds of thousands of hosts take hundreds of megabytes. This one asks for them in large pages, so
/// that addresses are found without a walk through tables.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Linux's TCP, qdiscs and routing in a deterministic simulated world.
#[derive(Parser)]
#[command(version, about, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ackwright reproduce lost-retransmit     rebuild a published experiment, compare the figures
  ackwright run experiments/first.toml    run an experiment, print means and intervals
  ackwright drill conformance/tcp         run packetdrill scripts in virtual time
  ackwright check my.toml                 say what is wrong with an experiment file

Missing parent directories of output files are created.

Exit codes: 0 success, 1 failure, 2 wrong arguments or a faulty file, 130 interrupted (143 by SIGTERM, 129
by SIGHUP).";

#[derive(Subcommand)]
#[expect(clippy::large_enum_variant, reason = "one value, made once")]
enum Command {
    /// Run an experiment file and print means with 95 % confidence intervals.
    Run(cmd::run::Args),
    /// View results, a capture or a running `shape` in the browser, or export them as a single
    /// page.
    View(cmd::view::Args),
    /// Check an experiment file without running it.
    Check(cmd::check::Args),
    /// Rebuild published experiments and compare the figures.
    Reproduce(cmd::reproduce::Args),
    /// Replay a capture (pcap, pcapng) through qdiscs, at its own timestamps.
    Replay(cmd::replay::Args),
    /// Show which ACKs of a capture CAKE's ACK filters would drop, and by which rule.
    Ackfilter(cmd::ackfilter::Args),
    /// Check `tc` commands, and show the resulting qdiscs as `tc` does.
    Tc(cmd::tc::Args),
    /// Replay traces recorded from the real kernel.
    Vectors(cmd::vectors::Args),
    /// Query and edit routes, rules and next hops in ip(8) syntax: from a file, or this machine's.
    Ip(cmd::ip::Args),
    /// What if: how flows spread over next hops, and which flows move when a next hop fails.
    Ecmp(cmd::ecmp::Args),
    /// Run packetdrill scripts in virtual time.
    Drill(cmd::drill::Args),
    /// Measure speed: hops per CPU second.
    Bench(cmd::bench::Args),
    /// Look for bugs: random cases, one per seed, checked by every oracle.
    Swarm(cmd::swarm::Args),
    /// Write man pages or shell completions to a directory.
    #[command(hide = true)]
    Generate(cmd::generate::Args),
    /// Shape real traffic between two interfaces: any qdisc, in user space.
    #[cfg(target_os = "linux")]
    Shape(cmd::shape::Args),
    /// Emulate a network between two interfaces, in netem syntax.
    #[cfg(target_os = "linux")]
    Emulate(cmd::emulate::Args),
    /// Open a shell on a host inside an experiment.
    #[cfg(target_os = "linux")]
    Shell(cmd::shell::Args),
    /// Route real traffic between several interfaces: ARP and neighbour discovery, multipath, any qdisc.
    #[cfg(target_os = "linux")]
    Route(cmd::route::Args),
    /// Run `shape` or `route` as a service from a configuration file: metrics, logs, no root
    /// privileges.
    #[cfg(target_os = "linux")]
    Service(cmd::service::Args),
    /// Watch a running `shape` or `route`: devices, queues, tins and delays.
    #[cfg(target_os = "linux")]
    Top(cmd::top::Args),
    /// Query or change a running `shape` or `route`: tc and ip commands, statistics, reload, stop.
    #[cfg(target_os = "linux")]
    Ctl(cmd::ctl::Args),
    /// Measure rates with iperf3's protocol: our TCP on a TUN device, a real iperf3 at the other end.
    #[cfg(target_os = "linux")]
    Iperf(cmd::iperf::Args),
    /// Proxy TCP connections: our TCP on one side, the kernel's on the other.
    #[cfg(target_os = "linux")]
    Proxy(cmd::proxy::Args),
}

impl Command {
    fn needs_namespaces(&self) -> bool {
        match self {
            Self::Run(args) => args.live,
            Self::Reproduce(args) => args.live,
            #[cfg(target_os = "linux")]
            Self::Shell(_) => true,
            _ => false,
        }
    }
}

fn main() -> ExitCode {
    let command = Cli::try_parse().unwrap_or_else(|error| habits::exit(&error)).command;
    // Before there is a second thread: else a process cannot have a user namespace of its own.
    if command.needs_namespaces()
        && let Err(failure) = cmd::run::acquire_namespaces()
    {
        return failure.report();
    }
    interrupt::listen();
    let done = match command {
        Command::Run(args) => cmd::run::run(&args),
        Command::View(args) => cmd::view::run(&args),
        Command::Check(args) => cmd::check::run(&args),
        Command::Reproduce(args) => cmd::reproduce::run(&args),
        Command::Replay(args) => cmd::replay::run(&args),
        Command::Ackfilter(args) => cmd::ackfilter::run(&args),
        Command::Tc(args) => cmd::tc::run(&args),
        Command::Vectors(args) => cmd::vectors::run(&args),
        Command::Ip(args) => cmd::ip::run(&args),
        Command::Ecmp(args) => cmd::ecmp::run(&args),
        Command::Drill(args) => cmd::drill::run(&args),
        Command::Bench(args) => cmd::bench::run(&args),
        Command::Swarm(args) => cmd::swarm::run(&args),
        Command::Generate(args) => cmd::generate::run(&args, Cli::command()),
        #[cfg(target_os = "linux")]
        Command::Shape(args) => cmd::shape::run(&args),
        #[cfg(target_os = "linux")]
        Command::Emulate(args) => cmd::emulate::run(&args),
        #[cfg(target_os = "linux")]
        Command::Shell(args) => cmd::shell::run(&args),
        #[cfg(target_os = "linux")]
        Command::Route(args) => cmd::route::run(&args),
        #[cfg(target_os = "linux")]
        Command::Service(args) => cmd::service::run(&args),
        #[cfg(target_os = "linux")]
        Command::Top(args) => cmd::top::run(&args),
        #[cfg(target_os = "linux")]
        Command::Ctl(args) => cmd::ctl::run(&args),
        #[cfg(target_os = "linux")]
        Command::Iperf(args) => cmd::iperf::run(&args),
        #[cfg(target_os = "linux")]
        Command::Proxy(args) => cmd::proxy::run(&args),
    };
    match done {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
