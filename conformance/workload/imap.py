"""Changes of mailboxes over IMAP, with a model of the mailboxes, and the numbers that clients were told.

Numbers that a client has received stay valid: a UID is never used for another message, UIDVALIDITY does not change and
is never that of an earlier mailbox of the same name, UIDNEXT and HIGHESTMODSEQ never decrease.
"""

import collections
import imaplib
import re

from .messages import DOMAIN, Refused, Wrong, letter, number_of
from .writer import GONE, Writer

FLAGS = ("\\Flagged", "\\Answered", "\\Seen")
OWN_FOLDERS = ("INBOX", "Work")
NEW_FOLDERS = ("Trip", "Team", "2026")
OPERATIONS = ("append", "append", "append", "flag", "flag", "flag", "copy", "copy", "move", "move", "expunge", "expunge",
         "create", "rename", "delete", "subscribe")
PATIENCE_S = 20


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


class Mailboxes:
    """The mailboxes of one user: {name: {number: flags}}, the subscribed names, and the numbers of each mailbox."""

    def __init__(self, user):
        self.user = user
        self.messages = {name: {} for name in OWN_FOLDERS}
        self.subscribed = frozenset()
        self.numbers = {name: Numbers(f"{user}'s {name}") for name in OWN_FOLDERS}
        # The mailbox that has had a UIDVALIDITY under a name. All copies of the model share it.
        self.history = {}

    def copy(self):
        """Returns a model that can be changed."""
        other = Mailboxes.__new__(Mailboxes)
        other.user, other.subscribed, other.history = self.user, self.subscribed, self.history
        other.messages = {name: dict(messages) for name, messages in self.messages.items()}
        other.numbers = dict(self.numbers)
        return other

    def create(self, name):
        """Adds a mailbox."""
        self.messages[name] = {}
        self.numbers[name] = Numbers(f"{self.user}'s {name}")

    def delete(self, name):
        """Removes a mailbox."""
        del self.messages[name], self.numbers[name]

    def rename(self, name, new):
        """Renames a mailbox, which keeps its numbers."""
        self.messages[new], self.numbers[new] = self.messages.pop(name), self.numbers.pop(name)

    def gave(self, name, answer, uids):
        """Records the UIDs in a response code whose first word is UIDVALIDITY: {index of the word: number}."""
        words = answer.split()
        for index, number in uids.items():
            self.numbers[name].gave(int(words[0]), int(words[index]), number)
        self.check_validity(name)

    def saw(self, name, client):
        """Checks and records the numbers in the response to SELECT."""
        self.numbers[name].saw(client)
        self.check_validity(name)

    def check_validity(self, name):
        """Checks that no other mailbox of this name has had the same UIDVALIDITY."""
        numbers = self.numbers[name]
        if self.history.setdefault((name, numbers.validity), numbers) is not numbers:
            raise Wrong(f"{self.user}: a former mailbox {name} had the UIDVALIDITY {numbers.validity}, too")

    def size(self):
        """Returns the number of messages."""
        return sum(map(len, self.messages.values()))


class Worker(Writer):
    """Changes mailboxes over IMAP: messages, flags, mailboxes and subscriptions. A target has the name of its user."""

    def __init__(self, loop, targets, numbers):
        super().__init__(loop, targets, numbers[0])
        self.numbers = numbers
        self.target = None

    def connect(self):
        self.target = self.settled()
        client = log_in(self.loop.server, f"{self.target.name}@{DOMAIN}", self.loop.password)
        client.enable("CONDSTORE")
        return client

    def disconnect(self, client):
        client.logout()

    def step(self, client):
        """Executes one operation on a mailbox."""
        if self.target.after is not None:
            raise ConnectionError("another user is next")
        model = self.target.model
        folder, operation = self.random.choice(sorted(model.messages)), self.random.choice(OPERATIONS)
        if operation in ("create", "rename", "delete"):
            self.change_folders(client, operation)
        elif operation == "subscribe":
            self.subscribe(client, folder)
        elif operation == "append" or not model.messages[folder]:
            self.append(client, folder)
        else:
            self.change(client, folder, operation, self.random.choice(sorted(model.messages[folder])))

    def append(self, client, folder):
        """Appends a message."""
        number = self.numbers.pop(0)
        with self.changing(self.target, self.target.model.copy()) as after:
            after.messages[folder][number] = frozenset()
            client.response("APPENDUID")
            good(client.append(folder, None, None, letter(number)))
            after.gave(folder, client.response("APPENDUID")[1][0], {1: number})

    def change_folders(self, client, operation):
        """Creates, renames or deletes a mailbox."""
        model = self.target.model
        old = sorted(set(NEW_FOLDERS) & set(model.messages))
        new = sorted(set(NEW_FOLDERS) - set(model.messages))
        operation = operation if old and new else "delete" if old else "create"
        with self.changing(self.target, model.copy()) as after:
            if operation == "create":
                name = self.random.choice(new)
                after.create(name)
                good(client.create(name))
            elif operation == "rename":
                name, other = self.random.choice(old), self.random.choice(new)
                after.rename(name, other)
                good(client.rename(name, other))
            else:
                name = self.random.choice(old)
                after.delete(name)
                good(client.delete(name))

    def subscribe(self, client, folder):
        """Subscribes to a mailbox, or ends the subscription."""
        with self.changing(self.target, self.target.model.copy()) as after:
            after.subscribed ^= {folder}
            good((client.subscribe if folder in after.subscribed else client.unsubscribe)(folder))

    def change(self, client, folder, operation, number):
        """Executes an operation on one message."""
        target = self.target
        good(client.select(folder))
        target.model.saw(folder, client)
        uid = good(client.uid("search", "SUBJECT", f'"number {number} end"'))[0].decode()
        if not uid or " " in uid:
            raise Wrong(f"{target.name}: message {number} is at {uid!r} in {folder}")
        other = self.random.choice(sorted(set(target.model.messages) - {folder}))
        flags = target.model.messages[folder][number]
        if operation == "flag":
            flag = self.random.choice(FLAGS)
            self.store(client, folder, number, (uid, "-FLAGS" if flag in flags else "+FLAGS", flag))
        elif operation == "expunge":
            self.store(client, folder, number, (uid, "+FLAGS", "\\Deleted"))
            with self.changing(target, target.model.copy()) as after:
                del after.messages[folder][number]
                good(client.uid("expunge", uid))
        elif number not in target.model.messages[other]:
            with self.changing(target, target.model.copy()) as after:
                after.messages[other][number] = flags
                if operation == "move":
                    del after.messages[folder][number]
                client.response("COPYUID")
                good(client.uid(operation, uid, other))
                after.gave(other, client.response("COPYUID")[1][-1], {2: number})

    def store(self, client, folder, number, change):
        """Adds or removes a flag: the UID, the data item and the flag."""
        uid, item, flag = change
        with self.changing(self.target, self.target.model.copy()) as after:
            flags = after.messages[folder][number]
            after.messages[folder][number] = flags | {flag} if item == "+FLAGS" else flags - {flag}
            after.numbers[folder].heard(good(client.uid("store", uid, item, f"({flag})")))


def log_in(server, address, password, patience_s=PATIENCE_S):
    """Logs in to IMAP."""
    client = imaplib.IMAP4(*server.address("imap"), timeout=patience_s)
    try:
        client.login(address, password)
    except GONE:
        raise
    except imaplib.IMAP4.error as error:
        client.shutdown()
        raise refusal(f"login of {address}: {error}") from error
    return client


def good(answer):
    """Returns the data of a response. Raises `Refused` or `Wrong` unless it is OK."""
    if answer[0] != "OK":
        raise refusal(f"{answer}")
    return answer[1]


def refusal(text):
    """Returns the error for a reply, `Refused` only if its response code permits to try again."""
    return (Refused if re.search(r"\[(UNAVAILABLE|INUSE|LIMIT)\]", text) else Wrong)(f"IMAP: {text}")


def read_mailboxes(client, target, whole):
    """Reads the mailboxes of a target. Returns them, and the messages that a mailbox has twice.

    Messages whose UID is known are read only with `whole`.
    """
    found, twice = (target.after or target.model).copy(), []
    found.numbers = target.model.numbers | found.numbers
    managed = {*OWN_FOLDERS, *NEW_FOLDERS}
    found.subscribed = frozenset(managed & listed(good(client.lsub())))
    found.messages = {}
    for name in sorted(managed & listed(good(client.list()))):
        found.numbers.setdefault(name, Numbers(f"{target.name}'s {name}"))
        messages = read_folder(client, name, found.numbers[name], whole)
        found.check_validity(name)
        found.messages[name] = dict(messages)
        counts = collections.Counter(number for number, _ in messages)
        twice += [(name, number) for number, count in counts.items() if count > 1]
    found.numbers = {name: found.numbers[name] for name in found.messages}
    return found, twice


def listed(lines):
    """Returns the names in responses to LIST or LSUB."""
    return {line.decode().rpartition('"/" ')[2].strip('"') for line in lines if line}


def read_folder(client, folder, numbers, whole):
    """Returns the number and the flags of each message in a folder, by UID.

    Compares the UIDs and mod-sequences with those that clients have received. New messages must be complete; with
    `whole`, all messages.
    """
    count = int(good(client.select(folder, readonly=True))[0])
    numbers.saw(client)
    flags = {}
    for answer in good(client.uid("fetch", "1:*", "(FLAGS)")) if count else []:
        uid = int(re.search(rb"UID (\d+)", answer).group(1))
        said = re.search(rb"FLAGS \(([^)]*)\)", answer).group(1).decode().split()
        flags[uid] = frozenset(flag for flag in said if flag != "\\Recent")
    unread = sorted(uid for uid in flags if whole or uid not in numbers.of_uid)
    for start in range(0, len(unread), 100):
        uids = ",".join(map(str, unread[start:start + 100]))
        answers = [part for part in good(client.uid("fetch", uids, "(UID BODY.PEEK[])")) if isinstance(part, tuple)]
        for head, raw in answers:
            numbers.gave(numbers.validity, int(re.search(rb"UID (\d+)", head).group(1)), number_of(raw))
    if len(flags) != count:
        raise Wrong(f"{numbers.name} has {count} messages and shows {len(flags)}")
    missing = [uid for uid in flags if uid not in numbers.of_uid]
    if missing:
        raise Wrong(f"{numbers.name} lists the UIDs {missing} and does not return their messages")
    return [(numbers.of_uid[uid], flags[uid]) for uid in sorted(flags)]


def differences(found, model):
    """Returns the differences between mailboxes and their model as pairs of a kind (`lost`, `wrong`) and a text."""
    result = [("lost", f"the mailbox {name} is missing") for name in sorted(model.messages.keys() - found.messages.keys())]
    result += [("wrong", f"the mailbox {name} exists") for name in sorted(found.messages.keys() - model.messages.keys())]
    for name in sorted(found.messages.keys() & model.messages.keys()):
        ours, theirs = model.messages[name], found.messages[name]
        result += [("lost", f"message {number} is not in {name}") for number in sorted(ours.keys() - theirs.keys())]
        result += [("wrong", f"message {number} is in {name}") for number in sorted(theirs.keys() - ours.keys())]
        result += [("wrong", f"message {number} in {name} has the flags {sorted(theirs[number])} instead of {sorted(ours[number])}")
                 for number in sorted(ours.keys() & theirs.keys()) if ours[number] != theirs[number]]
    result += [("lost", f"the subscription to {name} is missing") for name in sorted(model.subscribed - found.subscribed)]
    result += [("wrong", f"the subscription to {name} exists") for name in sorted(found.subscribed - model.subscribed)]
    return result
