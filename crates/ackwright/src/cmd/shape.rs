//! `ackwright shape`.

use core::slice::from_ref;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use datapath::host::Bridge;
use datapath::node::Port;
use datapath::units::Instant;
use iproute::tc::Device as TcDevice;
use iproute::words::Words;
use lab::trace::bridge::BridgeTrace;
use live::commands::Names;
use live::control::Control;
use live::device::{Device, Pools};
use live::drive::{Driver, Settings};
use live::fail;
use live::open::{self, Fault};
use live::own;

use super::running::{pointed, stop_pipe, time};
use super::{Failure, Outcome, print, print_json, read_text, refuse_output, refuse_overwriting};
use crate::interrupt;

/// Arguments of `ackwright shape`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright shape --between eth0 eth1 --ab 'cake bandwidth 30mbit' \\
      --ba 'cake bandwidth 1mbit ack-filter'
  ackwright shape --between eth0 tap:lan0 --tc queues.tc
  ackwright shape --between xdp:eth0 xdp:eth1,generic --ab 'cake bandwidth 1gbit'
  ackwright shape --dev eth0 --egress 'cake bandwidth 20mbit' --ingress 'cake bandwidth 95mbit ingress'
  ackwright shape --between eth0 eth1 --ab 'cake bandwidth 30mbit' --trace eth.pftrace
  ackwright ctl tc qdisc change dev eth1 root cake bandwidth 20mbit

Packets received on A leave on B through the qdisc of --ab, and the other way through that of --ba: a bump in
the wire, without addresses of its own. To `tc` the qdisc of --ab is the root of dev B. SIGTERM and Ctrl-C
end it: nothing more is received, and queues drain for --drain.")]
pub struct Args {
    /// The two devices: an interface, `ring:NAME` (read by a receive ring), `xdp:NAME` (AF_XDP;
    /// then `,native` or `,generic`, `,copy` or `,zero-copy`), `tap:NAME` or `tun:NAME` to create
    /// one (`,queues=N` for N queues), or `file:INPUT,OUTPUT` for captures; `NAME,fanout=N` reads
    /// it by N sockets
    #[arg(long, num_args = 2, value_names = ["A", "B"], required_unless_present = "dev")]
    between: Vec<String>,
    /// Shape this machine's own traffic on this interface, both ways, by a detour through a
    /// temporary TAP device (needs CAP_BPF and Linux 6.6)
    #[arg(long, value_name = "INTERFACE", conflicts_with_all = WITHOUT_DEV)]
    dev: Option<String>,
    /// With --dev, the qdisc for traffic that this machine sends
    #[arg(long, value_name = "QDISC", requires = "dev", conflicts_with_all = WITHOUT_DEV)]
    egress: Option<String>,
    /// With --dev, the qdisc for traffic that this machine receives
    #[arg(long, value_name = "QDISC", requires = "dev", conflicts_with_all = WITHOUT_DEV)]
    ingress: Option<String>,
    /// Where the qdiscs were typed, if not behind options of their own.
    #[arg(skip)]
    pub typed_at: Option<&'static str>,
    /// Qdisc from A to B: kind and options, in tc syntax
    #[arg(long, value_name = "QDISC")]
    ab: Option<String>,
    /// Qdisc from B to A
    #[arg(long, value_name = "QDISC")]
    ba: Option<String>,
    /// Further `tc` commands for devices A and B, one per line; `#` begins a comment
    #[arg(long, value_name = "FILE")]
    tc: Option<PathBuf>,
    /// Longest time for queues to drain at the end
    #[arg(long, value_name = "TIME", default_value = "2s")]
    drain: String,
    /// Busy-poll instead of sleeping when the next packet is due sooner than this
    #[arg(long, value_name = "TIME", default_value = "0")]
    busy_poll: String,
    /// Socket for `ackwright ctl`
    #[arg(long, value_name = "PATH")]
    ctl: Option<PathBuf>,
    /// Write the headers of all sent packets to a pcapng file, with our own timestamps
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Write a trace of both queues, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// What happens to traffic when this program is not running: closed passes nothing, open has
    /// the kernel forward everything unshaped (two interfaces; needs CAP_BPF)
    #[arg(long, value_enum, default_value_t = Fail::Closed)]
    fail: Fail,
    /// Seed of the qdiscs' random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the final table as JSON
    #[arg(long)]
    json: bool,
}

/// What is of no use with `--dev`, nor with what needs it: clap drops a need that conflicts.
const WITHOUT_DEV: [&str; 4] = ["between", "ab", "ba", "fail"];

/// What happens to traffic when the program is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Fail {
    Open,
    Closed,
}

impl Args {
    /// These qdiscs between these devices, and all else as it is without a word.
    pub fn between(devices: [&str; 2], ab: Option<String>, ba: Option<String>, json: bool) -> Self {
        #[derive(clap::Parser)]
        struct Alone {
            #[command(flatten)]
            args: Args,
        }
        let words = ["shape", "--between", devices[0], devices[1]];
        let Alone { args } = clap::Parser::parse_from(words);
        Self { ab, ba, json, ..args }
    }

    /// Nothing says how to queue.
    fn has_no_queue(&self) -> bool {
        let Self { egress, ingress, ab, ba, tc, .. } = self;
        tc.is_none() && [egress, ingress, ab, ba].iter().all(|words| words.is_none())
    }

    /// The files that are read.
    fn inputs(&self) -> Vec<&Path> {
        let captures =
            self.between.iter().filter_map(|end| end.strip_prefix("file:")?.split(',').next());
        captures.map(Path::new).chain(self.tc.as_deref()).collect()
    }
}

/// Shapes until a signal comes.
pub fn run(args: &Args) -> Outcome {
    if let Some(trace) = &args.trace {
        refuse_output("--trace", trace)?;
        refuse_overwriting(trace, &args.inputs())?;
    }
    let settings = Settings {
        drain: time("--drain", &args.drain)?,
        busy_poll: time("--busy-poll", &args.busy_poll)?,
    };
    // The first signal is ours to obey; the second ends the program at once.
    let _told_by_pipe = interrupt::flag();
    let stop = stop_pipe()?;
    let DevicePair { devices: [one, other], names, pools, _locks, detour } = join(args)?;
    let link = if one.is_ethernet() { 14 } else { 0 };
    let device = TcDevice { psched_mtu: one.mtu() + link, ..TcDevice::default() };
    let names = Names { names, device, seed: args.seed };
    let shown = names.names.clone();
    let driver = Driver::new([one, other], pools, names, stop, settings);
    let mut driver = driver.map_err(|error| Failure::Other(error.to_string()))?;
    driver.set_up(|names, bridge, now| set_queues(args, names, bridge, now))?;
    if let Some(file) = &args.capture {
        driver
            .capture(file)
            .map_err(|error| Failure::Usage(format!("--capture {}: {error}", file.display())))?;
    }
    if let Some(file) = &args.trace {
        let now = driver.set_up(|_, _, now| now);
        let trace = BridgeTrace::create(file, [&shown[0], &shown[1]], now)?;
        driver.watch(Box::new(trace));
    }
    let _held = match detour {
        None => fail_as(args.fail, [&shown[0], &shown[1]])?,
        Some(_) => None,
    };
    let control = listen(args, &shown)?;
    let place = control.as_ref().map_or(String::new(), |(_, path)| format!("; ctl: {path}"));
    if let Some((control, _)) = control {
        driver.listen(control);
    }
    let _round = detour.map(own::ReadyDetour::start).transpose()?;
    stderr_line!("shaping between {} and {}{place}", shown[0], shown[1]);
    if args.has_no_queue() {
        let options = if args.dev.is_some() { "--egress, --ingress" } else { "--ab, --ba" };
        stderr_line!(
            "note: no qdisc is given ({options}, --tc): packets pass unshaped until `ackwright ctl tc qdisc replace …`"
        );
    }
    let ended = driver.run();
    let names = [shown[0].as_str(), shown[1].as_str()];
    let account = driver.account();
    let shown =
        if args.json { print_json(&account.json(names)) } else { print(&account.text(names)) };
    // Report why it ended even if printing the table fails.
    ended?;
    shown?;
    if let Some(file) = args.trace.as_ref().filter(|_| !args.json) {
        print(&format!("the trace is in {}; open it in ui.perfetto.dev", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Two devices that can be joined.
struct DevicePair {
    devices: [Device; 2],
    names: [String; 2],
    pools: Pools,
    /// Keep other instances from them.
    _locks: [Option<UnixListener>; 2],
    detour: Option<own::ReadyDetour>,
}

/// Opens the devices of `--between` or `--dev`.
fn join(args: &Args) -> Result<DevicePair, Failure> {
    if let Some(dev) = &args.dev {
        let mut pools = Pools::new(open::largest_mtu(from_ref(dev)));
        let detour = own::open(dev, &mut pools)?;
        let names = detour.names.clone();
        let (devices, start) = detour.into_parts();
        return Ok(DevicePair { devices, names, pools, _locks: [None, None], detour: Some(start) });
    }
    let names = [0, 1].map(|end| open::port_name(&args.between[end]).to_owned());
    if names[0] == names[1] {
        return Err(Failure::Usage(format!("--between: both devices are {}", names[0])));
    }
    let mtu = open::largest_mtu(&args.between);
    let mut pools = Pools::new(mtu);
    let (one, one_lock) = open::open(&args.between[0], mtu, &mut pools)?.into_parts();
    let (other, other_lock) = open::open(&args.between[1], mtu, &mut pools)?.into_parts();
    open::check_pair(&one, &other)?;
    for device in [&one, &other] {
        if let Device::Xdp(device) = device {
            stderr_line!("note: {}", device.describe());
        }
    }
    let (devices, locks) = ([one, other], [one_lock, other_lock]);
    Ok(DevicePair { devices, names, pools, _locks: locks, detour: None })
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Usage(message) => Self::Usage(message),
            Fault::Other(message) => Self::Other(message),
        }
    }
}

/// Prepares the kernel for our end.
fn fail_as(fail: Fail, names: [&str; 2]) -> Result<Option<fail::FailOpen>, Failure> {
    if fail == Fail::Open {
        return Ok(Some(fail::open(names)?));
    }
    if fail::close(names) {
        stderr_line!("note: removed the filters that an earlier run with --fail open left behind");
    }
    Ok(None)
}

fn set_queues(
    args: &Args,
    names: &Names,
    bridge: &mut Bridge,
    now: Instant,
) -> Result<(), Failure> {
    for (option, words, port) in [
        ("--ab", &args.ab, Port(1)),
        ("--ba", &args.ba, Port(0)),
        ("--ingress", &args.ingress, Port(1)),
        ("--egress", &args.egress, Port(0)),
    ] {
        if let Some(words) = words {
            let place = args.typed_at.unwrap_or(option);
            names
                .set_root(bridge, now, port, words)
                .map_err(|wrong| pointed(place, words, &wrong))?;
        }
    }
    let Some(file) = &args.tc else { return Ok(()) };
    for (number, line) in (1..).zip(read_text(file)?.lines()) {
        let line = line.split('#').next().unwrap_or("");
        if Words::new(line).next().is_some() {
            let place = format!("{}:{number}", file.display());
            names.run(bridge, now, line).map_err(|wrong| pointed(&place, line, &wrong))?;
        }
    }
    Ok(())
}

/// The control socket and where it is; without `--ctl` the run goes on where none can be made.
fn listen(args: &Args, names: &[String; 2]) -> Result<Option<(Control, String)>, Failure> {
    let path = args.ctl.clone().unwrap_or_else(|| {
        let safe = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let file = format!("shape-{}-{}.sock", safe(&names[0]), safe(&names[1]));
        Path::new(super::running::FOLDER).join(file)
    });
    let shown = path.display().to_string();
    match Control::listen(&path) {
        Ok(control) => Ok(Some((control, shown))),
        Err(error) if args.ctl.is_some() => Err(Failure::Usage(format!("--ctl {shown}: {error}"))),
        Err(error) => {
            stderr_line!(
                "note: cannot create the control socket {shown}: {error}; choose another path \
                 with --ctl"
            );
            Ok(None)
        }
    }
}
