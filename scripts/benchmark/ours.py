"""Our server as one that the works can measure."""

import time

from harness.doublet import CHEAP_PASSWORDS, Doublet

from .peers import DOMAIN, PASSWORD, USERS


class Ours(Doublet):
    """A server with the 5,000 users; passwords are hashed cheaply, because the peers keep theirs in the clear."""

    password = PASSWORD

    def __init__(self, program, folder, settings=None):
        super().__init__(program, folder, CHEAP_PASSWORDS | {"log.level": "warn"} | (settings or {}))

    def start_with_users(self, users=USERS):
        """Starts the server and makes the users, all of them before anything is measured."""
        self.start()
        self.add_domain(DOMAIN)
        self.add_users([f"{number}bench@{DOMAIN}" for number in range(0, users + 1)], PASSWORD)

    def port(self, protocol):
        """Gives the port of `smtp` or `imap`."""
        return self.listeners[protocol][1]

    def memory_kb(self):
        """Gives the memory of the server."""
        return self.family.memory_kb()

    def idle(self):
        """Tells whether all accepted mail has reached its mailboxes: it was there before it was accepted."""
        return True

    def settle(self):
        """Lets the store write what is still only in its log, as it does by itself in time."""
        self.command("db", "compact")

    def load(self, number, count, mbox):
        """Imports an mbox; gives messages a second and processor time for each."""
        cpu, start = self.cpu_seconds(), time.monotonic()
        self.command("import", "mbox", mbox, "--user", f"{number}bench@{DOMAIN}")
        seconds = time.monotonic() - start
        return {"messages": count, "per_second": count / seconds, "cpu_us": 1e6 * (self.cpu_seconds() - cpu) / count}
