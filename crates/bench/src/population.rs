//! The population: the people of a run, the contents of messages and documents, and the filling of mail files.
//!
//! The contents are pure: the same seed gives the same bytes on every machine. [`language`] has words and names,
//! [`text`] sentences, [`attachment`] files; [`content`] makes letters of them, and [`message`] messages (RFC 5322) of
//! letters. [`people`] are the users and their names. [`memos`] says what the mail files have, [`databases`]
//! what other databases have, and [`size`] what that takes. [`fill`] writes it through the doors, and [`copies`] lets
//! the server copy mail files. [`manifest`] says what a kept data folder holds.

pub mod attachment;
pub mod content;
pub mod copies;
pub mod databases;
pub mod fill;
pub mod language;
pub mod manifest;
pub mod memos;
pub mod message;
pub mod people;
pub mod size;
pub mod text;
