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
use crate::session::{BLOB, CORE, MAIL, PREFERENCES, PRINCIPALS, QUOTA, SUBMISSION, VACATION_RESPONSE};

/// A method.
pub struct Method {
    /// The name, such as `Email/get`.
    pub name: &'static str,
    /// The capability that a request must use.
    pub capability: &'static str,
    /// Runs the method.
    pub run: fn(&mut Context<'_>, Arguments) -> MethodResult<Map<String, Value>>,
}

/// All methods.
pub const METHODS: &[Method] = &[
    Method { name: "Core/echo", capability: CORE, run: core_echo::run },
    Method { name: "Blob/copy", capability: CORE, run: blob_copy::run },
    Method { name: "Blob/get", capability: BLOB, run: blob_get::run },
    Method { name: "Blob/lookup", capability: BLOB, run: blob_lookup::run },
    Method { name: "Blob/upload", capability: BLOB, run: blob_upload::run },
    Method { name: "Email/changes", capability: MAIL, run: email_changes::run },
    Method { name: "Email/copy", capability: MAIL, run: email_copy::run },
    Method { name: "Email/get", capability: MAIL, run: email_get::run },
    Method { name: "Email/import", capability: MAIL, run: email_import::run },
    Method { name: "Email/parse", capability: MAIL, run: email_parse::run },
    Method { name: "Email/query", capability: MAIL, run: email_query::run },
    Method { name: "Email/queryChanges", capability: MAIL, run: email_query_changes::run },
    Method { name: "Email/set", capability: MAIL, run: email_set::run },
    Method { name: "EmailSubmission/changes", capability: SUBMISSION, run: email_submission_changes::run },
    Method { name: "EmailSubmission/get", capability: SUBMISSION, run: email_submission_get::run },
    Method { name: "EmailSubmission/query", capability: SUBMISSION, run: email_submission_query::run },
    Method { name: "EmailSubmission/queryChanges", capability: SUBMISSION, run: email_submission_query_changes::run },
    Method { name: "EmailSubmission/set", capability: SUBMISSION, run: email_submission_set::run },
    Method { name: "Identity/changes", capability: SUBMISSION, run: identity_changes::run },
    Method { name: "Identity/get", capability: SUBMISSION, run: identity_get::run },
    Method { name: "Identity/set", capability: SUBMISSION, run: identity_set::run },
    Method { name: "Mailbox/changes", capability: MAIL, run: mailbox_changes::run },
    Method { name: "Mailbox/get", capability: MAIL, run: mailbox_get::run },
    Method { name: "Mailbox/query", capability: MAIL, run: mailbox_query::run },
    Method { name: "Mailbox/queryChanges", capability: MAIL, run: mailbox_query_changes::run },
    Method { name: "Mailbox/set", capability: MAIL, run: mailbox_set::run },
    Method { name: "PushSubscription/get", capability: CORE, run: push_subscription_get::run },
    Method { name: "PushSubscription/set", capability: CORE, run: push_subscription_set::run },
    Method { name: "Preferences/changes", capability: PREFERENCES, run: preferences::run_changes },
    Method { name: "Preferences/get", capability: PREFERENCES, run: preferences::run_get },
    Method { name: "Preferences/set", capability: PREFERENCES, run: preferences::run_set },
    Method { name: "Principal/changes", capability: PRINCIPALS, run: principal_changes::run },
    Method { name: "Principal/get", capability: PRINCIPALS, run: principal_get::run },
    Method { name: "Principal/query", capability: PRINCIPALS, run: principal_query::run },
    Method { name: "Principal/queryChanges", capability: PRINCIPALS, run: principal_query::run_changes },
    Method { name: "Principal/set", capability: PRINCIPALS, run: principal_set::run },
    Method { name: "Quota/changes", capability: QUOTA, run: quota_changes::run },
    Method { name: "Quota/get", capability: QUOTA, run: quota_get::run },
    Method { name: "Quota/query", capability: QUOTA, run: quota_query::run },
    Method { name: "Quota/queryChanges", capability: QUOTA, run: quota_query_changes::run },
    Method { name: "SearchSnippet/get", capability: MAIL, run: search_snippet_get::run },
    Method { name: "ShareNotification/changes", capability: PRINCIPALS, run: share_notification::run_changes },
    Method { name: "ShareNotification/get", capability: PRINCIPALS, run: share_notification::run_get },
    Method { name: "ShareNotification/query", capability: PRINCIPALS, run: share_notification::run_query },
    Method {
        name: "ShareNotification/queryChanges",
        capability: PRINCIPALS,
        run: share_notification::run_query_changes,
    },
    Method { name: "ShareNotification/set", capability: PRINCIPALS, run: share_notification::run_set },
    Method { name: "Thread/changes", capability: MAIL, run: thread_changes::run },
    Method { name: "Thread/get", capability: MAIL, run: thread_get::run },
    Method { name: "VacationResponse/get", capability: VACATION_RESPONSE, run: vacation_response::run_get },
    Method { name: "VacationResponse/set", capability: VACATION_RESPONSE, run: vacation_response::run_set },
];

/// Returns the method with a name, if the request uses its capability.
#[must_use]
pub fn find(name: &str, using: &[String]) -> Option<&'static Method> {
    let method = METHODS.iter().find(|method| method.name == name)?;
    using.iter().any(|used| used == method.capability).then_some(method)
}
