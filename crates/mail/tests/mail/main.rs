//! Tests of mail files, the router, imports and the texts of messages, over the in-memory engine.

mod composed;
mod crash;
mod full_text;
mod import;
mod mailbox;
mod places;
mod router;
mod threads;
