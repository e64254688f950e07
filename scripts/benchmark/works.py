"""The measured works. Each one runs on a server that the caller has started, and returns its figures as a dictionary.

A server has `port(protocol)`, `password`, `cpu_seconds()`, `memory_kb()`, `disk_bytes()`, `idle()`, `settle()` and
`load(user, count, mbox)`. The works use nothing else of it, so Doublet and the peers do exactly the same.
"""

import base64
import imaplib
import json
import random
import smtplib
import subprocess
import time

from harness.processes import wait_for

SESSIONS = 32
MESSAGE_BYTES = 10_240
USERS = 5_000
SHARERS = 20
QUIET_S = 3
FETCHES = 4


def delivery(server, count, runs=1):
    """Durable delivery: `smtp-source` sends messages to 5,000 users over 32 sessions, until all are in their mailboxes.

    The work checks some users over IMAP: each must have one message more for each run.
    """
    count = min(count, USERS)
    _source(server, SESSIONS * 4)
    wait_for("the queue to drain", server.idle)
    sample = random.Random(2).sample(range(1, count + 1), 20)
    before = [_messages(server, user) for user in sample]
    cpu, start = server.cpu_seconds(), time.monotonic()
    for _ in range(runs):
        _source(server, count)
    accepted = time.monotonic() - start
    wait_for("the queue to drain", server.idle, 600)
    seconds, cpu = time.monotonic() - start, server.cpu_seconds() - cpu
    more = [_messages(server, user) - old for user, old in zip(sample, before)]
    if more != [runs] * len(more):
        raise RuntimeError(f"{server.name}: of {runs} messages each, there are {more}")
    total = count * runs
    return {"messages": total, "per_second": total / seconds, "accepted_per_second": total / accepted, "cpu_ms": 1_000 * cpu / total}


def mix(server, driver, clients, rounds, login):
    """Concurrent clients with the command mix of a mail program's session. Fills the mailboxes before."""
    arguments = ["--clients", clients, "--login", login]
    _drive(server, driver, "mix", *arguments, "--rounds", 0)
    cpu = server.cpu_seconds()
    results = _drive(server, driver, "mix", *arguments, "--fill", 0, "--rounds", rounds)
    cpu = server.cpu_seconds() - cpu
    _refuse_failures(results)
    return {"commands": results["count"], "per_second": results["count"] / results["seconds"], "per_cpu_second": results["count"] / cpu,
            "p50_us": {name: times["p50"] for name, times in results["times_us"].items()},
            "p99_us": {name: times["p99"] for name, times in results["times_us"].items()}}


def churn(server, driver, clients, seconds):
    """Connected clients on small mailboxes in which messages are added and removed. Fills the mailboxes before."""
    arguments = ["--clients", clients]
    _drive(server, driver, "churn", *arguments, "--seconds", 0)
    cpu = server.cpu_seconds()
    results = _drive(server, driver, "churn", *arguments, "--fill", 0, "--seconds", seconds)
    cpu = server.cpu_seconds() - cpu
    _refuse_failures(results)
    counts = results["commands_by_interval"]
    return {"commands": results["count"], "per_second": results["count"] / results["seconds"], "per_cpu_second": results["count"] / cpu,
            "last_to_first": counts[-1] / counts[0], "by_interval": counts,
            "p50_us": {name: times["p50"] for name, times in results["times_us"].items()},
            "p99_us": {name: times["p99"] for name, times in results["times_us"].items()}}


def passage(server, driver, user, passed):
    """Median times of commands in a mailbox of 30 messages after `passed` more have passed, and in a fresh mailbox."""
    results = _drive(server, driver, "passage", "--user", user, "--pass", passed)
    for case in results.values():
        _refuse_failures(case)
    return {case: {name: times["p50"] for name, times in figures["times_us"].items()} for case, figures in results.items()}


def churn_cost(example, passes):
    """Runs the example `churn_cost`. Returns the median times of each operation on fresh data and after churn."""
    done = subprocess.run([example, str(passes), "--json"], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def large_mailbox(server, user, repeats=5):
    """SELECT and FETCH 1:* (FLAGS) through Python's imaplib, warm: the first round is not counted.

    SELECT is measured twice: with no new message since the last SELECT, and with one. Before each SELECT the mailbox is
    left unchanged for a while, because Dovecot examines a Maildir that changed within the last second more closely.
    FETCH is measured twice, too: through imaplib, whose own work takes nearly all of the time and varies more than the
    server's, and reading the bytes only. The result is the median of the SELECTs and the minimum of the FETCHes.
    """
    times = {"select_ms": [], "fetch_ms": [], "fetch_bytes_ms": [], "select_new_ms": []}
    for _ in range(repeats + 1):
        client = imaplib.IMAP4("127.0.0.1", server.port("imap"))
        client.login(f"{user}bench@bench.test", server.password)
        time.sleep(QUIET_S)
        times["select_ms"].append(_timed(lambda: client.select("INBOX")))
        fetched = []
        for _ in range(FETCHES):
            fetched.clear()
            times["fetch_ms"].append(_timed(lambda: fetched.extend(client.fetch("1:*", "(FLAGS)")[1])))
            times["fetch_bytes_ms"].append(_timed(lambda: _read_answer(client, b"FETCH 1:* (FLAGS)")))
        client.unselect()
        deliver_to_one(server, user, 1)
        wait_for("the queue to drain", server.idle)
        time.sleep(QUIET_S)
        times["select_new_ms"].append(_timed(lambda: client.select("INBOX")))
        count = int(client.untagged_responses["EXISTS"][-1])
        assert count == len(fetched) + 1, f"{len(fetched)} of {count} messages"
        client.logout()
    counted = {name: sorted(some[len(some) // (repeats + 1):]) for name, some in times.items()}
    return {"messages": count} | {name: some[0 if name.startswith("fetch") else repeats // 2] for name, some in counted.items()}


def _read_answer(client, command):
    """Sends a command on the socket of imaplib, and reads the response without parsing it."""
    client.socket().sendall(b"bytes " + command + b"\r\n")
    tail = b""
    while b"\r\nbytes OK" not in tail:
        tail = (tail + client.socket().recv(1 << 20))[-200:]


def _timed(work):
    start = time.monotonic()
    work()
    return 1_000 * (time.monotonic() - start)


def append(server, driver, user, count):
    """Appends messages to one mailbox, one after another."""
    cpu = server.cpu_seconds()
    results = _drive(server, driver, "append", "--user", user, "--count", count)
    _refuse_failures(results)
    times = results["times_us"]["APPEND"]
    return {"appends": count, "mean_us": 1e6 * results["seconds"] / count, "p50_us": times["p50"], "p99_us": times["p99"],
            "cpu_us": 1e6 * (server.cpu_seconds() - cpu) / count}


def deliver_to_one(server, user, count):
    """Delivers messages to one mailbox over one session, one after another."""
    body = "x" * 60 + "\r\n"
    message = (f"From: sender@elsewhere.test\r\nSubject: one\r\n\r\n{body * (MESSAGE_BYTES // len(body))}").encode()
    with smtplib.SMTP("127.0.0.1", server.port("smtp")) as client:
        cpu, start = server.cpu_seconds(), time.monotonic()
        for _ in range(count):
            client.sendmail("sender@elsewhere.test", [f"{user}bench@bench.test"], message)
        seconds = time.monotonic() - start
        return {"messages": count, "mean_us": 1e6 * seconds / count, "cpu_us": 1e6 * (server.cpu_seconds() - cpu) / count}


def shared_attachments(server, messages):
    """Disk usage of mailboxes with files that 20 users have, each in a message with its own header, and as many small
    messages.

    (In one transaction with 20 recipients Dovecot links the copies of the whole message. It cannot share a file that was
    forwarded.)
    """
    server.settle()
    before = server.disk_bytes()
    numbers = random.Random(5)
    for index in range(messages):
        content = base64.encodebytes(numbers.randbytes(300_000)).decode().replace("\n", "\r\n")
        with smtplib.SMTP("127.0.0.1", server.port("smtp")) as client:
            for user in range(1, SHARERS + 1):
                recipient = f"{user}bench@bench.test"
                client.sendmail("sender@elsewhere.test", [recipient], _with_attachment(index, recipient, content).encode())
                client.sendmail("sender@elsewhere.test", [recipient], _own(index, numbers).encode())
    wait_for("the queue to drain", server.idle, 600)
    server.settle()
    return {"messages_each": 2 * messages, "kb_each": (server.disk_bytes() - before) / SHARERS / 1_024}


def idle_connections(server, driver, connections):
    """Memory of idle connections, each of a different user."""
    before = server.memory_kb()
    command = _command(server, driver, "idle", "--connections", connections)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        results = json.loads(process.stdout.readline())
        after = server.memory_kb()
        process.communicate("enough\n")
    return {"connections": results["connections"], "kb_each": (after - before) / connections, "server_mb_before": before / 1_024,
            "logins_per_second": connections / results["seconds"]}


def _own(index, numbers):
    lines = "\r\n".join(numbers.randbytes(30).hex() for _ in range(60))
    return f"From: sender@elsewhere.test\r\nSubject: own {index}\r\n\r\n{lines}\r\n"


def _messages(server, user):
    client = imaplib.IMAP4("127.0.0.1", server.port("imap"))
    client.login(f"{user}bench@bench.test", server.password)
    count = int(client.select("INBOX", readonly=True)[1][0])
    client.logout()
    return count


def _with_attachment(index, recipient, content):
    return (f"From: sender@elsewhere.test\r\nTo: {recipient}\r\nSubject: shared\r\nMIME-Version: 1.0\r\n"
            "Content-Type: multipart/mixed; boundary=b\r\n\r\n"
            f"--b\r\nContent-Type: text/plain\r\n\r\nThe file, number {index}.\r\n"
            f"--b\r\nContent-Type: application/octet-stream; name=file{index}\r\nContent-Transfer-Encoding: base64\r\n\r\n{content}\r\n--b--\r\n")


def _source(server, count):
    subprocess.run(["smtp-source", "-s", str(SESSIONS), "-l", str(MESSAGE_BYTES), "-m", str(count), "-N", "-f", "sender@elsewhere.test",
                    "-t", "bench@bench.test", f"127.0.0.1:{server.port('smtp')}"], check=True)


def _command(server, driver, work, *arguments):
    return [driver, work, "--address", f"127.0.0.1:{server.port('imap')}", "--password", server.password, *map(str, arguments)]


def _drive(server, driver, work, *arguments):
    out = subprocess.run(_command(server, driver, work, *arguments), stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(out) if out else None


def _refuse_failures(results):
    if results["failures"]:
        raise RuntimeError(f"{results['failures']} commands failed, the first: {results['first_failure']}")
