//! What processes consume, from `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Microseconds in a tick of the processor times. Linux reports them in hundredths of a second on all machines.
const TICK_US: u64 = 10_000;
/// The largest number of descendants whose memory is read.
const MEMORY_DESCENDANTS_MAX: usize = 100;

/// What some processes have consumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumption {
    /// User and system time, that of ended children included.
    pub processor_us: u64,
    /// The system time of it.
    pub system_us: u64,
    /// Memory in use now (the resident set).
    pub resident_bytes: u64,
    /// Private memory and the proportional part of shared memory (PSS), if the system tells it.
    pub proportional_bytes: Option<u64>,
    /// Memory in use that may be shared: pages of files, and shared memory.
    pub shared_bytes: u64,
    /// Memory that belongs to the processes alone, if the system tells it.
    pub private_bytes: Option<u64>,
    /// Major page faults.
    pub page_faults: u64,
    /// What was read from disks and written to them, if the system tells it.
    pub disk: Option<ProcessDisk>,
}

impl Consumption {
    /// Adds what other processes have consumed. What the system does not tell of one, is unknown of all.
    fn add(&mut self, other: &Self) {
        self.processor_us += other.processor_us;
        self.system_us += other.system_us;
        self.resident_bytes += other.resident_bytes;
        self.shared_bytes += other.shared_bytes;
        self.page_faults += other.page_faults;
        self.proportional_bytes = add(self.proportional_bytes, other.proportional_bytes);
        self.private_bytes = add(self.private_bytes, other.private_bytes);
        self.disk = self.disk.zip(other.disk).map(|(sum, own)| ProcessDisk {
            read_bytes: sum.read_bytes + own.read_bytes,
            written_bytes: sum.written_bytes + own.written_bytes,
        });
    }

    /// Returns this with counters that are not below those of an earlier observation of the same processes.
    pub fn not_below(self, earlier: &Self) -> Self {
        let disk = self.disk.zip(earlier.disk).map(|(now, earlier)| ProcessDisk {
            read_bytes: now.read_bytes.max(earlier.read_bytes),
            written_bytes: now.written_bytes.max(earlier.written_bytes),
        });
        Self {
            processor_us: self.processor_us.max(earlier.processor_us),
            system_us: self.system_us.max(earlier.system_us),
            page_faults: self.page_faults.max(earlier.page_faults),
            disk: disk.or(self.disk),
            ..self
        }
    }
}

/// What processes have read from disks and written to them. Files in memory do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessDisk {
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written, or will be: they count when a page of a file becomes dirty.
    pub written_bytes: u64,
}

/// The pages that a machine has swapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwappedPages {
    /// Pages that were read from the swap space.
    pub read: u64,
    /// Pages that were written to it.
    pub written: u64,
}

/// Reads the processes of a machine from its folder.
#[derive(Debug, Clone)]
pub struct Processes {
    folder: PathBuf,
}

impl Default for Processes {
    fn default() -> Self {
        Self { folder: PathBuf::from("/proc") }
    }
}

impl Processes {
    /// Reads from another folder than `/proc`.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Returns `true` if one of some processes does not exist, or has ended and its parent has not taken notice. The
    /// former is known without opening a file, of which there may be too many.
    pub fn has_ended(&self, processes: &[u32]) -> bool {
        let has_ended = |process: &u32| {
            let folder = self.folder.join(process.to_string());
            let is_missing = fs::metadata(&folder).is_err_and(|error| error.kind() == ErrorKind::NotFound);
            is_missing || fs::read_to_string(folder.join("stat")).is_ok_and(|stat| is_zombie(&stat))
        };
        processes.iter().any(has_ended)
    }

    /// Returns the consumption of some processes and their descendants, such as the processes that serve the sessions of
    /// a server, or `None` if one of the former has ended or cannot be read.
    ///
    /// The processes are not read at one moment: one that ends between may be missing, and counts with its parent the
    /// next time. The memory of many descendants is not known, because reading it takes the processors.
    pub fn family_consumption(&self, processes: &[u32]) -> Option<Consumption> {
        let mut sum = self.consumption(processes)?;
        let descendants = self.descendants(processes);
        for process in &descendants {
            // What has ended meanwhile has no memory.
            if let Some(own) = self.times(*process) {
                sum.add(&Consumption { proportional_bytes: Some(0), private_bytes: Some(0), ..own });
            }
        }
        if descendants.len() > MEMORY_DESCENDANTS_MAX {
            return Some(Consumption { proportional_bytes: None, private_bytes: None, ..sum });
        }
        for rollup in descendants.iter().filter_map(|process| self.memory(*process)) {
            sum.proportional_bytes = add(sum.proportional_bytes, Some(rollup[0]));
            sum.private_bytes = add(sum.private_bytes, Some(rollup[1]));
        }
        Some(sum)
    }

    /// Returns the processes that some processes have started, and those that these have started, and so on.
    fn descendants(&self, processes: &[u32]) -> Vec<u32> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let process = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            let stat = process.and_then(|_| fs::read_to_string(entry.path().join("stat")).ok());
            if let Some((process, parent)) = process.zip(stat.and_then(|stat| parse_parent(&stat))) {
                children.entry(parent).or_default().push(process);
            }
        }
        let mut found = processes.to_vec();
        let mut next = 0;
        while let Some(process) = found.get(next) {
            let of_process = children.remove(process).unwrap_or_default();
            found.extend(of_process.into_iter().filter(|child| !processes.contains(child)));
            next += 1;
        }
        found.split_off(processes.len())
    }

    /// Returns the consumption of some processes alone, or `None` if one of them has ended or cannot be read.
    pub fn consumption(&self, processes: &[u32]) -> Option<Consumption> {
        let mut sum = Consumption {
            proportional_bytes: Some(0),
            private_bytes: Some(0),
            disk: Some(ProcessDisk::default()),
            ..Consumption::default()
        };
        for process in processes {
            let memory = self.memory(*process);
            let [proportional_bytes, private_bytes] = [0, 1].map(|index| memory.map(|memory| memory[index]));
            sum.add(&Consumption { proportional_bytes, private_bytes, ..self.times(*process)? });
        }
        Some(sum)
    }

    /// Returns what a process has consumed, without its proportional and private memory.
    fn times(&self, process: u32) -> Option<Consumption> {
        let folder = self.folder.join(process.to_string());
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
        let io = fs::read_to_string(folder.join("io")).unwrap_or_default();
        let shared = ["RssFile:", "RssShmem:"].map(|name| field_bytes(&status, name).unwrap_or(0));
        Some(Consumption {
            resident_bytes: field_bytes(&status, "VmRSS:").unwrap_or(0),
            shared_bytes: shared.iter().sum(),
            disk: parse_io(&io),
            ..parse_stat(&stat)?
        })
    }

    /// Returns the proportional and the private memory of a process, if the system tells it.
    fn memory(&self, process: u32) -> Option<[u64; 2]> {
        let rollup = fs::read_to_string(self.folder.join(process.to_string()).join("smaps_rollup")).ok()?;
        let [clean, dirty] = ["Private_Clean:", "Private_Dirty:"].map(|name| field_bytes(&rollup, name));
        Some([field_bytes(&rollup, "Pss:")?, clean? + dirty?])
    }

    /// Returns the contents of a file, or `None` if it cannot be read.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(name)).ok()
    }

    /// Returns the largest memory that a process had (the peak of the resident set).
    pub fn resident_max_bytes(&self, process: u32) -> Option<u64> {
        let status = fs::read_to_string(self.folder.join(process.to_string()).join("status")).ok()?;
        field_bytes(&status, "VmHWM:")
    }

    /// Returns the number of open files of a process.
    pub fn open_files(&self, process: u32) -> Option<u64> {
        let files = fs::read_dir(self.folder.join(process.to_string()).join("fd")).ok()?;
        Some(files.count() as u64)
    }

    /// Returns the pages that the machine has swapped in and out.
    pub fn swapped_pages(&self) -> Option<SwappedPages> {
        let text = fs::read_to_string(self.folder.join("vmstat")).ok()?;
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        Some(SwappedPages { read: value("pswpin ")?, written: value("pswpout ")? })
    }

    /// Returns the mean load of the last minute.
    pub fn load(&self) -> Option<f64> {
        let text = fs::read_to_string(self.folder.join("loadavg")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    }

    /// Returns the name of the processor.
    pub fn processor_name(&self) -> Option<String> {
        let text = fs::read_to_string(self.folder.join("cpuinfo")).ok()?;
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    }

    /// Returns the memory of the machine.
    pub fn memory_bytes(&self) -> Option<u64> {
        field_bytes(&fs::read_to_string(self.folder.join("meminfo")).ok()?, "MemTotal:")
    }

    /// Returns an identifier of the machine since it was started.
    pub fn machine_id(&self) -> Option<String> {
        let id = fs::read_to_string(self.folder.join("sys/kernel/random/boot_id")).ok()?;
        Some(id.trim().to_owned())
    }

    /// Returns the name and version of the kernel.
    pub fn kernel(&self) -> Option<String> {
        let release = fs::read_to_string(self.folder.join("sys/kernel/osrelease")).ok()?;
        Some(format!("Linux {}", release.trim()))
    }
}

fn add(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.zip(other).map(|(one, other)| one + other)
}

/// Reads the bytes from the `io` of a process.
fn parse_io(io: &str) -> Option<ProcessDisk> {
    let value = |name: &str| io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Some(ProcessDisk { read_bytes: value("read_bytes:")?, written_bytes: value("write_bytes:")? })
}

/// Reads the parent of a process from its `stat`.
fn parse_parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Returns `true` if the `stat` of a process says that it has ended.
fn is_zombie(stat: &str) -> bool {
    stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with(['Z', 'X']))
}

/// Reads the processor times and the major page faults of a process from its `stat`, both with those of its ended
/// children. The name of the program, in parentheses, may contain blanks and parentheses.
fn parse_stat(stat: &str) -> Option<Consumption> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // The fields after the name begin with number 3; man 5 proc numbers them.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let user = field(14)? + field(16)?;
    let system = field(15)? + field(17)?;
    Some(Consumption {
        processor_us: (user + system) * TICK_US,
        system_us: system * TICK_US,
        page_faults: field(12)? + field(13)?,
        ..Consumption::default()
    })
}

/// Returns the value of a line such as `VmRSS:  1024 kB`.
fn field_bytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "7 (a (b) c) S 1 7 7 0 -1 4194560 100 200 3 4 50 60 7 8 20 0 9 0 100 200 300";

    #[test]
    fn consumption_is_read_with_ended_children() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be created");
            fs::write(path, text).expect("the file can be written");
        };
        write("7/stat", STAT);
        let status = "Name:\ta\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssFile:\t 96 kB\nRssShmem:\t 4 kB\n";
        write("7/status", status);
        write("7/smaps_rollup", "Rss:  1024 kB\nPss:   512 kB\nPrivate_Clean: 10 kB\nPrivate_Dirty: 20 kB\n");
        write("7/io", "rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n");
        write("8/stat", STAT);
        write("8/status", "VmRSS: 1 kB\n");
        // A process, its child, and the child of that.
        for (process, parent) in [(20, 1), (21, 20), (22, 21)] {
            write(&format!("{process}/stat"), &STAT.replace(") S 1 ", &format!(") S {parent} ")));
        }
        write("vmstat", "pgpgin 1\npswpin 3\npswpout 4\n");
        write("loadavg", "0.75 0.5 0.2 1/100 7\n");
        let processes = Processes::at(folder.path());
        let one = Consumption {
            processor_us: 1_250_000,
            system_us: 680_000,
            resident_bytes: 1_048_576,
            proportional_bytes: Some(524_288),
            shared_bytes: 102_400,
            private_bytes: Some(30_720),
            page_faults: 7,
            disk: Some(ProcessDisk { read_bytes: 4_096, written_bytes: 8_192 }),
        };
        assert_eq!(processes.consumption(&[7]), Some(one));
        let both = processes.consumption(&[7, 8]).expect("both run");
        assert_eq!((both.processor_us, both.proportional_bytes), (2_500_000, None), "unknown of one, unknown of both");
        assert_eq!((both.private_bytes, both.disk), (None, None));
        assert_eq!(processes.consumption(&[7, 9]), None, "9 has ended");
        let family = processes.family_consumption(&[20]).expect("it runs");
        assert_eq!(family.processor_us, 3_750_000, "with its descendants");
        assert_eq!(family.proportional_bytes, None, "20 does not tell it");
        let [earlier, later] = [50, 40].map(|processor_us| Consumption { processor_us, ..Consumption::default() });
        assert_eq!(later.not_below(&earlier), earlier, "a child that has not been collected yet");
        let twice = processes.family_consumption(&[20, 21]).expect("both run");
        assert_eq!(twice.processor_us, 3_750_000, "nobody counts twice");
        fs::create_dir(folder.path().join("10")).expect("the folder can be created");
        assert_eq!(processes.consumption(&[7, 10]), None, "10 cannot be read");
        assert_eq!([[7, 9], [7, 10]].map(|both| processes.has_ended(&both)), [true, false]);
        write("11/stat", &STAT.replace(") S", ") Z"));
        assert!(processes.has_ended(&[7, 11]), "11 has ended, and its parent does not know");
        assert_eq!(processes.resident_max_bytes(7), Some(2_097_152));
        assert_eq!(
            (processes.swapped_pages(), processes.load()),
            (Some(SwappedPages { read: 3, written: 4 }), Some(0.75))
        );
    }

    #[test]
    fn damaged_files_have_no_values() {
        assert_eq!(parse_stat("7 (a) S 1 2"), None);
        assert_eq!(parse_io("read_bytes: 1\n"), None);
        assert_eq!(parse_stat(""), None);
        assert_eq!(field_bytes("VmRSS: many kB", "VmRSS:"), None);
        assert_eq!(field_bytes("VmRSS: 4 pages", "VmRSS:"), None);
    }
}
