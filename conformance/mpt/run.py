"""Plays all scripts, each in a mailbox of its own, and says how each went.

`scripts.txt` says how a script begins (`connect`: nothing; `greeted`; `login`; `selected`: logged in, with the mailbox that the suite's own
setup script makes; `inbox`) or why it is skipped. `differences.txt` says which single answers are not compared, and why.
"""

import os

from . import meaning, play, script

SUITE_USER = "imapuser"
SUITE_PASSWORD = "password"
HERE = os.path.dirname(os.path.abspath(__file__))


def plan():
    """Reads scripts.txt: gives for each script how it begins, and why it is skipped if it is."""
    result = {}
    with open(os.path.join(HERE, "scripts.txt"), encoding="utf-8") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                name, how, *reason = line.split(None, 2)
                result[name] = (how, reason[0].strip() if reason else "")
    return result


def differences():
    """Reads differences.txt: gives the lines of each script whose answers are not compared."""
    result = {}
    with open(os.path.join(HERE, "differences.txt"), encoding="utf-8") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                name, numbers, _reason = line.split(None, 2)
                result.setdefault(name, set()).update(int(number) for number in numbers.split(","))
    return result


def run_one(folder, name, how, server):
    """Plays one script; raises `meaning.Unlike`."""
    login = (server["user"], SUITE_PASSWORD) if how in ("login", "selected", "inbox") else None
    player = play.Player(server["address"], {SUITE_USER: server["user"]}, how != "connect", login)
    try:
        if how == "selected":
            player.play(script.parse(read(folder, "SelectedStateSetup"), server["separator"]))
        if how == "inbox":
            player.play(script.parse("C: abcd SELECT INBOX\nS: .*\n"))
        player.play(script.parse(read(folder, name), server["separator"]), differences().get(name, set()))
    finally:
        player.close()


def read(folder, name):
    """Reads a script."""
    with open(os.path.join(folder, f"{name}.test"), encoding="utf-8") as text:
        return text.read()


def run(folder, address, separator, user_for, only=None):
    """Plays all scripts of a folder; `user_for` gives a fresh user for a script. Gives (passed, failed, skipped)."""
    names = sorted(os.path.relpath(os.path.join(place, file), folder).removesuffix(".test")
                   for place, _, files in os.walk(folder) for file in files if file.endswith(".test"))
    known = plan()
    passed = failed = skipped = 0
    for name in names:
        how, reason = known.get(name) or known.get(name.split("/")[0] + "/*") or ("missing", "scripts.txt does not name it")
        if only and name not in only:
            continue
        if how == "skip":
            skipped += 1
            continue
        server = {"address": address, "separator": separator}
        try:
            if how == "missing":
                raise meaning.Unlike(reason)
            for beginning in how.split(","):
                server["user"] = user_for(name)
                run_one(folder, name, beginning, server)
            passed += 1
        except (meaning.Unlike, OSError) as error:
            failed += 1
            print(f"{name}: {error}")
    return passed, failed, skipped
