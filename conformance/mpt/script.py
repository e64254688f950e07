"""Parses a script into steps.

| line | meaning |
|---|---|
| `C: ` | a line that the client sends |
| `S: ` | a line that the server sends, as a regular expression |
| `SUB {` … `}` | responses in any order |
| `SESSION: n` | the connection of the following lines |
| `REINIT` | new connections from here on |
| `LOG`, `TIMER`, `WAIT`, `AWAIT` | internals of Apache James, ignored |
| `#` | a comment |
"""

import dataclasses
import re

IGNORED = ("LOG", "TIMER", "WAIT", "AWAIT")
NAMING_COMMANDS = ("CREATE|DELETE|RENAME|SELECT|EXAMINE|SUBSCRIBE|UNSUBSCRIBE|LIST|LSUB|XLIST|STATUS|COPY|MOVE|GETQUOTAROOT|APPEND|"
                   "GETACL|SETACL|DELETEACL|MYRIGHTS|LISTRIGHTS")


@dataclasses.dataclass
class Step:
    """Lines to send on a connection, and the expected responses."""

    session: int
    line: int
    send: list
    expect: list
    reconnect: bool = False


class ScriptError(Exception):
    """The script has a line of an unknown kind."""


def parse(text, separator="."):
    """Returns the steps of a script, with the server's hierarchy separator in mailbox names."""
    steps, session, reconnect, block = [], -1, False, False
    for number, line in enumerate(text.splitlines(), 1):
        if block and line.startswith("}"):
            block = False
        elif line.startswith("C:"):
            if not steps or steps[-1].expect or steps[-1].session != session or reconnect:
                steps.append(Step(session, number, [], [], reconnect))
                reconnect = False
            steps[-1].send.append(names_sent(line[3:], separator))
        elif line.startswith("S:"):
            if not steps or steps[-1].session != session:
                steps.append(Step(session, number, [], []))
            steps[-1].expect.append(names_expected(line[3:], separator))
        elif line.startswith("SUB {"):
            block = True
        elif line.startswith("SESSION:"):
            session = int(line.removeprefix("SESSION:"))
        elif line.startswith("REINIT"):
            reconnect = True
        elif line.strip() and not line.startswith("#") and line.split()[0] not in IGNORED:
            raise ScriptError(f"line {number}: {line!r}")
    return steps


def names_sent(line, separator):
    """Rewrites the mailbox names of a command, and removes spaces that the grammar forbids (RFC 9051 section 9)."""
    found = re.match(rf"(\S+ (?:UID )?(?:{NAMING_COMMANDS}|STORE|SEARCH) +)(.*)$", line, re.I)
    if not found:
        return line
    head, rest = found.groups()
    quoted = rest.split('"')
    quoted[::2] = [re.sub(r"(?<=\() +| +(?=\))", "", re.sub(r"  +", " ", plain)) for plain in quoted[::2]]
    rest = '"'.join(quoted)
    if separator == "." or re.search(" (STORE|SEARCH) ", head, re.I):
        return head + rest
    name, space, tail = rest.partition(" ") if " APPEND " in head.upper() else (rest, "", "")
    return head + name.replace(".", separator).replace("&AC4-", "&AC8-") + space + tail


def names_expected(line, separator):
    """Rewrites the mailbox names of an expected response."""
    if separator == "." or not re.match(r"\\\* (LIST|LSUB|XLIST|STATUS|QUOTAROOT|ACL|MYRIGHTS) ", line):
        return line
    line = re.sub(r'(\\?")\\?\.(\\?")', rf"\1{separator}\2", line)
    return re.sub(r"\\\.|(?<=[\w-])\.(?=[\w-])", separator, line)
