"""The cells: one kind of fault each, again and again, on a server that writers of all protocols use.

A cell has one or more servers. Each begins with fresh data and ends with a check of every byte and with `doublet
fixup`. After each fault the writers go on. Then they are stopped, and the data are compared with the models.
"""

import base64
import contextlib
import imaplib
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time

from workload.messages import DOMAIN, Wrong
from workload.writer import GONE

from . import resources
from .load import Findings
from .resources import MB, Filler

RUN_S = (0.2, 1.2)
START_S = (0.0, 0.25)
END_S = 30
LOG_LINES, LOG_COLUMNS = 6, 400
HEALTHY = "No damage was found."


class Cell:
    """One kind of fault. `faults` are their numbers in the short and in the long form.

    `refusals` permits the server to refuse changes, `may_need_restart` to demand a restart.
    """

    name = ""
    faults = (1, 1)
    faults_per_server = 20
    refusals = False
    may_need_restart = False
    settings = {}

    def __init__(self, prepared, seed, is_long):
        self.prepared, self.is_long = prepared, is_long
        self.random = random.Random(f"{self.name} {seed}")
        self.findings = Findings()
        self.done = self.restarts = 0
        self.recovery_s = 0.0
        self.tally = {}
        self.server = self.load = None

    def run(self):
        """Runs the cell."""
        todo = self.faults[self.is_long]
        while self.done < todo:
            with self.surroundings() as (where, prefix):
                self.run_server(min(self.done + self.faults_per_server, todo), where, prefix)

    @contextlib.contextmanager
    def surroundings(self):
        """Yields the folder of the data, or None for the usual one, and the words before the server's command."""
        yield None, ()

    def run_server(self, end, where, prefix):
        """Starts a server with fresh data and injects faults until `end`."""
        self.server = self.prepared.server(f"{self.name}{self.done}", self.settings, prefix, where)
        self.load = self.prepared.load(self.server, self.findings, self.random.random())
        self.load.refusals = self.refusals
        try:
            self.server.start()
            while self.done < end:
                self.done += 1
                self.fault()
                self.load.check()
            self.load.check(whole=True)
            self.server.stop()
            self.check_files()
        finally:
            self.end_load()
            self.server.stop()
            if self.findings.shown:
                self.print_log()
            self.recovery_s = max(self.recovery_s, self.load.recovery_s)
            for field, count in self.load.tally.items():
                self.tally[field] = self.tally.get(field, 0) + count

    def end_load(self):
        """Stops writers that an error has left running. They end with their server."""
        if self.load.writers:
            self.server.stop()
            self.load.end()

    def print_log(self):
        """Prints the last warnings of the server."""
        with open(f"{self.server.folder}/doublet.log", encoding="utf-8", errors="replace") as log:
            warnings = [line for line in log if re.search(r" (WARN|ERROR) ", line)]
        for line in warnings[-LOG_LINES:]:
            print(f"  log: {line[:LOG_COLUMNS].strip()}", flush=True)

    def fault(self):
        """Injects one fault into the server, which works again afterwards. The writers have ended."""
        raise NotImplementedError

    def restart(self):
        """Starts the server again."""
        self.server.stop()
        self.server.start()

    def wait_for_recovery(self, what):
        """Waits until all writers write again. A server that says that it needs a restart is restarted."""
        if self.load.recovers(what):
            return
        if not self.server.is_running():
            self.check_end(what)
        elif self.load.store_is_poisoned() and not self.may_need_restart:
            self.findings.add("wrong", f"the store needs a restart {what}")
        self.restarts += 1
        self.load.end()
        self.restart()
        self.load.begin()
        if not self.load.recovers(f"after the restart {what}"):
            self.findings.add("wrong", f"the store does not work after the restart {what}")

    def check_end(self, what):
        """Records that the server has ended."""
        self.findings.add("wrong", f"the server has ended {what}")

    def check_files(self):
        """Lets the stopped program check all files."""
        output = self.fixup(self.server)
        if HEALTHY not in output:
            self.findings.add("wrong", f"fixup finds: {output}")

    def fixup(self, server):
        """Returns what `doublet fixup` says about a server that is stopped."""
        try:
            return server.command("fixup")
        except RuntimeError as error:
            return str(error)


class Kill(Cell):
    """The server is killed, also while it starts."""

    name = "kill"
    faults = (3, 200)

    def fault(self):
        self.load.begin()
        time.sleep(self.random.uniform(*RUN_S))
        self.server.kill()
        self.load.end()
        while self.random.random() < 0.4:
            self.server.kill_in_start(self.random.uniform(*START_S))
        self.server.start()


class Term(Cell):
    """The server is asked to end while it works."""

    name = "term"
    faults = (2, 30)
    refusals = True

    def fault(self):
        self.load.begin()
        time.sleep(self.random.uniform(*RUN_S))
        self.server.signal(signal.SIGTERM)
        try:
            status = self.server.wait(END_S)
            if status:
                self.findings.add("wrong", f"the server has ended with the status {status} after SIGTERM")
        except subprocess.TimeoutExpired:
            self.findings.add("wrong", f"the server does not end within {END_S} s after SIGTERM")
            self.server.kill()
        self.load.end()
        self.server.start()


class Stop(Cell):
    """The server is stopped for a time that is longer than its clients wait, in the long form."""

    name = "stop"
    faults = (1, 5)
    stopped_s = (2, 25)

    def fault(self):
        self.load.begin()
        time.sleep(self.random.uniform(*RUN_S))
        self.server.signal(signal.SIGSTOP)
        try:
            time.sleep(self.stopped_s[self.is_long])
        finally:
            self.server.signal(signal.SIGCONT)
        self.wait_for_recovery("after SIGCONT")
        self.load.end()


class Full(Cell):
    """Another process fills the file system of the store to the last byte, and frees it again."""

    name = "full"
    faults = (3, 200)
    faults_per_server = 10
    refusals = may_need_restart = True
    size = 512 * MB
    hold_s = ((0, 1.5), (0, 8))
    settings = {"store.disk_reserve": "16MiB", "store.write_buffer": "12MiB", "store.log_size_max": "16MiB"}
    freed = "after there was room again"

    def __init__(self, prepared, seed, is_long):
        super().__init__(prepared, seed, is_long)
        self.where = None

    @contextlib.contextmanager
    def surroundings(self):
        self.where = f"{self.prepared.folder}/{self.name}{self.done}.mount"
        with self.mounted():
            yield self.where, ()

    def mounted(self):
        """Mounts the file system."""
        return resources.file_system(self.where, self.size)

    def fault(self):
        filler = Filler(f"{self.where}/filler")
        work = AdminTask(self.server, f"{self.where}/backup", self.random.choice(("delivery", *AdminTask.requests)))
        self.load.begin()
        time.sleep(self.random.uniform(*RUN_S))
        try:
            work.start()
            time.sleep(self.random.uniform(0, 0.3))
            self.fill(filler, self.random.uniform(*self.hold_s[self.is_long]))
        finally:
            filler.release()
        self.wait_for_recovery(f"{self.freed} ({work.what})")
        work.join(END_S)
        if work.is_alive():
            self.findings.add("wrong", f"{work.what} has not ended {END_S} s {self.freed}")
        self.load.end()

    def fill(self, filler, hold_s):
        """Fills the file system, at once or as a large file that is copied does."""
        filler.fill_space(hold_s, self.random.choice((0, 0.003)))


class Inodes(Full):
    """Another process takes all inodes of the file system of the store, and frees them again."""

    name = "inodes"
    faults = (1, 20)
    freed = "after files could be created again"

    def mounted(self):
        return resources.file_system(self.where, self.size, ("nr_inodes=2000",))

    def fill(self, filler, hold_s):
        filler.fill_files(hold_s)


class Files(Cell):
    """The server may open 256 files, and strangers open as many connections as they can."""

    name = "files"
    faults = (1, 5)
    refusals = True
    settings = {"store.write_buffer": "12MiB", "store.log_size_max": "16MiB"}
    limit, connections = 256, 300
    hold_s = (1.5, 8)

    @contextlib.contextmanager
    def surroundings(self):
        yield None, ("prlimit", f"--nofile={self.limit}:{self.limit}", "--")

    def fault(self):
        self.load.begin()
        time.sleep(self.random.uniform(*RUN_S))
        with contextlib.ExitStack() as held:
            for _ in range(self.connections):
                with contextlib.suppress(OSError):
                    held.enter_context(socket.create_connection(self.server.address("imap"), timeout=1))
            time.sleep(self.hold_s[self.is_long])
        self.wait_for_recovery("after the connections of strangers were closed")
        self.load.end()


class Memory(Cell):
    """The server has 400 MB, and clients send large messages. If the system kills it, that counts as a kill."""

    name = "memory"
    faults = (1, 5)
    refusals = True
    limit = 400 * MB
    message, clients, messages = 20 * MB, 8, (1, 4)

    @contextlib.contextmanager
    def surroundings(self):
        with resources.memory_limit(self.limit) as prefix:
            yield None, prefix

    def fault(self):
        self.load.begin()
        clients = [threading.Thread(target=self.send_large, daemon=True) for _ in range(self.clients)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(END_S * 4)
        self.wait_for_recovery("after large messages were sent")
        self.load.end()

    def check_end(self, what):
        """Checks that the system has killed the server."""
        status = self.server.wait(END_S)
        if status != -signal.SIGKILL:
            self.findings.add("wrong", f"the server has ended with the status {status} {what}")

    def send_large(self):
        """Appends large messages to the mailbox of a user who is not checked."""
        with contextlib.suppress(*GONE, Wrong):
            client = imaplib.IMAP4(*self.server.address("imap"), timeout=END_S)
            client.login(f"ballast@{DOMAIN}", self.load.password)
            for _ in range(self.messages[self.is_long]):
                client.append("INBOX", None, None, b"Subject: ballast\r\n\r\n" + base64.encodebytes(os.urandom(self.message)))
            client.shutdown()


class AdminTask(threading.Thread):
    """A task of the administration that writes much. It may fail while there is no space."""

    requests = {"compaction": {"db": {"compact": {}}}, "rebuild": {"updall": {"rebuild": True}}, "backup": {"backup": {}},
                "collection": {"blobs": {"collect": True, "rebuild": False}}}

    def __init__(self, server, folder, what):
        super().__init__(daemon=True)
        self.server, self.what = server, what
        self.request = self.requests.get(what)
        if what == "backup":
            self.request = {"backup": {"folder": folder, "keep": 1}}

    def run(self):
        if self.request:
            with contextlib.suppress(RuntimeError, *GONE):
                self.server.request(self.request)
