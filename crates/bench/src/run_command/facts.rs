//! What a report says about the driver and its machine.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

use bench::driver::outcome::CoreCounts;
use bench::report::model::{Machine, ServerProgram};
use bench::target::Target;
use bench::target::cores::CoreHalves;
use bench::target::disk::DataDisk;
use bench::target::process::{Processes, SwappedPages};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sha2::{Digest as _, Sha256};

/// The commit of this program, which `scripts/cargo` states when it is built. Only this crate of a program is compiled
/// again if it changes.
pub const COMMIT: Option<&str> = option_env!("DOUBLET_COMMIT");
/// A program is read in pieces of this length.
const DIGEST_PIECE_BYTES: usize = 1 << 20;
/// Maximum length of the version that a server prints.
const VERSION_CHARS_MAX: usize = 200;
/// Files that a run opens besides the connections of its users.
pub const OTHER_FILES: u64 = 100;

/// The machine before a run.
pub struct MachineState {
    /// The cores that this program may use.
    cores: u64,
    load: Option<f64>,
    swapped: Option<SwappedPages>,
}

impl MachineState {
    /// Reads the state.
    pub fn read() -> Self {
        let processes = Processes::default();
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        Self { cores, load: processes.load(), swapped: processes.swapped_pages() }
    }

    /// Returns the cores that this program may use.
    pub fn cores(&self) -> u64 {
        self.cores
    }

    /// Returns the state for another run: its load is that before the first run, because a run is a load itself.
    pub fn at_begin_of_run(&self) -> Self {
        Self { cores: self.cores, load: self.load, swapped: Processes::default().swapped_pages() }
    }

    /// Returns `true` if the machine has swapped since the state was read.
    pub fn has_swapped(&self) -> bool {
        let now = Processes::default().swapped_pages();
        let pages = |swapped: SwappedPages| swapped.read + swapped.written;
        self.swapped.zip(now).is_some_and(|(before, now)| pages(now) > pages(before))
    }

    /// Describes the machine. `data` is the data folder of the server, if it is known.
    pub fn machine(&self, data: Option<&Path>) -> Machine {
        let processes = Processes::default();
        let unknown = || "unknown".to_owned();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let file_system = data.and_then(|folder| {
            let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
            file_system(&mounts, &folder)
        });
        Machine {
            cores: self.cores,
            processor: processes.processor_name().unwrap_or_else(unknown),
            memory_bytes: processes.memory_bytes(),
            kernel: processes.kernel().unwrap_or_else(unknown),
            file_system: file_system.unwrap_or_else(unknown),
            load_before: self.load.map(|load| load / self.cores as f64),
        }
    }
}

/// Returns the type of the file system on which a folder is: that of the longest mount point above it.
fn file_system(mounts: &str, folder: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let point = fields.next()?;
        folder.starts_with(point).then(|| Some((point.len(), fields.next()?.to_owned())))?
    });
    mounts.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

/// Returns the cores of driver and server.
pub fn core_counts(halves: Option<&CoreHalves>, all: u64) -> CoreCounts {
    match halves {
        Some(halves) => CoreCounts { driver: halves.driver_count(), server: halves.server_count(), is_pinned: true },
        None => CoreCounts { driver: all, server: all, is_pinned: false },
    }
}

/// Finds the disk of the server's data folder.
pub fn data_disk(target: &Target) -> DataDisk {
    let folder = target.data_folder.as_ref();
    folder.map_or(DataDisk::NoFolder, |folder| DataDisk::of_folder(&Processes::default(), folder))
}

/// Describes the program of a server that the driver has started. What cannot be read is not known.
pub fn started_program(program: &Path) -> Option<ServerProgram> {
    let digest = file_digest(program)?;
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok();
    let output = output.filter(|output| output.status.success());
    let line = output.and_then(|output| String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned));
    Some(ServerProgram { version: line.map(|line| line.chars().take(VERSION_CHARS_MAX).collect()), digest })
}

/// Describes the program of a server that runs already, from one of its processes on this machine.
pub fn running_program(processes: &[u32]) -> Option<ServerProgram> {
    let digests = processes.iter().filter_map(|process| file_digest(Path::new(&format!("/proc/{process}/exe"))));
    digests.into_iter().next().map(|digest| ServerProgram { version: None, digest })
}

fn file_digest(path: &Path) -> Option<String> {
    let mut file = std::fs::File::open(path).ok()?;
    let mut digest = Sha256::new();
    let mut piece = vec![0; DIGEST_PIECE_BYTES];
    loop {
        match file.read(&mut piece).ok()? {
            0 => return Some(base::hex::lower(&digest.finalize())),
            length => digest.update(&piece[..length]),
        }
    }
}

/// Returns an identifier of the machine since it was started.
pub fn machine_id() -> String {
    Processes::default().machine_id().unwrap_or_default()
}

/// Returns the largest memory that this process had, if the system tells it.
pub fn memory_bytes_max() -> Option<u64> {
    Processes::default().resident_max_bytes(std::process::id())
}

/// Raises the limit of open files to the permitted maximum. Returns it, or `None` if there is none.
pub fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    // An error leaves the limit as it is, which is read again.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    getrlimit(Resource::Nofile).current
}

/// Joins the words of a command line as a shell reads them. It has no secrets: passwords are in files.
pub fn command_line(words: impl Iterator<Item = String>) -> String {
    let mut quoted = vec!["doublet-bench".to_owned()];
    quoted.extend(words.skip(1).map(|word| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    }));
    quoted.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_can_be_repeated() {
        let words = ["/usr/bin/doublet-bench", "run", "n8mail", "--interval", "1 s", "it's", ""];
        let line = command_line(words.iter().map(|word| (*word).to_owned()));
        assert_eq!(line, "doublet-bench run n8mail --interval '1 s' 'it'\\''s' ''");
    }

    #[test]
    fn the_file_system_is_that_of_the_longest_mount_point() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/deep xfs rw 0 0\nbroken\n";
        let of = |folder: &str| file_system(mounts, Path::new(folder));
        assert_eq!(of("/home").as_deref(), Some("ext4"));
        assert_eq!(of("/tmp/x").as_deref(), Some("tmpfs"));
        assert_eq!(of("/tmp/deep/x").as_deref(), Some("xfs"));
        assert_eq!(file_system("", Path::new("/")), None);
    }

    #[test]
    fn programs_have_the_digest_of_their_file() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("abc"), "abc").expect("a file");
        let digest = file_digest(&folder.path().join("abc")).expect("a file");
        assert!(digest.starts_with("ba7816bf") && digest.len() == 64, "{digest}");
        assert_eq!(started_program(&folder.path().join("none")), None);
        let mut server = Command::new("cat");
        let mut server = server.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("a program of every system");
        let program = std::fs::read_link(format!("/proc/{}/exe", server.id())).expect("it runs");
        let running = running_program(&[u32::MAX, server.id()]).expect("a file that can be read");
        assert_eq!((Some(&running.digest), &running.version), (file_digest(&program).as_ref(), &None));
        assert_eq!(started_program(&program).map(|started| started.digest), Some(running.digest));
        drop(server.stdin.take());
        server.wait().expect("its input has ended");
        assert_eq!(running_program(&[]), None);
    }

    /// That of the driver's folder for temporary files says nothing about the server of `--target`.
    #[test]
    fn without_a_data_folder_no_file_system_is_known() {
        let state = MachineState { cores: 2, load: None, swapped: None };
        assert_eq!(state.machine(None).file_system, "unknown");
        assert_ne!(state.machine(Some(Path::new("/"))).file_system, "unknown");
    }
}
