"""The lite web mail with browsers. Nothing here downloads a browser: they are Debian packages.

| part | browser | content |
|---|---|---|
| `chromium` | Chromium, scripts off | a day's mail, and the size of its pages (`day.mjs`) |
| `keyboard` | Chromium, scripts off | a day's mail with a keyboard alone, and the way of the focus (`keyboard.mjs`) |
| `pages` | Chromium | every page in every state: axe-core, 320 × 256 pixels, large text (`pages.mjs`, `accessibility.mjs`) |
| `direction` | Chromium | messages from right to left, and subjects that turn what is beside them (`direction.mjs`) |
| `hostile` | Chromium, scripts on | the corpus of hostile messages in every form, with a canary (`hostile.mjs`, `corpus.py`); with `DOUBLET_SOAK` all of them |
| `mailbox` | Chromium, scripts off | a mailbox of 3,000 messages, with `DOUBLET_SOAK` of 100,000 (`mailbox.mjs`) |
| `sending` | Chromium, scripts off | sending while the server is killed (`sending.mjs`, `sending.py`) |
| `once` | none | 20 seeds of sending once: lost answers, two tabs, kills, undo in forms and JMAP; with `DOUBLET_SOAK` 1,000 (`once.py`) |
| `moving` | none | 2,000 messages are moved while the server is killed, with `DOUBLET_SOAK` 50,000 (`moving.py`) |
| `waiting` | none | attachments that wait while the server ends (`waiting.py`) |
| `lynx`, `w3m` | these | login and inbox |

A part whose browser is not installed is skipped, with the reason. `letters.py` makes messages, and `plain.py` is the client of
the parts without a browser.
"""

import http.cookiejar
import html.parser
import os
import shutil
import subprocess
import urllib.parse
import urllib.request

from . import corpus, letters, moving, once, plain, sending, waiting

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
KEYBOARD_LOGIN = "kay@acme.test"
PAGES_LOGIN, EMPTY_LOGIN = "pia@acme.test", "eva@acme.test"
DIRECTION_LOGIN = "dov@acme.test"
LOGINS = [LOGIN, TARGET_LOGIN, FULL_LOGIN, KEYBOARD_LOGIN, PAGES_LOGIN, EMPTY_LOGIN, DIRECTION_LOGIN, sending.SENDER, sending.RECIPIENT]
MAILBOX_MESSAGES = 100_000 if IS_LONG else 3_000
MOVED_MESSAGES = 50_000 if IS_LONG else 2_000
# More than the page with addresses shows, and more than a page of a list has.
NAMESAKES = 55
MANY_MESSAGES = 60


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
    server.add_users(LOGINS, password)
    for name, (program, play) in PARTS.items():
        if only and only != name:
            continue
        if program and not shutil.which(program):
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


def keyboard(_, base, password):
    """Plays the day with a keyboard alone."""
    return outcome(run_browser(script("keyboard.mjs", base, KEYBOARD_LOGIN, password)))


def pages(server, base, password):
    """Checks every page in every state."""
    server.add_users([f"namesake{number}@acme.test" for number in range(NAMESAKES)], password)
    plain = letters.letter(("Bob", "bob@b.test"), PAGES_LOGIN, "Another message", "Hello.")
    letters.append(server, PAGES_LOGIN, password, "INBOX", letters.for_pages(PAGES_LOGIN))
    for folder, count, flags in (("Many", MANY_MESSAGES, r"(\Flagged \Answered)"), ("Sent", 1, ""), ("Trash", 1, ""), ("Drafts", 1, r"(\Draft)"), ("Empty", 0, "")):
        letters.append(server, PAGES_LOGIN, password, folder, [plain] * count, flags)
    return outcome(run_browser(script("pages.mjs", base, PAGES_LOGIN, password, EMPTY_LOGIN)))


def direction(server, base, password):
    """Shows messages from right to left."""
    person = {"address": "david@acme.test", "name": letters.HEBREW_NAME, "aliases": [], "quota": None, "password": password}
    server.request({"user": {"add": person}})
    letters.append(server, DIRECTION_LOGIN, password, "INBOX", letters.for_directions(DIRECTION_LOGIN))
    return outcome(run_browser(script("direction.mjs", base, DIRECTION_LOGIN, password)))


def sending_once(server, _, password):
    """Sends many messages once each."""
    return attempt(lambda: once.run(server, password), once.Wrong)


def moving_while_killed(server, _, password):
    """Moves many messages while the server is killed."""
    return attempt(lambda: moving.run(server, password, MOVED_MESSAGES), moving.Wrong)


def waiting_files(server, _, password):
    """Lets attachments wait."""
    return attempt(lambda: waiting.run(server, password), waiting.Wrong)


def attempt(play, wrong):
    """Returns whether a part without a browser has passed, and what it said."""
    try:
        return True, play()
    except (wrong, plain.Lost, RuntimeError, OSError) as reason:
        return False, f"{type(reason).__name__}: {reason}"


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
    words = script("sending.mjs", base, sending.SENDER, password)
    return attempt(lambda: sending.run(server, words, password, environment()), sending.Wrong)


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


PARTS = {"chromium": ("chromium", chromium), "keyboard": ("chromium", keyboard), "pages": ("chromium", pages),
         "direction": ("chromium", direction), "hostile": ("chromium", hostile), "mailbox": ("chromium", mailbox),
         "sending": ("chromium", sending_while_killed), "once": (None, sending_once), "moving": (None, moving_while_killed),
         "waiting": (None, waiting_files), "lynx": ("lynx", lynx), "w3m": ("w3m", w3m)}
