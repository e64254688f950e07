"""The crash loop: mail is delivered, relayed and changed over SMTP and IMAP while the server is killed at random times.

After each restart, every acknowledged message must exist once. A message that was in progress at the kill may exist or
not, but must be complete. Every worker keeps a model of its mailbox. An operation without a response leaves two models,
before and after, and the mailbox must match one of them. Numbers that a client has received stay valid: a UID is never
reused for another message, UIDVALIDITY does not change, UIDNEXT and HIGHESTMODSEQ never decrease.

Mail is sent to users, to a group, and to another Doublet server (the smart host), which is not killed and whose inbox
is counted. No message may be lost on the way. A message may arrive twice only if a kill fell between the end of its
text and the moment when the reply was recorded (RFC 1047); the logs of both servers prove it. Messages have 1 B to
200 KB, some with attachments that other messages have, too, so that blobs are written, shared and collected. Some kills
fall while the server starts. At the end `doublet fixup` must find no damage.

The times of the kills come from a seed, but threads are not repeatable. A failure therefore prints the expected and the
actual state.
"""

import base64
import datetime
import imaplib
import json
import os
import random
import re
import smtplib
import threading
import time

USERS = ("reader1", "reader2", "reader3")
GROUP, GROUP_MEMBERS = "team", ("reader1", "reader2")
FAR = "far1"
WORKERS = 3
SENDERS = 3
DOMAIN, FAR_DOMAIN = "crash.test", "far.test"
RUN_S = (0.2, 1.5)
START_S = (0.0, 0.25)
DRAIN_S = 120
# A kill explains a message that arrived twice if it fell close to the time at which the other server accepted it first:
# before this time, if the text had been sent already, or after it, until the reply was received and recorded, which
# takes two syncs.
TAKE_S, COMMIT_S = 0.25, 0.5
TRANSFERS_MAX = 5
FLAGS = ("\\Flagged", "\\Answered", "\\Seen")
GONE = (OSError, smtplib.SMTPException, imaplib.IMAP4.abort, EOFError)
ATTACHMENTS = 8


class Wrong(Exception):
    """A guarantee is violated."""


def lines_of(dice, size):
    """Returns `size` bytes of text, in lines."""
    text = base64.b64encode(dice.randbytes(size * 3 // 4 + 3)).decode()[:size]
    return "\r\n".join(text[start:start + 76] for start in range(0, len(text), 76))


def letter(number):
    """Returns a message that contains its number, of 1 B to 200 KB, sometimes with an attachment shared with others."""
    dice = random.Random(number)
    head = f"From: {USERS[0]}@{DOMAIN}\r\nTo: someone@{DOMAIN}\r\nSubject: number {number} end\r\nMessage-ID: <{number}@crash>\r\n"
    size = dice.choice((1, 1, 50, 500, 2_000, 4_000, 4_095, 4_096, 4_097, 9_000, 20_000, dice.randrange(1, 200_000)))
    text = lines_of(dice, size)
    if dice.random() < 0.7:
        return f"{head}\r\n{text}\r\n".encode()
    which = dice.randrange(ATTACHMENTS)
    attached = lines_of(random.Random(-1 - which), 3_000 * 2 ** (which % 6))
    return (f"{head}MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=cut\r\n\r\n--cut\r\n\r\n{text}\r\n--cut\r\n"
            f"Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\r\n{attached}\r\n--cut--\r\n").encode()


def number_of(raw):
    """Returns the number of a stored message. Raises `Wrong` if the message is not complete."""
    found = re.search(rb"^Subject: number (\d+) end\r$", raw, re.MULTILINE)
    if not found:
        raise Wrong(f"this is no message of ours: {raw[:300]!r}")
    number = int(found.group(1))
    if not raw.endswith(letter(number)):
        raise Wrong(f"message {number} is not whole")
    return number


class Sender(threading.Thread):
    """Submits messages over SMTP until the server is killed.

    The recipients are readers, the group, or a user of the other server.
    """

    def __init__(self, loop, numbers):
        super().__init__(daemon=True)
        self.loop, self.numbers = loop, numbers
        self.random = random.Random(numbers[0])
        self.error = None

    def run(self):
        try:
            with smtplib.SMTP(*self.loop.server.address("submission"), timeout=20) as client:
                client.login(f"{USERS[0]}@{DOMAIN}", self.loop.password)
                while True:
                    self.send(client, self.numbers.pop(0))
        except GONE as error:
            if isinstance(error, smtplib.SMTPResponseException) and error.smtp_code != 421:
                self.error = error
            elif isinstance(error, smtplib.SMTPRecipientsRefused):
                self.error = error

    def send(self, client, number):
        """Sends one message and records its recipients when the server has acknowledged it."""
        to = self.random.choice(((USERS[0],), (USERS[2],), (USERS[1], USERS[2]), (GROUP,), (FAR,), (FAR, USERS[2]), (GROUP, USERS[0])))
        readers = {name for address in to for name in ((*GROUP_MEMBERS, FAR) if address == GROUP else (address,))}
        self.loop.possible |= {(reader, number) for reader in readers}
        addresses = [f"{name}@{FAR_DOMAIN if name == FAR else DOMAIN}" for name in to]
        # The number in the reverse path identifies the message in the log of the other server.
        client.sendmail(f"{USERS[0]}+n{number}@{DOMAIN}", addresses, letter(number))
        self.loop.promised |= {(reader, number) for reader in readers}


class Worker(threading.Thread):
    """Changes a mailbox of its own over IMAP: appends, flags, copies, moves, expunges.

    The model is {folder: {number: flags}}.
    """

    def __init__(self, loop, user, model, numbers):
        super().__init__(daemon=True)
        self.loop, self.user, self.numbers = loop, user, numbers
        self.random = random.Random(numbers[0])
        self.model = model
        self.after = None
        self.error = None

    def run(self):
        try:
            client = self.loop.login(self.loop.server, self.user, 20)
            client.enable("CONDSTORE")
            while True:
                self.step(client)
        except GONE:
            pass
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def step(self, client):
        """Executes one operation, and updates the model when the server has acknowledged it."""
        folder = self.random.choice(("INBOX", "Work"))
        held = self.model[folder]
        deed = self.random.choice(("append", "append", "flag", "flag", "copy", "move", "expunge"))
        self.after = {name: dict(messages) for name, messages in self.model.items()}
        if deed == "append" or not held:
            number = self.numbers.pop(0)
            self.after[folder][number] = frozenset()
            self.good(client.append(folder, None, None, letter(number)))
            validity, uid = client.response("APPENDUID")[1][0].split()
            self.loop.told.of(self.user, folder).gave(int(validity), int(uid), number)
        else:
            self.change(client, folder, deed, self.random.choice(sorted(held)))
        self.model, self.after = self.after, None

    def change(self, client, folder, deed, number):
        """Executes an operation on one message."""
        self.good(client.select(folder))
        self.loop.told.of(self.user, folder).saw(client)
        uid = self.good(client.uid("search", "SUBJECT", f'"number {number} end"'))[0].decode()
        if not uid or " " in uid:
            raise Wrong(f"{self.user}: message {number} is at {uid!r} in {folder}")
        other = "Work" if folder == "INBOX" else "INBOX"
        flags = self.after[folder][number]
        if deed == "flag":
            flag = self.random.choice(FLAGS)
            self.after[folder][number] = flags ^ {flag}
            said = self.good(client.uid("store", uid, "-FLAGS" if flag in flags else "+FLAGS", f"({flag})"))
            self.loop.told.of(self.user, folder).heard(said)
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
            client.response("COPYUID")
            self.good(client.uid(deed, uid, other))
            validity, _, new = client.response("COPYUID")[1][-1].split()
            self.loop.told.of(self.user, other).gave(int(validity), int(new), number)

    def good(self, answer):
        """Returns the data of a response. Raises `Wrong` unless it is OK, because no command of the loop may fail."""
        if answer[0] != "OK":
            raise Wrong(f"{self.user}: {answer}")
        return answer[1]


class Numbers:
    """The numbers of one mailbox that clients have received."""

    def __init__(self, name):
        self.name = name
        self.validity = None
        self.next = self.modseq = 0
        self.of_uid = {}

    def gave(self, validity, uid, number):
        """Records the UID of a message."""
        if self.validity not in (None, validity):
            raise Wrong(f"{self.name}: UIDVALIDITY was {self.validity} and is {validity}")
        if self.of_uid.setdefault(uid, number) != number:
            raise Wrong(f"{self.name}: UID {uid} was message {self.of_uid[uid]} and is {number}")
        self.validity = validity
        self.next = max(self.next, uid + 1)

    def saw(self, client):
        """Checks and records the numbers in the response to SELECT."""
        validity, following, modseq = (int(client.response(name)[1][0]) for name in ("UIDVALIDITY", "UIDNEXT", "HIGHESTMODSEQ"))
        if self.validity not in (None, validity) or following < self.next or modseq < self.modseq:
            raise Wrong(f"{self.name}: UIDVALIDITY, UIDNEXT, HIGHESTMODSEQ are {validity}, {following}, {modseq}, "
                        f"and clients were told {self.validity}, {self.next}, {self.modseq}")
        self.validity, self.next, self.modseq = validity, following, modseq

    def heard(self, answers):
        """Records the mod-sequences in responses."""
        for answer in answers:
            for modseq in re.findall(rb"MODSEQ \((\d+)\)", answer or b""):
                self.modseq = max(self.modseq, int(modseq))


class Told:
    """The numbers of all mailboxes that clients have received."""

    def __init__(self):
        self.mailboxes = {}

    def of(self, user, folder):
        """Returns the numbers of one mailbox."""
        return self.mailboxes.setdefault((user, folder), Numbers(f"{user}'s {folder}"))


class Loop:
    """The server, its smart host, the messages that they have acknowledged, and the kills."""

    def __init__(self, server, far, password, kills, seed=1):
        self.server, self.far, self.password, self.kills = server, far, password, kills
        self.random = random.Random(seed)
        self.promised, self.possible = set(), set()
        self.models = {f"worker{n}": {"INBOX": {}, "Work": {}} for n in range(WORKERS)}
        self.told = Told()
        self.killed_at = []
        self.killed_in_start = 0
        self.next_number = 1

    def run(self):
        """Kills the server and checks its data. Raises `Wrong` if a guarantee is violated."""
        self.prepare()
        for kill in range(self.kills):
            crew = self.crew()
            for hand in crew:
                hand.start()
            time.sleep(self.random.uniform(*RUN_S))
            self.killed_at.append(time.time())
            self.server.kill()
            for hand in crew:
                hand.join(60)
            while self.random.random() < 0.4:
                self.server.kill_in_start(self.random.uniform(*START_S))
                self.killed_at.append(time.time())
                self.killed_in_start += 1
            self.server.start()
            self.check(crew, whole=kill + 1 == self.kills)
            print(f"kill {kill + 1}: {len(self.promised)} deliveries promised, "
                  f"{sum(len(f) for m in self.models.values() for f in m.values())} messages in mailboxes that change", flush=True)
        self.drain()
        self.check_far()
        self.server.stop()
        for server in (self.server, self.far):
            server.stop()
            told = server.command("fixup")
            if "No damage was found." not in told:
                raise Wrong(f"fixup finds: {told}")

    def prepare(self):
        """Creates the users, the group and the folders."""
        self.server.add_domain(DOMAIN)
        self.far.add_domain(FAR_DOMAIN)
        self.far.add_users([f"{FAR}@{FAR_DOMAIN}"], self.password)
        self.server.add_users([f"{user}@{DOMAIN}" for user in (*USERS, *self.models)], self.password)
        members = [f"{name}@{DOMAIN}" for name in GROUP_MEMBERS] + [f"{FAR}@{FAR_DOMAIN}"]
        self.server.command("group", "add", f"{GROUP}@{DOMAIN}", *(word for member in members for word in ("--member", member)))
        for user in self.models:
            client = self.login(self.server, user)
            client.create("Work")
            client.logout()

    def crew(self):
        """Returns the threads for one round."""
        crew = [Sender(self, self.numbers()) for _ in range(SENDERS)]
        return crew + [Worker(self, user, model, self.numbers()) for user, model in self.models.items()]

    def numbers(self):
        """Returns unused numbers."""
        self.next_number += 100_000
        return list(range(self.next_number, self.next_number + 100_000))

    def login(self, server, user, patience_s=60):
        """Logs in to IMAP."""
        client = imaplib.IMAP4(*server.address("imap"), timeout=patience_s)
        client.login(f"{user}@{FAR_DOMAIN if server is self.far else DOMAIN}", self.password)
        return client

    def check(self, crew, whole):
        """Compares the stored data with the acknowledged changes.

        Messages that were complete in an earlier round are read again only at the end.
        """
        for hand in crew:
            if hand.error:
                raise Wrong(f"{hand}: {hand.error!r}") from hand.error
            if isinstance(hand, Worker):
                self.check_worker(hand, whole)
        for reader in USERS:
            self.check_reader(self.server, reader, whole)

    def check_reader(self, server, reader, whole, again=()):
        """Checks a mailbox that only receives mail: it has every acknowledged message, and each one once.

        The messages in `again` may exist twice.
        """
        found = [number for number, _ in self.folder(server, reader, "INBOX", whole)]
        wanted = {number for who, number in self.promised if who == reader}
        twice = {n for n in found if found.count(n) > 1} if len(found) != len(set(found)) else set()
        if twice - set(again):
            raise Wrong(f"{reader} has messages twice: {sorted(twice - set(again))}")
        if wanted - set(found):
            raise Wrong(f"{reader} lacks {sorted(wanted - set(found))}, which were acknowledged")
        if set(found) - {number for who, number in self.possible if who == reader}:
            raise Wrong(f"{reader} has messages that nobody sent")
        self.promised |= {(reader, number) for number in found}
        return found

    def check_worker(self, worker, whole):
        """Checks that the mailbox of a worker is in the state before or after the operation in progress."""
        found = {}
        for folder in ("INBOX", "Work"):
            messages = self.folder(self.server, worker.user, folder, whole)
            found[folder] = dict(messages)
            if len(messages) != len(found[folder]):
                raise Wrong(f"{worker.user} has messages twice in {folder}")
        if found not in (worker.model, worker.after):
            raise Wrong(f"{worker.user}: unlike before: {unlike(found, worker.model)}; unlike after: {unlike(found, worker.after or worker.model)}")
        self.models[worker.user] = found

    def folder(self, server, user, folder, whole):
        """Returns the number and the flags of each message in a folder.

        Compares the UIDs and mod-sequences with those that clients have received. New messages must be complete; with
        `whole`, all messages.
        """
        client = self.login(server, user)
        client.enable("CONDSTORE")
        count = int(client.select(folder, readonly=True)[1][0])
        told = self.told.of(user, folder)
        told.saw(client)
        flags = {}
        for answer in client.uid("fetch", "1:*", "(FLAGS)")[1] if count else []:
            uid = int(re.search(rb"UID (\d+)", answer).group(1))
            said = re.search(rb"FLAGS \(([^)]*)\)", answer).group(1).decode().split()
            flags[uid] = frozenset(flag for flag in said if flag != "\\Recent")
        unread = sorted(uid for uid in flags if whole or uid not in told.of_uid)
        for start in range(0, len(unread), 100):
            uids = ",".join(map(str, unread[start:start + 100]))
            answers = [part for part in client.uid("fetch", uids, "(UID BODY.PEEK[])")[1] if isinstance(part, tuple)]
            for told_first, raw in answers:
                told.gave(told.validity, int(re.search(rb"UID (\d+)", told_first).group(1)), number_of(raw))
        client.logout()
        if len(flags) != count:
            raise Wrong(f"{user}'s {folder} has {count} messages and shows {len(flags)}")
        return [(told.of_uid[uid], flags[uid]) for uid in sorted(flags)]

    def drain(self):
        """Waits until the queue is empty."""
        end = time.monotonic() + DRAIN_S
        while json.loads(self.server.command("queue", "list", "--json")):
            if time.monotonic() > end:
                raise Wrong(f"the queue does not empty: {self.server.command('queue', 'list')[:2000]}")
            time.sleep(0.5)

    def check_far(self):
        """Checks that the other server has every message, and has one twice only if a kill explains it."""
        came = {}
        with open(f"{self.far.folder}/doublet.log", encoding="utf-8", errors="replace") as log:
            for line in log:
                taken = re.search(rf'"from":"{USERS[0]}\+n(\d+)@', line)
                if taken and '"message":"accepted"' in line:
                    moment = datetime.datetime.fromisoformat(json.loads(line)["timestamp"].replace("Z", "+00:00"))
                    came.setdefault(int(taken.group(1)), []).append(moment.timestamp())
        self.check_lives()
        gaps, of_kill = [], {}
        for number, moments in came.items():
            for first, second in zip(moments, moments[1:]):
                near = [kill for kill in self.killed_at if first - 10 < kill < second + 10]
                kills = [kill for kill in near if first - TAKE_S <= kill <= min(second, first + COMMIT_S)]
                if not kills:
                    raise Wrong(f"message {number} went to the other server at {moments}, and no kill explains that; kills: {near}")
                nearest = min(kills, key=lambda kill: abs(kill - first))
                gaps.append(nearest - first)
                of_kill[nearest] = of_kill.get(nearest, 0) + 1
        if max(of_kill.values(), default=0) > TRANSFERS_MAX:
            raise Wrong(f"more transfers were repeated after one kill than can be under way: {of_kill}")
        again = [number for number, moments in came.items() if len(moments) > 1]
        found = self.check_reader(self.far, FAR, True, again)
        if len(found) != sum(map(len, came.values())):
            raise Wrong(f"the other server says that it took {sum(map(len, came.values()))} messages, and has {len(found)}")
        print(f"{len(set(found))} messages went through the other server, and {len(gaps)} transfers were repeated. From the moment when that server had "
              f"taken the message to the kill it was: {', '.join(f'{gap * 1000:.0f}' for gap in sorted(gaps)) or '-'} ms; "
              f"{len(self.killed_at)} kills, {self.killed_in_start} of them in a start", flush=True)

    def check_lives(self):
        """Checks that the server sends no message twice to the same recipient between two starts."""
        sent = set()
        with open(f"{self.server.folder}/doublet.log", encoding="utf-8", errors="replace") as log:
            for line in log:
                if " listening " in line:
                    sent.clear()
                transfer = re.search(r'sent id="([^"]+)" \S+ to="([^"]+)"', line)
                if transfer and transfer.groups() in sent:
                    raise Wrong(f"a message was sent twice without a kill: {line}")
                if transfer:
                    sent.add(transfer.groups())


def unlike(found, model):
    """Returns the differences: (folder, number, found, expected)."""
    return [(folder, number, found[folder].get(number), model[folder].get(number)) for folder in found
            for number in sorted(found[folder].keys() | model[folder].keys()) if found[folder].get(number) != model[folder].get(number)]


def kills():
    """Returns the number of kills."""
    return 50 if os.environ.get("DOUBLET_SOAK") else 3
