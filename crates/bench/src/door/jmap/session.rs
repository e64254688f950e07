//! The connection of a user, and the requests over it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use serde_json::{Value, json};

use super::JmapSettings;
use super::account::{Account, BlobFile, CORE, MAIL, PRINCIPALS, SUBMISSION, read_id};
use super::methods::{self, Method, check_set};
use crate::door::call::{CallCount, CallError};
use crate::door::http::{HttpClient, HttpRequest, OpenStream, malformed};

/// Where the Session object is (RFC 8620 §2.2).
const WELL_KNOWN: &str = "/.well-known/jmap";
const JSON: &str = "application/json";

/// A user who has logged in.
#[derive(Debug)]
pub(super) struct JmapSession {
    client: HttpClient,
    account: Account,
}

impl JmapSession {
    /// Connects and reads the Session object.
    pub(super) async fn log_in(settings: &JmapSettings, user: u64, count: &mut CallCount) -> Result<Self, CallError> {
        let login = STANDARD.encode(format!("{}:{}", settings.names.address(user), settings.password));
        let mut login = HeaderValue::from_str(&format!("Basic {login}"))
            .map_err(|_| CallError::lost("login-refused", "the password cannot be sent"))?;
        login.set_sensitive(true);
        let accept = HeaderValue::from_static(JSON);
        let origin = Arc::clone(&settings.origin);
        let mut client = HttpClient::new(&origin, &[(AUTHORIZATION, login), (ACCEPT, accept)]);
        let reply = client.request(count, HttpRequest::get(WELL_KNOWN)).await?;
        match reply.status {
            200 => Ok(Self { client, account: Account::read(&reply.content)? }),
            401 | 403 => Err(CallError::lost("login-refused", format!("{WELL_KNOWN}: status {}", reply.status))),
            status => Err(methods::problem(status, &reply.content).into_lost()),
        }
    }

    /// Returns the account.
    pub(super) fn account(&self) -> &Account {
        &self.account
    }

    /// Creates the call of a method with mail.
    pub(super) fn method(&self, name: &'static str, arguments: Value) -> Method {
        Method::new(name, &self.account.id, arguments)
    }

    /// Sends a request, and returns the results of its calls.
    pub(super) async fn call(&mut self, count: &mut CallCount, calls: &[Method]) -> Result<Vec<Value>, CallError> {
        let mut using = vec![CORE, MAIL];
        if self.account.has_submission {
            using.push(SUBMISSION);
        }
        if calls.iter().any(|method| method.name.starts_with("Principal/")) {
            using.push(PRINCIPALS);
        }
        let request = HttpRequest::post(&self.account.api, JSON, methods::write(&using, calls));
        let reply = self.client.request(count, request).await?;
        if reply.status != 200 {
            return Err(methods::problem(reply.status, &reply.content));
        }
        methods::read(&reply.content, calls)
    }

    /// Sends a request with one call, and returns its result.
    pub(super) async fn call_one(&mut self, count: &mut CallCount, method: Method) -> Result<Value, CallError> {
        let mut results = self.call(count, std::slice::from_ref(&method)).await?;
        results.pop().ok_or_else(|| malformed("there is no result"))
    }

    /// Creates a mailbox at the highest level. Returns its identifier.
    pub(super) async fn create_mailbox(&mut self, count: &mut CallCount, name: &str) -> Result<String, CallError> {
        let create = json!({ "create": { "new": { "name": name, "parentId": null } } });
        let set = self.method("Mailbox/set", create);
        let result = self.call_one(count, set).await?;
        check_set(&result, "Mailbox/set", &["new"])?;
        let id = result.get("created").and_then(|created| read_id(created.get("new")?.get("id")?));
        id.ok_or_else(|| malformed("Mailbox/set: no identifier"))
    }

    /// Sends a file to the server. Returns the identifier of its blob.
    pub(super) async fn upload(
        &mut self,
        count: &mut CallCount,
        media_type: &str,
        content: Vec<u8>,
    ) -> Result<String, CallError> {
        let request = HttpRequest::post(self.account.upload_path()?, media_type, content);
        let reply = self.client.request(count, request).await?;
        if !(200..300).contains(&reply.status) {
            return Err(methods::problem(reply.status, &reply.content));
        }
        let upload: Value = serde_json::from_slice(&reply.content)
            .map_err(|error| malformed(format!("the answer to an upload: {error}")))?;
        let blob_id = upload.get("blobId").and_then(read_id);
        blob_id.ok_or_else(|| malformed("the answer to an upload has no blobId"))
    }

    /// Reads a file and drops it.
    pub(super) async fn download(&mut self, count: &mut CallCount, file: &BlobFile) -> Result<(), CallError> {
        let path = self.account.download_path(file)?;
        self.client.download(count, &path).await?;
        Ok(())
    }

    /// Opens the event source.
    pub(super) async fn open_events(&mut self, count: &mut CallCount) -> Result<OpenStream, CallError> {
        let unsupported = || Err(CallError::kept("unsupported", "the server has no event source"));
        let path = self.account.event_source_path().unwrap_or_else(unsupported)?;
        let request = HttpRequest::get(path).with(ACCEPT, "text/event-stream");
        self.client.open_stream(count, &request).await
    }
}
