//! The operating system's clock and random number generator, the size of the machine, and the limit of file
//! descriptors.
//!
//! This is the only place in the product that gets the time from the system. All other code receives a [`base::Clock`],
//! which the simulator can replace.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::{Clock, Random, Timestamp};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The system clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Creates a clock whose monotonic time starts at zero.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this clock is the program's source of time")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this clock is the program's source of time")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// The operating system's random number generator; suitable for keys and passwords.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, buffer: &mut [u8]) {
        // Without randomness there are no secure keys, passwords or identifiers, so the program cannot continue safely.
        getrandom::fill(buffer).expect("the operating system provides random bytes once it has started");
    }
}

/// Blocks the thread for the given duration.
#[expect(
    clippy::disallowed_methods,
    reason = "the wait is for another program, which sends no notification, and the server serves no connections yet"
)]
pub fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// Returns the host name of the machine in lower case, or `localhost` if it has none.
#[must_use]
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_ascii_lowercase() }
}

/// Returns the number of processors that this program may use.
#[must_use]
pub fn processors() -> u64 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u64)
}

/// Returns the memory in bytes that this program may use: that of the machine, or the limit of a control group if that
/// is smaller. Returns `u64::MAX` if the system does not report it.
#[must_use]
pub fn memory_bytes() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let machine = machine_memory(&read("/proc/meminfo"));
    let groups = group_memory(Path::new("/sys/fs/cgroup"), &read("/proc/self/cgroup"));
    machine.into_iter().chain(groups).min().unwrap_or(u64::MAX)
}

/// Returns the memory of the machine from the content of `/proc/meminfo`.
fn machine_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes.saturating_mul(1_024))
}

/// Returns the smallest limit of the control groups in `membership`, the content of `/proc/self/cgroup`, and of the
/// groups that contain them.
fn group_memory(root: &Path, membership: &str) -> Option<u64> {
    membership.lines().flat_map(|line| group_limits(root, line)).min()
}

/// Returns the limits of the group that a line of `/proc/self/cgroup` names, and of the groups that contain it. The
/// line has the number of a hierarchy, its controllers (none in version 2) and the path of the group.
fn group_limits(root: &Path, line: &str) -> Vec<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { return Vec::new() };
    let (hierarchy, file) = match controllers {
        "" => (root.to_owned(), "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
        _ => return Vec::new(),
    };
    let groups = Path::new(group.trim_start_matches('/')).ancestors();
    // A group that is not limited has the limit `max` in version 2, and a number beyond any memory in version 1.
    let limit = |group: &Path| -> Option<u64> {
        std::fs::read_to_string(hierarchy.join(group).join(file)).ok()?.trim().parse().ok()
    };
    groups.filter_map(limit).collect()
}

/// Raises the limit of open files and sockets to the maximum that the system allows for this process. Returns the
/// limit.
pub fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If the system refuses, the lower limit stays in force.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_randomness_are_real() {
        let clock = SystemClock::new();
        assert!(clock.now() > Timestamp::from_seconds(1_700_000_000));
        assert!(clock.monotonic() <= clock.monotonic());
        assert_ne!(SystemRandom.next_u64(), SystemRandom.next_u64());
        assert!(!host_name().is_empty() && processors() > 0);
        assert!(memory_bytes() > 16 << 20);
    }

    #[test]
    fn memory_of_the_machine_is_read_in_bytes() {
        assert_eq!(
            machine_memory("MemTotal:       24684448 kB\nMemFree:        13711092 kB\n"),
            Some(24_684_448 << 10)
        );
        for broken in ["", "MemFree: 1 kB\n", "MemTotal:\n", "MemTotal: many kB\n"] {
            assert_eq!(machine_memory(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn smallest_limit_of_the_control_groups_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: &str, limit: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("it is in the folder")).expect("the folder is writable");
            std::fs::write(path, format!("{limit}\n")).expect("the folder is writable");
        };
        let check = |membership: &str, expected: Option<u64>| {
            assert_eq!(group_memory(folder.path(), membership), expected, "{membership:?}");
        };
        write("system.slice/memory.max", "2000");
        write("system.slice/doublet.service/memory.max", "max");
        write("system.slice/small.service/memory.max", "1000");
        check("0::/system.slice/doublet.service\n", Some(2_000));
        check("0::/system.slice/small.service\n", Some(1_000));
        check("0::/elsewhere\n", None);
        check("0::/\n", None);
        write("memory.max", "1500");
        check("0::/system.slice/doublet.service\n", Some(1_500));
        check("0::/\n", Some(1_500));
        write("memory/docker/memory.limit_in_bytes", "700");
        write("memory/memory.limit_in_bytes", "9223372036854771712");
        check("5:cpu,cpuacct:/docker\n4:memory:/docker\n", Some(700));
        check("4:memory:/\n", Some(9_223_372_036_854_771_712));
        for broken in ["", "4", "4:memory", "0:cpu:/docker"] {
            check(broken, None);
        }
    }

    #[test]
    fn descriptor_limit_is_the_maximum() {
        let limit = raise_descriptor_limit();
        assert_eq!(Some(limit), getrlimit(Resource::Nofile).maximum.or(Some(u64::MAX)));
    }
}
