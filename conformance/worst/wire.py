"""Connections to the server, and what all protocols share: the way in which a request is made and performed."""

import dataclasses
import re
import socket
import time

GONE = (OSError, EOFError)


class TooSlow(Exception):
    """The answer has not come in time."""


class Refused(Exception):
    """The server refused a step that prepares a request, so the request was not sent."""


@dataclasses.dataclass
class Session:
    """What a generator needs to make and send a request: the choices, the meter, the accounts, and the time limit.

    A generator records in `sent` what it sends: first what prepares the request, then the request.
    """

    server: object
    choices: object
    meter: object
    account: object
    patience_s: float
    sent: list = dataclasses.field(default_factory=list)
    # A number that no other request has, for names of things that are created.
    serial: int = 0
    # The database of a request of the native protocol, the calls that undo its effects, and the databases it creates.
    path: str = ""
    undone: list = dataclasses.field(default_factory=list)
    databases: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.patient()

    def patient(self):
        """Sets the time limit of what follows."""
        self.deadline = time.monotonic() + self.patience_s

    def note(self, what, text):
        """Records what is sent: a text, bytes, or a function that returns one of them."""
        self.sent.append((what, text))

    def request(self):
        """Returns what was sent, as a list of bytes."""
        return [(what, encoded(text() if callable(text) else text)) for what, text in self.sent]

    def measure(self, text, send, is_good):
        """Sends the request and measures it. `send` returns the answer."""
        self.note("request", text)
        self.meter.begin()
        self.patient()
        try:
            answer = send()
            self.meter.end(is_good(answer), answer)
        except TooSlow:
            self.meter.end(True, "no answer in time")
        except GONE as error:
            self.meter.end(False, f"the connection ended: {error}")


class Connection:
    """A connection that sends bytes and reads lines until the deadline of its session."""

    def __init__(self, session, listener):
        self.session = session
        if listener == "lmtp":
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(f"{session.server.data}/lmtp.sock")
        else:
            self.socket = socket.create_connection(session.server.address(listener), timeout=20)
        self.buffer, self.place = b"", 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Closes the connection without a farewell."""
        try:
            self.socket.close()
        except OSError:
            pass

    def write(self, data):
        """Sends bytes."""
        view = memoryview(data)
        while view:
            self._limit()
            try:
                view = view[self.socket.send(view[: 1 << 20]) :]
            except TimeoutError as error:
                raise TooSlow from error

    def line(self):
        """Reads a line, without its end."""
        while True:
            end = self.buffer.find(b"\n", self.place)
            if end >= 0:
                line, self.place = self.buffer[self.place : end], end + 1
                return line.rstrip(b"\r")
            self._fill()

    def skip(self, size):
        """Reads and discards bytes."""
        while size > len(self.buffer) - self.place:
            size -= len(self.buffer) - self.place
            self.place = len(self.buffer)
            self._fill()
        self.place += size

    def _fill(self):
        self._limit()
        try:
            data = self.socket.recv(1 << 18)
        except TimeoutError as error:
            raise TooSlow from error
        if not data:
            raise EOFError("the server closed the connection")
        self.buffer, self.place = self.buffer[self.place :] + data, 0

    def _limit(self):
        left = self.session.deadline - time.monotonic()
        if left <= 0:
            raise TooSlow
        self.socket.settimeout(left)


def encoded(text):
    """Returns a text as bytes."""
    return text if isinstance(text, bytes) else text.encode()


def names_in(path, pattern):
    """Returns the names that a source of the server defines. There is at least one."""
    with open(path, encoding="utf-8") as source:
        found = re.findall(pattern, source.read(), re.MULTILINE)
    if not found:
        raise RuntimeError(f"{path}: no verbs found")
    return list(dict.fromkeys(found))
