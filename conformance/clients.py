"""Sessions with the clients of Python's library (imaplib, smtplib, poplib) and with swaks, as programs use them.

All classes share one fresh server. The users are alice, bob, carol and dora of `demo.test`, with the password in
`server`.
"""

import base64
import email
import email.message
import email.policy
import hmac
import html.parser
import http.cookiejar
import imaplib
import json
import os
import poplib
import shutil
import smtplib
import ssl
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

PATIENCE_S = 20


def trusting():
    """Returns a TLS context that accepts a self-signed certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Session(unittest.TestCase):
    """The base class of all sessions."""

    server = None   # set by conformance/run: a harness.doublet.Doublet with the attributes `password` and `domain`

    def imap(self, user="alice"):
        """Logs in to IMAP."""
        client = imaplib.IMAP4(*self.server.address("imap"), timeout=PATIENCE_S)
        client.login(f"{user}@{self.server.domain}", self.server.password)
        self.addCleanup(client.logout)
        return client

    def submit(self, message, sender="alice", recipients=("bob",), rejected=None):
        """Submits a message, with STARTTLS and a login."""
        with smtplib.SMTP(*self.server.address("submission"), timeout=PATIENCE_S) as client:
            client.starttls(context=trusting())
            client.login(f"{sender}@{self.server.domain}", self.server.password)
            refused = client.sendmail(f"{sender}@{self.server.domain}", [f"{r}@{self.server.domain}" for r in recipients], message)
        self.assertEqual(refused, rejected or {})

    def newest(self, user, subject):
        """Waits until a message with the subject is in the inbox, and returns it."""
        client = self.imap(user)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            client.select("INBOX")
            found = client.uid("search", "SUBJECT", f'"{subject}"')[1][0].split()
            if found:
                return email.message_from_bytes(client.uid("fetch", found[-1].decode(), "(BODY.PEEK[])")[1][0][1], policy=email.policy.default)
            client.noop()
        self.fail(f"{user} has got no message {subject!r}")

    def good(self, answer):
        """Returns the data of a response, which must be OK."""
        self.assertEqual(answer[0], "OK", answer)
        return answer[1]


def letter(subject, text="Hello.\r\n"):
    """Returns a plain message."""
    return f"From: alice@demo.test\r\nTo: bob@demo.test\r\nSubject: {subject}\r\n\r\n{text}".encode()


class ImapSession(Session):
    """imaplib, through the life of a mailbox."""

    def test_a_mailbox_from_its_making_to_its_end(self):
        imap = self.imap()
        self.good(imap.create("Work/2026"))
        for number in range(10):
            flags = "(\\Seen)" if number % 2 else None
            self.good(imap.append("Work/2026", flags, imaplib.Time2Internaldate(time.time()), letter(f"number {number}")))
        self.assertEqual(self.good(imap.select("Work/2026")), [b"10"])
        self.assertEqual(self.good(imap.search(None, "UNSEEN")), [b"1 3 5 7 9"])
        self.assertEqual(self.good(imap.search(None, "SUBJECT", '"number 4"')), [b"5"])
        self.good(imap.store("1:3", "+FLAGS", "(\\Deleted $Label1)"))
        self.assertEqual(self.good(imap.expunge()), [b"1", b"1", b"1"])
        self.good(imap.copy("1:2", "INBOX"))
        self.assertEqual(len(self.good(imap.fetch("1:*", "(UID FLAGS ENVELOPE BODYSTRUCTURE)"))), 7)
        self.good(imap.status("Work/2026", "(MESSAGES UNSEEN UIDNEXT UIDVALIDITY HIGHESTMODSEQ SIZE)"))
        self.good(imap.unselect())
        self.good(imap.rename("Work/2026", "Archive2026"))
        self.good(imap.subscribe("Archive2026"))
        self.good(imap.delete("Archive2026"))
        self.assertEqual(imap.select("Archive2026")[0], "NO")

    def test_messages_come_back_byte_for_byte(self):
        imap = self.imap()
        self.good(imap.create("Exact"))
        odd = [letter("plain"), b"no headers at all", b"A: b\r\n\r\n" + bytes(byte for byte in range(1, 256) if byte not in b"\r\n"), letter("long", "x" * 200_000 + "\r\n")]
        for content in odd:
            self.good(imap.append("Exact", None, None, content))
        self.assertEqual(imap.append("Exact", None, None, b"")[0], "NO", "nothing is no message")
        self.good(imap.select("Exact"))
        for number, content in enumerate(odd, 1):
            self.assertEqual(self.good(imap.fetch(str(number), "(BODY.PEEK[])"))[0][1], content)

    def test_sort_thread_and_search_returns(self):
        imap = self.imap()
        self.good(imap.create("Sorted"))
        for subject in ("beta", "Re: alpha", "alpha", "gamma"):
            self.good(imap.append("Sorted", None, None, letter(subject)))
        self.good(imap.select("Sorted"))
        self.assertEqual(self.good(imap.sort("(SUBJECT)", "UTF-8", "ALL")), [b"2 3 1 4"])
        self.good(imap.thread("ORDEREDSUBJECT", "UTF-8", "ALL"))
        self.good(imap.xatom("SEARCH", "RETURN (MIN MAX COUNT)", "ALL"))
        self.assertIn(b"COUNT 4", imap.response("ESEARCH")[1][0])

    def test_many_writers_to_one_inbox(self):
        """Five IMAP sessions and two deliveries write to one inbox concurrently.

        They wait for each other; no session gets a NO or a 4xx.
        """
        rounds, troubles, kept = 30, [], []

        def change(number):
            client = imaplib.IMAP4(*self.server.address("imap"), timeout=PATIENCE_S)
            self.good(client.login(f"dora@{self.server.domain}", self.server.password))
            self.good(client.select("INBOX"))
            for turn in range(rounds):
                said = self.good(client.append("INBOX", "Label", None, letter(f"writer {number}, {turn}")))
                uid = said[0].split(b"APPENDUID ")[1].split(b"]")[0].split()[1].decode()
                self.good(client.uid("store", uid, "+FLAGS", "(\\Flagged)"))
                self.good(client.uid("store", "1:*", "+FLAGS.SILENT", "(\\Answered)"))
                self.good(client.uid("copy", uid, "Archive"))
                if turn % 2:
                    self.good(client.uid("store", uid, "+FLAGS", "(\\Deleted)"))
                    self.good(client.uid("expunge", uid))
                else:
                    kept.append(uid)
                self.good(client.noop())
            client.logout()

        def deliver(number):
            with smtplib.SMTP(*self.server.address("smtp"), timeout=PATIENCE_S) as client:
                for turn in range(rounds):
                    client.sendmail("stranger@elsewhere.test", [f"dora@{self.server.domain}"], letter(f"delivery {number}, {turn}"))

        def attempt(work, number):
            try:
                work(number)
            except Exception as trouble:    # pylint: disable=broad-except   (asserted below)
                troubles.append(f"{work.__name__} {number}: {trouble!r}")

        threads = [threading.Thread(target=attempt, args=(change, number)) for number in range(5)]
        threads += [threading.Thread(target=attempt, args=(deliver, number)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(troubles, [])
        self.assertEqual(len(set(kept)), 5 * rounds // 2)
        client = self.imap("dora")
        self.assertEqual(int(self.good(client.select("INBOX"))[0]), 5 * rounds // 2 + 2 * rounds)
        self.assertEqual(int(self.good(client.select("Archive"))[0]), 5 * rounds)

    def test_tls_from_the_first_byte(self):
        client = imaplib.IMAP4_SSL(*self.server.address("imap_tls"), ssl_context=trusting(), timeout=PATIENCE_S)
        client.login(f"alice@{self.server.domain}", self.server.password)
        self.good(client.select("INBOX"))
        client.logout()

    def test_a_wrong_password_is_refused(self):
        client = imaplib.IMAP4(*self.server.address("imap"), timeout=PATIENCE_S)
        with self.assertRaises(imaplib.IMAP4.error):
            client.login(f"bob@{self.server.domain}", "not it")
        client.shutdown()


class SmtpSession(Session):
    """smtplib and swaks, and the messages that arrive."""

    def test_a_message_with_an_attachment_arrives_whole(self):
        message = email.message.EmailMessage(policy=email.policy.SMTP)
        message["From"], message["To"], message["Subject"] = "alice@demo.test", "bob@demo.test", "with attachment"
        message["Bcc"] = "carol@demo.test"
        message.set_content("Grüße\n")
        content = os.urandom(300_000)
        message.add_attachment(content, maintype="application", subtype="octet-stream", filename="blob.bin")
        self.submit(message.as_bytes())
        arrived = self.newest("bob", "with attachment")
        self.assertEqual(next(arrived.iter_attachments()).get_content(), content)
        self.assertIsNotNone(arrived["Received"])
        self.assertIsNotNone(arrived["Message-ID"])
        self.assertIsNotNone(arrived["Date"])
        self.assertIsNone(arrived["Bcc"], "a blind copy stays blind")

    def test_several_recipients_get_one_each(self):
        self.submit(letter("to several"), recipients=("alice", "bob", "bob"))
        for user in ("alice", "bob"):
            self.newest(user, "to several")
            client = self.imap(user)
            client.select("INBOX")
            self.assertEqual(len(self.good(client.search(None, "SUBJECT", '"to several"'))[0].split()), 1)

    def test_strangers_may_not_relay(self):
        with smtplib.SMTP(*self.server.address("smtp"), timeout=PATIENCE_S) as client:
            client.ehlo("client.example")
            client.mail("stranger@elsewhere.example")
            self.assertGreaterEqual(client.rcpt("someone@elsewhere.example")[0], 500)
            self.assertEqual(client.rcpt(f"nobody-of-that-name@{self.server.domain}")[0] // 100, 5)
            self.assertEqual(client.rcpt(f"bob@{self.server.domain}")[0], 250)

    def test_lines_that_begin_with_a_dot(self):
        text = ".\r\n..\r\n.hidden\r\nend\r\n"
        self.submit(letter("dots", text))
        self.assertEqual(self.newest("bob", "dots").get_payload(), text)

    @unittest.skipUnless(shutil.which("swaks"), "swaks is not installed")
    def test_swaks_over_tls_and_lmtp(self):
        host, port = self.server.address("submission_tls")
        runs = [["--server", host, "--port", str(port), "--tls-on-connect", "--auth", "PLAIN",
                 "--auth-user", f"alice@{self.server.domain}", "--auth-password", self.server.password],
                ["--socket", f"{self.server.data}/lmtp.sock", "--protocol", "LMTP"]]
        for number, options in enumerate(runs):
            done = subprocess.run(["swaks", "--silent", "2", "--from", f"alice@{self.server.domain}", "--to", f"bob@{self.server.domain}",
                                   "--header", f"Subject: swaks {number}", *options], capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.newest("bob", f"swaks {number}")


class Pop3Session(Session):
    """poplib over the same mailbox."""

    def test_messages_are_listed_read_and_removed(self):
        imap = self.imap("carol")
        for number in range(3):
            self.good(imap.append("INBOX", None, None, letter(f"pop {number}", f"text {number}\r\n.dot\r\n")))
        client = poplib.POP3(*self.server.address("pop3"), timeout=PATIENCE_S)
        client.user(f"carol@{self.server.domain}")
        client.pass_(self.server.password)
        self.assertEqual(client.stat()[0], 3)
        names = [line.split()[1] for line in client.uidl()[1]]
        self.assertEqual(len(set(names)), 3)
        self.assertIn(b".dot", client.retr(2)[1])
        self.assertIn(b"Subject: pop 0", client.top(1, 0)[1])
        client.dele(1)
        client.quit()
        self.good(imap.select("INBOX"))
        self.assertEqual(self.good(imap.search(None, "ALL")), [b"1 2"])

    def test_stls(self):
        client = poplib.POP3(*self.server.address("pop3"), timeout=PATIENCE_S)
        client.stls(context=trusting())
        client.user(f"alice@{self.server.domain}")
        client.pass_(self.server.password)
        client.quit()


class Page(html.parser.HTMLParser):
    """The hidden fields and the texts in `code` elements of a page."""

    def __init__(self, answer):
        super().__init__()
        self.text = answer.read().decode()
        self.fields = {}
        self.codes = []
        self.is_code = False
        self.feed(self.text)

    def handle_starttag(self, tag, attrs):
        """Keeps the value of a hidden field."""
        attributes = dict(attrs)
        self.is_code = tag == "code"
        if tag == "input" and attributes.get("type") == "hidden":
            self.fields[attributes["name"]] = attributes.get("value", "")

    def handle_data(self, data):
        """Keeps the text of a `code` element."""
        if self.is_code:
            self.codes.append(data)
        self.is_code = False


def totp(secret, step):
    """Returns the code of a time step (RFC 6238)."""
    digest = hmac.new(base64.b32decode(secret), step.to_bytes(8), "sha1").digest()
    offset = digest[-1] & 15
    return f"{(int.from_bytes(digest[offset:offset + 4]) & 0x7fffffff) % 1000000:06}"


class LoginSession(Session):
    """A second factor and application passwords: made in the web mail, and used by the clients."""

    USER = "erin"

    def web(self):
        """Returns a browser: a function that gets a page, or sends a form to it with the hidden fields of another."""
        jar = http.cookiejar.CookieJar()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar), urllib.request.ProxyHandler({}))
        base = f"http://localhost:{self.server.port('http')}"

        def visit(path, page=None, **fields):
            body = None if page is None else urllib.parse.urlencode(page.fields | fields).encode()
            try:
                return Page(opener.open(base + path, body, timeout=PATIENCE_S))
            except urllib.error.HTTPError as answer:
                return Page(answer)
        return visit

    def imap_with(self, password):
        """Logs in to IMAP with a password. Raises `imaplib.IMAP4.error` if it is refused."""
        client = imaplib.IMAP4(*self.server.address("imap"), timeout=PATIENCE_S)
        self.addCleanup(client.shutdown)
        client.login(f"{self.USER}@{self.server.domain}", password)
        return client

    def jmap_with(self, authorization):
        """Returns the status and the body of the JMAP session resource."""
        request = urllib.request.Request(f"http://localhost:{self.server.port('http')}/jmap/session")
        request.add_header("Authorization", authorization)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=PATIENCE_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()

    def test_a_second_factor_and_application_passwords(self):
        self.server.add_users([f"{self.USER}@{self.server.domain}"], self.server.password)
        name, password = f"{self.USER}@{self.server.domain}", self.server.password
        before = self.imap_with(password)
        browser = self.web()
        page = browser("/lite/login", browser("/lite/login"), name=name, password=password)
        self.assertIn("Log out", page.text)
        offer = browser("/lite/settings/factor")
        step = int(time.time()) // 30
        codes = browser("/lite/settings/factor", offer, code=totp(offer.fields["secret"], step), password=password).codes
        self.assertEqual(len(codes), 10)
        self.ends(before)
        with self.assertRaisesRegex(imaplib.IMAP4.error, "application password"):
            self.imap_with(password)

        # Logging in needs a code, and each once.
        other = self.web()
        waiting = other("/lite/login", other("/lite/login"), name=name, password=password)
        self.assertIn("authenticator", waiting.text)
        self.assertIn("Log out", other("/lite/login/code", waiting, code=codes[0]).text)
        again = self.web()
        waiting = again("/lite/login", again("/lite/login"), name=name, password=password)
        self.assertIn("wrong", again("/lite/login/code", waiting, code=codes[0]).text)

        made = {}
        for label, fields in (("mail", {"protocol": "imap"}), ("reader", {"protocol": "imap", "reading": "1"}),
                              ("jmap", {"protocol": "jmap"})):
            code = codes[1 + len(made)]
            self.assertEqual(self.add(browser, label, {"password": password} | fields).codes, [], "it needs a code")
            made[label], = self.add(browser, label, {"password": password, "code": code} | fields).codes
        client = self.imap_with(made["mail"])
        self.good(client.append("INBOX", None, None, letter("for the reader")))
        reader = self.imap_with(made["reader"])
        # The library refuses a mailbox that SELECT opens read-only.
        with self.assertRaises(imaplib.IMAP4.readonly):
            reader.select("INBOX")
        self.good(reader.select("INBOX", readonly=True))
        self.assertIn(b"for the reader", self.good(reader.fetch("1", "(BODY[HEADER.FIELDS (SUBJECT)])"))[0][1])
        self.assertEqual(reader.append("INBOX", None, None, letter("x"))[0], "NO")
        with self.assertRaises(imaplib.IMAP4.error):
            self.imap_with(made["jmap"])

        basic = base64.b64encode(f"{name}:{made['jmap']}".encode()).decode()
        for authorization in (f"Basic {basic}", f"Bearer {made['jmap']}"):
            status, session = self.jmap_with(authorization)
            self.assertEqual(status, 200, session)
            self.assertTrue(session["primaryAccounts"])
        main = base64.b64encode(f"{name}:{password}".encode()).decode()
        self.assertEqual(self.jmap_with(f"Basic {main}")[0], 401)
        self.assertEqual(self.jmap_with(f"Bearer {made['mail']}")[0], 401)

        rows = json.loads(self.server.command("app-password", "list", name, "--json"))
        used = {row["name"]: row["used_over"] for row in rows}
        self.assertEqual(used, {"mail": "imap", "reader": "imap", "jmap": "jmap"})
        ids = {row["name"]: row["id"] for row in rows}
        self.server.command("app-password", "revoke", name, ids["mail"])
        self.ends(client)
        self.good(reader.noop())
        with self.assertRaises(imaplib.IMAP4.error):
            self.imap_with(made["mail"])

    @staticmethod
    def add(browser, label, fields):
        """Makes an application password."""
        settings = browser("/lite/settings/security")
        settings.fields.pop("do", None)
        return browser("/lite/settings/security", settings, do="add", name=label, **fields)

    def ends(self, client):
        """Waits until the server has ended a connection."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                client.noop()
            except (imaplib.IMAP4.abort, imaplib.IMAP4.error, OSError):
                return
            time.sleep(0.05)
        self.fail("the connection goes on")
