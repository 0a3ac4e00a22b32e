//! An application that behaves as real peers do: it writes, reads slowly or never, half-closes, closes with unread
//! data, resets, and waits for data that never comes. When told to stop, it reads everything, closes, and makes no
//! more connections.

use apps::{App, AppCx, AppReport};
use core::net::SocketAddr;
use datapath::host::{SocketId, TcpRead};
use datapath::node::SocketReady;
use datapath::tcp::config::TcpConfig;
use datapath::tcp::{Connection, Payload};
use datapath::units::{Duration, Instant};

use super::ledger::{Entry, Ledger, byte_at};
use super::plan::{CloseMode, EndBehaviour, ReadMode};

/// One end of a flow: connects, or accepts.
#[derive(Debug)]
pub struct PeerApp {
    role: Role,
    config: TcpConfig,
    manners: EndBehaviour,
    node: u32,
    flow: usize,
    ledger: Ledger,
    talks: Vec<Dialogue>,
    healed: bool,
    report: AppReport,
}

#[derive(Debug)]
enum Role {
    Client { local: SocketAddr, remote: SocketAddr, left: u32, fast_open: bool },
    Server { local: SocketAddr, backlog: u32, fast_open: u32, listener: Option<SocketId> },
}

/// One connection.
#[derive(Debug)]
struct Dialogue {
    socket: SocketId,
    /// Its place in the ledger.
    entry: usize,
    begun: Instant,
    left: u64,
    write_at: Instant,
    read_at: Instant,
    /// Bytes that may be read now.
    allowance: u64,
    shut: bool,
    over: bool,
}

impl PeerApp {
    /// The end that connects, `count` times, one after the other.
    pub fn client(
        (local, remote): (SocketAddr, SocketAddr),
        config: TcpConfig,
        manners: EndBehaviour,
        (count, fast_open): (u32, bool),
        (node, flow, ledger): (u32, usize, Ledger),
    ) -> Self {
        let role = Role::Client { local, remote, left: count, fast_open };
        Self::new(role, config, manners, (node, flow, ledger))
    }

    /// The end that accepts.
    pub fn server(
        local: SocketAddr,
        config: TcpConfig,
        manners: EndBehaviour,
        (backlog, fast_open): (u32, u32),
        (node, flow, ledger): (u32, usize, Ledger),
    ) -> Self {
        let role = Role::Server { local, backlog, fast_open, listener: None };
        Self::new(role, config, manners, (node, flow, ledger))
    }

    fn new(
        role: Role,
        config: TcpConfig,
        manners: EndBehaviour,
        (node, flow, ledger): (u32, usize, Ledger),
    ) -> Self {
        let (talks, report) = <_>::default();
        Self { role, config, manners, node, flow, ledger, talks, healed: false, report }
    }

    fn connect(&mut self, cx: &mut AppCx<'_>) {
        let Role::Client { local, remote, left, fast_open } = &mut self.role else { return };
        if *left == 0 || self.healed {
            return;
        }
        *left -= 1;
        let (local, remote) = (*local, *remote);
        let early =
            fast_open.then(|| self.manners.write.min(self.manners.chunk)).filter(|it| *it > 0);
        let bytes: Vec<u8> = (0..early.unwrap_or(0)).map(byte_at).collect();
        let payload =
            early.map(
                |early| if writes_bytes(self.flow) { Payload::Bytes(&bytes) } else { early.into() },
            );
        let opened = cx.host.tcp_connect_with(cx.now, local, remote, &self.config, payload);
        // Without a free port nothing has begun.
        let Ok(socket) = opened else { return };
        self.begin(cx, socket, true);
        // What goes with the SYN counts as written, as `sendto` says.
        if let Some(early) = early {
            let taken = cx.host.tcp_connection(socket).map_or(0, Connection::syn_data_taken);
            let taken = u64::from(taken);
            let talk = self.talks.last_mut().expect("just begun");
            talk.left -= taken.min(early);
            self.ledger.entries()[talk.entry].written += taken.min(early);
        }
        self.go_on(cx);
    }

    fn begin(&mut self, cx: &mut AppCx<'_>, socket: SocketId, active: bool) {
        cx.own(socket);
        let Some(tcp) = cx.host.tcp_connection(socket) else { return };
        let mut ledger = self.ledger.entries();
        self.talks.push(Dialogue {
            socket,
            entry: ledger.len(),
            begun: cx.now,
            left: self.manners.write,
            write_at: cx.now,
            read_at: cx.now,
            allowance: match self.manners.reading {
                ReadMode::Eager => u64::MAX,
                ReadMode::Slow(..) | ReadMode::Never => 0,
                ReadMode::UpTo(most) => most,
            },
            shut: false,
            over: false,
        });
        ledger.push(Entry {
            node: self.node,
            flow: self.flow,
            local: tcp.local(),
            remote: tcp.remote(),
            active,
            since: cx.now,
            written: 0,
            read: 0,
            wrong: None,
            eof: false,
            failed: false,
            failed_at: Instant::ZERO,
            error: None,
            closed: false,
            aborted: false,
        });
    }

    /// Does all that can be done now, then says when it wants to be called again.
    fn go_on(&mut self, cx: &mut AppCx<'_>) {
        let mut wake = Instant::FAR_FUTURE;
        for talk in &mut self.talks {
            let mut ledger = self.ledger.entries();
            let entry = &mut ledger[talk.entry];
            wake = wake.min(talk.go_on(cx, &self.manners, self.healed, entry));
        }
        let before = self.talks.len();
        self.talks.retain(|talk| !talk.over);
        cx.wake_at(wake);
        if self.talks.is_empty() && before > 0 {
            self.connect(cx);
        }
    }
}

impl Dialogue {
    /// When it wants to be called again.
    fn go_on(
        &mut self,
        cx: &mut AppCx<'_>,
        manners: &EndBehaviour,
        healed: bool,
        entry: &mut Entry,
    ) -> Instant {
        if let Some(at) = self.end_by_force(cx, manners, healed, entry) {
            if at <= cx.now {
                return Instant::FAR_FUTURE;
            }
            return at.min(self.talk(cx, manners, healed, entry));
        }
        self.talk(cx, manners, healed, entry)
    }

    fn talk(
        &mut self,
        cx: &mut AppCx<'_>,
        manners: &EndBehaviour,
        healed: bool,
        entry: &mut Entry,
    ) -> Instant {
        let wants_to_read = self.read(cx, manners, healed, entry);
        if self.over {
            return Instant::FAR_FUTURE;
        }
        let wants_to_write = self.write(cx, manners, healed, entry);
        self.end(cx, manners, healed, entry);
        wants_to_read.min(wants_to_write)
    }

    /// Resets or closes when its time has come; gives that time.
    fn end_by_force(
        &mut self,
        cx: &mut AppCx<'_>,
        manners: &EndBehaviour,
        healed: bool,
        entry: &mut Entry,
    ) -> Option<Instant> {
        let (CloseMode::Abort(after) | CloseMode::CloseAfter(after)) = manners.ending else {
            return None;
        };
        let at = self.begun + Duration::from_micros(after);
        if at <= cx.now && !healed {
            if matches!(manners.ending, CloseMode::Abort(_)) {
                entry.aborted = true;
                let _ = cx.host.tcp_abort(cx.now, self.socket);
            } else {
                let _ = cx.host.tcp_close(cx.now, self.socket);
            }
            entry.closed = true;
            self.over = true;
        }
        Some(at).filter(|_| !healed)
    }

    fn read(
        &mut self,
        cx: &mut AppCx<'_>,
        manners: &EndBehaviour,
        healed: bool,
        entry: &mut Entry,
    ) -> Instant {
        if healed {
            self.allowance = u64::MAX;
        }
        let mut wake = Instant::FAR_FUTURE;
        if let (ReadMode::Slow(bytes, every), false) = (manners.reading, healed) {
            if cx.now >= self.read_at {
                self.allowance = bytes;
                self.read_at = cx.now + Duration::from_micros(every);
            }
            wake = self.read_at;
        }
        while self.allowance > 0 && !entry.eof {
            match self.read_some(cx, entry) {
                TcpRead::Data(bytes) => {
                    self.allowance -= if self.allowance == u64::MAX { 0 } else { bytes };
                    entry.read += bytes;
                }
                TcpRead::WouldBlock => break,
                TcpRead::Eof => entry.eof = true,
                TcpRead::Reset => {
                    self.fail(cx, entry);
                    return Instant::FAR_FUTURE;
                }
            }
        }
        // An application that does not read learns of a failure, too.
        let failed = cx.host.tcp_connection(self.socket).is_none_or(Connection::has_error);
        if failed && !entry.eof {
            self.fail(cx, entry);
        }
        if entry.eof { Instant::FAR_FUTURE } else { wake }
    }

    /// Reads what there is, as far as it is allowed, and compares bytes with what was written.
    fn read_some(&mut self, cx: &mut AppCx<'_>, entry: &mut Entry) -> TcpRead {
        let unread = cx.host.tcp_connection(self.socket).map_or(0, Connection::unread_bytes);
        if !writes_bytes(entry.flow) || unread == 0 {
            let read = cx.host.tcp_read(cx.now, self.socket, self.allowance);
            return read.unwrap_or(TcpRead::Reset);
        }
        let mut memory = vec![0; self.allowance.min(unread.into()) as usize];
        let read = cx.host.tcp_receive(cx.now, self.socket, &mut memory).unwrap_or(TcpRead::Reset);
        if let TcpRead::Data(bytes) = read {
            let came = memory.iter().take(bytes as usize).zip(entry.read..);
            let mut wrong = came.filter(|(byte, offset)| **byte != byte_at(*offset));
            entry.wrong = entry.wrong.or(wrong.next().map(|(_, offset)| offset));
        }
        read
    }

    /// Writes so many bytes that come next in the stream, or their number alone.
    fn write_some(&mut self, cx: &mut AppCx<'_>, len: u64, entry: &Entry) -> u64 {
        if !writes_bytes(entry.flow) {
            return cx.host.tcp_write(cx.now, self.socket, len).unwrap_or(0);
        }
        let bytes: Vec<u8> = (entry.written..entry.written + len).map(byte_at).collect();
        cx.host.tcp_send(cx.now, self.socket, &bytes).unwrap_or(0)
    }

    fn fail(&mut self, cx: &mut AppCx<'_>, entry: &mut Entry) {
        (entry.failed, entry.failed_at) = (true, cx.now);
        // A socket that is gone has no error left: a read or a write has returned it.
        entry.error = cx.host.tcp_take_any_error(self.socket).unwrap_or(None);
        self.close(cx, entry);
    }

    fn close(&mut self, cx: &mut AppCx<'_>, entry: &mut Entry) {
        let _ = cx.host.tcp_close(cx.now, self.socket);
        entry.closed = true;
        self.over = true;
    }

    fn write(
        &mut self,
        cx: &mut AppCx<'_>,
        manners: &EndBehaviour,
        healed: bool,
        entry: &mut Entry,
    ) -> Instant {
        if self.shut {
            return Instant::FAR_FUTURE;
        }
        if healed {
            // The last words: they have to get through.
            (self.left, self.write_at) = (self.left.min(manners.chunk), cx.now);
        }
        while self.left > 0 && cx.now >= self.write_at {
            let taken = self.write_some(cx, self.left.min(manners.chunk), entry);
            if taken == 0 {
                return Instant::FAR_FUTURE;
            }
            self.left -= taken;
            entry.written += taken;
            let gap = if healed { 0 } else { manners.gap_us };
            self.write_at = cx.now + Duration::from_micros(gap);
        }
        if self.left > 0 { self.write_at } else { Instant::FAR_FUTURE }
    }

    fn end(&mut self, cx: &mut AppCx<'_>, manners: &EndBehaviour, healed: bool, entry: &mut Entry) {
        let written = self.left == 0;
        if entry.eof
            && (written
                || !cx.host.tcp_connection(self.socket).is_some_and(|tcp| tcp.state().can_send()))
        {
            return self.close(cx, entry);
        }
        let closes = matches!(manners.ending, CloseMode::Close) && written;
        if closes && !healed && !is_connecting(cx, self.socket) {
            return self.close(cx, entry);
        }
        let shuts = written && (healed || matches!(manners.ending, CloseMode::Shutdown));
        // To shut down what is being connected gives it up.
        let gives_up = entry.flow.is_multiple_of(2);
        if shuts && !self.shut && (gives_up || !is_connecting(cx, self.socket)) {
            self.shut = true;
            entry.aborted |= is_connecting(cx, self.socket);
            let _ = cx.host.tcp_shutdown(cx.now, self.socket);
        }
    }
}

/// Every other flow writes bytes, the rest lengths.
const fn writes_bytes(flow: usize) -> bool {
    !flow.is_multiple_of(2)
}

/// It has not been established yet, so that it cannot be shut down.
fn is_connecting(cx: &AppCx<'_>, socket: SocketId) -> bool {
    use datapath::tcp::state::State;
    cx.host.tcp_connection(socket).is_some_and(|tcp| tcp.state() == State::SynSent)
}

impl App for PeerApp {
    fn start(&mut self, cx: &mut AppCx<'_>) {
        self.report.started = Some(cx.now);
        match &mut self.role {
            Role::Client { .. } => self.connect(cx),
            Role::Server { local, backlog, fast_open, listener } => {
                let id = cx.host.tcp_listen_with(
                    cx.now,
                    *local,
                    &self.config,
                    *backlog,
                    *fast_open,
                    false,
                );
                cx.own(id);
                *listener = Some(id);
            }
        }
    }

    fn ready(&mut self, cx: &mut AppCx<'_>, ready: SocketReady) {
        if let Role::Server { listener: Some(listener), .. } = self.role
            && ready.socket == listener
        {
            while let Ok(Some(socket)) = cx.host.tcp_accept(listener) {
                self.begin(cx, socket, false);
            }
        }
        self.go_on(cx);
    }

    fn timer(&mut self, cx: &mut AppCx<'_>) {
        self.go_on(cx);
    }

    fn stop(&mut self, cx: &mut AppCx<'_>) {
        self.healed = true;
        self.go_on(cx);
    }

    fn report(&self) -> AppReport {
        let mut report = self.report.clone();
        for entry in self.ledger.entries().iter() {
            if (entry.node, entry.flow) == (self.node, self.flow) {
                report.sent_bytes += entry.written;
                report.received_bytes += entry.read;
                report.received += u64::from(entry.eof);
                report.sent += u64::from(entry.failed);
            }
        }
        report
    }
}
