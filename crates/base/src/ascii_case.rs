//! Beginnings and ends of texts, compared without regard to the case of ASCII letters, as keywords of protocols and
//! file extensions are.

/// Returns the text after a prefix. Returns `None` if the text does not begin with it.
#[must_use]
pub fn strip_prefix<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Returns the text before a suffix. Returns `None` if the text does not end with it.
#[must_use]
pub fn strip_suffix<'t>(text: &'t str, suffix: &str) -> Option<&'t str> {
    let (rest, end) = text.split_at_checked(text.len().checked_sub(suffix.len())?)?;
    end.eq_ignore_ascii_case(suffix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_suffixes_are_found_in_any_case() {
        let check = |text, part, prefix, suffix| {
            assert_eq!((strip_prefix(text, part), strip_suffix(text, part)), (prefix, suffix), "{text:?} {part:?}");
        };
        check("FROM:<a>", "from:", Some("<a>"), None);
        check("a.EML", ".eml", None, Some("a"));
        check("Re", "rE", Some(""), Some(""));
        check("r", "re", None, None);
        check("", "", Some(""), Some(""));
        check("\u{e4}\u{e4}", "abc", None, None);
    }
}
