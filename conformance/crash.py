"""The crash loop: mail is delivered, relayed and changed over SMTP and IMAP while the server is killed at random times.

After each restart, every acknowledged message must exist once. A message that was in progress at the kill may exist or
not, but must be complete. Every worker keeps a model of its mailboxes (`workload`). An operation without a response
leaves two models, before and after, and the mailboxes must match one of them. Numbers that a client has received stay
valid: a UID is never reused for another message, UIDVALIDITY does not change, UIDNEXT and HIGHESTMODSEQ never decrease.

Mail is sent to users, to a group, and to another Doublet server (the smart host), which is not killed and whose inbox
is counted. No message may be lost on the way. A message may arrive twice only if a kill fell between the end of its
text and the moment when the reply was recorded (RFC 1047); the logs of both servers prove it. Messages have 1 B to
200 KB, some with attachments that other messages have, too, so that blobs are written, shared and collected. Some kills
fall while the server starts. At the end `doublet fixup` must find no damage.

The times of the kills come from a seed, but threads are not repeatable. A failure therefore prints the expected and the
actual state.
"""

import datetime
import json
import os
import random
import re
import time

from workload.imap import Mailboxes, Numbers, Worker, differences, log_in, read_folder, read_mailboxes
from workload.messages import DOMAIN, USERS, Wrong
from workload.smtp import FAR, FAR_DOMAIN, GROUP, GROUP_MEMBERS, Sender
from workload.writer import Target

WORKERS = 3
SENDERS = 3
RUN_S = (0.2, 1.5)
START_S = (0.0, 0.25)
DRAIN_S = 120
READ_PATIENCE_S = 60
# A kill explains a message that arrived twice if it fell close to the time at which the other server accepted it first:
# before this time, if the text had been sent already, or after it, until the reply was received and recorded, which
# takes two syncs.
TAKE_S, COMMIT_S = 0.25, 0.5
TRANSFERS_MAX = 5


class Loop:
    """The server, its smart host, the messages that they have acknowledged, and the kills."""

    refusals = False    # no command of the loop may fail

    def __init__(self, server, far, password, kills, seed=1):
        self.server, self.far, self.password, self.kills = server, far, password, kills
        self.random = random.Random(seed)
        self.promised, self.possible = set(), set()
        self.targets = [Target(f"worker{n}", Mailboxes(f"worker{n}")) for n in range(WORKERS)]
        self.numbers_of = {reader: Numbers(f"{reader}'s INBOX") for reader in (*USERS, FAR)}
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
                hand.stopping.set()
            for hand in crew:
                hand.join(60)
            while self.random.random() < 0.4:
                self.server.kill_in_start(self.random.uniform(*START_S))
                self.killed_at.append(time.time())
                self.killed_in_start += 1
            self.server.start()
            self.check(crew, whole=kill + 1 == self.kills)
            print(f"kill {kill + 1}: {len(self.promised)} deliveries promised, "
                  f"{sum(target.model.size() for target in self.targets)} messages in mailboxes that change", flush=True)
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
        self.server.add_users([f"{user}@{DOMAIN}" for user in (*USERS, *(target.name for target in self.targets))],
                              self.password)
        members = [f"{name}@{DOMAIN}" for name in GROUP_MEMBERS] + [f"{FAR}@{FAR_DOMAIN}"]
        self.server.command("group", "add", f"{GROUP}@{DOMAIN}", *(word for member in members for word in ("--member", member)))
        for target in self.targets:
            client = self.login(self.server, target.name)
            client.create("Work")
            target.model, _ = read_mailboxes(client, target, True)
            client.logout()

    def crew(self):
        """Returns the threads for one round."""
        crew = [Sender(self, self.numbers()) for _ in range(SENDERS)]
        return crew + [Worker(self, [target], self.numbers()) for target in self.targets]

    def numbers(self):
        """Returns unused numbers."""
        self.next_number += 100_000
        return list(range(self.next_number, self.next_number + 100_000))

    def login(self, server, user):
        """Logs in to IMAP."""
        return log_in(server, f"{user}@{FAR_DOMAIN if server is self.far else DOMAIN}", self.password, READ_PATIENCE_S)

    def store_is_poisoned(self):
        """Returns False: no command may be refused."""
        return False

    def check(self, crew, whole):
        """Compares the stored data with the acknowledged changes.

        Messages that were complete in an earlier round are read again only at the end.
        """
        for hand in crew:
            if hand.error:
                raise Wrong(f"{hand}: {hand.error!r}") from hand.error
        for target in self.targets:
            self.check_worker(target, whole)
        for reader in USERS:
            self.check_reader(self.server, reader, whole)

    def check_reader(self, server, reader, whole, again=()):
        """Checks a mailbox that only receives mail: it has every acknowledged message, and each one once.

        The messages in `again` may exist twice.
        """
        client = self.login(server, reader)
        client.enable("CONDSTORE")
        found = [number for number, _ in read_folder(client, "INBOX", self.numbers_of[reader], whole)]
        client.logout()
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

    def check_worker(self, target, whole):
        """Checks that the mailboxes of a worker are in the state before or after the operation in progress."""
        client = self.login(self.server, target.name)
        client.enable("CONDSTORE")
        found, twice = read_mailboxes(client, target, whole)
        client.logout()
        if twice:
            raise Wrong(f"{target.name} has messages twice: {twice}")
        told = target.settle(found, differences)
        if told:
            raise Wrong("; ".join(text for _, text in told))

    def drain(self):
        """Waits until the queue is empty."""
        if not self.server.queue_is_empty_within(DRAIN_S):
            raise Wrong(f"the queue does not empty: {self.server.command('queue', 'list')[:2000]}")

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


def kills():
    """Returns the number of kills."""
    return 50 if os.environ.get("DOUBLET_SOAK") else 3
