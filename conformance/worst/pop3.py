"""Requests of POP3: a grammar for each verb. The maildrop has as many messages as the mailboxes of IMAP."""

import base64
import os

from . import contents
from .fill import LARGE
from .wire import Connection, Refused, names_in

NAME = "pop3"
SOURCE = "crates/pop3/src/cmd.rs"
LINE_BYTES = 1_000
# The number of large messages at the beginning of the maildrop. They are never removed.


class Client(Connection):
    """A connection to POP3."""

    def __init__(self, session, log_in=True):
        super().__init__(session, "pop3")
        self.line()
        if log_in:
            self.must(b"USER " + session.account.maildrop.encode())
            self.must(b"PASS " + session.account.password.encode())

    def command(self, command, lines=False):
        """Sends a command, and returns the first line of its reply. Reads further lines if `lines`."""
        self.write(command + b"\r\n")
        return self.reply(lines)

    def reply(self, lines=False):
        """Reads a reply."""
        first = self.line()
        if lines and first.startswith(b"+OK"):
            while self.line() != b".":
                pass
        return first.decode(errors="replace")

    def must(self, command):
        """Sends a command that prepares a request."""
        self.session.note("prepared by", command)
        answer = self.command(command)
        if not answer.startswith("+"):
            raise Refused(f"{command[:80]!r}: {answer}")

    def ask(self, command, lines=False):
        """Sends the request itself."""
        self.session.measure(command, lambda: self.command(command, lines), is_good)


def is_good(answer):
    """Returns True if a reply is positive."""
    return answer.startswith("+")


def number(choices):
    """Returns the number of a message. The first ones are the largest."""
    return b"%d" % (choices.integer("large", 1, LARGE) if choices.chance("large message", 40) else choices.size("message", 20_000))


def user(session):
    """USER."""
    with Client(session, log_in=False) as client:
        client.ask(b"USER " + contents.text(session.choices, "user", LINE_BYTES).encode()[:LINE_BYTES])


def pass_(session):
    """PASS, which opens the maildrop."""
    choices = session.choices
    with Client(session, log_in=False) as client:
        client.must(b"USER " + session.account.maildrop.encode())
        right = choices.chance("right password", 80)
        client.ask(b"PASS " + (session.account.password if right else contents.text(choices, "password", LINE_BYTES)).encode()[:LINE_BYTES])


def auth(session):
    """AUTH."""
    choices = session.choices
    account = session.account
    with Client(session, log_in=False) as client:
        mechanism = choices.one("mechanism", (b"PLAIN", b"LOGIN", b"SCRAM-SHA-256", b"X"))
        response = (
            contents.secret("", account.maildrop, account.password)
            if choices.chance("right password", 50)
            else base64.b64encode(contents.text(choices, "response", 8_000).encode())
        )

        def send():
            answer = client.command(b"AUTH " + mechanism)
            for _ in range(4):
                if not answer.startswith("+ "):
                    break
                answer = client.command(response)
            return answer

        session.measure(b"AUTH " + mechanism + b" " + response, send, is_good)


def apop(session):
    """APOP."""
    with Client(session, log_in=False) as client:
        client.ask(b"APOP x " + contents.text(session.choices, "digest", LINE_BYTES).encode()[:LINE_BYTES])


def _listing(verb):
    def ask(session):
        with Client(session) as client:
            single = session.choices.chance("single", 20)
            client.ask(verb + (b" " + number(session.choices) if single else b""), lines=not single)

    return ask


def retr(session):
    """RETR."""
    with Client(session) as client:
        client.ask(b"RETR " + number(session.choices), lines=True)


def top(session):
    """TOP."""
    with Client(session) as client:
        client.ask(b"TOP " + number(session.choices) + b" %d" % session.choices.size("lines", 1 << 31, 0), lines=True)


def dele(session):
    """DELE. The session ends without QUIT, so nothing is removed."""
    with Client(session) as client:
        client.ask(b"DELE " + number(session.choices))


def deleted(session, client):
    """Marks a chosen number of messages as deleted."""
    count = session.choices.size("deleted", min(session.account.counts["Many"], 5_000))
    client.session.note("prepared by", b"DELE of %d messages" % count)
    client.write(b"".join(b"DELE %d\r\n" % (LARGE + index + 1) for index in range(count)))
    for _ in range(count):
        client.reply()
    return count


def rset(session):
    """RSET after many DELE."""
    with Client(session) as client:
        deleted(session, client)
        client.ask(b"RSET")


def quit_(session):
    """QUIT after many DELE. Others take the place of the removed messages first."""
    if session.choices.chance("unused", 20):
        with Client(session) as client:
            client.ask(b"QUIT")
        return
    with Client(session) as client:
        count = deleted(session, client)
        session.account.refill(session, count)
        client.ask(b"QUIT")


def _plain(verb, log_in=True, lines=False):
    """Returns a generator of a verb without arguments."""

    def ask(session):
        with Client(session, log_in) as client:
            client.ask(verb, lines)

    return ask


GENERATORS = {
    "CAPA": _plain(b"CAPA", log_in=False, lines=True),
    "STLS": _plain(b"STLS", log_in=False),
    "USER": user,
    "PASS": pass_,
    "AUTH": auth,
    "UTF8": _plain(b"UTF8", log_in=False),
    "STAT": _plain(b"STAT"),
    "LIST": _listing(b"LIST"),
    "UIDL": _listing(b"UIDL"),
    "RETR": retr,
    "TOP": top,
    "DELE": dele,
    "RSET": rset,
    "NOOP": _plain(b"NOOP"),
    "QUIT": quit_,
    "APOP": apop,
}


def verbs(root):
    """Returns the verbs of the server, from its source."""
    return names_in(os.path.join(root, SOURCE), r'^ +\("([A-Z0-9]+)", PermittedState')
