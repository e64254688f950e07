//! The second factor at the login, and the page for it and for application passwords.

use std::sync::atomic::Ordering;

use axum::http::StatusCode;
use sasl::{LoginProtocol, LoginScope};
use web::credential_backend::CredentialChange;

use super::world::{APPLICATION_PASSWORD, Browser, PASSWORD, Page, World};

const PATH: &str = "/lite/settings/security";

fn with_factor() -> World {
    let world = World::new();
    world.credential.has_factor.store(true, Ordering::SeqCst);
    world
}

fn changes(world: &World) -> Vec<CredentialChange> {
    world.credential.changes.lock().expect("no test panics while it holds this").clone()
}

async fn enter_code(browser: &mut Browser, page: &Page, code: &str) -> Page {
    let token = page.hidden("token");
    let login = page.hidden("login");
    browser.post("/lite/login/code", &[("token", &token), ("login", &login), ("code", code)]).await
}

#[tokio::test]
async fn login_with_a_second_factor_needs_a_code_that_was_not_used() {
    let world = with_factor();
    let mut browser = world.browser();
    let page = browser.log_in("ann", PASSWORD).await;
    assert!(page.has("authenticator") && !page.has("Log out"), "{}", page.text());
    assert!(browser.get("/lite/").await.has("Password"), "the password alone opens nothing");
    let wrong = enter_code(&mut browser, &page, "wrong").await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    let inbox = enter_code(&mut browser, &wrong, "7").await;
    assert!(inbox.has("Log out"), "{}", inbox.text());
    // The same code, and earlier ones, lead nowhere: also after a restart.
    let mut other = world.browser();
    let page = other.log_in("ann", PASSWORD).await;
    for used in ["7", "6"] {
        assert_eq!(enter_code(&mut other, &page, used).await.status, StatusCode::UNAUTHORIZED, "{used}");
    }
    assert!(enter_code(&mut other, &page, "8").await.has("Log out"));
    // The login that was completed is no login any more.
    let again = enter_code(&mut other, &page, "9").await;
    assert!(!again.has("Log out"), "{}", again.text());
    let mut third = world.browser();
    let page = third.log_in("ann", PASSWORD).await;
    assert!(enter_code(&mut third, &page, "recovery").await.has("Log out"));
}

#[tokio::test]
async fn waiting_login_ends_after_wrong_codes_and_belongs_to_its_browser() {
    let world = with_factor();
    let mut browser = world.browser();
    let page = browser.log_in("ann", PASSWORD).await;
    let mut other = world.browser();
    other.get("/lite/login").await;
    assert_eq!(enter_code(&mut other, &page, "7").await.status, StatusCode::FORBIDDEN, "the token is another one's");
    for _ in 0..http::limits::CODE_TRIES_MAX {
        assert_eq!(enter_code(&mut browser, &page, "wrong").await.status, StatusCode::UNAUTHORIZED);
    }
    let ended = enter_code(&mut browser, &page, "7").await;
    assert!(ended.status == StatusCode::FORBIDDEN && ended.has("Log in again"), "{}", ended.text());
    let forged = browser.log_in("ann", PASSWORD).await;
    let token = forged.hidden("token");
    let fields = [("token", token.as_str()), ("login", "00"), ("code", "7")];
    assert_eq!(browser.post("/lite/login/code", &fields).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn changes_need_the_password_and_those_of_the_factor_a_code() {
    let world = with_factor();
    let mut browser = world.browser();
    let page = browser.log_in("ann", PASSWORD).await;
    enter_code(&mut browser, &page, "7").await;
    let page = browser.get(PATH).await;
    assert!(page.has("9 recovery codes") && page.has("&#60;b&#62;Phone"), "{}", page.text());
    let token = page.hidden("token");
    let refused = |fields: Vec<(&'static str, &'static str)>| {
        let mut all = vec![("token", token.clone())];
        all.extend(fields.into_iter().map(|(name, value)| (name, value.to_owned())));
        all
    };
    let add = vec![("do", "add"), ("name", "Phone"), ("protocol", "imap")];
    let remove = vec![("do", "remove-factor"), ("password", PASSWORD)];
    let renew = vec![("do", "renew-codes"), ("password", PASSWORD)];
    let cases = [
        add.clone(),
        [add, vec![("password", "wrong")]].concat(),
        remove.clone(),
        [remove, vec![("code", "7")]].concat(),
        [renew, vec![("code", "wrong")]].concat(),
    ];
    for fields in cases {
        let fields = refused(fields);
        let borrowed: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = browser.post(PATH, &borrowed).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{borrowed:?}");
        assert!(answer.has("wrong"), "{}", answer.text());
    }
    assert!(changes(&world).is_empty());
    // Each form that needs a code has a field for it.
    assert_eq!(page.text().matches("name=\"code\"").count(), 3, "{}", page.text());
    let fields = [("token", token.as_str()), ("do", "renew-codes"), ("password", PASSWORD), ("code", "8")];
    let codes = browser.post(PATH, &fields).await;
    assert!(codes.has("code-one") && codes.has("code-two"), "{}", codes.text());
    let fields = [("token", token.as_str()), ("do", "remove-factor"), ("password", PASSWORD), ("code", "9")];
    assert!(browser.post(PATH, &fields).await.has("The second step was removed."));
    assert!(changes(&world) == [CredentialChange::RenewRecoveryCodes, CredentialChange::RemoveSecondFactor]);
}

#[tokio::test]
async fn application_password_is_shown_once_and_can_be_revoked() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let token = browser.get(PATH).await.hidden("token");
    let common = [("token", token.as_str()), ("do", "add"), ("name", "My <phone>"), ("password", PASSWORD)];
    let without_protocol = browser.post(PATH, &common).await;
    assert_eq!(without_protocol.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(without_protocol.has("It needs a protocol") && without_protocol.has("My &#60;phone&#62;"));
    let chosen = [("protocol", "imap"), ("protocol", "smoke"), ("protocol", "jmap"), ("reading", "1")];
    let made = browser.post(PATH, &[&common[..], &chosen[..]].concat()).await;
    assert!(made.has(APPLICATION_PASSWORD), "{}", made.text());
    assert!(!browser.get(PATH).await.has(APPLICATION_PASSWORD));
    let expected = CredentialChange::AddApplicationPassword {
        name: "My <phone>".to_owned(),
        protocols: vec![LoginProtocol::Imap, LoginProtocol::Jmap],
        scope: LoginScope::Reading,
    };
    assert!(changes(&world) == [expected]);
    let revoke = |id: &'static str| [("token", token.clone()), ("do", "revoke".to_owned()), ("id", id.to_owned())];
    for (id, status) in [("0101010101010101", StatusCode::OK), ("02", StatusCode::NOT_FOUND)] {
        let fields = revoke(id);
        let borrowed: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(browser.post(PATH, &borrowed).await.status, status, "{id}");
    }
    assert_eq!(changes(&world).len(), 2);
}

#[tokio::test]
async fn second_factor_is_set_up_with_its_first_code() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let page = browser.get("/lite/settings/factor").await;
    assert!(page.has("<svg role=\"img\"") && page.has("GEZD GNBV"), "{}", page.text());
    let token = page.hidden("token");
    let secret = page.hidden("secret");
    for (code, password) in [("2", PASSWORD), ("1", "wrong")] {
        let fields = [("token", token.as_str()), ("secret", &secret), ("code", code), ("password", password)];
        let answer = browser.post("/lite/settings/factor", &fields).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{code} {password}");
    }
    assert!(changes(&world).is_empty());
    let fields = [("token", token.as_str()), ("secret", &secret), ("code", "1"), ("password", PASSWORD)];
    assert!(browser.post("/lite/settings/factor", &fields).await.has("code-one"));
    // It is not replaced without a code of the old one.
    world.credential.has_factor.store(true, Ordering::SeqCst);
    assert!(!browser.post("/lite/settings/factor", &fields).await.has("code-one"));
    assert_eq!(changes(&world).len(), 1);
}

#[tokio::test]
async fn password_is_changed_with_the_old_one_and_a_code() {
    let world = with_factor();
    let mut browser = world.browser();
    let page = browser.log_in("ann", PASSWORD).await;
    enter_code(&mut browser, &page, "7").await;
    let token = browser.get(PATH).await.hidden("token");
    let mut change = async |password: &str, code: &str, new: &str, again: &str| {
        let fields = [("token", token.as_str()), ("do", "set-password"), ("password", password), ("code", code)];
        browser.post(PATH, &[&fields[..], &[("new", new), ("again", again)]].concat()).await
    };
    for (password, code, again) in [("wrong", "8", "new one"), (PASSWORD, "7", "new one"), (PASSWORD, "8", "other")] {
        let answer = change(password, code, "new one", again).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{password} {code} {again}");
    }
    // A password that is not possible uses no code up.
    let short = change(PASSWORD, "9", "xy", "xy").await;
    assert!(short.status == StatusCode::UNPROCESSABLE_ENTITY && short.has("too short"), "{}", short.text());
    assert!(changes(&world).is_empty());
    assert_eq!(change(PASSWORD, "9", "new one", "new one").await.status, StatusCode::OK);
    assert!(changes(&world) == [CredentialChange::SetPassword("new one".to_owned())]);
}
