//! The sandbox of a child that reads PDFs. A parser that a file has taken over can compute and reply, and nothing else.
//!
//! - [`deny_paths`]: Landlock denies every access to a file by its path, TCP connections, and signals to processes
//!   outside. Kernels before 5.13 have none of this, and kernels before 6.12 a part of it. Nothing depends on it,
//!   because the second layer denies the same calls.
//! - [`filter_system_calls`]: seccomp permits the calls of `system_calls.json`: those for open files, for memory that
//!   is not executable, for locks, for signal handlers and for the end of the process. None of them takes a path, an
//!   address or the number of another process. All other calls fail with `EPERM`. They do not end the process, because
//!   a version of the allocator or of the C library may try another call and do without it.
//!
//! Both apply to the calling thread and to the threads that it starts later, and cannot be undone. They set
//! `no_new_privs`, without which the kernel does not accept them from a process without privileges.

use std::io;

use landlock::{ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetError, Scope};
use rustix::io::Errno;
use seccompiler::{BpfProgram, TargetArch};

/// The permitted system calls, with conditions on their arguments.
const SYSTEM_CALLS: &str = include_str!("system_calls.json");

/// The name of the filter in [`SYSTEM_CALLS`].
const FILTER: &str = "pdf";

/// Removes the access to files by path, to the network and to other processes, as far as the kernel can.
pub(super) fn deny_paths() {
    // An error has no consequence: the filter of system calls is the layer that counts.
    let _ = restrict_with_landlock();
}

fn restrict_with_landlock() -> Result<(), RulesetError> {
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V6))?
        .handle_access(AccessNet::from_all(ABI::V6))?
        .scope(Scope::from_all(ABI::V6))?;
    // The ruleset has no rules, so it permits nothing.
    ruleset.create()?.restrict_self()?;
    Ok(())
}

/// Limits the calling thread to the permitted system calls. Returns `false` if this kernel or processor has no filters.
pub(super) fn filter_system_calls() -> io::Result<bool> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(false) };
    match seccompiler::apply_filter(&compile(arch)?) {
        Err(seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error)) if is_unsupported(&error) => {
            Ok(false)
        }
        applied => applied.map(|()| true).map_err(io::Error::other),
    }
}

fn compile(arch: TargetArch) -> io::Result<BpfProgram> {
    let mut filters = seccompiler::compile_from_json(SYSTEM_CALLS.as_bytes(), arch).map_err(io::Error::other)?;
    filters.remove(FILTER).ok_or_else(|| io::Error::other("system_calls.json has no filter of this name"))
}

/// Returns `true` for the errors of a kernel that was built without seccomp or its filters.
fn is_unsupported(error: &io::Error) -> bool {
    [Errno::NOSYS, Errno::INVAL].iter().any(|code| error.raw_os_error() == Some(code.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::{TcpListener, UdpSocket};
    use std::path::Path;
    use std::process::Command;

    use super::*;

    #[test]
    fn filter_compiles_for_all_targets() {
        for arch in [TargetArch::x86_64, TargetArch::aarch64] {
            assert!(!compile(arch).expect("the names of all calls are known").is_empty());
        }
    }

    /// Returns the error of an attempt, or `None` if it succeeds.
    fn error<T>(attempt: io::Result<T>) -> Option<i32> {
        attempt.err().and_then(|error| error.raw_os_error())
    }

    #[test]
    fn landlock_denies_files() {
        let denied = std::thread::spawn(|| {
            let restricted = restrict_with_landlock();
            (restricted.is_ok(), error(File::open("/proc/self/status")), error(std::fs::read_dir("/")))
        });
        let (is_restricted, file, folder) = denied.join().expect("no panic");
        assert!(is_restricted, "a kernel without Landlock is no error");
        let Some(access) = file else {
            println!("skipped: this kernel has no Landlock");
            return;
        };
        assert_eq!((access, folder), (Errno::ACCESS.raw_os_error(), Some(access)));
    }

    #[test]
    fn filter_denies_files_sockets_and_processes() {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
        if !status.contains("\nSeccomp:") || !Path::new("/proc/sys/kernel/seccomp").exists() {
            println!("skipped: this kernel has no seccomp filters");
            return;
        }
        let denied = std::thread::spawn(|| {
            let is_filtered = filter_system_calls().is_ok_and(|is_filtered| is_filtered);
            let memory = vec![7_u8; 8 << 20];
            let errors = [
                error(File::open("/proc/self/status")),
                error(File::create("/no-such-folder/file")),
                error(std::fs::remove_file("/no-such-folder/file")),
                error(std::fs::read_dir("/")),
                error(TcpListener::bind("127.0.0.1:0")),
                error(UdpSocket::bind("127.0.0.1:0")),
                error(Command::new("/bin/true").spawn()),
            ];
            (is_filtered, memory.iter().map(|byte| usize::from(*byte)).sum::<usize>(), errors)
        });
        let (is_filtered, sum, errors) = denied.join().expect("the thread has memory and can end");
        assert!(is_filtered);
        assert_eq!(sum, 7 * (8 << 20));
        assert_eq!(errors, [Some(Errno::PERM.raw_os_error()); 7]);
    }
}
