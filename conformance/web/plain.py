"""A browser of forms only, and a client of JMAP: requests over plain HTTP, each with a connection of its own.

A connection can be left before the answer, or in the middle of the request, as a browser does whose line breaks.
"""

import html
import html.parser
import http.client
import imaplib
import json
import re
import secrets
import socket
import urllib.parse

TIME_MAX_S = 60
USING = [f"urn:ietf:params:jmap:{name}" for name in ("core", "mail", "submission", "quota")]


class Lost(Exception):
    """There was no answer."""


class Answer:
    """An answer: its status, its header fields and its content."""

    def __init__(self, reply):
        self.status, self.fields, self.content = reply.status, reply.headers, reply.read()

    def text(self):
        """Returns the content as text."""
        return self.content.decode()

    def notice(self):
        """Returns what the page says to which the answer leads, or an empty text."""
        query = urllib.parse.urlsplit(self.fields.get("Location") or "").query
        return dict(urllib.parse.parse_qsl(query)).get("done", "").removeprefix("t.")


class Forms(html.parser.HTMLParser):
    """The forms of a page: their addresses, and the fields that a browser sends if nothing is changed.

    Check boxes are sent if they are checked, buttons and empty files are not sent.
    """

    def __init__(self, page):
        super().__init__()
        self.forms = []
        self.text_of = None
        self.feed(page)

    @classmethod
    def fields(cls, page, action):
        """Returns the fields of the first form with an address, as pairs."""
        return next(fields for address, fields in cls(page).forms if address == action)

    def handle_starttag(self, tag, attrs):
        """Keeps a form, or a field of it."""
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append((attributes.get("action"), []))
        elif tag == "input" and attributes.get("type") not in ("file",):
            is_box = attributes.get("type") == "checkbox"
            if not is_box or "checked" in attributes:
                self.forms[-1][1].append((attributes["name"], attributes.get("value", "")))
        elif tag == "textarea":
            self.text_of = attributes["name"]
            self.forms[-1][1].append((self.text_of, ""))

    def handle_data(self, data):
        """Keeps the text of a field."""
        if self.text_of:
            name, known = self.forms[-1][1][-1]
            self.forms[-1][1][-1] = (name, known + data)

    def handle_endtag(self, tag):
        """Ends a field with a text, which begins behind a line end."""
        if tag == "textarea":
            name, text = self.forms[-1][1][-1]
            self.forms[-1][1][-1] = (name, text.removeprefix("\n"))
            self.text_of = None


class Person:
    """Somebody who is logged in at the web mail."""

    def __init__(self, server, login, password):
        self.server, self.login, self.password = server, login, password
        self.cookies = {}
        self.account = None
        self.enter()

    def base(self):
        """Returns the address of the server."""
        return f"http://localhost:{self.server.port('http')}"

    def enter(self):
        """Logs in."""
        page = self.get("/lite/login").text()
        answer = self.post("/lite/login", [*Forms.fields(page, "/lite/login")[:1], ("name", self.login), ("password", self.password)])
        if answer.status != 303:
            raise RuntimeError(f"the login of {self.login} was answered with {answer.status}: {answer.text()[:500]}")

    def get(self, path):
        """Requests a page. Raises `Lost` if there is no answer."""
        return self.request("GET", path)

    def page(self, path):
        """Returns the text of a page, which must exist."""
        answer = self.get(path)
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {answer.text()[:500]}")
        return answer.text()

    def post(self, path, fields):
        """Sends a form without files. Raises `Lost` if there is no answer."""
        return self.request("POST", path, urllib.parse.urlencode(fields).encode(), "application/x-www-form-urlencoded")

    def request(self, method, path, body=b"", kind=None):
        """Sends a request and returns its answer. Raises `Lost` if there is none."""
        try:
            with socket.create_connection(("127.0.0.1", self.server.port("http")), timeout=TIME_MAX_S) as line:
                line.sendall(self.bytes_of(method, path, body, kind))
                reply = http.client.HTTPResponse(line, method=method)
                reply.begin()
                answer = Answer(reply)
        except (OSError, http.client.HTTPException) as error:
            raise Lost(str(error)) from error
        for cookie in answer.fields.get_all("Set-Cookie", []):
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        return answer

    def leave(self, path, body, kind, length):
        """Sends the first bytes of a request, or all of it, and closes the connection without reading the answer.

        The request is whole if `length` is None.
        """
        try:
            with socket.create_connection(("127.0.0.1", self.server.port("http")), timeout=TIME_MAX_S) as line:
                line.sendall(self.bytes_of("POST", path, body, kind)[:length])
        except OSError:
            pass

    def bytes_of(self, method, path, body, kind):
        """Returns the bytes of a request."""
        base = self.base()
        fields = [f"{method} {path} HTTP/1.1", f"Host: {base.removeprefix('http://')}", "Connection: close", "Accept-Encoding: identity"]
        if self.cookies:
            fields.append("Cookie: " + "; ".join(f"{name}={value}" for name, value in self.cookies.items() if value))
        if method == "POST":
            fields += [f"Origin: {base}", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
        return "\r\n".join([*fields, "", ""]).encode() + body

    def folders(self):
        """Returns the folders that the web mail shows: their numbers and counts of messages, by name."""
        rows = re.findall(r'<tr><th scope="row" dir="auto"><a href="/lite/folder/(\d+)">([^<]*)</a></th><td>[\d,]+</td><td>([\d,]+)</td>',
                          self.page("/lite/folders"))
        return {html.unescape(name): (int(number), int(count.replace(",", ""))) for number, name, count in rows}

    def calls(self, *calls):
        """Executes calls of JMAP. Returns their responses. Raises `Lost` if there is no answer."""
        answer = self.request("POST", "/jmap/api", self.body_of(calls), "application/json")
        if answer.status != 200:
            raise RuntimeError(f"JMAP: {answer.status} {answer.text()[:500]}")
        return [(name, response) for name, response, _ in json.loads(answer.content)["methodResponses"]]

    def leave_calls(self, *calls):
        """Sends calls of JMAP, and closes the connection without reading the answer."""
        self.leave("/jmap/api", self.body_of(calls), "application/json", None)

    def body_of(self, calls):
        """Returns the body of a request with calls of JMAP."""
        named = [[name, {"accountId": self.account_id()} | arguments, str(number)] for number, (name, arguments) in enumerate(calls)]
        return json.dumps({"using": USING, "methodCalls": named}).encode()

    def account_id(self):
        """Returns the identifier of the account of JMAP."""
        if self.account is None:
            session = json.loads(self.get("/jmap/session").content)
            self.account = session["primaryAccounts"]["urn:ietf:params:jmap:mail"]
        return self.account

    def call(self, name, arguments):
        """Executes a call of JMAP, and returns its response. Raises RuntimeError for an error of the method."""
        found, response = self.calls((name, arguments))[0]
        if found == "error":
            raise RuntimeError(f"{name}: {response}")
        return response

    def upload(self, content):
        """Uploads a file over JMAP, and returns the identifier of its blob."""
        answer = self.request("POST", f"/jmap/upload/{self.account_id()}/", content, "application/octet-stream")
        return json.loads(answer.content)["blobId"]

    def mailboxes(self):
        """Returns the mailboxes of JMAP by role, and those without a role by name."""
        return {box["role"] or box["name"]: box for box in self.call("Mailbox/get", {"ids": None})["list"]}

    def imap(self):
        """Returns a connection over IMAP, which is logged in."""
        host, port = self.server.address("imap")
        client = imaplib.IMAP4(host, port, timeout=TIME_MAX_S)
        client.login(self.login, self.password)
        return client

    def messages(self, folder, subject):
        """Returns the messages of a folder whose subject has a text, as bytes. A folder that does not exist has none."""
        client = self.imap()
        try:
            if client.select(f'"{folder}"', readonly=True)[0] != "OK":
                return []
            found = client.uid("SEARCH", "SUBJECT", f'"{subject}"')[1][0].split()
            return [client.uid("FETCH", uid, "(BODY.PEEK[])")[1][0][1] for uid in found]
        finally:
            client.logout()


def multipart(fields, files):
    """Returns the body of a form with files, and its type."""
    boundary = secrets.token_hex(16)
    parts = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in fields]
    for name, file, content in files:
        head = f'Content-Disposition: form-data; name="{name}"; filename="{file}"\r\nContent-Type: application/octet-stream\r\n\r\n'
        parts.append(head.encode() + content)
    body = b"".join(f"--{boundary}\r\n".encode() + part + b"\r\n" for part in parts) + f"--{boundary}--\r\n".encode()
    return body, f"multipart/form-data; boundary={boundary}"
