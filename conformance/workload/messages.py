"""Messages whose content follows from their number, so that a stored message can be compared with the sent one."""

import base64
import random
import re

USERS = ("reader1", "reader2", "reader3")
DOMAIN = "crash.test"
ATTACHMENTS = 8


class Wrong(Exception):
    """A guarantee is violated."""


class Refused(Wrong):
    """The server has refused a command, which must then have changed nothing."""


def lines_of(dice, size):
    """Returns `size` bytes of text, in lines."""
    text = base64.b64encode(dice.randbytes(size * 3 // 4 + 3)).decode()[:size]
    return "\r\n".join(text[start:start + 76] for start in range(0, len(text), 76))


def letter(number):
    """Returns a message that contains its number, of 1 B to 200 KB, sometimes with an attachment shared with others."""
    dice = random.Random(number)
    head = f"From: {USERS[0]}@{DOMAIN}\r\nTo: someone@{DOMAIN}\r\nSubject: number {number} end\r\nMessage-ID: <{number}@crash>\r\n"
    size = dice.choice((1, 1, 50, 500, 2_000, 4_000, 4_095, 4_096, 4_097, 9_000, 20_000, dice.randrange(1, 200_000)))
    text = lines_of(dice, size)
    if dice.random() < 0.7:
        return f"{head}\r\n{text}\r\n".encode()
    which = dice.randrange(ATTACHMENTS)
    attached = lines_of(random.Random(-1 - which), 3_000 * 2 ** (which % 6))
    return (f"{head}MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=cut\r\n\r\n--cut\r\n\r\n{text}\r\n--cut\r\n"
            f"Content-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\r\n{attached}\r\n--cut--\r\n").encode()


def number_of(raw):
    """Returns the number of a stored message. Raises `Wrong` if the message is not complete."""
    found = re.search(rb"^Subject: number (\d+) end\r$", raw, re.MULTILINE)
    if not found:
        raise Wrong(f"this is no message of ours: {raw[:300]!r}")
    number = int(found.group(1))
    if not raw.endswith(letter(number)):
        raise Wrong(f"message {number} is not whole")
    return number
