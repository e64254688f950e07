"""Sending from a browser while the server is killed (`kill -9`): no message is lost, and none is sent twice.

Each round writes a draft, presses "Send", kills the server a little later, and starts it again. Then the message is in the
inbox of its recipient once, or it is still a draft, and never both; if the browser had the answer that it was sent, it is
there. At last the person sends what is still a draft. `once.py` does more of this without a browser.
"""

import email
import imaplib
import random
import subprocess
import time

ROUNDS = 15
KILL_AFTER_S = (0.0, 0.12)
SENDER, RECIPIENT = "kim@acme.test", "leo@acme.test"


class Wrong(Exception):
    """A message was lost, or sent twice."""


class Browser:
    """The browser, which executes the words of `sending.mjs`."""

    def __init__(self, words, environment):
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.expect("ready")

    def do(self, words):
        """Executes a command, and returns its answer."""
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self):
        """Returns the next answer."""
        line = self.process.stdout.readline().strip()
        if not line:
            raise Wrong("the browser has ended")
        return line

    def expect(self, expected, words=None):
        """Executes a command, whose answer must be the expected one."""
        found = self.do(words) if words else self.answer()
        if found != expected:
            raise Wrong(f"the browser answers {found!r} to {words!r} and not {expected!r}")

    def close(self):
        """Ends the browser."""
        self.process.stdin.close()
        self.process.wait(60)


def run(server, words, password, environment):
    """Plays all rounds. Returns what to print. Raises `Wrong` if a message was lost or sent twice."""
    # The browser keeps its address.
    server.settings["listen.http"] = f"127.0.0.1:{server.port('http')}"
    browser = Browser([*words, RECIPIENT], environment)
    chance = random.Random(1)
    counts = {"answered": 0, "arrived": 0, "still a draft": 0}
    try:
        for number in range(ROUNDS):
            play_round(server, browser, f"message {number} of {ROUNDS}", password, (chance.uniform(*KILL_AFTER_S), counts))
    finally:
        browser.close()
    return f"sending: passed ({ROUNDS} kills: {', '.join(f'{count} {name}' for name, count in counts.items())})"


def play_round(server, browser, subject, password, chances):
    """Sends one message while the server is killed."""
    kill_after_s, counts = chances
    browser.expect("written", f"write {subject}")
    browser.expect("pressed", "send")
    time.sleep(kill_after_s)
    server.kill()
    server.start()
    is_answered = browser.do("look") == "sent"
    arrived = message_ids(server, RECIPIENT, "INBOX", subject, password)
    drafts = message_ids(server, SENDER, "Drafts", subject, password)
    if len(arrived) > 1:
        raise Wrong(f"{subject!r} was sent {len(arrived)} times")
    if not arrived and (is_answered or not drafts):
        raise Wrong(f"{subject!r} is lost: {'the browser was told that it was sent' if is_answered else 'there is no draft'}")
    if len(arrived) + len(drafts) > 1:
        raise Wrong(f"{subject!r} has {len(drafts)} drafts, and was sent {len(arrived)} times")
    counts["answered"] += is_answered
    counts["arrived"] += len(arrived)
    counts["still a draft"] += len(drafts)
    answer = browser.do(f"again {subject}")
    at_last = message_ids(server, RECIPIENT, "INBOX", subject, password)
    if len(at_last) != 1:
        raise Wrong(f"{subject!r} has arrived as {at_last} after {answer!r}")
    sent = message_ids(server, SENDER, "Sent", subject, password)
    if len(sent) != 1 or sent[0] != at_last[0]:
        raise Wrong(f"{subject!r} has the copies {sent} after {answer!r}")


def message_ids(server, user, folder, subject, password):
    """Returns the identifiers of the messages of a folder with a subject."""
    host, port = server.address("imap")
    with imaplib.IMAP4(host, port, timeout=60) as client:
        client.login(user, password)
        if client.select(folder, readonly=True)[0] != "OK":
            return []
        found = client.search(None, "HEADER", "Subject", f'"{subject}"')[1][0].split()
        texts = [client.fetch(number, "(BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])")[1][0][1] for number in found]
        return [email.message_from_bytes(text)["Message-ID"] for text in texts]
