"""The lite web mail with browsers: Chromium with scripts off plays a day's mail (`day.mjs`), and `lynx` and `w3m` log in and
read. Nothing here downloads a browser: they are Debian packages.

A browser that is not installed is skipped, with the reason.
"""

import http.cookiejar
import html.parser
import os
import shutil
import subprocess
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "doublet")
INSTALL_TIME_MAX_S = 600
DAY_TIME_MAX_S = 300
LOGIN = "ann@acme.test"


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
    server.add_users([LOGIN], password)
    base = f"http://localhost:{server.port('http')}"
    for name, play in (("chromium", chromium), ("lynx", lynx), ("w3m", w3m)):
        if only and only != name:
            continue
        if not shutil.which(name):
            print(f"{name}: skipped, it is not installed")
            count.add(0, 0, 1)
            continue
        passed, said = play(server, base, password)
        print((said or f"{name}: passed") if passed else f"{name}: failed\n{said}")
        count.add(int(passed), int(not passed), 0)


def chromium(_, base, password):
    """Plays the day in Chromium. Returns whether it passed, and what it said."""
    folder = os.path.join(CACHE, "web-conformance")
    os.makedirs(folder, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(f"{HERE}/{name}", folder)
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True, timeout=INSTALL_TIME_MAX_S,
                   env=os.environ | {"PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1"})
    words = ["node", f"{HERE}/day.mjs", base, LOGIN, password, f"{folder}/node_modules", shutil.which("chromium")]
    done = run_browser(words)
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
    """Runs a browser without the proxies of the environment."""
    clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return subprocess.run(words, capture_output=True, text=True, timeout=DAY_TIME_MAX_S, check=False, env=clean)
