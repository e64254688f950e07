"""What the full-text index of mail files costs: deliveries until they are in the index, against deliveries to mail files without one.

The texts have 30,000 words with the frequencies of a language (Zipf), because the size of an index depends on its words.
"""

import random
import smtplib
import statistics
from concurrent.futures import ThreadPoolExecutor

from harness.processes import wait_for

from . import jmap

USERS = range(101, 111)
SESSIONS = 8
MESSAGES_OF_SESSION = 400
VOCABULARY = 30_000
SYLLABLES = "ba be bi bo da de di do fa fe ga go ka ke ki la le li lo ma me mi na ne ni no pa pe ra re ri ro sa se si ta te ti to va ve".split()
WORDS_EACH = 500
WORDS_OF_SUBJECT = 6
INDEX_TIME_MAX_S = 600


def words():
    """Returns the words and their cumulated frequencies."""
    numbers = random.Random(3)
    found = ["".join(numbers.choices(SYLLABLES, k=numbers.randrange(1, 6))) + str(rank % 10) * (rank > 5_000) for rank in range(VOCABULARY)]
    total, cumulated = 0.0, []
    for rank in range(VOCABULARY):
        total += 1 / (rank + 3)
        cumulated.append(total)
    return found, cumulated


def messages(count):
    """Yields a message and its recipient, `count` times."""
    numbers = random.Random(5)
    found, cumulated = words()
    for index in range(count):
        chosen = numbers.choices(found, cum_weights=cumulated, k=WORDS_OF_SUBJECT + WORDS_EACH)
        body = "\r\n".join(" ".join(chosen[at:at + 12]) for at in range(WORDS_OF_SUBJECT, len(chosen), 12))
        head = f"From: a@elsewhere.test\r\nSubject: {' '.join(chosen[:WORDS_OF_SUBJECT])}\r\nMessage-ID: <{index}@elsewhere.test>"
        yield USERS[index % len(USERS)], f"{head}\r\n\r\n{body}\r\n"


def measure(server, count, is_indexed):
    """Delivers messages. Returns the processor time until all are in the index, and the bytes on the disk after a compaction, each for a message."""
    made = list(messages(count))
    server.settle()
    disk, cpu = server.disk_bytes(), server.cpu_seconds()
    with ThreadPoolExecutor(SESSIONS) as pool:
        for session in [pool.submit(deliver, server, made[at::SESSIONS]) for at in range(SESSIONS)]:
            session.result()
    accepted = server.cpu_seconds() - cpu
    if is_indexed:
        wait_for("the index to be complete", lambda: indexed(server) >= count, INDEX_TIME_MAX_S)
    wait_for("the server to be idle", lambda: jmap.is_quiet(server), INDEX_TIME_MAX_S, 0)
    cpu = server.cpu_seconds() - cpu
    server.settle()
    return {"messages": count, "bytes": statistics.mean(len(text) for _, text in made), "accepted_cpu_ms": 1e3 * accepted / count,
            "cpu_ms": 1e3 * cpu / count, "disk_bytes": (server.disk_bytes() - disk) / count}


def deliver(server, part):
    """Delivers messages one after another, over sessions of some hundred messages."""
    for first in range(0, len(part), MESSAGES_OF_SESSION):
        with smtplib.SMTP("127.0.0.1", server.port("smtp"), timeout=60) as session:
            for user, text in part[first:first + MESSAGES_OF_SESSION]:
                session.sendmail("a@elsewhere.test", [f"{user}bench@bench.test"], text)


def indexed(server):
    """Returns the number of documents in the index."""
    lines = server.metrics(10).splitlines()
    return next((int(float(line.split()[-1])) for line in lines if line.startswith("doublet_full_text_documents ")), 0)
