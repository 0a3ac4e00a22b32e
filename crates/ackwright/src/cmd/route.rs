//! `ackwright route`.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use datapath::profile::Profile;
use live::control::Control;
use live::device::Pools;
use live::open;
use live::router::{Router, Settings};

use super::running::{pointed, stop_pipe, time};
use super::{Failure, Outcome, print, print_json, read_text};
use crate::interrupt;

/// Arguments of `ackwright route`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright route --dev eth0 --dev eth1 --config routes.ip
  ackwright route --dev eth0 --dev tap:lan0 --config routes.ip --drain 5s
  ackwright route --dev eth0 --dev eth1 --import-kernel
  ackwright ctl ip -j neigh show
  ackwright ctl ip route add 10.8.0.0/16 via 10.2.0.2
  ackwright ctl tc -s qdisc show

FILE holds commands of ip (without the leading \"ip\"), tc and sysctl:
  address add 10.1.0.1/24 dev eth0
  address add 10.2.0.1/24 dev eth1
  route add 10.8.0.0/16 nexthop via 10.2.0.2 nexthop via 10.2.0.3
  sysctl net.ipv4.fib_multipath_hash_policy=1
  tc qdisc add dev eth1 root cake bandwidth 30mbit
Without --import-kernel the interfaces should have no addresses in the kernel. With it, addresses, routes,
rules and next hops are the kernel's, and follow its changes; the kernel keeps answering for its own addresses,
and net.ipv4.ip_forward must be 0.")]
pub struct Args {
    /// Device to route between: an interface, or `tap:NAME` or `tun:NAME` to create one; may be
    /// repeated
    #[arg(long, value_name = "DEVICE", required = true)]
    dev: Vec<String>,
    /// Addresses, routes, queues and settings: ip, tc and sysctl commands
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Import addresses and routes from this machine's kernel, and follow its changes
    #[arg(long)]
    import_kernel: bool,
    /// Longest time for queues to drain at the end
    #[arg(long, value_name = "TIME", default_value = "2s")]
    drain: String,
    /// Busy-poll instead of sleeping when the next packet is due sooner than this
    #[arg(long, value_name = "TIME", default_value = "0")]
    busy_poll: String,
    /// Socket for `ackwright ctl`
    #[arg(long, value_name = "PATH")]
    ctl: Option<PathBuf>,
    /// Seed of random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Kernel version whose ICMP error limits, CAKE and multipath to follow: linux-7.x, linux-6.18,
    /// linux-6.1 or linux-2.6.22
    #[arg(long, value_name = "NAME", default_value = "linux-7.x")]
    profile: String,
    /// Print the final table as JSON
    #[arg(long)]
    json: bool,
}

/// Routes until a signal comes.
pub fn run(args: &Args) -> Outcome {
    // The first signal is ours to obey; the second ends the program at once.
    let _told_by_pipe = interrupt::flag();
    let stop = stop_pipe()?;
    if args.config.is_none() && !args.import_kernel {
        return Err(Failure::Usage(
            "no routes given: use --config FILE for a file of ip commands, or --import-kernel \
             for this machine's"
                .into(),
        ));
    }
    let (mut router, _locks) = build(args, stop)?;
    let names = router.device_names();
    let place = listen(args, &names, &mut router)?;
    stderr_line!("routing between {}{place}", names.join(", "));
    let ended = router.run();
    let shown = if args.json { print_json(&router.json()) } else { print(&router.text()) };
    ended?;
    shown?;
    Ok(ExitCode::SUCCESS)
}

type Locks = Vec<Option<std::os::unix::net::UnixListener>>;

fn build(args: &Args, stop: UnixStream) -> Result<(Router, Locks), Failure> {
    let settings = Settings {
        follow_kernel: args.import_kernel,
        file: args.config.clone(),
        drain: time("--drain", &args.drain)?,
        busy_poll: time("--busy-poll", &args.busy_poll)?,
        seed: args.seed,
        profile: Profile::by_name(&args.profile).ok_or_else(|| {
            let known = "linux-7.x, linux-6.18, linux-6.1 or linux-2.6.22";
            Failure::Usage(format!("--profile {}: valid are {known}", args.profile))
        })?,
    };
    let mut seen = Vec::new();
    for name in &args.dev {
        if seen.contains(&name) {
            return Err(Failure::Usage(format!("--dev {name} is given twice")));
        }
        seen.push(name);
    }
    let text = args.config.as_deref().map(read_text).transpose()?;
    let mtu = open::largest_mtu(&args.dev);
    let mut pools = Pools::new(mtu);
    let (mut devices, mut locks) = (Vec::new(), Vec::new());
    for name in &args.dev {
        let (device, lock) = open::open(name, mtu, &mut pools)?.into_parts();
        devices.push(device);
        locks.push(lock);
    }
    if args.import_kernel && forwards() {
        stderr_line!(
            "note: net.ipv4.ip_forward is 1, so the kernel forwards every packet as well; set it \
             to 0"
        );
    }
    let mut router = Router::new(devices, pools, stop, settings)?;
    if let (Some(text), Some(file)) = (text, &args.config) {
        router.load(&text).map_err(|(line, said, wrong)| {
            pointed(&format!("{}:{line}", file.display()), &said, &wrong)
        })?;
    }
    Ok((router, locks))
}

fn forwards() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").is_ok_and(|text| text.trim() == "1")
}

/// Where commands may come; without `--ctl` the run goes on where that cannot be.
fn listen(args: &Args, names: &[String], router: &mut Router) -> Result<String, Failure> {
    let path = args.ctl.clone().unwrap_or_else(|| {
        let safe = |name: &String| name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let names: Vec<String> = names.iter().map(safe).collect();
        Path::new(super::running::FOLDER).join(format!("route-{}.sock", names.join("-")))
    });
    let shown = path.display().to_string();
    match Control::listen(&path) {
        Ok(control) => {
            router.listen(control);
            Ok(format!("; ctl: {shown}"))
        }
        Err(error) if args.ctl.is_some() => Err(Failure::Usage(format!("--ctl {shown}: {error}"))),
        Err(error) => {
            stderr_line!(
                "note: cannot create the control socket {shown}: {error}; choose another path \
                 with --ctl"
            );
            Ok(String::new())
        }
    }
}
