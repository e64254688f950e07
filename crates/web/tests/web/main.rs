//! The lite web mail over a store in memory: requests go through its router, without sockets.
//!
//! | module | content |
//! |---|---|
//! | [`world`] | two people with mail files, a directory, a submission that delivers at once, and a browser |
//! | [`day`] | a day of mail with links and forms only |
//! | [`composing`] | drafts, sending once, names, header injection |
//! | [`access`] | who may do what: tokens, origins, sessions, other people's numbers |
//! | [`confirmation`] | the confirmation that a message was displayed |
//! | [`security`] | the second factor, application passwords |
//! | [`hostile`] | hostile messages: HTML, names, attachments |
//! | [`corpus`] | the corpus of hostile messages, which the browser part of `conformance/` uses, too |
//! | [`harmless`] | checks of pages and sanitized HTML with parsers that are not the sanitizer's |
//! | [`attack`] | the corpus in every form in which a message is shown |

mod access;
mod attack;
mod composing;
mod confirmation;
mod corpus;
mod day;
mod harmless;
mod hostile;
mod security;
mod world;
