//! `ackwright ecmp`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use datapath::fib::hash::{HashFields, HashKey, Policy};
use datapath::fib::{Fib, LinkState, Settings};
use iproute::ip::{Devices, Ip};
use lab::ecmp::{self, Disruption, FlowLoad, Load, Names, Regions, Stage};
use lab::plan::plots::Format;
use lab::plot::{self, Scene};
use lab::store::table::Table;
use serde_json::json;

use super::{Failure, Outcome, ip, print, print_json, read_text, refuse_overwriting};
use crate::table;

/// Arguments of `ackwright ecmp`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright ecmp trace.pcapng --routes routes.ip
  ackwright ecmp flows.csv --routes routes.ip --fail eth2 --policy l4
  ackwright ecmp flows.csv --routes routes.ip --stages 3 --plot load.svg

Flows come from a capture (pcap, pcapng; packets with equal fields are one flow) or from CSV lines
\"src,dst,protocol,sport,dport,bytes\". Without --fail every next hop fails in turn; with several
--fail each fails alone, then all together. Flows that a failure leaves without any next hop are lost;
the others are moved. Each later stage gets the flows of the busiest next hop.")]
pub struct Args {
    /// Capture or CSV, optionally gzipped
    input: PathBuf,
    /// File of ip commands, as for "ackwright ip --config"
    #[arg(long, value_name = "FILE")]
    routes: PathBuf,
    /// Device or gateway that fails; may be repeated
    #[arg(long, value_name = "HOP")]
    fail: Vec<String>,
    /// fib_multipath_hash_policy of IPv4 and IPv6: 0 or l3, 1 or l4, 2 or inner, 3 or custom
    /// [default: the file's, which may differ between the two]
    #[arg(long)]
    policy: Option<String>,
    /// fib_multipath_hash_fields of IPv4 and IPv6, for policy 3 [default: the file's]
    #[arg(long, value_name = "MASK")]
    fields: Option<u32>,
    /// fib_multipath_hash_seed [default: the file's, or 1]
    #[arg(long)]
    seed: Option<u32>,
    /// Number of routers in a row with these routes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    stages: u32,
    /// Routes of one more router in the row; may be repeated
    #[arg(long, value_name = "FILE")]
    stage: Vec<PathBuf>,
    /// Plot each next hop's load to an .svg, .png or .pdf file, with its data in a .csv beside it
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Likewise plot which next hop has which part of the hash space, or of a resilient group's
    /// buckets, before and after the first failure, for the route of the first flow
    #[arg(long, value_name = "FILE")]
    regions: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Ports by the names of the routes' file.
struct Named<'a>(&'a Devices);

impl Names for Named<'_> {
    fn port(&self, port: u16) -> String {
        self.0.name(port).to_owned()
    }
}

/// Reads, asks, prints.
pub fn run(args: &Args) -> Outcome {
    args.check_pictures()?;
    let ip = args.routes_of(&args.routes)?;
    let input = ecmp::read(&args.input).map_err(|error| {
        let gap = if error.line == 0 { " " } else { "" };
        Failure::Usage(format!("{}:{gap}{error}", args.input.display()))
    })?;
    if input.flows.is_empty() {
        let message = format!("{}: the file contains no flows", args.input.display());
        return Err(Failure::Usage(message));
    }
    let flows = &input.flows;
    let load = ecmp::load(&ip.fib, flows);
    let failures = ecmp::ask::failures(&args.fail, &ip, flows, &load)
        .map_err(|problem| Failure::Usage(format!("--fail {problem}")))?;
    if let Some(file) = &args.regions {
        draw_regions(file, &ip, &flows[0], &failures)?;
    }
    let stages = stages(args, &ip, flows)?;
    let names = Named(&ip.devices);
    if let Some(file) = &args.plot {
        draw(file, &load, &failures, &names)?;
    }
    if args.json {
        print_json(&json!({
            "schema": 1,
            "flows": flows.len(),
            "bytes": flows.iter().map(|flow| flow.bytes).sum::<u64>(),
            "skipped": input.skipped,
            "policy": ip.fib.settings().v4.policy as u32,
            "policy_ipv6": ip.fib.settings().v6.policy as u32,
            "load": load.to_json(&names),
            "failures": failures.iter().map(|one| one.to_json(&names)).collect::<Vec<_>>(),
            "stages": stages.iter().map(|one| one.to_json(&names)).collect::<Vec<_>>(),
        }))?;
    } else {
        print_tables(&load, &failures, &stages, flows, input.skipped, &names)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// A picture with a name that means no format, or that something else has, is told before it is
    /// drawn.
    fn check_pictures(&self) -> Result<(), Failure> {
        let mut inputs: Vec<&Path> = vec![&self.input, &self.routes];
        inputs.extend(self.stage.iter().map(PathBuf::as_path));
        for picture in [&self.plot, &self.regions].into_iter().flatten() {
            format_of(picture)?;
            refuse_overwriting(picture, &inputs)?;
            refuse_overwriting(&data_of(picture), &inputs)?;
        }
        let [plot, regions] = [&self.plot, &self.regions].map(|it| it.as_deref().map(data_of));
        if plot.is_some() && plot == regions {
            let message = "--plot and --regions would write the same data file: their names must differ before the dot";
            return Err(Failure::Usage(message.into()));
        }
        Ok(())
    }

    fn routes_of(&self, file: &Path) -> Result<Ip, Failure> {
        let mut ip = ip::parse(file, &read_text(file)?)?.ip;
        self.override_settings(&mut ip.fib)?;
        Ok(ip)
    }

    fn override_settings(&self, fib: &mut Fib) -> Result<(), Failure> {
        let mut settings: Settings = *fib.settings();
        if let Some(policy) = &self.policy {
            let policy = policy_of(policy)?;
            (settings.v4.policy, settings.v6.policy) = (policy, policy);
        }
        if let Some(fields) = self.fields {
            let fields = HashFields::from_number(fields).map_err(|_| {
                Failure::Usage(format!(
                    "--fields {fields}: only bits 0 to 11 are defined, and at least one must be set"
                ))
            })?;
            (settings.v4.fields, settings.v6.fields) = (fields, fields);
        }
        if let Some(seed) = self.seed {
            settings.key = HashKey::from_seed(seed);
        }
        fib.set_settings(settings);
        Ok(())
    }
}

fn policy_of(word: &str) -> Result<Policy, Failure> {
    ecmp::ask::policy(word).ok_or_else(|| {
        Failure::Usage(format!(
            "--policy {word}: valid are 0 or l3, 1 or l4, 2 or inner, 3 or custom"
        ))
    })
}

/// The routers one after the other, if there are several.
fn stages(args: &Args, ip: &Ip, flows: &[FlowLoad]) -> Result<Vec<Stage>, Failure> {
    let more: Vec<Ip> =
        args.stage.iter().map(|file| args.routes_of(file)).collect::<Result<_, _>>()?;
    let mut fibs = vec![&ip.fib; args.stages as usize];
    fibs.extend(more.iter().map(|ip| &ip.fib));
    Ok(if fibs.len() > 1 { ecmp::stages(&fibs, &[], flows) } else { Vec::new() })
}

fn draw(
    file: &Path,
    load: &Load,
    failures: &[Disruption],
    names: &Named<'_>,
) -> Result<(), Failure> {
    let chart = ecmp::chart(load, failures, names);
    save(file, &chart.draw(), &chart.data())
}

fn draw_regions(
    file: &Path,
    ip: &Ip,
    flow: &FlowLoad,
    failures: &[Disruption],
) -> Result<(), Failure> {
    let Some(failure) = failures.first() else {
        return Err(Failure::Usage(
            "--regions: there is only one next hop; choose what fails with --fail".into(),
        ));
    };
    let mut failed = ip.fib.clone();
    for &port in &failure.ports {
        failed.set_link(ip.now, port, LinkState { up: false, ..failed.link(port) });
    }
    let names = Named(&ip.devices);
    let ports = names.ports(&failure.ports);
    let regions = Regions::of(&ip.fib, &failed, &flow.key, &ports, &names)
        .map_err(|why| Failure::Usage(format!("--regions: {why}")))?;
    save(file, &regions.draw(), &regions.data())
}

/// As the name of the file says, and the data beside it.
fn save(file: &Path, scene: &Scene, data: &Table) -> Result<(), Failure> {
    let bytes = match format_of(file)? {
        Format::Svg => plot::svg(scene).into_bytes(),
        Format::Png => plot::png(scene).unwrap_or_default(),
        Format::Pdf => plot::pdf(scene),
    };
    lab::store::replace(file, &bytes)?;
    let failed = |error| Failure::Other(format!("{}: {error}", file.display()));
    Ok(lab::store::replace(&data_of(file), &data.csv().map_err(failed)?)?)
}

/// Where the data of a picture go.
fn data_of(picture: &Path) -> PathBuf {
    picture.with_extension("csv")
}

/// What a picture is written as, as the end of its name says.
fn format_of(file: &Path) -> Result<Format, Failure> {
    let end = file.extension().and_then(|end| end.to_str()).unwrap_or_default();
    end.parse().map_err(|_| {
        let name = file.display();
        Failure::Usage(format!("{name}: the name of a picture must end in .svg, .png or .pdf"))
    })
}

fn print_tables(
    load: &Load,
    failures: &[Disruption],
    stages: &[Stage],
    flows: &[FlowLoad],
    skipped: u64,
    names: &Named<'_>,
) -> Result<(), Failure> {
    print(&table::render(&ecmp::load_table(load, names)))?;
    let shown = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.3}"));
    print(&format!(
        "imbalance (largest ratio to the expected load): flows {}, bytes {}",
        shown(load.imbalance_flows()),
        shown(load.imbalance_bytes())
    ))?;
    let total: u64 = flows.iter().map(|flow| flow.bytes).sum();
    for &(index, hop) in &load.elephants {
        let flow = &flows[index];
        print(&format!(
            "elephant: {} > {} protocol {}: {:.1} % of all bytes, on {}",
            end(flow.key.src, flow.key.src_port),
            end(flow.key.dst, flow.key.dst_port),
            flow.key.protocol,
            100.0 * flow.bytes as f64 / total as f64,
            hop.map_or("no next hop".into(), |hop| names.hop(&hop)),
        ))?;
    }
    if load.elephants.is_empty() {
        print("elephants (flows with over a tenth of all bytes): none")?;
    }
    if load.elsewhere > 0 {
        print(&format!("without a next hop: {} flows", load.elsewhere))?;
    }
    if skipped > 0 {
        print(&format!("skipped: {skipped} packets that are malformed or not IP"))?;
    }
    if !failures.is_empty() {
        print("")?;
        print(&table::render(&ecmp::failure_table(failures, names)))?;
    }
    if !stages.is_empty() {
        print("")?;
        print(&table::render(&ecmp::stage_table(stages, names)))?;
        if stages.iter().skip(1).any(|stage| stage.unused > 0) {
            print(
                "polarised: some next hops of a later stage get no flows. Give each router its \
                 own\nseed: net.ipv4.fib_multipath_hash_seed",
            )?;
        }
    }
    Ok(())
}

fn end(address: std::net::IpAddr, port: u16) -> String {
    if address.is_ipv6() { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}
