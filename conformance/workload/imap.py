"""Changes of a mailbox over IMAP, with a model of the mailbox, and the numbers that clients were told."""

import random
import re
import threading

from .messages import Wrong, letter
from .smtp import GONE

FLAGS = ("\\Flagged", "\\Answered", "\\Seen")


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


def unlike(found, model):
    """Returns the differences: (folder, number, found, expected)."""
    return [(folder, number, found[folder].get(number), model[folder].get(number)) for folder in found
            for number in sorted(found[folder].keys() | model[folder].keys()) if found[folder].get(number) != model[folder].get(number)]
