"""Three servers that share a mail file, a discussion and the directory, and whose connections replicate by themselves.

Each server is in a network namespace of its own. The work and the faults are those of the part `replication`, with more of
each: Ann makes, renames and fills folders and moves, copies and removes messages over IMAP (`mailboxes.py`), a PouchDB
changes the discussion, and users of different servers send each other mail (`deliveries.py`). Links go down instead of
connections being closed: a server that is cut off gets no answer, and finds out by its own limits. Each server has
connections to both others (`doublet connection add`). Two minutes after the last fault, all replicas must be equal, without
a command, and everything that was acknowledged must be there. Then the checks are those of the part `replication`.

Without root, or without namespaces, the servers have a proxy that cuts connections, as in that part. Without Node and the
npm package, no PouchDB takes part.
"""

import contextlib
import filecmp
import imaplib
import os
import signal
import ssl
import time

import deliveries
import replication
from faults.resources import MB, Unavailable
from mailboxes import Mailboxes
from network import Links, NamespacedDoublet, Network
from replication import DATABASES, NAMES, TALK, Wrong

STEPS = (120, 1_000)
EQUAL_AFTER_S = 120
COMPARE_PAUSE_S = 2
# A server that is cut off stays so for this many steps at most: each replication with it waits for a time limit.
CLOSED_STEPS_MAX = 3
# Number of documents and of messages that each server gets while one is cut off at the end.
LAST_CHANGES = 3
SETTINGS = {"replication.replicators": "2"} | deliveries.SETTINGS
# The time for which a server is stopped in a step, and the number of changes of the others meanwhile.
STOPPED_S = 5.0
STOPPED_CHANGES = 5
# Longer than the limits by which servers find out that a partner is gone: 80 s (ping) and 90 s (silence).
LONG_OUTAGE_S = 100
ATTACHMENT_BYTES = 24 * MB
# The attachment takes some seconds at this rate. The link goes down when so much of it has arrived.
RATE = "40mbit"
ARRIVED_BYTES = 10 * MB
ARRIVAL_PAUSE_S = 0.05
ARRIVAL_TIME_MAX_S = 120


class Member(replication.Member):
    """A server that uses several connections at the same time."""

    def make_server(self, program, folder, settings):
        return super().make_server(program, folder, settings | SETTINGS)


class NamespacedMember(replication.Member):
    """A server in a network namespace, and its links."""

    def __init__(self, program, folder, name, network):
        self.network, self.name = network, name
        super().__init__(program, folder, name)

    def make_server(self, program, folder, settings):
        return NamespacedDoublet(program, folder, settings | SETTINGS, self.network, self.name)

    def make_gate(self):
        return Links(self.network, self.name)


class Cluster(replication.Cluster):
    """The three servers, whose connections replicate."""

    domain = replication.DOMAIN

    def __init__(self, program, folder, password, seed, network, modules):
        self.network = network
        self.closed_steps = 0
        super().__init__(program, folder, password, seed, modules)
        self.mailboxes = Mailboxes(self)
        self.deliveries = deliveries.Deliveries(self)

    def make_member(self, program, folder, name):
        if self.network:
            return NamespacedMember(program, folder, name, self.network)
        return Member(program, folder, name)

    def prepare(self):
        super().prepare()
        for member in self.members:
            for other in self.members:
                if other is not member:
                    member.server.command("connection", "add", other.host, "--every", "1min")

    def step(self):
        self.closed_steps = 0 if all(member.gate.is_open for member in self.members) else self.closed_steps + 1
        if self.closed_steps > CLOSED_STEPS_MAX:
            for member in self.members:
                member.gate.is_open = True
        self.deliveries.refresh()
        super().step()

    def actions(self):
        """Returns what can happen in a step: Ann's mail is used in more ways than in the part `replication`."""
        inherited = [action for action in super().actions() if action not in (self.append, self.mark)]
        return inherited + [self.mail, self.mail, self.deliveries.send, self.deliveries.send]

    def mail(self, member):
        """Changes Ann's mail file over IMAP."""
        self.random.choice(self.mailboxes.actions())(member)

    def append(self, member):
        """Appends a message."""
        self.mailboxes.append(member)

    def add_people(self):
        self.deliveries.prepare()

    def kill(self, member):
        self.deliveries.before_kill(member)
        super().kill(member)

    def back_up(self, member):
        self.deliveries.before_copy(member)
        super().back_up(member)

    def restore(self, member):
        self.deliveries.before_restore(member)
        super().restore(member)

    def halt(self, member):
        """Stops the process of a server while others replicate with it, are changed, and have mail for it."""
        processes = [other.replicate(member, *DATABASES) for other in self.members if other is not member]
        time.sleep(self.random.uniform(0, 0.15))
        member.server.signal(signal.SIGSTOP)
        try:
            end = time.monotonic() + STOPPED_S
            for _ in range(STOPPED_CHANGES):
                other = self.random.choice([one for one in self.members if one is not member])
                self.random.choice((self.edit, self.create, self.append, self.deliveries.send, self.change_directory))(other)
            time.sleep(max(0.0, end - time.monotonic()))
        finally:
            member.server.signal(signal.SIGCONT)
        for process in processes:
            replication.wait_for(process, f"a replication with {member.host}, which was stopped")
        self.counts["stops"] += 1

    def login(self, member, user):
        """Returns a session with IMAP. A server permits a password without encryption only on the loopback interface."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        client = imaplib.IMAP4_SSL(*member.server.address("imap_tls"), ssl_context=context, timeout=replication.IMAP_TIME_MAX_S)
        client.login(f"{user}@{replication.DOMAIN}", self.password)
        return client

    def long_outage(self):
        """Sets the link between two servers down within the transfer of a large attachment, until both have given up.

        The rest must arrive then, and not the whole again. The third server, which would bring the attachment on another
        way, is stopped meanwhile, longer than the limits by which the others find out.
        """
        source, target, third = self.members
        self.end_faults()
        self.network.limit(source.name, target.name, RATE)
        third.server.signal(signal.SIGSTOP)
        try:
            self.transfer_with_outage(source, target)
        finally:
            third.server.signal(signal.SIGCONT)

    def transfer_with_outage(self, source, target):
        """Transfers a large attachment over a link that is down for a time."""
        sent, found = f"{source.server.folder}/large", f"{target.server.folder}/large"
        with open(sent, "wb") as file:
            file.write(os.urandom(ATTACHMENT_BYTES))
        unid = source.as_ann("note", "create", TALK, "Subject=large")["unid"]
        before = self.network.received(target.name)
        source.as_ann("note", "attach", TALK, unid, sent)
        process = target.replicate(source, TALK)
        self.wait_until("the attachment arrives", lambda: self.network.received(target.name) - before > ARRIVED_BYTES)
        target.gate.is_open = False
        time.sleep(LONG_OUTAGE_S)
        before = self.network.received(target.name)
        self.network.limit(source.name, target.name, None)
        target.gate.is_open = True
        replication.wait_for(process, "a replication whose link was down")

        def has_arrived():
            with contextlib.suppress(Wrong):
                target.replicated(source, TALK)
            return target.as_ann("note", "fetch", TALK, unid, "large", "--to", found) is not None

        self.wait_until("the attachment has arrived", has_arrived)
        received = self.network.received(target.name) - before
        if received >= ATTACHMENT_BYTES:
            raise Wrong(f"an attachment of {ATTACHMENT_BYTES} bytes was sent again: {received} bytes after the outage")
        if not filecmp.cmp(sent, found, shallow=False):
            raise Wrong("an attachment that was continued after an outage has another content")
        print(f"cluster: an attachment was continued after {LONG_OUTAGE_S} s: {received} of {ATTACHMENT_BYTES} bytes", flush=True)

    @staticmethod
    def wait_until(what, is_true):
        """Waits for a state. Raises `Wrong` if it does not come about."""
        begin = time.monotonic()
        while not is_true():
            if time.monotonic() - begin > ARRIVAL_TIME_MAX_S:
                raise Wrong(f"not within {ARRIVAL_TIME_MAX_S} s: {what}")
            time.sleep(ARRIVAL_PAUSE_S)

    def settle(self):
        """Ends all faults. The connections of the servers must make all replicas equal."""
        if self.network:
            try:
                self.long_outage()
            except Unavailable as reason:
                print(f"cluster: no long outage: {reason}")
        self.end_faults()
        self.deliveries.send_ahead()
        self.cut_off()
        self.end_faults()
        begin = time.monotonic()
        if self.phone:
            # It brings what it has; the servers do the rest.
            self.sync(self.random.choice(self.members))
        self.laptop.replicated()
        while wrong := self.deliveries.missing() or self.differences() or list(self.mailboxes.differences(self.members)):
            if time.monotonic() - begin > EQUAL_AFTER_S:
                raise Wrong(f"{EQUAL_AFTER_S} s after the last fault: {wrong[:3]}")
            time.sleep(COMPARE_PAUSE_S)
        print(f"cluster: all replicas were equal {time.monotonic() - begin:.0f} s after the last fault", flush=True)
        for member in self.members:
            self.check_contents(member)
            self.check_directory(member)
        self.check_uids()
        self.check_mail()
        # The laptop has no connection, and has not got everything yet, so all replicate once more.
        super().settle()

    def check_messages(self, member):
        for fault in self.mailboxes.faults(member):
            raise Wrong(f"{member.host}: {fault}")

    def check_uids(self):
        for difference in self.mailboxes.differences(self.members):
            raise Wrong(difference)

    def check_mail(self):
        """Checks that each message that users sent each other has arrived exactly once."""
        for fault in self.deliveries.faults():
            raise Wrong(f"{fault}\n{self.story(())}")
        exact, count = self.deliveries.exact()
        print(f"cluster: {exact} of {count} copies of messages had to arrive exactly once, and did", flush=True)

    def cut_off(self):
        """The last fault: a server is cut off while all are changed, so that something is left to replicate."""
        self.random.choice(self.members).gate.is_open = False
        for member in self.members:
            for _ in range(LAST_CHANGES):
                self.edit(member)
                self.create(member)
                self.append(member)
                self.deliveries.send(member)
                self.change_directory(member)

    def differences(self):
        """Returns the rows of databases that differ between two servers."""
        found = []
        for member in self.members:
            for other in self.members:
                if other is not member:
                    with contextlib.suppress(Wrong):
                        found += [row for row in member.replicated(other, *DATABASES, "--compare") if row["different"]]
                        continue
                    found.append(f"{member.host} does not reach {other.host}")
        return found


def run(program, folder, password, modules):
    """Runs the test, with a PouchDB if the folder of its modules is given. Returns the numbers of passed and failed tests."""
    def create(seed, stack):
        network = None
        try:
            network = stack.enter_context(Network(NAMES))
        except Unavailable as reason:
            print(f"cluster: connections are cut by a proxy: {reason}")
        return Cluster(program, folder, password, seed, network, modules)
    return replication.play("cluster", folder, STEPS, create)
