//! What the tests of several doors share: a server that follows a script, and what IMAP and POP3 have in common.

pub mod mail_doors;
pub mod scripted_server;
