//! The corpus of hostile messages in every form in which the lite web mail shows a message.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mail::mime::header;
use proptest::prelude::*;
use web::sanitizer::sanitize;

use super::corpus::{HostileMessage, messages};
use super::harmless::{check_document, check_fragment, check_page};
use super::world::{Browser, Page, World, put};

/// The least number of messages of a class.
const CLASS_MESSAGES_MIN: usize = 10;

fn images() -> Arc<HashMap<String, String>> {
    Arc::new(HashMap::from([("a@x".to_owned(), "data:image/png;base64,iVBORw==".to_owned())]))
}

#[test]
fn the_corpus_has_all_classes() {
    let messages = messages();
    assert!(messages.len() >= 300, "{} messages", messages.len());
    let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
    for message in &messages {
        *classes.entry(message.class).or_default() += 1;
    }
    assert_eq!(classes.len(), 19, "{classes:?}");
    assert!(classes.values().all(|count| *count >= CLASS_MESSAGES_MIN), "{classes:?}");
}

#[test]
fn sanitized_html_is_harmless_for_other_parsers_and_a_fixed_point() {
    for message in messages() {
        for html in &message.html {
            let clean = sanitize(html, &images());
            check_fragment(&clean);
            assert_eq!(sanitize(&clean, &images()), clean, "{}", message.line);
        }
    }
}

/// The messages of the corpus in a mailbox.
struct Mailbox {
    world: World,
    folder: u32,
    /// The messages with their UIDs.
    messages: Vec<(u32, HostileMessage)>,
}

impl Mailbox {
    fn new(is_chosen: impl Fn(&HostileMessage) -> bool) -> Self {
        let world = World::new();
        let file = world.file("ann");
        let chosen = messages().into_iter().filter(|message| is_chosen(message));
        let messages = chosen.map(|message| (put(&file, "INBOX", &message.raw).0, message)).collect();
        let folder = world.folder("ann", "INBOX");
        Self { world, folder, messages }
    }
}

/// Opens a page, which must exist and be harmless.
async fn shown(browser: &mut Browser, path: &str, message: &HostileMessage) -> Page {
    let page = browser.get(path).await;
    assert_eq!(page.status.as_u16(), 200, "{path}: {}", message.line);
    check_page(&page.text());
    assert!(page.field("content-security-policy").starts_with("default-src 'none'; style-src 'self';"), "{path}");
    page
}

#[tokio::test]
async fn each_message_is_shown_in_every_form() {
    let mailbox = Mailbox::new(|_| true);
    let mut browser = mailbox.world.logged_in("ann").await;
    for (uid, message) in &mailbox.messages {
        let path = format!("/lite/folder/{}/{uid}", mailbox.folder);
        let page = shown(&mut browser, &path, message).await;
        shown(&mut browser, &format!("{path}?all"), message).await;
        for kind in ["reply", "all", "forward"] {
            shown(&mut browser, &format!("/lite/compose?{kind}={}.{uid}", mailbox.folder), message).await;
        }
        let look = browser.get(&format!("{path}/html")).await;
        let has_look = page.has("Show its own look");
        assert_eq!(look.status.as_u16(), if has_look { 200 } else { 404 }, "{}", message.line);
        if has_look {
            check_document(&look.text());
            assert!(look.field("content-security-policy").starts_with("sandbox; default-src 'none';"));
        }
        check_downloads(&mut browser, &path, message).await;
    }
}

/// Checks the source and all parts of a message.
async fn check_downloads(browser: &mut Browser, path: &str, message: &HostileMessage) {
    let raw = browser.get(&format!("{path}/raw")).await;
    assert_eq!((raw.status.as_u16(), raw.field("content-type")), (200, "text/plain; charset=utf-8"));
    assert_eq!(raw.body, message.raw, "{}", message.line);
    for part in 0..8 {
        for query in ["", "?show"] {
            let file = browser.get(&format!("{path}/part/{part}{query}")).await;
            if file.status.as_u16() == 404 {
                continue;
            }
            assert_eq!(file.status.as_u16(), 200, "{part}{query}: {}", message.line);
            let kind = file.field("content-type");
            let is_attachment = file.field("content-disposition").starts_with("attachment");
            let is_image = ["image/png", "image/jpeg", "image/gif", "image/webp"].contains(&kind);
            assert!(is_attachment || (is_image && query == "?show"), "{kind}: {}", message.line);
            assert!(!kind.contains("html") && !kind.contains("xml") && !kind.contains("script"), "{kind}");
            assert_eq!(file.field("x-content-type-options"), "nosniff", "{}", message.line);
            assert!(file.field("content-security-policy").starts_with("sandbox; default-src 'none'"));
            assert!(file.headers.get("set-cookie").is_none(), "{}", message.line);
        }
    }
}

#[tokio::test]
async fn lists_and_search_results_are_harmless() {
    let mailbox = Mailbox::new(|_| true);
    let mut browser = mailbox.world.logged_in("ann").await;
    let last = mailbox.messages.len().div_ceil(50);
    let first = &mailbox.messages[0].1;
    for order in ["", "&sort=who&order=up", "&sort=subject&order=up"] {
        for number in 1..=last {
            let page =
                shown(&mut browser, &format!("/lite/folder/{}?page={number}{order}", mailbox.folder), first).await;
            assert!(!page.has("\u{202e}") && !page.has("\0"), "{}", page.text());
        }
    }
    for words in
        ["script", "hostile", "%3Cimg", "%22%3E%3Csvg", "\u{202e}", "%00", "canary&in=from", "alert&in=subject"]
    {
        let path = format!("/lite/search?q={}", words.replace('\u{202e}', "%E2%80%AE"));
        shown(&mut browser, &path, first).await;
    }
}

/// The fields that the composer and submission write.
const WRITTEN_FIELDS: &str = " from to cc subject date message-id in-reply-to references mime-version content-type \
    content-transfer-encoding content-disposition ";

#[tokio::test]
async fn answers_have_no_fields_and_recipients_of_the_attacker() {
    let chosen = ["headers", "names", "malformed", "charset", "metadata"];
    let mailbox = Mailbox::new(|message| chosen.contains(&message.class));
    let mut browser = mailbox.world.logged_in("ann").await;
    for (uid, message) in &mailbox.messages {
        for kind in ["reply", "forward"] {
            let before = mailbox.world.submitted().len();
            let page = browser.get(&format!("/lite/compose?{kind}={}.{uid}", mailbox.folder)).await;
            let typed = page.hidden("to");
            let to = if typed.is_empty() { "bob@acme.test".to_owned() } else { typed };
            let sent = browser.compose(&page, &[("to", &to), ("body", "an answer"), ("do", "send")], &[]).await;
            assert_eq!(sent.status.as_u16(), 200, "{kind} {}: {}", message.line, sent.text());
            let submitted = mailbox.world.submitted();
            assert_eq!(submitted.len(), before + 1, "{kind} {}", message.line);
            let request = &submitted[before];
            for field in header::fields(&request.message) {
                let name = String::from_utf8_lossy(field.name).to_ascii_lowercase();
                assert!(WRITTEN_FIELDS.contains(&format!(" {name} ")), "{name} {kind}: {}", message.line);
                let is_clean = |byte: &u8| !byte.is_ascii_control() || b"\r\n\t".contains(byte);
                assert!(field.value.iter().all(is_clean), "{name} {kind}: {}", message.line);
            }
            for recipient in &request.recipients {
                assert!(to.contains(recipient.as_str()), "{recipient} is not shown: {to}");
            }
        }
    }
}

#[tokio::test]
async fn html_does_not_enclose_other_parts() {
    let mailbox = Mailbox::new(|message| message.class == "split");
    let mut browser = mailbox.world.logged_in("ann").await;
    for (uid, message) in &mailbox.messages {
        let look = browser.get(&format!("/lite/folder/{}/{uid}/html", mailbox.folder)).await.text();
        let links = look.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let titles = look.split("title=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for value in links.chain(titles) {
            assert!(!value.contains("secret"), "{value}: {}", message.line);
        }
        let is_hidden = message.line.contains("hidden secret") && !look.contains("hidden secret");
        assert!(!is_hidden, "a part hides another one: {}: {look}", message.line);
    }
}

/// Returns the pieces of which the corpus is made: tags, and texts between them.
fn pieces() -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for html in messages().into_iter().flat_map(|message| message.html) {
        found.extend(html.split_inclusive('>').flat_map(|piece| match piece.find('<') {
            Some(at) => vec![piece[..at].to_owned(), piece[at..].to_owned()],
            None => vec![piece.to_owned()],
        }));
    }
    found.sort();
    found.dedup();
    found.retain(|piece| !piece.is_empty());
    found
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn recombined_pieces_are_harmless(chosen in prop::collection::vec((prop::sample::select(pieces()), any::<u8>()), 1..40)) {
        let cut = |(piece, how): &(String, u8)| match how {
            0..16 => piece[..piece.floor_char_boundary(piece.len() / 2)].to_owned(),
            16..32 => piece[piece.floor_char_boundary(piece.len() / 2)..].to_owned(),
            32..40 => format!("{piece}{piece}"),
            40..44 => piece.replace('"', "'"),
            44..48 => piece.replace('<', "&lt;"),
            _ => piece.clone(),
        };
        let html: String = chosen.iter().map(cut).collect();
        let clean = sanitize(&html, &images());
        check_fragment(&clean);
        prop_assert_eq!(sanitize(&clean, &images()), clean);
    }
}

#[test]
fn the_entry_points_for_fuzzing_accept_the_corpus_and_their_seeds() {
    for message in messages() {
        web::fuzz::message(&message.raw);
        for html in &message.html {
            web::fuzz::html(html.as_bytes());
        }
    }
    let check = |target: &str, run: fn(&[u8])| {
        let folder = format!("{}/../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
        let files = std::fs::read_dir(&folder).expect("the target has seeds");
        for file in files {
            let seed = std::fs::read(file.expect("a file").path()).expect("a file that can be read");
            for end in (0..=seed.len()).rev().step_by(7) {
                run(&seed[..end]);
            }
        }
    };
    check("web_form", web::fuzz::form);
    check("web_request", web::fuzz::request);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn spliced_messages_are_harmless(
        chosen in prop::sample::select(messages().into_iter().map(|message| message.raw).collect::<Vec<_>>()),
        other in prop::sample::select(messages().into_iter().map(|message| message.raw).collect::<Vec<_>>()),
        (cut, start, byte) in (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()),
    ) {
        let mut raw = chosen[..cut.index(chosen.len() + 1)].to_vec();
        if byte < 64 {
            raw.push(byte);
        }
        raw.extend_from_slice(&other[start.index(other.len() + 1)..]);
        web::fuzz::message(&raw);
        web::fuzz::html(&raw);
    }
}
