"""Starting servers, and measuring the processor time and memory of a family of processes.

The processor time of a family is that of its living members (utime + stime) and of their terminated, collected children
(cutime + cstime). No process escapes: `adopt_orphans` makes this program the parent of all processes that a server
leaves behind, and servers are started in the foreground.
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
    """Makes this process the parent of orphaned descendants, and makes it stop its servers on SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def raise_file_limit():
    """Raises the limit of open files to its maximum, for this program and its children."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Family:
    """A server in the foreground, and all processes that it starts."""

    def __init__(self, name, command, log, environment=None):
        self.name = name
        self.log = log
        with open(log, "ab") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            env=environment, start_new_session=True)

    def members(self):
        """Returns the process ids of the living members of the family."""
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
        """Returns the processor time that the family has used since its start."""
        ticks = 0
        for pid in self.members():
            stat = _stat(pid)
            if stat:
                ticks += sum(int(field) for field in stat[11:15])
        return ticks / TICKS

    def process_cpu_seconds(self):
        """Returns the processor time of the started process alone, which is read faster than that of the family."""
        stat = _stat(self.process.pid)
        return (int(stat[11]) + int(stat[12])) / TICKS if stat else 0.0

    def memory_kb(self):
        """Returns the memory of the family as its proportional set size (PSS)."""
        total = 0
        for pid in self.members():
            try:
                with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
                    total += sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
            except OSError:
                pass
        return total

    def stop(self, patience_s=30):
        """Terminates the server, waits for it, and kills the remaining processes of the family."""
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
    """Kills a process that its server has left behind. It is a child of this process now."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def _stat(pid):
    """Returns the fields of /proc/PID/stat after the name: [0] is the state, [1] the parent, [11..15] the times."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()
    except OSError:
        return None


def wait_for(what, condition, patience_s=60, pause_s=0.02):
    """Waits for a condition. Raises TimeoutError with its name if it is not met in time."""
    end = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {patience_s} s")
        time.sleep(pause_s)
