"""Plays the steps of a script over sockets."""

import re
import socket

from . import meaning

PATIENCE_S = 10


class Connection:
    """A connection that gives whole answers, literals included."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, PATIENCE_S)
        self.file = self.socket.makefile("rb")

    def send(self, lines):
        """Sends lines."""
        self.socket.sendall("".join(line + "\r\n" for line in lines).encode("utf-8"))

    def answer(self):
        """Reads one answer, or gives nothing at the end."""
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
    """The connections of a script; those that it has not named before are made, greeted and logged in as the setup says."""

    def __init__(self, address, replace, greet, login):
        self.address = address
        self.replace = replace
        self.greet = greet
        self.login = login
        self.connections = {}

    def connection(self, session):
        """Gives the connection of a number."""
        if session not in self.connections:
            connection = self.connections[session] = Connection(self.address)
            if self.greet:
                connection.answer()
            if self.login:
                connection.send([f"login LOGIN {self.login[0]} {self.login[1]}"])
                read_answers(connection, [["login OK.*"]])
        return self.connections[session]

    def play(self, steps, unlike=()):
        """Plays steps, and raises `meaning.Unlike` with the place where an answer is not what is expected.

        The answers to the steps at the lines `unlike` are read but not compared.
        """
        for step in steps:
            if step.reconnect:
                self.close()
            connection = self.connection(step.session)
            send = [self.replaced(line) for line in step.send]
            expected = meaning.group(step.expect)
            try:
                connection.send(send)
                if step.line in unlike:
                    read_answers(connection, [[".*"]], send)
                else:
                    meaning.compare(expected, read_answers(connection, expected, send))
            except (meaning.Unlike, OSError) as error:
                raise meaning.Unlike(f"line {step.line}: after {send[:1]}: {error}") from error

    def replaced(self, line):
        """Puts the server's names in the place of the script's."""
        for old, new in self.replace.items():
            line = line.replace(old, new)
        return line

    def close(self):
        """Closes all connections."""
        for connection in self.connections.values():
            connection.close()
        self.connections = {}


def read_answers(connection, expected, send=()):
    """Reads up to the last tagged answer that is expected; without one, a continuation or as many as are expected."""
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
