"""Plays all scripts, each with a user of its own, and prints the failures.

`scripts.txt` contains the initial state of each script, or the reason why it is skipped. The states are `connect` (a
new connection), `greeted`, `login`, `selected` (logged in, with the mailbox that the setup script of the suite creates)
and `inbox`. `differences.txt` contains the single responses in which Doublet differs, with the reason. A difference
that no longer exists is a failure, so that the list contains no obsolete entries.
"""

import os
import re

from . import meaning, play, script

SUITE_USER = "imapuser"
SUITE_PASSWORD = "password"
HERE = os.path.dirname(os.path.abspath(__file__))


def plan():
    """Reads scripts.txt. Returns for each script its initial state, the reason to skip it, and preceding commands."""
    result = {}
    with open(os.path.join(HERE, "scripts.txt"), encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(" "):
                result[name][2].append(line.strip())
            elif line.strip() and not line.startswith("#"):
                name, how, *reason = line.split(None, 2)
                result[name] = (how, reason[0].strip() if reason else "", [])
    return result


def differences():
    """Reads differences.txt. Returns for each script and line the pattern of the response of Doublet."""
    result = {}
    with open(os.path.join(HERE, "differences.txt"), encoding="utf-8") as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                name, numbers, ours = re.match(r"(\S+) (\S+) /(.*?)/ \S", line).groups()
                result.setdefault(name, {}).update({int(number): ours for number in numbers.split(",")})
    return result


def run_one(folder, name, how, server):
    """Plays one script. Returns the lines at which Doublet differs. Raises `meaning.Unlike` on other differences."""
    login = (server["user"], SUITE_PASSWORD) if how in ("login", "selected", "inbox") else None
    player = play.Player(server["address"], {SUITE_USER: server["user"]}, how != "connect", login)
    try:
        if how == "selected":
            player.play(script.parse(read(folder, "SelectedStateSetup"), server["separator"]))
        if how == "inbox":
            player.play(script.parse("C: abcd SELECT INBOX\nS: .*\n"))
        if server["before"]:
            before = "".join(f"C: b{number} {command}\nS: b{number} OK.*\n" for number, command in enumerate(server["before"]))
            player.play(script.parse(before))
        player.play(script.parse(read(folder, name), server["separator"]), differences().get(name, {}))
        return player.needed
    finally:
        player.close()


def read(folder, name):
    """Reads a script."""
    with open(os.path.join(folder, f"{name}.test"), encoding="utf-8") as text:
        return text.read()


def run(folder, address, separator, user_for, only=None):
    """Plays all scripts of a folder. `user_for` returns a new user for a script. Returns (passed, failed, skipped)."""
    names = sorted(os.path.relpath(os.path.join(place, file), folder).removesuffix(".test")
                   for place, _, files in os.walk(folder) for file in files if file.endswith(".test"))
    known = plan()
    passed = failed = skipped = 0
    for name in names:
        how, reason, before = known.get(name) or known.get(name.split("/")[0] + "/*") or ("missing", "scripts.txt does not name it", [])
        if only and name not in only:
            continue
        if how == "skip":
            skipped += 1
            continue
        server, needed = {"address": address, "separator": separator, "before": before}, set()
        try:
            if how == "missing":
                raise meaning.Unlike(reason)
            for beginning in how.split(","):
                server["user"] = user_for(name)
                needed |= run_one(folder, name, beginning, server)
            superfluous = set(differences().get(name, {})) - needed
            if superfluous:
                raise meaning.Unlike(f"is answered as expected: the differences at the lines {sorted(superfluous)} are none")
            passed += 1
        except (meaning.Unlike, OSError) as error:
            failed += 1
            print(f"{name}: {error}")
    return passed, failed, skipped
