"""Debian's mbsync synchronizes a Maildir and a Doublet mailbox in both directions, while both change.

A seed determines rounds of changes: new messages on either side (on the far side with IMAP APPEND, on the near side as
files), flags set and cleared, messages deleted. A sync follows each round, sometimes with a session that changes the
mailbox at the same time. After a last sync without other changes both sides must hold the same messages with the same
flags, byte for byte.
"""

import hashlib
import imaplib
import os
import random
import re
import subprocess
import threading
import unittest

FLAGS = {"F": "\\Flagged", "R": "\\Answered", "S": "\\Seen"}
ROUNDS = 8

CONFIG = """
IMAPAccount far
Host {host}
Port {port}
User {user}
Pass {password}
SSLType None
AuthMechs LOGIN

IMAPStore far
Account far

MaildirStore near
Path {folder}/near/
Inbox {folder}/near/INBOX
SubFolders Verbatim

Channel both
Far :far:
Near :near:
Patterns INBOX "Projects*"
Create Both
Remove Both
Expunge Both
SyncState *
"""


class TwoWaySync(unittest.TestCase):
    """A mailbox and a Maildir."""

    server = None   # set by conformance/run: host, port, user, password, folder

    def setUp(self):
        self.numbers = random.Random(1)
        self.made = 0
        self.folder = self.server["folder"]
        os.makedirs(f"{self.folder}/near")
        with open(f"{self.folder}/mbsyncrc", "w", encoding="ascii") as out:
            out.write(CONFIG.format(**self.server))
        self.imap = imaplib.IMAP4(self.server["host"], self.server["port"])
        self.imap.login(self.server["user"], self.server["password"])

    def tearDown(self):
        self.imap.logout()

    def test_both_sides_stay_the_same(self):
        self.far_append("INBOX", 30)
        self.imap.create("Projects")
        self.far_append("Projects", 5)
        self.sync()
        for round_number in range(ROUNDS):
            for mailbox in ("INBOX", "Projects"):
                self.far_change(mailbox)
                self.near_change(mailbox)
            concurrent = threading.Thread(target=self.far_meanwhile) if round_number % 2 else None
            if concurrent:
                concurrent.start()
            self.sync()
            if concurrent:
                concurrent.join()
        self.sync()
        self.sync()
        for mailbox in ("INBOX", "Projects"):
            far, near = self.far_state(mailbox), self.near_state(mailbox)
            self.assertEqual(far, near)
            self.assertGreater(len(far), 5, "the changes have left something to compare")

    def test_a_folder_made_here_appears_there(self):
        path = f"{self.folder}/near/Projects/2026"
        for part in ("cur", "new", "tmp"):
            os.makedirs(f"{path}/{part}", exist_ok=True)
        self.near_add(path)
        self.sync()
        self.assertEqual(len(self.far_state("Projects/2026")), 1)

    def sync(self):
        """Runs mbsync."""
        done = subprocess.run(["mbsync", "-c", f"{self.folder}/mbsyncrc", "both"], capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def message(self):
        """Returns a message that differs from all others."""
        self.made += 1
        body = "".join(f"line {self.numbers.random()}\r\n" for _ in range(self.numbers.randint(1, 40)))
        return f"From: a@b.test\r\nTo: c@d.test\r\nSubject: number {self.made}\r\nMessage-ID: <{self.made}@b.test>\r\n\r\n{body}".encode()

    def far_append(self, mailbox, count, imap=None):
        """Appends messages to the mailbox."""
        for _ in range(count):
            status, text = (imap or self.imap).append(mailbox, "", None, self.message())
            self.assertEqual(status, "OK", text)

    def far_change(self, mailbox):
        """Changes the mailbox."""
        self.far_append(mailbox, self.numbers.randint(0, 4))
        self.imap.select(mailbox)
        uids = self.imap.uid("search", "ALL")[1][0].split()
        for uid in self.numbers.sample(uids, min(4, len(uids))):
            sign = self.numbers.choice("+-")
            self.imap.uid("store", uid.decode(), f"{sign}FLAGS", f"({self.numbers.choice(list(FLAGS.values()))})")
        if uids and self.numbers.random() < 0.7:
            self.imap.uid("store", self.numbers.choice(uids).decode(), "+FLAGS", "(\\Deleted)")
            self.imap.expunge()
        self.imap.close()

    def far_meanwhile(self):
        """Changes the mailbox during a sync."""
        imap = imaplib.IMAP4(self.server["host"], self.server["port"])
        imap.login(self.server["user"], self.server["password"])
        imap.select("INBOX")
        for _ in range(5):
            imap.append("INBOX", "", None, self.message())
            uids = imap.uid("search", "ALL")[1][0].split()
            imap.uid("store", uids[len(uids) // 2].decode(), "+FLAGS", "(\\Flagged)")
        imap.logout()

    def near_files(self, mailbox):
        """Returns the message files of the Maildir."""
        return [f"{self.folder}/near/{mailbox}/{part}/{name}" for part in ("cur", "new")
                for name in sorted(os.listdir(f"{self.folder}/near/{mailbox}/{part}"))]

    def near_add(self, path):
        """Adds a message to a Maildir."""
        content = self.message().replace(b"\r\n", b"\n")
        with open(f"{path}/cur/{self.made}.near:2,", "wb") as out:
            out.write(content)

    def near_change(self, mailbox):
        """Changes the Maildir."""
        for _ in range(self.numbers.randint(0, 3)):
            self.near_add(f"{self.folder}/near/{mailbox}")
        files = self.near_files(mailbox)
        for path in self.numbers.sample(files, min(3, len(files))):
            stem, _, flags = path.replace("/new/", "/cur/").partition(":2,")
            changed = set(flags) ^ {self.numbers.choice(list(FLAGS))}
            os.rename(path, f"{stem}:2,{''.join(sorted(changed))}")
        files = self.near_files(mailbox)
        if files and self.numbers.random() < 0.7:
            os.remove(self.numbers.choice(files))

    def far_state(self, mailbox):
        """Returns the digest and the flags of each message in the mailbox, sorted."""
        status, _ = self.imap.select(mailbox, readonly=True)
        self.assertEqual(status, "OK", mailbox)
        found = []
        _, answers = self.imap.fetch("1:*", "(FLAGS BODY.PEEK[])")
        for index, answer in enumerate(answers):
            if isinstance(answer, tuple):
                after = answers[index + 1] if index + 1 < len(answers) else b""
                text = answer[0].decode() + (after.decode() if isinstance(after, bytes) else "")
                flags = re.search(r"FLAGS \(([^)]*)\)", text).group(1).split()
                found.append((digest(answer[1]), sorted(flag for flag in flags if flag in FLAGS.values())))
        return sorted(found)

    def near_state(self, mailbox):
        """Returns the digest and the flags of each message in the Maildir, sorted."""
        found = []
        for path in self.near_files(mailbox):
            with open(path, "rb") as content:
                letters = path.partition(":2,")[2]
                found.append((digest(content.read()), sorted(FLAGS[letter] for letter in letters if letter in FLAGS)))
        return sorted(found)


def digest(content):
    """Returns a digest of a message, without the differences of files: LF line ends, and a header that mbsync adds."""
    lines = content.replace(b"\r\n", b"\n").split(b"\n")
    return hashlib.sha256(b"\n".join(line for line in lines if not line.startswith(b"X-TUID:"))).hexdigest()[:16]
