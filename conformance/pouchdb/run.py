"""PouchDB against the door for CouchDB's replication protocol: offline edits both ways, attachments, conflicts, deletions,
live replication, filters and places after a restart. Every scene is played by the npm package (`client.js`)."""

import json
import os
import shutil
import socket
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
DATABASE = "talk.nsf"
SCENE_TIME_MAX_S = 300
# In this order: later scenes use the documents of earlier ones.
SCENES = ("push", "sync", "conflict", "resolve", "branch", "deletion", "lists", "random", "direct", "requests", "filter")
HEALTHY = "No damage was found."
# Where PouchDB is installed, once for all runs.
MODULES = os.path.expanduser("~/.cache/doublet/pouchdb")


class Wrong(Exception):
    """A scene has failed."""


def install(folder):
    """Installs PouchDB in the version of the lock file, once for all runs. Returns the folder of the modules."""
    os.makedirs(folder, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(f"{HERE}/{name}", folder)
    if not os.path.isdir(f"{folder}/node_modules/pouchdb"):
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True)
    return f"{folder}/node_modules"


class Play:
    """The scenes, with a server."""

    def __init__(self, server, password, modules):
        self.server = server
        self.password = password
        self.folder = f"{server.folder}/pouchdb"
        os.makedirs(self.folder)
        self.modules = modules

    def prepare(self):
        """Creates people and a database that is open to CouchDB clients."""
        server = self.server
        server.stop()
        server.settings["listen.couchdb"] = f"127.0.0.1:{lasting_port()}"
        server.start()
        server.add_domain("acme.test")
        for name in ("ann", "bob"):
            server.add_user(f"{name}@acme.test", self.password)
        server.command("db", "create", DATABASE, "--title", "Talk")
        server.command("db", "acl", DATABASE, "set", "ann@acme.test", "--level", "manager")
        server.command("db", "acl", DATABASE, "set", "bob@acme.test", "--level", "author")
        server.command("db", "set", DATABASE, "--couchdb", "on")

    def environment(self, login, extra):
        """Returns the environment of a scene."""
        host, port = self.server.address("couchdb")
        known = {"URL": f"https://{host}:{port}/{DATABASE}", "FOLDER": self.folder, "LOGIN": login}
        # The server's certificate is self-signed.
        known |= {"PASSWORD": self.password, "MODULES": self.modules, "NODE_TLS_REJECT_UNAUTHORIZED": "0"}
        return os.environ | known | {"NODE_NO_WARNINGS": "1"} | extra

    def scene(self, name, login="ann@acme.test", **extra):
        """Plays a scene and returns its result."""
        words = ["node", f"{HERE}/client.js", name]
        played = subprocess.run(words, env=self.environment(login, extra), capture_output=True, text=True, check=False,
                                timeout=SCENE_TIME_MAX_S)
        return result_of(name, played.returncode, played.stdout, played.stderr)

    def live(self):
        """Plays the scene of a live replication, in which the server is restarted on the same port."""
        words = ["node", f"{HERE}/client.js", "live"]
        with subprocess.Popen(words, env=self.environment("ann@acme.test", {}), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as played:
            if played.stdout.readline().strip() != "READY":
                raise Wrong(f"live: {played.communicate()[1]}")
            try:
                self.server.stop()
                self.server.start()
                out, errors = played.communicate("go on\n", timeout=SCENE_TIME_MAX_S)
            finally:
                # Otherwise the end of this block would wait for it.
                played.kill()
        result_of("live", played.returncode, out, errors)

    def native(self):
        """Checks that the native protocol sees what PouchDB wrote, and the reverse."""
        search = json.loads(self.server.command("note", "search", DATABASE, 'number = 9', "--user", "ann", "--json"))
        found = search.get("notes") or search.get("rows") or search
        if not found:
            raise Wrong(f"native: the document is not found: {search}")


def lasting_port():
    """Returns a free port from which no connection begins. While the server is down, its clients go on connecting to its
    port, and on this machine such a connection could begin at the port and meet itself, so that it stays in use."""
    for port in range(20_000 + os.getpid() % 5_000, 32_000):
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            continue
    raise Wrong("there is no free port")


def result_of(name, status, out, errors):
    """Returns the result that a scene has printed. Raises Wrong if it has failed."""
    last = out.strip().splitlines()[-1:] or [""]
    if status or not last[0].startswith("RESULT "):
        raise Wrong(f"{name}: {errors.strip() or out.strip()}"[:4000])
    return json.loads(last[0].removeprefix("RESULT "))


def run(server, count, only, password):
    """Plays the scenes and adds their number to `count`."""
    play = Play(server, password, install(MODULES))
    play.prepare()
    steps = [(name, lambda name=name: play.scene(name)) for name in SCENES]
    steps += [("live", play.live), ("checkpoint", lambda: play.scene("checkpoint")), ("check", lambda: check(server))]
    for name, step in steps:
        if only and only != name and name != "push":
            continue
        try:
            found = step()
            print(f"pouchdb: {name}: ok {json.dumps(found) if found else ''}")
            count.add(1, 0, 0)
        except Wrong as wrong:
            print(f"pouchdb: {wrong}")
            count.add(0, 1, 0)


def check(server):
    """Checks that the database has no damage."""
    server.stop()
    said = server.command("fixup", DATABASE)
    if HEALTHY not in said:
        raise Wrong(f"fixup: {said}")
    server.start()
