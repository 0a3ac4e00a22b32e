//! What a trace (`--trace`) costs in memory does not depend on how long the run is: it goes to its file as it
//! comes. Files for qvis (`--qlog`) are held until the end, as docs/seeing.md says.

use allocation_counter::measure;
use lab::plan::Experiment;
use lab::run::{Options, run_plan};
use lab::trace::TraceOutputs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Most bytes that a run of so many seconds holds at a time, besides what it held before.
fn peak(seconds: u32, wanted: Option<&TraceOutputs>) -> u64 {
    let text = format!(
        "schema = 1\nname = \"t\"\nduration = \"{seconds}s\"\nnodes = {{ a = {{}}, b = {{}} }}\n\
         [links.wire]\nends = [\"a\", \"b\"]\nrate = \"20mbit\"\nrtt = \"10ms\"\nloss = \"0.5%\"\n\
         [flows.f]\napp = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n"
    );
    let experiment = Experiment::parse("t.toml", &text, &[]).unwrap_or_else(|f| panic!("{f}"));
    let stop = AtomicBool::new(false);
    let options = Options { wanted, ..Options::silent(&stop) };
    measure(|| {
        run_plan(&experiment.base, "t", &options).expect("it runs");
    })
    .bytes_max
}

/// What tracing adds to the peak of a run of so many seconds, and how long the file is.
fn added(seconds: u32) -> (u64, u64) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("trace-memory");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a directory");
    let perfetto = folder.join("t.pftrace");
    let wanted =
        TraceOutputs { perfetto: Some(perfetto.clone()), packets: true, ..TraceOutputs::default() };
    let with = peak(seconds, Some(&wanted));
    let without = peak(seconds, None);
    let length = std::fs::metadata(perfetto).expect("it was written").len();
    (with.saturating_sub(without), length)
}

#[test]
fn a_long_trace_needs_no_more_memory_than_a_short_one() {
    let ((short, short_file), (long, long_file)) = (added(1), added(4));
    println!("1 s: {short} bytes for {short_file}; 4 s: {long} bytes for {long_file}");
    assert!(long_file > 3 * short_file, "{long_file} and {short_file} bytes of trace");
    let more = long.saturating_sub(short);
    assert!(
        more < (long_file - short_file) / 20,
        "{more} bytes more for 4 s than for 1 s: {short}, {long}"
    );
}
