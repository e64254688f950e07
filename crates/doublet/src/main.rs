//! The program `doublet`. This file only chooses the allocator.
//!
//! The program uses mimalloc instead of the system's allocator: jobs allocate in the worker threads and free in the
//! threads that serve sockets, which fragments glibc's arenas. mimalloc compiles from one C file in seconds. jemalloc
//! performs as well, but needs a configure script and takes minutes on two processors.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    server::cli::run()
}
