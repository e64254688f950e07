//! Tests of the indexed texts of messages: subject, addresses, displayed parts, names and texts of attachments.

use std::sync::Arc;

use base::Name;
use base::sim::{SeededRandom, SimClock};
use mail::full_text::MessageTextReader;
use mail::mailbox::{Flags, MailFile, MailOptions, MailStore, NewMessage};
use notes::{Access, Databases, Identity, level};
use search::extract::IsolatedReader;
use search::{FullTextIndex, PageRequest, Query};
use store::memory::MemoryEngine;
use store::{Store, StoreOptions, SyncMode};

/// A mail file with one message, and its index.
struct World {
    file: MailFile,
    search: FullTextIndex,
    _folder: tempfile::TempDir,
}

/// An extractor of PDF text that returns the characters of the file in reverse order.
struct ReversedPdfText;

impl IsolatedReader for ReversedPdfText {
    fn pdf_text(&self, bytes: &[u8]) -> Option<String> {
        Some(String::from_utf8(bytes.to_vec()).ok()?.chars().rev().collect())
    }
}

impl World {
    fn with(raw: &str) -> Self {
        let options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
        let store =
            Arc::new(Store::with_engine(Arc::new(MemoryEngine::new(1)), &options).expect("a store in memory opens"));
        let databases = Databases::open(store, Arc::new(SimClock::new()), Arc::new(SeededRandom::new(7)));
        let mail = MailStore::new(Arc::clone(&databases), MailOptions::default());
        mail.create_if_missing("mail/ann.nsf", "Ann", &Name::new("ann@acme.test"), None)
            .expect("the mail file is created");
        let file =
            mail.open("mail/ann.nsf", &Arc::new(Identity::person("ann@acme.test"))).expect("the owner may open it");
        let inbox = file.snapshot().unwrap().folder("INBOX").unwrap().expect("INBOX in any case").id;
        let new = NewMessage { raw: raw.replace('\n', "\r\n").into_bytes(), flags: Flags::none(), received: None };
        file.append(inbox, &[new]).expect("the message is appended");
        let folder = tempfile::tempdir().expect("a folder");
        let options = search::FullTextOptions {
            contents: vec![Box::new(MessageTextReader::default())],
            isolated_reader: Some(Arc::new(ReversedPdfText)),
            thread_bytes: 16 << 20,
            ..search::FullTextOptions::default()
        };
        let search = FullTextIndex::open(Arc::clone(&databases), folder.path(), options).expect("the index opens");
        let database = databases.database_open("mail/ann.nsf").expect("it exists");
        let access = database.authorize(&Arc::new(Identity::local_server(""))).expect("the server may read");
        let progress = search.update(&access, 1_000, &|| false).expect("an update");
        assert!(progress.complete && progress.damaged == 0);
        search.commit().expect("a commit");
        Self { file, search, _folder: folder }
    }

    fn check(&self, found: &[&str], not_found: &[&str]) {
        let access: Access<level::Reader> =
            self.file.database().authorize(&Arc::new(Identity::person("ann@acme.test"))).expect("the owner");
        let ask = |query: &str| {
            let query = Query::parse(query).expect("a query");
            self.search.query(&access, &query, PageRequest::default(), &|| false).expect("an answer").total
        };
        found.iter().for_each(|query| assert_eq!(ask(query), 1, "{query}"));
        not_found.iter().for_each(|query| assert_eq!(ask(query), 0, "{query}"));
    }
}

#[test]
fn headers_and_text_are_indexed() {
    let world = World::with(
        "From: Bob Builder <bob@acme.test>\nTo: ann@acme.test\nCc: Carl <carl@other.test>\nSubject: =?utf-8?q?M=C3=BCller?=\n\
         Content-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: quoted-printable\n\nThe caf=E9 is open.\n",
    );
    world.check(
        &[
            "muller",
            "subject:muller",
            "from:bob",
            "from:\"bob@acme.test\"",
            "to:ann",
            "cc:carl",
            "cafe",
            "body:\"cafe is\"",
        ],
        &["to:bob", "subject:cafe", "quoted", "iso"],
    );
}

#[test]
fn parts_and_attachments_are_indexed() {
    let large = "filler ".repeat(2_000);
    let world = World::with(&format!(
        "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: multipart/alternative; boundary=c\n\n\
         --c\nContent-Type: text/plain\n\nplain words\n--c\nContent-Type: text/html\n\n<p>html <b>wor</b>ds<script>hidden</script>\n--c--\n\
         --b\nContent-Type: text/plain; name=\"notes.txt\"\nContent-Disposition: attachment; filename=\"notes.txt\"\n\nattached {large}end\n\
         --b\nContent-Type: image/png; name=\"cat.png\"\nContent-Transfer-Encoding: base64\n\nAAAA\n\
         --b\nContent-Type: application/octet-stream\nContent-Disposition: attachment; filename=\"page.html\"\n\
         Content-Transfer-Encoding: base64\n\nPGI+aW5uZXI8L2I+PHA+dGV4dA==\n\
         --b\nContent-Type: application/pdf\nContent-Transfer-Encoding: base64\n\nZXJlaHdlc2xl\n\
         --b\nContent-Type: application/octet-stream; name=\"x.PDF\"\n\noot ereht\n\
         --b\nContent-Type: message/rfc822\n\nSubject: forwarded\n\ninside\n--b--\n"
    ));
    world.check(
        &[
            "\"plain words\"",
            "\"html words\"",
            "attached end",
            "attachment:\"notes.txt\"",
            "file:cat",
            "\"inner text\"",
            "body:inside",
            "elsewhere",
            "\"there too\"",
        ],
        &["hidden", "body:attached", "aaaa", "ereht"],
    );
}
