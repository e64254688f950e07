//! The pages and the forms, one file each.
//!
//! | file | address |
//! |---|---|
//! | `login` | `/lite/login`, `/lite/logout` |
//! | `list` | `/lite/folder/{folder}`: the messages or the conversations of a folder |
//! | `order_query` | the order of a list in addresses and forms |
//! | `action` | the forms of a list and of a message: mark, move, delete, undo |
//! | `message` | `/lite/folder/{folder}/{message}` |
//! | `confirmation` | the confirmation that a message was displayed |
//! | `conversation` | the messages of a thread |
//! | `html` | the message's own look, in a sandbox |
//! | `download` | attachments, and the message as it arrived |
//! | `compose`, `send` | the composer: answer, forward, drafts, sending |
//! | `undo` | `/lite/compose/undo`: the withdrawal of a message |
//! | `ended_session` | the form of the composer after the end of the session |
//! | `folders` | `/lite/folders`: the folders with counts; create, rename, delete |
//! | `search` | `/lite/search` |
//! | `addresses` | `/lite/addresses` |
//! | `settings`, `preferences` | `/lite/settings`: preferences, signature, sessions and quota |
//! | `security` | `/lite/settings/security`: application passwords and the second factor |

pub(crate) mod action;
pub(crate) mod addresses;
pub(crate) mod compose;
pub(crate) mod confirmation;
pub(crate) mod conversation;
pub(crate) mod download;
pub(crate) mod ended_session;
pub(crate) mod folders;
pub(crate) mod html;
pub(crate) mod list;
pub(crate) mod login;
pub(crate) mod message;
pub(crate) mod order_query;
pub(crate) mod preferences;
pub(crate) mod search;
pub(crate) mod security;
pub(crate) mod send;
pub(crate) mod settings;
pub(crate) mod undo;
