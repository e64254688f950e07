"""The corpus of hostile messages: `crates/web/tests/data/hostile.txt`, whose head describes its format.

`crates/web/tests/web/corpus.rs` reads the same file for the tests without a browser. Its last line has the number of
messages and of their bytes, so that both readers make the same messages of it.
"""

import os
import re

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "crates/web/tests/data/hostile.txt")
HEAD = "From: Mallory <m@{h}>\\nTo: ann@acme.test\\nSubject: {n} hostile\\nMessage-ID: <{n}@canary.test>\\n"
OTHER_PLACES = ('<iframe src="{0}"></iframe><form action="{0}"><button formaction="{0}">x</button></form>'
                '<svg><a xlink:href="{0}"><text>x</text></a></svg><object data="{0}"></object><area href="{0}">'
                '<table background="{0}"></table><video poster="{0}">')
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]+)\}|(.))")
SIMPLE = {"n": b"\r\n", "r": b"\r", "l": b"\n", "t": b"\t", "0": b"\0", "\\": b"\\"}


def messages():
    """Returns all messages as bytes. The first has the number 1."""
    with open(FILE, encoding="utf-8", newline="\n") as file:
        lines = file.read().removesuffix("\n").split("\n")
    found = []
    for line in lines:
        if line and line[0] not in "#[=":
            for template in templates(line):
                found.append(filled(template, len(found) + 1))
    end = f"= {len(found)} messages, {sum(map(len, found))} bytes"
    if lines[-1] != end:
        raise ValueError(f"the last line of the corpus is {lines[-1]!r} and not {end!r}")
    return found


def templates(line):
    """Returns the messages of a line, with placeholders and escapes."""
    kind, _, content = line.partition(" ")
    parts = content.split(" | ")
    match kind:
        case "html":
            return [of_html(content)]
        case "url":
            places = ('<a href="{0}">x</a>', '<img src="{0}">', OTHER_PLACES)
            return [of_html(place.replace("{0}", content)) for place in places]
        case "style":
            quoted = content.replace('"', "&quot;")
            return [of_html(f'<div style="{quoted}">x</div>'), of_html(f"<style>div{{{content}}}</style><div>x</div>")]
        case "file":
            fields, content = parts
            return [multipart("mixed", "Content-Type: text/plain\\n\\nhostile {n}", f"{fields}\\n\\n{content}")]
        case "related":
            html, fields, content = parts
            return [multipart("related", html_part(html), f"{fields}\\n\\n{content}")]
        case "split":
            first, part, last = parts
            return [multipart("mixed", html_part(first), part, html_part(last))]
        case "head":
            return [f"{content}\\nContent-Type: text/plain; charset=utf-8\\n\\nhostile {{n}}\\n"]
        case "raw":
            return [content]
    raise ValueError(f"a line of the corpus has an unknown kind: {line}")


def of_html(html):
    """Returns a message with one part, which is HTML."""
    return f"{HEAD}Content-Type: text/html; charset=utf-8\\n\\n{html}\\n"


def html_part(html):
    """Returns a part with HTML."""
    return f"Content-Type: text/html\\n\\n{html}"


def multipart(kind, *parts):
    """Returns a message with several parts."""
    shown = "".join(f"--outer\\n{part}\\n" for part in parts)
    return f"{HEAD}Content-Type: multipart/{kind}; boundary=outer\\n\\n{shown}--outer--\\n"


def filled(template, number):
    """Returns the bytes of a message: placeholders and escapes are replaced."""
    host = f"c{number}.canary.test"
    text = template.replace("{u}", f"http://{host}/{number}").replace("{h}", host).replace("{n}", str(number))
    out = bytearray()
    end = 0
    for found in ESCAPE.finditer(text):
        out += text[end:found.start()].encode()
        byte, character, simple = found.groups()
        out += bytes([int(byte, 16)]) if byte else chr(int(character, 16)).encode() if character else SIMPLE[simple]
        end = found.end()
    return bytes(out + text[end:].encode())
