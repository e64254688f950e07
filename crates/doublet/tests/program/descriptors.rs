//! Tests of servers with a low limit of open files and sockets. They need processes of their own, because the limit
//! applies to a process.

use std::process::{Command, Stdio};

use crate::{TestFolder, collect};

/// Returns the command that starts a server which may open this number of files and sockets.
fn serve_with_limit(folder: &TestFolder, limit: u32) -> Command {
    let program = folder.serve_command();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -n {limit} && exec \"$0\" \"$@\""));
    command.arg(program.get_program()).args(program.get_args()).current_dir(folder.folder.path());
    command
}

#[test]
fn idle_connections_do_not_stop_deliveries() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let warning = "the system allows this process 256 open files and sockets, too few for the settings: \
                   limits.connections is 49 instead of 20000, store.open_files is 49 instead of 512, \
                   router.connections is 2 instead of 50; raise the limit to ";
    let server = folder.start(serve_with_limit(&folder, 256), &[warning]);
    let mut smtp = server.reception();
    let mut idle = Vec::new();
    for _ in 0..300 {
        let mut imap = server.dial("imap");
        let greeting = imap.line();
        if greeting.starts_with("* OK") {
            idle.push(imap);
        } else {
            assert_eq!(greeting, "* BYE [UNAVAILABLE] Too many connections, try again later");
        }
    }
    assert_eq!(idle.len(), 48, "the connection for mail counts");
    for number in 0..20 {
        smtp.ask("MAIL FROM:<dora@elsewhere.test>", "250 ");
        smtp.ask("RCPT TO:<ann@acme.test>", "250 ");
        smtp.ask("DATA", "354 ");
        smtp.ask(&format!("Subject: {number}\r\n\r\nHello.\r\n."), "250 ");
    }
    assert!(server.get("/health/ready").starts_with("HTTP/1.1 200 "), "the administration port has a share of its own");
    folder.check(&["db", "compact", "mail/ann.nsf"], "");
    drop(idle);
    // The server notices the end of the connections at some point. The one for mail remains.
    while !server.metrics().contains("\ndoublet_connections 1\n") {}
    assert_eq!(collect(&server, "ann@acme.test").len(), 20);
    server.stop();
}

#[test]
fn server_does_not_start_with_too_few_descriptors() {
    let folder = TestFolder::new();
    let output = serve_with_limit(&folder, 100).stdin(Stdio::null()).output().expect("the shell starts");
    let complaint = crate::text(&output.stderr);
    let expected = "the system allows this process 100 open files and sockets, and the server needs at least 213; raise \
                    the limit (LimitNOFILE= in the unit of systemd, `ulimit -n` in a shell)";
    assert!(!output.status.success() && complaint.contains(expected), "{complaint}");
    assert!(!folder.data().exists(), "nothing is created before");
}

#[test]
fn commands_work_with_few_descriptors() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let program = folder.command(&["fixup"]);
    let mut command = Command::new("sh");
    command.arg("-c").arg("ulimit -n 128 && exec \"$0\" \"$@\"").arg(program.get_program()).args(program.get_args());
    let output = command.output().expect("the shell starts");
    assert!(output.status.success() && crate::text(&output.stdout).contains("No damage"), "{output:?}");
}
