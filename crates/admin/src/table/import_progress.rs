//! Progress of an import: a profile document in the database, written in the same transaction as the documents.
//!
//! The record therefore states exactly which rows are documents already, whatever ended the import, and an import that
//! continues after them creates no duplicates. It is deleted together with the last documents. An import from standard
//! input has no record, because its input may differ the next time.

use std::path::Path;

use notes::{Access, Item, ItemValue, Note, Writer, level};

use super::super::request::TableImport;
use super::super::{AdminError, format_count};

/// Maximum number of bytes of a file name that distinguish the imports of a database.
const NAME_BYTES_MAX: usize = 200;

/// Progress of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ImportProgress {
    /// Name of the profile document, or `None` if no progress is recorded.
    name: Option<String>,
    /// Size of the file in bytes. Zero if another size is expected, because the next row must be corrected first.
    size: u64,
    /// Number of rows that are documents or were rejected.
    pub(super) rows: u64,
    /// Number of documents created.
    pub(super) documents: u64,
    /// Number of rejected rows.
    pub(super) refused: u64,
    /// Set if the progress is stored in the database.
    is_stored: bool,
}

impl ImportProgress {
    /// Determines the row at which the import begins: after the rows of an interrupted import if the request resumes
    /// it, otherwise at the first row. Fails if the request does not fit the stored progress.
    pub(super) fn begin(request: &TableImport, access: &Access<level::Designer>) -> Result<Self, AdminError> {
        if request.is_stdin() && request.resume {
            let reason = "--resume requires a file: the content of standard input may differ from that of the interrupted import";
            return Err(AdminError::Refused(reason.to_owned()));
        }
        if request.dry_run || request.is_stdin() {
            return Ok(Self::default());
        }
        let size = std::fs::metadata(&request.file).map_err(AdminError::file(&request.file))?.len();
        let name = profile_name(&request.file);
        let reader: Access<level::Reader> = access.downgrade();
        let stored = reader.read()?.profile(&name, None)?;
        let fresh = Self { name: Some(name), size, ..Self::default() };
        match stored.map(|note| fresh.with_stored_counts(&note)) {
            None if request.resume => Err(AdminError::Refused(format!(
                "there is nothing to resume: no import of {} into {} was interrupted; without --resume, the import starts with the first row",
                request.file.display(),
                request.path
            ))),
            None => Ok(fresh),
            Some(_) if request.restart => Ok(Self { is_stored: true, ..fresh }),
            Some(stored) => stored.resume(request, size),
        }
    }

    /// Returns `true` if an import interrupted now can be resumed.
    pub(super) fn is_resumable(&self) -> bool {
        self.name.is_some()
    }

    fn with_stored_counts(&self, note: &Note) -> Self {
        let number = |name: &str| match note.item(name).map(|item| &item.value) {
            Some(ItemValue::Number(number)) if *number >= 0.0 => *number as u64,
            _ => 0,
        };
        let rows = number("Rows");
        let documents = number("Documents");
        let refused = number("Refused");
        let size = number("Bytes");
        Self { name: self.name.clone(), size, rows, documents, refused, is_stored: true }
    }

    fn resume(self, request: &TableImport, size: u64) -> Result<Self, AdminError> {
        let rows = self.rows;
        let documents = self.documents;
        let path = &request.path;
        let file = request.file.display();
        if !request.resume {
            return Err(AdminError::Refused(format!(
                "an import of {file} into {path} was interrupted after row {rows}, with {} created; --resume continues after that row, \
                 --restart starts again with the first row and keeps what was created",
                format_count(documents, "document", "documents")
            )));
        }
        if size != self.size && self.size != 0 {
            return Err(AdminError::Refused(format!(
                "{file} has {size} bytes, but had {} when the import was interrupted, so it is unknown which of its rows were imported; \
                 --restart starts again with the first row",
                self.size
            )));
        }
        Ok(Self { size, ..self })
    }

    /// Writes the progress in a transaction that creates documents.
    pub(super) fn write(&mut self, writer: &mut Writer<'_, '_>) -> Result<(), notes::Error> {
        let Some(name) = &self.name else { return Ok(()) };
        let number = |name: &str, value: u64| Item::summary(name, ItemValue::Number(value as f64));
        let items = [
            number("Rows", self.rows),
            number("Documents", self.documents),
            number("Refused", self.refused),
            number("Bytes", self.size),
        ];
        writer.profile_set(name, None, &items, &[])?;
        self.is_stored = true;
        Ok(())
    }

    /// Writes in the last transaction that the following row, and with it the rest of the file, could not be read.
    /// After the row is corrected, the file has another size.
    pub(super) fn write_at_unread_row(&mut self, writer: &mut Writer<'_, '_>) -> Result<(), notes::Error> {
        if self.rows == 0 {
            return self.delete(writer);
        }
        self.size = 0;
        self.write(writer)
    }

    /// Deletes the progress record in the transaction with the last documents.
    pub(super) fn delete(&mut self, writer: &mut Writer<'_, '_>) -> Result<(), notes::Error> {
        if let Some(name) = self.name.as_ref().filter(|_| self.is_stored) {
            writer.profile_delete(name, None)?;
        }
        self.is_stored = false;
        Ok(())
    }
}

/// Returns the name of the profile document. It contains the file name without the folder, so that imports of one file
/// are recognized wherever the file lies.
pub(super) fn profile_name(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let end = name.floor_char_boundary(NAME_BYTES_MAX);
    let name: String = name[..end].chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    format!("Import of {name}")
}
