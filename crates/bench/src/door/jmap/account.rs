//! The Session object (RFC 8620 §2) and the mailboxes of an account, as far as the door needs them; pure.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::door::call::CallError;
use crate::door::http::location::path_of;
use crate::door::http::malformed;

/// Maximum number of mailboxes of an account.
pub(super) const MAILBOXES_MAX: usize = 1_000;
/// Maximum length of an Id (RFC 8620 §1.2).
const ID_BYTES_MAX: usize = 255;
/// Maximum length of a template of an address. Each of its variables can become longer than its name.
const TEMPLATE_BYTES_MAX: usize = 16 << 10;

pub(super) const CORE: &str = "urn:ietf:params:jmap:core";
pub(super) const MAIL: &str = "urn:ietf:params:jmap:mail";
pub(super) const SUBMISSION: &str = "urn:ietf:params:jmap:submission";
pub(super) const PRINCIPALS: &str = "urn:ietf:params:jmap:principals";

/// What is encoded in variables of a template (RFC 6570): all but the unreserved characters.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The account of a user on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    /// The identifier of the account with mail.
    pub(super) id: String,
    /// The account with the principals, if the server has them.
    pub(super) principals: Option<String>,
    /// Messages can be sent.
    pub(super) has_submission: bool,
    /// The path of requests.
    pub(super) api: String,
    /// Maximum number of objects that a call returns.
    pub(super) get_objects_max: usize,
    /// Maximum number of objects that a call changes.
    pub(super) set_objects_max: usize,
    /// Maximum number of calls of a request.
    pub(super) calls_max: usize,
    upload: String,
    download: String,
    event_source: Option<String>,
}

impl Account {
    /// Reads a Session object.
    ///
    /// # Errors
    ///
    /// If it is not one, or if it has no account with mail.
    pub(super) fn read(content: &[u8]) -> Result<Self, CallError> {
        let session: Value = serde_json::from_slice(content)
            .map_err(|error| malformed(format!("the Session object: {error}")).into_lost())?;
        let missing = |name: &str| malformed(format!("the Session object has no {name}")).into_lost();
        let text = |name: &str| session.get(name).and_then(Value::as_str).map(str::to_owned);
        let url = |name: &str| text(name).ok_or_else(|| missing(name));
        let api = url("apiUrl").and_then(|url| path_of(&url).ok_or_else(|| missing("usable apiUrl")))?;
        let primary = |capability: &str| read_id(session.get("primaryAccounts")?.get(capability)?);
        let no_mail = || CallError::lost("no-mail-account", "the Session object has no account with mail");
        let id = primary(MAIL).ok_or_else(no_mail)?;
        let core = session.get("capabilities").and_then(|capabilities| capabilities.get(CORE));
        let limit = |name: &str| {
            let stated = core.and_then(|core| core.get(name)?.as_u64()).filter(|stated| *stated > 0);
            stated.and_then(|stated| usize::try_from(stated).ok()).unwrap_or(usize::MAX)
        };
        let capabilities = session.get("accounts").and_then(|accounts| accounts.get(&id)?.get("accountCapabilities"));
        let has_submission = capabilities.and_then(|capabilities| capabilities.get(SUBMISSION)).is_some();
        Ok(Self {
            principals: primary(PRINCIPALS),
            has_submission,
            api,
            get_objects_max: limit("maxObjectsInGet"),
            set_objects_max: limit("maxObjectsInSet"),
            calls_max: limit("maxCallsInRequest"),
            upload: url("uploadUrl")?,
            download: url("downloadUrl")?,
            event_source: text("eventSourceUrl").filter(|url| !url.is_empty()),
            id,
        })
    }

    /// Returns the path of uploads.
    pub(super) fn upload_path(&self) -> Result<String, CallError> {
        expand(&self.upload, &[("accountId", &self.id)])
    }

    /// Returns the path of a blob.
    pub(super) fn download_path(&self, file: &BlobFile) -> Result<String, CallError> {
        let variables = [
            ("accountId", &*self.id),
            ("blobId", &*file.blob_id),
            ("name", &*file.name),
            ("type", "application/octet-stream"),
        ];
        expand(&self.download, &variables)
    }

    /// Returns the path of the changes of all types, or `None` if the server has no event source.
    pub(super) fn event_source_path(&self) -> Option<Result<String, CallError>> {
        let variables = [("types", "*"), ("closeafter", "no"), ("ping", "300")];
        self.event_source.as_ref().map(|template| expand(template, &variables))
    }
}

/// A file of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlobFile {
    pub(super) blob_id: String,
    pub(super) name: String,
}

/// A mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mailbox {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) role: Option<String>,
}

/// Reads the list of `Mailbox/get`.
pub(super) fn read_mailboxes(result: &Value) -> Vec<Mailbox> {
    let read = |mailbox: &Value| {
        let text = |name: &str| mailbox.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Mailbox { id: read_id(mailbox.get("id")?)?, name: text("name")?, role: text("role") })
    };
    let list = result.get("list").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(read).take(MAILBOXES_MAX).collect()
}

/// Returns the mailbox that people call so: by its role, and then by its name. `INBOX` and `Sent` are roles.
pub(super) fn find_mailbox<'m>(mailboxes: &'m [Mailbox], name: &str) -> Option<&'m Mailbox> {
    let role = name.to_ascii_lowercase();
    let by_role = mailboxes.iter().find(|mailbox| mailbox.role.as_deref() == Some(&*role));
    by_role.or_else(|| mailboxes.iter().find(|mailbox| mailbox.name.eq_ignore_ascii_case(name)))
}

/// Returns an Id, or `None` if it is not one.
pub(super) fn read_id(value: &Value) -> Option<String> {
    value.as_str().filter(|id| !id.is_empty() && id.len() <= ID_BYTES_MAX).map(str::to_owned)
}

/// Replaces the variables of a template, and returns the path of the result.
fn expand(template: &str, variables: &[(&str, &str)]) -> Result<String, CallError> {
    let unusable = || malformed(format!("an address of the Session object cannot be used ({} bytes)", template.len()));
    if template.len() > TEMPLATE_BYTES_MAX {
        return Err(unusable());
    }
    let mut expanded = template.to_owned();
    for (name, value) in variables {
        let encoded = utf8_percent_encode(value, ENCODED).to_string();
        expanded = expanded.replace(&format!("{{{name}}}"), &encoded);
    }
    path_of(&expanded).ok_or_else(unusable)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a Session object.
    pub(in crate::door::jmap) fn session() -> Value {
        json!({
            "capabilities": { CORE: { "maxObjectsInGet": 2, "maxObjectsInSet": 3, "maxCallsInRequest": 4 } },
            "accounts": { "A1": { "accountCapabilities": { MAIL: {}, SUBMISSION: {} } } },
            "primaryAccounts": { MAIL: "A1", PRINCIPALS: "A1" },
            "apiUrl": "https://public.test/api/",
            "uploadUrl": "/upload/{accountId}/",
            "downloadUrl": "https://public.test/download/{accountId}/{blobId}/{name}?accept={type}",
            "eventSourceUrl": "/events?types={types}&closeafter={closeafter}&ping={ping}",
        })
    }

    #[test]
    fn the_session_object_has_addresses_and_limits() {
        let account = Account::read(session().to_string().as_bytes()).expect("a session");
        assert_eq!((&*account.id, account.principals.as_deref(), account.has_submission), ("A1", Some("A1"), true));
        assert_eq!((account.get_objects_max, account.set_objects_max, account.calls_max), (2, 3, 4));
        assert_eq!((&*account.api, &*account.upload_path().expect("a path")), ("/api/", "/upload/A1/"));
        let file = BlobFile { blob_id: "b/1".to_owned(), name: "a b?\u{e9}.txt".to_owned() };
        let path = account.download_path(&file).expect("a path");
        assert_eq!(path, "/download/A1/b%2F1/a%20b%3F%C3%A9.txt?accept=application%2Foctet-stream");
        let events = account.event_source_path().expect("it has one").expect("a path");
        assert_eq!(events, "/events?types=%2A&closeafter=no&ping=300");
    }

    #[test]
    fn what_is_missing_is_named() {
        let check = |change: fn(&mut Value), code: &str, text: &str| {
            let mut session = session();
            change(&mut session);
            let error = Account::read(session.to_string().as_bytes()).expect_err(text);
            assert_eq!((&*error.code, error.session), (code, crate::door::Session::Lost));
            assert!(error.text.contains(text), "{}", error.text);
        };
        check(|session| session["apiUrl"] = json!(7), "malformed", "no apiUrl");
        check(|session| session["apiUrl"] = json!("ftp://x/"), "malformed", "no usable apiUrl");
        check(|session| session["primaryAccounts"] = json!({}), "no-mail-account", "no account with mail");
        check(|session| session["primaryAccounts"][MAIL] = json!("x".repeat(300)), "no-mail-account", "");
        check(|session| session["downloadUrl"] = json!(null), "malformed", "no downloadUrl");
        check(|session| *session = json!([]), "malformed", "no apiUrl");
        assert!(Account::read(b"{").is_err());
        let mut without = session();
        without["capabilities"] = json!({});
        without["accounts"] = json!({});
        without["eventSourceUrl"] = json!("");
        let account = Account::read(without.to_string().as_bytes()).expect("enough");
        assert_eq!((account.get_objects_max, account.has_submission), (usize::MAX, false));
        assert!(account.event_source_path().is_none());
    }

    #[test]
    fn long_templates_are_refused() {
        let template = |length: usize| format!("/{{id}}{}", "x".repeat(length - 5));
        let expanded = |template: &str| expand(template, &[("id", "A")]);
        assert!(expanded(&template(TEMPLATE_BYTES_MAX)).is_ok());
        let error = expanded(&template(TEMPLATE_BYTES_MAX + 1)).expect_err("one byte too long, although it would fit");
        assert_eq!(error.code, "malformed");
    }

    #[test]
    fn mailboxes_are_found_by_role_and_name() {
        let result = json!({ "list": [
            { "id": "1", "name": "Eingang", "role": "inbox" },
            { "id": "2", "name": "Archive", "role": null },
            { "id": "", "name": "none" }, { "name": "none" }, 5,
        ] });
        let mailboxes = read_mailboxes(&result);
        let id = |name| find_mailbox(&mailboxes, name).map(|mailbox| &*mailbox.id);
        assert_eq!((mailboxes.len(), id("INBOX"), id("archive"), id("none")), (2, Some("1"), Some("2"), None));
        assert!(read_mailboxes(&json!({ "list": "x" })).is_empty());
    }
}
