"""Limited resources for a server: a small file system, few files, little memory.

A resource that this machine cannot give raises `Unavailable`, and its cell is skipped with the reason. Mounts and control
groups are removed when their context ends.
"""

import contextlib
import ctypes
import errno
import os
import subprocess
import time

MB = 1 << 20
CLONE_NEWNS, CLONE_NEWUSER = 0x0002_0000, 0x1000_0000
PATIENCE_S = 10
HOLD_PAUSE_S = 0.02


class Unavailable(Exception):
    """This machine does not permit it."""


@contextlib.contextmanager
def file_system(folder, size, options=()):
    """Mounts an empty file system on a folder: ext4 on a file, or else (and with `options`) a tmpfs."""
    os.makedirs(folder)
    reasons = []
    for mount in (mount_tmpfs, mount_in_namespace) if options else (mount_ext4, mount_tmpfs, mount_in_namespace):
        try:
            mount(folder, size, options)
            break
        except (OSError, subprocess.SubprocessError) as error:
            reasons.append(reason_of(error))
    else:
        raise Unavailable(f"no file system of {size // MB} MB can be mounted: {'; '.join(reasons)}")
    try:
        yield
    finally:
        unmount(folder)
        with contextlib.suppress(FileNotFoundError):
            os.remove(f"{folder}.image")


def mount_ext4(folder, size, _options):
    """Mounts an ext4 file system on a file."""
    image = f"{folder}.image"
    try:
        with open(image, "wb") as file:
            file.truncate(size)
        run("mkfs.ext4", "-q", "-m", "0", image)
        run("mount", "-o", "loop", image, folder)
    except BaseException:
        subprocess.run(["umount", folder], capture_output=True, check=False)
        with contextlib.suppress(FileNotFoundError):
            os.remove(image)
        raise


def mount_tmpfs(folder, size, options):
    """Mounts a file system in memory."""
    run("mount", "-t", "tmpfs", "-o", ",".join((f"size={size}", *options)), "tmpfs", folder)


def mount_in_namespace(folder, size, options):
    """Moves this process into a user and mount namespace of its own, in which it may mount a file system in memory."""
    user, group = os.geteuid(), os.getegid()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), f"unshare: {os.strerror(ctypes.get_errno())}")
    for name, content in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(content)
    mount_tmpfs(folder, size, options)


def unmount(folder):
    """Unmounts a file system, as soon as no process uses it."""
    for _ in range(20):
        if subprocess.run(["umount", folder], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    run("umount", "--lazy", folder)


@contextlib.contextmanager
def memory_limit(limit):
    """Makes a control group with a memory limit. Yields the words that start a command in it."""
    name = f"doublet-faults-{os.getpid()}"
    for parent, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = os.path.join(parent, name)
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            with open(os.path.join(group, file), "w", encoding="ascii") as setting:
                setting.write(str(limit))
            break
        except OSError:
            os.rmdir(group)
    else:
        raise Unavailable("no control group with a memory limit can be made")
    try:
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
    finally:
        remove_group(group)


def remove_group(group):
    """Removes a control group, as soon as its last process has disappeared."""
    for _ in range(50):
        try:
            os.rmdir(group)
            return
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        time.sleep(0.1)


class Filler:
    """Takes all free space of a file system, or all its files, and gives them back."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.count = 0

    def fill_space(self, hold_s, pause_s):
        """Writes until no byte is free, for `hold_s` seconds, also what others free meanwhile.

        The pieces are small and have pauses between them, or are large if `pause_s` is 0.
        """
        end = time.monotonic() + hold_s
        while True:
            self.take_space(pause_s)
            if time.monotonic() >= end:
                return
            time.sleep(HOLD_PAUSE_S)

    def take_space(self, pause_s):
        """Takes all free space, in pieces that become smaller."""
        with open(os.path.join(self.folder, "filler"), "ab") as file:
            size, piece = os.fstat(file.fileno()).st_size, 4 * MB if pause_s else 64 * MB
            while piece:
                try:
                    os.posix_fallocate(file.fileno(), size, piece)
                    size += piece
                    time.sleep(pause_s)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    piece = piece // 4 if piece > 4_096 else 0

    def fill_files(self, hold_s):
        """Creates files until no more can be created, for `hold_s` seconds."""
        end = time.monotonic() + hold_s
        while True:
            try:
                while True:
                    with open(os.path.join(self.folder, f"file{self.count}"), "xb"):
                        self.count += 1
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            if time.monotonic() >= end:
                return
            time.sleep(HOLD_PAUSE_S)

    def release(self):
        """Removes the files."""
        for name in os.listdir(self.folder):
            os.remove(os.path.join(self.folder, name))


def run(*words):
    """Runs a command. Raises CalledProcessError if it fails."""
    subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE_S, env=os.environ | {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"})


def reason_of(error):
    """Returns the last line that a failed command has printed, or the text of the error."""
    lines = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else str(error)
