"""The search: requests of all verbs, of which the slowest are kept and varied.

All verbs have the same time, except that those with short jobs have less. A third of the requests of a verb are new, the
others vary one of its five slowest. A request above the bound is repeated three times, and counts with the shortest time
of the four, because other programs of the machine may have slowed it down.

The seed determines the data, the new requests and the ways in which others are varied. Which of them are varied depends
on the times that were measured, so two runs with the same seed begin alike and then differ.
"""

import dataclasses
import json
import time

from .choices import Choices, varied
from .measure import Measured
from .wire import GONE, Refused, Session, TooSlow

KEPT = 5
NEW_PERCENT = 33
REPETITIONS = 3
SHOWN = 200
# Verbs with short jobs have less time: the time that they have spent counts several times. (longest job in ms, weight)
WEIGHTS = ((5, 10), (50, 2))
WEIGHED_TRIES = 20
# A verb whose requests could not be prepared this often is not covered.
PREPARED_TRIES = 30


@dataclasses.dataclass
class Kept:
    """A request that was among the slowest of its verb."""

    made: dict
    measured: Measured
    # What was sent. Only of the slowest, because requests may be large.
    session: Session


@dataclasses.dataclass
class Row:
    """The result for one verb."""

    verb: str
    tried: int = 0
    accepted: int = 0
    refused_before: int = 0
    slow: int = 0
    longest_ms: float = 0.0
    response_ms: float = 0.0
    # The time that all repetitions of the slowest request took at least, and their processor time.
    repeated_ms: float = 0.0
    processor_ms: float = 0.0
    spent_s: float = 0.0
    panicked: int = 0
    last_answer: str = ""
    kept: list = dataclasses.field(default_factory=list)
    # The slowest request, and the slowest one that was repeated.
    slowest: Kept = None
    confirmed: Kept = None

    def is_tried(self):
        """Returns True if a request was sent, or if none could be prepared."""
        return self.tried > self.refused_before or self.tried >= PREPARED_TRIES

    def weight(self):
        """Returns the weight of the time that the verb has spent."""
        short = (weight for longest_ms, weight in WEIGHTS if self.longest_ms < longest_ms)
        return next(short, 1) if self.tried > WEIGHED_TRIES else 1


class Search:
    """A search over the generators of all verbs: {verb: function of a session}."""

    def __init__(self, server, meter, account, generators, options):
        self.server, self.meter, self.account = server, meter, account
        self.generators, self.options = generators, options
        self.rows = {verb: Row(verb) for verb in generators}
        self.others = {}
        self.serial = 0
        # In a short run an answer may not take long, so that every verb has its turn.
        self.patience_s = min(60.0, max(3.0, options.seconds / 20))

    def run(self):
        """Sends requests until the time is over and every verb was tried."""
        end = time.monotonic() + self.options.seconds
        while True:
            row = min(self.rows.values(), key=lambda row: (row.is_tried(), row.spent_s * row.weight()))
            if time.monotonic() > end and row.is_tried():
                return
            self.step(row)
            if self.server.family.process.poll() is not None:
                raise RuntimeError(f"the server ended in a request of {row.verb}; its choices are {json.dumps(self.last.choices.made)}")

    def step(self, row):
        """Tries one request of a verb."""
        start = time.monotonic()
        number = row.tried
        seed = f"{self.options.seed}/{row.verb}/{number}"
        dice = Choices(f"{seed}/parent")
        given = None
        if row.kept and not dice.chance("new", NEW_PERCENT):
            given = varied(dice.one("parent", row.kept).made, seed)
        kept = self.attempt(row, seed, given)
        if kept and kept.measured.longest_ms > self.options.bound_ms and kept.measured.longest_ms > 1.2 * row.repeated_ms:
            self.repeat(row, kept)
        for other in row.kept:
            if other not in (row.slowest, row.confirmed):
                other.session = None
        row.spent_s += time.monotonic() - start

    def attempt(self, row, seed, given):
        """Sends one request and records its times. Returns it, or None if it could not be prepared."""
        self.serial += 1
        self.last = session = Session(self.server, Choices(seed, given), self.meter, self.account, self.patience_s, serial=self.serial)
        self.meter.result = None
        row.tried += 1
        try:
            self.generators[row.verb](session)
        except Refused as refused:
            row.last_answer = str(refused)[:SHOWN]
        except (*GONE, TooSlow) as error:
            row.last_answer = f"{type(error).__name__} {error}"[:SHOWN]
        self.remove(session.databases)
        measured = self.meter.result
        if measured is None:
            row.refused_before += 1
            return None
        row.last_answer = measured.answer
        row.accepted += measured.accepted
        row.slow += measured.slow
        row.panicked += measured.panicked
        row.response_ms = max(row.response_ms, measured.response_ms)
        for label, longest in measured.others.items():
            self.others[label] = max(self.others.get(label, 0), longest)
        kept = Kept(session.choices.made, measured, session)
        if row.slowest is None or measured.longest_ms > row.longest_ms:
            row.longest_ms, row.slowest = measured.longest_ms, kept
        row.kept.append(kept)
        row.kept.sort(key=lambda kept: (kept.measured.longest_ms, kept.measured.response_ms), reverse=True)
        del row.kept[KEPT:]
        return kept

    def remove(self, databases):
        """Removes databases that a request has created, if it could."""
        for path in databases:
            try:
                self.server.command("db", "delete", path)
            except RuntimeError:
                pass

    def repeat(self, row, kept):
        """Repeats a request above the bound. Others may have slowed it down."""
        least, processor = kept.measured.longest_ms, kept.measured.processor_ms
        for number in range(REPETITIONS):
            self.meter.await_warnings()
            again = self.attempt(row, f"repeated {number}", kept.made)
            if again is None:
                return
            if again.measured.longest_ms < least:
                least, processor = again.measured.longest_ms, again.measured.processor_ms
            if least <= self.options.bound_ms:
                return
        if least > row.repeated_ms:
            row.repeated_ms, row.processor_ms = least, processor
            row.confirmed = kept

    def replay(self, path):
        """Sends a kept request again, as often as a request above the bound."""
        with open(path, "rb") as file:
            head = json.loads(file.readline())
        row = self.rows[head["verb"]]
        given = {key: tuple(choice) for key, choice in head["choices"].items()}
        for number in range(1 + REPETITIONS):
            self.meter.await_warnings()
            kept = self.attempt(row, f"replayed {number}", given)
            if kept is None:
                print(f"{row.verb}: not sent: {row.last_answer}", flush=True)
                continue
            measured = kept.measured
            times = f"longest job {measured.longest_ms:.0f} ms, {measured.jobs} jobs, answer after {measured.response_ms:.0f} ms"
            print(f"{row.verb}: {times}: {measured.answer}", flush=True)
