//! `ackwright ackfilter`.

use std::io::Write as _;
use std::process::ExitCode;

use datapath::qdisc::cake::AckFilter;
use iproute::tc::cake::ack_filter_name;
use lab::replay::acks::{self, FILTERS, ReplayedAck};

use super::replay::{CaptureArgs, failure};
use super::{Failure, Outcome, print, print_json};
use crate::progress::Bar;
use crate::{interrupt, table};

/// Arguments of `ackwright ackfilter`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright ackfilter uplink.pcapng
  ackwright ackfilter uplink.pcapng --qdisc 'cake bandwidth 500kbit' --from 192.168.1.0/24
  ackwright ackfilter uplink.pcapng --filter ack-filter --acks
  ackwright ackfilter uplink.pcapng --filter ack-filter --acks --json

Which ACKs are redundant depends on the queue, and so on the rate set by --qdisc. The filters are Linux's
(ack-filter, ack-filter-aggressive), those of version 8 of the patch (ack-filter-v8,
ack-filter-v8-aggressive), and one that does not look into the queue (ack-filter-naive).")]
pub struct Args {
    #[command(flatten)]
    common: CaptureArgs,
    /// The CAKE qdisc to replay through; each filter is added to it
    #[arg(long, value_name = "WORDS", default_value = "cake bandwidth 1mbit")]
    qdisc: String,
    /// Only this filter; may be repeated [default: all]
    #[arg(long = "filter", value_name = "WORD", value_parser = filter)]
    filters: Vec<AckFilter>,
    /// Print the fate of every ACK, and the rule that decided it
    #[arg(long)]
    acks: bool,
}

fn filter(word: &str) -> Result<AckFilter, String> {
    let known = FILTERS.into_iter().find(|filter| ack_filter_name(*filter) == word);
    known.ok_or_else(|| {
        let names: Vec<&str> = FILTERS.into_iter().map(ack_filter_name).collect();
        format!("the filters are {}", names.join(", "))
    })
}

/// Explains the filters.
pub fn run(args: &Args) -> Outcome {
    let options = args.common.options(std::slice::from_ref(&args.qdisc));
    let filters = if args.filters.is_empty() { FILTERS.to_vec() } else { args.filters.clone() };
    let bar = Bar::new(1);
    let stop = interrupt::flag();
    let mut printer =
        AckPrinter { acks: args.acks, json: args.common.json, any: false, failed: None };
    let capture = args.common.capture();
    let mut on_ack = |fate: &ReplayedAck| printer.print_ack(fate);
    let done = acks::explain(capture, &options, &filters, &mut on_ack, &bar, &stop);
    bar.finish();
    let report = done.map_err(failure)?;
    printer.end()?;
    if args.common.json {
        let summary = report.to_json();
        if args.acks {
            print(&format!("],\"summary\":{summary}}}"))?;
        } else {
            print_json(&summary)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    print(&format!("{}: {}", report.capture, report.qdisc))?;
    print(&table::render(&report.table()))?;
    print("")?;
    print(&table::render(&report.rules_table()))?;
    for remark in report.counts.remarks() {
        print(&remark)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints ACK by ACK while the capture is read.
struct AckPrinter {
    acks: bool,
    json: bool,
    any: bool,
    failed: Option<std::io::Error>,
}

impl AckPrinter {
    fn print_ack(&mut self, fate: &ReplayedAck) {
        if !self.acks || self.failed.is_some() {
            return;
        }
        let text = match (self.json, self.any) {
            (false, _) => format!("{}\n", fate.text()),
            (true, false) => format!("{{\"acks\":[\n{}", fate.to_json()),
            (true, true) => format!(",\n{}", fate.to_json()),
        };
        self.any = true;
        self.failed = std::io::stdout().lock().write_all(text.as_bytes()).err();
    }

    fn end(&mut self) -> Result<(), Failure> {
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        if self.acks && self.json && !self.any {
            print("{\"acks\":[")?;
        }
        Ok(())
    }
}
