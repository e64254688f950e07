"""The lite web mail with browsers. Nothing here downloads a browser: they are Debian packages.

| part | browser | content |
|---|---|---|
| `chromium` | Chromium, scripts off | a day's mail, accessibility (`day.mjs`) |
| `hostile` | Chromium, scripts on | the corpus of hostile messages in every form, with a canary (`hostile.mjs`, `corpus.py`); with `DOUBLET_SOAK` all of them |
| `mailbox` | Chromium, scripts off | a mailbox of 3,000 messages, with `DOUBLET_SOAK` of 100,000 (`mailbox.mjs`) |
| `sending` | Chromium, scripts off | sending while the server is killed (`sending.mjs`, `sending.py`) |
| `lynx`, `w3m` | these | login and inbox |

A part whose browser is not installed is skipped, with the reason.
"""

import http.cookiejar
import html.parser
import os
import shutil
import subprocess
import urllib.parse
import urllib.request

from . import corpus, sending

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "doublet")
INSTALL_TIME_MAX_S = 600
BROWSER_TIME_MAX_S = 2400
# The short form opens some messages of each class, and a smaller mailbox.
IS_LONG = os.environ.get("DOUBLET_SOAK") is not None
HOSTILE_STEP = 1 if IS_LONG else 13
LOGIN = "ann@acme.test"
TARGET_LOGIN = "tom@acme.test"
FULL_LOGIN = "fay@acme.test"
MAILBOX_MESSAGES = 100_000 if IS_LONG else 3_000


class Fields(html.parser.HTMLParser):
    """The hidden fields of the forms of a page."""

    def __init__(self, page):
        super().__init__()
        self.fields = {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        """Keeps the value of a hidden field."""
        attributes = dict(attrs)
        if tag == "input" and attributes.get("type") == "hidden":
            self.fields[attributes["name"]] = attributes.get("value", "")


def run(server, count, only, password):
    """Plays with each browser."""
    server.add_domain("acme.test")
    server.add_users([LOGIN, TARGET_LOGIN, FULL_LOGIN, sending.SENDER, sending.RECIPIENT], password)
    for name, (program, play) in PARTS.items():
        if only and only != name:
            continue
        if not shutil.which(program):
            print(f"{name}: skipped, {program} is not installed")
            count.add(0, 0, 1)
            continue
        base = f"http://localhost:{server.port('http')}"
        passed, said = play(server, base, password)
        print((said or f"{name}: passed") if passed else f"{name}: failed\n{said}", flush=True)
        count.add(int(passed), int(not passed), 0)


def chromium(_, base, password):
    """Plays the day in Chromium. Returns whether it passed, and what it said."""
    return outcome(run_browser(script("day.mjs", base, LOGIN, password)))


def hostile(server, base, password):
    """Opens the corpus of hostile messages."""
    for name in ("cur", "new", "tmp"):
        os.makedirs(f"{server.folder}/hostile/{name}")
    for number, message in enumerate(list(corpus.messages())[::HOSTILE_STEP], 1):
        with open(f"{server.folder}/hostile/new/{number:04}.corpus", "wb") as file:
            file.write(message)
    server.command("import", "maildir", f"{server.folder}/hostile", "--user", TARGET_LOGIN)
    return outcome(run_browser(script("hostile.mjs", base, TARGET_LOGIN, password)))


def mailbox(server, base, password):
    """Plays with a mailbox of many messages."""
    path = f"{server.folder}/full.mbox"
    with open(path, "w", encoding="ascii") as file:
        for number in range(MAILBOX_MESSAGES):
            subject = f"Report {number}" if number else "Report with a needle"
            file.write(f"From sender@acme.test Thu Jan  1 00:00:00 2026\nFrom: Sender {number % 100} <sender@acme.test>\n"
                       f"To: {FULL_LOGIN}\nSubject: {subject}\nMessage-ID: <{number}@acme.test>\n\nText {number}\n\n")
    server.command("import", "mbox", path, "--user", FULL_LOGIN, "--folder", "INBOX")
    return outcome(run_browser(script("mailbox.mjs", base, FULL_LOGIN, password, str(MAILBOX_MESSAGES))))


def sending_while_killed(server, base, password):
    """Sends while the server is killed."""
    try:
        return True, sending.run(server, script("sending.mjs", base, sending.SENDER, password), password, environment())
    except sending.Wrong as wrong:
        return False, str(wrong)


def script(name, base, login, password, *more):
    """Returns the words that run a script with a browser. Installs the modules that it needs."""
    folder = os.path.join(CACHE, "web-conformance")
    os.makedirs(folder, exist_ok=True)
    for file in ("package.json", "package-lock.json"):
        shutil.copy(f"{HERE}/{file}", folder)
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True, timeout=INSTALL_TIME_MAX_S,
                   env=os.environ | {"PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1"})
    return ["node", f"{HERE}/{name}", base, login, password, f"{folder}/node_modules", shutil.which("chromium"), *more]


def outcome(done):
    """Returns whether a script has passed, and what it said."""
    return done.returncode == 0, (done.stdout + done.stderr[-4000:]).strip()


def lynx(server, base, password):
    """Shows the inbox in lynx, with the cookie of a session in its own file."""
    jar = f"{server.folder}/lynx.cookies"
    settings = f"{server.folder}/lynx.cfg"
    token, inbox = session(base, password)
    with open(jar, "w", encoding="utf-8") as file:
        file.write(f"localhost\tFALSE\t/\tFALSE\t{2**31 - 1}\tdoublet\t{token}\n")
    with open(settings, "w", encoding="utf-8") as file:
        file.write(f"SET_COOKIES:TRUE\nACCEPT_ALL_COOKIES:TRUE\nPERSISTENT_COOKIES:TRUE\nCOOKIE_FILE:{jar}\n")
    return shows_inbox(run_browser(["lynx", f"-cfg={settings}", "-dump", "-nolist", inbox]))


def w3m(server, base, password):
    """Shows the inbox in w3m. The cookie is a field of the request, because w3m has no option for its file."""
    del server
    token, inbox = session(base, password)
    words = ["w3m", "-dump", "-header", f"Cookie: doublet={token}", inbox]
    return shows_inbox(run_browser(words))


def session(base, password):
    """Logs in with plain forms, and returns the token of the session and the address of the inbox."""
    jar = http.cookiejar.CookieJar()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(jar))
    page = opener.open(f"{base}/lite/login", timeout=30).read().decode()
    form = Fields(page).fields | {"name": LOGIN, "password": password}
    request = urllib.request.Request(f"{base}/lite/login", data=urllib.parse.urlencode(form).encode(), headers={"Origin": base})
    inbox = opener.open(request, timeout=30).geturl()
    return next(cookie.value for cookie in jar if cookie.name == "doublet"), inbox


def shows_inbox(done):
    """Returns whether a browser has shown the inbox, and if not, what it has shown."""
    has_inbox = done.returncode == 0 and "Inbox" in done.stdout and "unread" in done.stdout
    return has_inbox, "" if has_inbox else done.stdout + done.stderr


def run_browser(words):
    """Runs a browser."""
    return subprocess.run(words, capture_output=True, text=True, timeout=BROWSER_TIME_MAX_S, check=False, env=environment())


def environment():
    """Returns the environment without its proxies."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


PARTS = {"chromium": ("chromium", chromium), "hostile": ("chromium", hostile), "mailbox": ("chromium", mailbox),
         "sending": ("chromium", sending_while_killed), "lynx": ("lynx", lynx), "w3m": ("w3m", w3m)}
