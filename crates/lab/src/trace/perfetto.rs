//! Perfetto's trace format, as far as tracks of events need it: `TrackEvent`s in protobuf, written
//! packet by packet. Field numbers are those of Perfetto's `protos/perfetto/trace`, which are fixed.

use std::collections::HashMap;
use std::io::{self, Write};

use datapath::units::Instant;
use prost::Message;

/// `TracePacket`.
#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

/// `TrackDescriptor`.
#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
    /// `ChildTracksOrdering`.
    #[prost(int32, optional, tag = "11")]
    child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    sibling_order_rank: Option<i32>,
}

/// `ProcessDescriptor`.
#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

/// `CounterDescriptor`.
#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {
    #[prost(string, optional, tag = "6")]
    unit_name: Option<String>,
}

/// `TrackEvent`.
#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

/// `DebugAnnotation`.
#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    name_iid: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    int_value: Option<i64>,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
}

/// `InternedData`: names that later events give by number.
#[derive(Clone, PartialEq, Message)]
struct InternedData {
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<Interned>,
    #[prost(message, repeated, tag = "3")]
    debug_annotation_names: Vec<Interned>,
}

/// `EventName`, `DebugAnnotationName`.
#[derive(Clone, PartialEq, Message)]
struct Interned {
    #[prost(uint64, optional, tag = "1")]
    iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

/// `TrackEvent.Type`.
#[derive(Clone, Copy)]
enum Kind {
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

/// `SEQ_INCREMENTAL_STATE_CLEARED`: the names begin here.
const NAMES_BEGIN: u32 = 1;
/// `SEQ_NEEDS_INCREMENTAL_STATE`: names of before are used.
const NEEDS_NAMES: u32 = 2;
/// `EXPLICIT` of `ChildTracksOrdering`.
const BY_RANK: i32 = 3;
/// The field of `Trace` that packets are, with its wire type.
const PACKET_TAG: u8 = 1 << 3 | 2;
/// All packets are of one sequence.
const SEQUENCE: u32 = 1;

/// A track of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track(u64);

/// What is said of an event beside its name.
#[derive(Clone, Debug, Default)]
pub struct Annotations<'a> {
    /// Names and numbers.
    pub numbers: &'a [(&'static str, i64)],
    /// A name and a text.
    pub text: Option<(&'static str, String)>,
    /// Arrows that lead here and go on.
    pub flows: Vec<u64>,
    /// Arrows that end here.
    pub ends: Vec<u64>,
}

/// Writes a trace. It keeps names and nothing else, so that a trace may have any length. The first
/// error is kept, nothing is written after it, and [`Writer::finish`] tells.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    error: Option<io::Error>,
    tracks: u64,
    processes: i32,
    names: HashMap<String, u64>,
    note_names: HashMap<String, u64>,
    buffer: Vec<u8>,
    begun: bool,
}

impl<W: Write> Writer<W> {
    /// A trace that goes to `out`.
    pub fn new(out: W) -> Self {
        Self {
            out,
            error: None,
            tracks: 0,
            processes: 0,
            names: HashMap::new(),
            note_names: HashMap::new(),
            buffer: Vec::new(),
            begun: false,
        }
    }

    /// Ends the trace, and gives back what it was written to.
    ///
    /// # Errors
    /// The first error that there was.
    pub fn finish(mut self) -> io::Result<W> {
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(self.out),
        }
    }

    /// A process: a node of the network.
    pub fn process(&mut self, name: &str) -> Track {
        self.processes += 1;
        let process =
            ProcessDescriptor { pid: Some(self.processes), process_name: Some(name.to_owned()) };
        self.describe(TrackDescriptor { process: Some(process), ..TrackDescriptor::default() })
    }

    /// A track below another one.
    pub fn track(&mut self, parent: Track, name: &str, rank: i32) -> Track {
        self.describe(TrackDescriptor {
            name: Some(name.to_owned()),
            parent_uuid: Some(parent.0),
            child_ordering: Some(BY_RANK),
            sibling_order_rank: Some(rank),
            ..TrackDescriptor::default()
        })
    }

    /// A counter below a track.
    pub fn counter(&mut self, parent: Track, name: &str, unit: &str, rank: i32) -> Track {
        self.describe(TrackDescriptor {
            name: Some(name.to_owned()),
            parent_uuid: Some(parent.0),
            counter: Some(CounterDescriptor { unit_name: Some(unit.to_owned()) }),
            sibling_order_rank: Some(rank),
            ..TrackDescriptor::default()
        })
    }

    /// A slice begins.
    pub fn begin(&mut self, at: Instant, track: Track, name: &str) {
        self.event(at, track, Kind::SliceBegin, Some(name), Annotations::default(), None);
    }

    /// The innermost slice of a track ends.
    pub fn end(&mut self, at: Instant, track: Track) {
        self.event(at, track, Kind::SliceEnd, None, Annotations::default(), None);
    }

    /// Something happens.
    pub fn instant(&mut self, at: Instant, track: Track, name: &str, notes: Annotations<'_>) {
        self.event(at, track, Kind::Instant, Some(name), notes, None);
    }

    /// A counter has this value from now on.
    pub fn set(&mut self, at: Instant, track: Track, value: i64) {
        self.event(at, track, Kind::Counter, None, Annotations::default(), Some(value));
    }

    fn describe(&mut self, track: TrackDescriptor) -> Track {
        self.tracks += 1;
        let uuid = Some(self.tracks);
        let descriptor = TrackDescriptor { uuid, ..track };
        self.write(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() });
        Track(self.tracks)
    }

    fn event(
        &mut self,
        at: Instant,
        track: Track,
        kind: Kind,
        name: Option<&str>,
        notes: Annotations<'_>,
        counter_value: Option<i64>,
    ) {
        let mut new = InternedData::default();
        let name_iid = name.map(|name| intern(&mut self.names, name, &mut new.event_names));
        let mut note = |name: &'static str| {
            Some(intern(&mut self.note_names, name, &mut new.debug_annotation_names))
        };
        let mut annotations = Vec::with_capacity(notes.numbers.len());
        for &(name, value) in notes.numbers {
            let int_value = Some(value);
            annotations.push(DebugAnnotation {
                name_iid: note(name),
                int_value,
                ..Default::default()
            });
        }
        if let Some((name, text)) = notes.text {
            let string_value = Some(text);
            annotations.push(DebugAnnotation {
                name_iid: note(name),
                string_value,
                ..Default::default()
            });
        }
        let event = TrackEvent {
            debug_annotations: annotations,
            r#type: Some(kind as i32),
            name_iid,
            track_uuid: Some(track.0),
            counter_value,
            flow_ids: notes.flows,
            terminating_flow_ids: notes.ends,
        };
        let is_new = !new.event_names.is_empty() || !new.debug_annotation_names.is_empty();
        self.write(TracePacket {
            timestamp: Some(at.as_nanos()),
            track_event: Some(event),
            interned_data: is_new.then_some(new),
            ..TracePacket::default()
        });
    }

    fn write(&mut self, mut packet: TracePacket) {
        if self.error.is_some() {
            return;
        }
        let begins = if std::mem::replace(&mut self.begun, true) { 0 } else { NAMES_BEGIN };
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        packet.sequence_flags = Some(NEEDS_NAMES | begins);
        self.buffer.clear();
        self.buffer.push(PACKET_TAG);
        let encoded = packet.encode_length_delimited(&mut self.buffer).map_err(io::Error::other);
        self.error = encoded.and_then(|()| self.out.write_all(&self.buffer)).err();
    }
}

/// The number of a name; a new name is written to the trace first.
fn intern(names: &mut HashMap<String, u64>, name: &str, new: &mut Vec<Interned>) -> u64 {
    if let Some(&iid) = names.get(name) {
        return iid;
    }
    let iid = names.len() as u64 + 1;
    names.insert(name.to_owned(), iid);
    new.push(Interned { iid: Some(iid), name: Some(name.to_owned()) });
    iid
}
