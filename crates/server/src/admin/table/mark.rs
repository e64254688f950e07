//! How far an import has come: a profile document of the database, written with the documents of each transaction.
//!
//! So it says exactly which rows are documents already, whatever ended the import, and one that goes on behind them makes none twice. It goes with the
//! last documents. What is read from standard input has no mark, for nobody can tell whether the same comes again.

use std::path::Path;

use notes::{Access, Item, Note, Value, Writer, level};

use super::super::request::TableImport;
use super::super::{Failure, counted};

/// Most bytes of a file's name that tell imports of a database apart.
const NAME_BYTES_MAX: usize = 200;

/// How far an import is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// The name of the profile; nothing where no mark is kept.
    name: Option<String>,
    /// Bytes of the file; zero where another length is to be expected, because the row behind those has to be mended.
    size: u64,
    /// Rows that are documents or were refused.
    pub(super) rows: u64,
    /// Documents that were made.
    pub(super) documents: u64,
    /// Rows that were refused.
    pub(super) refused: u64,
    /// It stands in the database.
    is_stored: bool,
}

impl Mark {
    /// Finds where the import has to begin: behind what one that was broken off has taken, if that was asked for.
    pub(super) fn begin(request: &TableImport, access: &Access<level::Designer>) -> Result<Self, Failure> {
        if request.is_input() && request.resume {
            let why = "what comes from standard input may be something else this time: --resume wants a file";
            return Err(Failure::Refused(why.to_owned()));
        }
        if request.dry_run || request.is_input() {
            return Ok(Self::default());
        }
        let size = std::fs::metadata(&request.file).map_err(Failure::file(&request.file))?.len();
        let name = name_of(&request.file);
        let reader: Access<level::Reader> = access.lower();
        let stored = reader.read()?.profile(&name, None)?;
        let fresh = Self { name: Some(name), size, ..Self::default() };
        match stored.map(|note| fresh.stored(&note)) {
            None if request.resume => Err(Failure::Refused(format!(
                "there is nothing to resume: no import of {} into {} was broken off; without --resume it begins with the first row",
                request.file.display(),
                request.path
            ))),
            None => Ok(fresh),
            Some(_) if request.restart => Ok(Self { is_stored: true, ..fresh }),
            Some(stored) => stored.resumed(request, size),
        }
    }

    /// Tells whether an import that is broken off now can be gone on with.
    pub(super) fn is_kept(&self) -> bool {
        self.name.is_some()
    }

    fn stored(&self, note: &Note) -> Self {
        let number = |name: &str| match note.item(name).map(|item| &item.value) {
            Some(Value::Number(number)) if *number >= 0.0 => *number as u64,
            _ => 0,
        };
        let (rows, documents, refused) = (number("Rows"), number("Documents"), number("Refused"));
        let size = number("Bytes");
        Self { name: self.name.clone(), size, rows, documents, refused, is_stored: true }
    }

    fn resumed(self, request: &TableImport, size: u64) -> Result<Self, Failure> {
        let (rows, documents, path) = (self.rows, self.documents, &request.path);
        let file = request.file.display();
        if !request.resume {
            return Err(Failure::Refused(format!(
                "an import of {file} into {path} was broken off after row {rows}, when {} made; --resume goes on behind that row, \
                 --restart begins with the first one again and leaves what was made where it is",
                counted(documents, "document was", "documents were")
            )));
        }
        if size != self.size && self.size != 0 {
            return Err(Failure::Refused(format!(
                "{file} has {size} bytes, and {} when the import was broken off: which of its rows are documents already cannot be \
                 told; --restart begins with the first one",
                self.size
            )));
        }
        Ok(Self { size, ..self })
    }

    /// Says, in a transaction that makes documents, how far it comes.
    pub(super) fn put(&mut self, writer: &mut Writer<'_, '_>) -> Result<(), notes::Error> {
        let Some(name) = &self.name else { return Ok(()) };
        let number = |name: &str, value: u64| Item::summary(name, Value::Number(value as f64));
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

    /// Says, in the last transaction, that the row behind those and all further ones could not be read. Once it is mended the file has another length.
    pub(super) fn put_unread(&mut self, writer: &mut Writer<'_, '_>) -> Result<(), notes::Error> {
        if self.rows == 0 {
            return self.end(writer);
        }
        self.size = 0;
        self.put(writer)
    }

    /// Takes the mark away, in the transaction with the last documents.
    pub(super) fn end(&mut self, writer: &mut Writer<'_, '_>) -> Result<(), notes::Error> {
        if let Some(name) = self.name.as_ref().filter(|_| self.is_stored) {
            writer.profile_delete(name, None)?;
        }
        self.is_stored = false;
        Ok(())
    }
}

/// Gives the name of the profile: imports of one file are told from those of others by its name, whatever folder it lies in.
pub(super) fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let end = name.floor_char_boundary(NAME_BYTES_MAX);
    let name: String = name[..end].chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    format!("Import of {name}")
}
