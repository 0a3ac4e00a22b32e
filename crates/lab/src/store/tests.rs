use super::*;
use crate::results::Column;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("ackwright-store-{name}-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory for the test");
    dir
}

#[test]
fn a_series_survives_parquet() {
    let store = Store::create(&scratch("series")).unwrap();
    let series = Series {
        name: "flow-a".into(),
        time_ns: [0, 10, 20].into(),
        columns: vec![Column {
            name: "cwnd_segments".into(),
            values: vec![Some(10), None, Some(20)].into(),
        }],
    };
    let path = store.write_series("a/b.parquet", &series, &[]).unwrap();
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[2].get_long(0).unwrap(), 20);
    assert_eq!(rows[2].get_long(1).unwrap(), 20);
    assert!(rows[1].get_long(1).is_err(), "an unknown value is null");
    assert_eq!(
        series::parquet_bytes(&series, &[]).unwrap(),
        series::parquet_bytes(&series, &[]).unwrap()
    );
    fs::remove_dir_all(store.root()).unwrap();
}

#[test]
fn an_unwritable_place_is_a_clear_error() {
    let dir = scratch("file");
    let file = dir.join("plain");
    fs::write(&file, b"x").unwrap();
    let error = Store::create(&file).unwrap_err().to_string();
    assert!(error.starts_with("cannot write"), "{error}");
    let store = Store::create(&dir).unwrap();
    let error = store.write("plain/below", b"y").unwrap_err().to_string();
    assert!(error.contains("plain"), "{error}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_is_not_committed_vanishes() {
    let store = Store::create(&scratch("pending")).unwrap();
    let mut pending = store.begin("x").unwrap();
    pending.write_all(b"half").unwrap();
    drop(pending);
    assert_eq!(fs::read_dir(store.root()).unwrap().count(), 0);
    fs::remove_dir_all(store.root()).unwrap();
}

#[test]
fn a_file_that_another_run_is_writing_is_left_to_it() {
    let store = Store::create(&scratch("both")).unwrap();
    // What a process that was killed has left is in nobody's way.
    fs::write(store.root().join(".x.part"), b"half").unwrap();
    let mut first = store.begin("x").unwrap();
    first.write_all(b"first").unwrap();
    let refused = store.begin("x").unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("by another run"), "{refused}");
    assert_eq!(fs::read(first.commit().unwrap()).unwrap(), b"first");
    assert_eq!(fs::read(store.write("x", b"second").unwrap()).unwrap(), b"second");
    fs::remove_dir_all(store.root()).unwrap();
}

#[test]
fn a_file_that_is_there_is_replaced_whole() {
    let store = Store::create(&scratch("replace")).unwrap();
    store.write("x", b"old and long").unwrap();
    let path = store.write("x", b"new").unwrap();
    assert_eq!(fs::read(path).unwrap(), b"new");
    let left = fs::read_dir(store.root()).unwrap().count();
    assert_eq!(left, 1, "nothing is left aside");
    fs::remove_dir_all(store.root()).unwrap();
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_permissions_are_kept() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let dir = scratch("links");
    let real = dir.join("real");
    fs::write(&real, b"old").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    symlink("real", dir.join("one")).unwrap();
    symlink("one", dir.join("two")).unwrap();
    replace(&dir.join("two"), b"new").unwrap();
    assert_eq!(fs::read(&real).unwrap(), b"new");
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(dir.join("two").is_symlink() && dir.join("one").is_symlink());
    // A link to what is not there yet makes it.
    symlink("later", dir.join("dangling")).unwrap();
    replace(&dir.join("dangling"), b"made").unwrap();
    assert_eq!(fs::read(dir.join("later")).unwrap(), b"made");
    // One that leads in a circle is an error.
    symlink("round", dir.join("round")).unwrap();
    assert!(replace(&dir.join("round"), b"x").is_err());
    fs::remove_dir_all(dir).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn devices_are_written_to_and_stay_what_they_are() {
    use std::os::unix::fs::FileTypeExt as _;
    replace(Path::new("/dev/null"), b"x").unwrap();
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let full = replace(Path::new("/dev/full"), b"x").unwrap_err().to_string();
    assert!(full.starts_with("cannot write /dev/full: the disk is full"), "{full}");
    assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
}

#[test]
fn directories_and_empty_names_are_no_files() {
    let dir = scratch("no-file");
    for path in [&dir, &dir.join(".."), Path::new(""), Path::new("/")] {
        assert!(replace(path, b"x").is_err(), "{}", path.display());
    }
    let refused = Store::create(Path::new("-")).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("standard output"), "{refused}");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn results_replace_those_of_an_earlier_run_and_nothing_else() {
    let root = scratch("earlier");
    fs::write(root.join("notes.txt"), b"mine").unwrap();
    let write = |names: &[&str]| {
        let (store, removed) = Store::results(&root, "test").unwrap();
        for name in names {
            store.write(name, b"x").unwrap();
        }
        store.sort_list().unwrap();
        removed
    };
    assert_eq!(write(&["summary.json", "series/seed-1/flow-a.parquet", "pcap/a.pcapng"]), 0);
    // What was killed leaves parts behind.
    fs::write(root.join("pcap/.b.pcapng.part"), b"half").unwrap();
    assert_eq!(write(&["summary.json", "series/seed-9/flow-a.parquet"]), 3);
    assert!(!root.join("series/seed-1").exists() && !root.join("pcap").exists());
    assert!(root.join("series/seed-9/flow-a.parquet").exists());
    assert_eq!(fs::read(root.join("notes.txt")).unwrap(), b"mine");
    // A file of somebody else in the way: nothing is removed.
    fs::write(root.join("series/seed-9/mine.parquet"), b"mine").unwrap();
    let refused = Store::results(&root, "test").unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
    assert!(refused.to_string().contains("mine.parquet"), "{refused}");
    assert!(root.join("summary.json").exists());
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn what_other_processes_left_half_written_goes() {
    let root = scratch("parts");
    let (store, _) = Store::results(&root, "test").unwrap();
    store.write("series/a-seed-1/flow-f.parquet", b"whole").unwrap();
    let half = ["runs/.a-seed-1.json.0f.part", "series/a-seed-1/.flow-f.parquet.1e.part"];
    // What is not called as results are may be anybody's.
    let others = [".mine.part", "notes/.mine.part"];
    for name in half.iter().chain(&others) {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), b"half").unwrap();
    }
    store.remove_parts().unwrap();
    assert!(half.iter().all(|name| !root.join(name).exists()));
    assert!(others.iter().all(|name| root.join(name).exists()));
    assert!(root.join("series/a-seed-1/flow-f.parquet").exists());
    fs::remove_dir_all(root).unwrap();
}

/// A worker that was killed has written some files of its run, and nobody has listed them: the next results replace them.
#[test]
fn files_of_a_run_that_was_expected_are_ours() {
    let root = scratch("expected");
    let (store, _) = Store::results(&root, "test").unwrap();
    store.note(["runs/fq-seed-1.json".to_owned()]).unwrap();
    drop(store);
    for name in [
        "series/fq-seed-1/flow-f.parquet",
        "view/fq-seed-1/world.json",
        "pcap/fq-seed-1-r.wan.pcapng",
        "explain/fq-seed-1-f.txt",
        "flows.csv/fq-seed-1.csv",
    ] {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), b"x").unwrap();
    }
    assert_eq!(Store::results(&root, "test").unwrap().1, 5);
    fs::create_dir_all(root.join("view/other-seed-1")).unwrap();
    fs::write(root.join("view/other-seed-1/world.json"), b"mine").unwrap();
    assert!(Store::results(&root, "test").unwrap_err().is_refusal());
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_series_is_written_the_same_whatever_was_written_before() {
    let series = |name: &str, times: std::ops::Range<i64>| Series {
        name: name.into(),
        time_ns: times.clone().collect(),
        columns: vec![Column {
            name: "cwnd_segments".into(),
            values: times.map(|at| (at % 3 > 0).then_some(at)).collect(),
        }],
    };
    let labels = |flow: &str, seed: i64| {
        let text = |name: &str, text: &str| (name.to_owned(), Label::Text(text.into()));
        vec![text("point", "x=1"), ("seed".into(), Label::Whole(seed)), text("flow", flow)]
    };
    let files = [
        (series("flow-a", 0..50), labels("a", 1)),
        (series("flow-b", 0..50), labels("b", 1)),
        (series("flow-b", 0..50), labels("b", 2)),
        (series("flow-b", 0..49), labels("b", 2)),
        (series("flow-b", 1..50), labels("a", 2)),
        (series("flow-a", 0..0), labels("a", 1)),
        (series("flow-a", 0..50), labels("a", 1)),
    ];
    let bytes = |(one, labels): &(Series, Vec<(String, Label)>)| {
        series::parquet_bytes(one, labels).unwrap()
    };
    let together: Vec<Vec<u8>> = files.iter().map(bytes).collect();
    // Another thread has written nothing before.
    let alone = |file| std::thread::scope(|scope| scope.spawn(|| bytes(file)).join().unwrap());
    for (file, together) in files.iter().zip(together) {
        assert!(alone(file) == together, "{}", file.0.name);
        let place = scratch("same").join("one.parquet");
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&place, &together).unwrap();
        let read = fs::File::open(&place).unwrap();
        assert_eq!(series::read(read, &file.0.name).unwrap(), file.0);
    }
}
