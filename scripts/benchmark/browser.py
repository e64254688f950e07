"""A small browser: cookies, forms, redirections, the resources that a page names, gzip and brotli, connections that stay open, a cache
that is empty at the start. It runs no scripts and draws nothing. It counts the bytes of the answers with their header
fields, without those of TLS.
"""

import concurrent.futures
import ctypes
import ctypes.util
import html.parser
import queue
import socket
import ssl
import threading
import urllib.parse
import zlib

TIME_MAX_S = 120
REDIRECTIONS_MAX = 5
# The decoder of brotli, which most programs that speak HTTP have installed.
BROTLI = ctypes.util.find_library("brotlidec")
CODINGS = "gzip, br" if BROTLI else "gzip"
PAGE_BYTES_MAX = 4 << 20


class Answer:
    """An answer: status, header fields with names in lower case, and the content without its compression."""

    def __init__(self, url, status, fields, content):
        self.url, self.status, self.fields, self.content = url, status, fields, content

    def text(self):
        """Returns the content as text."""
        return self.content.decode(errors="replace")

    def page(self):
        """Returns the parsed page."""
        return Page(self.text())


class Page(html.parser.HTMLParser):
    """The forms, links and resources of a page.

    A form is `(attributes, fields)`; a field is its name with the value that a browser would send, buttons left out.
    """

    def __init__(self, text):
        super().__init__()
        self.forms, self.links, self.resources = [], [], []
        self._area = self._select = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Notes what a browser would load or send."""
        one = dict(attrs)
        if tag == "a" and one.get("href"):
            self.links.append(one)
        elif tag == "link" and {"stylesheet", "icon"} & set(one.get("rel", "").split()):
            self.resources.append(one.get("href"))
        elif tag in ("script", "img", "iframe") and one.get("src", "").split(":")[0] not in ("", "about", "data"):
            self.resources.append(one["src"])
        elif tag == "form":
            self.forms.append((one, {}))
        elif self.forms and one.get("name"):
            self._field(tag, one)
        elif tag == "option" and self._select:
            self._option(one)

    def _field(self, tag, one):
        fields = self.forms[-1][1]
        if tag == "input" and (one.get("type") not in ("checkbox", "radio", "submit", "file", "button") or "checked" in one and one.get("type") != "file"):
            fields[one["name"]] = one.get("value") or ""
        elif tag == "textarea":
            self._area = one["name"]
            fields[self._area] = ""
        elif tag == "select":
            self._select = one["name"]

    def _option(self, one):
        fields = self.forms[-1][1]
        if "selected" in one or self._select not in fields:
            fields[self._select] = one.get("value") or ""

    def handle_data(self, data):
        """Notes the text of a text area."""
        if self._area:
            self.forms[-1][1][self._area] += data

    def handle_endtag(self, tag):
        """Ends a text area or a selection."""
        if tag == "textarea":
            self._area = None
        elif tag == "select":
            self._select = None

    def form(self, **attributes):
        """Returns the address and the fields of the first form that has these attributes."""
        for found, fields in self.forms:
            if all(found.get(name) == value for name, value in attributes.items()):
                return found.get("action", ""), dict(fields)
        raise RuntimeError(f"no form with {attributes}")


class Browser:
    """A browser with an empty cache, at a server over TLS or without. `lanes` is the number of its connections."""

    def __init__(self, port, tls=True, lanes=1):
        self.port, self.tls = port, tls
        self.base = f"{'https' if tls else 'http'}://localhost:{port}"
        self.cookies = {}
        self.cache = set()
        self.requests = self.bytes_received = 0
        self.connections = 0
        self._lock = threading.Lock()
        self._lanes = queue.LifoQueue()
        for _ in range(lanes):
            self._lanes.put(_Lane(self))
        self._width = lanes

    def get(self, url, headers=None):
        """Loads an address, following redirections."""
        return self.request("GET", url, None, headers)

    def post(self, url, fields, headers=None):
        """Sends a form, following redirections."""
        headers = {"Content-Type": "application/x-www-form-urlencoded"} | (headers or {})
        return self.request("POST", url, urllib.parse.urlencode(fields).encode(), headers)

    def submit(self, url, fields):
        """Sends a form without following a redirection."""
        return self._exchange("POST", url, urllib.parse.urlencode(fields).encode(), {"Content-Type": "application/x-www-form-urlencoded"})

    def post_files(self, url, fields, files, headers=None):
        """Sends a form with files: (field, name, type, content)."""
        boundary = "----browser-of-the-measurements"
        parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
        parts += [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{file}"\r\nContent-Type: {kind}\r\n\r\n'.encode() + content + b"\r\n"
                  for name, file, kind, content in files]
        body = b"".join(parts) + f"--{boundary}--\r\n".encode()
        return self.request("POST", url, body, {"Content-Type": f"multipart/form-data; boundary={boundary}"} | (headers or {}))

    def request(self, method, url, body=None, headers=None):
        """Sends a request, following redirections. Raises RuntimeError for an error status."""
        for _ in range(REDIRECTIONS_MAX):
            answer = self._exchange(method, url, body, headers)
            if answer.status not in (301, 302, 303, 307, 308):
                break
            method, body, headers = "GET", None, None
            url = urllib.parse.urljoin(answer.url, answer.fields["location"])
        if answer.status >= 400:
            raise RuntimeError(f"{self.base}: {method} {url}: {answer.status}: {answer.text()[:500]}")
        return answer

    def load(self, answer):
        """Loads what a page names and the cache does not have, over all connections."""
        wanted = []
        for name in answer.page().resources:
            url = urllib.parse.urljoin(answer.url, name)
            if url.startswith(self.base) and url not in self.cache:
                self.cache.add(url)
                wanted.append(url)
        self.load_all(wanted)
        return answer

    def load_all(self, urls):
        """Loads addresses over all connections."""
        if self._width == 1:
            for url in urls:
                self.get(url)
        else:
            with concurrent.futures.ThreadPoolExecutor(self._width) as hands:
                list(hands.map(self.get, urls))

    def close(self):
        """Closes all connections."""
        while not self._lanes.empty():
            self._lanes.get().close()

    def _exchange(self, method, url, body, headers):
        url = urllib.parse.urljoin(self.base + "/", url)
        parts = urllib.parse.urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        fields = {"Host": parts.netloc, "Accept": "*/*", "Accept-Encoding": CODINGS, "User-Agent": "bench"}
        if self.cookies:
            fields["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if method == "POST":
            fields |= {"Origin": self.base, "Sec-Fetch-Site": "same-origin", "Content-Length": str(len(body))}
        fields |= headers or {}
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
        lane = self._lanes.get()
        try:
            status, found, content, size = lane.exchange(head.encode() + (body or b""))
        finally:
            self._lanes.put(lane)
        with self._lock:
            self.requests += 1
            self.bytes_received += size
            for cookie in found.pop("set-cookie", []):
                name, _, value = cookie.partition(";")[0].partition("=")
                self.cookies[name] = value
        return Answer(url, status, found, content)


class _Lane:
    """A connection, which is opened when it is needed and stays open."""

    def __init__(self, browser):
        self.browser = browser
        self.socket = self.reader = None

    def exchange(self, request):
        """Sends a request and reads its answer. A connection that the server has closed is opened again once."""
        for attempt in range(2):
            fresh = self.socket is None
            if fresh:
                self._connect()
            try:
                self.socket.sendall(request)
                return self._answer()
            except (ConnectionError, ssl.SSLError):
                self.close()
                if fresh or attempt:
                    raise
        raise ConnectionError("not reached")

    def close(self):
        """Closes the connection."""
        if self.socket:
            self.reader.close()
            self.socket.close()
        self.socket = self.reader = None

    def _connect(self):
        plain = socket.create_connection(("127.0.0.1", self.browser.port), TIME_MAX_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = _context().wrap_socket(plain, server_hostname="localhost") if self.browser.tls else plain
        self.reader = self.socket.makefile("rb")
        self.browser.connections += 1

    def _answer(self):
        line = self.reader.readline()
        if not line:
            raise ConnectionError("the server has closed the connection")
        size, fields = len(line), {}
        status = int(line.split()[1])
        while True:
            line = self.reader.readline()
            size += len(line)
            if line in (b"\r\n", b""):
                break
            name, _, value = line.decode("latin-1").partition(":")
            if name.lower() == "set-cookie":
                fields.setdefault("set-cookie", []).append(value.strip())
            else:
                fields[name.lower()] = value.strip()
        content, read = self._content(status, fields)
        if fields.get("content-encoding") == "gzip":
            content = zlib.decompress(content, 31)
        elif fields.get("content-encoding") == "br":
            content = _unbrotli(content)
        if fields.get("connection", "").lower() == "close":
            self.close()
        return status, fields, content, size + read

    def _content(self, status, fields):
        if status in (204, 304):
            return b"", 0
        if "content-length" in fields:
            content = self.reader.read(int(fields["content-length"]))
            return content, len(content)
        if fields.get("transfer-encoding") != "chunked":
            content = self.reader.read()
            self.close()
            return content, len(content)
        pieces, size = [], 0
        while True:
            line = self.reader.readline()
            piece = self.reader.read(int(line, 16) + 2)[:-2]
            size += len(line) + len(piece) + 2
            if not piece:
                return b"".join(pieces), size
            pieces.append(piece)


def _unbrotli(content):
    size = ctypes.c_size_t(PAGE_BYTES_MAX)
    out = ctypes.create_string_buffer(PAGE_BYTES_MAX)
    if ctypes.CDLL(BROTLI).BrotliDecoderDecompress(ctypes.c_size_t(len(content)), content, ctypes.byref(size), out) != 1:
        raise RuntimeError("the content is not brotli")
    return out.raw[:size.value]


def _context():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context
