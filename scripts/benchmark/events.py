"""Event sources of JMAP over TLS: the memory of idle ones, and the time from an acknowledged delivery to its event.

Debian builds Cyrus without WebSocket, and this switches its event source off (status 204). There, connections are held on which the Session
object was read: as for an event source, each of them has a process.
Every event source belongs to another person. The clients are sockets of one thread of this program, so their own work is
in the times, but little of it.
"""

import base64
import random
import selectors
import smtplib
import socket
import ssl
import threading
import time

from harness.processes import wait_for

DELIVERIES = 300
# The pause between two deliveries: none of them waits for the events of another one.
PAUSE_S = 0.02
HEADER_BYTES_MAX = 16_384


class Sources:
    """Open event sources, one of each user from 1 on. A thread notes when data arrive."""

    def __init__(self, server, path):
        self.server, self.path = server, path
        self.selector = selectors.DefaultSelector()
        self.arrivals = {}
        self.streams = []
        self.is_ended = False
        self.reader = threading.Thread(target=self._read, daemon=True)

    def open(self, users):
        """Opens the event sources of these users, one after another."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        for user in users:
            name = f"{user}bench" if self.server.name == "Cyrus" else f"{user}bench@bench.test"
            login = base64.b64encode(f"{name}:{self.server.password}".encode()).decode()
            stream = context.wrap_socket(socket.create_connection(("127.0.0.1", self.server.port("https")), 60), server_hostname="localhost")
            stream.sendall((f"GET {self.path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {login}\r\nAccept: text/event-stream\r\n\r\n").encode())
            head = b""
            while b"\r\n\r\n" not in head and len(head) < HEADER_BYTES_MAX:
                piece = stream.recv(4_096)
                if not piece:
                    break
                head += piece
            if b" 200 " not in head.split(b"\r\n", 1)[0] or b"text/event-stream" not in head and self.server.name != "Cyrus":
                raise RuntimeError(f"no event source: {head[:500]!r}")
            stream.setblocking(False)
            self.streams.append(stream)
            self.selector.register(stream, selectors.EVENT_READ, user)

    def listen(self):
        """Begins to note arrivals."""
        self.reader.start()

    def _read(self):
        while not self.is_ended:
            for key, _ in self.selector.select(0.2):
                now = time.monotonic()
                try:
                    while True:
                        data = key.fileobj.recv(65_536)
                        if not data:
                            self.selector.unregister(key.fileobj)
                            break
                        if b"StateChange" in data:
                            self.arrivals.setdefault(key.data, now)
                except (ssl.SSLWantReadError, BlockingIOError):
                    pass

    def close(self):
        """Closes all of them."""
        self.is_ended = True
        if self.reader.is_alive():
            self.reader.join()
        for stream in self.streams:
            stream.close()


def path_of(server):
    """Returns the address of the event source, or that of the Session object for a server that has none."""
    return "/jmap/" if server.name == "Cyrus" else "/jmap/events?types=*&closeafter=no&ping=0"


def memory(server, count):
    """Memory of idle event sources."""
    before = server.memory_kb()
    sources = Sources(server, path_of(server))
    cpu, start = server.cpu_seconds(), time.monotonic()
    try:
        sources.open(range(1, count + 1))
        seconds, cpu = time.monotonic() - start, server.cpu_seconds() - cpu
        time.sleep(2)
        after = server.memory_kb()
    finally:
        sources.close()
    return {"connections": count, "kb_each": (after - before) / count, "server_mb_before": before / 1_024, "opened_per_second": count / seconds,
            "open_cpu_ms": 1e3 * cpu / count}


def latency(server, count, deliveries=DELIVERIES):
    """The time from the acknowledged delivery to a user until the event arrives, with one event source for each of `count` users."""
    sources = Sources(server, path_of(server))
    numbers = random.Random(4)
    times = []
    try:
        sources.open(range(1, count + 1))
        sources.listen()
        with smtplib.SMTP("127.0.0.1", server.port("smtp")) as sender:
            for at in range(deliveries):
                user = numbers.randint(1, count)
                sources.arrivals.pop(user, None)
                message = f"From: sender@elsewhere.test\r\nTo: {user}bench@bench.test\r\nSubject: event {at}\r\n\r\nnow\r\n"
                sender.sendmail("sender@elsewhere.test", [f"{user}bench@bench.test"], message)
                acknowledged = time.monotonic()
                wait_for(f"the event of delivery {at}", lambda user=user: user in sources.arrivals, 30, 0.001)
                times.append(1e3 * (sources.arrivals[user] - acknowledged))
                time.sleep(PAUSE_S)
    finally:
        sources.close()
    times.sort()
    return {"connected": count, "deliveries": deliveries, "p50_ms": times[len(times) // 2], "p99_ms": times[len(times) * 99 // 100], "most_ms": times[-1]}
