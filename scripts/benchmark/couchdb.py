"""PouchDB replicates with us and with pouchdb-server, the peer that speaks CouchDB's protocol."""

import json
import os
import shutil
import socket
import subprocess
import time

from harness.doublet import CHEAP_PASSWORDS, Doublet

from .peers import DOMAIN, PASSWORD
from .views import fetch_modules

PEER = "pouchdb-server@4"
DATABASE = "talk.nsf"
START_TIME_MAX_S = 30
TICKS = os.sysconf("SC_CLK_TCK")


def measure(program, folder, count):
    """Measures both servers turn by turn, twice. Returns the best of both turns for each, or None without the peer."""
    client, peer = fetch_modules("pouchdb@9"), fetch_modules(PEER)
    if not client or not peer:
        return None
    found = {"ours": [], "peer": []}
    for turn in range(2):
        for name, run in (("ours", ours), ("peer", theirs)):
            place = f"{folder}/{name}{turn}"
            os.makedirs(place)
            found[name].append(run((program, client, peer), place, count))
            shutil.rmtree(place, ignore_errors=True)
    best = {name: {key: min(figures[key] for figures in turns) for key in turns[0]} for name, turns in found.items()}
    return {name: {"count": count, **figures} for name, figures in best.items()}


def ours(programs, folder, count):
    """Measures Doublet."""
    program, client, _ = programs
    settings = {"server.name": f"hub.{DOMAIN}", "listen.couchdb": "127.0.0.1:0", "log.level": "warn"}
    server = Doublet(program, folder, CHEAP_PASSWORDS | settings)
    try:
        server.start()
        server.add_domain(DOMAIN)
        server.add_user(f"ann@{DOMAIN}", PASSWORD)
        server.command("db", "create", DATABASE)
        server.command("db", "acl", DATABASE, "set", f"ann@{DOMAIN}", "--level", "manager")
        server.command("db", "set", DATABASE, "--couchdb", "on")
        host, port = server.address("couchdb")
        login = {"LOGIN": f"ann@{DOMAIN}", "PASSWORD": PASSWORD, "NODE_TLS_REJECT_UNAUTHORIZED": "0"}
        return replicate(client, f"{folder}/client", (f"https://{host}:{port}/{DATABASE}", count), login, server.cpu_seconds)
    finally:
        server.stop()


def theirs(programs, folder, count):
    """Measures pouchdb-server, without logins and TLS."""
    _, client, peer = programs
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["node", f"{peer}/node_modules/pouchdb-server/bin/pouchdb-server", "--port", str(port), "--dir", folder, "--no-stdout-logs"]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(port)
            return replicate(client, f"{folder}/client", (f"http://127.0.0.1:{port}/talk", count), {}, lambda: process_seconds(server.pid))
        finally:
            server.terminate()


def replicate(modules, folder, work, login, cpu_seconds):
    """Lets PouchDB push documents and pull them. Returns the seconds, and the processor time of the server."""
    os.makedirs(folder)
    url, count = work
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pouchdb_replicate.js")
    environment = os.environ | {"NODE_NO_WARNINGS": "1"} | login
    with subprocess.Popen(["node", script, modules, folder, url, str(count)], env=environment, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as client:
        used = []
        for word in ("push", "pull", "end"):
            if client.stdout.readline().strip() != word:
                raise RuntimeError(f"PouchDB cannot {word}")
            used.append(cpu_seconds())
            client.stdin.write("\n")
            client.stdin.flush()
        seconds = json.loads(client.stdout.readline())
    return {"push_s": seconds["push"], "pull_s": seconds["pull"], "push_cpu_s": used[1] - used[0], "pull_cpu_s": used[2] - used[1]}


def process_seconds(pid):
    """Returns the processor time of a process."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def wait_for(port):
    """Waits until a server accepts connections."""
    end = time.monotonic() + START_TIME_MAX_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def rows(figures, streaming_per_second):
    """Returns the rows of the table: label, figure, compared figure, unit, better, aim alone, aim for the ratio."""
    mine, peer = figures["ours"], figures["peer"]
    count = mine["count"]
    per_second = {name: {key: count / found[f"{key}_s"] for key in ("push", "pull")} for name, found in figures.items()}
    documents = f"{count:,} documents of 10 KB"
    return [
        (f"PouchDB pulls {documents} (pouchdb-server)", per_second["ours"]["pull"], per_second["peer"]["pull"], "/s", "more", None, 1.2),
        ("the same: processor time of the server", 1e3 * mine["pull_cpu_s"], 1e3 * peer["pull_cpu_s"], "ms", "less", None, 0.2),
        (f"PouchDB pushes {documents} (pouchdb-server)", per_second["ours"]["push"], per_second["peer"]["push"], "/s", "more", None, None),
        ("the same: processor time of the server", 1e3 * mine["push_cpu_s"], 1e3 * peer["push_cpu_s"], "ms", "less", None, None),
        ("a pull between two servers, documents of 10 KB (PouchDB from pouchdb-server)", streaming_per_second, per_second["peer"]["pull"], "/s", "more", None, 5),
    ]
