//! `ackwright service`.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use datapath::node::Port;
use datapath::profile::Profile;
use datapath::units::Duration;
use iproute::tc::Device as TcDevice;
use live::commands::Names;
use live::control::{Control, ControlHandle};
use live::device::{Device, Pools};
use live::drive::{self, Driver};
use live::open;
use live::rights;
use live::router::{self, Router};
use serde_json::Value;
use service::config::{Config, Tool};
use service::http::Listener;
use service::{logs, metrics};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
use tracing::{error, info, warn};

use super::running::{pointed, stop_pipe};
use super::{Failure, Outcome, print, read_text};
use crate::interrupt;

/// Arguments of `ackwright service`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  ackwright service /etc/ackwright/wan.toml
  ackwright service --check /etc/ackwright/wan.toml
  systemctl start ackwright@wan; systemctl reload ackwright@wan

FILE:
  user = \"nobody\"                # user to switch to once devices are open
  log = \"json\"                   # or \"text\"
  metrics = \"127.0.0.1:9101\"     # or \"unix:/run/ackwright/metrics.sock\"
  ctl = \"/run/ackwright/wan.sock\"
  drain = \"2s\"

  [shape]
  between = [\"eth0\", \"eth1\"]
  ab = \"cake bandwidth 30mbit\"
  ba = \"cake bandwidth 1mbit ack-filter\"

or instead of [shape]:
  [route]
  dev = [\"eth0\", \"eth1\"]
  file = \"/etc/ackwright/routes.ip\"   # and/or: import-kernel = true

SIGHUP reloads the file: queues are changed as by tc qdisc change, and a router reloads its file of ip
commands. An error is logged with its position, and the old configuration stays in force.")]
pub struct Args {
    /// Configuration file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Check the configuration and exit
    #[arg(long)]
    check: bool,
}

/// What has been opened and must live as long as the service.
type Locks = Vec<Option<UnixListener>>;

/// What runs.
enum Running {
    Shape(Box<Driver>),
    Route(Box<Router>),
}

/// Runs what the file says until a signal comes.
pub fn run(args: &Args) -> Outcome {
    let config = read(&args.file)?;
    if args.check {
        print(&format!("{}: valid: {}", args.file.display(), described(&config.tool)))?;
        return Ok(ExitCode::SUCCESS);
    }
    logs::begin(config.log);
    let _told_by_pipe = interrupt::flag();
    interrupt::keep_hangup();
    let stop = stop_pipe()?;
    let hangups = Signals::new([SIGHUP])
        .map_err(|error| Failure::Other(format!("cannot install a handler for SIGHUP: {error}")))?;
    let (mut running, _locks) = build(&config, stop)?;
    let path = config.ctl.clone().unwrap_or_else(|| default_path(&args.file));
    let mut control = listen(&path)?;
    // As another user its own threads cannot open the socket's file.
    let inside = control.inside().map_err(|error| Failure::Other(format!("ctl: {error}")))?;
    let inside = Arc::new(inside);
    let http = config.metrics.as_ref().map(|place| {
        Listener::bind(place).map_err(|error| Failure::Usage(format!("metrics: {place}: {error}")))
    });
    let http = http.transpose()?;
    // Nothing that comes by the wire is read with root's rights.
    rights::drop_privileges(config.user.as_deref()).map_err(Failure::Usage)?;
    info!(ctl = %path.display(), user = config.user.as_deref().unwrap_or("unchanged"), "devices \
        are open, privileges are dropped");
    if let Some(http) = http {
        let inside = Arc::clone(&inside);
        thread::spawn(move || http.serve(|| scrape(&inside)));
    }
    let (file, first) = (args.file.clone(), config);
    thread::spawn(move || reload_at(hangups, &file, &inside, first));
    let (ended, account) = running.run(control);
    let (name, value) = account;
    info!(account = %value, "{name} has ended");
    ended?;
    Ok(ExitCode::SUCCESS)
}

/// What a configuration is for.
fn described(tool: &Tool) -> String {
    match tool {
        Tool::Shape { between: [one, other], .. } => format!("shape between {one} and {other}"),
        Tool::Route { dev, .. } => format!("route over {}", dev.join(", ")),
    }
}

impl Running {
    /// Until the end; what became of all packets.
    fn run(&mut self, control: Control) -> (Result<(), open::Fault>, (&'static str, Value)) {
        match self {
            Self::Shape(driver) => {
                driver.listen(control);
                let ended = driver.run();
                let names = driver.names();
                let names = [names[0].as_str(), names[1].as_str()];
                (ended, ("shape", driver.account().json(names)))
            }
            Self::Route(router) => {
                router.listen(control);
                let ended = router.run();
                (ended, ("route", router.json()))
            }
        }
    }
}

/// Reads and checks a configuration, and what it names.
fn read(file: &Path) -> Result<Config, Failure> {
    let text = read_text(file)?;
    let config = Config::parse(&text)
        .map_err(|mistake| Failure::Usage(format!("{}:{mistake}", file.display())))?;
    if let Tool::Route { dev, file: Some(routes), import_kernel } = &config.tool {
        let ports: Vec<String> = dev.iter().map(|name| open::port_name(name).to_owned()).collect();
        let text = read_text(routes)?;
        router::Plan::read(&text, &ports, *import_kernel).map_err(|(line, said, wrong)| {
            pointed(&format!("{}:{line}", routes.display()), &said, &wrong)
        })?;
    }
    Ok(config)
}

fn build(config: &Config, stop: UnixStream) -> Result<(Running, Locks), Failure> {
    let drain = Duration::from_nanos(config.drain_nanos);
    let busy_poll = Duration::from_nanos(config.busy_poll_nanos);
    match &config.tool {
        Tool::Shape { between, ab, ba } => {
            let (devices, pools, locks) = open_all(between)?;
            let Ok([one, other]) = <[Device; 2]>::try_from(devices) else {
                unreachable!("two were opened")
            };
            open::check_pair(&one, &other)?;
            let link = if one.is_ethernet() { 14 } else { 0 };
            let device = TcDevice { psched_mtu: one.mtu() + link, ..TcDevice::default() };
            let names = [0, 1].map(|end: usize| open::port_name(&between[end]).to_owned());
            let names = Names { names, device, seed: config.seed };
            let settings = drive::Settings { drain, busy_poll };
            let driver = Driver::new([one, other], pools, names, stop, settings);
            let mut driver = driver.map_err(|error| Failure::Other(error.to_string()))?;
            for (words, port) in [(ab, Port(1)), (ba, Port(0))] {
                let Some(words) = words else { continue };
                driver
                    .set_up(|names, bridge, now| names.set_root(bridge, now, port, words))
                    .map_err(|wrong| pointed("queue", words, &wrong))?;
            }
            Ok((Running::Shape(Box::new(driver)), locks))
        }
        Tool::Route { dev, file, import_kernel } => {
            let (devices, pools, locks) = open_all(dev)?;
            let settings = router::Settings {
                follow_kernel: *import_kernel,
                file: file.clone(),
                drain,
                busy_poll,
                seed: config.seed,
                profile: Profile::default(),
            };
            let mut router = Router::new(devices, pools, stop, settings)?;
            if let Some(file) = file {
                router.load(&read_text(file)?).map_err(|(line, said, wrong)| {
                    pointed(&format!("{}:{line}", file.display()), &said, &wrong)
                })?;
            }
            Ok((Running::Route(Box::new(router)), locks))
        }
    }
}

fn open_all(names: &[String]) -> Result<(Vec<Device>, Pools, Locks), Failure> {
    let mtu = open::largest_mtu(names);
    let mut pools = Pools::new(mtu);
    let (mut devices, mut locks) = (Vec::new(), Vec::new());
    for name in names {
        let (device, lock) = open::open(name, mtu, &mut pools)?.into_parts();
        devices.push(device);
        locks.push(lock);
    }
    Ok((devices, pools, locks))
}

/// `/run/ackwright/wan.sock` for `wan.toml`.
fn default_path(file: &Path) -> PathBuf {
    let name = file.file_stem().map_or("service".into(), |stem| stem.to_string_lossy());
    Path::new(super::running::FOLDER).join(format!("{name}.sock"))
}

fn listen(path: &Path) -> Result<Control, Failure> {
    if path.exists() && UnixStream::connect(path).is_err() {
        warn!(path = %path.display(), "removing the socket that an earlier run left behind");
    }
    Control::listen(path)
        .map_err(|error| Failure::Usage(format!("ctl: {}: {error}", path.display())))
}

/// What the control socket tells, in the words of Prometheus.
fn scrape(inside: &ControlHandle) -> io::Result<String> {
    let ask = |command: &str| -> io::Result<Value> {
        let (_, text) = inside.request(command)?;
        Ok(serde_json::from_str(&text)?)
    };
    Ok(metrics::of(&ask("show -j")?, &ask("tc -s -j qdisc show")?))
}

/// Reads the file again at every SIGHUP.
fn reload_at(mut hangups: Signals, file: &Path, inside: &ControlHandle, mut current: Config) {
    for _ in hangups.forever() {
        match reload(file, inside, &current) {
            Ok(new) => {
                info!(file = %file.display(), "configuration reloaded");
                current = new;
            }
            Err(why) => {
                error!(file = %file.display(), "reload failed, the old configuration stays in \
                    force: {why}");
            }
        }
    }
}

fn reload(file: &Path, inside: &ControlHandle, current: &Config) -> Result<Config, String> {
    let new = read(file).map_err(|failure| match failure {
        Failure::Usage(message) | Failure::Other(message) | Failure::Interrupted(message) => {
            message
        }
        Failure::ClosedOutput => "it cannot be read".to_owned(),
    })?;
    if let Some(what) = current.fixed_difference(&new) {
        return Err(format!("{what} cannot be changed at run time: restart the service"));
    }
    match (&current.tool, &new.tool) {
        (Tool::Shape { ab, ba, .. }, Tool::Shape { between, ab: new_ab, ba: new_ba }) => {
            let names = [0, 1].map(|end: usize| open::port_name(&between[end]));
            change_root(inside, names[1], ab.as_deref(), new_ab.as_deref())?;
            change_root(inside, names[0], ba.as_deref(), new_ba.as_deref()).inspect_err(|_| {
                // Both or none.
                let _ = change_root(inside, names[1], new_ab.as_deref(), ab.as_deref());
            })?;
        }
        _ => run_command(inside, "reload")?,
    }
    Ok(new)
}

/// As `tc qdisc replace`: the same kind is changed where it stands.
fn change_root(
    inside: &ControlHandle,
    device: &str,
    old: Option<&str>,
    new: Option<&str>,
) -> Result<(), String> {
    if old == new {
        return Ok(());
    }
    run_command(inside, &format!("tc qdisc replace dev {device} root {}", new.unwrap_or("pfifo")))
}

fn run_command(inside: &ControlHandle, command: &str) -> Result<(), String> {
    let (right, text) = inside.request(command).map_err(|error| format!("{command}: {error}"))?;
    let message = text.split_once('\n').map_or(text.as_str(), |(_, message)| message);
    if right { Ok(()) } else { Err(message.trim_end().to_owned()) }
}
