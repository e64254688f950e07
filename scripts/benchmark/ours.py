"""The Doublet server, with the interface that the works need."""

import re
import time

from harness.doublet import CHEAP_PASSWORDS, Doublet

from .peers import DOMAIN, PASSWORD, USERS


class Ours(Doublet):
    """A server with 5,000 users. Password hashing is set to its minimum, because the peers store clear passwords."""

    password = PASSWORD

    def __init__(self, program, folder, settings=None):
        super().__init__(program, folder, CHEAP_PASSWORDS | {"log.level": "warn"} | (settings or {}))

    def start_with_users(self, users=USERS):
        """Starts the server and creates all users, before the measurement."""
        self.start()
        self.add_domain(DOMAIN)
        self.add_users([f"{number}bench@{DOMAIN}" for number in range(0, users + 1)], PASSWORD)

    def port(self, protocol):
        """Returns the port of `smtp` or `imap`."""
        return self.listeners[protocol][1]

    def memory_kb(self):
        """Returns the memory of the server."""
        return self.family.memory_kb()

    def idle(self):
        """Returns True if all accepted mail is in its mailboxes: it is there before it is accepted."""
        return True

    def request_times_ms(self, path, begin):
        """Returns the times that the server took for requests of a path, from a position of its log on (`log.filter=http=debug`)."""
        with open(self._log(), "rb") as log:
            log.seek(begin)
            lines = [line for line in log.read().decode(errors="replace").splitlines() if path in line]
        return [int(found[1]) / 1e3 for found in (re.search(r"microseconds=(\d+)", line) for line in lines) if found]

    def log_position(self):
        """Returns the position of the log up to which it has been written."""
        return self._log_length()

    def settle(self):
        """Writes data that is only in the transaction log to the files, as the store does by itself after some time."""
        self.command("db", "compact")

    def load(self, number, count, mbox):
        """Imports an mbox. Returns the messages per second and the processor time of a message."""
        cpu, start = self.cpu_seconds(), time.monotonic()
        self.command("import", "mbox", mbox, "--user", f"{number}bench@{DOMAIN}")
        seconds = time.monotonic() - start
        return {"messages": count, "per_second": count / seconds, "cpu_us": 1e6 * (self.cpu_seconds() - cpu) / count}
