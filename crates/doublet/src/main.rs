//! The program `doublet`. It chooses the allocator and passes the server to the command line.
//!
//! The program uses mimalloc instead of the system's allocator: jobs allocate in the worker threads and free in the
//! threads that serve sockets, which fragments glibc's arenas. mimalloc compiles from one C file in seconds. jemalloc
//! performs as well, but needs a configure script and takes minutes on two processors.

use std::process::ExitCode;

use cli::ServerFunctions;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The server that the command line starts.
const SERVER: ServerFunctions = ServerFunctions {
    prepare: |config| server::descriptors::prepare(config).map_err(|error| error.to_string()),
    run: |instance, started| server::serve::run(instance, started).map_err(|error| error.to_string()),
    check_files: server::serve::check_files,
    join: |config, request, report| {
        server::replication::join(config, request, report).map_err(|error| error.to_string())
    },
};

fn main() -> ExitCode {
    cli::run(&SERVER)
}
