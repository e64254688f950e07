"""A session of web mail: log in, list, open five messages, search, answer one with an attachment, move one, delete one.

The same client (`browser.py`) plays it with the pages of the lite web mail, with what Roundcube's pages and scripts
request, and with JMAP. Roundcube's scripts are not run: the requests are those that its version 1.6 sends with the default
skin. Fonts and images that its style sheets name are left out, because only a real browser knows which ones it needs. Every
step is checked.
"""

import json
import random
import re
import time

from .browser import Browser
from .letters import RARE_WORD

OPENED = 5
ATTACHMENT_BYTES = 100_000
RECIPIENT = "2bench@bench.test"
FOLDER = "Projects"
ANSWER = "Thank you, this is settled.\r\n"


def attachment():
    """Returns the attachment: bytes that do not compress."""
    return random.Random(3).randbytes(ATTACHMENT_BYTES)


def play(kind, server, user):
    """Plays one session. Returns the number of requests and the bytes of the answers."""
    player = {"lite": Lite, "roundcube": RoundcubeSession, "jmap": Jmap}[kind](server, user)
    try:
        player.log_in()
        rows = player.list()
        for row in rows[1:1 + OPENED]:
            player.open(row)
        player.search(RARE_WORD)
        player.answer(rows[1])
        player.move(rows[2])
        player.delete(rows[3])
    finally:
        player.browser.close()
    return {"requests": player.browser.requests, "bytes": player.browser.bytes_received}


def measure(kind, server, users, rounds):
    """Plays sessions of each user, one after another. Returns the processor time of the server and the means of a session."""
    cpu, start = server.cpu_seconds(), time.monotonic()
    found = [play(kind, server, user) for _ in range(rounds) for user in users]
    seconds, count = time.monotonic() - start, len(found)
    return {"sessions": count, "cpu_ms": 1e3 * (server.cpu_seconds() - cpu) / count, "mean_ms": 1e3 * seconds / count,
            **{key: sum(one[key] for one in found) / count for key in ("requests", "bytes")}}


def expect(answer, text):
    """Raises RuntimeError if an answer does not contain a text."""
    if text not in answer.text():
        raise RuntimeError(f"{answer.url}: {text!r} is missing: {answer.text()[:1500]}")


class Lite:
    """The lite web mail."""

    def __init__(self, server, user):
        self.browser = Browser(server.port("https"))
        self.name, self.password = f"{user}bench@bench.test", server.password
        self.inbox = self.page = None

    def log_in(self):
        """Logs in. The answer is the inbox."""
        answer = self.browser.load(self.browser.get("/"))
        _, fields = answer.page().form(action="/lite/login")
        self.inbox = self.browser.load(self.browser.post("/lite/login", fields | {"name": self.name, "password": self.password}))

    def list(self):
        """Returns the links of the first page, which the login has shown."""
        expect(self.inbox, "<h1><bdi>Inbox")
        return self._rows(self.inbox)

    def open(self, row):
        """Shows a message."""
        expect(self.browser.load(self.browser.get(row)), '<dl class="head">')

    def search(self, word):
        """Searches the inbox for a word in the subjects."""
        answer = self.browser.load(self.browser.get(f"/lite/search?q={word}&in=subject&folder={self._folder(self.inbox.url)}"))
        expect(answer, f"{word}</a>")

    def answer(self, row):
        """Answers a message with an attachment."""
        folder, message = row.rsplit("/", 2)[1:]
        compose = self.browser.load(self.browser.get(f"/lite/compose?reply={folder}.{message}"))
        address, fields = compose.page().form(action="/lite/compose")
        fields |= {"to": RECIPIENT, "body": ANSWER + fields["body"], "do": "send"}
        fields.pop("file", None)
        expect(self.browser.load(self.browser.post_files(address, fields, [("file", "figures.bin", "application/octet-stream", attachment())])), "sent")

    def move(self, row):
        """Moves a message to another folder, from the list."""
        fields = self._list_form()
        target = re.search(rf'<option value="([^"]+)">{FOLDER}<', self.page.text())[1]
        self._act(row, fields | {"do": "move", "to": target})

    def delete(self, row):
        """Deletes a message, from the list that the browser shows."""
        self._act(row, self._list_form() | {"do": "delete"})

    def _list_form(self):
        if self.page is None:
            self.page = self.browser.load(self.browser.get(self.inbox.url))
        path = self.inbox.url.removeprefix(self.browser.base).partition("?")[0]
        return self.page.page().form(action=path, method="post")[1]

    def _act(self, row, fields):
        path, _, message = row.rpartition("/")
        self.page = self.browser.load(self.browser.post(path, fields | {"uid": message}))
        if row in self._rows(self.page):
            raise RuntimeError(f"{row} is still in the list")

    @staticmethod
    def _rows(answer):
        return [link["href"] for link in answer.page().links if link.get("id", "").startswith("m")]

    @staticmethod
    def _folder(url):
        return url.partition("?")[0].rpartition("/")[2]


class RoundcubeSession:
    """Roundcube, with the requests that its scripts send."""

    def __init__(self, server, user):
        self.browser = Browser(server.port("https"))
        self.name, self.password = f"{user}bench", server.password
        self.token = None

    def log_in(self):
        """Logs in and loads the page of the mailbox, without its list."""
        _, fields = self.browser.load(self.browser.get("/")).page().form(id="login-form")
        self._mailbox(self.browser.post("/?_task=login", fields | {"_user": self.name, "_pass": self.password, "_timezone": "Europe/Berlin"}))

    def list(self):
        """Returns the UIDs of the first page of the inbox."""
        answer = self._call("GET", "list", {"_mbox": "INBOX", "_page": 1})
        self._call("GET", "getunread", {"_page": 1})
        return re.findall(r"add_message_row\((\d+)", json.loads(answer.text())["exec"])

    def open(self, row):
        """Shows a message in the preview."""
        answer = self.browser.get(f"/?_task=mail&_caps=pdf%3D1%2Cflash%3D0%2Ctiff%3D0%2Cwebp%3D1%2Cpgpmime%3D0&_uid={row}&_mbox=INBOX&_framed=1&_action=preview")
        expect(self.browser.load(answer), 'id="messagebody"')

    def search(self, word):
        """Searches the inbox for a word in the subjects."""
        answer = self._call("GET", "search", {"_q": word, "_headers": "subject", "_filter": "ALL", "_scope": "base", "_interval": "", "_mbox": "INBOX"})
        expect(answer, "add_message_row")

    def answer(self, row):
        """Answers a message with an attachment, and returns to the list."""
        compose = self.browser.load(self.browser.get(f"/?_task=mail&_action=compose&_reply_uid={row}&_mbox=INBOX"))
        address, fields = compose.page().form(name="form")
        upload = f"/?_task=mail&_action=upload&_remote=1&_from=compose&_id={fields['_id']}&_uploadid=upload1&_unlock=0"
        file = ("_attachments[]", "figures.bin", "application/octet-stream", attachment())
        done = self.browser.post_files(upload, {"_token": fields["_token"]}, [file], self._fields())
        number = re.search(r"add2attachment_list\(\"rcmfile([^\"]+)\"", json.loads(done.text())["exec"])[1]
        fields |= {"_to": f"{RECIPIENT}, ", "_message": ANSWER + fields["_message"], "_attachments": number, "_draft": "", "_is_html": "0"}
        sent = self.browser.post(f"{address}&_framed=1&_unlock=msg1", fields)
        expect(sent, "sent_successfully")
        self._mailbox(self.browser.get("/?_task=mail&_mbox=INBOX"))
        self.list()

    def move(self, row, target=FOLDER):
        """Moves a message to another folder."""
        self._call("POST", "move", {"_uid": row, "_mbox": "INBOX", "_target_mbox": target, "_from": "", "_page": 1})

    def delete(self, row):
        """Deletes a message: Roundcube moves it to the trash."""
        self.move(row, "Trash")

    def _mailbox(self, answer):
        self.browser.load(answer)
        self.token = re.search(r'"request_token":"([^"]+)"', answer.text())[1]
        if '"task":"mail"' not in answer.text():
            raise RuntimeError(f"no login: {answer.text()[:500]}")

    def _fields(self):
        return {"X-Requested-With": "XMLHttpRequest", "X-Roundcube-Request": self.token}

    def _call(self, method, action, fields):
        fields = fields | {"_remote": 1, "_unlock": "loading1"}
        if method == "GET":
            query = "&".join(f"{name}={value}" for name, value in fields.items())
            answer = self.browser.get(f"/?_task=mail&_action={action}&{query}", self._fields())
        else:
            answer = self.browser.post(f"/?_task=mail&_action={action}", fields, self._fields())
        if '"error"' in json.loads(answer.text()).get("exec", "").replace(" ", ""):
            raise RuntimeError(f"{action}: {answer.text()[:1000]}")
        return answer


class Jmap:
    """JMAP, as a web mail in the browser would use it: it logs in at the login page, and has the cookie of the session."""

    USING = ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail", "urn:ietf:params:jmap:submission"]
    ROW = ["id", "threadId", "mailboxIds", "keywords", "from", "subject", "receivedAt", "size", "hasAttachment", "preview"]

    def __init__(self, server, user):
        self.lite = Lite(server, user)
        self.browser = self.lite.browser
        self.account = None
        self.boxes = {}
        self.identity = None

    def log_in(self):
        """Logs in and reads the Session object."""
        answer = self.browser.get("/lite/login")
        _, fields = answer.page().form(action="/lite/login")
        done = self.browser.submit("/lite/login", fields | {"name": self.lite.name, "password": self.lite.password})
        if done.status != 303:
            raise RuntimeError(f"login: {done.status}")
        session = json.loads(self.browser.get("/jmap/session").text())
        self.account = session["primaryAccounts"]["urn:ietf:params:jmap:mail"]
        self.boxes = {box["role"] or box["name"]: box["id"] for box in self._call("Mailbox/get", {"ids": None})["list"]}
        self.identity = self._call("Identity/get", {"ids": None})["list"][0]["id"]

    def list(self):
        """Returns the ids of the newest message of the first 50 conversations."""
        found = self._calls([
            ["Email/query", {"filter": {"inMailbox": self.boxes["inbox"]}, "sort": [{"property": "receivedAt", "isAscending": False}],
                             "collapseThreads": True, "limit": 50, "calculateTotal": True}, "0"],
            ["Email/get", {"#ids": {"resultOf": "0", "name": "Email/query", "path": "/ids"}, "properties": self.ROW}, "1"]])
        return [one["id"] for one in found[1][1]["list"]]

    def open(self, row):
        """Reads a message and marks it as read."""
        found = self._calls([
            ["Email/get", {"ids": [row], "properties": [*self.ROW, "to", "cc", "replyTo", "messageId", "references", "bodyValues", "textBody", "htmlBody", "attachments"],
                           "fetchTextBodyValues": True, "fetchHTMLBodyValues": True}, "0"],
            ["Email/set", {"update": {row: {"keywords/$seen": True}}}, "1"]])
        if not found[0][1]["list"][0]["bodyValues"] or row not in found[1][1]["updated"]:
            raise RuntimeError(f"{row} cannot be opened: {found}")
        self.opened = found[0][1]["list"][0]

    def search(self, word):
        """Searches the inbox for a word in the subjects."""
        found = self._calls([
            ["Email/query", {"filter": {"inMailbox": self.boxes["inbox"], "subject": word}, "sort": [{"property": "receivedAt", "isAscending": False}],
                             "collapseThreads": True, "limit": 50}, "0"],
            ["Email/get", {"#ids": {"resultOf": "0", "name": "Email/query", "path": "/ids"}, "properties": self.ROW}, "1"]])
        if not found[1][1]["list"]:
            raise RuntimeError(f"{word} is not found")

    def answer(self, row):
        """Answers a message with an attachment."""
        upload = self.browser.request("POST", f"/jmap/upload/{self.account}/", attachment(), {"Content-Type": "application/octet-stream"})
        blob = json.loads(upload.text())["blobId"]
        draft = {"mailboxIds": {self.boxes["drafts"]: True}, "keywords": {"$draft": True, "$seen": True}, "from": [{"email": self.lite.name}],
                 "to": [{"email": RECIPIENT}], "subject": f"Re: {self.opened['subject']}", "inReplyTo": self.opened["messageId"],
                 "bodyValues": {"t": {"value": ANSWER}}, "textBody": [{"partId": "t", "type": "text/plain"}],
                 "attachments": [{"blobId": blob, "type": "application/octet-stream", "name": "figures.bin", "disposition": "attachment"}]}
        after = {"#s": {f"mailboxIds/{self.boxes['drafts']}": None, f"mailboxIds/{self.boxes['sent']}": True, "keywords/$draft": None}}
        found = self._calls([
            ["Email/set", {"create": {"d": draft}, "update": {row: {"keywords/$answered": True}}}, "0"],
            ["EmailSubmission/set", {"create": {"s": {"identityId": self.identity, "emailId": "#d"}}, "onSuccessUpdateEmail": after}, "1"]])
        if "s" not in (found[1][1].get("created") or {}):
            raise RuntimeError(f"not sent: {found}")

    def move(self, row, target=FOLDER):
        """Moves a message to another mailbox."""
        done = self._call("Email/set", {"update": {row: {"mailboxIds": {self.boxes[target]: True}}}})
        if row not in done["updated"]:
            raise RuntimeError(f"not moved: {done}")

    def delete(self, row):
        """Deletes a message: moves it to the trash."""
        self.move(row, "trash")

    def _call(self, name, arguments):
        return self._calls([[name, arguments, "0"]])[0][1]

    def _calls(self, calls):
        for _, arguments, _ in calls:
            arguments["accountId"] = self.account
        body = json.dumps({"using": self.USING, "methodCalls": calls}).encode()
        answer = self.browser.request("POST", "/jmap/api", body, {"Content-Type": "application/json"})
        found = json.loads(answer.text())["methodResponses"]
        wrong = [one for one in found if one[0] == "error"]
        if wrong:
            raise RuntimeError(f"{calls}: {wrong}")
        return found
