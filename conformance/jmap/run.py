"""JMAP with two foreign clients: the PyPI package jmapc over TLS, and the npm package jmap-jam without it on this machine.

Both are installed once per machine into the cache folder of the builds. A client that cannot be installed is skipped, with
the reason.
"""

import os
import shutil
import subprocess
import sys
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "doublet")
JMAPC = "jmapc==0.4.0"
INSTALL_TIME_MAX_S = 600
DAY_TIME_MAX_S = 120


def run(server, count, only, password):
    """Plays a day's mail with each client."""
    server.add_domain("acme.test")
    server.add_users(["ann@acme.test", "bob@acme.test", "jam@acme.test"], password)
    for name, play in (("jmapc", jmapc), ("jmap-jam", jam)):
        if only and only != name:
            continue
        try:
            words, environment = play(server, password)
        except (OSError, subprocess.SubprocessError) as error:
            said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines() or [str(error)]
            print(f"{name}: skipped, it cannot be installed: {said[-1]}")
            count.add(0, 0, 1)
            continue
        clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        done = subprocess.run(words, capture_output=True, text=True, timeout=DAY_TIME_MAX_S, check=False, env=clean | environment)
        passed = done.returncode == 0 and done.stdout.rstrip().endswith("passed")
        print(done.stdout.rstrip() if passed else f"{name}: failed\n{done.stdout}{done.stderr[-4000:]}")
        count.add(int(passed), int(not passed), 0)


def jmapc(server, password):
    """Returns the words of the day with jmapc, and the environment that they need. The certificate names `localhost`."""
    folder = os.path.join(CACHE, "python-" + JMAPC.replace("==", "-"))
    python = os.path.join(folder, "bin", "python3")
    if not os.path.exists(python) or subprocess.run([python, "-c", "import jmapc"], capture_output=True, check=False).returncode:
        execute([sys.executable, "-m", "venv", "--clear", folder])
        execute([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", JMAPC])
    host = f"localhost:{server.port('https')}"
    words = [python, f"{HERE}/mail_day.py", host, "ann@acme.test", password, "bob@acme.test"]
    return words, {"REQUESTS_CA_BUNDLE": f"{server.data}/tls/certificate.pem"}


def jam(server, password):
    """Returns the words of the day with jmap-jam, and the environment that they need."""
    folder = os.path.join(CACHE, "jmap-jam")
    os.makedirs(folder, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(f"{HERE}/{name}", folder)
    if not os.path.isdir(f"{folder}/node_modules/jmap-jam"):
        execute(["npm", "ci", "--no-audit", "--no-fund", "--silent"], folder)
    address = urllib.parse.urlunsplit(("http", f"localhost:{server.port('http')}", "/.well-known/jmap", "", ""))
    return ["node", f"{HERE}/jam.mjs", address, "jam@acme.test", password, f"{folder}/node_modules"], {}


def execute(words, folder=None):
    """Runs a command. Raises an error if it fails or takes too long."""
    subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=INSTALL_TIME_MAX_S)
