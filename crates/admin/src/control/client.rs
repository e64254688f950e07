//! The client of the control socket: blocking code for the command line.

use std::io::{BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::{ControlCall, ControlReply};
use crate::limits::CONTROL_LINE_BYTES_MAX;
use crate::{Answer, ProgressCallback, Request};

/// Sends a request to a running server and returns its result. The error is a text for the user at the terminal.
pub fn call(socket: &Path, request: Request, report: &mut ProgressCallback<'_>) -> Result<Answer, String> {
    let stream = UnixStream::connect(socket).map_err(|error| {
        format!(
            "a server has the data folder open, but {} cannot be opened: {error}\n\
             Run the command as the server's user or as root. If the server is just starting or ending, try again in a moment.",
            socket.display()
        )
    })?;
    let broken = |error: &dyn std::fmt::Display| {
        format!("the connection to the server was lost: {error}; check the server's log, then try again")
    };
    let mut line = serde_json::to_vec(&ControlCall { request }).map_err(|error| broken(&error))?;
    line.push(b'\n');
    (&stream).write_all(&line).map_err(|error| broken(&error))?;
    let mut reader = BufReader::new(&stream);
    loop {
        let mut line = Vec::new();
        let limit = CONTROL_LINE_BYTES_MAX as u64;
        reader.by_ref().take(limit).read_until(b'\n', &mut line).map_err(|error| broken(&error))?;
        if line.is_empty() {
            return Err(broken(&"it was closed before a reply arrived"));
        }
        match serde_json::from_slice(&line).map_err(|error| broken(&error))? {
            ControlReply::Progress(progress) => {
                if report(progress) == ControlFlow::Break(()) {
                    return Err("interrupted".to_owned());
                }
            }
            ControlReply::Result(answer) => return Ok(answer),
            ControlReply::Error(text) => return Err(text),
        }
    }
}
