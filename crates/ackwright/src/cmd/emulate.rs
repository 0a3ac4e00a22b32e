//! `ackwright emulate`.

use super::{Failure, Outcome, shape};

/// Arguments of `ackwright emulate`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright emulate eth0 eth1 rate 20mbit delay 30ms loss gemodel 1% 30%
  ackwright emulate tap:a tap:b delay 50ms 10ms distribution normal
  ackwright emulate eth0 eth1 --ab 'delay 20ms rate 50mbit' --ba 'delay 20ms rate 5mbit'

The options are those of tc's netem, the same for both directions or one set for each. Devices, statistics
(`ackwright ctl tc -s qdisc show`) and the end of the program are as in `ackwright shape`.")]
pub struct Args {
    /// First device: an interface, or `tap:NAME` or `tun:NAME` to create one
    a: String,
    /// Second device
    b: String,
    /// Impairments in both directions, in netem syntax
    #[arg(trailing_var_arg = true, conflicts_with_all = ["ab", "ba"])]
    words: Vec<String>,
    /// Impairments from A to B, in netem syntax
    #[arg(long, value_name = "NETEM")]
    ab: Option<String>,
    /// Impairments from B to A, in netem syntax
    #[arg(long, value_name = "NETEM")]
    ba: Option<String>,
    /// Print the final table as JSON
    #[arg(long)]
    json: bool,
}

/// Emulates a network between two devices until a signal comes.
pub fn run(args: &Args) -> Outcome {
    let both = Some(args.words.join(" ")).filter(|words| !words.is_empty());
    let netem =
        |own: &Option<String>| own.as_ref().or(both.as_ref()).map(|words| format!("netem {words}"));
    let (ab, ba) = (netem(&args.ab), netem(&args.ba));
    if ab.is_none() && ba.is_none() {
        return Err(Failure::Usage(
            "no impairment given, for example `delay 30ms` or `rate 20mbit loss 1%`".into(),
        ));
    }
    let mut shape = shape::Args::between([&args.a, &args.b], ab, ba, args.json);
    // Words that stand without an option are not looked for behind one.
    shape.typed_at = both.map(|_| "emulate");
    shape::run(&shape)
}
