"""Three servers whose connections replicate by themselves, each in a network namespace of its own.

The work and the faults are those of the part `replication`, but links go down instead of connections being closed: a
server that is cut off gets no answer, and finds out by its own limits. Each server has connections to both others
(`doublet connection add`). Two minutes after the last fault, all replicas must be equal, without a command. Then the
checks are those of the part `replication`.

Without root, or without namespaces, the servers have a proxy that cuts connections, as in that part.
"""

import contextlib
import filecmp
import imaplib
import os
import ssl
import time

import replication
from faults.resources import MB, Unavailable
from network import Links, NamespacedDoublet, Network
from replication import DATABASES, NAMES, TALK, Wrong

STEPS = (60, 1_000)
EQUAL_AFTER_S = 120
COMPARE_PAUSE_S = 2
# A server that is cut off stays so for this many steps at most: each replication with it waits for a time limit.
CLOSED_STEPS_MAX = 3
# Number of documents and of messages that each server gets while one is cut off at the end.
LAST_CHANGES = 3
SETTINGS = {"replication.replicators": "2"}
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

    def __init__(self, program, folder, password, seed, network):
        self.network = network
        self.closed_steps = 0
        super().__init__(program, folder, password, seed)

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
        super().step()

    def mailbox(self, member):
        """Opens Ann's inbox. A server permits a password without encryption only on the loopback interface."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        client = imaplib.IMAP4_SSL(*member.server.address("imap_tls"), ssl_context=context, timeout=20)
        client.login(f"ann@{replication.DOMAIN}", self.password)
        client.select("INBOX")
        return client

    def long_outage(self):
        """Sets the link between two servers down within the transfer of a large attachment, until both have given up.

        The rest must arrive then, and not the whole again.
        """
        source, target, third = self.members
        self.end_faults()
        # It would bring the attachment on another way.
        third.server.stop()
        self.network.limit(source.name, target.name, RATE)
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
        third.server.start()

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
        self.cut_off()
        self.end_faults()
        begin = time.monotonic()
        while differences := self.differences():
            if time.monotonic() - begin > EQUAL_AFTER_S:
                raise Wrong(f"{EQUAL_AFTER_S} s after the last fault: {differences[:3]}")
            time.sleep(COMPARE_PAUSE_S)
        print(f"cluster: all replicas were equal {time.monotonic() - begin:.0f} s after the last fault", flush=True)
        # The laptop has no connection, and brings edits of its own, so the servers replicate once more.
        super().settle()

    def cut_off(self):
        """The last fault: a server is cut off while all are changed, so that something is left to replicate."""
        self.random.choice(self.members).gate.is_open = False
        for member in self.members:
            for _ in range(LAST_CHANGES):
                self.edit(member)
                self.create(member)
                self.append(member)

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


def run(program, folder, password):
    """Runs the test. Returns the numbers of passed and failed tests."""
    def create(seed, stack):
        network = None
        try:
            network = stack.enter_context(Network(NAMES))
        except Unavailable as reason:
            print(f"cluster: connections are cut by a proxy: {reason}")
        return Cluster(program, folder, password, seed, network)
    return replication.play("cluster", folder, STEPS, create)
