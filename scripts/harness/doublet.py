"""The Doublet server, in a folder of its own, on free ports of the loopback address."""

import concurrent.futures
import json
import os
import socket
import subprocess
import time
import urllib.request

from .processes import Family, wait_for

# The name of the server, also in its certificate.
SERVER_NAME = "mx.bench.test"
LISTENERS = ("smtp", "submission", "submission_tls", "imap", "imap_tls", "pop3", "pop3_tls", "native", "http", "https", "admin")
# The cheapest password hash: the tests and measurements create thousands of users and do not concern hashing.
CHEAP_PASSWORDS = {"directory.password_memory": "8KiB", "directory.password_rounds": "1"}


class Doublet:
    """A Doublet server.

    The server is started with the words of `prefix` before its command, such as those of a program that limits its
    resources. Its data are in `data`, by default in the folder of its log.
    """

    name = "Doublet"

    def __init__(self, program, folder, settings=None, prefix=(), data=None):
        self.program = program
        self.folder = folder
        self.prefix = list(prefix)
        self.data = data or f"{folder}/data"
        self.family = None
        self.listeners = {}
        self.settings = {f"listen.{name}": "127.0.0.1:0" for name in LISTENERS}
        self.settings["listen.lmtp"] = "lmtp.sock"
        self.settings["server.name"] = SERVER_NAME
        self.settings["limits.connections_per_address"] = "100000"
        self.settings.update(settings or {})

    def options(self):
        """Returns the options that every command of the program takes."""
        chosen = [part for key, value in self.settings.items() for part in ("--set", f"{key}={value}")]
        return ["--data", self.data] + chosen

    def command(self, *words, text=None):
        """Runs an administration command and returns its output. Raises RuntimeError if it fails."""
        done = subprocess.run([self.program, *self.options(), *words], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"doublet {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def start(self):
        """Starts the server and waits until it listens. Raises RuntimeError if it ends at once."""
        refusal = self.start_or_refusal()
        if refusal is not None:
            raise RuntimeError(f"the server ended at once: {refusal[-2000:]}")

    def start_or_refusal(self):
        """Starts the server and waits until it has written its listeners to `listeners.json`.

        Returns None, or what the server has logged if it has ended.
        """
        where = f"{self.data}/listeners.json"
        if os.path.exists(where):
            os.remove(where)
        begin = self._log_length()
        self._launch()
        wait_for("listeners.json", lambda: self._listening(where) or self._ended())
        if not self._ended():
            return None
        self.family = None
        with open(self._log(), "rb") as log:
            log.seek(begin)
            return log.read().decode(errors="replace")

    def metrics(self, patience_s):
        """Returns the text of `/metrics`. The server is on this machine, so no proxy is asked."""
        host, port = self.address("admin")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{host}:{port}/metrics", timeout=patience_s) as reply:
            return reply.read().decode()

    def stop(self):
        """Stops the server."""
        if self.family:
            self.family.stop()
            self.family = None

    def kill(self):
        """Kills the server's process, as a power failure would."""
        self.family.process.kill()
        self.family.process.wait()
        self.family = None

    def kill_in_start(self, after_s):
        """Starts the server and kills it after `after_s` seconds, when it may not be ready yet."""
        self._launch()
        time.sleep(after_s)
        self.kill()

    def signal(self, number):
        """Sends a signal to the server's process."""
        self.family.process.send_signal(number)

    def is_running(self):
        """Returns True if the server has been started and its process has not ended."""
        return self.family is not None and not self._ended()

    def wait(self, patience_s):
        """Waits until the server's process has ended, and returns its exit status."""
        status = self.family.process.wait(patience_s)
        self.family = None
        return status

    def address(self, listener):
        """Returns the host and the port of a listener."""
        return self.listeners[listener]

    def port(self, listener):
        """Returns the port of a listener."""
        return self.listeners[listener][1]

    def request(self, request):
        """Sends a request to the control socket of the running server. This is faster than thousands of commands."""
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(60)
            control.connect(f"{self.data}/control.sock")
            control.sendall(json.dumps({"request": request}).encode() + b"\n")
            for line in control.makefile("rb"):
                reply = json.loads(line)
                if "error" in reply:
                    raise RuntimeError(f"doublet: {reply['error']}")
                if "result" in reply:
                    return reply["result"]
        raise RuntimeError("doublet: the control socket gave no result")

    def add_domain(self, domain):
        """Adds a local domain."""
        self.command("domain", "add", domain)

    def add_user(self, address, password):
        """Adds a user."""
        self.request({"user": {"add": {"address": address, "name": None, "aliases": [], "quota": None, "password": password}}})

    def add_users(self, addresses, password):
        """Adds many users, eight at a time. The first one is added with the command line, as operators do."""
        first, *rest = addresses
        self.command("user", "add", first, "--password-stdin", text=password + "\n")
        with concurrent.futures.ThreadPoolExecutor(8) as hands:
            list(hands.map(lambda address: self.add_user(address, password), rest))

    def queue_is_empty_within(self, patience_s):
        """Waits until the queue is empty. Returns False if it is not after `patience_s` seconds."""
        end = time.monotonic() + patience_s
        while json.loads(self.command("queue", "list", "--json")):
            if time.monotonic() > end:
                return False
            time.sleep(0.2)
        return True

    def cpu_seconds(self):
        """Returns the processor time of the server."""
        return self.family.cpu_seconds()

    def disk_bytes(self):
        """Returns the disk usage of the data folder in bytes."""
        out = subprocess.run(["du", "-s", "--block-size=1", self.data], capture_output=True, text=True, check=True)
        return int(out.stdout.split()[0])

    def _launch(self):
        self.family = Family("doublet", [*self.prefix, self.program, *self.options(), "serve"], self._log())

    def _log(self):
        return f"{self.folder}/doublet.log"

    def _log_length(self):
        return os.path.getsize(self._log()) if os.path.exists(self._log()) else 0

    def _ended(self):
        return self.family.process.poll() is not None

    def _listening(self, where):
        try:
            with open(where, encoding="utf-8") as text:
                addresses = json.load(text)
        except (OSError, ValueError):
            return False
        for name, address in addresses.items():
            address = address[0] if isinstance(address, list) else address
            host, colon, port = str(address).rpartition(":")
            if colon and port.isdigit():
                self.listeners[name] = (host.strip("[]"), int(port))
        return bool(self.listeners)
