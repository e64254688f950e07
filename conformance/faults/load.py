"""The writers of all protocols on one server, what the server must have afterwards, and the comparison.

`PreparedData` creates one data folder and its models. Each server begins with a copy of both.
"""

import collections
import copy
import os
import random
import shutil
import time

from harness.doublet import CHEAP_PASSWORDS, Doublet
from workload import imap
from workload.messages import DOMAIN, USERS, Wrong
from workload.smtp import GROUP, GROUP_MEMBERS, Sender
from workload.writer import GONE, Target

from . import directory, notes

SENDERS = 2
WORKERS = 2
# After a change with an unknown outcome a writer goes on with another target.
TARGETS_PER_WRITER = 3
BLOCK = 100_000
READ_PATIENCE_S = 60
JOIN_S = 90
RECOVERY_S = 15
SETTINGS = CHEAP_PASSWORDS | {"directory.login_failures": "10000", "blobs.grace": "0s", "server.shutdown_time": "5s"}
KINDS = ("lost", "doubled", "wrong")
SHOWN_MAX = 12


class Findings:
    """What is lost, doubled or wrong.

    Silent findings are not printed. With them, a server that does not reply is a kind of its own, which ends the check.
    """

    def __init__(self, is_silent=False):
        self.is_silent = is_silent
        self.counts = collections.Counter()
        self.first = {}
        self.shown = 0

    def add(self, kind, text):
        """Counts and prints one."""
        self.counts[kind] += 1
        self.first.setdefault(kind, text)
        self.shown += 1
        if self.shown <= SHOWN_MAX and not self.is_silent:
            print(f"  {kind}: {text[:1_000]}", flush=True)

    def extend(self, findings):
        """Counts pairs of a kind and a text."""
        for kind, text in findings:
            self.add(kind, text)


class LocalSender(Sender):
    """Submits messages to users of this server."""

    recipients = ((USERS[0],), (USERS[2],), (USERS[1], USERS[2]), (GROUP,), (GROUP, USERS[2]))
    members = GROUP_MEMBERS


class Load:
    """The writers of a server and the models of their targets."""

    def __init__(self, password, bridge):
        self.password, self.bridge = password, bridge
        self.server = self.findings = None
        self.refusals = False
        self.patience_s = READ_PATIENCE_S
        self.random = random.Random(0)
        names = [f"worker{number}" for number in range(WORKERS * TARGETS_PER_WRITER)]
        self.mailboxes = [Target(name, imap.Mailboxes(name)) for name in names]
        self.databases = [Target(path, notes.Database(path)) for path in (f"faults/native{n}.nsf" for n in range(TARGETS_PER_WRITER))]
        self.directory = [Target(name, model, in_parts=name == "people") for name, model in directory.models().items()]
        self.readers = {reader: imap.Numbers(f"{reader}'s INBOX") for reader in USERS}
        self.promised, self.possible = set(), set()
        # The found messages without an acknowledgment. A server that was stopped may accept them late.
        self.unacknowledged = set()
        self.writers, self.tally, self.recovery_s = [], collections.Counter(), 0.0
        self.next_number = 1

    def copy(self, server, findings):
        """Returns a load with copies of the models, for a server that has a copy of the data."""
        shared = (self.bridge, self.server, self.findings)
        load = copy.deepcopy(self, {id(one): one for one in shared})
        load.server, load.findings = server, findings
        return load

    def begin(self, except_for=()):
        """Starts the writers, except for those of some types."""
        self.writers = [LocalSender(self, self.numbers()) for _ in range(SENDERS)]
        self.writers += [imap.Worker(self, self.mailboxes[n::WORKERS], self.numbers()) for n in range(WORKERS)]
        self.writers.append(directory.Administrator(self, self.directory, self.random.random(), self.password))
        if self.bridge.process:
            self.writers.append(notes.NotesWriter(self, self.databases, self.bridge, self.random.random()))
        self.writers = [writer for writer in self.writers if not isinstance(writer, except_for)]
        for writer in self.writers:
            writer.start()

    def end(self):
        """Stops the writers and counts what they have done."""
        for writer in self.writers:
            writer.stopping.set()
        for writer in self.writers:
            writer.join(JOIN_S)
            if writer.is_alive():
                self.findings.add("wrong", f"{type(writer).__name__} still waits for a reply after {JOIN_S} s")
            if writer.error:
                self.findings.add("wrong", f"{type(writer).__name__}: {writer.error!r}")
            for field in ("tries", "acknowledged", "refused", "unknown"):
                self.tally[field] += getattr(writer, field)
        self.writers = []

    def recovers(self, what):
        """Waits until each writer gets a change acknowledged. Returns False if it takes too long or needs a restart."""
        before = {writer: writer.acknowledged for writer in self.writers}
        begin, waiting = time.monotonic(), self.writers
        while self.server.is_running() and not self.store_is_poisoned():
            waiting = [writer for writer in waiting if writer.is_alive() and writer.acknowledged == before[writer]]
            passed_s = time.monotonic() - begin
            self.recovery_s = max(self.recovery_s, passed_s)
            if not waiting:
                return True
            if passed_s > RECOVERY_S:
                names = ", ".join(type(writer).__name__ for writer in waiting)
                self.findings.add("wrong", f"{RECOVERY_S} s {what}, no change is accepted from: {names}")
                return False
            time.sleep(0.02)
        return False

    def numbers(self):
        """Returns unused numbers."""
        self.next_number += BLOCK
        return list(range(self.next_number, self.next_number + BLOCK))

    def store_is_poisoned(self):
        """Returns True if the store says that it needs a restart, or if the server cannot be asked."""
        try:
            return "\ndoublet_store_poisoned 1" in self.server.metrics(10)
        except OSError:
            return True

    def check(self, whole=False):
        """Compares the data of the server with the models. With `whole`, known messages and files are read again."""
        for target in self.mailboxes:
            self.examine(target.name, self.check_mailboxes, target, whole)
        for reader in self.readers:
            self.examine(reader, self.check_reader, reader, whole)
        if self.bridge.process:
            self.examine("the native protocol", self.bridge.connect, self.server, self.password)
            for target in self.databases:
                self.examine(target.name, self.check_database, target, whole)
        self.examine("the directory", self.check_directory)

    def examine(self, what, check, *arguments):
        """Executes a check. Data that cannot be read are a finding."""
        if self.findings.counts["unanswered"]:
            return
        try:
            check(*arguments)
        except TimeoutError as error:
            self.findings.add("unanswered" if self.findings.is_silent else "wrong", f"{what}: no reply: {error!r}")
        except (Wrong, *GONE) as error:
            self.findings.add("wrong", f"{what}: {error!r}")

    def check_mailboxes(self, target, whole):
        """Compares the mailboxes of a worker."""
        client = self.log_in(target.name)
        found, twice = imap.read_mailboxes(client, target, whole)
        client.logout()
        self.findings.extend(("doubled", f"{target.name}: message {number} is in {name} twice") for name, number in twice)
        self.findings.extend(target.settle(found, imap.differences))

    def check_reader(self, reader, whole):
        """Checks a mailbox that only receives mail: it has every accepted message once, in the order of its sender."""
        client = self.log_in(reader)
        found = [number for number, _ in imap.read_folder(client, "INBOX", self.readers[reader], whole)]
        client.logout()
        wanted = {number for who, number in self.promised if who == reader}
        possible = {number for who, number in self.possible if who == reader}
        counts = collections.Counter(found)
        self.findings.extend(("doubled", f"{reader} has message {number} {count} times") for number, count in counts.items() if count > 1)
        self.findings.extend(("lost", f"{reader} lacks message {number}") for number in sorted(wanted - counts.keys()))
        self.findings.extend(("wrong", f"{reader} has message {number}, which was refused") for number in sorted(counts.keys() - possible))
        of_reader = {(reader, number) for number in counts}
        self.unacknowledged |= of_reader - self.promised
        self.promised = {(who, number) for who, number in self.promised if who != reader} | of_reader
        self.possible |= of_reader
        self.check_order(reader, found)

    def check_order(self, reader, found):
        """Checks that the messages of each sender are in the order in which they were sent."""
        blocks = {}
        for number in found:
            if (reader, number) not in self.unacknowledged:
                blocks.setdefault(number // BLOCK, []).append(number)
        for numbers in blocks.values():
            if numbers != sorted(numbers):
                self.findings.add("wrong", f"{reader} has the messages of a sender in the order {numbers[:200]}")

    def check_database(self, target, whole):
        """Compares a database."""
        found, findings = notes.read_database(self.bridge, target, whole)
        self.findings.extend(findings)
        self.findings.extend(target.settle(found, notes.differences))

    def check_directory(self):
        """Compares people, groups and databases."""
        found = directory.read(self.server)
        for target in self.directory:
            self.findings.extend(target.settle(found[target.name], directory.differences))

    def log_in(self, user):
        """Logs in to IMAP."""
        client = imap.log_in(self.server, f"{user}@{DOMAIN}", self.password, self.patience_s)
        client.enable("CONDSTORE")
        return client


class PreparedData:
    """The prepared data folder with its models."""

    def __init__(self, program, folder, password):
        self.program, self.folder, self.password = program, folder, password
        self.bridge = notes.Bridge(folder)
        self.pristine = Load(password, self.bridge)

    def prepare(self):
        """Creates the users, the group and the databases."""
        server = self.server("prepared")
        load = self.pristine
        try:
            server.start()
            server.add_domain(DOMAIN)
            names = (*USERS, notes.USER, "ballast", *(target.name for target in load.mailboxes))
            server.add_users([f"{name}@{DOMAIN}" for name in names], self.password)
            members = [f"{name}@{DOMAIN}" for name in GROUP_MEMBERS]
            server.request({"group": {"add": {"address": f"{GROUP}@{DOMAIN}", "members": members}}})
            load.server = server
            for target in load.mailboxes:
                client = load.log_in(target.name)
                imap.good(client.create("Work"))
                target.model, _ = imap.read_mailboxes(client, target, True)
                client.logout()
            for target in load.databases:
                notes.prepare(server, self.bridge, self.password, target.name)
        finally:
            server.stop()
        load.server = None

    def server(self, name, settings=None, prefix=(), where=None):
        """Returns a server that is not started yet. Its data will be in the folder `where`, if it is given."""
        folder = f"{self.folder}/{name}"
        os.makedirs(folder, exist_ok=True)
        data = f"{where}/data" if where else None
        return Doublet(self.program, folder, SETTINGS | (settings or {}), prefix, data)

    def load(self, server, findings, seed):
        """Copies the prepared data for a server. Returns its load."""
        shutil.copytree(f"{self.folder}/prepared/data", server.data, ignore=shutil.ignore_patterns("control.sock", "lmtp.sock", "lock"))
        load = self.pristine.copy(server, findings)
        load.random.seed(seed)
        load.next_number += load.random.randrange(1_000) * BLOCK
        return load

    def close(self):
        """Ends the program that makes the calls of the native protocol."""
        self.bridge.close()
