//! Results of system calls: what the host returned beside what the script expects.

use super::conn::{Conn, Phase, Protocol};
use super::control;
use super::memory::message_header;
use super::option_values::option_differs;
use super::values::{bracketed, i32_of, int};
use super::{Run, Step, call_text};
use crate::ast::{CallSpec, ExprKind};
use crate::fault::Fault;
use core::net::SocketAddr;
use datapath::socket::{Data, Errno, Fd, Return, number};

type CallResult = Result<Return, Errno>;

impl Run<'_> {
    /// Compares what a call has returned, and remembers what it has opened or closed.
    pub(super) fn returned(&mut self, spec: &CallSpec, outcome: CallResult) -> Step<()> {
        self.check_result(spec, &outcome)?;
        if let Ok(done) = outcome {
            self.record_result(spec, &done)?;
            self.check_data(spec, &done.data)?;
        } else if spec.name == "epoll_wait" {
            self.check_data(spec, &Data::Events(Vec::new()))?;
        }
        Ok(())
    }

    fn check_result(&self, spec: &CallSpec, outcome: &CallResult) -> Step<()> {
        let expected = int(&spec.result)?;
        let opens = OPENING.contains(&spec.name.as_str());
        let (value, errno) = match outcome {
            Ok(done) => (done.value, None),
            Err(errno) => (-1, Some(*errno)),
        };
        let shown = match errno {
            Some(errno) => format!("-1 {errno}"),
            None => value.to_string(),
        };
        let fits = if opens && expected >= 0 { value >= 0 } else { value == expected };
        if !fits {
            let wanted = match &spec.errno {
                Some((_, name)) => format!("{expected} {name}"),
                None => expected.to_string(),
            };
            let reason = format!("{} returned {shown}, expected {wanted}", call_text(spec));
            return Err(self.fail(spec.pos, "result", reason, Vec::new()));
        }
        let Some((pos, name)) = &spec.errno else { return Ok(()) };
        let wanted = Errno::by_name(name).ok_or_else(|| {
            let known: Vec<&str> = Errno::ALL.iter().map(|(_, name, _)| *name).collect();
            Fault::unknown(*pos, "errno", name, &known)
        })?;
        if errno == Some(wanted) {
            return Ok(());
        }
        let reason = format!("{} gave {shown}, expected errno {wanted}", call_text(spec));
        Err(self.fail(spec.pos, "errno", reason, Vec::new()))
    }

    /// New descriptors and connections, and those that are gone.
    fn record_result(&mut self, spec: &CallSpec, done: &Return) -> Step<()> {
        let live = done.value as Fd;
        match spec.name.as_str() {
            "socket" => {
                let script = int(&spec.result)?;
                self.open(spec, script, live)?;
                let protocol = match (i32_of(&spec.args[1])? & 0xf, i32_of(&spec.args[2])?) {
                    (_, number::IPPROTO_ICMP | number::IPPROTO_ICMPV6) => Protocol::Icmp,
                    (number::SOCK_DGRAM, _) => Protocol::Udp,
                    _ => Protocol::Tcp,
                };
                let mut conn = Conn::new(Phase::New, protocol);
                (conn.script_fd, conn.fd) = (Some(script), Some(live));
                self.conns.push(conn);
                self.current = Some(self.conns.len() - 1);
            }
            "listen" => {
                let fd = self.fd(&spec.args[0])?;
                if let Some(conn) = self.conns.iter_mut().rev().find(|it| it.fd == Some(fd)) {
                    conn.phase = Phase::Listening;
                }
            }
            "accept" | "accept4" => self.accepted(spec, done)?,
            "epoll_create" | "epoll_create1" | "open" => {
                self.open(spec, int(&spec.result)?, live)?;
            }
            "pipe" => {
                let (ExprKind::List(list), Data::Pipe(read, write)) =
                    (&spec.args[0].kind, &done.data)
                else {
                    return Err(Fault::new(spec.pos, "expected `[read, write]`", "").into());
                };
                let (read, write) = (*read, *write);
                if let [one, two] = list.as_slice() {
                    self.open(spec, int(one)?, read)?;
                    self.open(spec, int(two)?, write)?;
                }
            }
            "close" => {
                self.fds.remove(&int(&spec.args[0])?);
            }
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, spec: &CallSpec, script: i64, live: Fd) -> Step<()> {
        if self.fds.contains_key(&script) {
            let what = format!("descriptor {script} is open already");
            return Err(Fault::new(spec.pos, what, "close it first, or take another number").into());
        }
        self.fds.insert(script, live);
        Ok(())
    }

    /// The connection that was accepted is the one whose SYN came from there.
    fn accepted(&mut self, spec: &CallSpec, done: &Return) -> Step<()> {
        let script = int(&spec.result)?;
        let live = done.value as Fd;
        let peer = match &done.data {
            Data::Address(address) => {
                Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
            }
            _ => None,
        };
        let found = self.conns.iter().rposition(|conn| {
            matches!(conn.phase, Phase::SynAckOut | Phase::Accepted)
                && conn.fd.is_none()
                && (peer.is_none() || conn.remote == peer)
        });
        let Some(index) = found else {
            let reason = "accept() gave a connection that the script has not opened";
            return Err(self.fail(spec.pos, "connection", reason, Vec::new()));
        };
        // A number that is in use already stands for the newest connection from here on.
        self.fds.insert(script, live);
        let conn = &mut self.conns[index];
        (conn.script_fd, conn.fd) = (Some(script), Some(live));
        Ok(())
    }

    /// What the call wrote to the application's memory.
    fn check_data(&self, spec: &CallSpec, data: &Data) -> Step<()> {
        let differ = |field: &str, expected: &str, actual: &str| {
            let reason =
                format!("{}: {field} expected {expected}, actual {actual}", call_text(spec));
            Err(self.fail(spec.pos, field, reason, Vec::new()))
        };
        match (spec.name.as_str(), spec.args.as_slice(), data) {
            ("ioctl", [_, _, value], Data::Number(actual)) => {
                let expected = bracketed(value)?;
                if expected != *actual {
                    return differ("value", &expected.to_string(), &actual.to_string());
                }
            }
            ("getsockopt", [_, _, _, value, len], Data::Option(actual)) => {
                if let Some((expected, actual)) = option_differs(value, bracketed(len)?, actual)? {
                    return differ("value", &expected, &actual);
                }
            }
            ("poll", [list, ..], Data::Polled(actual)) => {
                let ExprKind::List(list) = &list.kind else { return Ok(()) };
                for (entry, actual) in list.iter().zip(actual) {
                    let ExprKind::PollFd(poll) = &entry.kind else { continue };
                    let expected = poll.revents.as_ref().map_or(Ok(0), int)? as i32;
                    if expected != *actual {
                        let (expected, actual) =
                            (flag_names(expected, &POLL), flag_names(*actual, &POLL));
                        return differ("revents", &expected, &actual);
                    }
                }
            }
            ("epoll_wait", [_, event, ..], Data::Events(actual)) => {
                let expected = self.epoll_event(event)?;
                let actual = actual.first().copied().unwrap_or_default();
                if expected.events != actual.events {
                    let (expected, actual) = (
                        flag_names(expected.events as i32, &POLL),
                        flag_names(actual.events as i32, &POLL),
                    );
                    return differ("events", &expected, &actual);
                }
                if expected.data != actual.data {
                    let (expected, actual) = (expected.data.to_string(), actual.data.to_string());
                    return differ("data", &expected, &actual);
                }
            }
            ("recvmsg", [_, header, _], Data::Message(actual)) => {
                let header = message_header(header)?;
                let expected = int(&header.flags)? as i32;
                if expected != actual.flags {
                    let (expected, actual) =
                        (format!("{expected:#x}"), format!("{:#x}", actual.flags));
                    return differ("msg_flags", &expected, &actual);
                }
                let clock = control::Clock {
                    start: self.start,
                    tolerance_usecs: self.settings.tolerance_usecs,
                };
                if let Some((field, expected, actual)) =
                    control::differs(&header.control, &actual.control, clock)?
                {
                    return differ(&field, &expected, &actual);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Bits by the names of `poll` (`epoll` has the same bits).
fn flag_names(bits: i32, names: &[(i32, &str)]) -> String {
    let mut left = bits;
    let mut out = Vec::new();
    for (bit, name) in names {
        if left & bit != 0 {
            out.push((*name).to_owned());
            left &= !bit;
        }
    }
    if left != 0 || out.is_empty() {
        out.push(format!("{left:#x}"));
    }
    out.join("|")
}

const POLL: [(i32, &str); 8] = [
    (number::POLLIN, "POLLIN"),
    (number::POLLPRI, "POLLPRI"),
    (number::POLLOUT, "POLLOUT"),
    (number::POLLERR, "POLLERR"),
    (number::POLLHUP, "POLLHUP"),
    (number::POLLRDHUP, "POLLRDHUP"),
    (number::POLLRDNORM, "POLLRDNORM"),
    (number::POLLWRNORM, "POLLWRNORM"),
];

/// Calls whose result is a descriptor: any will do for the one that the script names.
const OPENING: [&str; 6] = ["socket", "accept", "accept4", "open", "epoll_create", "epoll_create1"];
