"""JMAP: the mix of a mail program with 50 clients against Cyrus, pages of long lists, and changes of large mailboxes.

The same client speaks to both servers, over TLS on connections that stay open, logs in with each request (Basic), and accepts gzip: with brotli, most of the processor time of Cyrus is that of the compressor.
"""

import base64
import concurrent.futures
import json
import os
import random
import statistics
import time
import urllib.parse

from harness.processes import wait_for

from .browser import Browser
from .letters import RARE_WORD, letters, write_mbox

CLIENTS = 50
MESSAGES = 1_000
PAGE = 50
# The index of a server is complete if it has used less than this part of a processor for so long. A change waits 5 s for the index.
QUIET_S, QUIET_PART = 8, 0.02
INDEX_TIME_MAX_S = 900
# The users of the mix are 1 to 50. These have the large mailboxes.
SMALL_USER, LARGE_USER = 61, 62
FOLDER = "Projects"
USING = ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"]
ROW = ["id", "threadId", "mailboxIds", "keywords", "from", "subject", "receivedAt", "size", "hasAttachment", "preview"]
BODY = [*ROW, "to", "cc", "replyTo", "messageId", "references", "bodyValues", "textBody", "htmlBody", "attachments"]
NEWEST = [{"property": "receivedAt", "isAscending": False}]


class Client:
    """A JMAP client of one person."""

    def __init__(self, server, user):
        name = f"{user}bench" if server.name == "Cyrus" else f"{user}bench@bench.test"
        self.browser = Browser(server.port("https"))
        self.login = {"Authorization": "Basic " + base64.b64encode(f"{name}:{server.password}".encode()).decode(), "Accept-Encoding": "gzip"}
        session = json.loads(self.browser.request("GET", "/jmap/session" if server.name != "Cyrus" else "/jmap/", headers=self.login).text())
        self.api = urllib.parse.urlsplit(session["apiUrl"]).path
        self.account = session["primaryAccounts"]["urn:ietf:params:jmap:mail"]
        self.boxes = {}
        self.count = 0
        self.find_boxes()

    def find_boxes(self):
        """Looks up the mailboxes by role, or by name if they have none."""
        self.boxes = {box["role"] or box["name"]: box["id"] for box in self.call("Mailbox/get", {"ids": None})["list"]}

    def call(self, name, arguments):
        """Calls one method and returns its result."""
        return self.calls([name, arguments])[0]

    def calls(self, *calls):
        """Calls methods in one request, and returns their results. Raises RuntimeError if one fails."""
        named = [[name, {"accountId": self.account} | arguments, str(at)] for at, (name, arguments) in enumerate(calls)]
        body = json.dumps({"using": USING, "methodCalls": named}).encode()
        answer = self.browser.request("POST", self.api, body, self.login | {"Content-Type": "application/json"})
        found = json.loads(answer.text())["methodResponses"]
        self.count += len(calls)
        if len(found) != len(calls) or any(one[0] == "error" for one in found):
            raise RuntimeError(f"{named}: {str(found)[:2000]}")
        return [one[1] for one in found]

    def list_page(self, position, limit=PAGE):
        """Returns a page of conversations of the inbox, with their newest messages and their threads: query, messages, threads."""
        query = {"filter": {"inMailbox": self.boxes["inbox"]}, "sort": NEWEST, "collapseThreads": True, "position": position, "limit": limit, "calculateTotal": True}
        return self.calls(["Email/query", query], ["Email/get", {"#ids": path("0", "Email/query", "/ids"), "properties": ROW}],
                          ["Thread/get", {"#ids": path("1", "Email/get", "/list/*/threadId")}])

    def close(self):
        """Closes the connection."""
        self.browser.close()


def path(call, name, where):
    """Returns a reference to a part of an earlier result."""
    return {"resultOf": call, "name": name, "path": where}


def mix(server, rounds, clients=CLIENTS):
    """50 clients at a time, each with a mailbox of its own, do what a mail program does."""
    everyone = [Client(server, user) for user in range(1, clients + 1)]
    with concurrent.futures.ThreadPoolExecutor(clients) as hands:
        list(hands.map(lambda one: one_round(one, random.Random(one.account)), everyone))
        before = sum(one.count for one in everyone)
        cpu, start = server.cpu_seconds(), time.monotonic()
        list(hands.map(lambda one: repeat(one, rounds), everyone))
        seconds, cpu = time.monotonic() - start, server.cpu_seconds() - cpu
    calls = sum(one.count for one in everyone) - before
    for one in everyone:
        one.close()
    return {"calls": calls, "per_second": calls / seconds, "per_cpu_second": calls / cpu, "cpu_us": 1e6 * cpu / calls}


def load_mix(server, clients):
    """Fills the mailboxes of the mix."""
    for user in range(1, clients + 1):
        fill(server, user, MESSAGES)
    wait_for("the index to be complete", lambda: is_quiet(server), INDEX_TIME_MAX_S, 0)


def is_quiet(server):
    """Returns True if a server has used little processor time for some seconds."""
    before = server.cpu_seconds()
    time.sleep(QUIET_S)
    return server.cpu_seconds() - before < QUIET_S * QUIET_PART


def fill(server, user, count, size=4_000, is_indexed=True):
    """Fills the inbox of a user with messages, and creates the folder to which messages are moved."""
    if server.name == "Cyrus":
        server.load(user, letters(count, user, size), is_indexed)
        return
    where = f"{server.folder}/{user}.mbox"
    write_mbox(where, count, user, size)
    server.load(user, count, where)
    os.remove(where)
    client = Client(server, user)
    client.call("Mailbox/set", {"create": {"f": {"name": FOLDER, "parentId": None}}})
    client.close()


def repeat(client, rounds):
    """Does the mix some times."""
    numbers = random.Random(f"{client.account} again")
    for _ in range(rounds):
        one_round(client, numbers)


def one_round(client, numbers):
    """A page of the list, a conversation opened, a message flagged and one moved, both with what has changed, and a search: 13 calls."""
    query, rows, _ = client.list_page(numbers.randrange(0, 500))
    shown = rows["list"]
    opened, moved = numbers.sample(shown, 2)
    _, read = client.calls(["Thread/get", {"ids": [opened["threadId"]]}],
                           ["Email/get", {"#ids": path("0", "Thread/get", "/list/*/emailIds"), "properties": BODY, "fetchTextBodyValues": True, "fetchHTMLBodyValues": True}])
    if query["total"] < PAGE or len(shown) != PAGE or not all(one["bodyValues"] for one in read["list"]):
        raise RuntimeError(f"{client.account}: a page of {len(shown)} of {query['total']}, {len(read['list'])} messages read")
    for row, patch in ((opened, {"keywords/$flagged": None if "$flagged" in opened["keywords"] else True}), (moved, {"mailboxIds": {client.boxes[FOLDER]: True}})):
        done, changed, _ = client.calls(["Email/set", {"update": {row["id"]: patch}}], ["Email/changes", {"sinceState": rows["state"]}],
                                        ["Mailbox/get", {"ids": list(client.boxes.values()), "properties": ["totalEmails", "unreadEmails", "totalThreads", "unreadThreads"]}])
        if row["id"] not in done["updated"] or row["id"] not in changed["updated"] + changed["created"]:
            raise RuntimeError(f"{client.account}: {done} {changed}")
    found, _ = client.calls(["Email/query", {"filter": {"text": RARE_WORD}, "sort": NEWEST, "limit": 20}],
                            ["Email/get", {"#ids": path("0", "Email/query", "/ids"), "properties": ROW}])
    if not found["ids"]:
        raise RuntimeError(f"{client.account}: {RARE_WORD} is not found")


def pages(server, client, samples, numbers):
    """Times pages of 50 conversations at random positions with the total: percentiles, and the processor time of the server."""
    total = client.list_page(0)[0]["total"]
    times = []
    begin, cpu = getattr(server, "log_position", int)(), server.cpu_seconds()
    for _ in range(samples):
        position = numbers.randrange(0, total - PAGE)
        start = time.monotonic()
        query = client.list_page(position)[0]
        times.append(1e3 * (time.monotonic() - start))
        if query["total"] != total or len(query["ids"]) != PAGE:
            raise RuntimeError(f"{client.account}: {len(query['ids'])} of {query['total']} at {position}")
    found = {"total": total, "cpu_ms": 1e3 * (server.cpu_seconds() - cpu) / samples, **percentiles(times)}
    inside = server.request_times_ms("/jmap/api", begin) if hasattr(server, "request_times_ms") else []
    return found | ({"server_p99_ms": percentiles(inside)["p99_ms"]} if len(inside) == samples else {})


def changes(server, client, samples, count=100):
    """Times `Email/changes` and the list's `queryChanges` after 100 messages were flagged."""
    query, rows, _ = client.list_page(0, 500)
    chosen = random.Random(7).sample(query["ids"], count)
    arguments = {"filter": {"inMailbox": client.boxes["inbox"]}, "sort": NEWEST, "collapseThreads": True}
    client.call("Email/set", {"update": {one: {"keywords/$flagged": True} for one in chosen}})
    found = {}
    for name, words in (("Email/changes", {"sinceState": rows["state"]}), ("Email/queryChanges", arguments | {"sinceQueryState": query["queryState"]})):
        times, cpu = [], server.cpu_seconds()
        for _ in range(samples):
            start = time.monotonic()
            done = client.call(name, words)
            times.append(1e3 * (time.monotonic() - start))
        if name == "Email/changes" and not set(chosen) <= set(done["updated"]):
            raise RuntimeError(f"{client.account}: {len(done['updated'])} changes")
        found[name] = {"cpu_ms": 1e3 * (server.cpu_seconds() - cpu) / samples, **percentiles(times)}
    return found


def by_sender(server, client, samples, numbers):
    """Times the first page of the inbox by sender, which reads all senders, and pages at random positions of it after one message was flagged each."""
    def page(position):
        query = {"filter": {"inMailbox": client.boxes["inbox"]}, "sort": [{"property": "from"}], "position": position, "limit": PAGE, "calculateTotal": True}
        start, cpu = time.monotonic(), server.cpu_seconds()
        found = client.calls(["Email/query", query], ["Email/get", {"#ids": path("0", "Email/query", "/ids"), "properties": ROW}])
        return 1e3 * (time.monotonic() - start), 1e3 * (server.cpu_seconds() - cpu), *found

    first_ms, _, query, rows = page(0)
    times, cpu = [], []
    for _ in range(samples):
        client.call("Email/set", {"update": {rows["list"][0]["id"]: {"keywords/$flagged": True}}})
        one_ms, one_cpu_ms, query, rows = page(numbers.randrange(0, query["total"] - PAGE))
        senders = [row["from"][0]["name"] for row in rows["list"]]
        if len(senders) != PAGE or senders != sorted(senders):
            raise RuntimeError(f"{client.account}: {senders}")
        times.append(one_ms)
        cpu.append(one_cpu_ms)
    return {"first_ms": first_ms, "cpu_ms": statistics.mean(cpu), **percentiles(times)}


def churn(client, passes):
    """Moves messages out of the inbox and back, a page at a time, until `passes` messages have passed."""
    passed = 0
    while passed < passes:
        ids = client.list_page(passed % 500, 100)[0]["ids"]
        for box in (FOLDER, "inbox"):
            client.call("Email/set", {"update": {one: {"mailboxIds": {client.boxes[box]: True}} for one in ids}})
        passed += len(ids)


def lists(server, large, samples, pair=0, turns=3):
    """Compares pages of a large and of a small inbox in turns, then the changes in both. Each pair of inboxes has users of its own."""
    clients = {}
    for name, user, count in (("small", SMALL_USER + 2 * pair, MESSAGES), ("large", LARGE_USER + 2 * pair, large)):
        fill(server, user, count, 1_000, is_indexed=False)
        clients[name] = Client(server, user)
        clients[name].find_boxes()
    numbers = random.Random(11)
    turn_figures = {"small": [], "large": []}
    for turn in range(turns):
        for name in (("small", "large") if turn % 2 else ("large", "small")):
            turn_figures[name].append(pages(server, clients[name], samples, numbers))
    found = {"messages": large} | {name: middle(turns_of) for name, turns_of in turn_figures.items()}
    for name in ("small", "large"):
        found[f"changes {name}"] = changes(server, clients[name], samples)
        found[f"by sender {name}"] = by_sender(server, clients[name], samples, numbers)
    for one in clients.values():
        one.close()
    return found


def middle(turns):
    """Returns the medians of the figures of all turns."""
    return {key: statistics.median(one[key] for one in turns) for key in turns[0]}


def percentiles(times):
    """Returns the median and the 99th percentile."""
    ordered = sorted(times)
    return {"p50_ms": ordered[len(ordered) // 2], "p99_ms": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]}
