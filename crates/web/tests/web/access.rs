//! Who may do what: tokens, origins, sessions, and other people's numbers.

use axum::http::StatusCode;

use super::world::{File, PASSWORD, Page, World};

const FORMS: [&str; 7] = [
    "/lite/logout",
    "/lite/folders",
    "/lite/settings",
    "/lite/settings/security",
    "/lite/settings/factor",
    "/lite/compose",
    "/lite/compose/undo",
];

#[tokio::test]
async fn forms_need_the_token_of_their_session() {
    let world = World::new();
    let uid = world.put("ann", "INBOX", "Subject: x\r\n\r\ny").to_string();
    let mut browser = world.logged_in("ann").await;
    let mut other = world.logged_in("ann").await;
    let stolen = other.get("/lite/folders").await.hidden("token");
    let list = format!("/lite/folder/{}", world.folder("ann", "INBOX"));
    for token in ["", "AAAA", stolen.as_str()] {
        for path in FORMS.iter().copied().chain([list.as_str()]) {
            let fields = [
                ("token", token),
                ("uid", uid.as_str()),
                ("do", if path == "/lite/compose" { "send" } else { "delete" }),
                ("form", "00000000000000000000000000000000"),
                ("to", "bob@acme.test"),
            ];
            let answer = browser.post(path, &fields).await;
            let expected =
                if path == "/lite/compose" { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::FORBIDDEN };
            assert_eq!(answer.status, expected, "{path} with {token:?}");
        }
    }
    assert_eq!((world.messages("ann", "INBOX").len(), world.submitted().len()), (1, 0));
    assert!(browser.get("/lite/folders").await.has("Log out"), "nobody was logged out");
    // The tokens of two answers differ, and both are valid.
    let first = browser.get("/lite/folders").await.hidden("token");
    let second = browser.get("/lite/folders").await.hidden("token");
    assert_ne!(first, second);
    for token in [first, second] {
        let answer = browser.post(&list, &[("token", &token), ("uid", &uid), ("do", "flag")]).await;
        assert!(answer.has("1 message is flagged."), "{}", answer.text());
    }
}

#[tokio::test]
async fn pages_of_other_origins_change_nothing() {
    let world = World::new();
    let uid = world.put("ann", "INBOX", "Subject: x\r\n\r\ny");
    let mut browser = world.logged_in("ann").await;
    let token = browser.get("/lite/folders").await.hidden("token");
    let list = format!("/lite/folder/{}", world.folder("ann", "INBOX"));
    let number = uid.to_string();
    for field in [("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site"), ("origin", "https://evil.test")] {
        browser.fields = vec![(field.0, field.1.to_owned())];
        for path in FORMS.iter().copied().chain([list.as_str(), "/lite/login"]) {
            let answer = browser.post(path, &[("token", &token), ("uid", &number), ("do", "delete")]).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path} with {field:?}");
        }
        // A link of another page does not mark a message as read.
        assert_eq!(browser.get(&format!("{list}/{number}")).await.status, StatusCode::OK);
    }
    browser.fields = vec![("sec-purpose", "prefetch".to_owned())];
    browser.get(&format!("{list}/{number}")).await;
    assert_eq!(world.flags("ann", "INBOX", uid), [] as [&str; 0]);
    browser.fields.clear();
    browser.get(&format!("{list}/{number}")).await;
    assert_eq!(world.flags("ann", "INBOX", uid), ["\\Seen"]);
}

#[tokio::test]
async fn numbers_of_other_people_lead_nowhere() {
    let world = World::new();
    let file = world.file("bob");
    let (secret, _) = file.folder_create("Secret", None).expect("a sound store");
    let uid = super::world::put(&file, "Secret", b"Subject: bob's\r\n\r\nhidden");
    let mut browser = world.logged_in("ann").await;
    let token = browser.get("/lite/folders").await.hidden("token");
    let paths = ["", "/1", "/1/html", "/1/raw", "/1/part/0"].map(|rest| format!("/lite/folder/{secret}{rest}"));
    let inbox = world.folder("ann", "INBOX");
    let own = ["/999", "/999/html", "/999/raw", "/999/part/0", "/x", "/1/part/x", "/-1"];
    let own = own.map(|rest| format!("/lite/folder/{inbox}{rest}"));
    let others = [
        "/lite/folder/x".to_owned(),
        "/lite/folder/99999999999".to_owned(),
        "/lite/compose?draft=999".to_owned(),
        format!("/lite/compose?reply={secret}.{uid}"),
        "/lite/compose?reply=x".to_owned(),
        "/lite/nothing".to_owned(),
        "/lite/style/0.css".to_owned(),
    ];
    for path in paths.iter().chain(&own).chain(&others) {
        let answer = browser.get(path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert!(answer.has("<h1") && !answer.has("hidden"), "{path}: {}", answer.text());
    }
    let number = uid.to_string();
    let path = format!("/lite/folder/{secret}");
    for what in ["read", "delete", "destroy", "move"] {
        let to = inbox.to_string();
        let fields = [("token", token.as_str()), ("uid", number.as_str()), ("do", what), ("to", to.as_str())];
        assert_eq!(browser.post(&path, &fields).await.status, StatusCode::NOT_FOUND, "{what}");
    }
    assert_eq!(world.messages("bob", "Secret").len(), 1);
}

#[tokio::test]
async fn sessions_end_and_begin_anew() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let before = browser.cookies.clone();
    let page = browser.get("/lite/folders").await;
    let cookie = before["doublet"].clone();
    assert!(!page.has(&cookie), "no page has the token of the session");
    // A login while somebody is logged in begins a new session and ends the other one (session fixation).
    browser.log_in("ann", "secret").await;
    assert_ne!(browser.cookies["doublet"], cookie);
    let mut thief = world.browser();
    thief.cookies = before;
    assert_eq!(thief.send("GET", "/lite/folders", None, Vec::new()).await.field("location"), "/lite/login");
    // A login in the header of a request is none: browsers would repeat it for other pages.
    let mut program = world.browser();
    program.fields = vec![("authorization", "Basic YW5uOnNlY3JldA==".to_owned())];
    assert_eq!(program.send("GET", "/lite/folders", None, Vec::new()).await.field("location"), "/lite/login");
}

#[tokio::test]
async fn forms_of_an_ended_session_change_nothing_and_say_so() {
    let world = World::new();
    let uid = world.put("ann", "INBOX", "Subject: x\r\n\r\ny").to_string();
    let mut browser = world.logged_in("ann").await;
    let token = browser.get("/lite/folders").await.hidden("token");
    let list = format!("/lite/folder/{}", world.folder("ann", "INBOX"));
    browser.post("/lite/logout", &[("token", &token)]).await;
    for cookie in [None, Some("0123")] {
        browser.cookies.remove("doublet");
        browser.cookies.extend(cookie.map(|value| ("doublet".to_owned(), value.to_owned())));
        for path in FORMS.iter().copied().filter(|path| *path != "/lite/compose").chain([list.as_str()]) {
            let fields = [("token", token.as_str()), ("uid", uid.as_str()), ("do", "delete")];
            let answer = browser.post(path, &fields).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
            assert!(answer.has("Nothing was changed.") && answer.has("type=\"password\""), "{}", answer.text());
        }
        assert_eq!(browser.send("GET", &list, None, Vec::new()).await.field("location"), "/lite/login");
    }
    assert_eq!(world.messages("ann", "INBOX").len(), 1);
    browser.fields = vec![("sec-fetch-site", "cross-site".to_owned())];
    for path in [list.as_str(), "/lite/compose"] {
        let answer = browser.post(path, &[("token", &token), ("body", "typed elsewhere")]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
        assert!(!answer.has("typed elsewhere"), "{}", answer.text());
    }
}

/// Checks that a page has the text of the composer, and nothing of an account.
#[track_caller]
fn check_ended(page: &Page, body: &str) {
    let text = page.text();
    assert_eq!(page.status, StatusCode::UNAUTHORIZED, "{text}");
    assert!(page.has("Nothing was sent or saved.") && page.has(&format!("\n{body}</textarea>")), "{text}");
    assert_eq!(page.link("Log in in a new tab"), "/lite/login");
    assert!(!page.has("Log out") && !page.has("name=\"token\"") && !page.has("ann"), "{text}");
}

#[tokio::test]
async fn what_was_typed_in_the_composer_survives_the_session() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let page = browser.get("/lite/compose?to=bob%40acme.test&subject=%3Cb%3E").await;
    let files = [File("a.txt", "text/plain", b"kept"), File("b.txt", "text/plain", b"dropped")];
    let draft = browser.compose(&page, &[("body", "first"), ("do", "save")], &files).await;
    browser.cookies.remove("doublet");
    let typed = [("body", "<i>typed"), ("bcc", "eve@far.test"), ("keep", "2"), ("do", "send")];
    let large = vec![b'x'; 900 << 10];
    let ended = browser.compose(&draft, &typed, &[File("new.bin", "x/y", &large)]).await;
    check_ended(&ended, "&#60;i&#62;typed");
    assert!(ended.has("Files must be chosen again."), "{}", ended.text());
    assert_eq!((ended.hidden("subject"), ended.hidden("bcc")), ("<b>".to_owned(), "eve@far.test".to_owned()));
    // Before the login, the form comes back as often as it is sent.
    let keep = ended.hidden("keep");
    let fields = [("body", "<i>typed"), ("keep", keep.as_str()), ("do", "look")];
    let ended = browser.compose(&ended, &fields, &[]).await;
    check_ended(&ended, "&#60;i&#62;typed");
    assert!(!ended.has("Files must"), "{}", ended.text());
    // Then it opens the composer, and sends nothing by itself, whatever its button says.
    browser.log_in("ann", PASSWORD).await;
    let send = [("body", "<i>typed"), ("keep", keep.as_str()), ("do", "send")];
    let composer = browser.compose(&ended, &send, &[]).await;
    assert_eq!(composer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(composer.has("\n&#60;i&#62;typed</textarea>") && composer.has("a.txt"), "{}", composer.text());
    assert!(!composer.has("b.txt") && !composer.has("Files must"), "{}", composer.text());
    assert_eq!(world.submitted().len(), 0);
    let sent = browser.compose(&composer, &send, &[]).await;
    assert!(sent.has("The message was sent."), "{}", sent.text());
    let delivered = &world.messages("bob", "INBOX")[0].1;
    assert!(delivered.contains("a.txt") && !delivered.contains("b.txt"), "{delivered}");
    assert_eq!(world.submitted()[0].recipients, ["bob@acme.test", "eve@far.test"]);
    assert_eq!(world.messages("ann", "Drafts").len(), 0);
}

#[tokio::test]
async fn a_form_of_another_session_takes_no_draft_of_another_person() {
    let world = World::new();
    let mut bob = world.logged_in("bob").await;
    let page = bob.get("/lite/compose").await;
    bob.compose(&page, &[("body", "Bob's"), ("do", "save")], &[File("b.txt", "text/plain", b"b")]).await;
    let mut browser = world.logged_in("ann").await;
    let page = browser.get("/lite/compose?to=bob%40acme.test").await;
    let draft = browser.compose(&page, &[("body", "x"), ("do", "save")], &[File("a.txt", "text/plain", b"a")]).await;
    browser.cookies.remove("doublet");
    let fields = [("body", "Ann's"), ("keep", "2"), ("do", "send")];
    let ended = browser.compose(&draft, &fields, &[]).await;
    check_ended(&ended, "Ann&#39;s");
    browser.log_in("bob", PASSWORD).await;
    let composer = browser.compose(&ended, &fields, &[]).await;
    assert!(composer.has("Files must be chosen again.") && !composer.has("b.txt"), "{}", composer.text());
    assert!(browser.compose(&composer, &[("body", "Ann's"), ("do", "send")], &[]).await.has("was sent"));
    assert_eq!(world.messages("bob", "Drafts").len(), 1, "Bob's own draft stays");
}

#[tokio::test]
async fn forms_of_an_ended_session_are_limited() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let page = browser.get("/lite/compose").await;
    browser.cookies.remove("doublet");
    let long = "x".repeat(300 << 10);
    let ended = browser.compose(&page, &[("to", "bob"), ("body", &long), ("do", "send")], &[]).await;
    assert!(ended.has("too long to be shown here") && !ended.has("xxx"), "{}", ended.text());
    assert_eq!((ended.status, ended.hidden("to")), (StatusCode::UNAUTHORIZED, "bob".to_owned()));
    let larger = vec![b'x'; 2 << 20];
    let refused = browser.compose(&page, &[("body", "y")], &[File("a", "x/y", &larger)]).await;
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    let many: Vec<(&str, &str)> = (0..1_100).map(|_| ("x", "y")).collect();
    for fields in [&[("form", "damaged")][..], &[("subject", "a\r\nBcc: b@c")], &many] {
        let refused = browser.compose(&page, fields, &[]).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{fields:?}");
    }
    let refused = browser.send("POST", "/lite/compose", Some("text/plain"), b"form=x".to_vec()).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn logins_are_refused_in_words() {
    let world = World::new();
    let mut browser = world.browser();
    let wrong = browser.log_in("ann", "guess").await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    assert!(wrong.has("The name or the password is wrong.") && wrong.has("value=\"ann\"") && !wrong.has("guess"));
    let throttled = browser.log_in("throttled", "guess").await;
    assert_eq!(throttled.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(throttled.has("Wait some minutes"), "{}", throttled.text());
    // A page of another site has no cookie of the form.
    let mut forged = world.browser();
    let token = browser.get("/lite/login").await.hidden("token");
    let answer = forged.post("/lite/login", &[("token", &token), ("name", "ann"), ("password", "secret")]).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(!forged.cookies.contains_key("doublet"));
}

#[tokio::test]
async fn notices_of_strangers_are_not_shown() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let page = browser.get("/lite/folders?done=t.You+have+won&sig=AAAAAAAAAAAAAAAAAAAAAA").await;
    assert!(!page.has("You have won"), "{}", page.text());
    let reflected = browser.get("/lite/search?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E").await;
    assert!(!reflected.has("<script"), "{}", reflected.text());
}

#[tokio::test]
async fn pages_load_the_style_sheet_and_nothing_else() {
    let world = World::new();
    world.put("ann", "INBOX", "Subject: x\r\n\r\ny");
    let mut browser = world.logged_in("ann").await;
    let list = browser.get("/lite/").await;
    let message = list.link("x");
    for path in ["/lite/", message.as_str(), "/lite/compose", "/lite/folders", "/lite/settings", "/lite/none"] {
        let page = browser.get(path).await;
        let text = page.text();
        for policy in ["default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"] {
            assert!(page.field("content-security-policy").contains(policy), "{path}");
        }
        assert!(!page.field("content-security-policy").contains("unsafe"), "{path}");
        for forbidden in ["<script", " style=", " onload", "<img", "<iframe", "javascript:", "src="] {
            assert!(!text.contains(forbidden), "{path} has {forbidden}");
        }
        assert_eq!(text.matches("<h1").count(), 1, "{path}");
        for needed in ["<html lang=\"en\">", "<title>", "<main id=\"main\"", "class=\"skip\" href=\"#main\""] {
            assert!(text.contains(needed), "{path} lacks {needed}");
        }
    }
    let style = list.text();
    let style =
        style.split("href=\"/lite/style/").nth(1).and_then(|rest| rest.split('"').next()).expect("a style sheet");
    let style = format!("/lite/style/{style}");
    let sheet = browser.get(&style).await;
    assert!(sheet.field("cache-control").contains("immutable"));
    browser.fields = vec![("if-none-match", sheet.field("etag").to_owned())];
    assert_eq!(browser.get(&style).await.status, StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn reports_of_violated_policies_are_taken_from_anybody() {
    let world = World::new();
    let mut browser = world.browser();
    let page = browser.get("/lite/login").await;
    assert!(page.field("content-security-policy").contains("report-uri /lite/csp-report"));
    let mut report = async |body: Vec<u8>| {
        browser.send("POST", "/lite/csp-report", Some("application/csp-report"), body).await.status
    };
    assert_eq!(report(b"{\"csp-report\":{}}".to_vec()).await, StatusCode::NO_CONTENT);
    assert_eq!(report(vec![b'x'; 100 << 10]).await, StatusCode::PAYLOAD_TOO_LARGE);
}
