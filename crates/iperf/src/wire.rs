//! What goes over the control connection: states as single bytes, and JSON behind its length.

use crate::Error;
use datapath::tcp::cc::Algorithm;
use live::endpoint::TcpStream;
use serde_json::{Value, json};
use std::io::{self, Read, Write as _};
use std::time::{Duration, Instant};

/// What the server (or, for its own ends, the client) says comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum State {
    /// Streams are there, the test is about to begin.
    TestStart = 1,
    /// Data goes.
    TestRunning = 2,
    /// The client has had enough.
    TestEnd = 4,
    /// The client is to tell what it wants.
    ParamExchange = 9,
    /// The client is to make its data streams.
    CreateStreams = 10,
    /// The server has been ended by a signal.
    ServerTerminate = 11,
    /// The client has.
    ClientTerminate = 12,
    /// Both tell what they have counted.
    ExchangeResults = 13,
    /// All is told.
    DisplayResults = 14,
    /// The client goes.
    IperfDone = 16,
    /// The server has another client.
    AccessDenied = -1,
    /// The server cannot do that; two numbers follow that say why.
    ServerError = -2,
}

/// Bytes of the cookie that marks all connections of a test, a zero at the end included.
pub const COOKIE: usize = 37;
/// The longest JSON that is taken: results of 128 streams are a tenth of that.
const LONGEST_JSON: u32 = 1 << 20;
/// Seconds that a test may take (`MAX_TIME`).
pub const LONGEST_TEST: u64 = 86_400;
/// Seconds of which may be left out (`MAX_OMIT_TIME`).
pub const LONGEST_OMISSION: u64 = 600;
/// How long the other end may take to answer.
pub const PATIENCE: Duration = Duration::from_secs(30);

impl State {
    const ALL: [Self; 12] = [
        Self::TestStart,
        Self::TestRunning,
        Self::TestEnd,
        Self::ParamExchange,
        Self::CreateStreams,
        Self::ServerTerminate,
        Self::ClientTerminate,
        Self::ExchangeResults,
        Self::DisplayResults,
        Self::IperfDone,
        Self::AccessDenied,
        Self::ServerError,
    ];

    fn of(byte: u8) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|state| *state as i8 == byte as i8)
            .ok_or_else(|| Error(format!("unknown state {}", byte as i8)))
    }
}

/// The control connection.
#[derive(Debug)]
pub struct Control {
    stream: TcpStream,
}

impl Control {
    /// Over this connection.
    pub fn new(stream: TcpStream) -> Self {
        let _is_gone = stream.set_nodelay(true);
        Self { stream }
    }

    /// The connection.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Says what comes next.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn send_state(&self, state: State) -> Result<(), Error> {
        Ok((&self.stream).write_all(&[state as i8 as u8])?)
    }

    /// Refuses what cannot be done, with the number by which iperf3 knows why.
    pub fn refuse(&self, number: u32) {
        let mut bytes = vec![State::ServerError as i8 as u8];
        bytes.extend(number.to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        let _is_gone = (&self.stream).write_all(&bytes);
    }

    /// What the other end says next, if it says anything within `longest`.
    ///
    /// # Errors
    /// The connection is gone, or the peer sent an unknown state.
    pub fn receive_state_within(&self, longest: Duration) -> Result<Option<State>, Error> {
        let mut byte = [0];
        match self.stream.read_for(&mut byte, longest)? {
            None => Ok(None),
            Some(0) => Err(Error("the peer has closed the control connection".to_owned())),
            Some(_) => State::of(byte[0]).map(Some),
        }
    }

    /// The same, where it has to say something.
    ///
    /// # Errors
    /// As above, or it is silent for half a minute.
    pub fn receive_state(&self) -> Result<State, Error> {
        let silent = || Error(format!("nothing received from the peer for {PATIENCE:?}"));
        self.receive_state_within(PATIENCE)?.ok_or_else(silent)
    }

    /// Why the server refuses.
    pub fn receive_refusal(&self) -> Error {
        let mut numbers = [0; 8];
        let number = match TimedReader::new(&self.stream, PATIENCE).read_exact(&mut numbers) {
            Ok(()) => u32::from_be_bytes([numbers[0], numbers[1], numbers[2], numbers[3]]),
            Err(_) => 0,
        };
        Error(format!("the server refuses the test (iperf3's error number {number})"))
    }

    /// Sends JSON.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn send(&self, value: &Value) -> Result<(), Error> {
        let text = value.to_string();
        let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
        bytes.extend(text.as_bytes());
        Ok((&self.stream).write_all(&bytes)?)
    }

    /// Receives JSON.
    ///
    /// # Errors
    /// The connection is gone; what comes is none, or too long.
    pub fn receive(&self) -> Result<Value, Error> {
        self.receive_within(PATIENCE)
    }

    /// The same, where all of it has to come within `longest`.
    ///
    /// # Errors
    /// As above.
    pub fn receive_within(&self, longest: Duration) -> Result<Value, Error> {
        read_json(&mut TimedReader::new(&self.stream, longest))
    }
}

/// Whether this may be the cookie that comes first on every connection: signs, and a zero at the end.
pub fn is_cookie(bytes: &[u8; COOKIE]) -> bool {
    let (signs, end) = bytes.split_at(COOKIE - 1);
    signs.iter().all(u8::is_ascii_graphic) && end == [0]
}

fn read_json(from: &mut impl Read) -> Result<Value, Error> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let len = u32::from_be_bytes(len);
    if len > LONGEST_JSON {
        return Err(Error(format!("{len} bytes of JSON: at most {LONGEST_JSON} are accepted")));
    }
    let mut text = vec![0; len as usize];
    from.read_exact(&mut text)?;
    serde_json::from_slice(&text).map_err(|error| Error(format!("the peer's JSON: {error}")))
}

/// Reads, but does not wait for ever.
struct TimedReader<'a> {
    stream: &'a TcpStream,
    over: Instant,
}

impl<'a> TimedReader<'a> {
    fn new(stream: &'a TcpStream, longest: Duration) -> Self {
        Self { stream, over: Instant::now() + longest }
    }
}

impl Read for TimedReader<'_> {
    fn read(&mut self, memory: &mut [u8]) -> io::Result<usize> {
        let left = self.over.saturating_duration_since(Instant::now());
        self.stream.read_for(memory, left)?.ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Seconds; 0 if `bytes` say when it is over.
    pub seconds: u64,
    /// Seconds before those that are left out: flows are in slow start then.
    pub omit: u64,
    /// Bytes in all; 0 for no limit.
    pub bytes: u64,
    /// Data streams.
    pub parallel: usize,
    /// Bytes of each write.
    pub len: usize,
    /// The server sends.
    pub reverse: bool,
    /// Congestion control of the data streams; `None` for what is set.
    pub congestion: Option<String>,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// `TCP_MAXSEG`; 0 for what the path has.
    pub mss: u16,
    /// bit/s of each stream; 0 for no limit.
    pub rate: u64,
}

impl Params {
    /// As iperf3 3.12 writes them.
    pub fn json(&self) -> Value {
        let mut json = json!({
            "tcp": true, "omit": self.omit, "time": self.seconds, "num": self.bytes, "blockcount": 0,
            "parallel": self.parallel, "len": self.len, "pacing_timer": 1000, "client_version": "3.12",
        });
        let object = json.as_object_mut().expect("an object");
        if self.reverse {
            object.insert("reverse".to_owned(), true.into());
        }
        if self.nodelay {
            object.insert("nodelay".to_owned(), true.into());
        }
        if self.mss > 0 {
            object.insert("MSS".to_owned(), self.mss.into());
        }
        if self.rate > 0 {
            object.insert("bandwidth".to_owned(), self.rate.into());
        }
        if let Some(name) = &self.congestion {
            object.insert("congestion".to_owned(), name.as_str().into());
        }
        json
    }

    /// Reads what a client wants.
    ///
    /// # Errors
    /// With the number by which iperf3 knows the reason: it is not TCP, goes both ways at once, or is more
    /// than can be.
    pub fn read(value: &Value) -> Result<Self, (u32, Error)> {
        /// `IEUNIMP`, `IENUMSTREAMS`, `IEBLOCKSIZE`, `IEDURATION`, `IEOMIT`, `IESETCONGESTION`.
        const UNIMPLEMENTED: u32 = 13;
        const STREAMS: u32 = 6;
        const BLOCK: u32 = 7;
        const DURATION: u32 = 5;
        const OMIT: u32 = 12;
        const CONGESTION: u32 = 134;
        let number = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or(0);
        let flag = |name: &str| match value.get(name) {
            Some(Value::Bool(on)) => *on,
            Some(other) => other.as_u64().unwrap_or(0) != 0,
            None => false,
        };
        let fault = |number, text: &str| Err((number, Error(text.to_owned())));
        for other in ["udp", "sctp", "bidirectional"] {
            if flag(other) {
                return fault(
                    UNIMPLEMENTED,
                    &format!("the client asks for {other}, which is not supported"),
                );
            }
        }
        if !(1..=128).contains(&number("parallel")) {
            return fault(STREAMS, "the client asks for less than 1 stream or more than 128");
        }
        let len = number("len");
        if !(1..=1 << 20).contains(&len) {
            return fault(
                BLOCK,
                "the client asks for writes of less than 1 byte or more than a megabyte",
            );
        }
        if number("time") > LONGEST_TEST {
            return fault(DURATION, "the client asks for a test of more than a day");
        }
        if number("omit") > LONGEST_OMISSION {
            return fault(OMIT, "the client asks to omit more than 600 seconds");
        }
        let congestion = value.get("congestion").and_then(Value::as_str).map(str::to_owned);
        if let Some(name) = &congestion
            && Algorithm::by_name(name).is_none()
        {
            return fault(
                CONGESTION,
                &format!(
                    "the client asks for the congestion control {name:?}, which is not available"
                ),
            );
        }
        Ok(Self {
            seconds: number("time"),
            omit: number("omit"),
            bytes: number("num").max(number("blockcount").saturating_mul(len)),
            parallel: number("parallel") as usize,
            len: len as usize,
            reverse: flag("reverse"),
            congestion,
            nodelay: flag("nodelay"),
            mss: number("MSS").min(u64::from(u16::MAX)) as u16,
            rate: number("bandwidth"),
        })
    }
}

/// What one end has counted of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StreamResult {
    /// The stream's number: 1, 3, 4, 5, …
    pub id: u64,
    /// Bytes sent or received.
    pub bytes: u64,
    /// Retransmissions, at the sender.
    pub retransmits: Option<u64>,
}

/// What one end has counted.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Results {
    /// Of a core, in percent: all, user, system.
    pub cpu: [f64; 3],
    /// Congestion control.
    pub congestion: Option<String>,
    /// Stream by stream.
    pub streams: Vec<StreamResult>,
}

impl Results {
    /// As iperf3 3.12 writes them, after so many seconds.
    pub fn json(&self, is_sender: bool, seconds: f64) -> Value {
        let streams = self.streams.iter().map(|stream| {
            let retransmits = stream.retransmits.map_or(-1, |count| count as i64);
            json!({
                "id": stream.id, "bytes": stream.bytes, "retransmits": retransmits, "jitter": 0,
                "errors": 0, "packets": 0, "start_time": 0, "end_time": seconds,
            })
        });
        json!({
            "cpu_util_total": self.cpu[0], "cpu_util_user": self.cpu[1], "cpu_util_system": self.cpu[2],
            "sender_has_retransmits": if is_sender { 1 } else { -1 },
            "congestion_used": self.congestion,
            "streams": streams.collect::<Vec<_>>(),
        })
    }

    /// Reads what the other end has counted. What is missing counts as 0.
    pub fn read(value: &Value) -> Self {
        let cpu = ["cpu_util_total", "cpu_util_user", "cpu_util_system"];
        let streams = value.get("streams").and_then(Value::as_array);
        let stream = |value: &Value| StreamResult {
            id: value.get("id").and_then(Value::as_u64).unwrap_or(0),
            bytes: value.get("bytes").and_then(Value::as_u64).unwrap_or(0),
            retransmits: value.get("retransmits").and_then(Value::as_u64),
        };
        Self {
            cpu: cpu.map(|name| value.get(name).and_then(Value::as_f64).unwrap_or(0.0)),
            congestion: value.get("congestion_used").and_then(Value::as_str).map(str::to_owned),
            streams: streams.map(|all| all.iter().map(stream).collect()).unwrap_or_default(),
        }
    }
}

/// The number of stream `index`, from 0, as iperf3 counts them.
pub fn stream_id(index: usize) -> u64 {
    if index == 0 { 1 } else { index as u64 + 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> Params {
        Params {
            seconds: 10,
            omit: 3,
            bytes: 0,
            parallel: 2,
            len: 131_072,
            reverse: true,
            congestion: Some("dctcp".to_owned()),
            nodelay: true,
            mss: 1_000,
            rate: 5_000_000,
        }
    }

    #[test]
    fn parameters_come_back() {
        assert_eq!(Params::read(&params().json()).map_err(|(_, error)| error.0), Ok(params()));
        // iperf3 3.12 writes switches as numbers.
        let real = r#"{"tcp":true,"omit":0,"time":5,"num":0,"blockcount":0,"parallel":1,"reverse":true,
            "len":131072,"pacing_timer":1000,"client_version":"3.12"}"#;
        let read = Params::read(&serde_json::from_str(real).expect("JSON")).expect("parameters");
        assert_eq!((read.seconds, read.reverse, read.congestion), (5, true, None));
    }

    #[test]
    fn what_cannot_be_is_refused_with_iperfs_number() {
        let refusal = |name: &str, value: Value| {
            let mut json = params().json();
            json[name] = value;
            Params::read(&json).map_err(|(number, _)| number)
        };
        assert_eq!(refusal("udp", true.into()), Err(13));
        assert_eq!(refusal("bidirectional", 1.into()), Err(13));
        assert_eq!(refusal("parallel", 0.into()), Err(6));
        assert_eq!(refusal("parallel", 1_000_000_000.into()), Err(6));
        assert_eq!(refusal("len", u64::MAX.into()), Err(7));
        assert_eq!(refusal("congestion", "vegetarian".into()), Err(134));
        assert_eq!(refusal("parallel", "many".into()), Err(6));
        assert_eq!(refusal("time", 86_401.into()), Err(5));
        assert_eq!(refusal("omit", 601.into()), Err(12));
    }

    #[test]
    fn results_come_back() {
        let streams = vec![
            StreamResult { id: 1, bytes: 5, retransmits: Some(7) },
            StreamResult { id: 3, bytes: 6, retransmits: None },
        ];
        let congestion = Some("cubic".to_owned());
        let results = Results { cpu: [3.0, 2.0, 1.0], congestion, streams };
        assert_eq!(Results::read(&results.json(true, 1.0)), results);
        assert_eq!(Results::read(&Value::Null), Results::default());
        assert_eq!([0, 1, 2].map(stream_id), [1, 3, 4]);
    }

    #[test]
    fn a_cookie_is_36_signs_and_a_zero() {
        let cookie = |text: &str| is_cookie(text.as_bytes().try_into().expect("37 bytes"));
        assert!(cookie("abcdefghijklmnopqrstuvwxyz234567abcd\0"));
        // As an iperf3 before 3.2 made it.
        assert!(cookie("host.example.1700000000.000123.12345\0"));
        assert!(!cookie("abcdefghijklmnopqrstuvwxyz234567abcde"));
        assert!(!cookie("GET / HTTP/1.1\r\nHost: 10.77.0.20\r\n\r\n\0"));
        assert!(!is_cookie(&[0; COOKIE]) && !is_cookie(&[0xff; COOKIE]));
    }

    #[test]
    fn json_that_is_too_long_or_none_is_refused() {
        let read = |bytes: &[u8]| read_json(&mut &bytes[..]).map_err(|error| error.0);
        assert_eq!(read(b"\0\0\0\x02{}"), Ok(json!({})));
        assert!(read(b"\xff\xff\xff\xff").expect_err("too long").contains("are accepted"));
        assert!(read(b"\0\0\0\x02{").is_err());
        assert!(read(b"\0\0\0\x01x").is_err());
    }
}
