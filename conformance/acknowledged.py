"""N8Mail while the server is killed: what the server has acknowledged to the load generator must be there.

Users of the load generator work over the native protocol, with the journal of their changes (docs/notesbench.md,
"The journal"). The server is killed at equal distances and started again at once; the users log in again. After each
start and at the end all messages are read over IMAP. Then:

- each acknowledged message is with each of its recipients once, and each acknowledged copy among the sent messages,
  unless its recipient has deleted it. A message that arrived and was deleted between two readings is known by its number
  only: for such messages the number of documents must be right.
- an acknowledged deletion is done, and a moved message is in its folder;
- each acknowledged appointment is there;
- what was asked for and not acknowledged may be there, but once and complete.

The reference of a message is at the end of its body, so a message with its reference is complete. `doublet fixup` must
find no damage.
"""

import collections
import concurrent.futures
import email
import email.policy
import imaplib
import json
import os
import re
import socket
import subprocess
import time
import traceback

from harness.doublet import CHEAP_PASSWORDS, Doublet
from workload.messages import Wrong

DOMAIN = "bench.test"
DOCUMENTS = 20
SENT = "Sent"
REFERENCE = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{13}\b")
READERS = 4
PATIENCE_S = 120
DRAIN_S = 300
# The report exists for these exit codes: valid, not steady or not valid, and failed, because steps fail while the server is away.
EXIT_CODES = (0, 3, 4)
SHORT = {"users": 12, "speedup": 180, "measure": "90 min", "kills": 3, "distance_s": 5}
# An hour with real think times.
LONG = {"users": 300, "speedup": 1, "measure": "1 h", "kills": 6, "distance_s": 600}


class Mail:
    """The messages of a user: {UNID: (folder, references)}."""

    def __init__(self):
        self.messages = {}
        # Documents that were found in two folders.
        self.twice = []

    def count(self, reference, in_sent):
        """Returns how often a reference occurs among the sent messages, or outside of them."""
        return sum(1 for folder, references in self.messages.values() if (folder == SENT) == in_sent and reference in references)


class Kills:
    """The server, the load generator, and what was read."""

    def __init__(self, program, folder, password, length):
        self.program, self.folder, self.password, self.length = program, folder, password, length
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            native = f"127.0.0.1:{free.getsockname()[1]}"
        self.server = Doublet(program, folder, CHEAP_PASSWORDS | {"listen.native": native})
        self.users = range(1, length["users"] + 1)
        # The references that a document of a user was seen with: {user: {UNID: references}}.
        self.seen = collections.defaultdict(dict)

    def run(self):
        """Plays, kills and checks. Raises `Wrong` if something acknowledged is missing."""
        os.mkdir(self.folder)
        self.server.start()
        try:
            self.server.add_domain(DOMAIN)
            self.server.add_users([f"mail{user}@{DOMAIN}" for user in self.users], self.password)
            report = self.play()
            self.drain()
            mail = self.read(is_last=True)
            appointments = {user: self.appointments(user) for user in self.users}
        finally:
            self.server.stop()
        said = self.server.command("fixup")
        if "No damage was found." not in said:
            raise Wrong(f"fixup finds: {said}")
        return f"{self.length['kills']} kills; {Check(self, f'{report}/journal.jsonl', mail, appointments).run()}"

    def play(self):
        """Runs the load generator, and kills the server meanwhile. Returns the directory of the report."""
        driver = os.path.join(os.path.dirname(self.program), "doublet-bench")
        words = [driver, "run", "n8mail", "--users", str(len(self.users)), "--speedup", str(self.length["speedup"]),
                 "--measure", self.length["measure"], "--interval", "250 ms", "--documents", str(DOCUMENTS), "--size-scale", "0.05",
                 "--target", self.target(), "--journal", "--out", self.folder]
        with open(f"{self.folder}/driver.log", "w+", encoding="utf-8") as log, \
                subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True) as run:
            try:
                self.wait_for_start(run, log.name)
                # Documents that are deleted before the first kill are known, too.
                self.read()
                self.kill_repeatedly(run)
                out, _ = run.communicate()
            finally:
                if run.poll() is None:
                    run.kill()
            log.seek(0)
            if run.returncode not in EXIT_CODES or not out.strip():
                raise Wrong(f"the load generator ended with {run.returncode}: {log.read()[-2000:]}")
        return out.strip().splitlines()[-1]

    def kill_repeatedly(self, run):
        """Kills the server at equal distances while the load generator runs."""
        for kill in range(self.length["kills"]):
            try:
                run.wait(self.length["distance_s"])
                raise Wrong(f"the load generator ended after {kill} of {self.length['kills']} kills, with {run.returncode}")
            except subprocess.TimeoutExpired:
                self.server.kill()
                self.server.start()
                self.read()

    def target(self):
        """Writes the file that describes the server. Returns its path."""
        host, port = self.server.address("native")
        with open(f"{self.folder}/password", "w", encoding="utf-8") as text:
            text.write(self.password + "\n")
        path = f"{self.folder}/target.toml"
        with open(path, "w", encoding="utf-8") as text:
            text.write(f'native = "{host}:{port}"\nusers = "mail{{}}@{DOMAIN}"\npassword_file = "password"\n'
                       f'certificate = "{os.path.abspath(self.server.data)}/tls/certificate.pem"\n')
        return path

    def wait_for_start(self, run, log):
        """Waits until the mail files are filled and the run has begun."""
        end = time.monotonic() + PATIENCE_S + len(self.users)
        while not any(name.startswith("N8Mail-") and os.path.exists(f"{self.folder}/{name}/journal.jsonl") for name in os.listdir(self.folder)):
            if run.poll() is not None or time.monotonic() > end:
                with open(log, encoding="utf-8") as text:
                    raise Wrong(f"the load generator does not begin: {text.read()[-2000:]}")
            time.sleep(0.1)

    def drain(self):
        """Waits until the queue is empty."""
        if not self.server.queue_is_empty_within(DRAIN_S):
            raise Wrong(f"the queue does not empty: {self.server.command('queue', 'list')[:2000]}")

    def read(self, is_last=False):
        """Reads the mail of all users: {user: Mail}. While they work, a document that is moved may be met twice."""
        with concurrent.futures.ThreadPoolExecutor(READERS) as readers:
            mail = dict(zip(self.users, readers.map(self.read_user, self.users)))
        twice = [one for found in mail.values() for one in found.twice]
        if is_last and twice:
            raise Wrong(f"documents are in two folders: {twice[:20]}")
        for user, found in mail.items():
            self.seen[user].update({unid: references for unid, (_, references) in found.messages.items()})
        return mail

    def read_user(self, user):
        """Reads the messages of a user over IMAP."""
        host, port = self.server.address("imap")
        mail = Mail()
        with imaplib.IMAP4(host, port, timeout=PATIENCE_S) as client:
            client.starttls()
            client.login(f"mail{user}@{DOMAIN}", self.password)
            for line in client.list()[1]:
                folder = re.search(rb'(?:"([^"]*)"|(\S+))$', line)
                folder = (folder.group(1) or folder.group(2)).decode()
                if client.select(f'"{folder}"', readonly=True)[0] != "OK":
                    continue
                for part in client.fetch("1:*", "(EMAILID BODY.PEEK[])")[1]:
                    if isinstance(part, tuple):
                        unid = re.search(rb"EMAILID \(M([0-9A-Fa-f]{32})", part[0])
                        if not unid:
                            raise Wrong(f"mail{user}: no EMAILID in {part[0][:200]}")
                        unid = unid.group(1).decode().lower()
                        if unid in mail.messages:
                            mail.twice.append((user, unid, mail.messages[unid][0], folder))
                        mail.messages[unid] = folder, references(part[1])
        return mail

    def appointments(self, user):
        """Returns the UNIDs of the appointments of a user."""
        table = f"{self.folder}/appointments-{user}.jsonl"
        self.server.command("db", "export", f"mail/mail{user}.nsf", table, "--formula", 'SELECT Form = "Appointment"', "--columns", "Subject")
        with open(table, encoding="utf-8") as text:
            return {json.loads(line)["$UNID"].lower() for line in text}


def references(raw):
    """Returns the references in the bodies of a message."""
    message = email.message_from_bytes(raw, policy=email.policy.default)
    bodies = [part.get_content() for part in message.walk() if part.get_content_maintype() == "text" and not part.get_filename()]
    return frozenset(REFERENCE.findall("\n".join(bodies)))


class Check:
    """The comparison of the journal with what is there."""

    def __init__(self, kills, journal, mail, appointments):
        self.mail, self.seen, self.found_appointments = mail, kills.seen, appointments
        self.changes = {}
        with open(journal, encoding="utf-8") as text:
            for line in map(json.loads, text):
                self.changes.setdefault(line["change"], {}).update(line)
        self.wrong = []
        # The acknowledged deletions of each user, and all that were asked for.
        self.deleted = collections.defaultdict(set)
        self.maybe_deleted = collections.defaultdict(set)
        # By user: acknowledged additions, and those that were only asked for.
        self.added = collections.Counter()
        self.maybe_added = collections.Counter()

    def run(self):
        """Compares. Returns a summary, or raises `Wrong`."""
        for change in self.of_kind("delete"):
            self.maybe_deleted[change["user"]].add(change["unid"])
            if is_acknowledged(change):
                self.deleted[change["user"]].add(change["unid"])
        self.check_messages()
        self.check_moves()
        for user, mail in self.mail.items():
            self.check_user(user, mail)
        for change in self.of_kind("appointment"):
            if is_acknowledged(change) and change["unid"] not in self.found_appointments[change["user"]]:
                self.wrong.append(f"mail{change['user']}: the acknowledged appointment {change['unid']} is missing")
        if self.wrong:
            raise Wrong(f"{len(self.wrong)} violations:\n" + "\n".join(self.wrong[:20]))
        acknowledged = collections.Counter(change["kind"] for change in self.changes.values() if is_acknowledged(change))
        missing = {"message", "copy", "delete", "move"} - set(acknowledged)
        if missing:
            raise Wrong(f"nothing was acknowledged of {', '.join(sorted(missing))}")
        unknown = len(self.changes) - sum(acknowledged.values())
        return f"{', '.join(f'{count} {kind}' for kind, count in sorted(acknowledged.items()))} acknowledged and there; {unknown} without an answer"

    def of_kind(self, kind):
        """Returns the changes of a kind."""
        return [change for change in self.changes.values() if change["kind"] == kind]

    def check_messages(self):
        """Checks sent messages and their copies."""
        for change in self.of_kind("message"):
            for user in change["to"]:
                self.check_document(change, user, False)
        for change in self.of_kind("copy"):
            self.check_document(change, change["user"], True)

    def check_document(self, change, user, in_sent):
        """Checks a message or a copy in the mail file of a user."""
        reference = change["reference"]
        (self.added if is_acknowledged(change) else self.maybe_added)[user] += 1
        found = self.mail[user].count(reference, in_sent)
        if found > 1:
            self.wrong.append(f"mail{user}: {change} is there {found} times")
        if found or not is_acknowledged(change):
            return
        # It was deleted if a reading has seen it before its deletion. Otherwise the number of documents tells.
        unids = {unid for unid, references in self.seen[user].items() if reference in references}
        if unids and not unids & self.maybe_deleted[user]:
            self.wrong.append(f"mail{user}: the acknowledged {change} was there and is missing")
        if not unids and not self.unseen_deletions(user):
            self.wrong.append(f"mail{user}: the acknowledged {change} is missing")

    def unseen_deletions(self, user):
        """Returns the deletions of documents that no reading has seen."""
        return self.maybe_deleted[user] - set(self.seen[user])

    def check_moves(self):
        """Checks the folder of what was moved, and not moved or deleted again."""
        last = {}
        for change in self.of_kind("move"):
            last[change["user"], change["unid"]] = change
        for (user, unid), change in last.items():
            if not is_acknowledged(change) or unid in self.maybe_deleted[user]:
                continue
            folder, _ = self.mail[user].messages.get(unid, ("no folder", None))
            if folder != change["to"]:
                self.wrong.append(f"mail{user}: {unid} was moved to {change['to']}, and is in {folder}")

    def check_user(self, user, mail):
        """Checks the deletions of a user and the number of documents."""
        there = self.deleted[user] & set(mail.messages)
        if there:
            self.wrong.append(f"mail{user}: acknowledged deletions are there: {sorted(there)}")
        least = DOCUMENTS + self.added[user] - len(self.maybe_deleted[user])
        most = DOCUMENTS + self.added[user] + self.maybe_added[user] - len(self.deleted[user])
        if not least <= len(mail.messages) <= most:
            self.wrong.append(f"mail{user}: {len(mail.messages)} messages are there, and {least} to {most} should be")


def is_acknowledged(change):
    """Returns True if the server has acknowledged a change."""
    return change.get("acknowledged", False)


def run(program, folder, password):
    """Plays N8Mail with kills. Returns the numbers of passed and failed tests."""
    length = LONG if os.environ.get("DOUBLET_SOAK") else SHORT
    try:
        print(f"acknowledged: {Kills(os.path.abspath(program), folder, password, length).run()}", flush=True)
    except Wrong as error:
        print(f"acknowledged: {error}", flush=True)
        return 0, 1
    except Exception:  # The parts after this one run nevertheless.
        print(f"acknowledged: {traceback.format_exc()}", flush=True)
        return 0, 1
    return 1, 0
