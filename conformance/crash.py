"""The crash loop: mail is delivered and changed over SMTP and IMAP while the server is killed at random, again and again.

What was acknowledged must be there after each restart, once; what was under way when the server died may be there or not, but whole. Every
worker keeps a model of what it was told; an operation without an answer leaves two models, before and after, and the mailbox must be
one of them. At the end `doublet fixup` must find nothing. The moments of the kills come from a seed, but threads are not
repeatable, so a failure prints what was expected and what was found.
"""

import imaplib
import os
import random
import re
import smtplib
import threading
import time

USERS = ("reader1", "reader2", "reader3")
WORKERS = 3
SENDERS = 3
DOMAIN = "crash.test"
RUN_S = (0.2, 1.5)
FLAGS = ("\\Flagged", "\\Answered", "\\Seen")
GONE = (OSError, smtplib.SMTPException, imaplib.IMAP4.abort, EOFError)


class Wrong(Exception):
    """What was promised does not hold."""


def letter(number, extra=""):
    """Makes a message that says its number."""
    return (f"From: sender@elsewhere.test\r\nTo: someone@{DOMAIN}\r\nSubject: number {number} end\r\nMessage-ID: <{number}@crash>\r\n\r\n"
            + f"This is message {number}.\r\n" * (1 + number % 50) + extra).encode()


class Sender(threading.Thread):
    """Hands messages in over SMTP, each to one or two readers, until the server is gone."""

    def __init__(self, server, numbers, promised, possible):
        super().__init__(daemon=True)
        self.server, self.numbers, self.promised, self.possible = server, numbers, promised, possible
        self.random = random.Random(numbers[0])

    def run(self):
        try:
            with smtplib.SMTP(*self.server.address("smtp"), timeout=20) as client:
                while True:
                    number = self.numbers.pop(0)
                    readers = self.random.sample(USERS, self.random.choice((1, 2)))
                    for reader in readers:
                        self.possible.add((reader, number))
                    client.sendmail("sender@elsewhere.test", [f"{reader}@{DOMAIN}" for reader in readers], letter(number))
                    for reader in readers:
                        self.promised.add((reader, number))
        except GONE:
            pass


class Worker(threading.Thread):
    """Changes a mailbox of its own over IMAP: appends, flags, copies, moves, expunges. The model is {folder: {subject: flags}}."""

    def __init__(self, server, user, password, seed, model, numbers):
        super().__init__(daemon=True)
        self.server, self.user, self.password, self.numbers = server, user, password, numbers
        self.random = random.Random(seed)
        self.model = model
        self.after = None
        self.error = None

    def run(self):
        try:
            client = imaplib.IMAP4(*self.server.address("imap"), timeout=20)
            client.login(f"{self.user}@{DOMAIN}", self.password)
            while True:
                self.step(client)
        except GONE:
            pass
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def step(self, client):
        """Does one thing, and moves the model on when it is acknowledged."""
        folder = self.random.choice(("INBOX", "Work"))
        held = self.model[folder]
        deed = self.random.choice(("append", "append", "flag", "flag", "copy", "move", "expunge"))
        self.after = {name: dict(messages) for name, messages in self.model.items()}
        if deed == "append" or not held:
            number = self.numbers.pop(0)
            self.after[folder][number] = frozenset()
            self.good(client.append(folder, None, None, letter(number)))
        else:
            self.change(client, folder, deed, self.random.choice(sorted(held)))
        self.model, self.after = self.after, None

    def change(self, client, folder, deed, number):
        """Does something to one message."""
        self.good(client.select(folder))
        uid = self.good(client.uid("search", "SUBJECT", f'"number {number} end"'))[0].decode()
        if not uid or " " in uid:
            raise Wrong(f"{self.user}: message {number} is at {uid!r} in {folder}")
        other = "Work" if folder == "INBOX" else "INBOX"
        flags = self.after[folder][number]
        if deed == "flag":
            flag = self.random.choice(FLAGS)
            self.after[folder][number] = flags ^ {flag}
            self.good(client.uid("store", uid, "-FLAGS" if flag in flags else "+FLAGS", f"({flag})"))
        elif deed == "expunge":
            del self.after[folder][number]
            flagged = {name: dict(messages) for name, messages in self.model.items()}
            flagged[folder][number] = flags | {"\\Deleted"}
            final, self.after = self.after, flagged
            self.good(client.uid("store", uid, "+FLAGS", "(\\Deleted)"))
            self.model, self.after = flagged, final
            self.good(client.uid("expunge", uid))
        elif number not in self.after[other]:
            self.after[other][number] = flags
            if deed == "move":
                del self.after[folder][number]
            self.good(client.uid(deed, uid, other))

    def good(self, answer):
        """Takes what an answer says; anything but OK is wrong, for nothing that is asked here may fail."""
        if answer[0] != "OK":
            raise Wrong(f"{self.user}: {answer}")
        return answer[1]


class Loop:
    """The server, what it has promised, and the kills."""

    def __init__(self, server, password, kills, seed=1):
        self.server, self.password, self.kills = server, password, kills
        self.random = random.Random(seed)
        self.promised, self.possible = set(), set()
        self.models = {f"worker{n}": {"INBOX": {}, "Work": {}} for n in range(WORKERS)}
        self.next_number = 1

    def run(self):
        """Kills and checks; raises `Wrong`."""
        self.server.add_users([f"{user}@{DOMAIN}" for user in (*USERS, *self.models)], self.password)
        for user in self.models:
            client = self.login(user)
            client.create("Work")
            client.logout()
        for kill in range(self.kills):
            crew = self.crew()
            for hand in crew:
                hand.start()
            time.sleep(self.random.uniform(*RUN_S))
            self.server.kill()
            for hand in crew:
                hand.join(60)
            self.server.start()
            self.check(crew)
            print(f"kill {kill + 1}: {len(self.promised)} deliveries promised, {sum(len(f) for m in self.models.values() for f in m.values())} messages in mailboxes that change", flush=True)
        self.server.stop()
        told = self.server.command("fixup")
        if "No damage was found." not in told:
            raise Wrong(f"fixup finds: {told}")

    def crew(self):
        """Makes the threads for one round."""
        crew = [Sender(self.server, self.numbers(), self.promised, self.possible) for _ in range(SENDERS)]
        return crew + [Worker(self.server, user, self.password, self.random.random(), model, self.numbers()) for user, model in self.models.items()]

    def numbers(self):
        """Gives numbers that nobody else has."""
        self.next_number += 100_000
        return list(range(self.next_number, self.next_number + 100_000))

    def login(self, user):
        """Logs in to IMAP."""
        client = imaplib.IMAP4(*self.server.address("imap"), timeout=60)
        client.login(f"{user}@{DOMAIN}", self.password)
        return client

    def check(self, crew):
        """Compares what is there with what was promised."""
        for hand in crew:
            if isinstance(hand, Worker):
                self.check_worker(hand)
        for reader in USERS:
            found = [number for number, _ in self.folder(reader, "INBOX")]
            wanted = {number for who, number in self.promised if who == reader}
            if len(found) != len(set(found)):
                raise Wrong(f"{reader} has messages twice: {sorted(n for n in set(found) if found.count(n) > 1)}")
            if wanted - set(found):
                raise Wrong(f"{reader} lacks {sorted(wanted - set(found))}, which were acknowledged")
            if set(found) - {number for who, number in self.possible if who == reader}:
                raise Wrong(f"{reader} has messages that nobody sent")
            self.promised |= {(reader, number) for number in found}

    def check_worker(self, worker):
        """The mailbox is as before or as after what was under way."""
        if worker.error:
            raise Wrong(f"{worker.user}: {worker.error!r}") from worker.error
        found = {}
        for folder in ("INBOX", "Work"):
            messages = self.folder(worker.user, folder)
            found[folder] = dict(messages)
            if len(messages) != len(found[folder]):
                raise Wrong(f"{worker.user} has messages twice in {folder}")
        if found not in (worker.model, worker.after):
            raise Wrong(f"{worker.user}: unlike before: {unlike(found, worker.model)}; unlike after: {unlike(found, worker.after or worker.model)}")
        self.models[worker.user] = found

    def folder(self, user, folder):
        """Gives number and flags of each message in a folder; each must be whole."""
        client = self.login(user)
        count = int(client.select(folder, readonly=True)[1][0])
        answers = client.fetch("1:*", "(FLAGS BODY.PEEK[])")[1] if count else []
        result = []
        for index, answer in enumerate(answers):
            if isinstance(answer, tuple):
                number = int(re.search(rb"Subject: number (\d+) end", answer[1]).group(1))
                if answer[1].endswith(letter(number)[-40:]) is False or answer[1].count(b"This is message") != 1 + number % 50:
                    raise Wrong(f"{user}: message {number} is not whole")
                after = answers[index + 1] if index + 1 < len(answers) and isinstance(answers[index + 1], bytes) else b""
                flags = re.search(rb"FLAGS \(([^)]*)\)", answer[0] + after).group(1).decode().split()
                result.append((number, frozenset(flag for flag in flags if flag != "\\Recent")))
        client.logout()
        return result


def unlike(found, model):
    """Names what differs: (folder, number, found, expected)."""
    return [(folder, number, found[folder].get(number), model[folder].get(number)) for folder in found
            for number in sorted(found[folder].keys() | model[folder].keys()) if found[folder].get(number) != model[folder].get(number)]


def kills():
    """Gives how often the server is killed."""
    return 50 if os.environ.get("DOUBLET_SOAK") else 3
