"""Requests of IMAP: a grammar for each verb, within the limits of `crates/imap/src/limits.rs`.

Each request has a connection of its own, so that it does not depend on earlier ones. Requests that create or remove
anything work on mailboxes of their own, which are removed afterwards.
"""

import base64
import os

from . import contents
from .wire import GONE, Connection, Refused, TooSlow, names_in

NAME = "imap"
SOURCE = "crates/imap/src/codec/verb.rs"
LINE_BYTES, LITERALS_BYTES = 60_000, 250_000
# The capabilities whose extensions the generators use. A new one needs a generator, or an extension of one.
CAPABILITIES = (
    "IMAP4REV1 IMAP4REV2 LITERAL+ BINARY PREVIEW SAVEDATE OBJECTID CONDSTORE ESEARCH SEARCHRES WITHIN MULTIAPPEND UIDPLUS "
    "STATUS=SIZE IDLE LIST-EXTENDED LIST-STATUS SPECIAL-USE CHILDREN MOVE SASL-IR ID ENABLE QRESYNC UTF8=ACCEPT UNSELECT SORT "
    "SORT=DISPLAY ESORT THREAD=ORDEREDSUBJECT THREAD=REFERENCES REPLACE CREATE-SPECIAL-USE NAMESPACE NOTIFY QUOTA "
    "QUOTA=RES-STORAGE APPENDLIMIT COMPRESS=DEFLATE JMAPACCESS"
).split()
STATUS_ITEMS = "MESSAGES RECENT UIDNEXT UIDVALIDITY UNSEEN DELETED DELETED-STORAGE SIZE HIGHESTMODSEQ APPENDLIMIT MAILBOXID".split()
ATTRIBUTES = (
    "FLAGS",
    "UID",
    "ENVELOPE",
    "INTERNALDATE",
    "RFC822.SIZE",
    "BODYSTRUCTURE",
    "BODY",
    "MODSEQ",
    "EMAILID",
    "THREADID",
    "SAVEDATE",
    "PREVIEW",
    "PREVIEW (LAZY)",
    "RFC822",
    "RFC822.HEADER",
    "RFC822.TEXT",
    "ALL",
    "FULL",
)
SECTION_TEXTS = ("", "HEADER", "TEXT", "MIME")
SORT_KEYS = "ARRIVAL CC DATE DISPLAYFROM DISPLAYTO FROM SIZE SUBJECT TO".split()
FLAGS = "\\Seen \\Answered \\Flagged \\Deleted \\Draft".split()
KEYWORDS = 4_000
# More messages are expensive to prepare and take no longer jobs, because all commands change them in parts.
COPIED_MAX = 3_000


class Client(Connection):
    """A connection to IMAP."""

    def __init__(self, session, log_in=True):
        super().__init__(session, "imap")
        # The number of messages in the selected mailbox.
        self.exists = 0
        self.line()
        if log_in:
            self.must(b"LOGIN " + string(session.account.login) + b" " + string(session.account.password))

    def command(self, command):
        """Sends a command and returns its status with the text."""
        self.write(b"t " + command + b"\r\n")
        return self.status()

    def status(self):
        """Reads up to the end of a command. Literals are skipped."""
        while True:
            line = self.line()
            while line.endswith(b"}") and line.rpartition(b"{")[2][:-1].isdigit():
                self.skip(int(line.rpartition(b"{")[2][:-1]))
                line = self.line()
            if line.startswith(b"t "):
                return line[2:].decode(errors="replace")
            if line.endswith(b" EXISTS"):
                self.exists = int(line.split()[1])

    def select(self, name):
        """Selects a mailbox."""
        self.must(b"SELECT " + string(name))

    def must(self, command):
        """Sends a command that prepares a request."""
        self.session.note("prepared by", command)
        answer = self.command(command)
        if not answer.startswith("OK"):
            raise Refused(f"{command[:80]!r}: {answer}")

    def ask(self, command):
        """Sends the request itself."""
        self.session.measure(command, lambda: self.command(command), lambda answer: answer.startswith("OK"))


def string(text):
    """Returns a text as a quoted string or as a literal."""
    data = text if isinstance(text, bytes) else text.encode()
    if len(data) < 200 and data.isascii() and not set(data) & set(b'"\\\r\n\0'):
        return b'"' + data + b'"'
    return b"{%d+}\r\n" % len(data) + data


def mailbox(choices):
    """Returns the name of a mailbox with messages."""
    return choices.one("mailbox", ("Many", "Many", "Large", "Odd", "INBOX"))


def selected(session):
    """Logs in, with extensions or without, and selects a mailbox."""
    choices = session.choices
    client = Client(session)
    if choices.chance("QRESYNC", 30):
        client.must(b"ENABLE QRESYNC")
    client.select(mailbox(choices))
    return client


def numbered(client, verb, limit=LINE_BYTES):
    """Returns the beginning of a command with a set of messages, by their UIDs or by their sequence numbers."""
    if client.session.choices.chance("UID", 50):
        return b"UID " + verb + b" " + message_set(client.session.choices, limit)
    return verb + b" " + message_set(client.session.choices, limit, client.exists)


def by_uid(choices):
    """Returns the beginning of a command whose result has UIDs, or nothing."""
    return b"UID " if choices.chance("UID", 50) else b""


def message_set(choices, limit=LINE_BYTES, exists=None):
    """Returns a set of messages: all, one range, or up to 16,384 ranges. Sequence numbers are at most `exists`."""
    kind = choices.one("set", ("all", "range", "singles", "gaps", "repeated", "far", "reversed", "saved"))
    first = choices.size("first", exists or 20_000)
    count = choices.size("messages", 20_000, 0)
    within = lambda number: (number - 1) % exists + 1 if exists else number  # noqa: E731
    if kind == "saved":
        return b"$"
    if kind in ("all", "range"):
        return b"1:*" if kind == "all" else b"%d:%d" % (first, min(first + count, exists or 1 << 31))
    far = exists or 4_294_967_295
    form = {
        "singles": lambda number: b"%d" % within(first + number),
        "gaps": lambda number: b"%d:%d" % (within(first + 2 * number), within(first + 2 * number)),
        "repeated": lambda number: b"1:*",
        "far": lambda number: b"%d:%d" % (within(far - number), far),
        "reversed": lambda number: b"%d:%d" % (within(first + number + 9), within(first + number)),
    }[kind]
    return contents.many(choices.size("ranges", 16_384), form, b",", limit)


def flag_list(choices):
    """Returns a list of flags and keywords."""
    flags = choices.some("flag", FLAGS)
    first = choices.integer("keyword", 0, KEYWORDS)
    flags += [f"k{(first + number) % KEYWORDS}" for number in range(choices.size("keywords", 120, 0))]
    return f"({' '.join(flags)})".encode()


def part(choices):
    """Returns the number of a part of a message."""
    number = choices.one("part number", ("1", "2", "1", "9999"))
    return ".".join([number] * choices.size("part depth", 100, 0))


def attribute(choices):
    """Returns an attribute of FETCH."""
    kind = choices.one("attribute", ("plain", "section", "fields", "binary"))
    if kind == "plain":
        return choices.one("name", ATTRIBUTES)
    path = part(choices)
    partial = f"<{choices.size('start', 1 << 26, 0)}.{choices.size('length', 1 << 26)}>" if choices.chance("partial", 30) else ""
    if kind == "binary":
        name = choices.one("binary", ("BINARY.PEEK", "BINARY", "BINARY.SIZE"))
        return f"{name}[{path}]" + ("" if name == "BINARY.SIZE" else partial)
    if kind == "section":
        text = choices.one("section", SECTION_TEXTS if path else SECTION_TEXTS[:3])
        return f"BODY.PEEK[{'.'.join(filter(None, (path, text)))}]{partial}"
    name = choices.one("field", ("x", "References", "To", "Subject"))
    names = " ".join(f"{name}{number or ''}" for number in range(choices.size("fields", 250)))
    inside = ".".join(filter(None, (path, choices.one("fields or not", ("HEADER.FIELDS", "HEADER.FIELDS.NOT")))))
    return f"BODY.PEEK[{inside} ({names})]{partial}"


def attributes(choices):
    """Returns the attributes of FETCH: up to 128, of a few kinds."""
    kinds = [attribute(choices) for _ in range(choices.integer("kinds", 1, 3))]
    count = min(choices.size("attributes", 128), max(1, LINE_BYTES // 2 // max(map(len, kinds))))
    return " ".join(kinds[number % len(kinds)] for number in range(count)).encode()


def fetch(session):
    """FETCH."""
    choices = session.choices
    with selected(session) as client:
        command = numbered(client, b"FETCH", LINE_BYTES // 2) + b" (" + attributes(choices) + b")"
        if choices.chance("changed since", 20):
            command += b" (CHANGEDSINCE %d%s)" % (
                choices.size("modseq", 1 << 32),
                b" VANISHED" if command.startswith(b"UID") and choices.chance("vanished", 50) else b"",
            )
        client.ask(command)


def store(session):
    """STORE."""
    choices = session.choices
    with selected(session) as client:
        since = b" (UNCHANGEDSINCE %d)" % choices.size("modseq", 1 << 40) if choices.chance("unchanged since", 30) else b""
        action = choices.one("action", (b"+FLAGS", b"-FLAGS", b"FLAGS")) + choices.one("silent", (b"", b".SILENT"))
        client.ask(numbered(client, b"STORE", LINE_BYTES // 3) + since + b" " + action + b" " + flag_list(choices))


def search_key(choices, texts):
    """Returns a function from a number to a search key. The texts of one key have at most `texts` bytes."""
    kind = choices.one("key", ("text", "text", "header", "flag", "keyword", "date", "size", "set", "modseq", "or", "not", "nested", "id"))
    if kind in ("text", "header"):
        unit = contents.text(choices, "searched", min(texts, 60_000)) if choices.chance("long", 30) else contents.word(choices, "word")
        name = choices.one("searched in", ("BODY", "TEXT", "SUBJECT", "FROM", "TO", "CC", "BCC"))
        if kind == "header":
            name = f"HEADER {choices.one('field', ('X', 'References', 'Received', 'To', 'X77'))}"
        return lambda number: name.encode() + b" " + string(unit + (str(number) if number % 2 else ""))
    if kind == "set":
        numbers = message_set(choices, max(20, min(texts, 20_000)))
        name = choices.one("numbers", (b"", b"UID "))
        return lambda number: name + numbers
    if kind in ("or", "not", "nested"):
        inner = contents.word(choices, "inner")
        depth = choices.size("depth", 30)
        form = {"or": b"OR ALL ", "not": b"NOT ", "nested": b"("}[kind]
        return lambda number: form * depth + b"BODY " + string(f"{inner}{number}") + (b")" * depth if kind == "nested" else b"")
    form = {
        "flag": choices.one("flag key", ("UNSEEN", "NEW", "OLD", "RECENT", "DELETED", "UNDRAFT", "ALL", "SAVEDATESUPPORTED")),
        "keyword": "UNKEYWORD k{}",
        "size": choices.one("size key", ("LARGER {}", "SMALLER {}")),
        "date": choices.one("date key", ("BEFORE", "SENTON", "SENTSINCE", "SAVEDBEFORE", "ON")) + " 1-Jan-2024",
        "modseq": choices.one("modseq key", ("MODSEQ {}", "YOUNGER {}1", "OLDER {}1")),
        "id": choices.one("id key", ("EMAILID M{}", "THREADID T{}")),
    }[kind]
    return lambda number: form.format(number).encode()


def search_keys(choices):
    """Returns up to 1,024 search keys of a few kinds."""
    count = choices.size("keys", 1_000)
    kinds = [search_key(choices, LITERALS_BYTES // count) for _ in range(choices.integer("key kinds", 1, 3))]
    keys, left = [], LINE_BYTES
    for number in range(count):
        key = kinds[number % len(kinds)](number)
        left -= len(key) + 1
        if left < 0 and keys:
            break
        keys.append(key)
    return b" ".join(keys)


def returns(choices):
    """Returns the options of ESEARCH, or nothing."""
    return (
        b"RETURN (" + " ".join(choices.some("return", ("MIN", "MAX", "ALL", "COUNT", "SAVE"))).encode() + b") "
        if choices.chance("RETURN", 40)
        else b""
    )


def search(session):
    """SEARCH."""
    choices = session.choices
    with selected(session) as client:
        client.ask(
            by_uid(choices) + b"SEARCH " + returns(choices) + choices.one("charset", (b"", b"", b"CHARSET UTF-8 ")) + search_keys(choices)
        )


def sort(session):
    """SORT."""
    choices = session.choices
    with selected(session) as client:
        criteria = " ".join(
            choices.one("reverse", ("", "REVERSE ")) + choices.one("criterion", SORT_KEYS) for _ in range(choices.size("criteria", 16))
        )
        client.ask(
            by_uid(choices)
            + b"SORT "
            + returns(choices)
            + b"("
            + criteria.encode()
            + b") UTF-8 "
            + (b"ALL" if choices.chance("all", 50) else search_keys(choices))
        )


def thread(session):
    """THREAD."""
    choices = session.choices
    with selected(session) as client:
        algorithm = choices.one("algorithm", (b"REFERENCES", b"ORDEREDSUBJECT"))
        client.ask(by_uid(choices) + b"THREAD " + algorithm + b" UTF-8 " + (b"ALL" if choices.chance("all", 50) else search_keys(choices)))


def _select(verb):
    def select(session):
        choices = session.choices
        with Client(session) as client:
            name = mailbox(choices)
            parameter = choices.one("parameter", (b"", b" (CONDSTORE)", b"QRESYNC"))
            if parameter == b"QRESYNC":
                client.must(b"ENABLE QRESYNC")
                known = b" " + uids(choices, LINE_BYTES // 3) if choices.chance("known", 70) else b""
                count = choices.size("matches", 5_000)
                numbers = contents.many(count, lambda number: b"%d" % (number + 1), b",", LINE_BYTES // 4)
                parameter = b" (QRESYNC (%d %d%s%s))" % (
                    session.account.validity[name],
                    choices.size("modseq", 1 << 20),
                    known,
                    b" (" + numbers + b" " + numbers + b")" if choices.chance("match", 50) else b"",
                )
            client.ask(verb + b" " + string(name) + parameter)

    return select


def uids(choices, limit):
    """Returns a set of UIDs without `*` and `$`."""
    numbers = message_set(choices, limit)
    return b"1:20000" if numbers == b"$" else numbers.replace(b"*", b"20000")


def create(session):
    """CREATE."""
    choices = session.choices
    name = f"New{session.serial}" + folder_name(choices, 900)
    use = (
        b" (USE (%s))" % b" ".join([choices.one("use", (b"\\Archive", b"\\Junk", b"\\Sent"))] * choices.size("uses", 60))
        if choices.chance("USE", 20)
        else b""
    )
    with Client(session) as client:
        client.ask(b"CREATE " + string(name) + use)
    remove(session)


def folder_name(choices, most):
    """Returns the end of the name of a mailbox: long, or of many levels."""
    unit = choices.one("name unit", ("a", "ab", "/a", "&AOQ-", ".", " "))
    return contents.repeated(unit, choices.size("name", most, 0)).rstrip("/")


def remove(session):
    """Removes the mailboxes that a request has created."""
    session.patient()
    prefix = b"New%d" % session.serial
    try:
        with Client(session) as client:
            client.write(b't LIST "" {%d+}\r\n%s*\r\n' % (len(prefix) + 1, prefix))
            found = []
            while not (line := client.line()).startswith(b"t "):
                name = line
                if line.endswith(b"}"):
                    name = client.line()
                if line.startswith(b"* LIST"):
                    found.append(name.rpartition(b'"/" ')[2].strip(b'"'))
            for name in sorted(found, key=len, reverse=True):
                client.command(b"DELETE " + string(name))
    except (*GONE, TooSlow, Refused):
        pass


def filled(session, client, name):
    """Copies a chosen number of messages into a mailbox."""
    choices = session.choices
    source = choices.one("copied from", ("Many", "Many", "Many", "Large", "Odd"))
    client.select(source)
    count = choices.size("copied", min(session.account.counts[source], COPIED_MAX), 0)
    if count:
        client.must(b"COPY 1:%d " % count + string(name))


def with_tree(session, client, name):
    """Creates mailboxes below a mailbox."""
    choices = session.choices
    flat = choices.chance("flat", 50)
    for number in range(choices.size("subfolders", 200, 0)):
        client.must(b"CREATE " + string(f"{name}/{number}" if flat else f"{name}/{number % 7}/{number}"))
    filled(session, client, name)


def _with_own_mailbox(make, prepare=None):
    """Returns a generator whose request changes a mailbox of its own."""

    def generate(session):
        name = f"New{session.serial}"
        try:
            with Client(session) as client:
                client.must(b"CREATE " + string(name))
                if prepare:
                    prepare(session, client, name)
                make(session, client, name)
        finally:
            remove(session)

    return generate


def _expunge(session, client, name):
    choices = session.choices
    client.select(name)
    client.must(b"STORE " + choices.one("deleted", (b"1:*", b"1:*", b"*")) + b" +FLAGS.SILENT (\\Deleted)")
    client.ask(choices.one("form", (b"EXPUNGE", b"UID EXPUNGE " + uids(choices, LINE_BYTES))))


def _close(session, client, name):
    client.select(name)
    client.must(b"STORE 1:* +FLAGS.SILENT (\\Deleted)")
    client.ask(b"CLOSE")


def _move(session, client, name):
    other = name + "m"
    client.must(b"CREATE " + string(other))
    client.select(name)
    client.ask(numbered(client, b"MOVE") + b" " + string(other))


def _copy(session, client, name):
    client.select(mailbox(session.choices))
    client.ask(numbered(client, b"COPY") + b" " + string(name))


def _delete(_, client, name):
    client.must(b"UNSELECT")
    client.ask(b"DELETE " + string(name))


def _rename(session, client, name):
    choices = session.choices
    if choices.chance("inbox", 30):
        client.must(b"SELECT Many")
        client.must(b"COPY 1:%d INBOX" % choices.size("in the inbox", session.account.counts["Many"]))
        client.ask(b"RENAME INBOX " + string(f"{name}inbox"))
    else:
        client.ask(b"RENAME " + string(name) + b" " + string(name + "r" + folder_name(choices, 600)))


def _replace(session, client, name):
    choices = session.choices
    client.select(name)
    client.ask(
        by_uid(choices)
        + b"REPLACE "
        + choices.one("target", (b"*", b"1"))
        + b" "
        + string(name)
        + b" "
        + appended(session, session.account.message_bytes)
    )


def appended(session, most):
    """Returns a message of APPEND."""
    choices = session.choices
    raw = contents.message(choices, most)
    flags = flag_list(choices) + b" " if choices.chance("flags", 50) else b""
    date = b'" 1-Jan-2024 00:00:00 +0000" ' if choices.chance("date", 20) else b""
    return flags + date + b"{%d+}\r\n" % len(raw) + raw


def _append(session, client, name):
    choices = session.choices
    count = choices.size("messages appended", 1_000)
    most = session.account.message_bytes // count
    single = appended(session, choices.size("bytes appended", most))
    count = min(count, max(1, session.account.message_bytes // len(single)), max(1, LINE_BYTES // (len(single.partition(b"}")[0]) + 2)))
    client.ask(b"APPEND " + string(name) + b" " + b" ".join([single] * count))


def pattern(choices):
    """Returns a function from a number to a pattern of LIST."""
    unit = choices.one("pattern unit", ("*", "%", "*a", "%a", "*/", "%/*", "a", "*a%", "a*b", "New"))
    size = choices.size("pattern", 1_000, 0)
    end = choices.one("pattern end", ("", "*", "b{}", "{}", "/%"))
    return lambda number: string(contents.repeated(unit, size) + end.format(number))


def patterns(choices, most):
    """Returns patterns of a few kinds."""
    kinds = [pattern(choices) for _ in range(choices.integer("pattern kinds", 1, 3))]
    found, left = [], LITERALS_BYTES
    for number in range(choices.size("patterns", most)):
        found.append(kinds[number % len(kinds)](number))
        left -= len(found[-1])
        if left < 0:
            return found[:-1] or found
    return found


def status_items(choices):
    """Returns the items of STATUS."""
    return b"(" + " ".join(choices.one("status item", STATUS_ITEMS) for _ in range(choices.integer("status items", 1, 12))).encode() + b")"


def list_(session):
    """LIST."""
    choices = session.choices
    with Client(session) as client:
        options = choices.one(
            "selection",
            (
                b"",
                b"",
                b"(SUBSCRIBED) ",
                b"(SUBSCRIBED RECURSIVEMATCH) ",
                b"(SPECIAL-USE) ",
                b"(SUBSCRIBED REMOTE SPECIAL-USE RECURSIVEMATCH) ",
            ),
        )
        found = patterns(choices, 64)
        wanted = found[0] if len(found) == 1 else b"(" + b" ".join(found) + b")"
        back = choices.one("back", (b"", b" RETURN (CHILDREN SUBSCRIBED SPECIAL-USE)", b"STATUS"))
        if back == b"STATUS":
            back = b" RETURN (STATUS " + status_items(choices) + b")"
        client.ask(b"LIST " + options + string(choices.one("reference", ("", "", "Tree/", "a" * 180))) + b" " + wanted + back)


def lsub(session):
    """LSUB."""
    with Client(session) as client:
        client.ask(b'LSUB "" ' + patterns(session.choices, 1)[0])


def status(session):
    """STATUS."""
    with Client(session) as client:
        client.ask(b"STATUS " + string(mailbox(session.choices)) + b" " + status_items(session.choices))


def _subscription(verb):
    def change(session):
        choices = session.choices
        if choices.chance("known name", 50):
            name = f"s{choices.integer('subscribed', 0, 1_000)}"
        else:
            name = f"New{session.serial}" + folder_name(choices, 900)
        with Client(session) as client:
            client.ask(verb + b" " + string(name))
            session.patient()
            client.command(b"UNSUBSCRIBE " + string(name))

    return change


def notify(session):
    """NOTIFY."""
    choices = session.choices
    with selected(session) as client:
        groups = []
        for _ in range(choices.size("groups", 16)):
            kind = choices.one("filter", ("PERSONAL", "SUBSCRIBED", "INBOXES", "SUBTREE", "SUBTREE", "MAILBOXES", "MAILBOXES", "SELECTED"))
            events = "MessageNew MessageExpunge FlagChange MailboxName SubscriptionChange"
            if kind == "SELECTED":
                if any("SELECTED" in group for group in groups):
                    continue
                events = (
                    f"MessageNew ({attributes(choices).decode()[:2_000]}) MessageExpunge"
                    if choices.chance("with attributes", 30)
                    else "MessageNew MessageExpunge FlagChange"
                )
            names = ""
            if kind in ("SUBTREE", "MAILBOXES"):
                names = (
                    " ("
                    + " ".join(
                        f"\"{choices.one('watched', (FOLDER, FOLDER, 'Tree/', 's'))}{number}\""
                        for number in range(min(choices.size("watched mailboxes", 1_000), 250))
                    )
                    + ")"
                )
            groups.append(f"({kind}{names} ({events}))")
        command = f"NOTIFY SET {choices.one('STATUS', ('', 'STATUS '))}{' '.join(groups)}"
        client.ask(command.encode()[:LINE_BYTES])


FOLDER = "a" * 180


def login(session):
    """LOGIN."""
    choices = session.choices
    with Client(session, log_in=False) as client:
        user = session.account.login if choices.chance("known user", 50) else contents.text(choices, "user", 4_000) or "x"
        password = session.account.password if choices.chance("right password", 50) else contents.text(choices, "password", 4_000)
        client.ask(b"LOGIN " + string(user) + b" " + string(password))


def authenticate(session):
    """AUTHENTICATE."""
    choices = session.choices
    account = session.account
    with Client(session, log_in=False) as client:
        mechanism = choices.one("mechanism", ("PLAIN", "LOGIN", "SCRAM-SHA-256", "X"))
        response = (
            contents.secret("", account.login, account.password)
            if choices.chance("right password", 30)
            else base64.b64encode(contents.text(choices, "response", 9_000).encode())
        )
        initial = mechanism == "PLAIN" or choices.chance("initial", 50)

        def send():
            client.write(f"t AUTHENTICATE {mechanism}".encode() + (b" " + response if initial else b"") + b"\r\n")
            for _ in range(4):
                line = client.line()
                if not line.startswith(b"+"):
                    return line[2:].decode(errors="replace")
                client.write(response + b"\r\n")
            return client.status()

        session.measure(f"AUTHENTICATE {mechanism} ".encode() + response, send, lambda answer: answer.startswith("OK"))


def idle(session):
    """IDLE, ended at once."""
    with selected(session) as client:

        def send():
            client.write(b"t IDLE\r\n")
            while not (line := client.line()).startswith((b"+", b"t ")):
                pass
            if line.startswith(b"+"):
                client.write(b"DONE\r\n")
                return client.status()
            return line[2:].decode()

        session.measure(b"IDLE", send, lambda answer: answer.startswith("OK"))


def id_(session):
    """ID."""
    choices = session.choices
    with Client(session, log_in=choices.chance("logged in", 50)) as client:
        pairs = [
            b'"n%d" ' % number + string(contents.repeated("x", choices.size("value", 150, 0)))
            for number in range(choices.size("pairs", 30))
        ]
        client.ask(b"ID (" + b" ".join(pairs) + b")")


def enable(session):
    """ENABLE."""
    choices = session.choices
    with Client(session) as client:
        client.ask(
            (
                "ENABLE "
                + " ".join(
                    choices.one("extension", ("CONDSTORE", "QRESYNC", "UTF8=ACCEPT", "X")) for _ in range(choices.size("extensions", 64))
                )
            ).encode()
        )


def _quota(verb):
    def ask(session):
        choices = session.choices
        with Client(session) as client:
            name = string(
                choices.one("root", ("", "INBOX", "Many", "x"))
                if choices.chance("short root", 70)
                else contents.text(choices, "root", 1_000)
            )
            limits = (
                b" (" + b" ".join([b"STORAGE %d" % choices.size("limit", 1 << 40)] * choices.size("limits", 60)) + b")"
                if verb == b"SETQUOTA"
                else b""
            )
            client.ask(verb + b" " + name + limits)

    return ask


def _plain(verb, needs="login"):
    """Returns a generator of a verb without arguments."""

    def ask(session):
        with selected(session) if needs == "selected" else Client(session, log_in=needs == "login") as client:
            client.ask(verb)

    return ask


GENERATORS = {
    "FETCH": fetch,
    "STORE": store,
    "SEARCH": search,
    "SORT": sort,
    "THREAD": thread,
    "SELECT": _select(b"SELECT"),
    "EXAMINE": _select(b"EXAMINE"),
    "LIST": list_,
    "LSUB": lsub,
    "STATUS": status,
    "APPEND": _with_own_mailbox(_append),
    "REPLACE": _with_own_mailbox(_replace, filled),
    "COPY": _with_own_mailbox(_copy),
    "MOVE": _with_own_mailbox(_move, filled),
    "EXPUNGE": _with_own_mailbox(_expunge, filled),
    "CLOSE": _with_own_mailbox(_close, filled),
    "DELETE": _with_own_mailbox(_delete, filled),
    "RENAME": _with_own_mailbox(_rename, with_tree),
    "CREATE": create,
    "SUBSCRIBE": _subscription(b"SUBSCRIBE"),
    "UNSUBSCRIBE": _subscription(b"UNSUBSCRIBE"),
    "NOTIFY": notify,
    "LOGIN": login,
    "AUTHENTICATE": authenticate,
    "IDLE": idle,
    "ID": id_,
    "ENABLE": enable,
    "GETQUOTA": _quota(b"GETQUOTA"),
    "GETJMAPACCESS": _plain(b"GETJMAPACCESS"),
    "GETQUOTAROOT": _quota(b"GETQUOTAROOT"),
    "SETQUOTA": _quota(b"SETQUOTA"),
    "NOOP": _plain(b"NOOP", "selected"),
    "LOGOUT": _plain(b"LOGOUT"),
    "CAPABILITY": _plain(b"CAPABILITY", "nothing"),
    "UNSELECT": _plain(b"UNSELECT", "selected"),
    "CHECK": _plain(b"CHECK", "selected"),
    "NAMESPACE": _plain(b"NAMESPACE"),
    "STARTTLS": _plain(b"STARTTLS", "nothing"),
    "COMPRESS": _plain(b"COMPRESS DEFLATE"),
}


def verbs(root):
    """Returns the verbs of the server, from its source."""
    return names_in(os.path.join(root, SOURCE), r'^ +verb\("([A-Z]+)"')


def unknown_capabilities(session):
    """Returns the capabilities that the server announces and no generator uses."""
    with Client(session) as client:
        client.write(b"t CAPABILITY\r\n")
        words = client.line().decode().upper().split()[2:]
    return [
        word for word in words if word not in CAPABILITIES and word.partition("=")[0] not in CAPABILITIES and not word.startswith("AUTH=")
    ]
