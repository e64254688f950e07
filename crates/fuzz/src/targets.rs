//! The table of fuzz targets.

use std::path::Path;

use crate::{records, replication};

/// An entry point that accepts any bytes.
pub struct Target {
    /// Name of the target and of the folder with its seeds.
    pub name: &'static str,
    /// Function to run on an input. It panics if an invariant is violated.
    pub run: fn(&[u8]),
    /// Words of the target's language that a mutation may insert anywhere.
    pub words: &'static [&'static str],
}

const IMAP_WORDS: &[&str] = &[
    "a1 ",
    "\r\n",
    "{3}\r\n",
    "{3+}\r\n",
    "~{3+}\r\n",
    "{99999999999}",
    "(",
    ")",
    "\"",
    "\\",
    "*",
    "%",
    "1:*",
    "$",
    "UID ",
    "FETCH ",
    "BODY.PEEK[",
    "]<0.5>",
    "HEADER.FIELDS ",
    "SEARCH ",
    "OR ",
    "NOT ",
    "RETURN (",
    "CHARSET UTF-8 ",
    "LOGIN ",
    "AUTHENTICATE PLAIN ",
    "APPEND ",
    "IDLE\r\nDONE\r\n",
    "&AOk-",
    "NIL",
    "(UNCHANGEDSINCE 5) ",
    "4294967295",
    "18446744073709551616",
    "\0",
    "\u{fffd}",
];
const SMTP_WORDS: &[&str] = &[
    "\r\n",
    "\r\n.\r\n",
    "\n.\n",
    "\r.\r",
    "\r\n..",
    "EHLO x\r\n",
    "MAIL FROM:<",
    "RCPT TO:<",
    ">",
    "@",
    "DATA\r\n",
    "BDAT 5 LAST\r\n",
    "BDAT 99999999999\r\n",
    "SIZE=",
    "BODY=8BITMIME",
    "SMTPUTF8",
    "RET=FULL",
    "NOTIFY=NEVER",
    "ORCPT=rfc822;",
    "AUTH PLAIN ",
    "AUTH SCRAM-SHA-256 ",
    "=",
    "*\r\n",
    "STARTTLS\r\n",
    "RSET\r\n",
    "250-",
    "250 ",
    "5.1.1 ",
    "[127.0.0.1]",
    "\"a b\"",
    "\0",
];
const JMAP_WORDS: &[&str] = &[
    "\"using\":[",
    "\"methodCalls\":[",
    "\"createdIds\":{",
    "[\"Core/echo\",{",
    "},\"a\"]",
    "\"#ids\":{\"resultOf\":\"a\",\"name\":\"Core/echo\",\"path\":\"/list/*/id\"}",
    "\"keywords/$seen\":true",
    "\"mailboxIds/~1\":null",
    "\\u0061",
    "\\ud800",
    "null",
    "{",
    "}",
    "[",
    "]",
];

const MIME_WORDS: &[&str] = &[
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    "--b\r\n",
    "--b--\r\n",
    "Content-Type: ",
    "multipart/mixed; boundary=b",
    "message/rfc822",
    "text/html; charset=",
    "Content-Transfer-Encoding: base64\r\n",
    "quoted-printable",
    "=?utf-8?B?",
    "=?utf-8?Q?",
    "?=",
    "=\r\n",
    "=E4",
    "filename*0*=utf-8''",
    "filename*1=",
    ";",
    "\"",
    "\\",
    "(",
    ")",
    "<",
    ">",
    ",",
    ":",
    "Subject: ",
    "Date: Tue, 31 Feb 2024 25:61:61 +9999\r\n",
    "begin 644 x\r\n",
    "\0",
    "\u{e4}",
];
const RECORD_WORDS: &[&str] = &["\0", "\u{1}", "\u{7f}", "$Name", "CN=x/O=y"];
const FORMULA_WORDS: &[&str] = &[
    "SELECT ",
    "FIELD a := ",
    "DEFAULT b := ",
    "x := ",
    "x",
    "; ",
    "(",
    ")",
    "[1]",
    "[1/1/2024 - 2/30/2024 10:00]",
    "[CN]",
    "\"",
    "{",
    "}",
    " *+ ",
    " : ",
    " = ",
    "!",
    "-",
    "1E300",
    "\"a\":\"b\"",
    "@If(",
    "@For(n := 1; n < 9; n := n + 1; ",
    "@Transform(",
    "@Sort(x; [CUSTOMSORT]; $A > $B)",
    "@Text(@Now; \"S3\")",
    "@Adjust(@Now; 1; 1; 1; 1; 1; 1)",
    "@Explode(",
    "@Matches(x; \"+{!a-z}|*\")",
    "@Middle(x; 3; \"e\")",
    "@Eval(x)",
    "@IfError(",
    "\0\n",
    "é",
];
const SEARCH_WORDS: &[&str] = &[
    " AND ",
    " OR ",
    " NOT ",
    " NEAR ",
    " NEAR/3 ",
    "FIELD ",
    " CONTAINS ",
    "[Subject]",
    "subject:",
    "date>=2024-01-31",
    "size<1e300",
    "=5",
    "\"",
    "\"~9",
    "(",
    ")",
    "*",
    "?",
    "|",
    "&",
    ",",
    "!",
    "-",
    "é",
    "e\u{301}",
    "東",
    "\0",
    "<w:t>",
    "PK\u{3}\u{4}",
    "word/document.xml",
];
const SASL_WORDS: &[&str] = &[
    "\n",
    "\0",
    "\u{1}",
    "\u{1}\u{1}",
    "*",
    "=",
    ",",
    "n,,",
    "y,,",
    "p=tls-exporter,,",
    "p=tls-server-end-point,,",
    "n,a=boss,",
    "n=ann",
    ",r=abc",
    ",r=abcx",
    "m=1",
    ",x=1",
    "c=biws",
    ",p=",
    "=2C",
    "=3D",
    "user=ann",
    "auth=Bearer t",
    "host=h",
    "port=25",
    "AGFubgBzZWNyZXQ=",
    "é",
];

const COUCHDB_WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "true",
    "-0.0",
    "1e400",
    "12345678901234567890",
    "\"\\ud800\"",
    "\"_id\":",
    "\"_rev\":\"1-0123456789abcdef0123456789abcdef\"",
    "\"_revisions\":{\"start\":2,\"ids\":[]}",
    "\"_attachments\":{\"a\":{\"data\":\"\"}}",
    "\"$type\":\"time\"",
    "\"$flags\":[\"summary\"]",
    "\"$value\":",
    "\"$items\":",
    "\"$REF\":",
    "\"$or\":[",
    "\"$not\":{",
    "\"$gte\":",
    "\"$elemMatch\":{",
    "%2F",
    "/db/_changes?since=",
    "17-01",
    "\0",
];

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "imap", run: imap::codec::fuzz, words: IMAP_WORDS },
    Target { name: "mime", run: mail::mime::check_arbitrary_bytes, words: MIME_WORDS },
    Target { name: "sasl", run: sasl::fuzz::exchange, words: SASL_WORDS },
    Target { name: "smtp_session", run: smtp::fuzz::session, words: SMTP_WORDS },
    Target { name: "smtp_data", run: smtp::fuzz::data, words: SMTP_WORDS },
    Target { name: "smtp_arguments", run: smtp::fuzz::arguments, words: SMTP_WORDS },
    Target { name: "smtp_message", run: smtp::fuzz::message, words: MIME_WORDS },
    Target { name: "smtp_reply", run: smtp::fuzz::reply, words: SMTP_WORDS },
    Target { name: "collection", run: collection::fuzz::decode, words: RECORD_WORDS },
    Target { name: "formula", run: formula::fuzz::compile_and_evaluate, words: FORMULA_WORDS },
    Target { name: "search", run: search::fuzz::read, words: SEARCH_WORDS },
    Target { name: "couchdb", run: couchdb::fuzz::read, words: COUCHDB_WORDS },
    Target { name: "jmap", run: jmap::fuzz::check_arbitrary_bytes, words: JMAP_WORDS },
    Target { name: "records", run: records::decode, words: RECORD_WORDS },
    Target { name: "replication", run: replication::decode, words: RECORD_WORDS },
];

/// Runs the target with the given name. This is the entry point for a coverage-guided fuzzer.
///
/// # Panics
///
/// Panics if the target does not exist, or if it finds a violated invariant.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("the caller names a target of the table");
    (target.run)(input);
}

/// Reads the seeds of a target, in the order of their names.
#[must_use]
pub fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target.name);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_seeds_and_accepts_them() {
        for target in TARGETS {
            assert!(!seeds(target).is_empty(), "{} has no seeds", target.name);
            for seed in seeds(target) {
                (target.run)(&seed);
            }
        }
    }
}
