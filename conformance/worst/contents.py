"""Texts, messages and lists of addresses from which requests are made.

The contents are repetitive: a unit, repeated up to a size. What is expensive for a server is seldom the variety of what
it reads but its size, its depth, or how often the same is to be done again.
"""

import base64
import binascii

KIB, MIB = 1 << 10, 1 << 20
# Texts that parsers, comparisons and patterns may treat badly. Upper and lower case, accents, surrogates, controls.
UNITS = (
    "a",
    "ab",
    "a ",
    "word ",
    "A",
    "aaaaaaaab",
    "x y ",
    "e\u0301",
    "\u00df",
    "\u0130",
    "\u6f22",
    "\U0001f600",
    "\u0e01\u0e33",
    "\ufb03",
    "a\u0300\u0301\u0302\u0303",
    "*",
    "%",
    "?",
    "(",
    '"',
    "<",
    "\\",
    ",",
    ";",
    "=",
    "=?utf-8?q?=41?= ",
    "&amp;",
    "<b>",
    "1",
    "-1.5e3 ",
    "2024-01-31 ",
    "\t",
)
WORDS = ("minutes", "offer", "order", "contract", "invoice", "plan", "review", "budget", "travel", "absent")
CHARSETS = (
    "utf-8",
    "us-ascii",
    "iso-8859-1",
    "iso-2022-jp",
    "gb18030",
    "big5",
    "euc-kr",
    "shift_jis",
    "utf-16",
    "windows-1252",
    "x-unknown",
)
PARTS_MAX = 12_000
DEPTH_MAX = 300
HEADER_BYTES = 1_000 * KIB


def repeated(unit, size):
    """Returns a unit, repeated up to a size."""
    return (unit * (size // max(len(unit), 1) + 1))[:size]


def text(choices, name, most, units=UNITS):
    """Returns a text of up to `most` bytes."""
    unit = choices.one(f"{name} unit", units)
    return repeated(unit, choices.size(f"{name} characters", max(1, most // len(unit.encode()) * len(unit)), 0))


def word(choices, name):
    """Returns a word that documents have, or do not have."""
    return choices.one(name, WORDS)


def folded(value):
    """Returns the value of a header field in lines of less than 1,000 bytes."""
    return b"\r\n ".join(value[start : start + 900] for start in range(0, len(value), 900)) or b""


def many(count, make, joint=b"", bytes_max=HEADER_BYTES):
    """Returns the texts that `make` creates of the numbers below `count`, as far as they fit."""
    count = min(count, max(1, bytes_max // (len(make(count)) + len(joint))))
    return joint.join(make(number) for number in range(count))


def _fields(choices):
    return many(choices.size("fields", 100_000), lambda number: b"X%d: %d\r\n" % (number, number))


def _same_fields(choices):
    name = choices.one(
        "field",
        (
            b"From",
            b"To",
            b"Subject",
            b"Received",
            b"DKIM-Signature",
            b"Authentication-Results",
            b"ARC-Seal",
            b"List-Id",
            b"Content-Type",
            b"Date",
            b"Bcc",
        ),
    )
    value = choices.one(
        "field value",
        (
            b"a@b.test",
            b"x",
            b"v=1; a=rsa-sha256; d=b.test; s=x; h=from:from:from:to; bh=AAAA; b=AAAA",
            b"text/plain; charset=utf-8",
            b"mx.bench.test; dmarc=pass",
            b"",
        ),
    )
    return many(choices.size("fields", 100_000), lambda number: name + b": " + value + b"\r\n")


def _long_field(choices):
    name = choices.one(
        "field",
        (
            b"From",
            b"To",
            b"Cc",
            b"Subject",
            b"References",
            b"In-Reply-To",
            b"Message-ID",
            b"Content-Type",
            b"Content-Disposition",
            b"Received",
            b"DKIM-Signature",
            b"Date",
            b"X",
        ),
    )
    return name + b": " + folded(text(choices, "field", HEADER_BYTES).encode()) + b"\r\n"


def _addresses(choices):
    form = choices.one(
        "address",
        (
            b"u%d@b.test",
            b'"U %d" <u@b.test>',
            b"g%d: a@b.test, c@b.test;",
            b"(c%d) u@b.test",
            b"=?utf-8?q?=C3=A4%d?= <u@b.test>",
            b"<@a,@b:u%d@b.test>",
        ),
    )
    name = choices.one("field", (b"To", b"From", b"Cc", b"Bcc", b"Reply-To"))
    return name + b": " + many(choices.size("addresses", 40_000), lambda number: form % number, b",\r\n ") + b"\r\n"


def _encoded_words(choices):
    form = choices.one(
        "encoded word",
        (
            b"=?utf-8?q?=41?=",
            b"=?utf-8?b?w6Q=?=",
            b"=?iso-2022-jp?b?GyRCJCIbKEI=?=",
            b"=?gb18030?q?=84=31=A4=37?=",
            b"=?utf-8?q?",
            b"=?x?x?x?=",
        ),
    )
    return b"Subject: " + many(choices.size("encoded words", 60_000), lambda number: form, b"\r\n ") + b"\r\n"


def _nested_comments(choices):
    depth = choices.size("comment depth", 500_000)
    closed = choices.chance("comment closed", 70)
    name = choices.one("field", (b"From", b"To", b"Date", b"Received", b"Content-Type", b"Message-ID"))
    return name + b": " + folded(b"(" * depth + (b")" * depth if closed else b"")) + b" a@b.test\r\n"


def _references(choices):
    different = choices.chance("references differ", 80)
    return (
        b"References: "
        + many(choices.size("references", 30_000), lambda number: b"<%d@b.test>" % (number if different else 0), b"\r\n ")
        + b"\r\n"
    )


def _parameters(choices):
    form = choices.one("parameter", (b"p%d=v", b"name*%d*=%%41", b'name*%d="a"', b"p*=utf-8'en'%%41%%42"))
    return (
        b"Content-Type: text/plain;\r\n "
        + many(choices.size("parameters", 50_000), lambda number: form.replace(b"%d", b"%d" % number), b";\r\n ")
        + b"\r\n"
    )


HEADERS = (
    lambda choices: b"",
    lambda choices: b"",
    lambda choices: b"",
    _fields,
    _same_fields,
    _long_field,
    _addresses,
    _encoded_words,
    _nested_comments,
    _references,
    _parameters,
)


def _plain(choices, most):
    charset = choices.one("charset", CHARSETS).encode()
    encoding = choices.one("encoding", (b"7bit", b"8bit", b"base64", b"quoted-printable"))
    kind = choices.one(
        "media type", (b"text/plain", b"text/html", b"application/octet-stream", b"application/pdf", b"message/delivery-status")
    )
    head = b"Content-Type: " + kind + b"; charset=" + charset + b"\r\nContent-Transfer-Encoding: " + encoding + b"\r\n"
    unit = text(choices, "body unit", 200).encode() or b"x"
    if encoding == b"base64":
        line = binascii.b2a_base64(repeated(unit, 57), newline=False) + b"\r\n"
    elif encoding == b"quoted-printable":
        line = choices.one("quoted", (b"=41" * 24, b"=C3=A4" * 12, b"a" * 72, b"=")) + choices.one("line end", (b"=\r\n", b"\r\n"))
    else:
        line = repeated(unit, choices.size("line", 10_000)) + b"\r\n"
    return head + b"\r\n" + repeated(line, choices.size("body", most))


def _one_line(choices, most):
    return b"\r\n" + repeated(text(choices, "body unit", 100).encode() or b"x", choices.size("body", most))


def _short_lines(choices, most):
    line = choices.one("short line", (b"\r\n", b"\n", b"\r", b".\r\n", b"--\r\n", b"From x\r\n", b" \r\n", b"a: b\r\n"))
    return b"\r\n" + repeated(line, choices.size("body", min(most, 16 * MIB)))


def _flat_parts(choices, most):
    part = choices.one(
        "part",
        (
            b"\r\n\r\nx\r\n",
            b"\r\n",
            b"\r\nContent-Type: text/html\r\n\r\n<p>\r\n",
            b"\r\nContent-Type: message/rfc822\r\n\r\nSubject: x\r\n\r\nx\r\n",
            b"\r\nContent-Disposition: attachment; filename=x\r\nContent-Transfer-Encoding: base64\r\n\r\nAAAA\r\n",
        ),
    )
    count = min(choices.size("parts", PARTS_MAX), most // (len(part) + 8) + 1)
    return b"Content-Type: multipart/mixed; boundary=bb\r\n\r\n" + (b"--bb" + part) * count + b"--bb--\r\n"


def _nested_parts(choices, most):
    depth = choices.size("depth", DEPTH_MAX)
    inner = _short_lines(choices, most // 4) if choices.chance("inner lines", 40) else b"\r\nx\r\n"
    boundary = repeated("b", choices.size("boundary", 900)).encode() if choices.chance("long boundary", 30) else b"b"
    if choices.chance("same boundary", 20):
        names = [boundary] * depth
    else:
        names = [boundary + b"%d" % number for number in range(depth)]
    kind = choices.one("multipart", (b"mixed", b"alternative", b"related", b"digest"))
    head = b"".join(b'Content-Type: multipart/%s; boundary="%s"\r\n\r\n--%s\r\n' % (kind, name, name) for name in names)
    return head + inner + (b"".join(b"\r\n--%s--\r\n" % name for name in reversed(names)) if choices.chance("closed", 80) else b"")


def _nested_messages(choices, most):
    depth = choices.size("depth", DEPTH_MAX)
    head = (
        b"Content-Type: message/rfc822\r\n"
        + (b"X: " + b"x" * choices.size("inner field", 900) + b"\r\n" if choices.chance("inner fields", 50) else b"")
        + b"\r\n"
    )
    return (head * depth)[:most] + b"Subject: inner\r\n\r\n" + repeated(b"x\r\n", choices.size("body", most // 4))


def _almost_boundaries(choices, most):
    boundary = repeated("b", choices.size("boundary", 900)).encode()
    line = choices.one("almost", (b"--" + boundary[:-1], b"--" + boundary + b"x", b"--", b"-", b"--" + boundary + b" " * 900)) + b"\r\n"
    return (
        b'Content-Type: multipart/mixed; boundary="'
        + boundary
        + b'"\r\n\r\n--'
        + boundary
        + b"\r\n\r\n"
        + repeated(line, choices.size("body", most))
    )


def _html(choices, most):
    tag = choices.one(
        "tag", (b"<div>", b"<b>x</b>", b"<!--", b"&amp;", b"&#x41;", b"<table><tr><td>", b"<script>x</script>", b'<a href="', b"<")
    )
    return b"Content-Type: text/html; charset=utf-8\r\n\r\n" + repeated(tag, choices.size("body", most))


BODIES = (_plain, _plain, _one_line, _short_lines, _flat_parts, _nested_parts, _nested_messages, _almost_boundaries, _html)


def message(choices, most, sender="worst@worst.test"):
    """Returns a message of up to about `most` bytes."""
    head = f"From: {sender}\r\nTo: {sender}\r\nSubject: {word(choices, 'subject')}\r\nMIME-Version: 1.0\r\n".encode()
    extra = choices.one("header", HEADERS)(choices) if most > 2 * HEADER_BYTES or most > 4 * KIB and choices.chance("header", 40) else b""
    return head + extra[:most] + choices.one("message", BODIES)(choices, max(most - len(extra), 1_000))


def secret(*parts):
    """Returns texts as a SASL response of PLAIN, in base64."""
    return base64.b64encode(b"\0".join(part.encode() for part in parts))
