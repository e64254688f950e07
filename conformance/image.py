"""The container image: the context that `packaging/Dockerfile` copies must contain all files that the build reads.

The test does not need Docker. The files that the compiler read are in the dependency file beside the program, those of
build scripts in their `rerun-if-changed` lines. Each of them must be below a path in a `COPY` line of the build stage.
The long form (`DOUBLET_SOAK=1`) copies this context into an empty folder and compiles it.
"""

import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
DOCKERFILE = os.path.join(ROOT, "packaging", "Dockerfile")
BUILD_TIME_MAX_S = 3_600


def copied():
    """Returns the paths, relative to the root, that the build stage copies from the context."""
    with open(DOCKERFILE, encoding="utf-8") as lines:
        stage = re.split(r"^FROM ", lines.read(), flags=re.M)[1]
    return [source for line in re.findall(r"^COPY (.*)$", stage, re.M) for source in line.split()[:-1]]


def read_by_compiler(program):
    """Returns the files of this tree that the compiler and build scripts read for a program."""
    with open(f"{program}.d", encoding="utf-8") as rule:
        files = rule.read().partition(": ")[2].split()
    for output in glob.glob(os.path.join(os.path.dirname(program), "build", "*", "output")):
        with open(output, encoding="utf-8", errors="replace") as lines:
            told = [line.strip().partition("rerun-if-changed=")[2] for line in lines if "rerun-if-changed=" in line]
        crate = os.path.basename(os.path.dirname(output)).rpartition("-")[0]
        files += [os.path.join(ROOT, "crates", crate, path) for path in told]
    inside = {os.path.relpath(os.path.realpath(path), ROOT) for path in files}
    return sorted(path for path in inside if not path.startswith("..") and os.path.exists(os.path.join(ROOT, path)))


class Image(unittest.TestCase):
    """The build context of `docker build`."""

    program = None

    def test_every_file_that_the_build_reads_is_copied(self):
        """Checks that no file outside the copied paths is read: it would be missing in the image build."""
        sources = copied()
        read = read_by_compiler(self.program)
        self.assertGreater(len(read), 100, "the dependency file names the sources")
        is_copied = lambda path: any(path == source or path.startswith(f"{source}/") for source in sources)  # noqa: E731
        self.assertEqual([], [path for path in read if not is_copied(path)], "files that packaging/Dockerfile does not copy")

    @unittest.skipUnless(os.environ.get("DOUBLET_SOAK"), "compiles the program once more: long form only")
    def test_the_copied_context_compiles(self):
        """Runs the build command of the image in a folder that contains only the context (long form)."""
        with tempfile.TemporaryDirectory(prefix="doublet-image.") as folder:
            for source in copied():
                target = os.path.join(folder, source)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                copy = shutil.copytree if os.path.isdir(os.path.join(ROOT, source)) else shutil.copy
                copy(os.path.join(ROOT, source), target)
            command = [os.path.join(ROOT, "scripts/cargo"), "build", "--release", "--locked", "--package", "doublet"]
            subprocess.run(command, cwd=folder, check=True, timeout=BUILD_TIME_MAX_S)
