//! `ackwright replay`.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use datapath::fib::Prefix;
use datapath::units::Rate;
use lab::output::PlotOptions;
use lab::plan::plots::Format;
use lab::plan::quantity;
use lab::replay::{self, Error, Files, Options, PacketSelection};
use lab::store::STANDARD_OUTPUT;

use super::{Failure, Outcome, check_results, print, print_json, refuse_overwriting, results};
use crate::progress::Bar;
use crate::{interrupt, table};

/// Arguments of `ackwright replay`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright replay uplink.pcapng --qdisc 'cake bandwidth 1mbit ack-filter'
  ackwright replay uplink.pcap --from 192.168.1.0/24 --qdisc fq_codel --rate 1mbit
  ackwright replay in.pcapng --qdisc 'root handle 1: tbf rate 1mbit burst 3kb limit 90kb' \\
      --qdisc 'parent 1:1 codel' --out out.pcapng --json
  ackwright replay uplink.pcap --qdisc 'cake bandwidth 1mbit' --trace out/uplink.pftrace

Every packet arrives at its own timestamp. A qdisc that does not shape needs --rate, or no queue ever
builds up. A capture has both directions of a link, a qdisc only one: select it with --from, --to or
--interface. The file of --out includes dropped packets, each with a comment that gives the reason.")]
pub struct Args {
    #[command(flatten)]
    common: CaptureArgs,
    /// The qdisc, as after `tc qdisc add dev DEV root`; repeat it to build a tree, with `root` or
    /// `parent CLASS` before the kind
    #[arg(long = "qdisc", value_name = "WORDS", required = true)]
    qdiscs: Vec<String>,
    /// Write packets as they leave the qdisc to a pcapng file; "-" is standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write a trace of the queue, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Directory for plots and their data
    #[arg(long, value_name = "DIR", default_value = "out/replay")]
    plots: PathBuf,
    /// Plot formats: svg, png, pdf [default: svg,png]
    #[arg(long, value_name = "FORMATS", value_delimiter = ',')]
    plot_format: Vec<Format>,
    /// Title of all plots; '' leaves titles out
    #[arg(long, value_name = "TITLE", value_parser = super::run::plot_title)]
    plot_title: Option<String>,
    /// Number of flows to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    flows: usize,
}

/// What all commands on captures have.
#[derive(clap::Args)]
pub struct CaptureArgs {
    /// A pcap or pcapng file of any size
    capture: PathBuf,
    /// Only packets from this address or prefix
    #[arg(long, value_name = "PREFIX")]
    from: Option<Prefix>,
    /// Only packets to this address or prefix
    #[arg(long, value_name = "PREFIX")]
    to: Option<Prefix>,
    /// Only packets captured on this interface (pcapng)
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Rate of the link behind the qdisc, e.g. 1mbit [default: unlimited]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<Rate>,
    /// Seed of hashes and random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Accept a capture that ends within a packet, and replay up to the last whole one
    #[arg(long)]
    partial: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl CaptureArgs {
    /// The file.
    pub fn capture(&self) -> &std::path::Path {
        &self.capture
    }

    /// With the qdiscs.
    pub fn options(&self, qdiscs: &[String]) -> Options {
        Options {
            qdiscs: qdiscs.to_vec(),
            rate: self.rate,
            select: PacketSelection {
                from: self.from,
                to: self.to,
                interface: self.interface.clone(),
            },
            seed: self.seed,
            partial: self.partial,
        }
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    let rate = quantity::rate(text).map_err(|fault| fault.clone())?;
    if rate.bits_per_sec() == 0 {
        return Err("a link of rate zero sends nothing".into());
    }
    Ok(rate)
}

/// Replays a capture.
pub fn run(args: &Args) -> Outcome {
    let options = args.common.options(&args.qdiscs);
    for file in args.out.iter().chain(&args.trace) {
        refuse_overwriting(file, &[args.common.capture()])?;
    }
    let to_output = goes_to_output(args)?;
    replay::check(&options).map_err(failure)?;
    check_results(&args.plots)?;
    // Of two things that would go to standard output, the file was asked to.
    let print = |text: &str| {
        if !to_output {
            return print(text);
        }
        stderr_line!("{text}");
        Ok(())
    };
    let bar = Bar::new(1);
    let stop = interrupt::flag();
    let files = Files { out: args.out.as_deref(), trace: args.trace.as_deref() };
    let done = replay::replay(args.common.capture(), &options, files, &bar, &stop);
    bar.finish();
    let report = done.map_err(failure)?;
    // Only what has been replayed takes the place of what is there.
    let choice = PlotOptions {
        formats: args.plot_format.clone(),
        title: args.plot_title.clone(),
        ..PlotOptions::default()
    };
    let pictures = report.draw(&results(&args.plots)?.choosing(choice))?;
    if args.common.json {
        print_json(&report.to_json())?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&format!("{}: {}", report.capture, report.qdiscs.join(", ")))?;
    print(&table::render(&report.table(args.flows)))?;
    print("in: packets; acks: filtered; mean and 99 % delay in ms; Mbit/s before and after")?;
    for remark in report.remarks() {
        print(&remark)?;
    }
    print(&format!("\n{}", report.tc_text))?;
    print("Plots:")?;
    for picture in pictures {
        print(&format!("  {}", picture.display()))?;
    }
    if let Some(written) = &report.written {
        print(&format!("written: {written}"))?;
    }
    if let Some(trace) = args.trace.as_ref().filter(|trace| trace.as_os_str() != STANDARD_OUTPUT) {
        print(&format!("the trace is in {}; open it in ui.perfetto.dev", trace.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a file goes to standard output, which takes one alone.
fn goes_to_output(args: &Args) -> Result<bool, Failure> {
    let goes = |file: &Option<PathBuf>| {
        file.as_deref().is_some_and(|file| file.as_os_str() == STANDARD_OUTPUT)
    };
    let (option, what) = match (goes(&args.out), goes(&args.trace)) {
        (false, false) => return Ok(false),
        (true, false) => ("--out", "the capture"),
        (_, true) => ("--trace", "the trace"),
    };
    let why = if goes(&args.out) && goes(&args.trace) {
        "--out goes there too"
    } else if args.common.json {
        "--json goes there too"
    } else if std::io::stdout().is_terminal() {
        "it is a terminal"
    } else {
        return Ok(true);
    };
    Err(Failure::Usage(format!("{option} -: cannot write {what} to standard output: {why}")))
}

/// What a failure means for the exit code.
pub fn failure(error: Error) -> Failure {
    match error {
        Error::Capture(_) | Error::Words(_) => Failure::Usage(error.to_string()),
        Error::Store(error) => error.into(),
        Error::Stopped => Failure::Interrupted("stopped; nothing was written".into()),
    }
}
