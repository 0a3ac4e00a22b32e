//! What the commands with a TCP stack of their own have in common: its device and its addresses.

use std::net::{IpAddr, SocketAddr};

use datapath::tcp::cc::Algorithm;
use live::endpoint::{Cidr, Settings, Stack};

use super::Failure;

/// Where the stack is.
#[derive(clap::Args)]
#[command(next_help_heading = "The stack")]
pub struct StackArgs {
    /// Name of the TUN device, which exists while the program runs
    #[arg(long, value_name = "NAME", default_value = "ack0")]
    dev: String,
    /// Address of our stack
    #[arg(long, value_name = "ADDRESS", default_value = "10.77.0.2")]
    address: IpAddr,
    /// Address and prefix length of the kernel's end of the device; `none` leaves its setup to you
    #[arg(long, value_name = "ADDRESS/LEN", default_value = "10.77.0.1/24")]
    kernel: String,
    /// MTU of the device
    #[arg(long, value_name = "BYTES", default_value_t = 1_500)]
    mtu: u32,
    /// No TSO or GRO: every packet on the device is at most one MTU
    #[arg(long)]
    no_offload: bool,
    /// TCP sysctl, as under /proc/sys/net/ipv4: `tcp_ecn=1`; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

impl StackArgs {
    /// Makes the device and the stack.
    pub fn open(&self, congestion_control: Option<&str>) -> Result<Stack, Failure> {
        Ok(Stack::open(&self.settings(congestion_control)?)?)
    }

    /// Address of our stack.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    fn settings(&self, congestion_control: Option<&str>) -> Result<Settings, Failure> {
        let wrong = |option: &str, message: String| Failure::Usage(format!("{option}: {message}"));
        let kernel = match self.kernel.as_str() {
            "none" => None,
            text => Some(text.parse::<Cidr>().map_err(|message| wrong("--kernel", message))?),
        };
        let mut sysctls = Vec::new();
        for text in &self.settings {
            let (name, value) = text.split_once('=').ok_or_else(|| {
                wrong("--set", format!("{text}: expected NAME=VALUE, as in tcp_ecn=1"))
            })?;
            sysctls.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        Ok(Settings {
            device: self.dev.clone(),
            address: self.address,
            kernel,
            mtu: self.mtu,
            offloads: !self.no_offload,
            congestion_control: algorithm(congestion_control)?,
            sysctls,
        })
    }
}

/// The congestion control of that name; CUBIC if none is asked for.
pub fn algorithm(name: Option<&str>) -> Result<Algorithm, Failure> {
    let Some(name) = name else { return Ok(Algorithm::Cubic) };
    Algorithm::by_name(name).ok_or_else(|| {
        let known: Vec<&str> = Algorithm::ALL.iter().map(|it| it.name()).collect();
        Failure::Usage(format!(
            "unknown congestion control {name:?}; valid are {}",
            known.join(", ")
        ))
    })
}

/// An address with a port, or a port of `any`.
pub fn socket_address(option: &str, text: &str, any: IpAddr) -> Result<SocketAddr, Failure> {
    let only_port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = only_port.parse::<u16>() {
        return Ok((any, port).into());
    }
    text.parse().map_err(|_| {
        let message = "expected an address and a port, as in 10.0.0.1:80 or [fd00::1]:80";
        Failure::Usage(format!("{option}: {text}: {message}"))
    })
}
