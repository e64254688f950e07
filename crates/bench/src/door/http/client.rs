//! The requests of a user: cookies, redirections, and the connection that is opened again.

use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue, LOCATION, SET_COOKIE,
    USER_AGENT,
};
use hyper::{HeaderMap, Method, Request, Response, Uri};

use super::connection::{Connection, ContentCoding, OpenStream, RequestBody, SendError, drain_body, read_body};
use super::cookies::CookieJar;
use super::location::{resolve, without_query};
use super::origin::Origin;
use super::{DOWNLOAD_BYTES_MAX, PAGE_BYTES_MAX, REDIRECTIONS_MAX, malformed, status_error};
use crate::door::call::{CONNECTION_CODE, CallCount, CallError};

/// The name of this program in requests.
const AGENT: &str = concat!("doublet-bench/", env!("CARGO_PKG_VERSION"));

/// A request.
#[derive(Debug, Clone)]
pub(in crate::door) struct HttpRequest {
    method: Method,
    /// The path and query.
    target: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    content: Option<Bytes>,
}

impl HttpRequest {
    /// Creates a request for a path with an optional query.
    pub(in crate::door) fn get(target: impl Into<String>) -> Self {
        Self { method: Method::GET, target: target.into(), headers: Vec::new(), content: None }
    }

    /// Creates a request that sends a content.
    pub(in crate::door) fn post(target: impl Into<String>, media_type: &str, content: Vec<u8>) -> Self {
        let request = Self { method: Method::POST, content: Some(content.into()), ..Self::get(target) };
        request.with(CONTENT_TYPE, media_type)
    }

    /// Adds a header field. One that is not valid is left out.
    pub(in crate::door) fn with(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    /// Returns the request that follows a redirection.
    fn redirected(self, status: u16, target: String) -> Self {
        let keeps_method = matches!(status, 307 | 308) || self.method == Method::GET;
        if keeps_method { Self { target, ..self } } else { Self::get(target) }
    }
}

/// A reply, read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::door) struct HttpReply {
    /// The status.
    pub(in crate::door) status: u16,
    /// The path and query of the request that was answered, after all redirections.
    pub(in crate::door) target: String,
    /// The content, decompressed.
    pub(in crate::door) content: Vec<u8>,
}

/// The connection of a user to a server, and its cookies.
#[derive(Debug)]
pub(in crate::door) struct HttpClient {
    origin: Arc<Origin>,
    /// The header fields of all requests.
    headers: HeaderMap,
    cookies: CookieJar,
    connection: Option<Connection>,
    /// The server has closed the last connection, or did so while a request was about to be sent.
    is_closed_by_server: bool,
}

impl HttpClient {
    /// Creates a client that is not connected, with the header fields of all its requests.
    pub(in crate::door) fn new(origin: &Arc<Origin>, fields: &[(HeaderName, HeaderValue)]) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        for (name, value) in fields {
            headers.insert(name.clone(), value.clone());
        }
        let origin = Arc::clone(origin);
        Self { origin, headers, cookies: CookieJar::default(), connection: None, is_closed_by_server: false }
    }

    /// Returns the server.
    pub(in crate::door) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Sends a request, follows redirections, and reads the reply.
    pub(in crate::door) async fn request(
        &mut self,
        count: &mut CallCount,
        request: HttpRequest,
    ) -> Result<HttpReply, CallError> {
        let (response, target) = self.follow(count, request).await?;
        let status = response.status().as_u16();
        let coding = coding(response.headers())?;
        let content = read_body(response.into_body(), coding, PAGE_BYTES_MAX).await;
        let content = content.inspect_err(|_| self.connection = None)?;
        Ok(HttpReply { status, target, content })
    }

    /// Reads a file and drops it. Returns its path and query, after all redirections.
    pub(in crate::door) async fn download(&mut self, count: &mut CallCount, target: &str) -> Result<String, CallError> {
        let (response, target) = self.follow(count, HttpRequest::get(target)).await?;
        let status = response.status().as_u16();
        let drained = drain_body(response.into_body(), DOWNLOAD_BYTES_MAX).await;
        drained.inspect_err(|_| self.connection = None)?;
        if status >= 400 { Err(status_error(status, "a download")) } else { Ok(target) }
    }

    /// Begins a reply without end. It has a stream of its own over HTTP/2, and a connection over HTTP/1.1.
    pub(in crate::door) async fn open_stream(
        &mut self,
        count: &mut CallCount,
        request: &HttpRequest,
    ) -> Result<OpenStream, CallError> {
        let is_shared = self.connected(count).await?.has_streams();
        if is_shared {
            let response = self.exchange(count, request).await?;
            return stream_of(response, None);
        }
        let mut connection = Connection::open(&self.origin).await?;
        let wire = self.wire_request(request, false)?;
        count.calls += 1;
        let response = connection.send(wire).await.map_err(SendError::into_call_error)?;
        stream_of(response, Some(connection))
    }

    /// Closes the connection. The cookies remain.
    pub(in crate::door) fn disconnect(&mut self) {
        self.connection = None;
        self.is_closed_by_server = false;
    }

    /// Sends a request, and further ones as long as the replies are redirections. Returns the last reply and its
    /// target.
    async fn follow(
        &mut self,
        count: &mut CallCount,
        mut request: HttpRequest,
    ) -> Result<(Response<Incoming>, String), CallError> {
        for _ in 0..=REDIRECTIONS_MAX {
            let response = self.exchange(count, &request).await?;
            let status = response.status().as_u16();
            let Some(location) = response.headers().get(LOCATION).filter(|_| is_redirection(status)) else {
                return Ok((response, request.target));
            };
            let location = location.to_str().unwrap_or_default().to_owned();
            let target = resolve(&request.target, &location, self.origin.authority());
            // Otherwise the connection could not be used again.
            let drained = drain_body(response.into_body(), PAGE_BYTES_MAX as u64).await;
            drained.inspect_err(|_| self.connection = None)?;
            let Some(target) = target else {
                let from = without_query(&request.target);
                let to = without_query(&location);
                let text = format!("a redirection from {from} to another place: {to}");
                return Err(CallError::kept("redirection", text));
            };
            request = request.redirected(status, target);
        }
        let to = without_query(&request.target);
        Err(CallError::kept("redirection", format!("more than {REDIRECTIONS_MAX} redirections to {to}")))
    }

    /// Sends a request and waits for the head of the reply. If the server has closed the connection while it was idle,
    /// it is opened again; a request that may have been executed is not repeated, unless it changes nothing.
    async fn exchange(
        &mut self,
        count: &mut CallCount,
        request: &HttpRequest,
    ) -> Result<Response<Incoming>, CallError> {
        let is_reused = self.connection.as_ref().is_some_and(|connection| !connection.is_closed());
        let mut repeats = u32::from(is_reused);
        loop {
            let has_streams = self.connected(count).await?.has_streams();
            let wire = self.wire_request(request, has_streams)?;
            let connection = self.connected(count).await?;
            // The step may be dropped before the reply comes.
            count.calls += 1;
            match connection.send(wire).await {
                Ok(response) => {
                    self.take_cookies(response.headers(), &request.target);
                    return Ok(response);
                }
                Err(error) => {
                    self.connection = None;
                    let is_repeated = repeats > 0 && (error.is_unsent || request.method == Method::GET);
                    count.calls -= u32::from(error.is_unsent);
                    if !is_repeated {
                        return Err(error.into_call_error());
                    }
                    repeats -= 1;
                    self.is_closed_by_server = true;
                }
            }
        }
    }

    /// Returns the connection, which is opened if there is none or if the server has closed it.
    async fn connected(&mut self, count: &mut CallCount) -> Result<&mut Connection, CallError> {
        if self.connection.take_if(|connection| connection.is_closed()).is_some() {
            self.is_closed_by_server = true;
        }
        if self.connection.is_none() {
            self.connection = Some(Connection::open(&self.origin).await?);
            count.reopened += u32::from(std::mem::take(&mut self.is_closed_by_server));
        }
        self.connection.as_mut().ok_or_else(|| CallError::lost(CONNECTION_CODE, "there is no connection"))
    }

    fn wire_request(&self, request: &HttpRequest, has_streams: bool) -> Result<Request<RequestBody>, CallError> {
        let authority = self.origin.authority();
        let uri = if has_streams { format!("https://{authority}{}", request.target) } else { request.target.clone() };
        let invalid = || malformed(format!("not a path: {}", without_query(&request.target)));
        let mut wire = Request::new(RequestBody::new(request.content.clone()));
        *wire.method_mut() = request.method.clone();
        *wire.uri_mut() = uri.parse::<Uri>().map_err(|_| invalid())?;
        let headers = wire.headers_mut();
        *headers = self.headers.clone();
        if !has_streams {
            headers.insert(HOST, HeaderValue::from_str(authority).map_err(|_| invalid())?);
        }
        if let Some(cookies) = self.cookies.field(&request.target) {
            headers.insert(COOKIE, HeaderValue::from_str(&cookies).map_err(|_| invalid())?);
        }
        for (name, value) in &request.headers {
            headers.insert(name.clone(), value.clone());
        }
        Ok(wire)
    }

    fn take_cookies(&mut self, headers: &HeaderMap, target: &str) {
        for field in headers.get_all(SET_COOKIE) {
            if let Ok(field) = field.to_str() {
                self.cookies.take(field, target);
            }
        }
    }
}

fn stream_of(response: Response<Incoming>, connection: Option<Connection>) -> Result<OpenStream, CallError> {
    let status = response.status().as_u16();
    if status != 200 {
        return Err(status_error(status, "there is no event source"));
    }
    Ok(OpenStream::new(response.into_body(), connection))
}

fn is_redirection(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

fn coding(headers: &HeaderMap) -> Result<ContentCoding, CallError> {
    match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"" | b"identity") => Ok(ContentCoding::Identity),
        Some(b"gzip" | b"x-gzip") => Ok(ContentCoding::Gzip),
        Some(other) => Err(malformed(format!("a reply with the encoding {}", String::from_utf8_lossy(other)))),
    }
}
