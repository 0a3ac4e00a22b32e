//! Which device a stack is to have, and which addresses are at its two ends.

use crate::open::Fault;
use crate::sys;
use datapath::tcp::cc::Algorithm;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::str::FromStr;

/// An address with the length of its prefix: `10.77.0.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The address.
    pub address: IpAddr,
    /// Length of the prefix in bits.
    pub prefix_len: u8,
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, len) = text
            .split_once('/')
            .ok_or_else(|| format!("{text}: the prefix length is missing, as in {text}/24"))?;
        let address: IpAddr =
            address.parse().map_err(|_| format!("{address} is not an IPv4 or IPv6 address"))?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        match len.parse() {
            Ok(prefix_len) if prefix_len <= longest => Ok(Self { address, prefix_len }),
            _ => Err(format!("/{len}: the prefix length must be 0 to {longest}")),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_len)
    }
}

impl Cidr {
    /// Whether `other` lies in the same prefix.
    pub fn contains(&self, other: IpAddr) -> bool {
        let bits = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => u128::from(ip.to_bits()) << 96,
            IpAddr::V6(ip) => ip.to_bits(),
        };
        let differs = bits(self.address) ^ bits(other);
        let outside = differs.checked_shr(128 - u32::from(self.prefix_len)).unwrap_or(0);
        self.address.is_ipv4() == other.is_ipv4() && outside == 0
    }
}

/// What a stack is made with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the TUN device, which is made and goes away with the stack.
    pub device: String,
    /// Our address; the prefix is that of [`kernel`](Self::kernel).
    pub address: IpAddr,
    /// The address that the kernel's end of the device gets. `None`: the device is left without one, and
    /// down, for another program to set up.
    pub kernel: Option<Cidr>,
    /// Largest network-layer packet in bytes: 576 (IPv6: 1280) to 65535.
    pub mtu: u32,
    /// The device takes and gives super-packets of TCP (TSO); without, all is cut to the MTU.
    pub offloads: bool,
    /// Congestion control of sockets that ask for no other.
    pub congestion_control: Algorithm,
    /// Settings of TCP by their names under `/proc/sys/net/ipv4`, with their values.
    pub sysctls: Vec<(String, String)>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            device: "ack0".to_owned(),
            address: IpAddr::from([10, 77, 0, 2]),
            kernel: Some(Cidr { address: IpAddr::from([10, 77, 0, 1]), prefix_len: 24 }),
            mtu: 1_500,
            offloads: true,
            congestion_control: Algorithm::Cubic,
            sysctls: Vec::new(),
        }
    }
}

impl Settings {
    /// Finds what cannot be before anything is made.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let usage = |message: String| Err(Fault::Usage(message));
        let Self { address, mtu, kernel, .. } = self;
        let least = if address.is_ipv4() { 576 } else { 1_280 };
        if !(least..=65_535).contains(mtu) {
            return usage(format!("the MTU must be {least} to 65535, not {mtu}"));
        }
        if address.is_unspecified() || address.is_multicast() {
            return usage(format!("{address}: the stack needs a unicast address"));
        }
        if let Some(kernel) = kernel {
            if kernel.address == *address {
                return usage(format!(
                    "{address}: the kernel's end and ours have the same address"
                ));
            }
            if !kernel.contains(*address) {
                return usage(format!(
                    "{address}: not in the prefix of the kernel's end, {kernel}"
                ));
            }
            is_free(kernel.address)?;
        }
        is_free(*address)
    }

    /// Length of the prefix that the device's two ends share.
    pub(super) fn prefix_len(&self) -> u8 {
        let host = if self.address.is_ipv4() { 32 } else { 128 };
        self.kernel.map_or(host, |kernel| kernel.prefix_len)
    }

    /// Gives the kernel's end its address, and sets it up.
    pub(super) fn set_up_kernel(&self) -> io::Result<()> {
        let Some(kernel) = self.kernel else { return Ok(()) };
        sys::set_address(&self.device, kernel.address, kernel.prefix_len)?;
        sys::set_up(&self.device)
    }
}

/// An address that an interface has already would make two hosts of one.
fn is_free(address: IpAddr) -> Result<(), Fault> {
    let theirs = sys::addresses()
        .map_err(|fault| Fault::Other(format!("addresses of this machine: {fault}")))?;
    if address.is_loopback() || theirs.contains(&address) {
        return Err(Fault::Usage(format!(
            "{address}: an interface of this machine has this address already"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_and_contain() {
        let cidr: Cidr = "10.77.0.1/24".parse().expect("a prefix");
        assert!(cidr.contains([10, 77, 0, 200].into()));
        assert!(!cidr.contains([10, 77, 1, 2].into()));
        assert!("::/0".parse::<Cidr>().expect("a prefix").contains("fe80::1".parse().expect("it")));
        for wrong in ["10.0.0.1", "10.0.0.1/33", "10.0.0/8", "10.0.0.1/x", "::1/129"] {
            assert!(wrong.parse::<Cidr>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn impossible_addresses_are_reported() {
        let faulty = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.check().expect_err("a fault").to_string()
        };
        assert!(faulty(|it| it.address = [127, 0, 0, 1].into()).contains("not in the prefix"));
        assert!(faulty(|it| it.address = [10, 77, 0, 1].into()).contains("the same address"));
        assert!(faulty(|it| it.mtu = 100).contains("576 to 65535"));
        let own = |it: &mut Settings| {
            it.address = [127, 0, 0, 1].into();
            it.kernel = None;
        };
        assert!(faulty(own).contains("has this address already"));
    }
}
