//! `ackwright drill`.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use datapath::units::Instant;
use drill::ast::{Direction, Flag};
use drill::harness::START;
use drill::report;
use drill::run::{RunReport, Verdict};
use drill::settings::{IpVersion, Settings, command_line_flag};
use drill::suite::{self, Plan, Report};
use drill::{capture, show};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::store::{self, Pending, STANDARD_OUTPUT, Store};
use lab::trace::host::{self, HostEvent};

use super::{Failure, JOBS_MAX, Outcome, print, print_json, refuse_file, refuse_overwriting};

/// Arguments of `ackwright drill`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright drill conformance/tcp
  ackwright drill ~/packetdrill/gtests/net/tcp --ip-version all --json
  ackwright drill my.pkt -v --pcap out
  ackwright drill my.pkt --profile linux-6.1        # as that kernel
  ackwright drill my.pkt --explain
  ackwright drill my.pkt --trace out                # FILE.pftrace for ui.perfetto.dev

packetdrill's own spellings (--ip_version, --tolerance_usecs, -D NAME=VALUE, …) are accepted as well.
Exit code 1 if any script fails. docs/drill.md describes the language.")]
pub struct Args {
    /// Scripts, or directories searched for scripts
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Number of concurrent scripts [default: one per CPU]
    #[arg(short, long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=JOBS_MAX))]
    jobs: u32,
    /// ipv4, ipv6, ipv4-mapped-ipv6 or all [default: what the script asks for, else ipv4]
    #[arg(long, alias = "ip_version", value_name = "VERSION")]
    ip_version: Option<String>,
    /// Kernel that the host behaves like: linux-2.6.22, linux-6.1, linux-6.18 or linux-7.x
    /// [default: linux-7.x]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print TAP
    #[arg(long, conflicts_with = "json")]
    tap: bool,
    /// Write JUnit XML; "-" prints it in place of the report
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print every script and what it printed; -vv prints every event and packet
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Write a pcapng file of every run to this directory
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Print the packets of each connection, interleaved with state, window and events, and what
    /// limited it
    #[arg(long, conflicts_with_all = ["json", "tap"])]
    explain: bool,
    /// Write a trace of every run to this directory, for ui.perfetto.dev
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Tolerance of event times, in µs [default: 4000]
    #[arg(long, alias = "tolerance_usecs", value_name = "N")]
    tolerance_usecs: Option<String>,
    /// … or in percent of the time since the previous event, whichever is larger [default: 12.5]
    #[arg(long, alias = "tolerance_percent", value_name = "N")]
    tolerance_percent: Option<String>,
    /// MTU of the interface [default: 1500; 1520 over IPv6]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<String>,
    /// Treat larger inbound packets as GRO packets made of segments of this size
    #[arg(long, value_name = "BYTES")]
    mss: Option<String>,
    /// Address of the host under test
    #[arg(long, alias = "local_ip", value_name = "ADDRESS")]
    local_ip: Option<String>,
    /// Address of the remote end, which the script plays
    #[arg(long, alias = "remote_ip", value_name = "ADDRESS")]
    remote_ip: Option<String>,
    /// Netmask of the host's network
    #[arg(long, alias = "netmask_ip", value_name = "MASK")]
    netmask_ip: Option<String>,
    /// Accepted for compatibility: there is no gateway here
    #[arg(long, alias = "gateway_ip", value_name = "ADDRESS", hide = true)]
    gateway_ip: Option<String>,
    /// Port that the host binds to
    #[arg(long, alias = "bind_port", value_name = "PORT")]
    bind_port: Option<String>,
    /// Port that the host connects to
    #[arg(long, alias = "connect_port", value_name = "PORT")]
    connect_port: Option<String>,
    /// Tick of TCP timestamps, in µs; 0 disables comparison of TS values
    #[arg(long, alias = "tcp_ts_tick_usecs", value_name = "N")]
    tcp_ts_tick_usecs: Option<String>,
    /// Accept a TS ecr in inbound packets that the host has not sent
    #[arg(long, alias = "tcp_ts_ecr_scaled")]
    tcp_ts_ecr_scaled: bool,
    /// Match each outbound line with exactly one packet, not with several that add up to it
    #[arg(long, alias = "strict_segments")]
    strict_segments: bool,
    /// Only warn about differences in these kinds of events: packet, syscall
    #[arg(long, alias = "non_fatal", value_name = "KINDS")]
    non_fatal: Option<String>,
    /// Replace the word NAME in scripts by VALUE
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE")]
    define: Vec<String>,
    /// Accepted for compatibility
    #[arg(long, alias = "send_omit_free", hide = true)]
    send_omit_free: bool,
    /// Shell scripts to run before each script, with paths relative to it: FILE,FILE
    #[arg(long, alias = "init_scripts", value_name = "FILES")]
    init_scripts: Option<String>,
    /// Accepted for compatibility
    #[arg(long, hide = true)]
    debug: bool,
    /// Accepted for compatibility
    #[arg(long, value_name = "MBPS", hide = true)]
    speed: Option<String>,
    /// Accepted for compatibility: code blocks are interpreted
    #[arg(long, alias = "code_command", value_name = "COMMAND", hide = true)]
    code_command: Option<String>,
    /// Accepted for compatibility
    #[arg(long, alias = "code_format", value_name = "FORMAT", hide = true)]
    code_format: Option<String>,
    /// Accepted for compatibility
    #[arg(long, alias = "code_sockopt", value_name = "NAME", hide = true)]
    code_sockopt: Option<String>,
    /// Only parse the scripts
    #[arg(long, alias = "dry_run", conflicts_with_all = ["json", "tap", "junit"])]
    dry_run: bool,
}

/// Runs the scripts and reports.
pub fn run(args: &Args) -> Outcome {
    let versions = versions(args.ip_version.as_deref())?;
    let plan = Plan { versions, flags: flags_of(args), jobs: args.jobs as usize };
    check_flags(&plan)?;
    let files = suite::find(&args.paths).map_err(|error| Failure::Usage(error.to_string()))?;
    for folder in [&args.pcap, &args.trace].into_iter().flatten() {
        refuse_file(folder)?;
    }
    let junit_printed = match &args.junit {
        Some(path) if path.as_os_str() == STANDARD_OUTPUT => true,
        Some(path) => {
            let scripts: Vec<&Path> = files.iter().map(|file| file.path.as_path()).collect();
            refuse_overwriting(path, &scripts)?;
            false
        }
        None => false,
    };
    if junit_printed && (args.json || args.tap) {
        let other = if args.json { "--json" } else { "--tap" };
        let message = format!("--junit - and {other} would both go to standard output");
        return Err(Failure::Usage(message));
    }
    if files.is_empty() {
        return Err(Failure::Usage("no .pkt files found".to_owned()));
    }
    if args.dry_run {
        return dry_run(&files, &plan);
    }
    let bar = progress_bar(files.len() as u64 * plan.versions.len().max(1) as u64);
    let reports = suite::run_all(&files, &plan, |_| bar.inc(1))
        .map_err(|error| Failure::Usage(error.to_string()))?;
    bar.finish_and_clear();
    if let Some(folder) = &args.pcap {
        write_files(folder, &reports, "pcapng", |to, report| capture::write(to, &report.outcome))?;
    }
    if let Some(folder) = &args.trace {
        let write = |to, report: &Report| host::trace(to, &report.name, moments(report));
        write_files(folder, &reports, "pftrace", write)?;
    }
    if let Some(path) = &args.junit {
        store::replace(path, report::junit(&reports).as_bytes())?;
    }
    if junit_printed {
        // The report stands there.
    } else if args.json {
        print_json(&report::json(&reports))?;
    } else if args.tap {
        print(&report::tap(&reports))?;
    } else {
        if args.explain {
            for report in reports.iter().filter(|report| !report.outcome.packets.is_empty()) {
                print(&format!("{} ({})", report.name, report.version))?;
                print(&host::explain(moments(report)))?;
            }
        }
        if args.verbose > 0 {
            print(&results_text(&reports, args.verbose))?;
        }
        print(&report::text(&reports))?;
    }
    let failed = reports.iter().any(|it| matches!(it.outcome.verdict, Verdict::Fail(_)));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn versions(word: Option<&str>) -> Result<Vec<IpVersion>, Failure> {
    match word {
        None => Ok(Vec::new()),
        Some("all") => Ok(IpVersion::ALL.to_vec()),
        Some(word) => word
            .split(',')
            .map(|word| {
                IpVersion::by_name(word).ok_or_else(|| {
                    let known = "ipv4, ipv6, ipv4-mapped-ipv6, all";
                    Failure::Usage(format!(
                        "--ip-version: unknown version `{word}`; valid are {known}"
                    ))
                })
            })
            .collect(),
    }
}

fn flags_of(args: &Args) -> Vec<Flag> {
    let valued = [
        ("profile", &args.profile),
        ("tolerance_usecs", &args.tolerance_usecs),
        ("tolerance_percent", &args.tolerance_percent),
        ("mtu", &args.mtu),
        ("mss", &args.mss),
        ("local_ip", &args.local_ip),
        ("remote_ip", &args.remote_ip),
        ("netmask_ip", &args.netmask_ip),
        ("gateway_ip", &args.gateway_ip),
        ("bind_port", &args.bind_port),
        ("connect_port", &args.connect_port),
        ("tcp_ts_tick_usecs", &args.tcp_ts_tick_usecs),
        ("non_fatal", &args.non_fatal),
        ("init_scripts", &args.init_scripts),
        ("speed", &args.speed),
        ("code_command", &args.code_command),
        ("code_format", &args.code_format),
        ("code_sockopt", &args.code_sockopt),
    ];
    let mut flags: Vec<Flag> = valued
        .into_iter()
        .filter_map(|(name, value)| Some(command_line_flag(name, Some(value.as_deref()?))))
        .collect();
    if args.tcp_ts_ecr_scaled {
        flags.push(command_line_flag("tcp_ts_ecr_scaled", None));
    }
    if args.strict_segments {
        flags.push(command_line_flag("strict_segments", None));
    }
    flags.extend(args.define.iter().map(|it| command_line_flag("define", Some(it))));
    flags
}

/// Flags are wrong before any script is.
fn check_flags(plan: &Plan) -> Result<(), Failure> {
    let versions = match plan.versions.as_slice() {
        [] => &[IpVersion::Ipv4][..],
        given => given,
    };
    for version in versions {
        Settings::of_run(*version, &[], &plan.flags)
            .map_err(|fault| Failure::Usage(fault.to_string()))?;
    }
    Ok(())
}

fn progress_bar(runs: u64) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(runs), target);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} scripts  ETA {eta}");
    bar.set_style(style.expect("the template is well-formed"));
    bar
}

fn dry_run(files: &[suite::File], plan: &Plan) -> Outcome {
    let version = plan.versions.first().copied().unwrap_or(IpVersion::Ipv4);
    let mut wrong = 0;
    for file in files {
        let text = file.text().map_err(|error| Failure::Usage(error.to_string()))?;
        match suite::read(&text, version, &plan.flags) {
            Ok(_) => {}
            Err(fault) if fault.no_meaning => {
                print(&format!("{}:{}: skipped, because {fault}", file.name, fault.pos))?;
            }
            Err(fault) => {
                wrong += 1;
                print(&format!("{}:{}: {fault}", file.name, fault.pos))?;
            }
        }
    }
    print(&format!("{} scripts, {wrong} of them faulty", files.len()))?;
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes a file for each run that had packets.
fn write_files(
    folder: &Path,
    reports: &[Report],
    ending: &str,
    write: impl Fn(Pending, &Report) -> std::io::Result<Pending>,
) -> Result<(), Failure> {
    let store = Store::create(folder)?;
    let captured: Vec<&Report> =
        reports.iter().filter(|report| !report.outcome.packets.is_empty()).collect();
    let names: Vec<String> = captured.iter().map(|report| capture_name(report)).collect();
    for (report, name) in
        captured.iter().zip(store::distinct_stems(names.iter().map(String::as_str)))
    {
        let name = format!("{name}.{ending}");
        let path = folder.join(&name);
        let failed = |problem| store::Error { path: path.clone(), problem };
        let pending = write(store.begin(&name)?, report).map_err(failed)?;
        pending.commit()?;
    }
    Ok(())
}

/// What a run's host did, in order, with times from the script's start.
fn moments(report: &Report) -> impl Iterator<Item = (Instant, HostEvent<'_>)> {
    let RunReport { packets, events, .. } = &report.outcome;
    let mut all = Vec::with_capacity(packets.len() + events.len());
    let mut events = events.iter().peekable();
    for (index, (direction, at, packet)) in packets.iter().enumerate() {
        while let Some((at, _, event)) = events.next_if(|(_, before, _)| *before <= index) {
            all.push((*at, HostEvent::Event(event)));
        }
        let moment = match direction {
            Direction::Inbound => HostEvent::Received(packet),
            Direction::Outbound => HostEvent::Sent(packet),
        };
        all.push((*at, moment));
    }
    all.extend(events.map(|(at, _, event)| (*at, HostEvent::Event(event))));
    all.into_iter().map(|(at, moment)| (Instant::ZERO + at.saturating_since(START), moment))
}

/// The script's name, with its folders, and the variant.
fn capture_name(report: &Report) -> String {
    let stem = report.name.strip_suffix(".pkt").unwrap_or(&report.name);
    let stem = stem.trim_start_matches(['/', '.']).replace('/', "_");
    format!("{stem}_{}", report.version.name())
}

/// What every script did.
fn results_text(reports: &[Report], verbose: u8) -> String {
    let mut out = String::new();
    for report in reports {
        let word = match &report.outcome.verdict {
            Verdict::Pass => "OK  ",
            Verdict::Fail(_) => "FAIL",
            Verdict::Skip { .. } => "SKIP",
        };
        let _ = writeln!(out, "{word} [{} ({})]", report.name, report.version);
        for line in &report.outcome.log {
            if verbose > 1 || line.contains("printed:") {
                let _ = writeln!(out, "    {line}");
            }
        }
        if verbose > 1 {
            for (direction, at, packet) in &report.outcome.packets {
                let packet =
                    drill::actual::ActualPacket::of(packet, drill::wire::Offsets::default());
                let text = show::actual(&packet, *direction);
                let _ = writeln!(out, "    {at:?} {text}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// packetdrill's spellings and ours mean the same; what means nothing here is taken as well.
    #[test]
    fn packetdrills_spellings() {
        let theirs = [
            "--ip_version=ipv6",
            "--tolerance_usecs=14000",
            "--tolerance_percent=5",
            "--local_ip=fd3d:a0b:17d6::1",
            "--remote_ip=fd3d:fa7b:d17d::1",
            "--gateway_ip=fd3d:a0b:17d6:8888::1",
            "--bind_port=81",
            "--connect_port=82",
            "--tcp_ts_tick_usecs=1000",
            "--tcp_ts_ecr_scaled",
            "--strict_segments",
            "--non_fatal=packet,syscall",
            "--mtu=1520",
            "--mss=1000",
            "--init_scripts=a.sh,b.sh",
            "--send_omit_free",
            "--dry_run",
            "--debug",
            "--speed=100",
            "--code_sockopt=TCP_INFO",
        ];
        let read = |flags: Vec<String>| {
            let words = ["drill".to_owned(), "x.pkt".to_owned()].into_iter().chain(flags);
            let args = Line::try_parse_from(words).map_err(|error| error.to_string())?.args;
            let flags = flags_of(&args);
            let settings = Settings::of_run(IpVersion::Ipv6, &[], &flags);
            settings.map_err(|fault| fault.to_string())
        };
        let settings = read(theirs.map(str::to_owned).to_vec()).expect("packetdrill's flags");
        assert_eq!((settings.tolerance_usecs, settings.tolerance_millipercent), (14_000, 5_000));
        assert_eq!((settings.bind_port, settings.connect_port), (81, 82));
        assert!(settings.strict_segments && settings.ts_ecr_scaled && settings.non_fatal_calls);
        assert_eq!(settings.init_scripts.len(), 2);
        let ours = theirs.map(|flag| {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            format!("{}{}{value}", name.replace('_', "-"), if value.is_empty() { "" } else { "=" })
        });
        assert_eq!(read(ours.to_vec()), Ok(settings));
    }
}
