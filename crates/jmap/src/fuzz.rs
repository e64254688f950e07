//! The entry points for fuzzing: any bytes as a request, with its references, patches, filters and settings, and any
//! bytes as an address ([`addresses`]).

pub mod addresses;

use serde_json::{Map, Value};

use crate::disposition::NewDisposition;
use crate::filter_tree::FilterTree;
use crate::identities::{parse_settings, settings_to_json};
use crate::limits::Limits;
use crate::patch::Patch;
use crate::reference::{Resolver, Response};
use crate::request::Request;
use crate::websocket::ClientMessage;

/// Parses bytes as a request, resolves its references against its own arguments, and applies objects in it as patches.
/// Panics only if an invariant is violated.
pub fn check_arbitrary_bytes(data: &[u8]) {
    // A message over WebSocket is a request with members that a request ignores.
    let message = ClientMessage::parse(data, &Limits::default());
    if let Ok(ClientMessage::Request { request, .. }) = &message {
        assert_eq!(Request::parse(data, &Limits::default()).as_ref(), Ok(request));
    }
    let Ok(request) = Request::parse(data, &Limits::default()) else { return };
    let mut resolver = Resolver::default();
    let mut responses = Vec::new();
    for call in request.calls {
        for value in call.arguments.values() {
            let Value::Object(object) = value else { continue };
            check_object(value, object);
            if let Ok(patch) = Patch::parse(object) {
                let mut target = call.arguments.clone();
                if patch.apply(&mut target).is_ok() {
                    assert!(target.len() <= call.arguments.len() + object.len(), "a patch adds its entries only");
                }
            }
        }
        let resolved = resolver.resolve(call.arguments, &responses);
        let Ok(arguments) = resolved else { continue };
        assert!(arguments.keys().all(|name| !name.starts_with('#') || name.starts_with("##")), "nothing is unresolved");
        responses.push(Response { name: call.name, arguments: Value::Object(arguments), call_id: call.id });
    }
}

/// Parses an object as a filter, as a notification, and as the settings of an identity.
fn check_object(value: &Value, object: &Map<String, Value>) {
    let _ = NewDisposition::parse(value);
    if let Ok(filter) = FilterTree::parse(Some(value), &|name, _| Ok(Some(name.len()))) {
        let evaluated = filter.evaluate(&mut |length| Ok::<_, ()>(length % 2 == 0));
        assert!(evaluated.is_ok(), "a filter fails only if a test fails");
    }
    if let Ok(settings) = parse_settings(object) {
        let again = parse_settings(&settings_to_json(&settings));
        assert_eq!(again, Ok(settings), "settings that were accepted are accepted again");
    }
}
