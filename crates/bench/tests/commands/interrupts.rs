//! Runs that are interrupted before they begin: exit codes, and what is left on the disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_doublet-bench"))
}

/// Installs a program of the shell. Another process writes it: a program that is open for writing while this process
/// starts another one cannot be run.
fn install(folder: &Path, text: &str) -> PathBuf {
    let source = folder.join("server.sh");
    fs::write(&source, text).expect("a file");
    let program = folder.join("server");
    let installed = Command::new("install").args(["-m", "755"]).args([&source, &program]).status();
    assert!(installed.expect("coreutils").success());
    program
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("it is there").file_name().display().to_string()).collect()
}

/// The server interrupts the driver that starts it, and is never ready.
#[test]
fn an_interrupt_while_the_server_starts_deletes_the_data_folder_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "#!/bin/sh\ncase \"$*\" in *' serve') kill -INT $PPID; exec sleep 1000;; esac\n";
    let server = install(folder.path(), text);
    let runs = folder.path().join("runs");
    fs::create_dir_all(runs.join("foreign")).expect("a folder");
    let mut run = program();
    run.args(["run", "n8mail", "--users", "1", "--documents", "1", "--folder"]).arg(&runs);
    let output = run.arg("--server").arg(&server).arg("--out").arg(folder.path().join("out")).output();
    let output = output.expect("the program was built");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("broken off before the run; there is no report"), "{text}");
    assert_eq!(names_in(&runs), ["foreign"]);
}
