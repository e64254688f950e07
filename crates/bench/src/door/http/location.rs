//! References in replies (RFC 3986): links, actions of forms, redirections. The result is the path and query of a
//! request to the same server.

/// Maximum length of a path with its query.
const TARGET_BYTES_MAX: usize = 16 << 10;
/// The scheme of all requests.
const SCHEME: &str = "https";
/// The port of the scheme, which is left out.
const DEFAULT_PORT: &str = ":443";

/// Resolves a reference in the reply to a request for `base`, which is a path with an optional query. Returns `None`
/// if it leads to another server than `authority`, or is not valid.
pub(in crate::door) fn resolve(base: &str, reference: &str, authority: &str) -> Option<String> {
    let (host, rest) = split_host(reference.trim())?;
    let authority = without_default_port(authority);
    if host.is_some_and(|host| !without_default_port(host).eq_ignore_ascii_case(authority)) {
        return None;
    }
    resolve_path(base, rest, host.is_some())
}

/// Returns the path and query of a reference, whatever server it names. A server that is reached through another
/// address than its public one names the latter.
pub(in crate::door) fn path_of(reference: &str) -> Option<String> {
    let (host, rest) = split_host(reference.trim())?;
    resolve_path("/", rest, host.is_some())
}

/// Returns a path or reference without its query, as errors show it: a query can have what was typed into a form.
pub(in crate::door) fn without_query(target: &str) -> &str {
    target.split(['?', '#']).next().unwrap_or_default()
}

/// Returns a host and port as browsers write them: without the port of the scheme.
pub(in crate::door) fn without_default_port(authority: &str) -> &str {
    authority.strip_suffix(DEFAULT_PORT).unwrap_or(authority)
}

/// Returns the host and port that a reference names, and what follows. Returns `None` for other schemes.
fn split_host(reference: &str) -> Option<(Option<&str>, &str)> {
    let after_scheme = match reference.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => {
            if !scheme.eq_ignore_ascii_case(SCHEME) {
                return None;
            }
            rest
        }
        _ => reference,
    };
    let Some(rest) = after_scheme.strip_prefix("//") else {
        return (after_scheme.len() == reference.len()).then_some((None, reference));
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, rest) = rest.split_at(end);
    Some((Some(host), rest))
}

fn is_scheme(text: &str) -> bool {
    let is_first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    is_first && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn resolve_path(base: &str, reference: &str, has_host: bool) -> Option<String> {
    let reference = reference.split('#').next().unwrap_or_default();
    let base_path = base.split('?').next().unwrap_or_default();
    let target = match reference.bytes().next() {
        None if has_host => "/".to_owned(),
        None => base.to_owned(),
        Some(b'?') if has_host => format!("/{reference}"),
        Some(b'?') => format!("{base_path}{reference}"),
        Some(b'/') => reference.to_owned(),
        Some(_) => {
            let folder = base_path.rfind('/').map_or("/", |end| &base_path[..=end]);
            format!("{folder}{reference}")
        }
    };
    let target = without_dots(&target);
    let is_valid = target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic());
    (is_valid && target.len() <= TARGET_BYTES_MAX).then_some(target)
}

/// Removes the segments `.` and `..` of the path.
fn without_dots(target: &str) -> String {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    if !path.contains("/.") {
        return target.to_owned();
    }
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let count = segments.len();
    for (index, segment) in segments.into_iter().enumerate() {
        let is_last = index + 1 == count;
        match segment {
            "." if is_last => kept.push(""),
            "." => {}
            ".." => {
                kept.pop();
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn references_are_resolved() {
        let base = "/lite/folder/3?page=2";
        let check = |reference: &str, expected: Option<&str>| {
            for authority in ["mx.test:443", "mx.test"] {
                assert_eq!(resolve(base, reference, authority).as_deref(), expected, "{reference:?}");
            }
        };
        check("/lite/", Some("/lite/"));
        check("?page=3#x", Some("/lite/folder/3?page=3"));
        check("", Some(base));
        check("4", Some("/lite/folder/4"));
        check("../login", Some("/lite/login"));
        check("./..", Some("/lite/"));
        check("/a/../../b/.?c=/../", Some("/b/?c=/../"));
        check("https://MX.test:443/a?b", Some("/a?b"));
        check("//mx.test:443", Some("/"));
        check("https://mx.test/a", Some("/a"));
        check("https://mx.test:443?a", Some("/?a"));
        for other in [
            "https://evil.test/",
            "//evil.test/a",
            "https://mx.test:8443/",
            "http://mx.test:443/",
            "javascript:alert(1)",
            "mailto:a@b",
            "https:x",
        ] {
            check(other, None);
        }
        check("/a b", None);
        check("/\u{e9}", None);
        check(&"/x".repeat(10_000), None);
    }

    #[test]
    fn public_addresses_are_taken_for_their_paths() {
        assert_eq!(path_of("https://mail.example.org/jmap/{accountId}/").as_deref(), Some("/jmap/{accountId}/"));
        assert_eq!(path_of("/jmap/?a=b").as_deref(), Some("/jmap/?a=b"));
        assert_eq!(path_of("http://mail.example.org/jmap/"), None);
    }

    proptest! {
        #[test]
        fn a_result_is_a_path_of_this_server(base in "/[a-z./?]{0,20}", reference in "[a-z./?#:@ \u{e9}]{0,30}") {
            if let Some(target) = resolve(&base, &reference, "host") {
                prop_assert!(target.starts_with('/'));
                prop_assert!(format!("https://host{target}").parse::<hyper::Uri>().is_ok(), "{target}");
                prop_assert!(!target.split('?').next().unwrap_or_default().split('/').any(|segment| segment == ".."));
            }
        }
    }
}
