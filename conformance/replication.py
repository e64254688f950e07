"""Three servers of one domain that share a discussion, a mail file and the directory, and replicate while things fail.

Ann changes documents over the native protocol and her mailbox over IMAP on all three servers, and documents in a local
replica on her laptop. Some documents are deleted on one server, on the laptop or on the phone while others edit them, and
people and groups of the directory are changed on all servers. Meanwhile links are cut within a transfer, servers are
killed within a replication, stopped for a time, started with a wrong clock, and set back to an old copy of their data, and
the disk of one gets full. The way to one server is slow. When the faults have ended, the servers replicate until nothing
changes any more. Then all replicas must be equal, every acknowledged edit must be in a document or a conflict document
unless a deletion has seen it, every acknowledged message must be there, and no document whose edits have all been seen by
deletions may be back. The servers share UIDs, so Ann's messages have the same UIDs on all of them. The seed determines
what is done, but not the moments at which servers die.
"""

import collections
import contextlib
import imaplib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

from faults.resources import MB, Filler, Unavailable, file_system
from harness.doublet import CHEAP_PASSWORDS, Doublet
from harness.gate import Gate

DOMAIN = "acme.test"
NAMES = ("a", "b", "c")
TALK, MAIL, DIRECTORY = "talk.nsf", "mail/ann.nsf", "names.nsf"
DATABASES = (TALK, MAIL, DIRECTORY)
DOOMED = 12
ROUNDS_MAX = 12
STEPS = (120, 2_000)
# A server whose partner is silent gives up after 90 seconds.
REPLICATE_TIME_MAX_S = 240
IMAP_TIME_MAX_S = 20
STOPPED_S = 0.3
# The time that bytes need to or from the second server.
DELAY_S = 0.02
HEALTHY = "No damage was found."
USER = ("--user", "ann")
STAFF = "staff"
# How the UNIDs of conflict documents begin that replicas have made.
CONFLICT_UNID = "00636F6E66"
CLOCK_ERROR_MAX_S = 3 * 86_400
FLAGS = (r"\Seen", r"\Answered", r"\Flagged", "Work", "Later")


# Settings of the server whose file system gets full, and its size.
SMALL_DISK = {"store.disk_reserve": "16MiB", "store.write_buffer": "12MiB", "store.log_size_max": "16MiB"}
DISK_BYTES = 512 * MB


class Wrong(Exception):
    """A guarantee is violated."""


def wait_for(process, what):
    """Waits for a program. Returns its output and its errors. Raises `Wrong` if it does not end."""
    try:
        return process.communicate(timeout=REPLICATE_TIME_MAX_S)
    except subprocess.TimeoutExpired as expired:
        process.kill()
        process.communicate()
        raise Wrong(f"{what} has not ended within {REPLICATE_TIME_MAX_S} s") from expired


def build_clock(folder):
    """Compiles the library that gives programs a wrong clock. Returns its path."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wrong_clock.c")
    os.makedirs(folder, exist_ok=True)
    library = f"{folder}/wrong_clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    return library


def numbers_of(items):
    """Returns the numbers of the edits that a document has."""
    return {int(name[1:]) for name in items if re.fullmatch(r"V\d+", name)}


class Member:
    """A server, the way to it, and what was acknowledged by it."""

    def __init__(self, program, folder, name):
        os.makedirs(folder, exist_ok=True)
        self.name = name
        self.host = f"{name}.{DOMAIN}"
        settings = CHEAP_PASSWORDS | {"server.name": self.host, "server.organization": "Acme", "server.shutdown_time": "1s", "listen.couchdb": "127.0.0.1:0"}
        if os.path.ismount(folder):
            settings |= SMALL_DISK
        settings["imap.uid_rank"] = str(NAMES.index(name) + 1)
        self.server = self.make_server(program, folder, settings)
        self.gate = self.make_gate()
        self.copy = f"{folder}/copy"
        # Takes the space of the file system, if the folder has one of its own.
        self.filler = Filler(f"{folder}/filler") if os.path.ismount(folder) else None
        # What was acknowledged since the copy of the data was made: edits, messages, deletions.
        self.since_copy = []

    def make_server(self, program, folder, settings):
        """Returns the server, which is not started yet."""
        return Doublet(program, folder, settings)

    def make_gate(self):
        """Returns the way to the server."""
        return Gate(lambda: self.server.address("native"), DELAY_S if self.name == NAMES[1] else 0.0)

    def as_ann(self, *words):
        """Runs a command as Ann and returns its result, or None if it failed."""
        try:
            return json.loads(self.server.command(*words, *USER, "--json"))
        except RuntimeError:
            return None

    def has_done(self, *words):
        """Runs a command as an operator. Returns whether it succeeded."""
        try:
            self.server.command(*words)
        except RuntimeError:
            return False
        return True

    def replicate(self, other, *options):
        """Starts to replicate from another server. Returns the process."""
        # Unless the caller says more, only changes of the other server are taken over.
        direction = () if any(option.startswith("--") for option in options) else ("--pull",)
        words = [self.server.program, *self.server.options(), "replicate", other.host, *options, *direction, "--json"]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def replicated(self, other, *options):
        """Replicates from another server and returns the rows. Raises `Wrong` if that fails."""
        process = self.replicate(other, *options)
        out, error = wait_for(process, f"the replication of {self.host} with {other.host}")
        if process.returncode:
            raise Wrong(f"{self.host} cannot replicate from {other.host}: {error.strip()}")
        return json.loads(out)


class Phone:
    """A PouchDB with a replica of the discussion, which is offline most of the time."""

    def __init__(self, folder, password, modules):
        known = {"FOLDER": f"{folder}/phone", "LOGIN": f"ann@{DOMAIN}", "PASSWORD": password, "MODULES": modules}
        # The certificates of the servers are signed by the certifier of the domain, which Node does not know.
        settings = os.environ | known | {"NODE_TLS_REJECT_UNAUTHORIZED": "0", "NODE_NO_WARNINGS": "1"}
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pouchdb", "phone.js")
        self.process = subprocess.Popen(["node", script], env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        """Sends a request and returns the reply."""
        self.send(**request)
        return self.reply()

    def send(self, **request):
        """Sends a request."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def reply(self):
        """Returns the reply to a request that was sent."""
        line = self.process.stdout.readline()
        if not line:
            raise Wrong("the phone has ended")
        return json.loads(line)

    def close(self):
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait(10)


class Laptop:
    """A folder of Ann's with a local replica of the discussion, which she replicates with one server."""

    def __init__(self, member, folder):
        self.member = member
        self.program = member.server.program
        self.folder = f"{folder}/laptop"

    def offline(self, *words):
        """Runs a command on the local replica and returns its result, or None if it failed."""
        words = [self.program, "--local", self.folder, *words, "--json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=REPLICATE_TIME_MAX_S)
        return None if done.returncode else json.loads(done.stdout)

    def replicate(self):
        """Starts to replicate. Returns the process."""
        certificate = f"{self.member.server.data}/tls/certificate.pem"
        words = [self.program, "--local", self.folder, "replicate", self.member.gate.address, TALK, *USER, "--certificate", certificate, "--json"]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def replicated(self):
        """Replicates and returns the rows. Raises `Wrong` if that fails."""
        process = self.replicate()
        out, error = wait_for(process, f"the replication of the laptop with {self.member.host}")
        if process.returncode:
            raise Wrong(f"the laptop cannot replicate with {self.member.host}: {error.strip()}")
        return json.loads(out)

    def text(self):
        """Returns all documents as text."""
        file = f"{self.folder}.jsonl"
        if os.path.exists(file):
            os.remove(file)
        subprocess.run([self.program, "--data", self.folder, "db", "export", TALK, file], capture_output=True, check=True)
        with open(file, encoding="utf-8") as lines:
            return lines.read()


def door(member):
    """Returns the URL of the discussion for CouchDB clients."""
    host, port = member.server.address("couchdb")
    return f"https://{host}:{port}/{TALK}"


class Cluster:
    """The three servers, and everything that they have acknowledged."""

    def __init__(self, program, folder, password, seed, modules=None):
        self.phone = Phone(folder, password, modules) if modules else None
        self.random = random.Random(seed)
        self.password = password
        self.clock = build_clock(folder)
        self.members = [self.make_member(program, f"{folder}/{name}", name) for name in NAMES]
        self.laptop = Laptop(self.members[0], folder)
        self.edits, self.messages, self.deleted = set(), set(), set()
        self.documents, self.doomed = [], []
        # The edits that were tried of each document, and the deletions with the edits that they have seen.
        self.tried, self.deletions = {}, set()
        # The changes of the directory, and the UNID of the person that is changed.
        self.changes, self.person = set(), None
        # The edits of the laptop, and whether a server has refused one: where it has a later version, the refused one stays
        # in a conflict document of the laptop, as its program says.
        self.laptop_edits, self.was_refused = set(), False
        self.next_number = 0
        # What has happened, and the documents and servers that it concerns.
        self.events = []
        self.counts = collections.Counter()

    def make_member(self, program, folder, name):
        """Returns a server, which is not started yet."""
        return Member(program, folder, name)

    def run(self, steps):
        """Runs the test. Raises `Wrong` if a guarantee is violated."""
        os.environ["DOUBLET_PASSWORD"] = self.password
        try:
            self.prepare()
            for _ in range(steps):
                self.step()
            if self.members[-1].filler and not self.counts["full disks"]:
                self.fill(self.members[-1])
            self.settle()
            self.check()
        finally:
            if self.phone:
                self.phone.close()
            for member in self.members:
                member.server.stop()

    def prepare(self):
        """Makes the domain, its servers, and the shared databases."""
        first, *others = self.members
        first.server.start()
        first.server.add_domain(DOMAIN)
        first.server.add_users([f"ann@{DOMAIN}"], self.password)
        first.server.command("db", "create", TALK)
        first.server.command("db", "acl", TALK, "set", f"ann@{DOMAIN}", "--level", "editor")
        first.server.command("db", "acl", DIRECTORY, "set", f"ann@{DOMAIN}", "--level", "editor")
        first.server.command("group", "add", STAFF, "--member", f"ann@{DOMAIN}")
        self.person = first.as_ann("note", "list", DIRECTORY, "--formula", 'SELECT Type = "Person"')[0]["unid"]
        for number in range(DOOMED):
            made = first.as_ann("note", "create", TALK, f"Subject=doomed {number}")
            self.doomed.append(made["unid"])
        for action in ("0", "1", "0", "1"):
            made = first.as_ann("note", "create", TALK, "Subject=shared", f"$ConflictAction={action}")
            self.documents.append(made["unid"])
            self.tried[made["unid"]] = set()
        self.shared = len(self.documents)
        for other in others:
            file = f"{other.server.folder}/server.pem"
            register = ("server", "register", other.host, "--address", other.gate.address, "--own-address", first.gate.address)
            first.server.command(*register, "--output", file)
            other.server.command("server", "join", file)
            other.server.start()
            other.replicated(first, *DATABASES)
        self.add_people()
        for other in others:
            other.replicated(first, *DATABASES)
        for member in self.members:
            member.server.command("db", "set", TALK, "--couchdb", "on")
        self.laptop.replicated()
        if self.phone:
            self.sync(first)

    def add_people(self):
        """Adds further people, when all servers have joined."""

    def number(self):
        """Returns a number that nothing else has."""
        self.next_number += 1
        return self.next_number

    def step(self):
        """Lets one thing happen."""
        self.random.choice(self.actions())(self.random.choice(self.members))

    def actions(self):
        """Returns what can happen in a step."""
        actions = [self.edit, self.edit, self.create, self.append, self.mark, self.delete, self.exchange, self.exchange, self.fail]
        actions += [self.edit_laptop, self.edit_laptop, self.exchange_laptop, self.delete_edited, self.change_directory]
        if self.phone:
            actions += [self.edit_offline, self.edit_offline, self.sync_or_fail]
        return actions

    def note(self, text, unid=None):
        """Remembers what has happened to a document, or to a server."""
        self.events.append((unid, f"{len(self.events)} {text}"))

    def story(self, numbers):
        """Returns what has happened to servers, and to the documents with some edits."""
        unids = {unid for unid, tried in self.tried.items() if tried & set(numbers)}
        return "\n".join(text for unid, text in self.events if unid is None or unid in unids)

    def acknowledge(self, member, known, what):
        """Remembers what a server has acknowledged."""
        known.add(what)
        member.since_copy.append((known, what))

    def edit(self, member):
        """Adds an item to a shared document."""
        self.edit_document(member, self.random.choice(self.documents))

    def edit_document(self, member, unid):
        """Adds an item to a document."""
        number = self.number()
        if member.as_ann("note", "set", TALK, unid, f"V{number}:number={number}"):
            self.tried[unid].add(number)
            self.acknowledge(member, self.edits, number)
            self.counts["edits"] += 1
            self.note(f"edit {number} of {unid} on {member.host}", unid)
        elif member.as_ann("note", "get", TALK, unid):
            # It is not known whether the change was made. Of a document that is deleted, it was not.
            self.tried[unid].add(number)

    def create(self, member):
        """Creates a document, which others may change and delete later."""
        number = self.number()
        action = self.random.choice(((), (), ("$ConflictAction=1",)))
        made = member.as_ann("note", "create", TALK, "Subject=new", f"V{number}:number={number}", *action)
        if made:
            self.acknowledge(member, self.edits, number)
            self.documents.append(made["unid"])
            self.tried[made["unid"]] = {number}
            self.counts["edits"] += 1
            self.note(f"{made['unid']} is created on {member.host} with {number}{action}", made["unid"])

    def edit_offline(self, _member):
        """Changes, creates or deletes a document on the phone, which never loses anything."""
        number = self.number()
        what = self.random.choice(("edit", "edit", "edit", "create", "create", "delete"))
        reply = self.phone.ask(op=what, number=number, choice=self.random.random())
        if not reply["done"]:
            return
        unid = reply["id"].upper()
        self.note(f"{what} {number} of {unid} on the phone{reply.get('seen', '')}", unid)
        if what == "delete":
            self.note_deletion(reply["seen"])
            self.deletions.add((unid, frozenset(reply["seen"])))
        else:
            self.tried.setdefault(unid, set()).add(number)
            self.edits.add(number)
            self.counts["phone"] += 1

    def edit_laptop(self, _member):
        """Changes, creates or deletes a document on the laptop, which never loses anything."""
        number = self.number()
        item = f"V{number}:number={number}"
        unid = self.random.choice(self.documents)
        chance = self.random.random()
        if chance < 0.1 and unid in self.documents[self.shared:]:
            seen = self.delete_seen(self.laptop.offline, unid)
            if seen is not None:
                self.deletions.add((unid, seen))
                self.note(f"deletion of {unid} on the laptop {sorted(seen)}", unid)
            return
        if chance < 0.6:
            made = self.laptop.offline("note", "set", TALK, unid, item)
        else:
            made = self.laptop.offline("note", "create", TALK, "Subject=from the laptop", item)
        if made:
            self.tried.setdefault(made["unid"], set()).add(number)
            self.edits.add(number)
            self.laptop_edits.add(number)
            self.counts["laptop"] += 1
            self.note(f"edit {number} of {made['unid']} on the laptop", made["unid"])

    def delete_edited(self, member):
        """Deletes a document which another server changes shortly before or afterwards."""
        if len(self.documents) == self.shared:
            return
        unid = self.random.choice(self.documents[self.shared:])
        other = self.random.choice([one for one in self.members if one is not member])
        is_edited_before = self.random.random() < 0.5
        if is_edited_before:
            self.edit_document(other, unid)
        seen = self.delete_seen(member.as_ann, unid)
        if seen is not None:
            self.acknowledge(member, self.deletions, (unid, seen))
            self.note(f"deletion of {unid} on {member.host} {sorted(seen)}", unid)
        if not is_edited_before:
            self.edit_document(other, unid)

    def delete_seen(self, execute, unid):
        """Deletes a document as it was read. Returns the edits that it had, or None if it was not deleted."""
        found = execute("note", "get", TALK, unid)
        if not found:
            return None
        seen = frozenset(numbers_of(found["items"]))
        done = execute("note", "delete", TALK, unid, "--expect", found["revision"])
        self.note_deletion(seen)
        return seen if done else None

    def note_deletion(self, seen):
        """Remembers that the edits in a document may be gone, because a deletion has seen them."""
        self.edits.difference_update(seen)
        self.counts["deletions of edited documents"] += 1

    def change_directory(self, member):
        """Changes a person's telephone number, or the members of a group."""
        number = self.number()
        if self.random.random() < 0.5:
            items = (f"OfficePhoneNumber=+1 {number}", f"V{number}:number={number}")
            is_done = member.as_ann("note", "set", DIRECTORY, self.person, *items)
        else:
            is_done = member.has_done("group", "set", STAFF, "--add-member", f"member{number}@elsewhere.test")
        if is_done:
            self.acknowledge(member, self.changes, number)
            self.counts["changes of the directory"] += 1

    def exchange_laptop(self, _member):
        """Replicates the laptop with its server. Something may fail meanwhile."""
        member = self.laptop.member
        fault = self.random.choice((None, "cut", "kill", "kill server"))
        if fault == "cut":
            member.gate.bytes_left = self.random.randrange(1, 30_000)
            self.counts["cuts"] += 1
        process = self.laptop.replicate()
        if fault in ("kill", "kill server"):
            time.sleep(self.random.uniform(0, 0.15))
            if fault == "kill":
                process.kill()
                self.counts["kills"] += 1
            else:
                self.restart(member)
        _, error = wait_for(process, f"the replication of the laptop with {member.host}")
        self.was_refused |= "were refused" in error
        member.gate.bytes_left = None
        self.counts["replications"] += 1
        self.note(f"the laptop replicates with {member.host}: {fault}, {process.returncode}")

    def sync(self, member):
        """Lets the phone replicate with a server. Returns the number of documents that moved, or None if it failed."""
        reply = self.phone.ask(op="sync", url=door(member))
        self.counts["syncs"] += 1
        self.note(f"the phone replicates with {member.host}: {reply}")
        return reply.get("moved") if reply["done"] else None

    def sync_or_fail(self, member):
        """Lets the phone replicate with a server, which may be killed meanwhile."""
        if self.random.random() < 0.7:
            self.sync(member)
            return
        self.phone.send(op="sync", url=door(member))
        time.sleep(self.random.uniform(0, 0.3))
        self.restart(member)
        self.phone.reply()
        self.counts["syncs"] += 1

    def delete(self, member):
        """Deletes a document that nobody changes."""
        unid = self.random.choice(self.doomed)
        if member.as_ann("note", "delete", TALK, unid):
            self.acknowledge(member, self.deleted, unid)
            self.counts["deletions"] += 1

    def login(self, member, user):
        """Returns a session with IMAP."""
        client = imaplib.IMAP4(*member.server.address("imap"), timeout=IMAP_TIME_MAX_S)
        client.login(f"{user}@{DOMAIN}", self.password)
        return client

    def mailbox(self, member):
        """Opens Ann's inbox."""
        client = self.login(member, "ann")
        client.select("INBOX")
        return client

    def uids(self, member):
        """Returns UIDVALIDITY of Ann's inbox, and the UIDs of the messages with their subjects."""
        client = self.mailbox(member)
        validity = client.response("UIDVALIDITY")[1]
        found = client.fetch("1:*", "(UID BODY.PEEK[HEADER.FIELDS (SUBJECT)])")[1] if self.messages else []
        client.logout()
        parts = [part for part in found if isinstance(part, tuple)]
        return validity, {part[0].split(b"UID ")[1].split()[0]: part[1].strip() for part in parts}

    def append(self, member):
        """Appends a message."""
        number = self.number()
        client = self.mailbox(member)
        text = f"Subject: number {number} end\r\n\r\n{'x' * self.random.randrange(20_000)}\r\n".encode()
        if client.append("INBOX", None, None, text)[0] == "OK":
            self.acknowledge(member, self.messages, number)
            self.counts["messages"] += 1
        client.logout()

    def mark(self, member):
        """Sets or removes flags of a message."""
        client = self.mailbox(member)
        found = client.search(None, "ALL")[1][0].split()
        if found:
            change = self.random.choice(("+FLAGS", "-FLAGS"))
            client.store(self.random.choice(found).decode(), change, f"({self.random.choice(FLAGS)})")
            self.counts["marks"] += 1
        client.logout()

    def exchange(self, member):
        """Replicates from another server. Something may fail meanwhile."""
        other = self.random.choice([one for one in self.members if one is not member])
        fault = self.random.choice((None, None, "cut", "kill", "kill other"))
        if fault == "cut":
            other.gate.bytes_left = self.random.randrange(1, 60_000)
            self.counts["cuts"] += 1
        direction = self.random.choice(("--pull", "--pull", "--push"))
        process = member.replicate(other, *DATABASES, direction)
        if fault in ("kill", "kill other"):
            time.sleep(self.random.uniform(0, 0.15))
            self.restart(member if fault == "kill" else other)
        wait_for(process, f"the replication of {member.host} with {other.host}")
        other.gate.bytes_left = None
        self.counts["replications"] += 1
        self.note(f"{member.host} replicates with {other.host}: {direction}, {fault}, {process.returncode}")

    def kill(self, member):
        """Kills a server."""
        member.server.kill()
        self.note(f"{member.host} is killed")

    def restart(self, member):
        """Kills a server and starts it again."""
        self.kill(member)
        member.gate.cut()
        member.server.start()
        self.counts["kills"] += 1

    def fail(self, member):
        """Lets a server fail between two replications."""
        faults = ("stop", "copy", "restore", "close", "open", "clock")
        what = self.random.choice(faults + ("full", "full") if member.filler else faults)
        if what == "full":
            self.fill(member)
        elif what == "stop":
            self.halt(member)
        elif what in ("close", "open"):
            member.gate.is_open = what == "open"
            member.gate.cut()
        elif what == "clock":
            self.set_clock(member, self.random.randrange(-CLOCK_ERROR_MAX_S, CLOCK_ERROR_MAX_S))
        elif what == "copy":
            self.back_up(member)
        elif os.path.exists(member.copy):
            self.restore(member)

    def set_clock(self, member, error_s):
        """Starts a server again with a wrong clock."""
        member.server.prefix = ["env", f"LD_PRELOAD={self.clock}", f"CLOCK_ERROR_S={error_s}"]
        self.restart(member)
        self.counts["clocks"] += 1
        self.note(f"{member.host} has a clock that is wrong by {error_s} s")

    def halt(self, member):
        """Stops the process of a server for a time."""
        member.server.signal(signal.SIGSTOP)
        time.sleep(STOPPED_S)
        member.server.signal(signal.SIGCONT)
        self.counts["stops"] += 1

    def back_up(self, member):
        """Copies the data of a server."""
        self.kill(member)
        shutil.rmtree(member.copy, ignore_errors=True)
        shutil.copytree(member.server.data, member.copy, ignore=shutil.ignore_patterns("*.sock"))
        member.since_copy = []
        member.server.start()
        self.note(f"{member.host} is copied")

    def restore(self, member):
        """Sets a server back to the copy of its data. What only this server had is lost."""
        self.kill(member)
        member.gate.cut()
        shutil.rmtree(member.server.data)
        shutil.copytree(member.copy, member.server.data)
        for known, what in member.since_copy:
            known.discard(what)
        member.since_copy = []
        member.server.start()
        self.counts["restores"] += 1
        self.note(f"{member.host} is restored")

    def fill(self, member):
        """Takes all space of a server's disk while it replicates and is changed, and gives it back."""
        try:
            member.filler.take_space(0)
            process = member.replicate(self.random.choice(self.members[:2]), *DATABASES, "--pull")
            self.edit(member)
            wait_for(process, f"the replication of {member.host}")
        finally:
            member.filler.release()
        # A server that could not write its log refuses changes until it is started again.
        self.restart(member)
        self.counts["full disks"] += 1

    def end_faults(self):
        """Ends all faults."""
        for member in self.members:
            member.gate.is_open = True
            if member.server.prefix:
                member.server.prefix = []
                self.restart(member)

    def settle(self):
        """Ends all faults and replicates until nothing changes."""
        self.end_faults()
        for _ in range(ROUNDS_MAX):
            changed = 0
            for member in self.members:
                for other in self.members:
                    if other is not member:
                        rows = member.replicated(other, *DATABASES)
                        changed += sum(row["received"] + row["states"] + row["refused"] + row["skipped"] for row in rows)
                if member is self.laptop.member:
                    rows = self.laptop.replicated()
                    changed += sum(row["received"] + row["states"] + row["refused"] + row["skipped"] for row in rows)
                if self.phone:
                    moved = self.sync(member)
                    if moved is None:
                        raise Wrong(f"the phone cannot replicate with {member.host}")
                    changed += moved
            if not changed:
                return
        raise Wrong(f"the replicas still change after {ROUNDS_MAX} rounds")

    def check(self):
        """Compares the replicas with each other and with what was acknowledged."""
        for member in self.members:
            for other in self.members:
                if other is not member:
                    for row in member.replicated(other, *DATABASES, "--compare"):
                        if row["different"]:
                            raise Wrong(f"{row['database']} of {member.host} and {other.host} differ: {row['differences'][:5]}")
            self.check_contents(member)
            self.check_directory(member)
        self.check_laptop()
        if self.phone:
            self.check_leaves()
        self.check_uids()
        for member in self.members:
            member.server.stop()
            said = member.server.command("fixup")
            if HEALTHY not in said:
                raise Wrong(f"fixup of {member.host} finds: {said}")

    def check_uids(self):
        """Compares the UIDs of messages of all servers."""
        inboxes = [self.uids(member) for member in self.members]
        if any(inbox != inboxes[0] for inbox in inboxes):
            raise Wrong(f"the UIDs of messages differ: {inboxes}")

    def deleted_documents(self):
        """Returns the documents of which each edit has been seen by a deletion that was acknowledged and not lost."""
        seen = {}
        for unid, numbers in self.deletions:
            seen.setdefault(unid, set()).update(numbers)
        return [unid for unid in self.documents if unid in seen and self.tried[unid] <= seen[unid]]

    def check_directory(self, member):
        """Looks for all changes of the directory on one server."""
        text = self.text(member, DIRECTORY)
        lost = {number for number in self.changes if f'"V{number}"' not in text and f"member{number}@" not in text}
        if lost:
            raise Wrong(f"{member.host} has lost the changes of the directory {sorted(lost)}")

    def check_laptop(self):
        """Checks that the laptop has the documents of its server, and everything that was acknowledged."""
        lost = {number for number in self.edits if f'"V{number}"' not in self.laptop.text()}
        if lost:
            raise Wrong(f"the laptop has lost the edits {sorted(lost)}\n{self.story(lost)}")
        listed = ("note", "list", TALK, "--limit", "0")
        here, there = ({row["unid"] for row in rows} for rows in (self.laptop.offline(*listed), self.laptop.member.as_ann(*listed)))
        if self.was_refused:
            here = {unid for unid in here if unid in there or not unid.startswith(CONFLICT_UNID)}
        if here != there:
            raise Wrong(f"the laptop and its server have different documents: {self.described(here - there, there - here)}")
        back = [unid for unid in [*self.deleted, *self.deleted_documents()] if self.laptop.offline("note", "get", TALK, unid)]
        if back:
            raise Wrong(f"the laptop has the deleted documents {back}")

    def described(self, of_laptop, of_server):
        """Returns documents that only the laptop or only its server has, with what has happened to them."""
        lines, numbers = [], set()
        for side, execute, unids in (("laptop", self.laptop.offline, of_laptop), ("server", self.laptop.member.as_ann, of_server)):
            for unid in sorted(unids):
                found = execute("note", "get", TALK, unid) or {"items": {}}
                numbers |= numbers_of(found["items"])
                lines.append(f"{side}: {found}")
        return "\n".join([*lines, self.story(numbers)])

    def check_leaves(self):
        """Checks that the phone and the servers have the same winners and the same conflicts."""
        expected = self.phone.ask(op="leaves")["leaves"]
        for member in self.members:
            found = self.phone.ask(op="leaves", url=door(member))["leaves"]
            if found != expected:
                differences = [one for one in found + expected if (one in found) != (one in expected)]
                raise Wrong(f"the leaves of {member.host} are not those of the phone: {differences[:6]}")

    @staticmethod
    def text(member, database):
        """Returns all documents of a database of a server as text."""
        file = f"{member.server.folder}/export.jsonl"
        if os.path.exists(file):
            os.remove(file)
        member.server.command("db", "export", database, file)
        with open(file, encoding="utf-8") as lines:
            return lines.read()

    def check_contents(self, member):
        """Looks for everything that was acknowledged on one server."""
        text = self.text(member, TALK)
        lost = {number for number in self.edits if f'"V{number}"' not in text}
        if self.was_refused:
            lost -= self.laptop_edits
        if lost:
            raise Wrong(f"{member.host} has lost the edits {sorted(lost)}\n{self.story(lost)}")
        back = [unid for unid in [*self.deleted, *self.deleted_documents()] if member.as_ann("note", "get", TALK, unid)]
        if back:
            raise Wrong(f"{member.host} has the deleted documents {back}")
        self.check_messages(member)

    def check_messages(self, member):
        """Looks for all messages on one server."""
        client = self.mailbox(member)
        found = client.fetch("1:*", "(BODY.PEEK[HEADER.FIELDS (SUBJECT)])")[1] if self.messages else []
        subjects = b"".join(part[1] for part in found if isinstance(part, tuple))
        client.logout()
        lost = {number for number in self.messages if f"number {number} end".encode() not in subjects}
        if lost:
            raise Wrong(f"{member.host} has lost the messages {sorted(lost)}")


def play(part, folder, steps, create):
    """Runs the short or the long number of steps with the servers that `create(seed, stack)` creates, one of which has a
    small disk where that is possible. Returns the numbers of passed and failed tests."""
    is_long = bool(os.environ.get("DOUBLET_SOAK"))
    seed = os.environ.get("DOUBLET_SEED") or (str(time.time_ns() % 1_000_000) if is_long else "1")
    print(f"{part}: DOUBLET_SEED={seed}", flush=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(file_system(f"{folder}/{NAMES[-1]}", DISK_BYTES))
        except Unavailable as reason:
            print(f"{part}: no disk gets full: {reason}")
        cluster = create(seed, stack)
        begin = time.monotonic()
        try:
            cluster.run(steps[is_long])
        except (Wrong, subprocess.TimeoutExpired) as wrong:
            print(f"{part}: {str(wrong)[:40_000]}")
            return 0, 1
    counts = ", ".join(f"{what} {count}" for what, count in cluster.counts.items())
    print(f"{part}: all replicas are equal after {time.monotonic() - begin:.1f} s: {counts}")
    return 1, 0


def run(program, folder, password, modules=None):
    """Runs the test, with a PouchDB if the folder of its modules is given. Returns the numbers of passed and failed tests."""
    return play("replication", folder, STEPS, lambda seed, stack: Cluster(program, folder, password, seed, modules))
