"""Two servers of one domain: an empty replica is filled, and then takes over few changes of many documents.

The pull is compared with writing the same bytes to one file with one sync, and with a call per note, as Domino pulled
before release 6. The processor time of both servers for 100 changed documents must not depend on the number of all
documents, nor on what has been replicated before. A proxy counts the bytes of texts with and without compression, and
those of attachments that the receiving server has in another database.
"""

import csv
import json
import os
import random
import time

from harness.doublet import CHEAP_PASSWORDS, Doublet
from harness.gate import Gate

from .peers import DOMAIN, PASSWORD

DATABASE = "talk.nsf"
BODY_BYTES = 10_000
# The database among whose documents few are changed: its size, that of the one it is compared with, and of a document.
MANY_PER_PULLED, MANY_PER_FEW = 20, 100
SHORT_BODY_BYTES = 500
CHANGED = 100
# A server is idle if it has used less than this share of a processor for this time.
IDLE_S, LOOK_S, IDLE_SHARE = 3.0, 0.5, 0.05
REPETITIONS = 5
EARLIER = 30
SLOW_DOCUMENTS = 2_000
SLOW_DELAY_S = 0.01
ATTACHMENTS = 20
ATTACHMENT_BYTES = 1_000_000


class Pair:
    """Two running servers, of which the second has joined the first."""

    def __init__(self, program, folder):
        self.servers = []
        for name in ("hub", "spoke"):
            os.makedirs(f"{folder}/{name}")
            settings = {"server.name": f"{name}.{DOMAIN}", "server.organization": "Acme", "log.level": "warn"}
            self.servers.append(Doublet(program, f"{folder}/{name}", CHEAP_PASSWORDS | settings))
        self.hub, self.spoke = self.servers
        self.folder = folder
        os.environ["DOUBLET_PASSWORD"] = PASSWORD

    def start(self):
        """Starts both servers."""
        self.hub.start()
        self.hub.add_domain(DOMAIN)
        self.hub.add_users([f"ann@{DOMAIN}"], PASSWORD)
        host, port = self.hub.address("native")
        file = f"{self.folder}/spoke.pem"
        self.hub.command("server", "register", f"spoke.{DOMAIN}", "--own-address", f"{host}:{port}", "--output", file)
        self.spoke.command("server", "join", file)
        self.spoke.start()

    def restart_spoke(self, **settings):
        """Starts the spoke anew with other settings."""
        self.spoke.stop()
        self.spoke.settings |= settings
        self.spoke.start()

    def stop(self):
        """Stops both servers."""
        for server in self.servers:
            server.stop()

    def create(self, database, count, body_bytes=BODY_BYTES):
        """Creates a database with documents on the hub. Returns the UNIDs of some."""
        dice = random.Random(1)
        words = ["".join(dice.choice("abcdefghijklmnop") for _ in range(dice.randint(3, 9))) for _ in range(5_000)]
        path = f"{self.folder}/documents.csv"
        with open(path, "w", encoding="utf-8", newline="") as out:
            rows = csv.writer(out)
            rows.writerow(["Subject", "Body"])
            for number in range(count):
                rows.writerow([f"Document {number}", " ".join(dice.choices(words, k=body_bytes // 7))[:body_bytes]])
        self.hub.command("db", "create", database)
        self.hub.command("db", "acl", database, "set", f"ann@{DOMAIN}", "--level", "editor")
        self.hub.command("db", "import", database, path)
        os.remove(path)
        listed = json.loads(self.hub.command("note", "list", database, "--limit", str(CHANGED), "--user", "ann", "--json"))
        return [row["unid"] for row in listed]

    def pull(self, database, *options, gate=None):
        """Lets the spoke pull, perhaps through a gate. Returns the row of the database, the seconds, and the processor
        time of both servers."""
        way = (gate.address, "--server-name", f"hub.{DOMAIN}") if gate else (f"hub.{DOMAIN}",)
        cpu, start = self.cpu_seconds(), time.monotonic()
        row = json.loads(self.spoke.command("replicate", *way, database, "--pull", *options, "--json"))[0]
        return row, time.monotonic() - start, self.cpu_seconds() - cpu

    def settle(self):
        """Waits until the servers have ended the background work that earlier changes have caused."""
        idle_s, before = 0.0, self.cpu_seconds()
        while idle_s < IDLE_S:
            time.sleep(LOOK_S)
            now = self.cpu_seconds()
            idle_s = idle_s + LOOK_S if now - before < LOOK_S * IDLE_SHARE else 0.0
            before = now

    def fill(self, database, documents, *options, gate=None):
        """Lets the spoke pull into an empty replica. Returns the seconds."""
        self.spoke.command("db", "delete", database)
        self.settle()
        row, seconds, _ = self.pull(database, *options, gate=gate)
        if row["received"] < documents or row["skipped"] or row["refused"]:
            raise RuntimeError(f"the pull is not complete: {row}")
        return seconds

    def gate(self, delay_s=0.0):
        """Returns a new way from the spoke to the hub."""
        return Gate(lambda: self.hub.address("native"), delay_s)

    def cpu_seconds(self):
        """Returns the processor time of both servers."""
        return sum(server.cpu_seconds() for server in self.servers)

    def change(self, database, unids, text):
        """Changes documents on the hub."""
        for unid in unids:
            self.hub.command("note", "set", database, unid, f"Status={text}", "--user", "ann")


def written_seconds(folder, count):
    """Returns the time in which the bytes of the documents are written to one file, with one sync."""
    piece = os.urandom(BODY_BYTES)
    start = time.monotonic()
    with open(f"{folder}/written", "wb") as out:
        for _ in range(count):
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())
    seconds = time.monotonic() - start
    os.remove(f"{folder}/written")
    return seconds


def measure(program, folder, count):
    """Measures pulls of `count` documents and of fewer, and of few changes among 20 times as many."""
    pair = Pair(program, folder)
    try:
        pair.start()
        figures = {}
        for size, documents in (("small", count // 5), ("large", count)):
            _, seconds, cpu = created_and_pulled(pair, f"{size}.nsf", documents)
            written = written_seconds(folder, documents)
            figures[size] = {"documents": documents, "per_second": documents / seconds, "cpu_us": 1e6 * cpu / documents,
                             "mb_per_second": documents * BODY_BYTES / 1e6 / seconds, "written_mb_per_second": documents * BODY_BYTES / 1e6 / written}
        figures["transfers"] = transfers(pair, count)
        figures["wire"] = wire(pair, count // 5)
        return figures | few_changes(pair, MANY_PER_PULLED * count)
    finally:
        pair.stop()


def created_and_pulled(pair, database, documents, body_bytes=BODY_BYTES):
    """Creates a database and lets the spoke pull it. Returns UNIDs, the seconds, and the processor time of both."""
    unids = pair.create(database, documents, body_bytes)
    pair.settle()
    row, seconds, cpu = pair.pull(database)
    if row["received"] < documents or row["skipped"] or row["refused"]:
        raise RuntimeError(f"the pull is not complete: {row}")
    return unids, seconds, cpu


def few_changes(pair, many):
    """Returns figures of pulls of few changed documents: of two databases, and after earlier replications."""
    figures = {"many": many}
    for size, documents in (("few", many // MANY_PER_FEW), ("many", many)):
        unids, _, _ = created_and_pulled(pair, f"{size}.nsf", documents, SHORT_BODY_BYTES)
        figures[f"changed of {size}"] = changed(pair, f"{size}.nsf", unids)
    for number in range(EARLIER):
        pair.change("many.nsf", unids[:10], f"earlier {number}")
        pair.pull("many.nsf")
    return figures | {"changed later": changed(pair, "many.nsf", unids)}


def transfers(pair, count):
    """Returns the seconds of pulls into empty replicas, streaming and with a call per note, turn by turn."""
    found = []
    pair.create("middle.nsf", count // 2)
    pair.pull("middle.nsf")
    for database, documents in (("small.nsf", count // 5), ("middle.nsf", count // 2), ("large.nsf", count)):
        streaming = [pair.fill(database, documents)]
        calls = pair.fill(database, documents, "--call-per-note")
        streaming.append(pair.fill(database, documents))
        found.append({"documents": documents, "streaming_s": min(streaming), "calls_s": calls})
    documents = min(SLOW_DOCUMENTS, count)
    pair.create("slow.nsf", documents)
    pair.pull("slow.nsf")
    far = pair.gate(SLOW_DELAY_S)
    streaming, calls = (pair.fill("slow.nsf", documents, *options, gate=far) for options in ((), ("--call-per-note",)))
    found.append({"documents": documents, "streaming_s": streaming, "calls_s": calls, "delay_ms": 1e3 * SLOW_DELAY_S})
    return found


def wire(pair, documents):
    """Returns the bytes that the hub sends: texts with and without compression, and attachments that the spoke has."""
    figures = {}
    for name, setting in (("plain", "false"), ("compressed", "true")):
        pair.restart_spoke(**{"replication.compression": setting})
        way = pair.gate()
        pair.fill("small.nsf", documents, gate=way)
        figures[name] = way.bytes_sent
    for database in ("first.nsf", "second.nsf"):
        attach(pair, database)
        way = pair.gate()
        pair.pull(database, gate=way)
        figures[database.removesuffix(".nsf")] = way.bytes_sent
    return figures | {"attached": ATTACHMENTS * ATTACHMENT_BYTES}


def attach(pair, database):
    """Creates a database on the hub with documents that have large attachments, the same in each database."""
    unids = pair.create(database, ATTACHMENTS)
    dice = random.Random(2)
    for number, unid in enumerate(unids):
        path = f"{pair.folder}/file{number}.bin"
        with open(path, "wb") as out:
            out.write(dice.randbytes(ATTACHMENT_BYTES))
        pair.hub.command("note", "attach", database, unid, path, "--user", "ann")
        os.remove(path)


def changed(pair, database, unids):
    """Returns the time of a pull of 100 changed documents, and the processor time of both servers."""
    times, total = [], 0.0
    for number in range(REPETITIONS):
        pair.change(database, unids, f"change {number}")
        pair.settle()
        row, seconds, cpu = pair.pull(database)
        if row["received"] != len(unids):
            raise RuntimeError(f"{len(unids)} documents were changed, but the pull brought {row}")
        times.append(seconds)
        total += cpu
    return {"ms": 1e3 * min(times), "cpu_ms": 1e3 * total / REPETITIONS}


def rows(figures):
    """Returns the rows of the table: label, figure, compared figure, unit, better, aim alone, aim for the ratio."""
    large, small = figures["large"], figures["small"]
    later, of_many, of_few = (figures[f"changed {name}"]["cpu_ms"] for name in ("later", "of many", "of few"))
    documents = f"{large['documents']:,}"
    return [
        *transfer_rows(figures["transfers"]),
        *wire_rows(figures["wire"]),
        (f"an empty replica of {documents} documents of 10 KB is filled by another server", large["per_second"], None, "/s", "more", 8_000, None),
        ("the same, of a fifth of the documents", small["per_second"], None, "/s", "more", 8_000, None),
        ("the same, bytes a second (compared with: writing them to one file)", large["mb_per_second"], large["written_mb_per_second"], "MB/s", "more", None, 0.5),
        (f"100 changed of {figures['many']:,}: processor time of both servers (compared with: of a hundredth)", of_many, of_few, "ms", "less", 50, 1.2),
        ("the same after 30 earlier replications (compared with: before them)", later, of_many, "ms", "less", 50, 1.2),
    ]


def curves(figures):
    """Returns the images of the figures: file name, title, names of the axes, and the points of each curve."""
    near = [found for found in figures["transfers"] if "delay_ms" not in found]
    points = {"streaming": [], "a call per note": []}
    for found in near:
        points["streaming"].append((found["documents"], found["streaming_s"]))
        points["a call per note"].append((found["documents"], found["calls_s"]))
    yield "replication-pull.svg", "A pull into an empty replica, documents of 10 KB", "documents", "seconds", points


def transfer_rows(found):
    """Returns the rows of the pulls that stream and those with a call per note."""
    for figures in found:
        far = f", {figures['delay_ms']:.0f} ms each way" if "delay_ms" in figures else ""
        label = f"a pull of {figures['documents']:,} documents into an empty replica{far} (a call per note)"
        yield label, figures["streaming_s"], figures["calls_s"], "s", "less", None, 0.05 if far else 0.3


def wire_rows(figures):
    """Returns the rows of the bytes on the wire."""
    mega = {name: found / 1e6 for name, found in figures.items()}
    yield "bytes of a pull of texts with compression (without)", mega["compressed"], mega["plain"], "MB", "less", None, 0.6
    yield "bytes of attachments that another database has (their size)", mega["second"], mega["attached"], "MB", "less", None, 0.01
