//! Any bytes as the address of a request, and as texts for the templates of the Session object.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::any;
use futures_util::FutureExt as _;
use http::content::{Presentation, content_disposition};
use tower_service::Service as _;

use crate::blob::safe_media_type;
use crate::limits::{EVENT_PING_MAX, EVENT_PING_MIN};
use crate::service::resource_address::{
    DOWNLOAD_ROUTE, DownloadAddress, EVENTS_ROUTE, EventsAddress, UPLOAD_ROUTE, UploadAddress, session_urls,
};
use crate::type_selection::TypeSelection;

/// The scheme and the host of the templates.
const BASE: &str = "https://mail.demo.test";

/// Number of bytes of a text that is put into a template. An address has at most 64 KiB.
const TEXT_BYTES_MAX: usize = 4_000;

/// What an address names.
#[derive(Clone, Debug, PartialEq)]
enum Named {
    Upload(UploadAddress),
    Download(DownloadAddress),
    Events(EventsAddress),
}

/// Reads the first line as the path and the query of a request. Puts the other lines into the templates of the Session
/// object, and reads the addresses that result: account, blob, name, media type, types, and the digits of a ping.
///
/// # Panics
///
/// Panics if an address that a client makes from a template names something else than the client, or if a name breaks
/// the header of a download.
pub fn check(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    if let Ok(uri) = Uri::try_from(lines.next().unwrap_or_default()) {
        match named_by(uri) {
            Ok(named) => check_named(&named),
            Err(status) => assert!(status.is_client_error(), "{status}"),
        }
    }
    let mut text = || {
        let text = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
        text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
    };
    let [account, blob, name, media_type, types, ping] = [(); 6].map(|()| text());
    let urls = session_urls(BASE);
    // A part of a path that is empty names nothing.
    if !account.is_empty() {
        let expanded = expand(&urls.upload, &[("accountId", &account)]);
        assert_eq!(read(&expanded), Named::Upload(UploadAddress { account: account.clone() }), "{expanded}");
    }
    if ![&account, &blob, &name].iter().any(|text| text.is_empty()) {
        let values = [("accountId", &*account), ("blobId", &blob), ("name", &name), ("type", &media_type)];
        let expanded = expand(&urls.download, &values);
        let expected = DownloadAddress { account, blob, name, media_type: Some(media_type) };
        assert_eq!(read(&expanded), Named::Download(expected), "{expanded}");
    }
    let seconds = ping.parse::<u32>().unwrap_or(0);
    let is_one_event = seconds % 2 == 0;
    let close_after = if is_one_event { "state" } else { "no" };
    let values = [("types", &*types), ("closeafter", close_after), ("ping", &*seconds.to_string())];
    let expanded = expand(&urls.event_source, &values);
    let wanted = Duration::from_secs(seconds.into());
    let ping = (seconds > 0).then(|| wanted.clamp(EVENT_PING_MIN, EVENT_PING_MAX));
    let expected = EventsAddress { types: TypeSelection::parse(&types), is_one_event, ping };
    assert_eq!(read(&expanded), Named::Events(expected), "{expanded}");
}

/// Checks what the service makes of an address that anybody may have written.
fn check_named(named: &Named) {
    match named {
        Named::Upload(_) => {}
        Named::Download(DownloadAddress { name, media_type, .. }) => {
            let disposition = content_disposition(Presentation::Attachment, name);
            assert!(is_one_parameter_list(&disposition), "{disposition:?}");
            let media_type = safe_media_type(media_type.as_deref().unwrap_or_default());
            assert!(!["html", "xml", "script", "svg"].iter().any(|part| media_type.contains(part)), "{media_type}");
        }
        Named::Events(EventsAddress { ping, .. }) => {
            assert!(ping.is_none_or(|ping| (EVENT_PING_MIN..=EVENT_PING_MAX).contains(&ping)), "{ping:?}");
        }
    }
}

/// Returns `true` if a field has the name of a file once in quotes and, encoded, once more, and nothing else.
fn is_one_parameter_list(disposition: &HeaderValue) -> bool {
    let text = disposition.to_str().unwrap_or_default();
    let Some(rest) = text.strip_prefix("attachment; filename=\"") else { return false };
    let Some((_, rest)) = rest.split_once('"') else { return false };
    let is_encoded = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'%';
    rest.is_empty() || rest.strip_prefix("; filename*=UTF-8''").is_some_and(|name| name.bytes().all(is_encoded))
}

/// Reads an address that was made from a template.
fn read(address: &str) -> Named {
    let uri = Uri::try_from(address).expect("an expanded template is an address");
    named_by(uri).unwrap_or_else(|status| panic!("{address}: {status}"))
}

/// Returns what a request with an address names, or the status with which it is refused.
fn named_by(uri: Uri) -> Result<Named, StatusCode> {
    let mut routes: Router = Router::new()
        .route(UPLOAD_ROUTE, any(async |address: UploadAddress| answer(Named::Upload(address))))
        .route(DOWNLOAD_ROUTE, any(async |address: DownloadAddress| answer(Named::Download(address))))
        .route(EVENTS_ROUTE, any(async |address: EventsAddress| answer(Named::Events(address))));
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = uri;
    // The address alone is read, so nothing waits.
    let answered: Option<Result<Response<Body>, Infallible>> = routes.call(request).now_or_never();
    let Some(Ok(mut response)) = answered else { panic!("reading an address waits for nothing") };
    let status = response.status();
    response.extensions_mut().remove::<Named>().ok_or(status)
}

fn answer(named: Named) -> Response<Body> {
    let mut response = StatusCode::OK.into_response();
    response.extensions_mut().insert(named);
    response
}

/// Returns a template with the values of its simple variables (RFC 6570 §3.2.2).
fn expand(template: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(template.to_owned(), |address, (name, value)| {
        let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let encoded = value.bytes().map(|byte| match is_unreserved(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        });
        address.replace(&format!("{{{name}}}"), &encoded.collect::<String>())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_any_characters_read_back() {
        check("/jmap/events?types=*\nA1\nB/1%2F\na b+c&d=#?\u{e4}\0.html\ntext/html\nEmail, Thread&x\n7".as_bytes());
        check(b"\n..\n.\n{type}\n{name}\n*\n4294967295");
    }

    #[test]
    fn addresses_name_what_they_say() {
        let check = |address: &str, expected: Result<Named, u16>| {
            let found = named_by(Uri::try_from(address).expect("an address")).map_err(|status| status.as_u16());
            assert_eq!(found, expected, "{address}");
        };
        let events = |is_one_event, ping: Option<u64>| {
            let types = TypeSelection::parse("*");
            Named::Events(EventsAddress { types, is_one_event, ping: ping.map(Duration::from_secs) })
        };
        check("/jmap/events", Ok(events(false, None)));
        check("/jmap/events?types=*&closeafter=state&ping=1", Ok(events(true, Some(5))));
        check("/jmap/events?ping=18446744073709551615", Ok(events(false, Some(300))));
        check("/jmap/events?ping=-1", Err(400));
        check("/jmap/events?closeafter=never", Err(400));
        check("/jmap/upload/%FF/", Err(400));
        check("/jmap/upload/A1", Err(404));
        check("/jmap/download/A1/B1/x?accept=a&type=b", Err(400));
        let download = DownloadAddress {
            account: "A1".to_owned(),
            blob: "B1".to_owned(),
            name: "a/b".to_owned(),
            media_type: Some("a b".to_owned()),
        };
        check("/jmap/download/A1/B1/a%2fb?type=a+b", Ok(Named::Download(download)));
    }
}
