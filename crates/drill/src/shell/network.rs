//! Commands about the network: `sysctl`, `ip`, `tc`, `ethtool`, `nstat`.

use super::{CommandResult, Done, Status};
use crate::fault::{Fault, Pos};
use crate::kernel::{DEVICE, Kernel, Setting};
use core::net::IpAddr;
use iproute::ip::IpError;
use std::fmt::Write as _;

/// Writes a setting. A value that it does not take is a failure of the command, as in the shell; a
/// setting that is not modelled ends the script.
pub(super) fn set(kernel: &mut Kernel, name: &str, value: &str, pos: Pos) -> Done<CommandResult> {
    match kernel.set(name, value) {
        Setting::Done => Ok(CommandResult::success()),
        Setting::Unknown => {
            Err(Fault::no_meaning(pos, format!("setting `{name}` is not modelled")))
        }
        Setting::Invalid(why) => {
            Ok(CommandResult::failed(format!("{name}: Invalid argument: {why}\n")))
        }
    }
}

/// `sysctl [-q] [-w] [-n] NAME=VALUE…` or `NAME…`.
pub(super) fn sysctl(kernel: &mut Kernel, args: &[&str], pos: Pos) -> Done<CommandResult> {
    let has = |letter| args.iter().any(|arg| arg.starts_with('-') && arg.contains(letter));
    // `-e`: settings that are not there are no fault.
    let (bare, lenient) = (has('n'), has('e'));
    let mut whole = CommandResult::success();
    for arg in args.iter().filter(|arg| !arg.starts_with('-')) {
        let Some((name, value)) = arg.split_once('=') else {
            match kernel.get(arg) {
                Some(value) if bare => {
                    let _ = writeln!(whole.out, "{value}");
                }
                Some(value) => {
                    let _ = writeln!(whole.out, "{arg} = {value}");
                }
                None => {
                    whole.status = Status::FAILURE;
                    let _ = writeln!(whole.err, "sysctl: cannot stat {arg}");
                }
            }
            continue;
        };
        let ran = match set(kernel, name, value, pos) {
            Err(fault) if lenient && fault.no_meaning => continue,
            ran => ran?,
        };
        if !ran.status.ok() {
            whole.status = ran.status;
            whole.err.push_str(&ran.err);
        }
    }
    Ok(whole)
}

/// `set_sysctls.py /proc/sys/net/ipv4/tcp_timestamps=0 …`.
pub(super) fn set_sysctls(kernel: &mut Kernel, args: &[&str], pos: Pos) -> Done<CommandResult> {
    for arg in args {
        let Some((file, value)) = arg.split_once('=') else {
            let what = format!("`{arg}` is not a setting");
            return Err(Fault::new(pos, what, "write /proc/sys/…=VALUE"));
        };
        let ran = set(kernel, file, value, pos)?;
        if !ran.status.ok() {
            return Ok(ran);
        }
    }
    Ok(CommandResult::success())
}

/// `tc qdisc …`.
pub(super) fn tc(kernel: &mut Kernel, args: &[&str], pos: Pos) -> Done<CommandResult> {
    let command = args.join(" ");
    match kernel.tc(&command) {
        Ok(out) => Ok(CommandResult::ok(out)),
        Err(why) if why.contains("nown qdisc") || why.contains("unknown") => {
            Err(Fault::no_meaning(pos, format!("`tc {command}`: {why}")))
        }
        Err(why) => Ok(CommandResult::failed(format!("{why}\n"))),
    }
}

/// `ethtool -K tun0 tso off gso off`.
pub(super) fn ethtool(kernel: &mut Kernel, args: &[&str], pos: Pos) -> Done<CommandResult> {
    let ["-K" | "--offload" | "--features", device, features @ ..] = args else {
        return Err(Fault::no_meaning(pos, "ethtool other than -K"));
    };
    if *device != DEVICE {
        return Ok(CommandResult::failed(format!("netlink error: no device {device}\n")));
    }
    for pair in features.chunks(2) {
        let [name, value @ ("on" | "off")] = pair else {
            return Ok(CommandResult::failed("ethtool: bad command line argument(s)\n".to_owned()));
        };
        if !kernel.set_offload(name, *value == "on") {
            return Err(Fault::no_meaning(pos, format!("offload `{name}` is not modelled")));
        }
    }
    Ok(CommandResult::success())
}

/// `nstat [-n] [-s] [-a] [-z] [-r] [NAME…]`: counters since the last time.
pub(super) fn nstat(kernel: &mut Kernel, args: &[&str]) -> CommandResult {
    let flag = |letter: char| args.iter().any(|it| it.starts_with('-') && it.contains(letter));
    let names: Vec<&&str> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let list = if flag('a') || flag('r') { kernel.counters() } else { kernel.counter_increments() };
    let mut out = "#kernel\n".to_owned();
    for (name, value) in list {
        let wanted = names.is_empty() || names.iter().any(|it| **it == name);
        if wanted && (value != 0 || flag('z') || !names.is_empty()) {
            writeln!(out, "{name:<32}{value:<16}   0.0").expect("a string takes anything");
        }
    }
    if !flag('s') {
        kernel.reset_counters();
    }
    if flag('n') { CommandResult::success() } else { CommandResult::ok(out) }
}

/// `ip route …`, `ip link set …`, `ip tcp_metrics …`.
pub(super) fn ip(kernel: &mut Kernel, args: &[&str], pos: Pos) -> Done<CommandResult> {
    let all = args;
    let args: Vec<&str> = args
        .iter()
        .copied()
        .filter(|arg| !matches!(*arg, "-4" | "-6" | "-o" | "-q" | "-force"))
        .collect();
    match args.as_slice() {
        ["tcp_metrics" | "tcpmetrics", rest @ ..] => Ok(match kernel.tcp_metrics(rest) {
            Ok(out) => CommandResult::ok(out),
            Err(error) => CommandResult::failed(format!("{error}\n")),
        }),
        ["link", "set", rest @ ..] => link_set(kernel, rest, pos),
        ["route" | "ro" | "r" | "rule", ..] => {
            let command = all.join(" ");
            match kernel.ip(&command) {
                Ok(out) => Ok(CommandResult::ok(out)),
                Err(IpError::Grammar(error)) => {
                    Err(Fault::no_meaning(pos, format!("`ip {command}`: {error}")))
                }
                Err(error) => Ok(CommandResult::failed(format!("{error}\n"))),
            }
        }
        ["tunnel" | "link", "add", rest @ ..] => add_tunnel(kernel, rest, pos),
        ["addr" | "address" | "a", "add" | "replace", rest @ ..] => address(kernel, rest, pos),
        ["netns" | "neigh" | "addr" | "address", ..] => {
            let why = format!("`ip {}`: the host has one interface", args.join(" "));
            Err(Fault::no_meaning(pos, why))
        }
        _ => Err(Fault::no_meaning(pos, format!("`ip {}` is not interpreted", args.join(" ")))),
    }
}

/// `ip tunnel add NAME mode MODE remote ADDRESS …`.
fn add_tunnel(kernel: &mut Kernel, words: &[&str], pos: Pos) -> Done<CommandResult> {
    match kernel.add_tunnel(words) {
        Ok(()) => Ok(CommandResult::success()),
        Err(what) if what.contains("exists") => Ok(CommandResult::failed(format!("{what}\n"))),
        Err(what) => Err(Fault::no_meaning(pos, format!("{what} is not modelled"))),
    }
}

/// `ip addr add ADDRESS[/LEN] dev DEVICE`.
fn address(kernel: &mut Kernel, words: &[&str], pos: Pos) -> Done<CommandResult> {
    let [first, .., device] = words else {
        return Ok(CommandResult::failed(
            "Not enough information: \"dev\" argument is required.\n".to_owned(),
        ));
    };
    let Some(port) = kernel.device(device) else {
        return Ok(CommandResult::failed(format!("Cannot find device \"{device}\"\n")));
    };
    let (text, len) = first.split_once('/').map_or((*first, None), |(text, len)| (text, Some(len)));
    let address = text.parse::<IpAddr>().ok();
    let all = if address.is_some_and(|it| it.is_ipv4()) { 32 } else { 128 };
    let len = len.map_or(Some(all), |len| len.parse::<u8>().ok()).filter(|len| *len <= all);
    let (Some(address), Some(len)) = (address, len) else {
        let what = format!("`{first}` is not an address");
        return Err(Fault::new(pos, what, "write ip addr add 192.0.2.1/24 dev tun0"));
    };
    kernel.add_address(port, address, len);
    Ok(CommandResult::success())
}

fn link_set(kernel: &mut Kernel, args: &[&str], pos: Pos) -> Done<CommandResult> {
    let named = args.iter().find_map(|word| kernel.device(word));
    let mut words = args.iter().copied().peekable();
    while let Some(word) = words.next() {
        match word {
            "dev" | "up" => {}
            word if kernel.device(word).is_some() => {}
            "mtu" => match words.next().and_then(|it| it.parse().ok()) {
                Some(mtu @ 68..=65_535) => {
                    let Some(port) = named else {
                        return Ok(CommandResult::failed("Cannot find device\n".to_owned()));
                    };
                    kernel.set_mtu(port, mtu);
                }
                _ => {
                    return Ok(CommandResult::failed(
                        "Error: argument is wrong: \"mtu\"\n".to_owned(),
                    ));
                }
            },
            "txqueuelen" | "txqlen" | "qlen" => {
                let value = words.next().unwrap_or_default();
                let Ok(packets) = value.parse::<i32>() else {
                    return Ok(CommandResult::failed(format!(
                        "Error: argument \"{value}\" is wrong: Invalid \"txqueuelen\" value\n\n"
                    )));
                };
                let Some(port) = named else {
                    return Ok(CommandResult::failed("Cannot find device\n".to_owned()));
                };
                kernel.set_tx_queue_len(port, packets.cast_unsigned());
            }
            "gso_max_size" | "gso_max_segs" | "gro_max_size" | "gso_ipv4_max_size"
            | "gro_ipv4_max_size" => {
                words.next();
            }
            "lo" => return Ok(CommandResult::success()),
            _ => {
                return Err(Fault::no_meaning(
                    pos,
                    format!("`ip link set {word}` is not modelled"),
                ));
            }
        }
    }
    Ok(CommandResult::success())
}

/// `ifconfig tun0 mtu 9000`.
pub(super) fn ifconfig(kernel: &mut Kernel, args: &[&str], pos: Pos) -> Done<CommandResult> {
    match args {
        [DEVICE, ..] => link_set(kernel, args, pos),
        _ => Err(Fault::no_meaning(pos, "the host has one interface, tun0")),
    }
}
