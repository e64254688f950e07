//! Tests of the decoder: the arguments of every verb, all kinds of literals, refusals and limits. The result must not
//! depend on the portions in which the bytes arrive.

use base::memory::MemoryBudget;
use proptest::prelude::*;

use super::command::*;
use super::*;

fn logged_in() -> SyntaxMode {
    SyntaxMode { authenticated: true, utf8: false, charset_refused: false, append_bytes_max: 1 << 20 }
}

/// Creates the decoder of a client that has logged in.
fn new_decoder(memory: MemoryBudget) -> CommandDecoder {
    CommandDecoder::new(logged_in(), memory)
}

fn decode(mode: SyntaxMode, input: &[u8]) -> Vec<DecodeResult> {
    let whole = decode_all(mode, input, input.len().max(1));
    for piece_bytes in [1, 2, 13] {
        assert_eq!(decode_all(mode, input, piece_bytes), whole, "fed in pieces of {piece_bytes}");
    }
    whole
}

/// Decodes one command without waiting for continuation requests. The tag is added.
fn body_of(text: &str) -> CommandBody {
    let line = format!("a1 {text}\r\n");
    let mut all = decode(logged_in(), line.as_bytes());
    all.retain(|decoded| *decoded != DecodeResult::Continue);
    match all.pop() {
        Some(DecodeResult::Command(_, Command { tag, body })) if all.is_empty() => {
            assert_eq!(tag, "a1");
            body
        }
        other => panic!("{text}: {all:?} {other:?}"),
    }
}

#[track_caller]
fn check(text: &str, expected: CommandBody) {
    assert_eq!(body_of(text), expected, "{text}");
}

fn refused(tag: Option<&str>, error: SyntaxError) -> DecodeResult {
    DecodeResult::Refused(RefusedCommand { tag: tag.map(str::to_owned), error, requested_save: false })
}

#[track_caller]
fn check_refused(text: &str, expected: SyntaxError) {
    let line = format!("a1 {text}\r\n");
    assert_eq!(decode(logged_in(), line.as_bytes()), [refused(Some("a1"), expected)], "{text}");
}

fn inbox() -> MailboxName {
    MailboxName::new("INBOX")
}

fn numbers(ranges: &[(u32, u32)]) -> SequenceSet {
    let range = |&(first, last): &(u32, u32)| SequenceRange { first: Bound::Number(first), last: Bound::Number(last) };
    SequenceSet { ranges: ranges.iter().map(range).collect() }
}

fn messages(ranges: &[(u32, u32)]) -> MessageSet {
    MessageSet::Numbers(numbers(ranges))
}

fn star() -> MessageSet {
    let range = SequenceRange { first: Bound::Number(1), last: Bound::Last };
    MessageSet::Numbers(SequenceSet { ranges: vec![range] })
}

#[test]
fn verbs_without_arguments() {
    check("CAPABILITY", CommandBody::Capability);
    check("noop", CommandBody::Noop);
    check("Logout  ", CommandBody::Logout);
    check("STARTTLS", CommandBody::StartTls);
    check("IDLE", CommandBody::Idle);
    check("CHECK", CommandBody::Check);
    check("CLOSE", CommandBody::Close);
    check("UNSELECT", CommandBody::Unselect);
    check("EXPUNGE", CommandBody::Expunge(None));
    check("NAMESPACE", CommandBody::Namespace);
    check("GETJMAPACCESS", CommandBody::GetJmapAccess);
    check_refused("NOOP x", SyntaxError::Expected("the end of the command"));
    check_refused("FROB", SyntaxError::UnknownCommand);
    check_refused("UID NOOP", SyntaxError::UnknownCommand);
    check_refused("", SyntaxError::UnknownCommand);
}

#[test]
fn notify_verb() {
    let messages = Events { messages: true, ..Events::default() };
    let group = |filter, events: &Events| EventGroup { filter, events: events.clone() };
    let set = |status, groups| CommandBody::Notify(NotifyCommand::Set { status, groups });
    check("NOTIFY NONE", CommandBody::Notify(NotifyCommand::None));
    check("notify set (selected none)", set(false, vec![group(MailboxFilter::Selected, &Events::default())]));
    let attributes = vec![FetchAttribute::Uid, FetchAttribute::Flags];
    let fresh = Events { attributes, flags: true, ..messages.clone() };
    check(
        "NOTIFY SET STATUS (selected-delayed (MessageNew (UID FLAGS) MessageExpunge FlagChange)) (inboxes (MessageExpunge MessageNew))",
        set(true, vec![group(MailboxFilter::SelectedDelayed, &fresh), group(MailboxFilter::Inboxes, &messages)]),
    );
    let names = Events { names: true, subscriptions: true, ..Events::default() };
    let one = MailboxName::new("a");
    let two = MailboxName::new("b c");
    check(
        "NOTIFY SET (subtree a (MailboxName SubscriptionChange)) (mailboxes (a \"b c\") NONE) (subscribed NONE) (personal NONE)",
        set(
            false,
            vec![
                group(MailboxFilter::Subtree(vec![one.clone()]), &names),
                group(MailboxFilter::Mailboxes(vec![one, two]), &Events::default()),
                group(MailboxFilter::Subscribed, &Events::default()),
                group(MailboxFilter::Personal, &Events::default()),
            ],
        ),
    );
    check_refused("NOTIFY SET", SyntaxError::Expected("a space"));
    check_refused("NOTIFY SET STATUS", SyntaxError::Expected("a space"));
    check_refused("NOTIFY SET (frob NONE)", SyntaxError::Expected("which mailboxes"));
    check_refused("NOTIFY SET (personal (Frob))", SyntaxError::BadEvent);
    check_refused(
        "NOTIFY SET (personal ())",
        SyntaxError::Expected("a valid combination of events for these mailboxes"),
    );
    let many = " (inboxes NONE)".repeat(crate::limits::EVENT_GROUPS_MAX + 1);
    check_refused(&format!("NOTIFY SET{many}"), SyntaxError::Limit("event groups"));
}

#[test]
fn access_verbs() {
    let login = |user: &str, password: &str| CommandBody::Login { user: user.into(), password: password.into() };
    check("LOGIN alice secret", login("alice", "secret"));
    check("LOGIN \"a\\\"b\" \"x\\\\y\"", login("a\"b", "x\\y"));
    check("LOGIN {5+}\r\nalice {3}\r\na b", login("alice", "a b"));
    let authenticate = |initial: Option<&[u8]>| CommandBody::Authenticate {
        mechanism: "PLAIN".into(),
        initial: initial.map(<[u8]>::to_vec),
    };
    check("AUTHENTICATE plain", authenticate(None));
    check("AUTHENTICATE PLAIN =", authenticate(Some(b"=")));
    check("AUTHENTICATE PLAIN AGEAYg==", authenticate(Some(b"AGEAYg==")));
    check("ENABLE condstore IMAP4rev2", CommandBody::Enable(vec!["CONDSTORE".into(), "IMAP4REV2".into()]));
    check_refused("ENABLE", SyntaxError::Expected("a space"));
    check("ID NIL", CommandBody::Id(vec![]));
    check(
        "ID (\"name\" \"x\" version NIL)",
        CommandBody::Id(vec![("name".into(), Some("x".into())), ("version".into(), None)]),
    );
    check("COMPRESS DEFLATE", CommandBody::Compress("DEFLATE".into()));
}

#[test]
fn select_and_its_parameters() {
    let select = |mode, condstore, qresync| {
        CommandBody::Select(SelectCommand { mailbox: MailboxName::new("Work/2026"), mode, condstore, qresync })
    };
    check("SELECT Work/2026", select(SelectMode::ReadWrite, false, None));
    check("EXAMINE \"Work/2026\" (CONDSTORE)", select(SelectMode::ReadOnly, true, None));
    let mut qresync = Qresync { uid_validity: 67, modseq: 2005, known_uids: None, sequence_match: None };
    check("SELECT Work/2026 (QRESYNC (67 2005))", select(SelectMode::ReadWrite, false, Some(qresync.clone())));
    qresync.sequence_match = Some((numbers(&[(5, 5)]), numbers(&[(9, 9)])));
    check("SELECT Work/2026 (QRESYNC (67 2005 (5 9)))", select(SelectMode::ReadWrite, false, Some(qresync.clone())));
    qresync.known_uids = Some(numbers(&[(41, 41), (43, 211)]));
    check(
        "SELECT Work/2026 (CONDSTORE QRESYNC (67 2005 41,43:211 (5 9)))",
        select(SelectMode::ReadWrite, true, Some(qresync)),
    );
    check_refused("SELECT Work/2026 (FROB)", SyntaxError::Expected("CONDSTORE or QRESYNC"));
    check_refused("SELECT", SyntaxError::Expected("a space"));
}

#[test]
fn mailbox_verbs_and_names() {
    let create = |name: &str, special_use: &[SpecialUseAttribute]| CommandBody::Create {
        mailbox: MailboxName::new(name),
        special_use: special_use.to_vec(),
    };
    check("CREATE Entw&APw-rfe", create("Entw\u{fc}rfe", &[]));
    check("CREATE inbox/x", create("INBOX/x", &[]));
    check("CREATE s (USE (\\Sent \\drafts))", create("s", &[SpecialUseAttribute::Sent, SpecialUseAttribute::Drafts]));
    check_refused("CREATE s (USE (\\Frob))", SyntaxError::UnknownSpecialUse);
    check_refused("CREATE a&b", SyntaxError::MailboxName);
    check_refused(&format!("CREATE {}", "x".repeat(2_000)), SyntaxError::MailboxName);
    check("DELETE inBOX", CommandBody::Delete(inbox()));
    check("RENAME a ab]", CommandBody::Rename { from: MailboxName::new("a"), to: MailboxName::new("ab]") });
    check("SUBSCRIBE a", CommandBody::Subscribe(MailboxName::new("a")));
    check("UNSUBSCRIBE a", CommandBody::Unsubscribe(MailboxName::new("a")));
    check("LSUB \"\" %", CommandBody::Lsub { reference: MailboxName::new(""), pattern: Some("%".into()) });
    check("GETQUOTA \"\"", CommandBody::GetQuota(String::new()));
    check("GETQUOTAROOT INBOX", CommandBody::GetQuotaRoot(inbox()));
    let limits = vec![QuotaLimit { resource: "STORAGE".into(), limit: 512 }];
    check("SETQUOTA r (storage 512)", CommandBody::SetQuota { root: "r".into(), limits });
}

#[test]
fn mailbox_names_are_plain_utf8_in_utf8_mode() {
    let mode = SyntaxMode { utf8: true, ..logged_in() };
    let decoded = decode(mode, "a DELETE \"R&D \u{fc}\"\r\n".as_bytes());
    let Some(DecodeResult::Command(_, command)) = decoded.first() else { panic!("{decoded:?}") };
    assert_eq!(command.body, CommandBody::Delete(MailboxName::new("R&D \u{fc}")));
}

#[test]
fn list_in_all_its_forms() {
    let basic = |pattern: &str| ListCommand {
        selection: ListSelection::default(),
        reference: MailboxName::new(""),
        patterns: vec![pattern.into()],
        returns: ListReturns::default(),
        extended: false,
    };
    check("LIST \"\" *", CommandBody::List(basic("*")));
    check("LIST \"\" \"\"", CommandBody::List(basic("")));
    check("LIST \"\" Entw&APw-%", CommandBody::List(basic("Entw\u{fc}%")));
    let mut list = ListCommand { extended: true, ..basic("*") };
    list.selection.subscribed = true;
    list.selection.recursive_match = true;
    list.patterns = vec!["INBOX".into(), "a%".into()];
    list.returns = ListReturns {
        subscribed: false,
        children: true,
        special_use: true,
        status: Some(vec![StatusItem::Messages, StatusItem::Size]),
    };
    check(
        "LIST (SUBSCRIBED RECURSIVEMATCH) \"\" (INBOX a%) RETURN (CHILDREN STATUS (MESSAGES SIZE) SPECIAL-USE)",
        CommandBody::List(list),
    );
    check_refused(
        "LIST (RECURSIVEMATCH) \"\" *",
        SyntaxError::Expected("SUBSCRIBED or SPECIAL-USE with RECURSIVEMATCH"),
    );
    check_refused("LIST (FROB) \"\" *", SyntaxError::Expected("a selection option"));
    check(
        "STATUS INBOX (HIGHESTMODSEQ RECENT)",
        CommandBody::Status { mailbox: inbox(), items: vec![StatusItem::HighestModSeq, StatusItem::Recent] },
    );
    check_refused("STATUS INBOX ()", SyntaxError::Expected("a status item"));
}

#[test]
fn fetch_attributes() {
    use FetchAttribute as A;
    let fetch = |attributes: Vec<A>| {
        CommandBody::Fetch(FetchCommand {
            numbering: Numbering::Sequence,
            set: star(),
            attributes,
            changed_since: None,
            vanished: false,
        })
    };
    let section = |part: &[u32], text| SectionSpec { part: PartPath(part.to_vec()), text };
    let peeked = |section, partial| A::BodySection { section, partial, peek: true };
    check("FETCH 1:* FAST", fetch(vec![A::Flags, A::InternalDate, A::Rfc822Size]));
    check("FETCH 1:* ALL", fetch(vec![A::Flags, A::InternalDate, A::Rfc822Size, A::Envelope]));
    check("FETCH 1:* FULL", fetch(vec![A::Flags, A::InternalDate, A::Rfc822Size, A::Envelope, A::Body]));
    check("FETCH 1:* rfc822.text", fetch(vec![A::Rfc822Text]));
    check(
        "FETCH 1:* (UID MODSEQ BODY BODYSTRUCTURE EMAILID THREADID SAVEDATE PREVIEW)",
        fetch(vec![
            A::Uid,
            A::ModSeq,
            A::Body,
            A::BodyStructure,
            A::EmailId,
            A::ThreadId,
            A::SaveDate,
            A::Preview { lazy: false },
        ]),
    );
    check("FETCH 1:* (PREVIEW (LAZY) UID)", fetch(vec![A::Preview { lazy: true }, A::Uid]));
    check("FETCH 1:* (PREVIEW UID)", fetch(vec![A::Preview { lazy: false }, A::Uid]));
    check(
        "FETCH 1:* BODY[]<0.100>",
        fetch(vec![A::BodySection {
            section: section(&[], SectionText::Whole),
            partial: Some(Partial { start: 0, length: 100 }),
            peek: false,
        }]),
    );
    check("FETCH 1:* BODY.PEEK[1.2.MIME]", fetch(vec![peeked(section(&[1, 2], SectionText::Mime), None)]));
    check("FETCH 1:* BODY.PEEK[3]", fetch(vec![peeked(section(&[3], SectionText::Whole), None)]));
    check("FETCH 1:* BODY.PEEK[2.TEXT]", fetch(vec![peeked(section(&[2], SectionText::Text), None)]));
    let names = SectionText::HeaderFields(vec!["From".into(), "X-[y]".into()]);
    check("FETCH 1:* BODY.PEEK[HEADER.FIELDS (From \"X-[y]\")]", fetch(vec![peeked(section(&[], names), None)]));
    let names = SectionText::HeaderFieldsNot(vec!["a".into()]);
    check("FETCH 1:* (BODY.PEEK[1.HEADER.FIELDS.NOT (a)])", fetch(vec![peeked(section(&[1], names), None)]));
    let part = PartPath(vec![1]);
    check("FETCH 1:* BINARY.PEEK[1]", fetch(vec![A::Binary { part: part.clone(), partial: None, peek: true }]));
    check("FETCH 1:* BINARY.SIZE[1]", fetch(vec![A::BinarySize(part)]));
    for bad in
        ["BODY[MIME]", "BODY[1.]", "BODY[0]", "BODY[", "BODY[]<1>", "BODY[]<1.0>", "()", "FLAGS UID", "BINARY[1.TEXT]"]
    {
        let decoded = decode(logged_in(), format!("a1 FETCH 1 {bad}\r\n").as_bytes());
        assert!(matches!(decoded.as_slice(), [DecodeResult::Refused(_)]), "{bad}: {decoded:?}");
    }
}

#[test]
fn fetch_modifiers() {
    check(
        "UID FETCH $ FLAGS (CHANGEDSINCE 12 VANISHED)",
        CommandBody::Fetch(FetchCommand {
            numbering: Numbering::Uid,
            set: MessageSet::Saved,
            attributes: vec![FetchAttribute::Flags],
            changed_since: Some(12),
            vanished: true,
        }),
    );
    check_refused(
        "FETCH 1 FLAGS (CHANGEDSINCE 12 VANISHED)",
        SyntaxError::Expected("UID FETCH with CHANGEDSINCE around VANISHED"),
    );
}

#[test]
fn store_in_all_its_forms() {
    let store = |numbering, action, silent, flags, unchanged_since| {
        CommandBody::Store(StoreCommand {
            numbering,
            set: messages(&[(1, 1), (3, 5)]),
            action,
            silent,
            flags,
            unchanged_since,
        })
    };
    let seen = || RequestedFlags { system: SystemFlags::SEEN, keywords: vec!["$Junk".into()] };
    use Numbering::{Sequence, Uid};
    check("STORE 1,3:5 +FLAGS (\\Seen $Junk $junk)", store(Sequence, StoreAction::Add, false, seen(), None));
    check("UID STORE 1,3:5 -flags.silent \\seen $Junk", store(Uid, StoreAction::Remove, true, seen(), None));
    check(
        "STORE 1,3:5 (UNCHANGEDSINCE 9) FLAGS ()",
        store(Sequence, StoreAction::Replace, false, RequestedFlags::default(), Some(9)),
    );
    check_refused("STORE 1 +FLAGS (\\Frob)", SyntaxError::Expected("a known system flag"));
    check_refused("STORE 0 +FLAGS (x)", SyntaxError::Expected("a number greater than zero"));
    check_refused("STORE 4294967296 +FLAGS (x)", SyntaxError::Expected("a number below 2^32"));
}

#[test]
fn transfer_expunge_and_replace() {
    let transfer =
        |numbering| TransferCommand { numbering, set: messages(&[(2, 4)]), mailbox: MailboxName::new("a b") };
    check("COPY 2:4 \"a b\"", CommandBody::Copy(transfer(Numbering::Sequence)));
    check("UID MOVE 2:4 \"a b\"", CommandBody::Move(transfer(Numbering::Uid)));
    check("UID EXPUNGE 7", CommandBody::Expunge(Some(messages(&[(7, 7)]))));
    let message = AppendMessage {
        flags: RequestedFlags { system: SystemFlags::DRAFT, keywords: vec![] },
        received_seconds: None,
        raw: b"x\r\n\0".to_vec(),
    };
    check(
        "UID REPLACE 7 INBOX (\\Draft) ~{4}\r\nx\r\n\0",
        CommandBody::Replace(ReplaceCommand {
            numbering: Numbering::Uid,
            target: Bound::Number(7),
            mailbox: inbox(),
            message,
        }),
    );
}

#[test]
fn append_accepts_several_messages() {
    let large = "y".repeat(10_000);
    let text = format!(
        "APPEND INBOX (\\Seen) \" 7-Feb-1994 21:52:25 -0800\" {{3}}\r\nabc {{10000+}}\r\n{large} UTF8 (~{{2}}\r\n\u{fc})"
    );
    let message = |flags, received_seconds, raw: &[u8]| AppendMessage { flags, received_seconds, raw: raw.to_vec() };
    let seen = RequestedFlags { system: SystemFlags::SEEN, keywords: vec![] };
    check(
        &text,
        CommandBody::Append {
            mailbox: inbox(),
            messages: vec![
                message(seen, Some(760_686_745), b"abc"),
                message(RequestedFlags::default(), None, large.as_bytes()),
                message(RequestedFlags::default(), None, "\u{fc}".as_bytes()),
            ],
        },
    );
    check_refused("APPEND INBOX \"31-Feb-2026 00:00:00 +0000\" {1+}\r\nx", SyntaxError::Expected("a date and time"));
    check_refused("APPEND INBOX text", SyntaxError::Expected("a literal"));
}

#[test]
fn search_keys() {
    let search = |key| CommandBody::Search(SearchCommand { numbering: Numbering::Sequence, returns: None, key });
    use SearchKey as K;
    let not = |key| K::Not(Box::new(key));
    check("SEARCH ALL", search(K::All));
    check(
        "SEARCH UNSEEN NEW",
        search(K::And(vec![
            not(K::System(SystemFlags::SEEN)),
            K::And(vec![K::Recent, not(K::System(SystemFlags::SEEN))]),
        ])),
    );
    check(
        "SEARCH 1:* UID 5 $",
        search(K::And(vec![K::Sequence(star()), K::Uid(messages(&[(5, 5)])), K::Sequence(MessageSet::Saved)])),
    );
    let date = Date::constant(2026, 2, 1);
    check("SEARCH SINCE 1-Feb-2026", search(K::Since(date)));
    check("SEARCH NOT SENTBEFORE \"1-feb-2026\"", search(not(K::SentBefore(date))));
    check(
        "SEARCH OR FROM smith (TO x SUBJECT \"a b\")",
        search(K::Or(
            Box::new(K::Address(AddressField::From, "smith".into())),
            Box::new(K::And(vec![K::Address(AddressField::To, "x".into()), K::Subject("a b".into())])),
        )),
    );
    check(
        "SEARCH HEADER List-Id \"\" UNKEYWORD $x",
        search(K::And(vec![K::Header { name: "List-Id".into(), value: String::new() }, not(K::Keyword("$x".into()))])),
    );
    check(
        "SEARCH MODSEQ \"/flags/\\\\draft\" all 620 LARGER 5000000000",
        search(K::And(vec![K::ModSeq(620), K::Larger(5_000_000_000)])),
    );
    check(
        "SEARCH YOUNGER 3600 SAVEDATESUPPORTED EMAILID M1",
        search(K::And(vec![K::Younger(3_600), K::SaveDateSupported, K::EmailId("M1".into())])),
    );
    for bad in ["", "FROB", "OR ALL", "NOT", "()", "SINCE 31-Feb-2026", "OLDER 0", "(ALL", "CHARSET UTF-8"] {
        let decoded = decode(logged_in(), format!("a1 SEARCH {bad}\r\n").as_bytes());
        assert!(matches!(decoded.as_slice(), [DecodeResult::Refused(_)]), "{bad}: {decoded:?}");
    }
}

#[test]
fn search_texts_are_decoded_with_their_charset() {
    let subject_of = |input: &[u8]| match decode(logged_in(), input).pop() {
        Some(DecodeResult::Command(_, Command { body: CommandBody::Search(search), .. })) => search.key,
        other => panic!("{other:?}"),
    };
    let subject = SearchKey::Subject("\u{fc}".into());
    assert_eq!(subject_of(b"a SEARCH CHARSET ISO-8859-1 SUBJECT {1+}\r\n\xfc\r\n"), subject);
    assert_eq!(subject_of(b"a SEARCH CHARSET UTF-8 SUBJECT {2}\r\n\xc3\xbc\r\n"), subject);
    assert_eq!(subject_of(b"a SEARCH SUBJECT \"\xc3\xbc\"\r\n"), subject);
    check_refused("SEARCH CHARSET X-KLINGON ALL", SyntaxError::BadCharset);
}

#[test]
fn search_returns_sort_and_thread() {
    let returns = SearchReturns { min: true, save: true, ..SearchReturns::default() };
    check(
        "UID SEARCH RETURN (MIN SAVE) ALL",
        CommandBody::Search(SearchCommand { numbering: Numbering::Uid, returns: Some(returns), key: SearchKey::All }),
    );
    let criteria = vec![
        SortCriterion { key: SortKey::Subject, reverse: false },
        SortCriterion { key: SortKey::DisplayFrom, reverse: true },
    ];
    check(
        "SORT RETURN () (SUBJECT REVERSE DISPLAYFROM) UTF-8 ALL",
        CommandBody::Sort(SortCommand {
            numbering: Numbering::Sequence,
            returns: Some(SearchReturns { all: true, ..SearchReturns::default() }),
            criteria,
            key: SearchKey::All,
        }),
    );
    check(
        "UID THREAD REFERENCES US-ASCII DELETED",
        CommandBody::Thread(ThreadCommand {
            numbering: Numbering::Uid,
            algorithm: ThreadAlgorithm::References,
            key: SearchKey::System(SystemFlags::DELETED),
        }),
    );
    check_refused("SORT () UTF-8 ALL", SyntaxError::Expected("a sort criterion"));
    check_refused("THREAD FROB UTF-8 ALL", SyntaxError::Expected("ORDEREDSUBJECT or REFERENCES"));
}

#[test]
fn commands_beyond_the_limits_are_refused() {
    check_refused(&format!("SEARCH {}ALL", "NOT ".repeat(40)), SyntaxError::Limit("search keys"));
    check_refused(&format!("SEARCH {}ALL", "(".repeat(40)), SyntaxError::Limit("search keys"));
    check_refused(&format!("SEARCH{}", " ALL".repeat(1_100)), SyntaxError::Limit("search keys"));
    check_refused(&format!("FETCH 1{} FLAGS", ",2".repeat(20_000)), SyntaxError::Limit("ranges"));
    check_refused(&format!("FETCH 1 ({}UID)", "UID ".repeat(200)), SyntaxError::Limit("attributes"));
    check_refused(&format!("LOGIN a {}", "x".repeat(70_000)), SyntaxError::LineTooLong);
    check_refused(&format!("LOGIN a {} {{5+}}\r\nabcde", "x".repeat(70_000)), SyntaxError::LineTooLong);
}

#[test]
fn oversize_literal_is_refused_before_it_is_sent() {
    check_refused("LOGIN a {70000}", SyntaxError::LiteralTooBig);
    check_refused("APPEND INBOX {2000000}", SyntaxError::LiteralTooBig);
    check_refused("APPEND INBOX {99999999999999999999}", SyntaxError::LiteralTooBig);
}

#[test]
fn oversize_non_synchronizing_literal_is_skipped() {
    let skipped = "z".repeat(1 << 21);
    let input = format!("a APPEND INBOX {{{}+}}\r\n{skipped} {{5+}}\r\nabcde\r\nb NOOP\r\n", skipped.len());
    let decoded = decode_all(logged_in(), input.as_bytes(), 4_099);
    assert_eq!(decoded[0], refused(Some("a"), SyntaxError::LiteralTooBig));
    assert!(matches!(&decoded[1], DecodeResult::Command(verb, _) if verb.name == "NOOP"));
    let before_login = SyntaxMode { authenticated: false, ..logged_in() };
    assert_eq!(decode(before_login, b"a LOGIN {9999+}\r\n"), [DecodeResult::Fatal(SyntaxError::LiteralTooBig)]);
}

#[test]
fn large_literal_is_read_into_its_own_buffer() {
    let mut decoder = new_decoder(MemoryBudget::unlimited());
    decoder.feed(b"a APPEND INBOX {6000}\r\n");
    assert_eq!(decoder.decode(), DecodeResult::Continue);
    let (buffer, missing) = decoder.literal_buffer().expect("the literal is large");
    assert_eq!(missing, 6_000);
    buffer.extend_from_slice(&[b'x'; 6_000]);
    assert_eq!(decoder.decode(), DecodeResult::Incomplete);
    decoder.feed(b"\r\n");
    let DecodeResult::Command(_, Command { body: CommandBody::Append { messages, .. }, .. }) = decoder.decode() else {
        panic!("APPEND was complete")
    };
    assert_eq!(messages[0].raw.len(), 6_000);
    assert!(decoder.is_empty());
}

/// Feeds bytes in pieces, and returns the results.
fn feed(decoder: &mut CommandDecoder, input: &[u8]) -> Vec<DecodeResult> {
    let mut all = Vec::new();
    for piece in input.chunks(1_000) {
        decoder.feed(piece);
        loop {
            match decoder.decode() {
                DecodeResult::Incomplete => break,
                decoded => all.push(decoded),
            }
        }
    }
    all
}

fn is_noop(decoded: &DecodeResult) -> bool {
    matches!(decoded, DecodeResult::Command(verb, _) if verb.name == "NOOP")
}

#[test]
fn announced_literal_takes_memory_until_its_command_was_executed() {
    let budget = MemoryBudget::new(100_000);
    let mut decoder = new_decoder(budget.clone());
    decoder.feed(b"a APPEND INBOX {60000}\r\n");
    assert_eq!(decoder.decode(), DecodeResult::Continue);
    let left = budget.available_bytes();
    assert!((40_000..45_000).contains(&left), "{left}");
    assert!(feed(&mut decoder, &[b'x'; 60_000]).is_empty());
    decoder.feed(b" {30000}\r\n");
    assert_eq!(decoder.decode(), DecodeResult::Continue);
    assert!(budget.available_bytes() < 15_000);
    assert!(feed(&mut decoder, &[b'y'; 30_000]).is_empty());
    decoder.feed(b"\r\nb NOOP\r\n");
    let DecodeResult::Command(_, Command { body: CommandBody::Append { messages, .. }, .. }) = decoder.decode() else {
        panic!("APPEND was complete")
    };
    assert_eq!(messages.iter().map(|message| message.raw.capacity()).collect::<Vec<_>>(), [60_000, 30_000]);
    assert!(budget.available_bytes() < 15_000, "the command is executed now");
    assert!(is_noop(&decoder.decode()));
    assert_eq!(budget.available_bytes(), 100_000);
}

#[test]
fn literal_without_memory_is_refused_or_skipped() {
    let budget = MemoryBudget::new(50_000);
    let mut decoder = new_decoder(budget.clone());
    let no_memory = refused(Some("a"), SyntaxError::NoMemory);
    let all = feed(&mut decoder, b"a APPEND INBOX {60000}\r\nb NOOP\r\n");
    assert_eq!(&all[..1], std::slice::from_ref(&no_memory), "before the client sends it");
    assert!(is_noop(&all[1]));
    let literal = "z".repeat(60_000);
    let all = feed(&mut decoder, format!("a APPEND INBOX {{60000+}}\r\n{literal}\r\nb NOOP\r\n").as_bytes());
    assert_eq!(&all[..1], std::slice::from_ref(&no_memory));
    assert!(is_noop(&all[1]));
    let second = format!("a APPEND INBOX {{10000+}}\r\n{} {{60000+}}\r\n{literal}\r\nb NOOP\r\n", &literal[..10_000]);
    let all = feed(&mut decoder, second.as_bytes());
    assert_eq!(all[..1], [no_memory]);
    assert!(is_noop(&all[1]));
    assert_eq!(budget.available_bytes(), 50_000);
    let small = format!("a APPEND INBOX {{40000+}}\r\n{}\r\n", &literal[..40_000]);
    assert!(matches!(feed(&mut decoder, small.as_bytes())[..], [DecodeResult::Command(..)]));
}

#[test]
fn long_line_takes_memory_as_it_arrives() {
    let budget = MemoryBudget::new(2_000);
    let mut decoder = new_decoder(budget.clone());
    let line = |length: usize| format!("a LOGIN a {}", "x".repeat(length));
    assert!(feed(&mut decoder, line(4_000).as_bytes()).is_empty());
    assert_eq!(budget.available_bytes(), 2_000, "ordinary lines are not counted");
    assert!(feed(&mut decoder, &[b'x'; 1_000]).is_empty());
    assert!(budget.available_bytes() < 2_000);
    assert!(matches!(feed(&mut decoder, b"\r\n")[..], [DecodeResult::Command(..)]));
    let all = feed(&mut decoder, format!("{}\r\nb NOOP\r\n", line(20_000)).as_bytes());
    assert_eq!(all[..1], [refused(Some("a"), SyntaxError::NoMemory)]);
    assert!(is_noop(&all[1]));
    assert_eq!(budget.available_bytes(), 2_000);
}

#[test]
fn small_literals_are_counted_together() {
    let budget = MemoryBudget::new(50_000);
    let mut decoder = new_decoder(budget.clone());
    let literal = format!(" {{4000+}}\r\n{}", "z".repeat(4_000));
    let append = |count: usize| format!("a APPEND INBOX{}\r\n", literal.repeat(count));
    assert!(matches!(feed(&mut decoder, append(12).as_bytes())[..], [DecodeResult::Command(..)]));
    assert_eq!(feed(&mut decoder, append(20).as_bytes()), [refused(Some("a"), SyntaxError::NoMemory)]);
}

#[test]
fn lines_without_a_tag_are_answered_untagged() {
    for (line, expected) in [(&b"\r\n"[..], None), (b" NOOP\r\n", None), (b"+ NOOP\r\n", None), (b"*\r\n", None)] {
        assert_eq!(decode(logged_in(), line), [refused(expected, SyntaxError::NoTag)]);
    }
    assert_eq!(decode(logged_in(), b"abc\n"), [refused(Some("abc"), SyntaxError::Expected("a space after the tag"))]);
}

#[test]
fn continuation_lines_are_returned_undecoded() {
    let mut decoder = new_decoder(MemoryBudget::unlimited());
    decoder.feed(b"DONE\r\na NOOP\r\n");
    assert_eq!(decoder.decode_line(), Some(Ok(b"DONE".to_vec())));
    assert!(matches!(decoder.decode(), DecodeResult::Command(..)));
    assert_eq!(decoder.decode_line(), None);
    decoder.feed(&vec![b'x'; 20_000]);
    assert_eq!(decoder.decode_line(), Some(Err(SyntaxError::LineTooLong)));
    decoder.feed(b"\r\n");
    assert_eq!(decoder.decode_line(), Some(Err(SyntaxError::LineTooLong)));
    let longest = vec![b'x'; crate::limits::CONTINUATION_BYTES_MAX];
    let mut decoder = new_decoder(MemoryBudget::unlimited());
    decoder.feed(&longest);
    decoder.feed(b"\r");
    assert_eq!(decoder.decode_line(), None);
    decoder.feed(b"\n");
    assert_eq!(decoder.decode_line(), Some(Ok(longest)));
}

/// Generates pieces of commands. A random sequence of them is a more or less sensible input.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let fixed: Vec<&'static [u8]> = vec![
        b"a1 ",
        b"FETCH ",
        b"UID ",
        b"1:*",
        b"$",
        b" (",
        b")",
        b"BODY[",
        b"HEADER.FIELDS (x)]",
        b"<0.5>",
        b"\r\n",
        b"\n",
        b"{3}\r\n",
        b"{2+}\r\n",
        b"abc",
        b"{9999+}\r\n",
        b"SEARCH ",
        b"OR ",
        b"NOT ",
        b"APPEND INBOX ",
        b"\"",
        b"\\",
        b" ",
        b"LIST \"\" ",
        b"SELECT x (QRESYNC (1 2 3:4 (1 2)))",
        b"STORE 1 +FLAGS (\\Seen",
        b"~{1}\r\n",
        b"\0",
        b"&AP-",
        b"LOGIN ",
    ];
    prop_oneof![
        8 => prop::sample::select(fixed).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ]
}

proptest! {
    #[test]
    fn commands_decode_alike_in_pieces_of_any_size(fragments in prop::collection::vec(fragment(), 0..40)) {
        fuzz(&fragments.concat());
    }

    #[test]
    fn any_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzz(&bytes);
    }
}
