"""All messages of a folder are selected and moved in the web mail, while the server is killed.

The move is one form, "All messages of this folder", that the server executes in many transactions. It is killed
(`kill -9`) when part of them is done. Afterwards IMAP, JMAP, the pages and the search must agree about every message: none is
lost, none is in both folders, the order is kept, and the quota has not changed. The form is then sent again, until everything is
moved.
"""

import html
import imaplib
import random
import re
import threading
import time

from .plain import Forms, Lost, Person

LOGIN = "mia@acme.test"
FOLDER = "Projects"
QUOTA = "1GiB"
RARE_EVERY = 500
INTERRUPTIONS = 3
KILLS_MAX = 30
POLL_S = 0.001
STEP_TIME_MAX_S = 300
QUERY_LIMIT = 1_000


class Wrong(Exception):
    """Two protocols differ, or a message is lost or doubled."""


def run(server, password, count):
    """Moves messages. Returns what to print."""
    path = f"{server.folder}/moving.mbox"
    with open(path, "w", encoding="ascii") as file:
        for number in range(count):
            rare = "with a needle" if number % RARE_EVERY == 0 else "of the day"
            file.write(f"From sender@acme.test Thu Jan  1 00:00:00 2026\nFrom: Sender {number % 100} <sender@acme.test>\n"
                       f"To: {LOGIN}\nSubject: Report {rare}\nMessage-ID: <moving-{number}@acme.test>\n\nText {number}\n\n")
    server.request({"user": {"add": {"address": LOGIN, "name": None, "aliases": [], "quota": QUOTA, "password": password}}})
    server.settings["listen.http"] = f"127.0.0.1:{server.port('http')}"
    server.command("import", "mbox", path, "--user", LOGIN, "--folder", "INBOX")
    person = Person(server, LOGIN, password)
    token = dict(Forms.fields(person.page("/lite/folders"), "/lite/folders"))["token"]
    person.post("/lite/folders", [("token", token), ("name", FOLDER), ("do", "create")])
    before = Observation(person, count)
    dice = random.Random("moving")
    moved, kills = [0], 0
    while len(moved) <= INTERRUPTIONS:
        kills += 1
        if kills > KILLS_MAX:
            raise Wrong(f"of {KILLS_MAX} kills, only {len(moved) - 1} have interrupted the move")
        press_and_kill(server, person, moved[-1] + (count - moved[-1]) * dice.uniform(0.0, 0.5))
        after = Observation(person, count)
        after.check_against(before)
        if len(after.ids[FOLDER]) < moved[-1]:
            raise Wrong(f"messages came back: {moved}, {len(after.ids[FOLDER])}")
        if not after.ids["INBOX"]:
            # The kill came too late.
            press(person, FOLDER, "Inbox")
            moved = [0]
        elif len(after.ids[FOLDER]) > moved[-1]:
            moved.append(len(after.ids[FOLDER]))
    press(person, "Inbox", FOLDER)
    last = Observation(person, count)
    last.check_against(before)
    if last.ids["INBOX"]:
        raise Wrong(f"{len(last.ids['INBOX'])} messages are still in the inbox")
    return f"moving: passed ({count:,} messages, {kills} kills, moved {', '.join(map(str, [*moved[1:], count]))})"


def press(person, source, target):
    """Moves all messages of a folder. Raises `Lost` if there is no answer."""
    folders = person.folders()
    path = f"/lite/folder/{folders[source][0]}"
    fields = Forms.fields(person.page(path), path)
    return person.post(path, [*fields, ("all", "1"), ("do", "move"), ("to", str(folders[target][0]))])


def press_and_kill(server, person, threshold):
    """Moves all messages of the inbox, and kills the server when more than a number of messages are in the other folder."""
    def attempt():
        try:
            press(person, "Inbox", FOLDER)
        except Lost:
            pass
    mover = threading.Thread(target=attempt)
    with_status = person.imap()
    mover.start()
    end = time.monotonic() + STEP_TIME_MAX_S
    while mover.is_alive() and time.monotonic() < end:
        status = with_status.status(FOLDER, "(MESSAGES)")[1][0]
        if int(re.search(rb"MESSAGES (\d+)", status)[1]) > threshold:
            break
        time.sleep(POLL_S)
    server.kill()
    mover.join()
    try:
        with_status.shutdown()
    except (OSError, imaplib.IMAP4.error):
        pass
    server.start()


class Observation:
    """What the protocols say about the messages of the two folders. Raises `Wrong` if they differ."""

    def __init__(self, person, count):
        self.count = count
        # The identifiers of the messages by folder, in the order of their UIDs, and the numbers of their Message-IDs.
        self.ids, self.numbers = {}, {}
        client = person.imap()
        for folder in ("INBOX", FOLDER):
            self.read(client, folder)
        self.storage = int(re.search(rb"STORAGE (\d+)", client.getquotaroot("INBOX")[1][1][0])[1])
        found = {folder: self.search(client, folder) for folder in self.ids}
        client.logout()
        self.check_numbers()
        self.check_jmap(person)
        self.check_pages(person, found)
        self.used = re.search(r"<dt>Space</dt><dd>([^<]*)", person.page("/lite/settings"))[1]

    def read(self, client, folder):
        """Reads the messages of a folder over IMAP."""
        client.select(folder, readonly=True)
        self.ids[folder], self.numbers[folder] = [], []
        uids = []
        for part in client.uid("FETCH", "1:*", "(EMAILID BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])")[1]:
            if isinstance(part, tuple):
                uids.append(int(re.search(rb"UID (\d+)", part[0])[1]))
                self.ids[folder].append(re.search(rb"EMAILID \(([^)]*)\)", part[0])[1].decode())
                self.numbers[folder].append(int(re.search(rb"<moving-(\d+)@", part[1])[1]))
        if uids != sorted(set(uids)):
            raise Wrong(f"the UIDs of {folder} do not increase")

    def search(self, client, folder):
        """Returns how many messages of a folder IMAP finds by a rare word."""
        client.select(folder, readonly=True)
        return len(client.uid("SEARCH", "SUBJECT", "needle")[1][0].split())

    def check_numbers(self):
        """Checks that each message is there once, in its order."""
        everything = sorted(self.numbers["INBOX"] + self.numbers[FOLDER])
        if everything != list(range(self.count)):
            missing = sorted(set(range(self.count)) - set(everything))
            raise Wrong(f"of {self.count} messages there are {len(everything)}; missing {missing[:10]}")
        for folder, numbers in self.numbers.items():
            if numbers != sorted(numbers):
                raise Wrong(f"the order of {folder} has changed")

    def check_jmap(self, person):
        """Checks that JMAP has the same messages in the same mailboxes, the same counts and the same hits."""
        boxes = person.mailboxes()
        for folder, name in (("INBOX", "inbox"), (FOLDER, FOLDER)):
            ids = query_all(person, {"inMailbox": boxes[name]["id"]})
            if sorted(ids) != sorted(self.ids[folder]):
                raise Wrong(f"JMAP has {len(ids)} messages in {folder}, IMAP {len(self.ids[folder])}")
            if boxes[name]["totalEmails"] != len(ids):
                raise Wrong(f"Mailbox/get counts {boxes[name]['totalEmails']} messages in {folder} and not {len(ids)}")
        self.octets = next(one["used"] for one in person.call("Quota/get", {"ids": None})["list"] if one["resourceType"] == "octets")

    def check_pages(self, person, found):
        """Checks the counts of the pages, and the messages that their search finds."""
        shown = person.folders()
        for folder, name in (("INBOX", "Inbox"), (FOLDER, FOLDER)):
            if shown[name][1] != len(self.ids[folder]):
                raise Wrong(f"the page counts {shown[name][1]} messages in {folder} and not {len(self.ids[folder])}")
            expected = sum(1 for number in self.numbers[folder] if number % RARE_EVERY == 0)
            hits = hits_of_pages(person, shown[name][0])
            by_jmap = len(query_all(person, {"inMailbox": person.mailboxes()["inbox" if folder == "INBOX" else FOLDER]["id"], "subject": "needle"}))
            if [found[folder], hits, by_jmap] != [expected] * 3:
                raise Wrong(f"{expected} messages of {folder} have the word; found over IMAP, pages and JMAP: {found[folder]}, {hits}, {by_jmap}")

    def check_against(self, before):
        """Checks that the same messages use the same space as before."""
        one, other = [sorted(observation.ids["INBOX"] + observation.ids[FOLDER]) for observation in (before, self)]
        if one != other:
            raise Wrong(f"the identifiers of {len(set(one) ^ set(other))} messages have changed")
        quotas = [(seen.storage, seen.octets, seen.used) for seen in (before, self)]
        if quotas[0] != quotas[1]:
            raise Wrong(f"the quota over IMAP, JMAP and pages has changed from {quotas[0]} to {quotas[1]}")


def query_all(person, condition):
    """Returns the identifiers of all messages that match, from as many queries as needed."""
    ids = []
    while True:
        arguments = {"filter": condition, "sort": [{"property": "receivedAt"}], "position": len(ids), "limit": QUERY_LIMIT, "calculateTotal": True}
        found = person.call("Email/query", arguments)
        ids += found["ids"]
        if not found["ids"]:
            if len(ids) != found["total"] or len(ids) != len(set(ids)):
                raise Wrong(f"a query has {len(ids)} messages, of which {len(set(ids))} differ, and a total of {found['total']}")
            return ids


def hits_of_pages(person, folder):
    """Returns how many messages of a folder the search of the web mail finds, on all its pages."""
    path, links, seen = f"/lite/search?q=needle&in=subject&folder={folder}", [], set()
    while path:
        if path in seen:
            raise Wrong(f"the search of the web mail does not go on: {path}")
        seen.add(path)
        page = person.page(path)
        links += re.findall(r'<td dir="auto"><a href="(/lite/folder/\d+/\d+)">', page)
        more = re.search(r'rel="next" href="([^"]*)"', page)
        path = more and html.unescape(more[1])
    if len(links) != len(set(links)):
        raise Wrong("the search of the web mail shows a message twice")
    return len(links)
