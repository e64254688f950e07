"""Messages for the parts of the web mail: what the pages show, in several scripts and sizes."""

import email.headerregistry
import email.message
import email.policy
import email.utils
import imaplib

# The letters of a right-to-left message, and what it shows about directions.
HEBREW, ARABIC = "שלום עולם", "مرحبا بالعالم"
HEBREW_NAME = "דוד לוי"
# A PNG with one pixel.
PIXEL = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63fcffff3f030005fe02fea7"
                      "350ef20000000049454e44ae426082")
# The subject of a message that `pages.mjs` confirms.
CONFIRMED_SUBJECT = "Confirmation wanted"
LONG_WORD = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 3


def letter(sender, recipient, subject, text, **more):
    """Returns a message. `more` may have `html`, `files` (name, type, content) and `fields`."""
    message = email.message.EmailMessage(policy=email.policy.SMTP.clone(utf8=False))
    message["From"] = mailbox(*sender)
    message["To"] = recipient
    message["Subject"] = subject
    message["Date"] = "Mon, 02 Mar 2026 09:30:00 +0000"
    for field, value in more.get("fields", {}).items():
        message[field] = value
    if "Message-ID" not in message:
        message["Message-ID"] = email.utils.make_msgid(domain="acme.test")
    message.set_content(text)
    if more.get("html"):
        message.add_alternative(more["html"], subtype="html")
    for file, kind, content in more.get("files", ()):
        main, _, sub = kind.partition("/")
        message.add_attachment(content, maintype=main, subtype=sub, filename=file)
    return message.as_bytes()


def mailbox(name, address):
    """Returns a mailbox for a header."""
    return email.headerregistry.Address(name, addr_spec=address)


def for_pages(login):
    """Returns messages with everything that a page of a message can show, in the order in which they are stored."""
    first = letter(("Bob", "bob@b.test"), login, "Plan", "The first message of a conversation.", fields={"Message-ID": "<plan@b.test>"})
    second = letter(("Bob", "bob@b.test"), login, "Re: Plan", "The second one.", fields={"In-Reply-To": "<plan@b.test>", "References": "<plan@b.test>"})
    html = "<html><body><h1>Offer</h1><p>With <b>HTML</b> and <a href='https://b.test/'>a link</a>.</p></body></html>"
    files = [("picture.png", "image/png", PIXEL), (f"{LONG_WORD[:120]}.csv", "text/csv", b"1,2\r\n"), ("דוח 2026.pdf", "application/pdf", b"%PDF-1.4")]
    return [
        first,
        second,
        letter(("Shop", "shop@b.test"), login, "With HTML", "The text.", html=html),
        letter(("Bob", "bob@b.test"), login, "With files", "See the files.", files=files),
        letter(("Bob", "bob@b.test"), login, "Long text", "A line of a long text, as messages have it.\r\n" * 1_000),
        letter((LONG_WORD, "long@b.test"), login, LONG_WORD, f"{LONG_WORD}\r\nhttps://b.test/{'path' * 60}\r\n"),
        letter(("Bob", "bob@b.test"), f"{login}, {', '.join(f'person{number}@long-domain-name.b.test' for number in range(40))}", "Many recipients", "Hello."),
        letter(("", "nobody@b.test"), login, "", "A message without a subject."),
        letter(("Bob", "bob@b.test"), login, CONFIRMED_SUBJECT, "Please confirm.", fields=requested("bob@b.test", "<bob@b.test>")),
        letter(("Bob", "bob@b.test"), login, "Confirmation to another address", "Please confirm.", fields=requested(f"{LONG_WORD[:32]}@b.test", "<bob@b.test>")),
        letter(("Bob", "bob@b.test"), login, "Confirmation to an unknown sender", "Please confirm.", fields=requested("bob@b.test")),
    ]


def requested(address, return_path=None):
    """Returns the fields that ask to confirm that the message was displayed."""
    return {"Disposition-Notification-To": address} | ({"Return-Path": return_path} if return_path else {})


def append(server, login, password, folder, messages, flags=""):
    """Stores messages in a folder over IMAP, and creates the folder if it is missing."""
    host, port = server.address("imap")
    with imaplib.IMAP4(host, port, timeout=60) as client:
        client.login(login, password)
        if client.select(f'"{folder}"', readonly=True)[0] != "OK":
            client.create(f'"{folder}"')
        for message in messages:
            done = client.append(f'"{folder}"', flags, None, message)
            if done[0] != "OK":
                raise RuntimeError(f"APPEND: {done}")


# What a sender can put into a name or a subject to turn the direction of what follows: overrides, embeddings and isolates
# that do not end, ends without a beginning, and marks.
TURNING = {"override": "\u202e", "embedding": "\u202b", "isolate": "\u2067", "first strong isolate": "\u2068", "left override": "\u202d",
           "ends": "\u202c\u2069\u202c\u2069", "right mark": "\u200f", "Arabic mark": "\u061c", "letters": HEBREW, "Arabic letters": ARABIC}


def for_directions(login):
    """Returns messages in both directions, and messages whose subjects and senders try to turn what is beside them."""
    lines = f"{HEBREW} 123 (abc)\r\nLatin with {HEBREW} in it.\r\n{ARABIC} https://b.test/x?y=1 {ARABIC}\r\n"
    letters = [
        letter(("Bob", "bob@b.test"), login, "Plain 123", "Plain text.\r\n"),
        letter((HEBREW, "heb@b.test"), login, f"{HEBREW} 2026 (draft)", lines, fields={"Message-ID": "<rtl@b.test>"}),
        letter((ARABIC, "ar@b.test"), login, f"Re: {ARABIC} PDF 12", f"{ARABIC}\r\n"),
        letter(("Bob", "bob@b.test"), [mailbox(HEBREW, "one@b.test"), mailbox("Carol", "carol@b.test"), mailbox(ARABIC, "two@b.test")],
               "Recipients in both directions", "Latin.\r\n"),
        letter(("Bob", "bob@b.test"), login, "Files in both directions", "Latin.\r\n",
               files=[(f"{HEBREW}.pdf", "application/pdf", b"%PDF-1.4"), ("photo\u202egpj.exe", "application/octet-stream", b"MZ")]),
        letter(("Bob", "bob@b.test"), login, f"HTML {HEBREW}", "Latin.\r\n", html=f"<html><body><p>{HEBREW} <b>12</b></p></body></html>"),
    ]
    for what, turning in TURNING.items():
        letters.append(letter((f"Eve {turning}", "eve@b.test"), login, f"Turned by {what} {turning} 123", f"A {turning} 123 b\r\nlast line\r\n"))
    return letters
