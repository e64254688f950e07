"""The machine and the commit of a measurement."""

import os
import platform
import statistics
import subprocess
import tempfile
import time


def facts(folder):
    """Returns the properties of this machine; the disk is that of `folder`."""
    return {"processor": _processor(), "cores": os.cpu_count(), "memory_gib": round(_memory_kb() / 1_048_576), "kernel": platform.release(),
            "file_system": _file_system(folder), "sync_us": round(_sync_us(folder)), "load": f"{os.getloadavg()[1]:.1f}"}


def commit():
    """Returns the measured commit, with a mark if files other than the results of an earlier run have changed."""
    git = lambda *arguments: subprocess.run(["git", *arguments], capture_output=True, text=True, check=False).stdout.strip()  # noqa: E731
    name = git("rev-parse", "--short=12", "HEAD") or "unknown"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/performance.*")
    return f"{name}-dirty" if changed else name


def _processor():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _memory_kb():
    with open("/proc/meminfo", encoding="ascii") as lines:
        return int(next(line for line in lines if line.startswith("MemTotal")).split()[1])


def _file_system(folder):
    return subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True).stdout.strip()


def _sync_us(folder):
    """Returns the median time in microseconds to make 4 KB durable."""
    times = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(200):
            start = time.monotonic()
            file.write(b"x" * 4_096)
            file.flush()
            os.fdatasync(file.fileno())
            times.append(time.monotonic() - start)
    return 1e6 * statistics.median(times)
