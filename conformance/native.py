"""The native protocol with an independent client: the Python example, with stubs that gRPC's Python tool generates.

The gRPC packages are installed once per machine, into a virtual environment in the cache folder of the builds. If the
installation fails, the part is skipped and prints the reason.
"""

import functools
import os
import subprocess
import sys

from harness.doublet import SERVER_NAME

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
PACKAGES = ("grpcio==1.85.1", "grpcio-tools==1.85.1")
INSTALL_TIME_MAX_S = 600
EXPECTED = """\
logged in as CN=py/O=native.test
opened mail/py.nsf with NUMBER notes
a second save is refused: ABORTED
found ['Sand']
changed since: True
new mail: True
deleted: True
"""


def run(server, count, password):
    """Runs the example against a server."""
    python, why = environment()
    if python is None:
        print(f"native: skipped, {why}")
        count.add(0, 0, 1)
        return
    stubs = compile_stubs(python, server.folder, "grpc_python")
    server.add_domain("native.test")
    server.add_users(["py@native.test"], password)
    host, port = server.address("native")
    words = [python, f"{ROOT}/examples/python/notes.py", f"{host}:{port}", f"{server.data}/tls/certificate.pem", "py", SERVER_NAME]
    # The proxies in the environment must not be used for servers on this machine.
    clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(words, input=f"{password}\n", capture_output=True, text=True, timeout=60, check=False,
                          env=clean | {"PYTHONPATH": stubs})
    said = " ".join("NUMBER" if word.isdigit() else word for word in done.stdout.split(" "))
    if said == EXPECTED:
        print("native: the example in Python passes")
        count.add(1, 0, 0)
    else:
        print(f"native: the example said\n{done.stdout}{done.stderr[-2000:]}instead of\n{EXPECTED}")
        count.add(0, 1, 0)


def compile_stubs(python, folder, *outputs):
    """Compiles proto/ into Python below `folder`, with additional outputs such as `grpc_python`. Returns the folder of the result."""
    stubs = f"{folder}/stubs"
    os.makedirs(stubs)
    protos = [os.path.join("doublet/v1", name) for name in sorted(os.listdir(os.path.join(ROOT, "proto/doublet/v1")))]
    options = [f"--{output}_out={stubs}" for output in ("python", *outputs)]
    subprocess.run([python, "-m", "grpc_tools.protoc", "-I", f"{ROOT}/proto", *options, *protos], check=True, timeout=60)
    return stubs


@functools.cache
def environment():
    """Returns the path of a Python with gRPC and None, or None and the reason why there is none."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(cache, "doublet", "python-" + PACKAGES[0].replace("==", "-"))
    python = os.path.join(folder, "bin", "python3")
    if has_grpc(python):
        return python, None
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True, capture_output=True, timeout=INSTALL_TIME_MAX_S)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
        subprocess.run(install, check=True, capture_output=True, timeout=INSTALL_TIME_MAX_S)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        lines = said.decode(errors="replace").strip().splitlines() or [str(error)]
        return None, f"gRPC for Python cannot be installed: {lines[-1]}"
    return python, None


def has_grpc(python):
    """Returns True if the Python exists and has gRPC."""
    try:
        return subprocess.run([python, "-c", "import grpc, grpc_tools"], capture_output=True, timeout=60, check=False).returncode == 0
    except OSError:
        return False
