"""Ann's mail file, which she uses over IMAP on all servers, and what each of them has acknowledged.

She appends, marks, copies, moves and removes messages, and makes and renames folders. A message has a number in its
subject. A message that was copied is not removed any more, nor the reverse, and a message counts as removed if the server on which that
was done has it in no folder. In the end each message must be in a folder unless its removal was begun, a removed one
must be gone, each folder must exist under a name that it was given, and all servers must show the same folders, with the
same identifiers, UIDs and flags.
"""

import re

DATABASE = "mail/ann.nsf"
SIZE_MAX = 20_000
FLAGS = (r"\Seen", r"\Answered", r"\Flagged", "Work", "Later")
SUBJECT = re.compile(rb"number (\d+) end")
FOLDER = re.compile(rb'\((?P<flags>[^)]*)\) "[^"]*" (?P<name>.*)')
# Fetched of each message: what all servers must show alike.
SHOWN = "(UID FLAGS EMAILID BODY.PEEK[HEADER.FIELDS (SUBJECT)])"


class Refused(Exception):
    """A server has refused a command."""


class Mailbox:
    """A session with the mail file."""

    def __init__(self, client):
        self.client = client

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.logout()

    def done(self, answer):
        """Returns the data of an answer. Raises `Refused` if it is not OK."""
        if answer[0] != "OK":
            raise Refused(answer)
        return answer[1]

    def folders(self):
        """Returns the names of the folders that can be selected, as the server writes them."""
        found = [FOLDER.fullmatch(line) for line in self.done(self.client.list()) if isinstance(line, bytes)]
        return [one["name"].decode() for one in found if one and rb"\Noselect" not in one["flags"]]

    def identifier(self, folder):
        """Returns the MAILBOXID and the UIDVALIDITY of a folder."""
        said = self.done(self.client.status(folder, "(MAILBOXID UIDVALIDITY)"))[0]
        return re.search(rb"MAILBOXID \(([^)]*)\)", said)[1], re.search(rb"UIDVALIDITY (\d+)", said)[1]

    def messages(self, folder):
        """Selects a folder and returns its messages by UID: number, EMAILID and flags."""
        messages = {}
        if self.done(self.client.select(folder)) == [b"0"]:
            return messages
        for part in self.done(self.client.fetch("1:*", SHOWN)):
            if not isinstance(part, tuple):
                continue
            head, number = part[0], SUBJECT.search(part[1])
            flags = re.search(rb"FLAGS \(([^)]*)\)", head)[1].split()
            shown = frozenset(flags) - {rb"\Recent"}
            email = re.search(rb"EMAILID \(([^)]*)\)", head)[1]
            messages[re.search(rb"UID (\d+)", head)[1].decode()] = (int(number[1]) if number else part[1].strip(), email, shown)
        return messages


class Mailboxes:
    """The mail file on all servers."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.random = cluster.random
        self.messages, self.removed, self.copies, self.folders = set(), set(), set(), set()
        # What was tried: messages that were copied or removed, and the names of folders.
        self.tried_copies, self.tried_removals, self.tried_names = set(), set(), {}

    def actions(self):
        """Returns what can happen in a step."""
        return [self.append, self.append, self.mark, self.mark, self.move, self.move, self.copy, self.remove, self.create, self.rename]

    def open(self, member):
        """Returns a session with a server."""
        return Mailbox(self.cluster.login(member, "ann"))

    def acknowledge(self, member, known, what, count):
        """Remembers what a server has acknowledged."""
        self.cluster.acknowledge(member, known, what)
        self.cluster.counts[count] += 1

    def random_message(self, mailbox):
        """Selects a folder that has messages of this test. Returns it, the UID of a message and its number, or None."""
        names = mailbox.folders()
        for folder in self.random.sample(names, len(names)):
            messages = [(uid, found[0]) for uid, found in mailbox.messages(folder).items() if isinstance(found[0], int)]
            if messages:
                return folder, *self.random.choice(messages)
        return None

    def append(self, member):
        """Appends a message."""
        number = self.cluster.number()
        text = f"Subject: number {number} end\r\n\r\n{'x' * self.random.randrange(SIZE_MAX)}\r\n".encode()
        with self.open(member) as mailbox:
            if mailbox.client.append(self.random.choice(["INBOX", *mailbox.folders()]), None, None, text)[0] == "OK":
                self.acknowledge(member, self.messages, number, "messages")

    def mark(self, member):
        """Sets or removes a flag of a message."""
        with self.open(member) as mailbox:
            if found := self.random_message(mailbox):
                change = self.random.choice(("+FLAGS", "-FLAGS"))
                mailbox.client.uid("STORE", found[1], change, f"({self.random.choice(FLAGS)})")
                self.cluster.counts["marks"] += 1

    def move(self, member):
        """Moves a message to another folder."""
        with self.open(member) as mailbox:
            if found := self.random_message(mailbox):
                folder, uid, _ = found
                target = self.random.choice([name for name in mailbox.folders() if name != folder])
                if mailbox.client.uid("MOVE", uid, target)[0] == "OK":
                    self.cluster.counts["moves"] += 1

    def copy(self, member):
        """Copies a message to another folder."""
        with self.open(member) as mailbox:
            if found := self.random_message(mailbox):
                _, uid, number = found
                if number in self.tried_removals:
                    return
                self.tried_copies.add(number)
                if mailbox.client.uid("COPY", uid, self.random.choice(mailbox.folders()))[0] == "OK":
                    self.acknowledge(member, self.copies, (number, self.cluster.number()), "copies")

    def remove(self, member):
        """Removes a message from all folders in which the server shows it."""
        with self.open(member) as mailbox:
            found = self.random_message(mailbox)
            if not found or found[2] in self.tried_copies:
                return
            number = found[2]
            self.tried_removals.add(number)
            self.messages.discard(number)
            for folder in mailbox.folders():
                for uid in [uid for uid, shown in mailbox.messages(folder).items() if shown[0] == number]:
                    mailbox.done(mailbox.client.uid("STORE", uid, "+FLAGS.SILENT", r"(\Deleted)"))
                    mailbox.done(mailbox.client.uid("EXPUNGE", uid))
        # It can be in a folder in which it is not shown before a replication is complete.
        if self.exists(member, number) is False:
            self.acknowledge(member, self.removed, number, "removals")

    def exists(self, member, number):
        """Returns whether a server has a message, or None if it does not say so."""
        rows = member.as_ann("note", "list", DATABASE, "--formula", f'SELECT Subject = "number {number} end"')
        return None if rows is None else bool(rows)

    def create(self, member):
        """Creates a folder."""
        name = f"F{self.cluster.number()}"
        with self.open(member) as mailbox:
            if mailbox.client.create(name)[0] == "OK":
                identifier = mailbox.identifier(name)[0]
                self.tried_names.setdefault(identifier, set()).add(name)
                self.acknowledge(member, self.folders, identifier, "folders")

    def rename(self, member):
        """Renames a folder that was created."""
        name = f"R{self.cluster.number()}"
        with self.open(member) as mailbox:
            own = [folder for folder in mailbox.folders() if re.fullmatch(r"[FR]\d+", folder)]
            if own:
                folder = self.random.choice(own)
                self.tried_names.setdefault(mailbox.identifier(folder)[0], set()).add(name)
                if mailbox.client.rename(folder, name)[0] == "OK":
                    self.cluster.counts["renamed folders"] += 1

    def shown(self, member):
        """Returns all folders of a server with their identifiers and messages."""
        with self.open(member) as mailbox:
            return {folder: (*mailbox.identifier(folder), mailbox.messages(folder)) for folder in mailbox.folders()}

    def faults(self, member):
        """Yields what is wrong on one server."""
        shown = self.shown(member)
        found = {}
        for _, _, messages in shown.values():
            for number, email, _ in messages.values():
                found.setdefault(number, set()).add(email)
        if lost := self.messages - set(found):
            yield f"the messages {sorted(lost)} are lost"
        if back := self.removed & set(found):
            yield f"the removed messages {sorted(back)} are shown"
        if back := {number for number in self.removed if self.exists(member, number)}:
            yield f"the removed messages {sorted(back)} exist"
        copies = {}
        for number, _ in self.copies:
            copies[number] = copies.get(number, 1) + 1
        if lost := {number for number, count in copies.items() if len(found.get(number, ())) < count}:
            yield f"copies of the messages {sorted(lost)} are lost"
        names = {identifier: folder for folder, (identifier, _, _) in shown.items()}
        if lost := {self.tried_names[identifier].copy().pop() for identifier in self.folders - set(names)}:
            yield f"the folders {sorted(lost)} are lost"
        if wrong := {names[identifier] for identifier in self.folders if names[identifier] not in self.tried_names[identifier]}:
            yield f"folders have the names {sorted(wrong)}, which nobody gave them"

    def differences(self, members):
        """Yields what servers show in different ways."""
        first = self.shown(members[0])
        for member in members[1:]:
            shown = self.shown(member)
            if set(shown) != set(first):
                yield f"{member.host} has other folders than {members[0].host}: {sorted(set(shown) ^ set(first))}"
            for folder in set(shown) & set(first):
                if shown[folder] != first[folder]:
                    here, there = shown[folder], first[folder]
                    different = {uid for uid in {*here[2], *there[2]} if here[2].get(uid) != there[2].get(uid)}
                    some = [(uid, here[2].get(uid), there[2].get(uid)) for uid in sorted(different)[:3]]
                    yield f"{folder} of {member.host} and {members[0].host} differ: {here[:2]}, {there[:2]}, {some}"
