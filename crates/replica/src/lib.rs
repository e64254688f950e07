//! The exchange between two replicas, without a network: who asks for what, and in which order it is taken over.
//!
//! Replication is a pull. The target asks the source for a list of what changed after its position, for the notes of
//! the list that it lacks, and so on until nothing is left. [`answer`] is the side of the source, and [`Pull`] that of
//! the target: a state machine that turns answers into the next question. Both run on the caller's thread over the
//! databases that they are given; messages may be lost, repeated or late.
//!
//! A page of the list ends with a transaction of the source. When its notes are taken over, the position behind it is
//! recorded in the last transaction of the page. So a pull that ends at any point has lost nothing, and the next one
//! continues there. Within a page, design notes come first, because documents refer to folders, and then notes by
//! ascending size, so that an interrupted pull has brought many notes and not one (`docs/replication.md`). The unread
//! marks of users follow when all notes are there.

pub mod limits;
mod preview;
mod pull;
mod push;
mod selection;
mod source;
mod target;

pub use preview::{Preview, PreviewStatistics};
pub use pull::{Pull, PullStatistics, Transfer};
pub use push::{Push, PushStatistics, PushTarget, RefusedNote, Written};
pub use selection::Selection;
pub use source::{
    Answer, ListPage, Question, SourceNotes, UnreadPage, answer, answer_in_pages, answer_with, log_unsent,
};
pub use target::{HeldBackNotes, MissingContent, Target};
