//! Tests of addresses: accepted syntax, formatting and comparison.

use proptest::prelude::*;

use super::*;

fn check(text: &str, printed: &str, key: &str) {
    let address = Address::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(address.to_string(), printed, "{text} printed");
    assert_eq!(address.key(), key, "{text} as key");
}

fn check_refused(text: &str, expected: AddressError) {
    assert_eq!(Address::parse(text), Err(expected), "{text}");
}

#[test]
fn case_is_kept_in_text_and_ignored_in_keys() {
    check("Ann.Smith@ACME.test", "Ann.Smith@acme.test", "ann.smith@acme.test");
    check("ann@acme.test.", "ann@acme.test", "ann@acme.test");
    check("ÄNNE@acme.test", "ÄNNE@acme.test", "änne@acme.test");
    check("a\u{308}nne@acme.test", "änne@acme.test", "änne@acme.test");
}

#[test]
fn unnecessary_quotes_are_removed() {
    check("\"ann\"@acme.test", "ann@acme.test", "ann@acme.test");
    check("\"Ann Smith\"@acme.test", "\"Ann Smith\"@acme.test", "\"ann smith\"@acme.test");
    check("\"a\\\"b\\\\c\"@acme.test", "\"a\\\"b\\\\c\"@acme.test", "\"a\\\"b\\\\c\"@acme.test");
    check("\"a@b\"@acme.test", "\"a@b\"@acme.test", "\"a@b\"@acme.test");
    check("\"..\"@acme.test", "\"..\"@acme.test", "\"..\"@acme.test");
}

#[test]
fn domains_are_compared_in_ascii() {
    check("ann@Bücher.test", "ann@xn--bcher-kva.test", "ann@xn--bcher-kva.test");
    check("ann@XN--BCHER-KVA.test", "ann@xn--bcher-kva.test", "ann@xn--bcher-kva.test");
    check("ann@bücher。test", "ann@xn--bcher-kva.test", "ann@xn--bcher-kva.test");
    check("ann@_old.acme.test", "ann@_old.acme.test", "ann@_old.acme.test");
    check("ann@[192.0.2.1]", "ann@[192.0.2.1]", "ann@[192.0.2.1]");
    check("ann@[IPv6:2001:DB8:0::1]", "ann@[ipv6:2001:db8::1]", "ann@[ipv6:2001:db8::1]");
}

#[test]
fn invalid_addresses_are_refused() {
    for text in ["", "ann", "@acme.test", "\"ann\"", "\"ann\"acme.test"] {
        check_refused(text, AddressError::NotAnAddress);
    }
    for text in
        [".ann@acme.test", "ann.@acme.test", "a..b@acme.test", "a b@acme.test", "a,b@acme.test", "<ann@acme.test"]
    {
        check_refused(text, AddressError::LocalPart);
    }
    for text in
        ["\"\"@acme.test", "\"ann@acme.test", "\"a\u{0}\"@acme.test", "\"a\\\u{7}\"@acme.test", "a\u{85}@acme.test"]
    {
        check_refused(text, AddressError::LocalPart);
    }
    for text in
        ["ann@", "ann@.", "ann@a..b", "ann@-a.test", "ann@a-.test", "ann@a b", "ann@a@b", "ann@[1.2.3]", "ann@[x"]
    {
        check_refused(text, AddressError::Domain);
    }
}

#[test]
fn length_limits_are_enforced() {
    check_refused(&format!("{}@acme.test", "a".repeat(65)), AddressError::TooLong);
    assert!(Address::parse(&format!("{}@acme.test", "a".repeat(64))).is_ok());
    check_refused(&format!("ann@{}.test", "a".repeat(64)), AddressError::Domain);
    check_refused(&format!("ann@{}test", "abcdefg.".repeat(32)), AddressError::TooLong);
    check_refused(&"a".repeat(5_000), AddressError::TooLong);
}

#[test]
fn detail_is_split_from_the_local_part() {
    let check = |text: &str, mailbox: Option<&str>, detail: Option<&str>| {
        let address = Address::parse(text).expect("valid in this table");
        assert_eq!(address.without_detail().map(|base| base.to_string()).as_deref(), mailbox, "{text}");
        assert_eq!(address.detail(), detail, "{text}");
    };
    check("ann+lists@acme.test", Some("ann@acme.test"), Some("lists"));
    check("ann+a+b@acme.test", Some("ann@acme.test"), Some("a+b"));
    check("ann+@acme.test", Some("ann@acme.test"), Some(""));
    check("+ann@acme.test", None, None);
    check("ann@acme.test", None, None);
}

proptest! {
    #[test]
    fn printing_and_keys_are_idempotent(local in "\\PC{1,20}", domain in "[a-zA-Zäöü0-9-]{1,9}(\\.[a-z]{2,4})?") {
        let quoted = local.replace('\\', "\\\\").replace('"', "\\\"");
        for text in [format!("{local}@{domain}"), format!("\"{quoted}\"@{domain}")] {
            let Ok(address) = Address::parse(&text) else { continue };
            prop_assert_eq!(&Address::parse(&address.to_string()).expect("prints valid"), &address);
            let key = Address::parse(&address.key()).expect("the key is valid");
            prop_assert_eq!(key.key(), address.key());
        }
    }

    #[test]
    fn folding_is_idempotent(text in "\\PC{0,30}") {
        prop_assert_eq!(fold(&fold(&text)), fold(&text));
    }

    #[test]
    fn parsing_never_panics(text in any::<String>()) {
        let _ = Address::parse(&text);
    }
}
