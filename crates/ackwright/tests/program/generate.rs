//! Man pages and completions.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::common::{ackwright, path, scratch, stderr, stdout, write};

/// The commands that `--help` names.
fn commands() -> BTreeSet<String> {
    let help = stdout(&ackwright(&["--help"]));
    let list = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next());
    let names = list.expect("a list of commands").lines().filter_map(|line| {
        let name = line.strip_prefix("  ")?.split(' ').next()?;
        (!name.is_empty() && name != "help").then(|| name.to_owned())
    });
    names.collect()
}

#[test]
fn every_command_has_a_man_page() {
    let directory = scratch("man");
    stdout(&ackwright(&["generate", "man", &path(&directory, "man1")]));
    let pages: BTreeSet<String> = fs::read_dir(directory.join("man1"))
        .expect("a directory")
        .map(|page| page.expect("a page").file_name().to_string_lossy().into_owned())
        .collect();
    let commands = commands();
    assert!(commands.contains("run") && commands.contains("drill"), "{commands:?}");
    for name in &commands {
        assert!(pages.contains(&format!("ackwright-{name}.1")), "no page of {name} in {pages:?}");
    }
    assert!(!pages.contains("ackwright-generate.1"), "{pages:?}");
    let page = fs::read_to_string(directory.join("man1/ackwright-run.1")).expect("a page");
    assert!(page.contains(".TH") && page.contains("\\-\\-live"), "{page}");
    assert!(page.contains("ackwright run experiments/first.toml"), "no examples: {page}");
}

#[test]
fn shells_complete_commands_and_options() {
    let directory = scratch("completions");
    stdout(&ackwright(&["generate", "completions", &path(&directory, "")]));
    let files =
        ["ackwright.bash", "ackwright.elv", "ackwright.fish", "_ackwright", "_ackwright.ps1"];
    for file in files {
        let text = fs::read_to_string(directory.join(file)).expect(file);
        for name in commands() {
            assert!(text.contains(&name), "{file} has no {name}");
        }
    }
    let script = "source \"$0\"; COMP_WORDS=(ackwright run --run); COMP_CWORD=2; \
                  _ackwright ackwright --run run; echo \"${COMPREPLY[@]}\"";
    let bash = Command::new("bash").args(["-c", script, &path(&directory, files[0])]).output();
    assert_eq!(stdout(&bash.expect("bash")).trim(), "--runs");
}

#[test]
fn a_file_is_no_directory_to_write_to() {
    let file = write(&scratch("generate-file"), "file", "");
    let refused = ackwright(&["generate", "man", &file]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains(&file), "{}", stderr(&refused));
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_a_failure_and_no_panic() {
    let directory = scratch("generate-full");
    for (what, file) in [("completions", "ackwright.bash"), ("man", "ackwright-run.1")] {
        std::os::unix::fs::symlink("/dev/full", directory.join(file)).expect("a link");
        let full = ackwright(&["generate", what, &path(&directory, "")]);
        assert_eq!(full.status.code(), Some(1), "{what}");
        let message = stderr(&full);
        let expected = format!("{file}: the disk is full");
        assert!(
            message.starts_with("error: cannot write") && message.contains(&expected),
            "{message}"
        );
    }
}
