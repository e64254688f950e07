//! The program `doublet`. All it does itself is choose the allocator.
//!
//! mimalloc rather than the system's allocator: jobs allocate in the workers and free in the threads that serve sockets, which leaves
//! glibc's arenas full of holes. It compiles from one C file in seconds; jemalloc does the same work but takes a configure
//! script and minutes on two processors.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    server::cli::run()
}
