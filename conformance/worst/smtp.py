"""Requests of SMTP, submission and LMTP: a grammar for each verb, within the limits of `crates/smtp/src/limits.rs`.

A request is one command, at the end of the commands that precede it in a session. That of DATA and BDAT is the message
with its end.
"""

import base64
import os

from . import contents
from .wire import Connection, Refused, names_in

NAME = "smtp"
SOURCE = "crates/smtp/src/cmd.rs"
LISTENERS = ("smtp", "submission", "lmtp")
LINE_BYTES = 1_900
# The number of commands that are sent without waiting for their replies.
PIPELINED = 200


class Client(Connection):
    """A connection to a listener that speaks SMTP."""

    def __init__(self, session, listener, greet=True):
        super().__init__(session, listener)
        self.reply()
        if greet:
            self.must(b"LHLO client.test" if listener == "lmtp" else b"EHLO client.test")
        if greet and listener == "submission":
            self.must(b"AUTH PLAIN " + contents.secret("", session.account.login, session.account.password))

    def reply(self):
        """Reads a reply and returns its last line."""
        while True:
            line = self.line()
            if line[3:4] != b"-":
                return line.decode(errors="replace")

    def command(self, command):
        """Sends a command and returns the last line of its reply."""
        self.write(command + b"\r\n")
        return self.reply()

    def must(self, command):
        """Sends a command that prepares a request."""
        self.session.note("prepared by", command)
        answer = self.command(command)
        if answer[:1] not in "23":
            raise Refused(f"{command[:80]!r}: {answer}")

    def ask(self, command):
        """Sends the request itself."""
        self.session.measure(command, lambda: self.command(command), is_good)


def is_good(answer):
    """Returns True if a reply is positive."""
    return answer[:1] in "23"


def connected(session, greet=True):
    """Connects to one of the listeners."""
    return Client(session, session.choices.one("listener", LISTENERS), greet)


def recipient(choices):
    """Returns the address of a recipient."""
    kind = choices.one("recipient", ("user", "group", "group", "long", "detail", "unknown", "quoted", "far"))
    size = choices.size("address", 240)
    unit = choices.one("address unit", ("a", "a+", "a.", "-", "%"))
    return {
        "user": "worst@worst.test",
        "group": f"group{choices.integer('group', 0, 39)}@worst.test",
        "long": contents.repeated(unit, size).strip(".") + "@worst.test",
        "detail": "worst+" + contents.repeated("+a", size) + "@worst.test",
        "unknown": f"nobody{size}@worst.test",
        "quoted": '"' + contents.repeated('\\"', size // 2 * 2) + '"@worst.test',
        "far": "a@" + contents.repeated("a.", size // 2 * 2) + "far.test",
    }[kind]


def sender(choices, listener):
    """Returns the address of a sender that may send."""
    if listener == "submission":
        return "worst" + contents.repeated("+a", choices.size("detail", 200, 0)) + "@worst.test"
    return choices.one("sender", ("", "a@far.test", "a@" + contents.repeated("a.", choices.size("domain", 240) // 2 * 2) + "test"))


def mail(session):
    """MAIL."""
    choices = session.choices
    listener = choices.one("listener", LISTENERS)
    with Client(session, listener) as client:
        extra = b" ENVID=" + b"+41" * choices.size("envelope id", 100) if choices.chance("ENVID", 30) else b""
        size = b" SIZE=%d" % choices.size("announced", session.account.message_bytes) if choices.chance("SIZE", 30) else b""
        client.ask(
            f"MAIL FROM:<{sender(choices, listener)}>".encode()
            + size
            + choices.one("body", (b"", b" BODY=8BITMIME SMTPUTF8", b" RET=FULL"))
            + extra
        )


def begun(session):
    """Connects and begins a transaction with recipients."""
    choices = session.choices
    listener = choices.one("listener", LISTENERS)
    client = Client(session, listener)
    client.must(f"MAIL FROM:<{sender(choices, listener)}>".encode())
    # Few messages go to groups, because the server limits how many do.
    address = choices.one("to", ("worst@worst.test",) * 3 + ("worst+{}@worst.test",) * 4 + ("group0@worst.test",))
    if address.startswith("group") and listener != "submission":
        address = "worst+{}@worst.test"
    count = choices.size("recipients", 900)
    commands = [f"RCPT TO:<{address.format(number)}>".encode() for number in range(count)]
    client.session.note("prepared by", commands[0] + b" and %d others" % (count - 1))
    client.write(b"\r\n".join(commands) + b"\r\n")
    answers = [client.reply() for _ in commands]
    if not any(is_good(answer) for answer in answers):
        raise Refused(answers[0])
    return client, listener, sum(is_good(answer) for answer in answers)


def rcpt(session):
    """RCPT."""
    choices = session.choices
    with connected(session) as client:
        client.must(b"MAIL FROM:<worst@worst.test>")
        extra = (
            b" NOTIFY=SUCCESS,FAILURE,DELAY ORCPT=rfc822;" + b"+41" * choices.size("original", 400) if choices.chance("NOTIFY", 30) else b""
        )
        client.ask((f"RCPT TO:<{recipient(choices)}>".encode() + extra)[:LINE_BYTES])


def data(session):
    """DATA, with the message."""
    client, listener, accepted = begun(session)
    with client:
        client.must(b"DATA")
        raw = contents.message(session.choices, session.choices.size("message bytes", session.account.message_bytes))
        raw = (b"\r\n" + raw).replace(b"\n.", b"\n..")[2:]

        def send():
            client.write(raw + b"\r\n.\r\n")
            # LMTP replies for each recipient.
            return [client.reply() for _ in range(accepted if listener == "lmtp" else 1)][-1]

        session.measure(raw, send, is_good)


def bdat(session):
    """BDAT, with all chunks."""
    choices = session.choices
    client, listener, accepted = begun(session)
    with client:
        raw = contents.message(choices, choices.size("message bytes", session.account.message_bytes))
        size = max(1, len(raw) // choices.size("chunks", 5_000))
        chunks = [raw[start : start + size] for start in range(0, len(raw), size)]
        commands = [b"BDAT %d\r\n" % len(chunk) + chunk for chunk in chunks[:-1]]
        last = b"BDAT %d LAST\r\n" % len(chunks[-1]) + chunks[-1]

        def send():
            # A server that waits until its replies are read does not read more commands.
            for start in range(0, len(commands), PIPELINED):
                group = commands[start : start + PIPELINED]
                client.write(b"".join(group))
                for _ in group:
                    client.reply()
            client.write(last)
            # LMTP replies for each recipient.
            return [client.reply() for _ in range(accepted if listener == "lmtp" else 1)][-1]

        session.measure(b"".join(commands) + last, send, is_good)


def _greeting(verb):
    def greet(session):
        listener = "lmtp" if verb == b"LHLO" else session.choices.one("outside", ("smtp", "submission"))
        with Client(session, listener, greet=False) as client:
            client.ask(
                verb
                + b" "
                + contents.repeated(
                    session.choices.one("name", ("a", "a.", "[::1]", "-")), session.choices.size("name bytes", 255)
                ).encode()
            )

    return greet


def auth(session):
    """AUTH."""
    choices = session.choices
    account = session.account
    with Client(session, "submission", greet=False) as client:
        client.must(b"EHLO client.test")
        mechanism = choices.one("mechanism", (b"PLAIN", b"LOGIN", b"SCRAM-SHA-256", b"X"))
        response = (
            contents.secret("", account.login, account.password)
            if choices.chance("right password", 30)
            else base64.b64encode(contents.text(choices, "response", 8_000).encode())
        )

        def send():
            answer = client.command(b"AUTH " + mechanism + (b" " + response if mechanism == b"PLAIN" else b""))
            for _ in range(4):
                if not answer.startswith("334"):
                    break
                answer = client.command(response)
            return answer

        session.measure(b"AUTH " + mechanism + b" " + response, send, is_good)


def _named(verb):
    def ask(session):
        choices = session.choices
        with Client(session, "submission") as client:
            client.ask(
                verb
                + b" "
                + choices.one(
                    "name",
                    (f"group{choices.integer('group', 0, 39)}@worst.test", recipient(choices), contents.text(choices, "name", LINE_BYTES)),
                ).encode()[:LINE_BYTES]
            )

    return ask


def _plain(verb, argument=False, greet=True):
    """Returns a generator of a verb with any argument or none."""

    def ask(session):
        with connected(session, greet) as client:
            client.ask(verb + (b" " + contents.text(session.choices, "argument", LINE_BYTES).encode()[:LINE_BYTES] if argument else b""))

    return ask


GENERATORS = {
    "RCPT": rcpt,
    "MAIL": mail,
    "DATA": data,
    "BDAT": bdat,
    "RSET": _plain(b"RSET"),
    "EHLO": _greeting(b"EHLO"),
    "LHLO": _greeting(b"LHLO"),
    "HELO": _greeting(b"HELO"),
    "QUIT": _plain(b"QUIT"),
    "AUTH": auth,
    "STARTTLS": _plain(b"STARTTLS"),
    "NOOP": _plain(b"NOOP", argument=True),
    "VRFY": _named(b"VRFY"),
    "EXPN": _named(b"EXPN"),
    "HELP": _plain(b"HELP", argument=True),
}


def verbs(root):
    """Returns the verbs of the server, from its source."""
    return names_in(os.path.join(root, SOURCE), r'Verb::new\("([A-Z]+)"')
