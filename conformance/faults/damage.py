"""The cell of damaged files: a bit, a piece, the end or the whole of a file of the store is lost while no server runs.

The damage must be named when the server starts, or found by `doublet fixup`, or change nothing that a client can see.
What clients read must never be wrong without a word. A damaged list of files is also named by a file that it lists: if
its end is missing, it is a valid list of older files, which do not exist any more.
"""

import collections
import os
import re
import shutil
import time

from .cells import HEALTHY, Cell
from .directory import Administrator
from .load import Findings

LOAD_S = 0.8
PATIENCE_S = 5
BLOCK = 4_096
ATTEMPTS = 100
WAYS = ("flip", "zero", "cut", "remove")
# The files that a kind of file lists.
LISTED = {"CURRENT": r"MANIFEST-\d+", "MANIFEST": r"\d+\.(sst|blob|log)"}
# Files of the engine that hold nothing of the store.
IGNORED = re.compile(r"LOCK|LOG(\.old\.\d+)?")


class Flip(Cell):
    """A file of the store is damaged. There is one fault for each kind of file and kind of damage."""

    name = "flip"
    rounds = (1, 20)
    # The engine opens a quarter of this number of files at the start, and the others when they are read.
    settings = {"store.open_files": "64"}

    def __init__(self, prepared, seed, is_long):
        super().__init__(prepared, seed, is_long)
        self.outcomes = {}

    def run(self):
        """Prepares a store that was killed, and damages copies of it."""
        self.server = self.prepared.server(self.name, self.settings)
        self.load = self.prepared.load(self.server, self.findings, self.random.random())
        try:
            self.server.start()
            self.write(LOAD_S)
            # The changes since the last start are in logs alone, and the last ones in one log: a database that is
            # deleted ends a log.
            self.restart()
            self.write(LOAD_S)
            self.write(LOAD_S / 2, except_for=Administrator)
            self.load.check(whole=True)
            self.server.kill()
        finally:
            self.end_load()
            self.server.stop()
        self.tally = self.load.tally
        kinds = kinds_of_files(f"{self.server.data}/store")
        for _ in range(self.rounds[self.is_long]):
            for kind in sorted(kinds):
                for way in WAYS:
                    self.damage(kind, self.random.choice(kinds[kind]), way)
        for outcome, damages in sorted(self.outcomes.items()):
            print(f"  {outcome}: {', '.join(f'{what} ({count})' for what, count in sorted(damages.items()))}", flush=True)

    def write(self, duration_s, except_for=()):
        """Lets the writers work for a while."""
        self.load.begin(except_for)
        time.sleep(duration_s)
        self.load.end()

    def damage(self, kind, name, way):
        """Damages a file of a copy, and checks its effect."""
        self.done += 1
        server = self.prepared.server(f"{self.name}.copy", self.settings)
        try:
            shutil.copytree(self.server.data, server.data, ignore=shutil.ignore_patterns("*.sock", "lock"))
            place = damage_file(f"{server.data}/store/{name}", way, self.random)
            what = f"{way} {kind}"
            outcome = self.outcome(server, f"{what} ({place})", f"{re.escape(name)}|{LISTED.get(kind, '$^')}")
            self.outcomes.setdefault(outcome, collections.Counter())[what] += 1
        finally:
            server.stop()
            shutil.rmtree(server.folder)

    def outcome(self, server, what, names):
        """Returns how the damage shows itself, at the start by one of the `names`. Records a finding if it does not."""
        try:
            refusal = server.start_or_refusal()
        except TimeoutError as error:
            self.findings.add("wrong", f"{what}: the server neither starts nor ends: {error}")
            return "the server does not start"
        if refusal is not None:
            if re.search(names, refusal):
                return "named at the start"
            self.findings.add("wrong", f"{what}: the start fails and does not name the file: {refusal[-600:].strip()}")
            return "not named at the start"
        seen = Findings(is_silent=True)
        load = self.load.copy(server, seen)
        load.patience_s = PATIENCE_S
        load.check(whole=True)
        if seen.counts["unanswered"]:
            self.findings.add("wrong", f"{what}: {seen.first['unanswered']}")
        if not server.is_running():
            self.findings.add("wrong", f"{what}: the server has ended: {seen.first}")
            return "the server ends"
        if not seen.counts:
            return "nothing is different"
        server.stop()
        if HEALTHY not in self.fixup(server):
            return "found by fixup"
        for found, count in seen.counts.items():
            self.findings.counts[found] += count - 1
            self.findings.add(found, f"{what}: {count} times, for instance {seen.first[found]}")
        return "found by nobody"


def kinds_of_files(folder):
    """Returns the names of the files of a store by their kind: the extension, or what is before the number.

    The youngest log is a kind of its own: nothing that was written later shows that its end is missing.
    """
    kinds = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.path.getsize(path) and not IGNORED.fullmatch(name):
            kind = os.path.splitext(name)[1] or re.sub(r"-\d+$", "", name)
            kinds.setdefault(kind, []).append(name)
    kinds["youngest .log"] = [kinds[".log"].pop()]
    return {kind: names for kind, names in kinds.items() if names}


def damage_file(path, way, dice):
    """Damages a file. Returns a description of the place."""
    with open(path, "rb") as file:
        content = file.read()
    if way == "remove":
        os.remove(path)
        return os.path.basename(path)
    if way == "cut":
        changed = content[:dice.randrange(len(content))]
        place = f"to {len(changed)} of {len(content)} bytes"
    else:
        changed, place = damage_piece(content, way, dice)
    with open(path, "wb") as file:
        file.write(changed)
    return f"{os.path.basename(path)} {place}"


def damage_piece(content, way, dice):
    """Changes a bit, or a block that is not empty."""
    changed = bytearray(content)
    for _ in range(ATTEMPTS):
        at = dice.randrange(len(content))
        if way == "flip":
            changed[at] ^= 1 << dice.randrange(8)
            return changed, f"at byte {at} of {len(content)}"
        at -= at % BLOCK
        changed[at:at + BLOCK] = bytes(len(changed[at:at + BLOCK]))
        if changed != content:
            return changed, f"at byte {at} of {len(content)}"
    raise RuntimeError("the file is empty")
