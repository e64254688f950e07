"""PouchDB against the door for CouchDB's replication protocol: offline edits both ways, attachments, conflicts, deletions,
live replication, filters, places after a restart, the rights of people, the same documents over the native protocol, and
10,000 documents both ways. Every scene is played by the npm package (`client.js`)."""

import base64
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
# The replies to a change of a document that is hidden from a person.
REFUSED = (403, 404)
HEALTHY = "No damage was found."
# What users of the native protocol see of the values in `client.js`.
SEEN_NATIVELY = {"text": "Grüße ☕", "empty": "", "five": 5, "fraction": -0.1, "large": 1e300, "yes": True, "no": False, "nothing": None}
SEEN_NATIVELY |= {"texts": ["a", "b"], "numbers": [1, 2.5], "mixed": [1, "a", None, {"b": []}], "nested": {"a": {"b": [{}]}}, "long": "x" * 20_000}
# Where PouchDB is installed, once for all runs.
MODULES = os.path.expanduser("~/.cache/doublet/pouchdb")


class Wrong(Exception):
    """A scene has failed."""


class Unavailable(Exception):
    """This machine has no PouchDB."""


def install(folder):
    """Installs PouchDB in the version of the lock file, once for all runs. Returns the folder of the modules."""
    os.makedirs(folder, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(f"{HERE}/{name}", folder)
    if not os.path.isdir(f"{folder}/node_modules/pouchdb"):
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True)
    return f"{folder}/node_modules"


def installed(folder, may_install):
    """Returns the folder of the modules. Raises `Unavailable` if Node or PouchDB is not there and cannot be installed."""
    if not shutil.which("node"):
        raise Unavailable("node is not installed")
    try:
        if may_install:
            return install(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"npm cannot install pouchdb: {error}") from error
    if not os.path.isdir(f"{folder}/node_modules/pouchdb"):
        raise Unavailable("pouchdb is not installed; `conformance/run PROGRAM pouchdb` installs it")
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
        for name in ("ann", "bob", "carol", "dora"):
            server.add_user(f"{name}@acme.test", self.password)
        server.command("group", "add", "crew", "--kind", "acl", "--member", "bob@acme.test")
        server.command("db", "create", DATABASE, "--title", "Talk")
        server.command("db", "acl", DATABASE, "set", "ann@acme.test", "--level", "manager")
        server.command("db", "acl", DATABASE, "set", "bob@acme.test", "--level", "author")
        server.command("db", "acl", DATABASE, "set", "carol@acme.test", "--level", "reader")
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
        """Checks that users of the native protocol see what PouchDB wrote, and the reverse."""
        found = self.as_user("ann", "note", "list", DATABASE, "--formula", "SELECT number = 9")
        if len(found) != 1:
            raise Wrong(f"native: {len(found)} documents instead of one: {found}")
        unid = found[0]["unid"]
        items = self.as_user("ann", "note", "get", DATABASE, unid)["items"]
        if differences := {name: items.get(name) for name, value in SEEN_NATIVELY.items() if items.get(name) != value}:
            raise Wrong(f"native: values of PouchDB differ: {differences}")
        files = self.as_user("ann", "note", "list", DATABASE, "--formula", 'SELECT $CouchId = "with files"')
        fetched = f"{self.folder}/fetched"
        self.as_user("ann", "note", "fetch", DATABASE, files[0]["unid"], "a b.txt", "--to", fetched)
        if content_of(fetched) != "hello":
            raise Wrong(f"native: the attachment has the content {content_of(fetched)!r}")
        self.written_natively(unid)

    def written_natively(self, unid):
        """Checks that PouchDB sees a document that is created, one that is changed, and one that is deleted."""
        items = ("Subject=Grüße", "Count:number=5", "Tag=a", "Tag=b", "Due:time=2026-01-31T12:00:00Z")
        made = self.as_user("ann", "note", "create", DATABASE, *items)["unid"]
        self.as_user("ann", "note", "attach", DATABASE, made, __file__)
        self.as_user("ann", "note", "set", DATABASE, unid, "number:number=99", "native=yes")
        gone = self.as_user("ann", "note", "list", DATABASE, "--formula", "SELECT number = 10")[0]["unid"]
        self.as_user("ann", "note", "delete", DATABASE, gone)
        created, changed, deleted = self.scene("show", IDS=json.dumps([made.lower(), "doc-9", "doc-10"]))["docs"]
        expected = {"Subject": "Grüße", "Count": 5, "Tag": ["a", "b"], "Due": {"$type": "time", "$value": "2026-01-31T12:00:00Z"}}
        if not created or {name: created.get(name) for name in expected} != expected:
            raise Wrong(f"native: PouchDB has the new document as {created}")
        if base64.b64decode(created["_attachments"]["run.py"]["data"]).decode() != content_of(__file__):
            raise Wrong("native: PouchDB has another attachment")
        if not changed or (changed["number"], changed["native"], changed["five"]) != (99, "yes", 5):
            raise Wrong(f"native: PouchDB has the changed document as {changed}")
        if deleted:
            raise Wrong(f"native: PouchDB has the deleted document {deleted}")

    def as_user(self, user, *words):
        """Runs a command of the native protocol and returns its result. Raises `Wrong` if it fails."""
        try:
            return json.loads(self.server.command(*words, *(("--limit", "0") if words[1] == "list" else ()), "--user", user, "--json"))
        except RuntimeError as error:
            raise Wrong(f"{user}: {error}") from error

    def rights(self):
        """Checks that the access control list and the Readers and Authors items of documents hold for PouchDB."""
        create = ("note", "create", DATABASE)
        secret = self.as_user("ann", *create, "Subject=secret", f"Who:readers={native_name('ann')}")["unid"].lower()
        of_bob = self.as_user("ann", *create, "Subject=of Bob", f"By:authors={native_name('bob')}")["unid"].lower()
        plain = self.as_user("ann", *create, "Subject=plain")["unid"].lower()
        made = [
            {"_id": "secret", "Subject": "secret", "Who": names("readers", canonical_name("ann"))},
            {"_id": "of Bob", "Subject": "of Bob", "By": names("authors", canonical_name("bob"))},
            {"_id": "of the crew", "Subject": "of the crew", "Who": names("readers", "crew", canonical_name("ann"))},
        ]
        self.person("ann", made, outcomes={doc["_id"]: "ok" for doc in made})
        hidden = [secret, "secret"]
        tries = [
            {"_id": "by Bob", "Subject": "by Bob"},
            {"_id": of_bob, "Subject": "changed", "By": names("authors", canonical_name("bob"))},
            {"_id": plain, "Subject": "changed"},
            {"_id": "doc-7", "Subject": "changed"},
            {"_id": "forged", "$UpdatedBy": [canonical_name("ann")]},
            {"_id": secret, "Subject": "changed"},
            {"_id": "secret", "Subject": "changed"},
        ]
        outcomes = {"by Bob": "ok", of_bob: "ok", plain: 403, "doc-7": 403, "forged": 403, secret: REFUSED, "secret": REFUSED}
        deletions = {"doc-7": 403, plain: 403, "of Bob": "ok"}
        self.person("bob", tries, outcomes, deletions, hidden, [plain, of_bob, "of Bob", "of the crew", "doc-7"])
        tries = [{"_id": "by Carol", "Subject": "new"}, {"_id": of_bob, "Subject": "changed"}, {"_id": "doc-7", "Subject": "changed"}]
        outcomes = dict.fromkeys(("by Carol", of_bob, "doc-7"), 403)
        self.person("carol", tries, outcomes, {"doc-7": 403}, [*hidden, "of the crew"], [plain, of_bob, "by Bob", "doc-7"])
        if (found := self.tried("dora", [], [], [])) != {"status": 404, "documents": 0}:
            raise Wrong(f"rights: dora, who has no access, gets {found}")
        self.check_kept(secret, plain, of_bob)

    def tried(self, user, tries, deletions, hidden):
        """Lets a person replicate, save and delete documents. Returns the result of the scene."""
        wanted = {"tries": {doc["_id"]: doc for doc in tries}, "deletions": list(deletions), "hidden": list(hidden)}
        return self.scene("rights", f"{user}@acme.test", TRIES=json.dumps(wanted))

    def person(self, user, tries, outcomes, deletions=None, hidden=(), seen=()):
        """Checks what a person sees and may do over PouchDB, and that it is what they see over the native protocol."""
        deletions = deletions or {}
        found = self.tried(user, tries, deletions, hidden)
        if found["status"] != 200:
            raise Wrong(f"rights: {user} cannot open the database: {found}")
        found["outcomes"] |= {name: REFUSED for name in hidden if found["outcomes"].get(name) in REFUSED}
        expected = outcomes | {f"delete {name}": outcome for name, outcome in deletions.items()}
        if found["outcomes"] != expected:
            raise Wrong(f"rights: {user} gets {found['outcomes']} instead of {expected}")
        refused = sorted(name for name, outcome in outcomes.items() if outcome != "ok")
        if found["refused"] != refused:
            raise Wrong(f"rights: of what {user} changed offline, {found['refused']} were refused instead of {refused}")
        natively = {row["$CouchId"] or row["unid"].lower() for row in self.as_user(user, "note", "list", DATABASE, "--item", "$CouchId")}
        for what, ids in (("PouchDB", set(found["seen"])), ("the native protocol", natively | set(deletions))):
            if absent := set(seen) - ids:
                raise Wrong(f"rights: {user} does not see {absent} over {what}")
            if ids & set(hidden):
                raise Wrong(f"rights: {user} sees {ids & set(hidden)} over {what}")
        if absent := set(found["seen"]) - natively - set(deletions):
            raise Wrong(f"rights: {user} sees over PouchDB alone: {absent}")

    def check_kept(self, secret, plain, of_bob):
        """Checks that documents have changed only where people had the right."""
        rows = self.as_user("ann", "note", "list", DATABASE, "--item", "Subject", "--item", "$CouchId")
        subjects = {row["$CouchId"] or row["unid"].lower(): row["Subject"] for row in rows}
        expected = {secret: "secret", plain: "plain", of_bob: "changed", "secret": "secret", "by Bob": "by Bob", "doc-7": None}
        expected |= dict.fromkeys(("of Bob", "by Carol", "forged"))
        if differences := {name: subjects.get(name) for name in expected if (subjects.get(name) or None) != expected[name]}:
            raise Wrong(f"rights: documents have the subjects {differences}")


def native_name(user):
    """Returns the name of a person as users write it."""
    return f"{user}/acme.test"


def canonical_name(user):
    """Returns the name of a person as databases have it."""
    return f"CN={user}/O=acme.test"


def names(kind, *values):
    """Returns a Readers or Authors item."""
    return {"$type": "text-list", "$flags": ["summary", "names", kind], "$value": list(values)}


def content_of(path):
    """Returns the text of a file."""
    with open(path, encoding="utf-8") as file:
        return file.read()


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
    os.environ["DOUBLET_PASSWORD"] = password
    play = Play(server, password, install(MODULES))
    play.prepare()
    steps = [(name, lambda name=name: play.scene(name)) for name in SCENES]
    steps += [("live", play.live), ("checkpoint", lambda: play.scene("checkpoint")), ("native", play.native)]
    steps += [("rights", play.rights), ("many", lambda: play.scene("many")), ("check", lambda: check(server))]
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
