"""Starting servers, and what they cost: processor time and memory of a whole family of processes.

The processor time of a family is what its living members used (utime + stime) and what those members' dead and collected
children used (cutime + cstime). Nothing escapes: `adopt_orphans` makes this program the parent of whatever a server leaves
behind, and servers are started in the foreground.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """Makes this process the one that inherits the children of dead descendants, and that stops its servers when it is asked to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def raise_file_limit():
    """Raises the limit of open files as far as it goes, for this program and what it starts."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Family:
    """A server and everything that it starts, in the foreground."""

    def __init__(self, name, command, log, environment=None):
        self.name = name
        self.log = log
        with open(log, "ab") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            env=environment, start_new_session=True)

    def members(self):
        """Gives the process ids of the family, alive now."""
        children = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            stat = _stat(pid)
            if stat:
                children.setdefault(int(stat[1]), []).append(int(pid))
        found, todo = [], [self.process.pid]
        while todo:
            pid = todo.pop()
            found.append(pid)
            todo.extend(children.get(pid, []))
        return found

    def cpu_seconds(self):
        """Gives the processor time that the family has used since it was started."""
        ticks = 0
        for pid in self.members():
            stat = _stat(pid)
            if stat:
                ticks += sum(int(field) for field in stat[11:15])
        return ticks / TICKS

    def memory_kb(self):
        """Gives the family's memory, shared pages divided among those who share them (PSS)."""
        total = 0
        for pid in self.members():
            try:
                with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
                    total += sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
            except OSError:
                pass
        return total

    def stop(self, patience_s=30):
        """Asks the server to end, waits for it, and ends by force what is left of the family."""
        members = self.members()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pid in members[1:]:
            if _stat(pid):
                _end(pid)


def _end(pid):
    """Ends a process that its server has left behind; it is our child by now."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def _stat(pid):
    """Gives the fields of /proc/PID/stat behind the name: [0] is the state, [1] the parent, [11..15] the times."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()
    except OSError:
        return None


def wait_for(what, condition, patience_s=60, pause_s=0.02):
    """Waits for a condition, or fails saying what did not come."""
    end = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {patience_s} s")
        time.sleep(pause_s)
