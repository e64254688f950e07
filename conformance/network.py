"""Network namespaces for servers, joined by pairs of virtual interfaces, whose links can be set down.

Each server has a namespace of its own with an address of its own (198.19.0.0/16), to which there is a route over one link
from each of the others, and over one from this program. A link that is down loses packets without a word, unlike a proxy
that closes connections. The networks are those for measurements (RFC 2544), which nothing else uses.
"""

import contextlib
import itertools
import json
import os
import subprocess
import threading

from faults.resources import Unavailable
from harness.doublet import LISTENERS, Doublet
from harness.processes import Family

PORT = 1352
OUTAGE_S = 2.0
# Seconds for each byte of a cut: links go down within 0.15 s, in which a replication takes place.
SECONDS_PER_BYTE = 0.15 / 60_000


def ip(*words):
    """Runs `ip`."""
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Network:
    """The namespaces of some servers, and the links between them."""

    def __init__(self, names):
        self.names = names
        self.lock = threading.Lock()
        self.made = []
        # The ends of links: for each name, the device in its namespace and the address to which it leads.
        self.ends = {name: [] for name in names}

    def namespace(self, name):
        """Returns the namespace of a server."""
        return f"doublet-{os.getpid()}-{name}"

    def address(self, name):
        """Returns the address of a server."""
        return f"198.19.0.{self.names.index(name) + 1}"

    def __enter__(self):
        try:
            for name in self.names:
                ip("netns", "add", self.namespace(name))
                self.made.append(name)
                self.inside(name, "link", "set", "lo", "up")
                self.inside(name, "address", "add", f"{self.address(name)}/32", "dev", "lo")
            for number, (one, other) in enumerate(itertools.combinations(self.names, 2)):
                self.join(number, one, other)
            for number, name in enumerate(self.names):
                self.join_host(number, name)
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            said = getattr(error, "stderr", None) or error
            raise Unavailable(f"no network namespaces can be made: {str(said).strip()}") from error
        return self

    def __exit__(self, *_):
        for name in self.made:
            # The links vanish with one of their ends.
            subprocess.run(["ip", "netns", "delete", self.namespace(name)], check=False, capture_output=True)

    def inside(self, name, *words):
        """Runs `ip` in the namespace of a server."""
        ip("-n", self.namespace(name), *words)

    def join(self, number, one, other):
        """Joins two servers."""
        devices = [f"to-{other}", f"to-{one}"]
        ip("link", "add", devices[0], "netns", self.namespace(one), "type", "veth", "peer", "name", devices[1], "netns", self.namespace(other))
        for host, (name, device, far) in enumerate(((one, devices[0], other), (other, devices[1], one)), 1):
            self.inside(name, "address", "add", f"198.18.{number}.{host}/30", "dev", device)
            self.ends[name].append((device, self.address(far), f"198.18.{number}.{3 - host}"))
        for name in (one, other):
            self.set_up(name)

    def join_host(self, number, name):
        """Joins a server and this program."""
        device = f"dbl{os.getpid() % 100_000}{name}"
        ip("link", "add", device, "type", "veth", "peer", "name", "to-host", "netns", self.namespace(name))
        network = f"198.18.{100 + number}"
        ip("address", "add", f"{network}.1/30", "dev", device)
        ip("link", "set", device, "up")
        self.inside(name, "address", "add", f"{network}.2/30", "dev", "to-host")
        self.inside(name, "link", "set", "to-host", "up")
        ip("route", "replace", f"{self.address(name)}/32", "via", f"{network}.2")

    def set_down(self, name):
        """Sets the links between a server and the others down."""
        with self.lock:
            for device, _, _ in self.ends[name]:
                self.inside(name, "link", "set", device, "down")

    def set_up(self, name):
        """Sets the links between a server and the others up. The routes went with the links."""
        with self.lock:
            for device, far, via in self.ends[name]:
                self.inside(name, "link", "set", device, "up")
                with contextlib.suppress(subprocess.CalledProcessError):
                    self.inside(name, "route", "replace", f"{far}/32", "via", via, "src", self.address(name))


    def received(self, name):
        """Returns the number of bytes that a server has received from the others."""
        words = ["ip", "-n", self.namespace(name), "-s", "-j", "link", "show"]
        links = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        devices = {device for device, _, _ in self.ends[name]}
        return sum(link["stats64"]["rx"]["bytes"] for link in links if link["ifname"] in devices)

    def limit(self, source, target, rate):
        """Limits what one server sends to another, such as `80mbit`. `None` ends the limit."""
        within = ["ip", "netns", "exec", self.namespace(source), "tc", "qdisc"]
        words = ["add", "dev", f"to-{target}", "root", "tbf", "rate", rate, "burst", "256kb", "latency", "400ms"]
        if rate is None:
            words = ["delete", "dev", f"to-{target}", "root"]
        try:
            subprocess.run([*within, *words], check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or error
            raise Unavailable(f"the rate of a link cannot be limited: {str(said).strip()}") from error


class Links:
    """The links of one server, used like a `Gate`."""

    def __init__(self, network, name):
        self.network = network
        self.name = name
        self.address = f"{network.address(name)}:{PORT}"
        self.open = True
        self.timers = []

    @property
    def is_open(self):
        """Whether the links are up."""
        return self.open

    @is_open.setter
    def is_open(self, is_open):
        self.end_cut()
        self.open = is_open
        (self.network.set_up if is_open else self.network.set_down)(self.name)

    @property
    def bytes_left(self):
        """The number of bytes after which a cut begins is not known here."""
        return None

    @bytes_left.setter
    def bytes_left(self, count):
        """Sets the links down for a moment, soon if the number is small. `None` ends that."""
        self.end_cut()
        if count is not None and self.open:
            begin = count * SECONDS_PER_BYTE
            self.timers = [threading.Timer(begin, self.network.set_down, [self.name]), threading.Timer(begin + OUTAGE_S, self.network.set_up, [self.name])]
            for timer in self.timers:
                timer.start()

    def end_cut(self):
        """Ends a cut that was begun."""
        for timer in self.timers:
            timer.cancel()
            timer.join()
        if self.timers and self.open:
            self.network.set_up(self.name)
        self.timers = []

    def cut(self):
        """Connections end by themselves when their links stay down."""


class NamespacedDoublet(Doublet):
    """A server in a network namespace."""

    def __init__(self, program, folder, settings, network, name):
        every = {f"listen.{listener}": "0.0.0.0:0" for listener in (*LISTENERS, "couchdb")}
        super().__init__(program, folder, settings | every | {"listen.native": f"0.0.0.0:{PORT}"})
        self.host = network.address(name)
        self.enter = ["ip", "netns", "exec", network.namespace(name)]

    def command(self, *words, text=None):
        done = subprocess.run([*self.enter, self.program, *self.options(), *words], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"doublet {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def address(self, listener):
        return self.host, super().address(listener)[1]

    def _launch(self):
        # `ip netns exec` becomes the program, so signals reach it.
        self.family = Family("doublet", [*self.enter, *self.prefix, self.program, *self.options(), "serve"], self._log())
