//! The recorded profile fits a build wherever the repository lies (`profile/rustc.sh`).

use crate::common::{path, scratch, stdout, write};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Says what it is given, as a compiler with the LLVM of the profile.
const COMPILER: &str = r#"#!/bin/sh
if [ "$1" = -vV ]; then echo "LLVM version: 22.1.0"; else echo "$@"; fi
"#;

/// What the compiler is called with when cargo builds a library of this repository.
fn called(name: &str, metadata: &str, level: &str) -> String {
    let folder = scratch(name);
    let compiler = write(&folder, "rustc", COMPILER);
    fs::set_permissions(&compiler, PermissionsExt::from_mode(0o755)).expect("executable");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut script = Command::new(path(&root, "profile/rustc.sh"));
    script.env_remove("ACKWRIGHT_RECORD").arg(compiler);
    script.args(["--crate-name", "sim", "--emit=dep-info,metadata,link", "-C", level]);
    stdout(&script.args(["-C", metadata, "-C", "extra-filename=-1"]).output().expect("it starts"))
}

#[test]
fn symbols_do_not_depend_on_where_a_release_is_built() {
    let here = called("profile-here", "metadata=01ab", "opt-level=3");
    let there = called("profile-there", "metadata=ef23", "opt-level=3");
    assert_eq!(here, there);
    assert!(here.contains("-C metadata=ackwright "), "{here}");
    assert!(here.contains("-Csymbol-mangling-version=v0 -Cprofile-use="), "{here}");
}

#[test]
fn other_builds_are_as_cargo_wants_them() {
    let called = called("profile-other", "metadata=01ab", "opt-level=1");
    assert!(called.contains("metadata=01ab") && !called.contains("profile-use"), "{called}");
}
