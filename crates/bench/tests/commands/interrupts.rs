//! Runs that are interrupted before they begin: exit codes, and what is left on the disk.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

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

/// The server writes its addresses and its certificate, but nothing listens there: the mail files cannot be filled.
#[test]
fn a_data_folder_that_was_not_filled_is_not_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let pem = folder.path().join("certificate.pem");
    fs::write(&pem, certificate.cert.pem()).expect("a file");
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in *' serve') mkdir -p \"$2/tls\" && cp {} \"$2/tls\"\n\
         echo '{{\"native\": \"127.0.0.1:1\", \"admin\": \"127.0.0.1:1\"}}' > \"$2/listeners.json\"\n\
         exec sleep 1000;; esac\n",
        pem.display()
    );
    let server = install(folder.path(), &text);
    let runs = folder.path().join("runs");
    fs::create_dir(&runs).expect("a folder");
    let mut run = program();
    run.args(["run", "n8mail", "--users", "1", "--documents", "1", "--keep", "--fill-only", "--folder"]).arg(&runs);
    let output = run.arg("--server").arg(&server).output().expect("the program was built");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("the data folder is not kept, because it was not filled to the end"), "{text}");
    assert_eq!(names_in(&runs), [""; 0]);
}

/// Reads a message of the protocol between parts: a kind, a length, and JSON.
fn receive(stream: &mut TcpStream) -> String {
    let mut head = [0; 5];
    stream.read_exact(&mut head).expect("the program is there");
    let mut json = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize];
    stream.read_exact(&mut json).expect("the program is there");
    String::from_utf8(json).expect("JSON")
}

fn send(stream: &mut TcpStream, json: &str) {
    let length = u32::try_from(json.len()).expect("a short message");
    stream.write_all(&[&[0], &length.to_be_bytes()[..], json.as_bytes()].concat()).expect("the program is there");
}

/// Starts part 2 of a run beside a coordinator, which does its work and then interrupts the part. Returns the exit code
/// and standard error.
fn interrupted_part(coordinate: impl FnOnce(&mut TcpStream)) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let target = "native = \"127.0.0.1:1\"\npassword_file = \"password\"\ncertificate = \"certificate.pem\"\n";
    let files = [("password", "any"), ("certificate.pem", &certificate.cert.pem()), ("target.toml", target)];
    files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).expect("a file"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let mut part = program();
    part.current_dir(folder.path()).args(["run", "n8mail", "--users", "2", "--part", "2/2", "--join", &address]);
    part.args(["--token-file", "password", "--target", "target.toml"]).stderr(Stdio::piped());
    let part = part.spawn().expect("the program was built");
    let (mut stream, _) = listener.accept().expect("the part connects");
    assert!(receive(&mut stream).contains("\"part\":2"));
    coordinate(&mut stream);
    let process = Pid::from_raw(part.id().cast_signed()).expect("a process");
    kill_process(process, Signal::INT).expect("it runs");
    let output = part.wait_with_output().expect("it ends");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn an_interrupt_before_the_start_signal_breaks_off_a_part() {
    let waiting = |stream: &mut TcpStream| {
        send(stream, "\"welcome\"");
        send(stream, "\"ping\"");
        assert_eq!(receive(stream), "\"pong\"", "the part waits for the start signal");
    };
    for (code, text) in [interrupted_part(|_| {}), interrupted_part(waiting)] {
        assert_eq!(code, Some(130), "{text}");
        assert!(text.contains("broken off before the run; there is no report"), "{text}");
    }
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
