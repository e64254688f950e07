//! The directory of a report: its name, and its files.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use base::Timestamp;

use super::model::Report;
use super::samples::{self, SampleValue};
use super::{html, markdown};
use crate::door::journal::Journal;

/// The directory of a report.
#[derive(Debug)]
pub struct ReportDirectory {
    path: PathBuf,
}

impl ReportDirectory {
    /// Creates the directory `NAME-TIME-SEED` below a folder, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// If the directory exists or cannot be created.
    pub fn create(folder: &Path, name: &str, started: Timestamp, seed: u64) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join(directory_name(name, started, seed));
        DirBuilder::new().create(&path)?;
        Ok(Self { path })
    }

    /// Creates the directory of a further report in this one.
    ///
    /// # Errors
    ///
    /// If the directory exists or cannot be created.
    pub fn create_below(&self, name: &str) -> io::Result<Self> {
        let path = self.path.join(name);
        DirBuilder::new().create(&path)?;
        Ok(Self { path })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file of the histograms.
    pub fn histograms(&self) -> PathBuf {
        self.path.join("histograms.hlog")
    }

    /// Creates the file of the histograms.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub fn create_histograms(&self) -> io::Result<BufWriter<File>> {
        Ok(BufWriter::new(File::create(self.histograms())?))
    }

    /// Creates the file of the journal.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
    pub fn create_journal(&self) -> io::Result<Journal> {
        Journal::create(&self.journal())
    }

    /// Deletes the file of the journal.
    ///
    /// # Errors
    ///
    /// If it cannot be deleted.
    pub fn delete_journal(&self) -> io::Result<()> {
        fs::remove_file(self.journal())
    }

    fn journal(&self) -> PathBuf {
        self.path.join("journal.jsonl")
    }

    /// Writes a file of this name.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> io::Result<()> {
        fs::write(self.path.join(name), text)
    }

    /// Opens the directory of a report that was written earlier.
    pub fn open(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Writes the report for people.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn write_pages(&self, report: &Report, samples: &[SampleValue]) -> io::Result<()> {
        self.write("report.md", &markdown::format(report))?;
        self.write("report.html", &html::format(report, samples))
    }

    /// Writes the report for programs and for people, its samples, and its errors.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn write_report(&self, report: &Report, samples: &[SampleValue]) -> io::Result<()> {
        let mut json = serde_json::to_string_pretty(report)?;
        json.push('\n');
        self.write("report.json", &json)?;
        self.write("machine.json", &(serde_json::to_string_pretty(&report.machine)? + "\n"))?;
        self.write("samples.csv", &samples::format(samples))?;
        self.write_pages(report, samples)?;
        let mut errors = BufWriter::new(File::create(self.path.join("errors.jsonl"))?);
        for error in &report.errors {
            serde_json::to_writer(&mut errors, error)?;
            errors.write_all(b"\n")?;
        }
        errors.flush()
    }
}

/// Returns the name of a directory for a run: `N8Mail-20260131T120000Z-1`.
pub fn directory_name(name: &str, started: Timestamp, seed: u64) -> String {
    let time: String = started.to_rfc3339().chars().filter(char::is_ascii_alphanumeric).collect();
    // Fractions of a second are left out: the date and the time have 15 characters.
    let time: String = time.chars().take(15).collect();
    format!("{name}-{time}Z-{seed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_named_after_workload_time_and_seed() {
        let folder = tempfile::tempdir().expect("a folder");
        let started = Timestamp(1_767_600_000_000_000);
        let directory = ReportDirectory::create(folder.path(), "N8Mail", started, 7).expect("it can be created");
        let name = directory.path().file_name().and_then(|name| name.to_str()).map(str::to_owned);
        assert_eq!(name.as_deref(), Some("N8Mail-20260105T080000Z-7"));
        assert!(ReportDirectory::create(folder.path(), "N8Mail", started, 7).is_err(), "it exists");
        directory.write("workload.toml", "x").expect("it can be written");
        assert_eq!(fs::read(directory.path().join("workload.toml")).expect("it is there"), b"x");
    }
}
