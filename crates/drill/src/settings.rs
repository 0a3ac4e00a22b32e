//! What a run of a script is set to: flags of the command line, of the variant, of the script.

use crate::ast::Flag;
use crate::fault::{Fault, Pos};
use crate::lex::{Defines, micros};
use crate::parse::Family;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use datapath::profile::Profile;

/// Which addresses sockets and packets have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpVersion {
    /// IPv4 sockets, IPv4 packets.
    Ipv4,
    /// IPv6 sockets, IPv6 packets.
    Ipv6,
    /// IPv6 sockets with mapped addresses, IPv4 packets.
    Ipv4MappedIpv6,
}

impl IpVersion {
    /// All of them, in the order in which reports list them.
    pub const ALL: [Self; 3] = [Self::Ipv4, Self::Ipv6, Self::Ipv4MappedIpv6];

    /// The word for it on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Ipv4MappedIpv6 => "ipv4-mapped-ipv6",
        }
    }

    /// The one of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.name() == name)
    }

    /// The family of the packets.
    pub const fn family(self) -> Family {
        match self {
            Self::Ipv4 | Self::Ipv4MappedIpv6 => Family::V4,
            Self::Ipv6 => Family::V6,
        }
    }

    /// Whether sockets are `AF_INET6`.
    pub const fn socket_is_ipv6(self) -> bool {
        matches!(self, Self::Ipv6 | Self::Ipv4MappedIpv6)
    }
}

impl fmt::Display for IpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Everything that flags decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which addresses.
    pub ip_version: IpVersion,
    /// The kernel that the host behaves like.
    pub profile: Profile,
    /// The host's own address.
    pub local: IpAddr,
    /// Bits of the network of `local`.
    pub local_prefix_len: u8,
    /// The address of the far end, which the script plays.
    pub remote: IpAddr,
    /// Bits of the network of `remote`.
    pub remote_prefix_len: u8,
    /// Port of `bind`.
    pub bind_port: u16,
    /// Port of `connect`.
    pub connect_port: u16,
    /// MTU of the interface.
    pub mtu: u32,
    /// Segment size of inbound super-packets; 0 = inbound packets are single ones.
    pub mss: u32,
    /// Times may be off by this many µs …
    pub tolerance_usecs: i64,
    /// … or by this many thousandths of a percent of the time since the event before.
    pub tolerance_millipercent: i64,
    /// A tick of the script's TCP timestamps in µs; 0 = their values are not compared.
    pub ts_tick_usecs: i64,
    /// TS ecr of inbound packets may be one that the script has not seen.
    pub ts_ecr_scaled: bool,
    /// Match each outbound line with exactly one packet, not with several that add up to it.
    pub strict_segments: bool,
    /// Faults in outbound packets do not end the run.
    pub non_fatal_packets: bool,
    /// Faults in system calls do not end the run.
    pub non_fatal_calls: bool,
    /// Words that are replaced.
    pub defines: Defines,
    /// Shell scripts that run before anything else, by their paths.
    pub init_scripts: Vec<(Pos, String)>,
}

impl Settings {
    /// What a variant begins with.
    pub fn for_version(ip_version: IpVersion) -> Self {
        let (local, local_prefix_len, remote, remote_prefix_len, mtu) = match ip_version.family() {
            Family::V4 => {
                (IpAddr::from([192, 168, 0, 1]), 16, IpAddr::from([192, 0, 2, 1]), 32, 1500)
            }
            Family::V6 => (
                IpAddr::from([0xfd3d, 0x0a0b, 0x17d6, 0, 0, 0, 0, 1]),
                48,
                IpAddr::from([0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1]),
                128,
                1520,
            ),
        };
        Self {
            ip_version,
            profile: Profile::default(),
            local,
            local_prefix_len,
            remote,
            remote_prefix_len,
            bind_port: 8080,
            connect_port: 8080,
            mtu,
            mss: 0,
            tolerance_usecs: 4_000,
            tolerance_millipercent: 12_500,
            ts_tick_usecs: 0,
            ts_ecr_scaled: false,
            strict_segments: false,
            non_fatal_packets: false,
            non_fatal_calls: false,
            defines: Defines::new(),
            init_scripts: Vec::new(),
        }
    }

    /// The settings of one run. Later ones win: the variant's own, the script's flags, the flags of
    /// the command line. The addresses are the variant's whatever a script says, as under the
    /// suites' own runner.
    pub fn of_run(
        ip_version: IpVersion,
        script: &[Flag],
        command_line: &[Flag],
    ) -> Result<Self, Fault> {
        let mut settings = Self::for_version(ip_version);
        for flag in script.iter().filter(|flag| !OF_THE_VARIANT.contains(&flag.name.as_str())) {
            settings.apply(flag)?;
        }
        for flag in command_line {
            settings.apply(flag)?;
        }
        settings.add_defines();
        Ok(settings)
    }

    /// What the suite's own runner defines, unless a flag did.
    fn add_defines(&mut self) {
        let sixes = self.ip_version.socket_is_ipv6();
        let mut define = |name: &str, value: String| {
            self.defines.entry(name.to_owned()).or_insert(value);
        };
        let (local, remote) = (self.local, self.remote);
        define("TFO_COOKIE", cookie(local, remote, FAST_OPEN_KEY));
        define("TFO_COOKIE_ZERO", cookie(local, remote, [0; 16]));
        define("CMSG_LEVEL_IP", if sixes { "SOL_IPV6" } else { "SOL_IP" }.to_owned());
        define("CMSG_TYPE_RECVERR", if sixes { "IPV6_RECVERR" } else { "IP_RECVERR" }.to_owned());
        if local.is_ipv4() {
            define("CODE", "host_unreachable".to_owned());
        }
    }

    /// Takes one flag, with or without dashes in its name.
    pub fn apply(&mut self, flag: &Flag) -> Result<(), Fault> {
        let name = flag.name.replace('-', "_");
        match name.as_str() {
            "ip_version" => {
                let value = need(flag)?;
                self.ip_version = IpVersion::by_name(value).ok_or_else(|| {
                    let known = IpVersion::ALL.map(IpVersion::name);
                    Fault::unknown(flag.pos, "IP version", value, &known)
                })?;
            }
            "profile" => {
                let value = need(flag)?;
                self.profile = Profile::by_name(value)
                    .ok_or_else(|| Fault::unknown(flag.pos, "profile", value, &Profile::NAMES))?;
            }
            "bind_port" => self.bind_port = number(flag, 1, 0xffff)? as u16,
            "connect_port" => self.connect_port = number(flag, 1, 0xffff)? as u16,
            "local_ip" => {
                let (address, len) = address(flag, self.ip_version.family())?;
                self.local = address;
                self.local_prefix_len = len.unwrap_or(self.local_prefix_len);
            }
            "remote_ip" => {
                let (address, len) = address(flag, self.ip_version.family())?;
                self.remote = address;
                self.remote_prefix_len = len.unwrap_or(host_bits(address));
            }
            "netmask_ip" => {
                let (mask, _) = address(flag, self.ip_version.family())?;
                if let IpAddr::V4(mask) = mask {
                    self.local_prefix_len = u32::from(mask).leading_ones() as u8;
                }
            }
            "mss" => self.mss = number(flag, 1, 0xffff)? as u32,
            "mtu" => self.mtu = number(flag, 68, 0xffff)? as u32,
            "tolerance_usecs" => {
                self.tolerance_usecs = number(flag, 1, 1_000_000_000)?;
            }
            "tolerance_percent" => {
                let percent = need(flag).ok().and_then(micros);
                match percent {
                    Some(millionths @ 0..=100_000_000) => {
                        self.tolerance_millipercent = millionths / 1_000;
                    }
                    _ => return Err(out_of_range(flag, "0 to 100")),
                }
            }
            "tcp_ts_tick_usecs" => self.ts_tick_usecs = number(flag, 0, 1_000_000)?,
            "tcp_ts_ecr_scaled" => self.ts_ecr_scaled = true,
            "strict_segments" => self.strict_segments = true,
            "non_fatal" => {
                for part in need(flag)?.split(',') {
                    match part {
                        "packet" => self.non_fatal_packets = true,
                        "syscall" => self.non_fatal_calls = true,
                        _ => {
                            let known = ["packet", "syscall"];
                            return Err(Fault::unknown(flag.pos, "kind of event", part, &known));
                        }
                    }
                }
            }
            "define" | "D" => {
                let value = need(flag)?;
                match value.split_once('=') {
                    Some((name, value)) if !name.is_empty() => {
                        self.defines.insert(name.to_owned(), value.to_owned());
                    }
                    _ => {
                        let fix = "write --define=NAME=VALUE";
                        return Err(Fault::new(flag.pos, "a definition without a name", fix));
                    }
                }
            }
            "init_scripts" => {
                let paths = need(flag)?.split(',').filter(|path| !path.is_empty());
                self.init_scripts = paths.map(|path| (flag.pos, path.to_owned())).collect();
            }
            // They mean something to a kernel and to real time only.
            "gateway_ip" | "speed" | "send_omit_free" | "is_anyip" | "debug" | "verbose"
            | "code_command" | "code_format" | "code_sockopt" | "dry_run" => {}
            _ if NO_MEANING.contains(&name.as_str()) => {
                let why = format!("--{name} needs a second machine, a device or a kernel");
                return Err(Fault::no_meaning(flag.pos, why));
            }
            _ => {
                let shown = format!("--{}", flag.name);
                let known = KNOWN.map(|name| format!("--{name}"));
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                return Err(Fault::unknown(flag.pos, "flag", &shown, &known));
            }
        }
        Ok(())
    }

    /// Where `bind` binds.
    pub fn bind_address(&self) -> SocketAddr {
        SocketAddr::new(self.socket_ip(self.local), self.bind_port)
    }

    /// Where `connect` connects.
    pub fn connect_address(&self) -> SocketAddr {
        SocketAddr::new(self.socket_ip(self.remote), self.connect_port)
    }

    /// An address as sockets of this variant have it.
    fn socket_ip(&self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(v4) if self.ip_version == IpVersion::Ipv4MappedIpv6 => {
                IpAddr::V6(v4.to_ipv6_mapped())
            }
            other => other,
        }
    }

    /// By how many µs something may be off that was due `delta` µs after the event before.
    pub const fn tolerance(&self, delta: i64) -> i64 {
        let dynamic = delta.saturating_mul(self.tolerance_millipercent) / 100_000;
        if dynamic > self.tolerance_usecs { dynamic } else { self.tolerance_usecs }
    }
}

fn need(flag: &Flag) -> Result<&str, Fault> {
    flag.value.as_deref().ok_or_else(|| {
        Fault::new(flag.pos, format!("--{} needs a value", flag.name), "write --flag=value")
    })
}

fn number(flag: &Flag, min: i64, max: i64) -> Result<i64, Fault> {
    let number: Option<i64> = need(flag)?.parse().ok();
    number
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| out_of_range(flag, &format!("{min} to {max}")))
}

fn out_of_range(flag: &Flag, range: &str) -> Fault {
    let what = format!("--{} is out of range", flag.name);
    Fault::new(flag.pos, what, format!("it goes from {range}"))
}

fn address(flag: &Flag, family: Family) -> Result<(IpAddr, Option<u8>), Fault> {
    let value = need(flag)?;
    let (text, len) = match value.split_once('/') {
        Some((address, len)) => (address, Some(len.parse::<u8>())),
        None => (value, None),
    };
    let wrong = || {
        let fix = match family {
            Family::V4 => "this run is over IPv4: 192.0.2.1",
            Family::V6 => "this run is over IPv6: fd3d::1",
        };
        Fault::new(flag.pos, format!("--{} {value} is not an address", flag.name), fix)
    };
    let address: IpAddr = text.parse().map_err(|_| wrong())?;
    if address.is_ipv4() != (family == Family::V4) {
        return Err(wrong());
    }
    let len = len.transpose().map_err(|_| wrong())?;
    match len {
        Some(len) if len > host_bits(address) => Err(wrong()),
        _ => Ok((address, len)),
    }
}

const fn host_bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The Fast Open cookie that `local` gives to `remote`, as hexadecimal digits
/// (`__tcp_fastopen_cookie_gen_cipher`: SipHash-2-4 over source and destination of the SYN).
fn cookie(local: IpAddr, remote: IpAddr, key: [u8; 16]) -> String {
    use core::hash::Hasher as _;
    let mut hasher = siphasher::sip::SipHasher24::new_with_key(&key);
    for address in [remote, local] {
        match address {
            IpAddr::V4(v4) => hasher.write(&v4.octets()),
            IpAddr::V6(v6) => hasher.write(&v6.octets()),
        }
    }
    // Bytes of a number that is printed from its highest digit on.
    format!("{:016x}", hasher.finish().swap_bytes())
}

/// `a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4`, which the suites' `defaults.sh` sets.
const FAST_OPEN_KEY: [u8; 16] = [
    0xa1, 0xa1, 0xa1, 0xa1, 0xb2, 0xb2, 0xb2, 0xb2, 0xc3, 0xc3, 0xc3, 0xc3, 0xd4, 0xd4, 0xd4, 0xd4,
];

/// Flags of a script that the variant decides, as under the suites' own runner.
const OF_THE_VARIANT: [&str; 5] =
    ["ip_version", "local_ip", "remote_ip", "netmask_ip", "gateway_ip"];

/// Flags that scripts and the command line may set.
pub const KNOWN: [&str; 18] = [
    "ip_version",
    "profile",
    "bind_port",
    "connect_port",
    "local_ip",
    "remote_ip",
    "netmask_ip",
    "mss",
    "mtu",
    "tolerance_usecs",
    "tolerance_percent",
    "tcp_ts_tick_usecs",
    "tcp_ts_ecr_scaled",
    "strict_segments",
    "non_fatal",
    "define",
    "gateway_ip",
    "init_scripts",
];

const NO_MEANING: [&str; 10] = [
    "wire_client",
    "wire_server",
    "wire_server_ip",
    "wire_server_at",
    "wire_server_port",
    "wire_client_dev",
    "wire_server_dev",
    "so_filename",
    "so_flags",
    "psp_udp_port",
];

/// A flag of the command line: it stands nowhere in the script.
pub fn command_line_flag(name: &str, value: Option<&str>) -> Flag {
    Flag { pos: Pos::default(), name: name.to_owned(), value: value.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(list: &[(&str, &str)]) -> Vec<Flag> {
        list.iter().map(|(name, value)| command_line_flag(name, Some(value))).collect()
    }

    /// The command line wins over the script; the addresses of a variant do as well.
    #[test]
    fn who_wins() {
        let script =
            flags(&[("mss", "1000"), ("tolerance_usecs", "9000"), ("remote_ip", "10.0.0.1")]);
        let settings = Settings::of_run(IpVersion::Ipv4, &script, &flags(&[("mss", "1200")]))
            .expect("settings");
        assert_eq!((settings.mss, settings.tolerance_usecs), (1200, 9000));
        assert_eq!(settings.remote, IpAddr::from([192, 0, 2, 1]));
        let line = flags(&[("remote_ip", "10.0.0.1/8")]);
        let settings = Settings::of_run(IpVersion::Ipv4, &[], &line).expect("settings");
        assert_eq!(settings.remote, IpAddr::from([10, 0, 0, 1]));
        assert_eq!(settings.remote_prefix_len, 8);
    }

    /// The cookies that Google's own runner defines follow from addresses and key.
    #[test]
    fn cookies_are_computed() {
        let cookies = IpVersion::ALL.map(|version| {
            let settings = Settings::of_run(version, &[], &[]).expect("settings");
            settings.defines["TFO_COOKIE"].clone()
        });
        assert_eq!(cookies, ["3021b9d889017eeb", "c1d1e9742a47a9bc", "3021b9d889017eeb"]);
    }

    #[test]
    fn the_larger_tolerance_counts() {
        let settings = Settings::for_version(IpVersion::Ipv4);
        assert_eq!(settings.tolerance(1_000), 4_000);
        assert_eq!(settings.tolerance(1_000_000), 125_000);
    }

    #[test]
    fn faults_name_the_fix() {
        for (name, value, what) in [
            ("mss", "x", "1 to 65535"),
            ("tolerance_usec", "1", "did you mean `--tolerance_usecs`?"),
            ("non_fatal", "packets", "did you mean `packet`?"),
            ("define", "x", "NAME=VALUE"),
            ("profile", "linux-7", "did you mean `linux-7.x`?"),
        ] {
            let fault = Settings::of_run(IpVersion::Ipv4, &flags(&[(name, value)]), &[]);
            let text = fault.expect_err(name).to_string();
            assert!(text.contains(what), "{name}: {text}");
        }
        let line = flags(&[("local_ip", "::1")]);
        let text = Settings::of_run(IpVersion::Ipv4, &[], &line).expect_err("IPv6").to_string();
        assert!(text.contains("over IPv4"), "{text}");
        let fault = Settings::of_run(IpVersion::Ipv4, &flags(&[("so_filename", "x")]), &[]);
        assert!(fault.expect_err("no meaning").no_meaning);
    }
}
