"""The works of the web: sessions of web mail, JMAP, event sources, a static file, slow lines. Each names the peer that it needs.

A peer whose packages are missing is named in the table instead of a figure.
"""

import imaplib
import random
import smtplib
import subprocess

from . import events, indexing, jmap, slow_lines, static_file, web_session
from .cyrus import Cyrus
from .letters import write_mbox
from .ours import Ours
from .web_peers import Nginx, Roundcube, missing_files

WORKS = ("web-session", "jmap", "lists", "indexing", "events", "static", "slow-lines")
SESSION_USERS = range(11, 21)
SESSION_MESSAGES = 200
VISITOR = 31
TURNS = 3
# The number of messages of the list that is compared with that of Cyrus.
COMPARED = 100_000
# The user whose inbox has had messages moved out and back.
CHURN_USER = 71
PACKAGES = {"Roundcube": "roundcube-core", "nginx": "nginx", "PHP": "php-fpm", "Cyrus": "cyrus-common"}


def versions():
    """Returns the versions of the peers that are installed."""
    found = []
    for name, package in PACKAGES.items():
        done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout:
            found.append(f"{name} {done.stdout.split(':')[-1].split('+')[0].split('-')[0]}")
    return "".join(f", {one}" for one in found)


def run(bench):
    """Runs the selected works."""
    for name, work in (("web-session", sessions), ("jmap", mix), ("lists", lists), ("indexing", index_cost), ("events", event_sources), ("static", static), ("slow-lines", lines)):
        if bench.wants(name):
            work(bench)


def is_missing(bench, figure, peer):
    """Returns True if the peer of a figure cannot be started, and notes why."""
    if bench.options.ours_only:
        return True
    packages = peer.missing()
    if packages:
        bench.report.note(figure, "missing", {"packages": packages})
    return bool(packages)


def ours_of(bench, settings=None):
    """Returns the function that creates our server."""
    return lambda folder: Ours(bench.options.program, folder, settings)


def sessions(bench):
    """Sessions of web mail with all servers running, in turns."""
    def work(server, peer):
        for user in SESSION_USERS:
            prepare(server, user)
            if peer:
                prepare(peer, user)
        kinds = {"lite": (server, 5), "jmap": (server, 5)} | ({"roundcube": (peer, 1)} if peer else {})
        found = {kind: [] for kind in kinds}
        # The first session of an account makes what it needs, and is not counted.
        for kind, (place, _) in kinds.items():
            web_session.measure(kind, place, SESSION_USERS, 1)
        for turn in range(TURNS):
            for kind, (place, rounds) in (kinds.items() if turn % 2 else reversed(kinds.items())):
                found[kind].append(web_session.measure(kind, place, SESSION_USERS, max(1, rounds // min(bench.part, 5))))
        for kind, figures in found.items():
            bench.report.note(f"web session, {kind}", "peer" if kind == "roundcube" else "ours", jmap.middle(figures))

    with_peer(bench, "web session, roundcube", Roundcube, work)


def with_peer(bench, figure, peer, work, users=100, settings=None):
    """Runs a work with our server and a peer at the same time, or with our server alone if the peer is missing."""
    if is_missing(bench, figure, peer):
        bench.with_server(ours_of(bench, settings), lambda server: work(server, None), users)
    else:
        bench.with_server(peer, lambda other: bench.with_server(ours_of(bench, settings), lambda server: work(server, other), users))


def prepare(server, user):
    """Fills the inbox of a user, and creates the folder to which the sessions move messages."""
    where = f"{server.folder}/{user}.mbox"
    write_mbox(where, SESSION_MESSAGES, user)
    server.load(user, SESSION_MESSAGES, where)
    client = imaplib.IMAP4("127.0.0.1", server.port("imap"))
    client.login(f"{user}bench@bench.test", server.password)
    client.create(web_session.FOLDER)
    client.subscribe(web_session.FOLDER)
    client.logout()


def mix(bench):
    """The mix of JMAP with both servers running, in turns."""
    def work(server, peer):
        clients = jmap.CLIENTS // min(bench.part, 5)
        places = {"ours": (server, 15)} | ({"peer": (peer, 5)} if peer else {})
        found = {name: [] for name in places}
        for place, _ in places.values():
            jmap.load_mix(place, clients)
        for turn in range(TURNS):
            for name, (place, rounds) in (places.items() if turn % 2 else reversed(places.items())):
                found[name].append(jmap.mix(place, max(1, rounds // min(bench.part, 5)), clients))
        for name, figures in found.items():
            bench.report.note("jmap mix", name, jmap.middle(figures))

    with_peer(bench, "jmap mix", Cyrus, work, settings={"full_text.new_mail_files": "immediate"})


def lists(bench):
    """Pages of long lists, changes of large mailboxes, and pages after churn. `--large` is the number of messages of the largest one."""
    samples = 200 // min(bench.part, 5)

    def ours(server):
        sizes = {"100,000": COMPARED // bench.part}
        if bench.options.large > COMPARED:
            sizes["large"] = bench.options.large // bench.part
        for at, (name, count) in enumerate(sizes.items()):
            bench.report.note(f"lists {name}", "ours", jmap.lists(server, count, samples, at))
        bench.report.note("lists churned", "ours", churned(server, samples, 20_000 // bench.part))

    # Without an index, which these lists do not need: otherwise its work on the new messages would count as that of the pages.
    bench.with_server(ours_of(bench, {"log.filter": "http=debug", "full_text.new_mail_files": "off"}), ours, 100)
    if not is_missing(bench, "lists 100,000", Cyrus):
        bench.with_server(Cyrus, lambda server: bench.report.note("lists 100,000", "peer", jmap.lists(server, COMPARED // bench.part, samples // 4)))


def churned(server, samples, passes):
    """Pages of an inbox through which messages have passed, before and after a compaction, against one without a history."""
    jmap.fill(server, CHURN_USER, jmap.MESSAGES, 1_000)
    jmap.fill(server, CHURN_USER + 1, jmap.MESSAGES, 1_000)
    used, fresh = (jmap.Client(server, user) for user in (CHURN_USER, CHURN_USER + 1))
    for client in (used, fresh):
        client.find_boxes()
    jmap.churn(used, passes)
    found = {"passed": passes}
    for case in ("before", "after"):
        turns = {"used": [], "fresh": []}
        for turn in range(5):
            for name, client in ((("used", used), ("fresh", fresh)) if turn % 2 else (("fresh", fresh), ("used", used))):
                turns[name].append(jmap.pages(server, client, samples, random.Random(turn)))
        found[case] = {name: jmap.middle(figures) for name, figures in turns.items()}
        server.settle()
    used.close()
    fresh.close()
    return found


def index_cost(bench):
    """Deliveries to mail files with and without a full-text index, in turns, each with a fresh server."""
    count = 10_000 // bench.part
    found = {"off": [], "immediate": []}
    for turn in range(TURNS if bench.part == 1 else 1):
        for schedule in (("off", "immediate") if turn % 2 else ("immediate", "off")):
            make = ours_of(bench, {"full_text.new_mail_files": schedule, "full_text.delay": "1s"})
            bench.with_server(make, lambda server, to=schedule: found[to].append(indexing.measure(server, count, to != "off")), max(indexing.USERS))
    bench.report.note("indexing", "ours", {schedule: jmap.middle(figures) for schedule, figures in found.items()})


def event_sources(bench):
    """Memory and delay of event sources."""
    count, connected = 5_000 // bench.part, 1_000 // bench.part

    def ours(server):
        bench.report.note("events", "ours", events.memory(server, count))
        bench.report.note("event delay", "ours", events.latency(server, connected, events.DELIVERIES // min(bench.part, 3)))

    bench.with_server(ours_of(bench), ours, count)
    if not is_missing(bench, "events", Cyrus):
        bench.with_server(Cyrus, lambda server: bench.report.note("events", "peer", cyrus_events(server, 200 // bench.part)))


def cyrus_events(server, count):
    """Memory of the event sources of Cyrus. Each user gets an inbox first."""
    for user in range(1, count + 1):
        server.load(user, [], is_indexed=False)
    return events.memory(server, count)


def static(bench):
    """A static file against nginx."""
    class Files(Nginx):
        """nginx, with the interface of a server of the works."""

        @staticmethod
        def missing():
            """Returns what is missing on this machine, or None."""
            return missing_files({"nginx": "/usr/sbin/nginx", "nghttp2-client": "/usr/bin/h2load"})

    def work(server, peer):
        if peer:
            for name, figures in static_file.measure(server, peer, 100_000 // bench.part).items():
                bench.report.note("static file", name, figures)

    with_peer(bench, "static file", Files, work, 1)


def lines(bench):
    """First visits on slow lines, and a page with images with and without persistent connections."""
    def visits(server, peer):
        prepare(server, VISITOR)
        bench.report.note("first visit", "ours", slow_lines.first_visit("lite", server, VISITOR))
        if peer:
            prepare(peer, VISITOR)
            bench.report.note("first visit", "peer", slow_lines.first_visit("roundcube", peer, VISITOR, 2))

    with_peer(bench, "first visit", Roundcube, visits)
    bench.with_server(ours_of(bench), lambda on: bench.with_server(
        ours_of(bench, {"http.persistent_connections": "false"}), lambda off: pages_of_images(bench, {"on": on, "off": off}), 40), 40)


def pages_of_images(bench, servers):
    """A message with 20 images with persistent connections and without, on a line and on the loopback, in turns."""
    for server in servers.values():
        with smtplib.SMTP("127.0.0.1", server.port("smtp")) as sender:
            sender.sendmail("sender@elsewhere.test", [f"{VISITOR}bench@bench.test"], slow_lines.message_with_images(VISITOR))
    for place, round_trip in (("line", 0.04), ("loopback", 0)):
        for lanes in (1, slow_lines.CONNECTIONS):
            found = {name: [] for name in servers}
            for turn in range(TURNS):
                for name, server in (servers.items() if turn % 2 else reversed(servers.items())):
                    found[name].append(slow_lines.images(server, VISITOR, round_trip, lanes))
            bench.report.note(f"images, {place}, {lanes}", "ours", {name: jmap.middle(figures) for name, figures in found.items()})


    if not missing_files({"nghttp2-client": "/usr/bin/h2load"}):
        turns = [{"on": slow_lines.images_http2(servers["on"], VISITOR, 0.04), "off": slow_lines.images_alone(servers["off"], VISITOR, 0.04)} for _ in range(TURNS)]
        bench.report.note("images, HTTP/2", "ours", {name: jmap.middle([one[name] for one in turns]) for name in servers})


def rows(report):
    """Returns the rows of the table: label, figure, compared figure, unit, better, aim alone, aim for the ratio."""
    found = report.figures
    return session_rows(found) + mix_rows(found) + list_rows(found) + index_rows(found) + event_rows(found) + line_rows(found)


def session_rows(found):
    """Returns the rows of the sessions."""
    roundcube = found.get("web session, roundcube", {})
    peer = roundcube.get("peer", {})
    made = []
    for kind, name in (("lite", "the lite web mail"), ("jmap", "JMAP")):
        ours = found.get(f"web session, {kind}", {}).get("ours")
        if ours:
            made.append((f"a session of web mail with {name}: server CPU (compared with: Roundcube)", ours["cpu_ms"], peer_of(roundcube, "cpu_ms"), "ms", "less", None, 1 / 10))
    ours = found.get("web session, lite", {}).get("ours")
    if ours:
        made.append(("the lite web mail: bytes to the browser, empty cache (compared with: Roundcube)", ours["bytes"] / 1_000,
                     peer and peer["bytes"] / 1_000 or missing(roundcube), "KB", "less", None, 1 / 15))
    return made


def mix_rows(found):
    """Returns the rows of the mix of JMAP, and of the static file."""
    made = []
    pair = found.get("jmap mix", {})
    if "ours" in pair:
        made.append(("JMAP mix, 50 clients, 1,000 messages each: method calls a CPU second (compared with: Cyrus)", pair["ours"]["per_cpu_second"],
                     peer_of(pair, "per_cpu_second"), "/s", "more", None, 3))
    pair = found.get("static file", {})
    for coding, words in (("identity", "as it is"), ("gzip", "with gzip")):
        if "ours" in pair:
            made.append((f"the style sheet ({pair['ours']['bytes'] / 1_000:.1f} KB) over TLS and HTTP/2, {words}: requests a CPU second (compared with: nginx)",
                         pair["ours"][f"{coding}_per_cpu_second"], peer_of(pair, f"{coding}_per_cpu_second"), "/s", "more", None, 0.7 if coding == "identity" else None))
    return made


def list_rows(found):
    """Returns the rows of long lists, of changes, and of churn."""
    made = []
    for size in ("large", "100,000"):
        pair = found.get(f"lists {size}", {})
        ours = pair.get("ours")
        if not ours:
            continue
        label = f"a page of 50 conversations at a random position with total, {ours['messages']:,} messages"
        made.append((f"{label}: server CPU (compared with: 1,000 messages)", ours["large"]["cpu_ms"], ours["small"]["cpu_ms"], "ms", "less", None, 1.5))
        inside = ours["large"].get("server_p99_ms")
        made.append((f"{label}: p99 {'in the server' if inside else 'with its way'}", inside or ours["large"]["p99_ms"], None, "ms", "less", 5, None))
        if size == "100,000":
            peer = pair.get("peer")
            made.append((f"{label}: server CPU (compared with: Cyrus)", ours["large"]["cpu_ms"], peer and peer["large"]["cpu_ms"] or missing(pair), "ms", "less", None, 1 / 10))
        for name in ("Email/changes", "Email/queryChanges"):
            figures = ours["changes large"][name]
            made.append((f"{name} after 100 changes in {ours['messages']:,} messages: p50 with its way (compared with: in 1,000)", figures["p50_ms"],
                         ours["changes small"][name]["p50_ms"], "ms", "less", 3, None))
        if "by sender large" in ours:
            of_large, of_small = ours["by sender large"], ours["by sender small"]
            label = f"by sender, {ours['messages']:,} messages"
            made.append((f"the first page {label} (compared with: 1,000 messages)", of_large["first_ms"], of_small["first_ms"], "ms", "less", None, None))
            made.append((f"a page {label}, at a random position after a change: server CPU (compared with: 1,000 messages)", of_large["cpu_ms"], of_small["cpu_ms"], "ms", "less", None, 1.5))
    churn = found.get("lists churned", {}).get("ours", {})
    for case in ("before", "after"):
        if case in churn:
            label = f"a page of 50 conversations, {churn['passed']:,} messages have passed, {case} a compaction: server CPU (compared with: a fresh inbox)"
            made.append((label, churn[case]["used"]["cpu_ms"], churn[case]["fresh"]["cpu_ms"], "ms", "less", None, 1.2))
    return made


def index_rows(found):
    """Returns the rows of the index of new mail."""
    pair = found.get("indexing", {}).get("ours")
    if not pair:
        return []
    on, off = pair["immediate"], pair["off"]
    label = f"a delivery of {off['bytes'] / 1e3:.1f} KB of text to an indexed mail file"
    return [(f"{label}: processor time until it is in the index (compared with: without an index)", on["cpu_ms"], off["cpu_ms"], "ms", "less", None, None),
            (f"{label}: bytes on the disk (compared with: without an index)", on["disk_bytes"] / 1e3, off["disk_bytes"] / 1e3, "KB", "less", None, None)]


def event_rows(found):
    """Returns the rows of event sources."""
    made = []
    pair = found.get("events", {})
    if "ours" in pair:
        made.append((f"memory of an idle event source over TLS, of {pair['ours']['connections']:,} (compared with: an idle connection of Cyrus)", pair["ours"]["kb_each"], peer_of(pair, "kb_each"),
                     "KB", "less", None, 1 / 20))
    ours = found.get("event delay", {}).get("ours")
    if ours:
        made.append((f"a delivery acknowledged until its event, {ours['connected']:,} connected: p99", ours["p99_ms"], None, "ms", "less", 50, None))
    return made


def line_rows(found):
    """Returns the rows of slow lines."""
    made = []
    pair = found.get("first visit", {})
    for line, alone, aim in (("1.6 Mbit/s, 150 ms", 2, 1 / 4), ("64 kbit/s, 600 ms", 6, 1 / 10)):
        if "ours" in pair:
            peer = pair.get("peer", {}).get(line, {}).get("seconds") or missing(pair)
            made.append((f"the first visit until the list is readable, {line} (compared with: Roundcube)", pair["ours"][line]["seconds"], peer, "s", "less", alone, aim))
    for place, words, aim in (("line", "40 ms for both ways", 1 / 3), ("loopback", "loopback", 1.05)):
        for lanes in (1, slow_lines.CONNECTIONS):
            ours = found.get(f"images, {place}, {lanes}", {}).get("ours")
            if ours:
                label = f"a message with 20 images, {words}, {lanes} connection{'s' if lanes > 1 else ''} at a time (compared with: without persistent connections)"
                made.append((label, ours["on"]["ms"], ours["off"]["ms"], "ms", "less", None, aim))
    ours = found.get("images, HTTP/2", {}).get("ours")
    if ours:
        label = "20 images alone, 40 ms for both ways, HTTP/2 (compared with: HTTP/1.1 without persistent connections, 6 at a time)"
        made.append((label, ours["on"]["ms"], ours["off"]["ms"], "ms", "less", None, 1 / 3))
    return made


def peer_of(pair, key):
    """Returns a figure of the peer, or the text that says what is missing."""
    return pair["peer"][key] if "peer" in pair else missing(pair)


def missing(pair):
    """Returns the text that names the missing packages, or None if no peer was wanted."""
    return f"missing: {pair['missing']['packages']}" if "missing" in pair else None
