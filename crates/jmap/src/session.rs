//! The Session object (RFC 8620 §2): capabilities with their true limits, accounts, and addresses.
//!
//! The state of the session is a digest of everything in the object that can change, so a client that sees another one
//! in a reply fetches the object again.

use serde_json::{Map, Value, json};

use crate::backend::{AccountInfo, Caller, Services};
use crate::limits::{BLOB_SOURCES_MAX, DELAYED_SEND_MAX, MAILBOX_DEPTH_MAX, MAILBOX_NAME_BYTES_MAX};
use crate::sort::SORT_PROPERTIES;

/// The capability of the core (RFC 8620).
pub const CORE: &str = "urn:ietf:params:jmap:core";
/// The capability of mail (RFC 8621).
pub const MAIL: &str = "urn:ietf:params:jmap:mail";
/// The capability of identities and submission (RFC 8621 §1.3.2).
pub const SUBMISSION: &str = "urn:ietf:params:jmap:submission";
/// The capability of out of office replies (RFC 8621 §1.3.3).
pub const VACATION_RESPONSE: &str = "urn:ietf:params:jmap:vacationresponse";
/// The capability of message disposition notifications (RFC 9007).
pub const MDN: &str = "urn:ietf:params:jmap:mdn";
/// The capability of quotas (RFC 9425).
pub const QUOTA: &str = "urn:ietf:params:jmap:quota";
/// The capability of blobs (RFC 9404).
pub const BLOB: &str = "urn:ietf:params:jmap:blob";

/// The capability of requests and push over WebSocket (RFC 8887).
pub const WEBSOCKET: &str = "urn:ietf:params:jmap:websocket";

/// The capability of the key by which the server identifies itself to push services (RFC 9749). The server has it only
/// if the operator has named hosts to which it sends pushes.
pub const WEBPUSH_VAPID: &str = "urn:ietf:params:jmap:webpush-vapid";
/// The capability of principals (RFC 9670).
pub const PRINCIPALS: &str = "urn:ietf:params:jmap:principals";
/// The capability of accounts whose owner is a principal (RFC 9670 §1.5.2). Requests do not use it.
pub const PRINCIPALS_OWNER: &str = "urn:ietf:params:jmap:principals:owner";
/// The capability of preferences, which is one of our own (`docs/jmap.md`).
pub const PREFERENCES: &str = "urn:doublet:params:jmap:preferences";

/// The capabilities of the server. Those of accounts are all but the first one.
pub const CAPABILITIES: [&str; 9] =
    [CORE, MAIL, SUBMISSION, VACATION_RESPONSE, MDN, QUOTA, BLOB, PRINCIPALS, PREFERENCES];

/// The addresses of the server, as clients reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionUrls {
    /// The address of the API.
    pub api: String,
    /// The template of downloads, with `{accountId}`, `{blobId}`, `{type}` and `{name}`.
    pub download: String,
    /// The template of uploads, with `{accountId}`.
    pub upload: String,
    /// The template of events, with `{types}`, `{closeafter}` and `{ping}`.
    pub event_source: String,
    /// The address for WebSocket, if the server offers it.
    pub websocket: Option<String>,
}

/// Returns `true` if the server has a capability.
#[must_use]
pub fn has_capability(services: &Services, name: &str) -> bool {
    let has_key = || services.push.key().is_some();
    CAPABILITIES.contains(&name) || name == WEBSOCKET || (name == WEBPUSH_VAPID && has_key())
}

/// Returns the Session object of a caller.
pub fn session(services: &Services, caller: &Caller, urls: &SessionUrls) -> mail::Result<Value> {
    let mut session = describe(services, caller)?;
    let state = digest(&session);
    if let Some(websocket) = &urls.websocket {
        let capability = json!({ "url": websocket, "supportsPush": true });
        session["capabilities"][WEBSOCKET] = capability;
    }
    session["username"] = username(&session, caller);
    session["apiUrl"] = json!(urls.api);
    session["downloadUrl"] = json!(urls.download);
    session["uploadUrl"] = json!(urls.upload);
    session["eventSourceUrl"] = json!(urls.event_source);
    session["state"] = json!(state);
    Ok(session)
}

/// Returns the name that people know a caller by: the address of its own account, or else its login.
fn username(session: &Value, caller: &Caller) -> Value {
    let own = session["primaryAccounts"][MAIL].as_str();
    own.map_or_else(|| json!(caller.login), |id| session["accounts"][id]["name"].clone())
}

/// Returns the state of the Session object.
pub fn session_state(services: &Services, caller: &Caller) -> mail::Result<String> {
    Ok(digest(&describe(services, caller)?))
}

fn digest(session: &Value) -> String {
    blake3::hash(session.to_string().as_bytes()).to_hex()[..16].to_owned()
}

/// Returns the parts of the object that do not depend on addresses.
fn describe(services: &Services, caller: &Caller) -> mail::Result<Value> {
    let mut accounts = Map::new();
    let mut primary = Map::new();
    let infos = services.accounts.accounts(caller)?;
    let of_principals = principals_account(&infos);
    for info in &infos {
        if info.is_personal && primary.is_empty() {
            primary = CAPABILITIES[1..].iter().map(|name| ((*name).to_owned(), json!(info.id))).collect();
        }
        accounts.insert(info.id.clone(), describe_account(services, caller, info, of_principals));
    }
    let mut capabilities: Map<String, Value> = CAPABILITIES
        .iter()
        .map(|name| ((*name).to_owned(), if *name == CORE { core_capability(services) } else { json!({}) }))
        .collect();
    if let Some(key) = services.push.key() {
        capabilities.insert(WEBPUSH_VAPID.to_owned(), json!({ "applicationServerKey": key.public() }));
    }
    Ok(json!({ "capabilities": capabilities, "accounts": accounts, "primaryAccounts": primary }))
}

fn core_capability(services: &Services) -> Value {
    let limits = &services.limits;
    json!({
        "maxSizeUpload": limits.upload_bytes_max,
        "maxConcurrentUpload": limits.concurrent_uploads_max,
        "maxSizeRequest": limits.request_bytes_max,
        "maxConcurrentRequests": limits.concurrent_requests_max,
        "maxCallsInRequest": limits.calls_max,
        "maxObjectsInGet": limits.get_objects_max,
        "maxObjectsInSet": limits.set_objects_max,
        "collationAlgorithms": ["i;ascii-casemap", "i;unicode-casemap"],
    })
}

/// Returns the account of a caller that has the principals: its own.
#[must_use]
pub fn principals_account(infos: &[AccountInfo]) -> Option<&str> {
    infos.iter().find(|info| info.is_personal).map(|info| info.id.as_str())
}

/// Returns the Account object of an account (RFC 8620 §2). `of_principals` is the account with the principals.
#[must_use]
pub fn describe_account(
    services: &Services,
    caller: &Caller,
    info: &AccountInfo,
    of_principals: Option<&str>,
) -> Value {
    let rights = info.rights.within(caller.scope);
    let mail = json!({
        "maxMailboxesPerEmail": services.limits.mailboxes_per_email_max,
        "maxMailboxDepth": MAILBOX_DEPTH_MAX,
        "maxSizeMailboxName": MAILBOX_NAME_BYTES_MAX,
        "maxSizeAttachmentsPerEmail": services.limits.attachments_bytes_max(),
        "emailQuerySortOptions": SORT_PROPERTIES,
        "mayCreateTopLevelMailbox": rights.may_create_mailboxes,
    });
    let submission = json!({
        "maxDelayedSend": DELAYED_SEND_MAX.as_secs(),
        "submissionExtensions": { "FUTURERELEASE": [] },
    });
    let blob = json!({
        "maxSizeBlobSet": services.limits.upload_bytes_max,
        "maxDataSources": BLOB_SOURCES_MAX,
        "supportedTypeNames": ["Mailbox", "Thread", "Email"],
        "supportedDigestAlgorithms": ["sha", "sha-256"],
    });
    let mut capabilities = Map::from_iter([
        (MAIL.to_owned(), mail),
        (SUBMISSION.to_owned(), submission),
        (VACATION_RESPONSE.to_owned(), json!({})),
        (MDN.to_owned(), json!({})),
        (QUOTA.to_owned(), json!({})),
        (BLOB.to_owned(), blob),
        (PREFERENCES.to_owned(), json!({})),
    ]);
    if info.is_personal {
        capabilities.insert(PRINCIPALS.to_owned(), json!({ "currentUserPrincipalId": info.owner }));
    }
    if let (Some(account), Some(owner)) = (of_principals, &info.owner) {
        let owner = json!({ "accountIdForPrincipal": account, "principalId": owner });
        capabilities.insert(PRINCIPALS_OWNER.to_owned(), owner);
    }
    json!({
        "name": info.name,
        "isPersonal": info.is_personal,
        "isReadOnly": rights.is_read_only,
        "accountCapabilities": capabilities,
    })
}
