"""Plays the steps of a script over sockets."""

import base64
import re
import socket

from . import meaning

PATIENCE_S = 10


class Connection:
    """A connection that returns complete responses, including literals."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, PATIENCE_S)
        self.file = self.socket.makefile("rb")

    def send(self, lines):
        """Sends lines."""
        self.socket.sendall("".join(line + "\r\n" for line in lines).encode("utf-8"))

    def answer(self):
        """Reads one response. Returns None at the end of the connection."""
        parts = []
        while True:
            line = self.file.readline()
            if not line:
                return None
            parts.append(line)
            literal = re.search(rb"\{(\d+)\}\r\n$", line)
            if not literal:
                return b"".join(parts).decode("utf-8", "surrogateescape").removesuffix("\r\n")
            parts.append(self.file.read(int(literal.group(1))))

    def close(self):
        """Closes the connection."""
        self.file.close()
        self.socket.close()


class Player:
    """The connections of a script. New ones are opened, greeted and logged in as the setup requires."""

    def __init__(self, address, replace, greet, login):
        self.address = address
        self.replace = replace
        self.greet = greet
        self.login = login
        self.connections = {}
        self.needed = set()
        self.heard = Heard()

    def connection(self, session):
        """Returns the connection of a session number. Opens it if it does not exist."""
        if session not in self.connections:
            connection = self.connections[session] = Connection(self.address)
            if self.greet:
                connection.answer()
            if self.login:
                connection.send([f"login LOGIN {self.login[0]} {self.login[1]}"])
                read_answers(connection, [["login OK.*"]])
        return self.connections[session]

    def play(self, steps, unlike=()):
        """Plays steps. Raises `meaning.Unlike` with the line at which a response is not the expected one.

        `unlike` contains, by line, the patterns of responses in which Doublet differs. The lines at which it really
        differs are recorded in `needed`.
        """
        unlike = dict(unlike)
        for step in steps:
            if step.reconnect:
                self.close()
            connection = self.connection(step.session)
            send = initial_response_joined([self.replaced(line) for line in step.send])
            expected = meaning.group(step.expect)
            try:
                connection.send(send)
                difference = unlike.get(step.line)
                answers = read_difference(connection, difference, send) if difference else read_answers(connection, expected, send)
                if self.heard.knows(step.session, send, answers):
                    expected = meaning.without_recent(expected)
                if difference:
                    self.compare_difference(step, difference, expected, answers)
                else:
                    meaning.compare(expected, answers)
            except (meaning.Unlike, OSError) as error:
                raise meaning.Unlike(f"line {step.line}: after {send[:1]}: {error}") from error

    def compare_difference(self, step, ours, expected, answers):
        """Compares responses with the known difference. Records the line if the script expects other responses."""
        meaning.compare_with_ours(ours, expected, answers)
        try:
            meaning.compare(expected, answers)
        except meaning.Unlike:
            self.needed.add(step.line)

    def replaced(self, line):
        """Replaces the names of the script with those of the server, also within SASL PLAIN messages."""
        for old, new in self.replace.items():
            line = line.replace(old, new)
        word = line.split(" ")[-1]
        try:
            plain = base64.b64decode(word, validate=True).decode()
        except ValueError:
            return line
        if "\0" not in plain:
            return line
        for old, new in self.replace.items():
            plain = plain.replace(old, new)
        return line.removesuffix(word) + base64.b64encode(plain.encode()).decode()

    def close(self):
        """Closes all connections."""
        for connection in self.connections.values():
            connection.close()
        self.connections = {}
        self.heard = Heard()


class Heard:
    """The number of messages that each connection has been notified of, by mailbox.

    A connection that selects a mailbox again begins a new session in the sense of RFC 3501 section 1.2. In this
    session, messages that it has been notified of before are not recent. Apache James counts them as recent again.
    """

    def __init__(self):
        self.counts = {}
        self.selected = {}
        self.again = set()

    def knows(self, session, send, answers):
        """Records a command and its responses.

        Returns True if the connection had been notified of all messages of its mailbox before.
        """
        counts = [int(number) for number in re.findall(r"^\* (\d+) EXISTS", "\n".join(answers), re.M | re.I)]
        renamed = re.match(r'\S+ RENAME +"?([^" ]+)"? +"?([^" ]+)"?', send[0], re.I) if send else None
        if renamed and "INBOX" not in renamed.group(1).upper():
            for key in [key for key in self.counts if key[1] == renamed.group(1).lower()]:
                self.counts[key[0], renamed.group(2).lower()] = self.counts.pop(key)
        found = re.match(r'\S+ SELECT +"?([^" ]*)', send[0], re.I) if send else None
        if found and counts:
            key = self.selected[session] = (session, found.group(1).lower())
            (self.again.add if self.counts.get(key, 0) >= counts[-1] > 0 else self.again.discard)(session)
        elif counts:
            self.again.discard(session)
        if counts and session in self.selected:
            self.counts[self.selected[session]] = counts[-1]
        return session in self.again


def initial_response_joined(lines):
    """Rewrites `AUTHENTICATE "PLAIN" {n+}` and its literal with two atoms (RFC 9051 section 9, auth-type; RFC 4959)."""
    found = re.fullmatch(r'(\S+ AUTHENTICATE) "(\w+)" \{\d+\+\}', lines[0] if len(lines) == 2 else "")
    return [f"{found.group(1)} {found.group(2)} {lines[1]}"] if found else lines


def read_difference(connection, ours, send):
    """Reads the responses up to the tagged one, or the untagged BAD in its place."""
    if not ours.startswith("\\* BAD"):
        return read_answers(connection, [[".*"]], send)
    answer = connection.answer()
    return [answer] if answer else []


def read_answers(connection, expected, send=()):
    """Reads the responses up to the last expected tagged one.

    Without a tagged one it reads up to a continuation request, or the expected number of responses.
    """
    tags = [meaning.tag_of(answer) for answer in expected]
    last = next((tag for tag in reversed(tags) if tag), None)
    anything = [answer for answer in expected if answer[0] == ".*"]
    if not last and anything and send:
        last = send[0].split()[0]
    wants_more = any(answer[0].startswith("\\+") for answer in expected)
    answers = []
    while expected:
        answer = connection.answer()
        if answer is None:
            if not any("BYE" in one for one in answers):
                raise meaning.Unlike(f"the server closed the connection after {meaning.shown(answers)}")
            break
        answers.append(answer)
        words = answer.split(" ", 1)
        if words[0] == last or (wants_more and words[0] == "+"):
            break
        if send and words[0] == send[0].split(" ", 1)[0]:
            break
        if not last and not wants_more and len(answers) >= len(expected):
            break
    return answers
