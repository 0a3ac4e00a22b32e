//! Settings of the neighbour layer and of ICMP, by their names as sysctls.

use datapath::host::{Host, IcmpLimits};
use datapath::neighbour::{Neighbours, Settings};
use datapath::rng::Rng;
use datapath::units::{Duration, Instant};

/// Names that are settings of the neighbour layer, of ICMP or of fragments.
pub(super) fn is_own_sysctl(name: &str) -> bool {
    let begins = |with: &str| name.starts_with(with);
    begins("net.ipv4.neigh.default.")
        || begins("net.ipv6.neigh.default.")
        || begins("net.ipv4.icmp_")
        || begins("net.ipv6.icmp.")
        || Host::IP_SYSCTLS.contains(&name)
}

/// Whether such a setting is there and can have the value.
pub(super) fn check_sysctl(name: &str, value: &str) -> Result<(), String> {
    let mut host = Host::new();
    host.set_icmp_limits(IcmpLimits::default(), Rng::stream(0, 0));
    let table = Neighbours::new(Settings::default(), Rng::stream(0, 0));
    host.enable_neighbours(table, false);
    set_sysctl(&mut host, Instant::ZERO, name, value)
}

/// Sets one.
pub(super) fn set_sysctl(
    host: &mut Host,
    now: Instant,
    name: &str,
    value: &str,
) -> Result<(), String> {
    if Host::IP_SYSCTLS.contains(&name) {
        return host.set_ip_sysctl(name, value).map_err(|error| format!("{name}: {error:?}"));
    }
    let number: u32 =
        value.parse().map_err(|_| format!("{name}: \"{value}\" is not a number of 0 or more"))?;
    let unknown = || Err(format!("cannot stat \"{name}\""));
    if name.contains(".neigh.") {
        let set = host.change_neighbours(now, |table| table.settings_mut().set(name, number));
        return if set == Some(true) { Ok(()) } else { unknown() };
    }
    let Some(limits) = host.icmp_limits_mut() else { return unknown() };
    let millis = Duration::from_millis(number.into());
    match name {
        "net.ipv4.icmp_msgs_per_sec" => limits.msgs_per_sec = number,
        "net.ipv4.icmp_msgs_burst" => limits.msgs_burst = number,
        "net.ipv4.icmp_ratelimit" => limits.ratelimit = millis,
        "net.ipv4.icmp_ratemask" => limits.ratemask = number,
        "net.ipv6.icmp.ratelimit" => limits.ratelimit_v6 = millis,
        _ => return unknown(),
    }
    Ok(())
}
