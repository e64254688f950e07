"""Attachments that wait: the server ends, or is killed, between an upload and sending. What was acknowledged is sent whole.

A file that was uploaded over JMAP and is in no message yet is kept, too.
"""

import email
import email.policy
import random

from .plain import Forms, Person, multipart

SENDER, RECIPIENT = "nina@acme.test", "otto@acme.test"
SIZES = (1, 100_000, 5_000_000)
SAVED, SENT = "The draft was saved.", "The message was sent."


class Wrong(Exception):
    """A file is not whole, or was refused without a reason."""


def run(server, password):
    """Plays with files of several sizes, whose waits a kill and an orderly end interrupt. Returns what to print."""
    server.add_users([SENDER, RECIPIENT], password)
    server.settings["listen.http"] = f"127.0.0.1:{server.port('http')}"
    sender, recipient = Person(server, SENDER, password), Person(server, RECIPIENT, password)
    for size in SIZES:
        for end in (server.kill, server.stop):
            content = random.Random(f"waiting {size}").randbytes(size)
            subject = f"waiting {size} {end.__name__}"
            play = Waiting(sender, recipient, content)
            form = play.save_form(f"{subject} form")
            draft = play.create_draft(f"{subject} draft", sender.upload(content))
            other = play.create_draft(f"{subject} both", sender.upload(content))
            blob = sender.upload(content)
            end()
            server.start()
            play.send_form(form)
            play.submit(draft)
            play.send_opened(f"{subject} both", other)
            play.use_upload(f"{subject} upload", blob)
            for name in ("form", "draft", "both", "upload"):
                play.check_arrived(f"{subject} {name}")
    return f"waiting: passed ({len(SIZES)} sizes, 2 ends)"


class Waiting:
    """One file that waits in every place where it can."""

    def __init__(self, sender, recipient, content):
        self.sender, self.recipient, self.content = sender, recipient, content
        self.boxes = sender.mailboxes()

    def save_form(self, subject):
        """Saves a draft with the file in the composer, and returns the address of the composer with it."""
        fields = dict(Forms.fields(self.sender.page("/lite/compose"), "/lite/compose")) | {"to": RECIPIENT, "subject": subject, "body": "form"}
        body, kind = multipart([*fields.items(), ("do", "save")], [("file", "file.bin", self.content)])
        answer = self.sender.request("POST", "/lite/compose", body, kind)
        if answer.notice() != SAVED:
            raise Wrong(f"the draft was not saved: {answer.status} {answer.text()[:500]}")
        return answer.fields["Location"]

    def send_form(self, path):
        """Sends a draft with the composer."""
        fields = Forms.fields(self.sender.page(path), "/lite/compose")
        answer = self.sender.request("POST", "/lite/compose", *multipart([*fields, ("do", "send")], []))
        if answer.notice() != SENT:
            raise Wrong(f"the draft was not sent: {answer.status} {answer.text()[:2000]}")

    def send_opened(self, subject, draft):
        """Opens a draft that JMAP has created in the composer, and sends it there. It is a draft no longer."""
        box = self.boxes["drafts"]["name"]
        client = self.sender.imap()
        client.select(f'"{box}"', readonly=True)
        uids = client.uid("SEARCH", "SUBJECT", f'"{subject}"')[1][0].split()
        client.logout()
        self.send_form(f"/lite/compose?draft={uids[0].decode()}")
        if self.sender.call("Email/get", {"ids": [draft], "properties": ["id"]})["list"]:
            raise Wrong("a draft that was sent is still there")

    def create_draft(self, subject, blob):
        """Creates a draft with an uploaded file over JMAP. Returns its identifier, or raises `Wrong` with the reason."""
        done = self.set_draft(subject, blob)
        if "d" not in (done.get("created") or {}):
            raise Wrong(f"the draft was refused: {done}")
        return done["created"]["d"]["id"]

    def set_draft(self, subject, blob):
        """Tries to create a draft with an uploaded file over JMAP."""
        draft = {"mailboxIds": {self.boxes["drafts"]["id"]: True}, "keywords": {"$draft": True, "$seen": True}, "from": [{"email": SENDER}],
                 "to": [{"email": RECIPIENT}], "subject": subject, "bodyValues": {"t": {"value": "text"}}, "textBody": [{"partId": "t", "type": "text/plain"}],
                 "attachments": [{"blobId": blob, "type": "application/octet-stream", "name": "file.bin", "disposition": "attachment"}]}
        return self.sender.call("Email/set", {"create": {"d": draft}})

    def submit(self, draft):
        """Sends a draft over JMAP."""
        identity = self.sender.call("Identity/get", {"ids": None})["list"][0]["id"]
        moved = {f"mailboxIds/{self.boxes['drafts']['id']}": None, f"mailboxIds/{self.boxes['sent']['id']}": True, "keywords/$draft": None}
        done = self.sender.call("EmailSubmission/set", {"create": {"s": {"identityId": identity, "emailId": draft}}, "onSuccessUpdateEmail": {"#s": moved}})
        if "s" not in (done.get("created") or {}):
            raise Wrong(f"the draft was not sent: {done}")

    def use_upload(self, subject, blob):
        """Sends a file that was uploaded before."""
        done = self.set_draft(subject, blob)
        refused = (done.get("notCreated") or {}).get("d")
        if refused is not None:
            raise Wrong(f"the upload was refused with {refused}")
        self.submit(done["created"]["d"]["id"])

    def check_arrived(self, subject):
        """Checks that a message has arrived once, and its file whole, and that the copy is the same."""
        found = self.recipient.messages("INBOX", subject)
        if len(found) != 1:
            raise Wrong(f"{subject!r} has arrived {len(found)} times")
        parsed = email.message_from_bytes(found[0], policy=email.policy.default)
        files = [part.get_content() for part in parsed.iter_attachments()]
        if files != [self.content]:
            raise Wrong(f"{subject!r} has files of {list(map(len, files))} bytes and not of {len(self.content)}")
        copies = self.sender.messages(self.boxes["sent"]["name"], subject)
        if len(copies) != 1 or not found[0].endswith(copies[0]):
            raise Wrong(f"{subject!r} has {len(copies)} copies, or one with other bytes")
