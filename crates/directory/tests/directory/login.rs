//! Tests of logins with passwords and through SCRAM: valid, invalid, repeated and throttled.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use base::Clock as _;
use base64ct::{Base64, Encoding};
use directory::limits::{ACCOUNT_FAILURES_FREE, ADDRESS_FAILURES_FREE, VERIFIED_TTL};
use directory::{
    AuthError, FactorProof, FactorSecret, GroupChange, GroupKind, LoginStatistics, NewApplicationPassword, NewUser,
    PersonChange,
};
use hmac::{Hmac, KeyInit, Mac};
use sasl::{ApplicationPasswordId, ClientFinal, ClientFirst, LoginOrigin, LoginPassword, LoginProtocol, LoginScope};
use sha2::{Digest, Sha256};

use crate::fixture::{World, elsewhere, home, imap, password_of};

const ACME: &str = "domain acme.test
    user ann@acme.test
    user bob@acme.test
    user carl@acme.test disabled";

const ANN: &str = "ann@acme.test";

/// People whose names are not all derived from one address, in two domains.
const NAMES: &str = "domain acme.test alias acme.example
    domain other.test
    user ann@acme.test alias ann.smith@acme.test
    user dsmith@acme.test short ds alias dora@acme.example
    user eve@other.test";

/// A hash of `password`, made by another program.
const IMPORTED_HASH: &str = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";

/// Failures from here are counted for the account only.
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Formats the outcome of a login.
fn show<T>(outcome: &Result<T, AuthError>) -> String {
    match outcome {
        Ok(_) => "welcome".to_owned(),
        Err(AuthError::Throttled { retry_after }) => format!("wait {}", retry_after.as_secs()),
        Err(AuthError::Refused) => "refused".to_owned(),
        Err(AuthError::Disabled) => "disabled".to_owned(),
        Err(AuthError::ApplicationPasswordRequired) => "needs an application password".to_owned(),
        Err(AuthError::DenyListed { list }) => format!("on deny list {list}"),
        Err(AuthError::Unavailable(error)) => format!("unavailable: {error}"),
    }
}

fn check(world: &World, login: &str, password: &[u8], expected: &str) {
    let outcome = world.directory.authenticate(login, password, &imap(home()));
    assert_eq!(show(&outcome), expected, "{login}");
}

fn fail(world: &World, times: u32, login: &str) {
    for number in 0..times {
        let password = format!("wrong password {number}");
        check(world, login, password.as_bytes(), "refused");
    }
}

#[test]
fn right_password_is_accepted() {
    let world = World::new(ACME);
    for login in ["ann", "ANN@acme.test", "ann/acme.test"] {
        check(&world, login, &password_of(ANN), "welcome");
        check(&world, login, b"wrong", "refused");
    }
    check(&world, "nobody", &password_of(ANN), "refused");
    check(&world, "", b"", "refused");
    check(&world, &"x".repeat(100_000), b"x", "refused");
}

#[test]
fn disabled_account_is_revealed_only_with_the_password() {
    let world = World::new(ACME);
    check(&world, "carl", b"wrong", "refused");
    check(&world, "carl", &password_of("carl@acme.test"), "disabled");
}

#[test]
fn deny_listed_user_is_refused() {
    let check_deny_listed = |groups: &str| {
        let world = World::new(&format!("domain acme.test alias acme.example\nuser {ANN} alias a@acme.test\n{groups}"));
        check(&world, "ann", &password_of(ANN), "on deny list gone");
        check_scram(&world, "ann", &password_of(ANN), "on deny list gone");
        check(&world, "ann", b"wrong", "refused");
        let statistics = world.directory.login_statistics();
        assert_eq!((statistics.succeeded, statistics.disabled), (0, 2));
    };
    check_deny_listed("group gone deny-list: ann");
    check_deny_listed("group gone deny-list: A@acme.example");
    check_deny_listed("group gone deny-list: */acme.test");
    check_deny_listed("group gone deny-list: letters\ngroup letters mail: staff\ngroup staff: ann");
    let deep: String = (0..40).map(|level| format!("group g{}: g{level}\n", level + 1)).collect();
    check_deny_listed(&format!("group g0: ann\n{deep}group gone deny-list: g40"));
}

#[test]
fn deny_list_changes_take_effect_immediately() {
    let world = World::new(&format!("{ACME}\ngroup gone deny-list: staff, gone\ngroup staff: bob"));
    let set = |group: &str, change: GroupChange| drop(world.directory.group_set(group, &change).expect("possible"));
    check(&world, "bob", &password_of("bob@acme.test"), "on deny list gone");
    check(&world, "ann", &password_of(ANN), "welcome");
    set("staff", GroupChange { members_add: vec!["ann".to_owned()], ..GroupChange::default() });
    check(&world, "ann", &password_of(ANN), "on deny list gone");
    set("gone", GroupChange { kind: Some(GroupKind::MultiPurpose), ..GroupChange::default() });
    check(&world, "ann", &password_of(ANN), "welcome");
}

#[test]
fn disabled_and_deny_listed_people_may_not_log_in() {
    let world = World::new(&format!("{ACME}\nuser dora@acme.test\ngroup gone deny-list: staff\ngroup staff: bob"));
    let check_may_log_in = |login: &str, expected: bool| {
        let person = world.directory.person(login).expect("readable").expect("exists");
        assert_eq!(world.directory.may_log_in(&person).expect("readable"), expected, "{login}");
        let active = world.directory.active_person(login).expect("readable");
        assert_eq!(active.map(|active| active.note), expected.then_some(person.note), "{login}");
    };
    check_may_log_in("ann", true);
    check_may_log_in("Bob@acme.test", false);
    check_may_log_in("carl", false);
    assert!(world.directory.active_person("nobody").expect("readable").is_none());
    world.directory.password_remove("dora").expect("exists");
    check_may_log_in("dora", true);
    let enable = PersonChange { disabled: Some(false), ..PersonChange::default() };
    world.directory.user_set("carl", &enable).expect("exists");
    check_may_log_in("carl", true);
    let other_kind = GroupChange { kind: Some(GroupKind::MailOnly), ..GroupChange::default() };
    world.directory.group_set("gone", &other_kind).expect("possible");
    check_may_log_in("bob", true);
}

#[test]
fn disabling_an_account_invalidates_cached_logins() {
    let world = World::new(ACME);
    check(&world, "ann", &password_of(ANN), "welcome");
    let disable = PersonChange { disabled: Some(true), ..PersonChange::default() };
    world.directory.user_set("ann", &disable).expect("exists");
    check(&world, "ann", &password_of(ANN), "disabled");
}

#[test]
fn changed_password_takes_effect_immediately() {
    let world = World::new(ACME);
    check(&world, "ann", &password_of(ANN), "welcome");
    world.directory.password_set("ann", b"another password").expect("acceptable");
    check(&world, "ann", &password_of(ANN), "refused");
    check(&world, "ann", b"another password", "welcome");
    world.directory.password_remove("ann").expect("exists");
    check(&world, "ann", b"another password", "refused");
}

#[test]
fn imported_hash_is_accepted() {
    let world = World::new(ACME);
    let bob = world.directory.password_hash_set("bob", IMPORTED_HASH).expect("usable");
    assert!(!bob.has_scram());
    check(&world, "bob", b"password", "welcome");
    assert!(world.directory.password_hash_set("bob", "secret").is_err());
    let new = NewUser { password_hash: Some(IMPORTED_HASH.to_owned()), ..NewUser::new("dora@acme.test") };
    world.directory.user_add(&new).expect("usable");
    check(&world, "dora", b"password", "welcome");
}

#[test]
fn failed_logins_are_throttled() {
    let world = World::new(ACME);
    fail(&world, ACCOUNT_FAILURES_FREE + 1, "ann");
    check(&world, "ann", &password_of(ANN), "wait 1");
    check(&world, "Ann@acme.test", &password_of(ANN), "wait 1");
    check(&world, "bob", b"wrong", "refused");
    world.clock.advance(Duration::from_secs(1));
    check(&world, "ann", &password_of(ANN), "welcome");
    fail(&world, ACCOUNT_FAILURES_FREE, "ann");
}

#[test]
fn guesses_from_many_networks_of_a_customer_are_throttled() {
    let world = World::new(ACME);
    let guess = |number: u32, login: &str, password: &[u8]| {
        let from = format!("2001:db8:0:{number:x}::1").parse().expect("an address");
        show(&world.directory.authenticate(login, password, &imap(from)))
    };
    for number in 0..=4 * ADDRESS_FAILURES_FREE {
        assert_eq!(guess(number, &format!("nobody{number}"), b"wrong"), "refused");
    }
    assert_eq!(guess(0xff, "ann", &password_of(ANN)), "wait 1", "the same /56");
    assert_eq!(guess(0x100, "ann", &password_of(ANN)), "welcome", "the next /56");
    let hashes = world.directory.login_statistics().hashes;
    assert_eq!(hashes, u64::from(4 * ADDRESS_FAILURES_FREE + 2), "a delayed attempt costs no hash");
}

#[test]
fn unknown_account_is_throttled_like_a_known_one() {
    let world = World::new(ACME);
    fail(&world, ACCOUNT_FAILURES_FREE + 1, "nobody");
    check(&world, "nobody", b"wrong", "wait 1");
}

/// Returns spellings of a login name that belong to the same person if the person exists.
fn spellings(name: &str) -> Vec<String> {
    let upper = name.to_uppercase();
    vec![
        name.to_owned(),
        format!("\t{upper} "),
        format!("{name}@acme.test"),
        format!(" {upper}@ACME.test. "),
        format!("\"{name}\"@acme.test"),
        format!("{name}@acme.example"),
        format!("{name}/acme.test"),
        format!("cn={upper} / o=Acme.test"),
    ]
}

#[test]
fn the_spellings_of_a_login_name_are_those_of_one_person() {
    let world = World::new(NAMES);
    let person = |login: &str| world.directory.person(login).expect("readable").map(|person| person.note);
    let ann = person("ann");
    assert!(ann.is_some());
    for login in spellings("ann") {
        assert_eq!(person(&login), ann, "{login:?}");
    }
    for login in spellings("nobody") {
        assert_eq!(person(&login), None, "{login:?}");
    }
}

#[test]
fn a_lock_of_one_spelling_locks_all_of_them() {
    let world = World::new(NAMES);
    for name in ["ann", "nobody", "ann.smith", "dora", "eve"] {
        let spellings = spellings(name);
        for login in spellings.iter().cycle().take(ACCOUNT_FAILURES_FREE as usize + 1) {
            let outcome = world.directory.authenticate(login, b"wrong", &imap(LOCALHOST));
            assert_eq!(show(&outcome), "refused", "{login:?}");
        }
        for login in &spellings {
            let outcome = world.directory.authenticate(login, b"wrong", &imap(LOCALHOST));
            assert_eq!(show(&outcome), "wait 1", "{login:?}");
            let outcome = world.directory.begin_scram(&client_first(login), &imap(LOCALHOST)).map(drop);
            assert_eq!(show(&outcome), "wait 1", "{login:?} through SCRAM");
        }
        world.clock.advance(Duration::from_secs(24 * 60 * 60));
    }
}

#[test]
fn unknown_names_of_different_people_are_counted_separately() {
    let world = World::new(NAMES);
    fail(&world, ACCOUNT_FAILURES_FREE + 1, "nobody");
    for login in ["somebody", "nobody@far.test", "nobody.else@acme.test", "ann"] {
        check(&world, login, b"wrong", "refused");
    }
}

#[test]
fn cached_password_is_no_oracle_for_other_networks() {
    let world = World::new(ACME);
    check(&world, "ann", &password_of(ANN), "welcome");
    let guess = |password: &[u8]| show(&world.directory.authenticate("ann", password, &imap(elsewhere())));
    for number in 0..=ACCOUNT_FAILURES_FREE {
        assert_eq!(guess(&[b'x', number as u8]), "refused");
    }
    assert_eq!(guess(&password_of(ANN)), "wait 1");
    check(&world, "ann", &password_of(ANN), "welcome");
}

#[test]
fn password_is_known_while_its_login_takes_no_hash() {
    let world = World::new(ACME);
    let is_known = |login: &str, password: &[u8]| {
        let hashes = world.directory.login_statistics().hashes;
        let is_known = world.directory.is_password_known(login, password, &imap(home()));
        assert_eq!(world.directory.login_statistics().hashes, hashes, "{login}");
        is_known
    };
    let right = password_of(ANN);
    assert!(!is_known("ann", &right), "it was never verified");
    let outcome = world.directory.authenticate("ann", &right, &imap(home()));
    assert_eq!(show(&outcome), "welcome");
    assert!(is_known("ann", &right));
    assert!(!is_known("ann", b"wrong") && !is_known("bob", &right) && !is_known("nobody", &right));
    assert!(!world.directory.is_password_known("ann", &right, &imap(elsewhere())), "another network has not proved it");
    world.clock.advance(VERIFIED_TTL);
    assert!(!is_known("ann", &right), "it must be verified again");
}

#[test]
fn cached_password_is_verified_again_after_its_lifetime() {
    let world = World::new(ACME);
    check(&world, "ann", &password_of(ANN), "welcome");
    world.clock.advance(VERIFIED_TTL);
    check(&world, "ann", &password_of(ANN), "welcome");
    check(&world, "ann", b"wrong", "refused");
}

#[test]
fn logins_are_counted() {
    let world = World::new(ACME);
    for _ in 0..3 {
        check(&world, "ann", &password_of(ANN), "welcome");
    }
    check(&world, "ann", b"wrong", "refused");
    check(&world, "nobody", b"wrong", "refused");
    check(&world, "carl", &password_of("carl@acme.test"), "disabled");
    check_scram(&world, "bob", &password_of("bob@acme.test"), "welcome");
    check_scram(&world, "bob", b"wrong", "refused");
    let counted = world.directory.login_statistics();
    let expected = LoginStatistics { succeeded: 4, refused: 3, disabled: 1, hashes: 4, ..LoginStatistics::default() };
    assert_eq!(counted, expected);
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("keys of every length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

fn client_first(name: &str) -> ClientFirst {
    ClientFirst {
        authentication_id: name.to_owned(),
        authorization_id: None,
        nonce: "client-nonce".to_owned(),
        bare: format!("n={name},r=client-nonce"),
    }
}

/// Returns a client's final message.
fn client_final(first: &ClientFirst, server_first: &str, password: &[u8]) -> ClientFinal {
    let attribute = |name: &str| {
        let found = server_first.split(',').find_map(|attribute| attribute.strip_prefix(name));
        found.expect("the server sends it").to_owned()
    };
    let salt = Base64::decode_vec(&attribute("s=")).expect("base64");
    let iterations = attribute("i=").parse().expect("a number");
    let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password, &salt, iterations);
    let mut proof = hmac(&salted, b"Client Key");
    let without_proof = format!("c=biws,r={}", attribute("r="));
    let signed = format!("{},{server_first},{without_proof}", first.bare);
    let signature = hmac(&Sha256::digest(proof), signed.as_bytes());
    proof.iter_mut().zip(signature).for_each(|(byte, mask)| *byte ^= mask);
    ClientFinal { without_proof, proof }
}

/// Plays the client side of a SCRAM login.
fn scram(world: &World, login: &str, password: &[u8]) -> Result<String, AuthError> {
    let first = client_first(login);
    let (exchange, server_first) = world.directory.begin_scram(&first, &imap(home()))?;
    let last = client_final(&first, &server_first, password);
    let (proved, server_final) = world.directory.verify_scram(exchange, &last)?;
    assert!(server_final.starts_with("v="));
    Ok(proved.person.short_names[0].clone())
}

fn check_scram(world: &World, login: &str, password: &[u8], expected: &str) {
    assert_eq!(show(&scram(world, login, password)), expected, "{login}");
}

#[test]
fn scram_accepts_the_same_accounts_as_passwords() {
    let world = World::new(ACME);
    check_scram(&world, "ann", &password_of(ANN), "welcome");
    check_scram(&world, "ann@acme.test", &password_of(ANN), "welcome");
    check_scram(&world, "ann", b"wrong", "refused");
    check_scram(&world, "nobody", b"wrong", "refused");
    check_scram(&world, &"x".repeat(100_000), b"wrong", "refused");
    check_scram(&world, "carl", &password_of("carl@acme.test"), "disabled");
    world.directory.password_set("ann", b"another password").expect("acceptable");
    check_scram(&world, "ann", &password_of(ANN), "refused");
    check_scram(&world, "ann", b"another password", "welcome");
    assert!(world.directory.scram_sha_256("ann").expect("readable").is_some());
}

#[test]
fn failed_scram_logins_are_throttled() {
    let world = World::new(ACME);
    for _ in 0..=ACCOUNT_FAILURES_FREE {
        check_scram(&world, "ann", b"wrong", "refused");
    }
    check_scram(&world, "ann", &password_of(ANN), "wait 1");
    check(&world, "ann", &password_of(ANN), "wait 1");
}

/// Returns the address of a user that has not logged in from there before.
fn new_place() -> IpAddr {
    "203.0.113.9".parse().expect("an address")
}

#[test]
fn open_scram_exchanges_do_not_lock_the_account() {
    let world = World::new(ACME);
    let open = || world.directory.begin_scram(&client_first("ann"), &imap(elsewhere()));
    let left_open: Vec<_> = (0..100).map(|_| open().map(|(exchange, _)| exchange)).collect();
    assert!(left_open.iter().all(Result::is_ok));
    check(&world, "ann", &password_of(ANN), "welcome");
}

#[test]
fn dropped_scram_exchanges_count_as_failed_logins() {
    let world = World::new(ACME);
    let log_in = |from: IpAddr| show(&world.directory.authenticate("ann", &password_of(ANN), &imap(from)));
    assert_eq!(log_in(home()), "welcome");
    for _ in 0..=ACCOUNT_FAILURES_FREE {
        drop(world.directory.begin_scram(&client_first("ann"), &imap(elsewhere())).expect("a challenge"));
    }
    assert_eq!(log_in(new_place()), "wait 1");
    assert_eq!(log_in(home()), "welcome", "the owner's address has a count of its own");
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(log_in(new_place()), "welcome");
}

#[test]
fn withdrawn_scram_exchanges_do_not_count() {
    let world = World::new(ACME);
    for _ in 0..=ACCOUNT_FAILURES_FREE {
        let (exchange, _) = world.directory.begin_scram(&client_first("ann"), &imap(elsewhere())).expect("a challenge");
        exchange.withdraw();
    }
    check(&world, "ann", &password_of(ANN), "welcome");
}

/// Returns salt and iteration count of the server's first message.
fn salt(world: &World, login: &str) -> String {
    let (exchange, server_first) =
        world.directory.begin_scram(&client_first(login), &imap(home())).expect("a challenge");
    exchange.withdraw();
    server_first.split(',').filter(|attribute| !attribute.starts_with("r=")).collect::<Vec<_>>().join(",")
}

/// The names are unknown; known; known only as an address in the alias of a domain; and known in another domain, but
/// without SCRAM keys. `ann.smith` is known only as an address.
#[test]
fn all_spellings_of_a_name_have_one_salt_whether_it_exists_or_not() {
    let world = World::new(NAMES);
    world.directory.password_hash_set("eve", IMPORTED_HASH).expect("usable");
    let mut salts = Vec::new();
    for name in ["nobody", "ann", "dora", "eve"] {
        let expected = salt(&world, name);
        for login in spellings(name).into_iter().chain([format!("{name}@other.test")]) {
            assert_eq!(salt(&world, &login), expected, "{login:?}");
        }
        salts.push(expected);
    }
    for login in spellings("ann.smith") {
        assert_eq!(salt(&world, &login), salt(&world, "ann"), "{login:?}");
    }
    assert_eq!(salt(&world, "dora"), salt(&world, "ds"));
    salts.push(salt(&world, "nobody@far.test"));
    salts.sort_unstable();
    salts.dedup();
    assert_eq!(salts.len(), 5, "different names have different salts");
}

#[test]
fn another_spelling_of_a_known_name_does_not_log_in() {
    let world = World::new(NAMES);
    for login in ["ann.smith", "ann@other.test", "eve@acme.test"] {
        check(&world, login, &password_of(ANN), "refused");
        check_scram(&world, login, &password_of(ANN), "refused");
        check_scram(&world, login, &password_of("eve@other.test"), "refused");
    }
}

#[test]
fn the_salt_of_an_unknown_account_never_changes() {
    let world = World::new(ACME);
    let nobody = salt(&world, "nobody");
    let ann = salt(&world, "ann");
    assert_eq!(salt(&world, "NOBODY"), nobody);
    assert_eq!(nobody.len(), ann.len());
    assert_ne!(nobody, ann);
    let world = world.crash();
    assert_eq!((salt(&world, "nobody"), salt(&world, "ann")), (nobody, ann));
}

/// Adds an application password. Returns its identifier and its text.
fn add_application(world: &World, protocols: &[LoginProtocol], scope: LoginScope) -> (ApplicationPasswordId, String) {
    let new = NewApplicationPassword { name: "Phone".to_owned(), protocols: protocols.to_vec(), scope };
    let (added, text) = world.directory.application_password_add("ann", &new).expect("it is valid");
    (added.id, text)
}

fn over(protocol: LoginProtocol) -> LoginOrigin {
    LoginOrigin { protocol, ..imap(home()) }
}

/// Returns the password by which a login over a protocol is made.
fn used(world: &World, password: &str, protocol: LoginProtocol) -> Result<LoginPassword, AuthError> {
    let outcome = world.directory.authenticate("ann", password.as_bytes(), &over(protocol));
    outcome.map(|proved| proved.password)
}

#[test]
fn application_password_is_valid_for_its_protocols_until_it_is_revoked() {
    let world = World::new(ACME);
    let (id, text) = add_application(&world, &[LoginProtocol::Imap, LoginProtocol::Jmap], LoginScope::Reading);
    let expected = LoginPassword::Application { id, scope: LoginScope::Reading };
    let hashes = world.directory.login_statistics().hashes;
    assert_eq!(used(&world, &text, LoginProtocol::Imap).ok(), Some(expected));
    assert!(world.directory.is_password_known("ann", text.as_bytes(), &imap(home())), "it takes no hash");
    assert_eq!(world.directory.login_statistics().hashes, hashes);
    assert_eq!(show(&used(&world, &text, LoginProtocol::Pop3)), "refused");
    assert_eq!(show(&used(&world, &text, LoginProtocol::Http)), "refused");
    let first_factor = world.directory.authenticate_first_factor("ann", text.as_bytes(), home());
    assert_eq!(show(&first_factor), "refused", "the login page takes only the password of the account");
    assert_eq!(show(&world.directory.authenticate("bob", text.as_bytes(), &imap(home()))), "refused");
    let main = String::from_utf8(password_of(ANN)).expect("text");
    assert_eq!(used(&world, &main, LoginProtocol::Imap).ok(), Some(LoginPassword::Account));
    // As a token, it says whose it is.
    let token = |text: &str, protocol| world.directory.authenticate_token(text, &over(protocol));
    assert_eq!(token(&text, LoginProtocol::Jmap).expect("it is valid").person.short_names, ["ann"]);
    assert_eq!(show(&token(&text, LoginProtocol::Native)), "refused");
    assert_eq!(show(&token(&main, LoginProtocol::Jmap)), "refused");
    assert!(world.directory.application_password_revoke("bob", id).is_err(), "it is another one's");
    world.directory.application_password_revoke("ann", id).expect("it exists");
    assert_eq!(show(&used(&world, &text, LoginProtocol::Imap)), "refused");
    assert_eq!(show(&token(&text, LoginProtocol::Jmap)), "refused");
    assert!(world.directory.application_password_revoke("ann", id).is_err());
}

#[test]
fn change_of_the_password_revokes_application_passwords() {
    let world = World::new(ACME);
    let (_, text) = add_application(&world, &[LoginProtocol::Imap], LoginScope::All);
    world.directory.password_set("ann", b"another password").expect("acceptable");
    assert_eq!(show(&used(&world, &text, LoginProtocol::Imap)), "refused");
    let ann = world.directory.person("ann").expect("readable").expect("she exists");
    assert!(ann.application_passwords().is_empty());
}

#[test]
fn guessed_tokens_are_throttled() {
    let world = World::new(ACME);
    let (_, text) = add_application(&world, &[LoginProtocol::Jmap], LoginScope::All);
    let token = |text: &str, from: IpAddr| {
        let origin = LoginOrigin { protocol: LoginProtocol::Jmap, ..imap(from) };
        show(&world.directory.authenticate_token(text, &origin))
    };
    for number in 0..=ACCOUNT_FAILURES_FREE {
        assert_eq!(token(&format!("aaaa-{number}"), elsewhere()), "refused");
    }
    assert_eq!(token("aaaa", elsewhere()), "wait 1");
    assert_eq!(token(&text, elsewhere()), "welcome", "a right token cannot be guessed");
    assert_eq!(token("aaaa", home()), "refused");
}

#[test]
fn strangers_do_not_lock_out_application_passwords() {
    let world = World::new(ACME);
    let (_, text) = add_application(&world, &[LoginProtocol::Imap], LoginScope::All);
    fail(&world, ACCOUNT_FAILURES_FREE + 1, "ann");
    check(&world, "ann", &password_of(ANN), "wait 1");
    check(&world, "ann", text.as_bytes(), "welcome");
    assert!(world.directory.is_password_known("ann", text.as_bytes(), &imap(home())));
}

#[test]
fn scram_accepts_application_passwords_and_tells_which() {
    let world = World::new(ACME);
    let main = String::from_utf8(password_of(ANN)).expect("text");
    let (phone, phone_text) = add_application(&world, &[LoginProtocol::Imap], LoginScope::All);
    let (tablet, tablet_text) = add_application(&world, &[LoginProtocol::Imap], LoginScope::Reading);
    let (_, other_text) = add_application(&world, &[LoginProtocol::Pop3], LoginScope::All);
    let proved = |text: &str| {
        let first = client_first("ann");
        let (exchange, server_first) = world.directory.begin_scram(&first, &imap(home()))?;
        let last = client_final(&first, &server_first, text.as_bytes());
        world.directory.verify_scram(exchange, &last).map(|(proved, _)| proved.password)
    };
    assert_eq!(proved(&main).ok(), Some(LoginPassword::Account));
    assert_eq!(proved(&phone_text).ok(), Some(LoginPassword::Application { id: phone, scope: LoginScope::All }));
    assert_eq!(proved(&tablet_text).ok(), Some(LoginPassword::Application { id: tablet, scope: LoginScope::Reading }));
    assert_eq!(show(&proved(&other_text)), "refused");
    add_factor(&world);
    assert_eq!(show(&proved(&main)), "needs an application password");
    assert!(proved(&phone_text).is_ok());
}

/// Adds a second factor to Ann. Returns its secret and the recovery codes.
fn add_factor(world: &World) -> (FactorSecret, Vec<String>) {
    let secret = FactorSecret([7; 20]);
    let code = secret.code_at(world.clock.now());
    let codes = world.directory.second_factor_set("ann", &secret, &code).expect("the code is right");
    (secret, codes)
}

#[test]
fn second_factor_guards_all_protocols() {
    let world = World::new(ACME);
    let main = String::from_utf8(password_of(ANN)).expect("text");
    let wrong = world.directory.second_factor_set("ann", &FactorSecret([7; 20]), "000000");
    assert!(matches!(wrong, Err(directory::Error::FactorCode)), "an authenticator without the secret locks nobody out");
    let (secret, codes) = add_factor(&world);
    for protocol in LoginProtocol::ALL {
        assert_eq!(show(&used(&world, &main, protocol)), "needs an application password", "{protocol}");
    }
    let (_, text) = add_application(&world, &[LoginProtocol::Imap], LoginScope::All);
    assert!(used(&world, &text, LoginProtocol::Imap).is_ok());
    let person = world.directory.authenticate_first_factor("ann", main.as_bytes(), home()).expect("it is right");
    assert_eq!(person.second_factor().map(directory::SecondFactor::recovery_codes), Some(codes.len()));
    let prove = |code: &str| world.directory.check_second_factor("ann", code, home());
    let now = world.clock.now();
    let step = u64::try_from(now.0 / 30_000_000).expect("a time after 1970");
    assert_eq!(prove(&secret.code_at(now)).ok(), Some(FactorProof::Step { step, factor: now }));
    assert_eq!(prove(&codes[0]).ok(), Some(FactorProof::RecoveryCode { factor: now }));
    assert_eq!(show(&prove(&codes[0])), "refused", "each is valid once");
    let renewed = world.directory.recovery_codes_renew("ann").expect("she has a second factor");
    assert_eq!(show(&prove(&codes[1])), "refused");
    assert!(prove(&renewed[1]).is_ok());
    assert_eq!(show(&world.directory.check_second_factor("bob", "000000", home())), "refused");
    world.directory.second_factor_remove("ann").expect("she exists");
    assert!(used(&world, &main, LoginProtocol::Imap).is_ok());
}

#[test]
fn guessed_codes_are_throttled() {
    let world = World::new(ACME);
    let (secret, _) = add_factor(&world);
    let prove = |code: &str, from: IpAddr| show(&world.directory.check_second_factor("ann", code, from));
    // The right password makes no network familiar, and clears no count of codes.
    for number in 0..=ACCOUNT_FAILURES_FREE {
        let from = IpAddr::from([203, 0, 113, number as u8]);
        let first = world.directory.authenticate_first_factor("ann", &password_of(ANN), from);
        assert_eq!(show(&first), "welcome");
        assert_eq!(prove("wrong", from), "refused");
    }
    let right = secret.code_at(world.clock.now());
    assert_eq!(prove(&right, new_place()), "wait 1");
    check(&world, "ann", &password_of(ANN), "needs an application password");
}
