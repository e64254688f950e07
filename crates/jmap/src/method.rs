//! The methods: one file each, and the table of their names and capabilities.
//!
//! A method takes its arguments, refuses those that it does not know, opens the account with the rights of the caller,
//! and returns the arguments of its response.

mod blob_copy;
mod blob_get;
mod blob_lookup;
mod blob_upload;
mod core_echo;
mod email_changes;
mod email_copy;
mod email_get;
mod email_import;
mod email_parse;
mod email_query;
mod email_query_changes;
mod email_set;
mod email_submission_changes;
mod email_submission_get;
mod email_submission_query;
mod email_submission_query_changes;
mod email_submission_set;
mod get_call;
mod identity_changes;
mod identity_get;
mod identity_set;
mod mailbox_changes;
mod mailbox_get;
mod mailbox_query;
mod mailbox_query_changes;
mod mailbox_set;
mod mdn_parse;
mod mdn_send;
mod parse_call;
mod preferences;
mod principal_changes;
mod principal_get;
mod principal_query;
mod principal_set;
mod push_subscription_get;
mod push_subscription_set;
mod quota_changes;
mod quota_get;
mod quota_query;
mod quota_query_changes;
mod refused_request;
mod search_snippet_get;
mod set_call;
mod share_notification;
mod singleton;
mod thread_changes;
mod thread_get;
mod vacation_response;

use serde_json::{Map, Value};

use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::MethodResult;
use crate::session::{BLOB, CORE, MAIL, MDN, PREFERENCES, PRINCIPALS, QUOTA, SUBMISSION, VACATION_RESPONSE};

/// A method.
pub struct Method {
    /// The name, such as `Email/get`.
    pub name: &'static str,
    /// The capabilities that a request must use.
    pub capabilities: &'static [&'static str],
    /// Runs the method.
    pub run: fn(&mut Context<'_>, Arguments) -> MethodResult<Map<String, Value>>,
}

/// All methods.
pub const METHODS: &[Method] = &[
    Method { name: "Core/echo", capabilities: &[CORE], run: core_echo::run },
    Method { name: "Blob/copy", capabilities: &[CORE], run: blob_copy::run },
    Method { name: "Blob/get", capabilities: &[BLOB], run: blob_get::run },
    Method { name: "Blob/lookup", capabilities: &[BLOB], run: blob_lookup::run },
    Method { name: "Blob/upload", capabilities: &[BLOB], run: blob_upload::run },
    Method { name: "Email/changes", capabilities: &[MAIL], run: email_changes::run },
    Method { name: "Email/copy", capabilities: &[MAIL], run: email_copy::run },
    Method { name: "Email/get", capabilities: &[MAIL], run: email_get::run },
    Method { name: "Email/import", capabilities: &[MAIL], run: email_import::run },
    Method { name: "Email/parse", capabilities: &[MAIL], run: email_parse::run },
    Method { name: "Email/query", capabilities: &[MAIL], run: email_query::run },
    Method { name: "Email/queryChanges", capabilities: &[MAIL], run: email_query_changes::run },
    Method { name: "Email/set", capabilities: &[MAIL], run: email_set::run },
    Method { name: "EmailSubmission/changes", capabilities: &[SUBMISSION], run: email_submission_changes::run },
    Method { name: "EmailSubmission/get", capabilities: &[SUBMISSION], run: email_submission_get::run },
    Method { name: "EmailSubmission/query", capabilities: &[SUBMISSION], run: email_submission_query::run },
    Method {
        name: "EmailSubmission/queryChanges",
        capabilities: &[SUBMISSION],
        run: email_submission_query_changes::run,
    },
    Method { name: "EmailSubmission/set", capabilities: &[SUBMISSION], run: email_submission_set::run },
    Method { name: "Identity/changes", capabilities: &[SUBMISSION], run: identity_changes::run },
    Method { name: "Identity/get", capabilities: &[SUBMISSION], run: identity_get::run },
    Method { name: "Identity/set", capabilities: &[SUBMISSION], run: identity_set::run },
    Method { name: "Mailbox/changes", capabilities: &[MAIL], run: mailbox_changes::run },
    Method { name: "Mailbox/get", capabilities: &[MAIL], run: mailbox_get::run },
    Method { name: "Mailbox/query", capabilities: &[MAIL], run: mailbox_query::run },
    Method { name: "Mailbox/queryChanges", capabilities: &[MAIL], run: mailbox_query_changes::run },
    Method { name: "Mailbox/set", capabilities: &[MAIL], run: mailbox_set::run },
    Method { name: "MDN/parse", capabilities: &[MDN], run: mdn_parse::run },
    // Its implicit call of Email/set needs the capability of mail (RFC 9007 §2.1).
    Method { name: "MDN/send", capabilities: &[MDN, MAIL], run: mdn_send::run },
    Method { name: "PushSubscription/get", capabilities: &[CORE], run: push_subscription_get::run },
    Method { name: "PushSubscription/set", capabilities: &[CORE], run: push_subscription_set::run },
    Method { name: "Preferences/changes", capabilities: &[PREFERENCES], run: preferences::run_changes },
    Method { name: "Preferences/get", capabilities: &[PREFERENCES], run: preferences::run_get },
    Method { name: "Preferences/set", capabilities: &[PREFERENCES], run: preferences::run_set },
    Method { name: "Principal/changes", capabilities: &[PRINCIPALS], run: principal_changes::run },
    Method { name: "Principal/get", capabilities: &[PRINCIPALS], run: principal_get::run },
    Method { name: "Principal/query", capabilities: &[PRINCIPALS], run: principal_query::run },
    Method { name: "Principal/queryChanges", capabilities: &[PRINCIPALS], run: principal_query::run_changes },
    Method { name: "Principal/set", capabilities: &[PRINCIPALS], run: principal_set::run },
    Method { name: "Quota/changes", capabilities: &[QUOTA], run: quota_changes::run },
    Method { name: "Quota/get", capabilities: &[QUOTA], run: quota_get::run },
    Method { name: "Quota/query", capabilities: &[QUOTA], run: quota_query::run },
    Method { name: "Quota/queryChanges", capabilities: &[QUOTA], run: quota_query_changes::run },
    Method { name: "SearchSnippet/get", capabilities: &[MAIL], run: search_snippet_get::run },
    Method { name: "ShareNotification/changes", capabilities: &[PRINCIPALS], run: share_notification::run_changes },
    Method { name: "ShareNotification/get", capabilities: &[PRINCIPALS], run: share_notification::run_get },
    Method { name: "ShareNotification/query", capabilities: &[PRINCIPALS], run: share_notification::run_query },
    Method {
        name: "ShareNotification/queryChanges",
        capabilities: &[PRINCIPALS],
        run: share_notification::run_query_changes,
    },
    Method { name: "ShareNotification/set", capabilities: &[PRINCIPALS], run: share_notification::run_set },
    Method { name: "Thread/changes", capabilities: &[MAIL], run: thread_changes::run },
    Method { name: "Thread/get", capabilities: &[MAIL], run: thread_get::run },
    Method { name: "VacationResponse/get", capabilities: &[VACATION_RESPONSE], run: vacation_response::run_get },
    Method { name: "VacationResponse/set", capabilities: &[VACATION_RESPONSE], run: vacation_response::run_set },
];

/// Returns `true` if a method changes nothing, so that a client can repeat it.
#[must_use]
pub fn is_reading(name: &str) -> bool {
    let verb = name.split_once('/').map_or("", |(_, verb)| verb);
    matches!(verb, "changes" | "echo" | "get" | "lookup" | "parse" | "query" | "queryChanges")
}

/// Returns the method with a name, if the request uses its capabilities.
#[must_use]
pub fn find(name: &str, using: &[String]) -> Option<&'static Method> {
    let method = METHODS.iter().find(|method| method.name == name)?;
    let is_used = |name: &&str| using.iter().any(|used| used == name);
    method.capabilities.iter().all(is_used).then_some(method)
}
