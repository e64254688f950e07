//! Cookies of one server (RFC 6265), as far as a session needs them: name, value, path, and their removal.
//!
//! All requests go to one server over TLS, so `Domain` and `Secure` are not looked at. A cookie ends with `Max-Age=0`
//! or with an `Expires` in 1970, which is how servers remove one; other times are longer than a run.

/// Maximum number of cookies.
const COOKIES_MAX: usize = 50;
/// Maximum length of a cookie with its attributes.
const COOKIE_BYTES_MAX: usize = 4 << 10;

/// The cookies of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::door) struct CookieJar {
    cookies: Vec<Cookie>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cookie {
    name: String,
    value: String,
    path: String,
}

impl CookieJar {
    /// Takes the value of a header field `Set-Cookie` in the reply to a request for `path`. A cookie that is not valid
    /// or too long is dropped, and the oldest one if there are too many.
    pub(in crate::door) fn take(&mut self, field: &str, path: &str) {
        let mut parts = field.split(';');
        let pair = parts.next().and_then(|pair| pair.split_once('='));
        let Some((name, value)) = pair.map(|(name, value)| (name.trim(), value.trim())) else { return };
        if name.is_empty() || field.len() > COOKIE_BYTES_MAX || !field.bytes().all(|byte| (b' '..0x7f).contains(&byte))
        {
            return;
        }
        let mut cookie = Cookie { name: name.to_owned(), value: value.to_owned(), path: default_path(path).to_owned() };
        let mut is_removed = false;
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "path" if value.starts_with('/') => value.clone_into(&mut cookie.path),
                "max-age" => is_removed |= value.parse::<i64>().is_ok_and(|seconds| seconds <= 0),
                "expires" => is_removed |= value.contains("1970"),
                _ => {}
            }
        }
        self.cookies.retain(|known| known.name != cookie.name || known.path != cookie.path);
        if is_removed {
            return;
        }
        if self.cookies.len() == COOKIES_MAX {
            self.cookies.remove(0);
        }
        self.cookies.push(cookie);
    }

    /// Returns the value of the header field `Cookie` of a request for `path`, or `None` if no cookie belongs to it.
    pub(in crate::door) fn field(&self, path: &str) -> Option<String> {
        let path = path.split('?').next().unwrap_or_default();
        let pairs: Vec<String> = self
            .cookies
            .iter()
            .filter(|cookie| is_within(path, &cookie.path))
            .map(|cookie| format!("{}={}", cookie.name, cookie.value))
            .collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }
}

/// Returns the path of a cookie that has none: the folder of the request.
fn default_path(path: &str) -> &str {
    let path = path.split('?').next().unwrap_or_default();
    match path.rfind('/') {
        None | Some(0) => "/",
        Some(end) => &path[..end],
    }
}

fn is_within(path: &str, folder: &str) -> bool {
    let Some(rest) = path.strip_prefix(folder) else { return false };
    rest.is_empty() || folder.ends_with('/') || rest.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jar(fields: &[&str]) -> CookieJar {
        let mut jar = CookieJar::default();
        fields.iter().for_each(|field| jar.take(field, "/lite/login?x=/y"));
        jar
    }

    #[test]
    fn cookies_are_sent_to_their_paths() {
        let jar = jar(&["__Host-a=1; Path=/; Secure; HttpOnly", "b=two==; SameSite=Lax", "c=; path=/jmap"]);
        let check = |path: &str, expected: Option<&str>| assert_eq!(jar.field(path).as_deref(), expected, "{path}");
        check("/", Some("__Host-a=1"));
        check("/lite", Some("__Host-a=1; b=two=="));
        check("/lite/folder/1?page=2", Some("__Host-a=1; b=two=="));
        check("/literal", Some("__Host-a=1"));
        check("/jmap/api", Some("__Host-a=1; c="));
        assert_eq!(CookieJar::default().field("/"), None);
    }

    #[test]
    fn cookies_are_replaced_and_removed() {
        let replaced = jar(&["a=1; Path=/", "a=2; Path=/"]);
        assert_eq!(replaced.field("/").as_deref(), Some("a=2"));
        for removal in
            ["a=; Path=/; Max-Age=0", "a=x; Max-Age=-5; Path=/", "a=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT"]
        {
            assert_eq!(jar(&["a=1; Path=/", removal]).field("/"), None, "{removal}");
        }
        assert!(jar(&["a=1; Path=/", "a=; Path=/other; Max-Age=0"]).field("/").is_some());
    }

    #[test]
    fn hostile_cookies_are_dropped_and_their_number_is_limited() {
        let long = format!("a={}", "x".repeat(5_000));
        assert_eq!(jar(&["", "=x", "novalue", "a=1\r\nX: y", "a=\u{e9}", &long]), CookieJar::default());
        let many: Vec<String> = (0..200).map(|number| format!("n{number}=1; Path=/")).collect();
        let jar = jar(&many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(jar.cookies.len(), COOKIES_MAX);
        assert_eq!(jar.cookies[0].name, "n150", "the oldest are dropped");
    }
}
