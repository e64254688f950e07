//! The command line.
//!
//! Results go to standard output, everything else to standard error. The exit code is 0 for success, 1 for a failure, 2
//! for an invalid command line, and 3 if the index of a view was not up to date. With `--json` results are JSON. An
//! error message says what to do next.
//!
//! [`command_line`] defines and runs the commands, each of which has a module of its own.

mod admin_command;
mod batch;
mod bench_command;
pub mod command_line;
mod config_command;
mod demo;
mod demo_command;
pub mod error;
mod export_command;
mod formula_command;
pub mod global_options;
mod join_command;
pub mod limits;
mod local_command;
mod log;
mod progress_line;
pub mod remote;
pub mod remote_options;
mod restore_command;
mod secret_input;
mod serve_command;
pub mod server_functions;
pub mod terminal;
mod terminal_text;

pub use command_line::run;
pub use error::{CommandError, ExitStatus};
pub use global_options::GlobalOptions;
pub use server_functions::ServerFunctions;
pub use terminal::print;
