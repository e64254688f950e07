"""The measure of a request: how long its jobs kept a worker, as the server itself counts it.

The administration port reports the jobs of the worker pool by protocol, command and class of owners. Only one request
is sent at a time, so the difference between a report before the request and one after it belongs to the request.

The report has the longest job of all, not that of a request. It is that of the request if it has grown, or if the
request had a single job. Otherwise the server's log may tell: it reports the first slow job of each second. If it does
not, the longest job took at least its share of the time of all.
"""

import dataclasses
import json
import re
import time

SLOW_MS = 50
WARNING_PAUSE_S = 1.1
IDLE_MAX_S = 120
SAMPLE = re.compile(
    r"^doublet_pool_(jobs_total|jobs_seconds_total|jobs_slow_total|jobs_microseconds_max|busy|depth|panicked_total)(?:\{(.*)\})? (\S+)$",
    re.MULTILINE,
)
LABEL = re.compile(r'(\w+)="([^"]*)"')
WARNING = "a job kept a worker for longer than it should"


@dataclasses.dataclass
class Jobs:
    """The jobs with one label."""

    count: int = 0
    seconds: float = 0.0
    slow: int = 0
    longest_ms: float = 0.0


@dataclasses.dataclass
class Report:
    """The state of the worker pool. The labels are (protocol, command, class)."""

    jobs: dict
    active: int
    panicked: int


@dataclasses.dataclass
class Measured:
    """What the server did for one request."""

    longest_ms: float = 0.0
    slow: int = 0
    jobs: int = 0
    response_ms: float = 0.0
    processor_ms: float = 0.0
    panicked: int = 0
    accepted: bool = False
    answer: str = ""
    # The jobs of the server itself that ran meanwhile: {label: longest_ms}.
    others: dict = dataclasses.field(default_factory=dict)


class Meter:
    """Measures requests, one at a time. Use: `begin`, the request, `end`."""

    def __init__(self, server):
        self.server = server
        self.log_place = 0
        self.warned_at = 0.0
        self.before = self.started = self.processor = self.result = None

    def report(self):
        """Reads the report of the server."""
        jobs, active, panicked = {}, 0, 0
        for name, labels, value in SAMPLE.findall(self.server.metrics(60)):
            if name in ("busy", "depth"):
                active += int(value)
                continue
            if name == "panicked_total":
                panicked += int(value)
                continue
            labels = dict(LABEL.findall(labels))
            of = jobs.setdefault((labels["protocol"], labels["command"], labels["class"]), Jobs())
            if name == "jobs_total":
                of.count += int(value)
            elif name == "jobs_seconds_total":
                of.seconds += float(value)
            elif name == "jobs_slow_total":
                of.slow += int(value)
            else:
                of.longest_ms = max(of.longest_ms, int(value) / 1_000)
        return Report(jobs, active, panicked)

    def idle(self):
        """Waits until no job runs or waits, and returns the report."""
        end = time.monotonic() + IDLE_MAX_S
        pause = 0.001
        while True:
            report = self.report()
            if report.active == 0 or time.monotonic() > end:
                return report
            time.sleep(pause)
            pause = min(pause * 2, 0.2)

    def begin(self):
        """Begins a measurement."""
        self.before = self.idle()
        self.read_warnings()
        self.result = None
        self.processor = self.server.family.process_cpu_seconds()
        self.started = time.monotonic()

    def end(self, accepted, answer):
        """Ends a measurement. The request was answered, or its answer has not come in time."""
        response = time.monotonic() - self.started
        after = self.idle()
        measured = Measured(response_ms=response * 1_000, accepted=accepted, answer=answer[:200])
        measured.processor_ms = (self.server.family.process_cpu_seconds() - self.processor) * 1_000
        measured.panicked = after.panicked - self.before.panicked
        logged = self.read_warnings()
        for label, jobs in after.jobs.items():
            earlier = self.before.jobs.get(label, Jobs())
            count = jobs.count - earlier.count
            if not count:
                continue
            longest = _longest(jobs, earlier, logged.get(label[:2], 0))
            if label[2] == "server":
                measured.others[label] = longest
                continue
            measured.jobs += count
            measured.slow += jobs.slow - earlier.slow
            measured.longest_ms = max(measured.longest_ms, longest)
        self.result = measured

    def read_warnings(self):
        """Returns the longest job of each protocol and command that the log reports since the last call."""
        with open(f"{self.server.folder}/doublet.log", "rb") as log:
            log.seek(self.log_place)
            lines = log.read()
        lines = lines[: lines.rfind(b"\n") + 1]
        self.log_place += len(lines)
        found = {}
        for line in lines.splitlines():
            if WARNING.encode() not in line:
                continue
            self.warned_at = time.monotonic()
            event = json.loads(line)
            label = event["protocol"], event["command"]
            found[label] = max(found.get(label, 0), event["milliseconds"])
        return found

    def await_warnings(self):
        """Waits until the server would log a slow job again."""
        time.sleep(max(0.0, self.warned_at + WARNING_PAUSE_S - time.monotonic()))


def _longest(jobs, earlier, logged_ms):
    """Returns the longest time of the jobs that have ended since an earlier report, or a lower bound of it."""
    count, slow, total_ms = jobs.count - earlier.count, jobs.slow - earlier.slow, (jobs.seconds - earlier.seconds) * 1_000
    if jobs.longest_ms > earlier.longest_ms:
        return jobs.longest_ms
    if count == 1:
        return total_ms
    least = total_ms / count
    if slow:
        least = max(least, SLOW_MS, (total_ms - (count - slow) * SLOW_MS) / slow)
    return min(jobs.longest_ms, max(least, logged_ms))
