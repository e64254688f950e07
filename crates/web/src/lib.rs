//! The lite web mail: pages that are made on the server and need no script.
//!
//! It has what a day of mail needs: folders, lists, messages, search, composing with attachments, drafts, moving,
//! deleting with undo, addresses and sessions. Everything is a link or a form, so it works in a browser without
//! scripts, in `lynx` and on slow lines. `docs/lite.md` describes the pages, and `docs/web-security.md` the defences.
//!
//! | module | content |
//! |---|---|
//! | [`service`] | [`Service`]: the state, the services that it uses, and the way to a worker |
//! | [`routes`] | the addresses of the pages |
//! | [`backend`] | what the server must provide: mail files, addresses, submission, the full-text index |
//! | [`credential_backend`] | the same for application passwords and the second factor |
//! | `visit` | a request of somebody who is logged in; every form passes its checks here |
//! | `completed_forms` | a form that is repeated changes nothing |
//! | [`form`], [`form_token`] | fields and files of forms; the token that each form has |
//! | `login_form` | the form of the login page, and its cookie |
//! | [`layout`], `answer` | what all pages share: frame, header fields, style sheet |
//! | `page` | the pages, one file each |
//! | [`message_content`] | what is shown of a message: texts, HTML, attachments |
//! | [`sanitizer`], [`style_attribute`] | HTML of messages without anything active or remote |
//! | `confirmation_request` | which senders ask to be told that their message was displayed |
//! | [`outgoing`] | the message that the composer writes |
//! | [`shown_text`], [`shown_time`] | texts of strangers, made safe to look at; times in the zone of the person |
//! | `personal_settings` | preferences and signature of the person |
//! | `folder_order` | pages of a folder as conversations, or in an order other than that of arrival |
//! | [`fuzz`] | entry points for fuzzing |
//! | [`error`], [`limits`] | errors as pages; all limits |
//!
//! Invariants:
//!
//! - A page loads nothing but the style sheet, and runs no script. Nothing of another host is loaded.
//! - Nothing is changed by a request without the token of its session, or from a page of another origin.
//! - A person reaches only the own mail file. Anything else does not exist.
//! - An answer is sent when what it says is durable.
//!
//! Not included: rules, out of office, encrypted mail.

mod answer;
pub mod backend;
mod completed_forms;
mod confirmation_request;
pub mod credential_backend;
pub mod error;
mod folder_order;
pub mod form;
pub mod form_token;
pub mod fuzz;
pub mod layout;
pub mod limits;
mod login_form;
pub mod mail_folders;
pub mod message_content;
mod notice;
pub mod outgoing;
mod page;
mod personal_settings;
pub mod routes;
pub mod sanitizer;
pub mod service;
pub mod shown_text;
pub mod shown_time;
pub mod style_attribute;
mod visit;

pub use error::{Error, Result};
pub use service::{Service, ServiceOptions, Services};
