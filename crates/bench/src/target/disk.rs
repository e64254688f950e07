//! The disk of a data folder: which device it is, and what the device has done since the machine started.
//!
//! The device is that of the mount point above the folder. A file system in memory has none, and neither have those
//! whose device Linux does not count, such as network file systems.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::process::Processes;

/// Bytes in a sector of `/proc/diskstats`, on all devices.
const SECTOR_BYTES: u64 = 512;
const MILLI_US: u64 = 1_000;
/// File systems in memory.
const MEMORY: &[&str] = &["tmpfs", "ramfs"];

/// The disk of a data folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataDisk {
    /// A device by its name.
    Device(String),
    /// There is none: the file system is in memory.
    Memory,
    /// It is not known; the reason.
    Unknown(String),
    /// The folder is not known.
    #[default]
    NoFolder,
}

/// What a device has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCounters {
    /// Completed reads.
    pub reads: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Completed writes.
    pub writes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// The sum of the times of all reads and writes.
    pub operations_us: u64,
    /// The time in which the device was busy.
    pub busy_us: u64,
}

impl DataDisk {
    /// Finds the disk of a folder. The folder may not exist yet.
    pub fn of_folder(machine: &Processes, folder: &Path) -> Self {
        let existing = folder.ancestors().find_map(|folder| fs::canonicalize(folder).ok());
        let mounts = machine.read("self/mountinfo").unwrap_or_default();
        let Some(mount) = existing.and_then(|folder| Mount::above(&mounts, &folder)) else {
            return Self::Unknown("the mount point of the data folder is not known".to_owned());
        };
        if MEMORY.contains(&mount.file_system) {
            return Self::Memory;
        }
        let statistics = machine.read("diskstats").unwrap_or_default();
        // A source such as /dev/mapper/data is a link to the device.
        let source = fs::canonicalize(mount.source).unwrap_or_else(|_| mount.source.into());
        let source = source.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let devices = statistics.lines().filter_map(Device::parse);
        let device = devices.into_iter().find(|device| device.numbers == mount.numbers || device.name == source);
        match device {
            Some(device) => Self::Device(device.name.to_owned()),
            None => Self::Unknown(format!("the system counts no device of the file system {}", mount.file_system)),
        }
    }

    /// Reads the counters. A file system in memory has zeros, and an unknown disk has none.
    pub fn counters(&self, machine: &Processes) -> Option<DiskCounters> {
        let name = match self {
            Self::Device(name) => name,
            Self::Memory => return Some(DiskCounters::default()),
            Self::Unknown(_) | Self::NoFolder => return None,
        };
        let statistics = machine.read("diskstats")?;
        let mut devices = statistics.lines().filter_map(Device::parse);
        devices.find(|device| device.name == name).map(|device| device.counters)
    }

    /// Returns where the rows of the disk come from.
    pub fn origin(&self) -> String {
        match self {
            Self::Device(name) => format!("/proc/diskstats, device {name}, all programs"),
            Self::Memory => "the data folder is on a file system in memory".to_owned(),
            Self::Unknown(reason) => reason.clone(),
            Self::NoFolder => "the data folder of the server is not known".to_owned(),
        }
    }
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mount<'a> {
    numbers: (u64, u64),
    file_system: &'a str,
    source: &'a str,
}

impl<'a> Mount<'a> {
    /// Returns the mount with the longest mount point above a folder, and of several the last one.
    fn above(mounts: &'a str, folder: &Path) -> Option<Self> {
        let found = mounts.lines().filter_map(|line| {
            let (head, tail) = line.split_once(" - ")?;
            let fields: Vec<&str> = head.split(' ').collect();
            let point = fields.get(4)?;
            let (major, minor) = fields.get(2)?.split_once(':')?;
            let mut tail = tail.split(' ');
            let file_system = tail.next()?;
            let mount = Self { numbers: (major.parse().ok()?, minor.parse().ok()?), file_system, source: tail.next()? };
            folder.starts_with(point).then_some((point.len(), mount))
        });
        found.max_by_key(|(length, _)| *length).map(|(_, mount)| mount)
    }
}

/// A line of `/proc/diskstats`.
#[derive(Debug)]
struct Device<'a> {
    numbers: (u64, u64),
    name: &'a str,
    counters: DiskCounters,
}

impl<'a> Device<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            numbers: (number(0)?, number(1)?),
            name: fields.get(2)?,
            counters: DiskCounters {
                reads: number(3)?,
                read_bytes: number(5)?.saturating_mul(SECTOR_BYTES),
                writes: number(7)?,
                written_bytes: number(9)?.saturating_mul(SECTOR_BYTES),
                operations_us: number(6)?.saturating_add(number(10)?).saturating_mul(MILLI_US),
                busy_us: number(12)?.saturating_mul(MILLI_US),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                          25 24 0:23 / /memory rw - tmpfs tmpfs rw\n\
                          26 24 0:40 / /pool rw - btrfs /dev/vdb rw\n\
                          28 24 0:41 / /net rw - nfs server:/x rw\nbroken\n";
    const DEVICES: &str =
        " 254 0 vda 10 1 200 30 40 2 500 60 0 70 90 0 0 0 0 0 0\n 8 16 vdb 1 0 2 3 4 0 5 6 0 7 9\nx\n";

    fn machine(folder: &Path) -> Processes {
        fs::create_dir(folder.join("self")).expect("the folder can be created");
        fs::write(folder.join("self/mountinfo"), MOUNTS).expect("the file can be written");
        fs::write(folder.join("diskstats"), DEVICES).expect("the file can be written");
        Processes::at(folder)
    }

    #[test]
    fn the_device_is_that_of_the_longest_mount_point() {
        let of = |folder: &str| Mount::above(MOUNTS, Path::new(folder)).expect("/ is above").source.to_owned();
        assert_eq!([of("/home"), of("/memory/x"), of("/memoryx")], ["/dev/vda", "tmpfs", "/dev/vda"]);
        assert_eq!(Mount::above("", Path::new("/")), None);
    }

    #[test]
    fn counters_are_those_of_the_device() {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = machine(folder.path());
        let disk = DataDisk::of_folder(&machine, Path::new("/"));
        assert_eq!(disk, DataDisk::Device("vda".to_owned()));
        let counters = DiskCounters {
            reads: 10,
            read_bytes: 102_400,
            writes: 40,
            written_bytes: 256_000,
            operations_us: 90_000,
            busy_us: 70_000,
        };
        assert_eq!(disk.counters(&machine), Some(counters));
        assert_eq!(DataDisk::Memory.counters(&machine), Some(DiskCounters::default()));
        assert_eq!(DataDisk::Device("vdc".to_owned()).counters(&machine), None);
        assert_eq!(DataDisk::Unknown("x".to_owned()).counters(&machine), None);
    }

    #[test]
    fn file_systems_without_a_device_are_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = machine(folder.path());
        let with = |mounts: &str| {
            fs::write(folder.path().join("self/mountinfo"), mounts).expect("the file can be written");
            DataDisk::of_folder(&machine, Path::new("/"))
        };
        assert_eq!(with("1 1 0:23 / / rw - tmpfs tmpfs rw\n"), DataDisk::Memory);
        assert_eq!(with("1 1 0:40 / / rw - btrfs /dev/vdb rw\n"), DataDisk::Device("vdb".to_owned()), "by its source");
        assert!(with("1 1 0:41 / / rw - nfs server:/x rw\n").origin().ends_with("of the file system nfs"));
        assert!(matches!(with(""), DataDisk::Unknown(_)));
    }
}
