//! Administration: one implementation for the command line and for the control socket.
//!
//! | module | content |
//! |---|---|
//! | [`mod@execute`] | execution of any request |
//! | [`request`], [`answer`], [`error`] | requests; results and progress; errors |
//! | [`people`], [`groups`], [`domains`] | the directory |
//! | [`sessions`], [`application_passwords`] | logins in browsers; passwords for programs |
//! | [`databases`], [`acl`], [`views`] | databases; access control lists; views |
//! | `copies` | copies of databases |
//! | [`full_text`] | the full-text index of a database |
//! | [`designs`], [`table`] | templates; import and export of documents as tables |
//! | [`fixup`], [`maintenance`] | damage; backup, attachments |
//! | [`data_files`] | the files of a backup beside the store: keys, certificates, templates |
//! | [`queue`], [`tls`] | queued mail; the certificate |
//! | [`import`], [`export`] | mail from files and into files |
//! | [`control`] | the control socket of a running server |
//! | [`mail_files`], [`flag_list`] | the names of such files; flags beside them |
//!
//! The caller that executes a [`Request`] receives progress through a closure, which may cancel the command. The result
//! is an [`Answer`] or an [`AdminError`] whose text says what to do next. All functions here block, and none of them
//! prints.

pub mod acl;
pub mod answer;
pub mod application_passwords;
mod conflicts;
pub mod connections;
pub mod control;
mod copies;
pub mod data_files;
pub mod databases;
pub mod designs;
mod directory_entries;
pub mod domains;
pub mod error;
pub mod execute;
pub mod export;
pub mod fixup;
pub mod flag_list;
pub mod full_text;
pub mod groups;
pub mod import;
pub mod limits;
pub mod mail_files;
pub mod maintenance;
mod open;
pub mod people;
pub mod queue;
mod replication;
pub mod replication_log;
mod replication_settings;
pub mod request;
pub mod servers;
pub mod sessions;
mod soft_deletion;
pub mod status;
pub mod table;
pub mod tls;
mod units;
pub mod views;

pub use answer::{Answer, Progress, ProgressCallback, Unit, format_count};
pub use error::{AdminError, AdminResult, report_step};
pub use execute::execute;
pub use request::Request;

#[cfg(test)]
pub(crate) mod tests {
    use notes::{Access, Writer, level};
    use sample::Sample;

    use super::*;

    /// Changes a database of a sample in one transaction.
    pub(crate) fn write<T>(
        sample: &Sample,
        path: &str,
        change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>,
    ) -> T {
        let writer: Access<level::Depositor> = open::open(&sample.instance, path).expect("it exists").downgrade();
        let accesses = [&writer];
        let mut transaction = sample.instance.databases.transaction(&accesses).expect("the transaction begins");
        let outcome = change(&mut transaction.writer(0)).expect("the change is valid");
        transaction.commit().expect("the store works");
        outcome
    }

    /// Executes requests on a sample.
    pub(crate) trait ExecuteRequest {
        /// Executes a request and ignores its progress.
        fn execute(&self, request: Request) -> AdminResult;
    }

    impl ExecuteRequest for Sample {
        fn execute(&self, request: Request) -> AdminResult {
            execute(&self.instance, request, &mut |_| std::ops::ControlFlow::Continue(()))
        }
    }
}
