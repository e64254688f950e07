"""The short form of every workload: four users at a speed-up of 900 against a fresh server.

The messages of N8Mail have up to three recipients besides the sender, so fewer users would receive less than promised.

Each workload in the folder `workloads` is played for whole cycles: the least common multiple of the `every` of its
steps. The steps of the report must be exactly those that the file promises, by class and verb, and none may fail. Of
N8Mail, the messages of an hour are counted too, and after the run the documents in the mail files; it is also played
with users of two servers, between which mail is sent. R6IMAP is also played over POP3. Workloads of doors that do not
exist must be refused with the reason.
"""

import concurrent.futures
import json
import math
import os
import subprocess
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
USERS = 4
SPEEDUP = 900
DOCUMENTS = 20
DATABASE_DOCUMENTS = 300
# Users of workloads that several users cannot play: a view that another one changes meanwhile is a conflict.
USERS_OF = {"viewrebuild": 1}
# Workloads that are played at the same time. Most of them wait most of the time.
AT_ONCE = 5
RUN_TIME_MAX_S = 300
REFUSED_EXIT_CODE = 5
# A run on a busy machine may be called not valid, because the driver was late. Its counts are right all the same.
STATES = ("valid", "overloaded", "not valid")
# The workloads that this version refuses, with the reason. All others are played.
REFUSED = {"dwa8": "the door full does not exist yet", "dwa85": "the door full does not exist yet"}
# Workloads that are also played with other options, by the name of this form.
OTHER_FORMS = {"r6imap-pop3": ("r6imap", ["--door", "pop3"]), "n8mail-2": ("n8mail", ["--servers", "2"])}
# Iterations of workloads without a timetable.
UNPACED_ITERATIONS = 3
# Parameters of workloads that would take too long: names of a directory that is as large as that of the article.
SET_OF = {"namelookup": ["people=200", "looked_up=100"]}
# Verbs whose number depends on what is met or on errors.
NOT_COUNTED = ("log_in", "read_attachment")
# Verbs that have nothing to do at times: the documents of the user, or the messages that have arrived, are used up.
MAY_SKIP = ("accept", "delete", "move", "read", "reply", "update")
# Workloads in which users read the attachments that they meet.
ATTACHMENT_WORKLOADS = ("attachmentcompression",)


def run(program, only):
    """Plays the workloads. Returns the numbers of those that passed and failed.

    The data folders are directly in the folder for temporary files, because the paths of sockets are limited.
    """
    with tempfile.TemporaryDirectory(prefix="nb.") as folder:
        return _run_all(program, folder, only)


def _run_all(program, folder, only):
    """Plays the workloads in a folder. Returns the numbers of those that passed and failed."""
    driver = os.path.join(os.path.dirname(os.path.abspath(program)), "doublet-bench")
    names = sorted(name.removesuffix(".toml") for name in os.listdir(f"{ROOT}/workloads")) + sorted(OTHER_FORMS)
    names = [name for name in names if not only or name == only]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(lambda name: _outcome(program, driver, folder, name), names))
    for name, wrong in zip(names, outcomes):
        print(f"notesbench: {name}: {'ok' if wrong is None else wrong}", flush=True)
    failed = sum(1 for wrong in outcomes if wrong is not None)
    return len(names) - failed, failed


def _outcome(program, driver, folder, name):
    """Plays or refuses a workload. Returns what is wrong, or None."""
    try:
        workload = json.loads(subprocess.run([driver, "check", _workload(name), "--json"], stdout=subprocess.PIPE, check=True).stdout)["workload"]
        if name in REFUSED:
            done = _run(driver, program, folder, name, 1, "1 h")
            is_refused = done.returncode == REFUSED_EXIT_CODE and REFUSED[name] in done.stderr
            return None if is_refused else f"it is not refused with the reason: {done.returncode}, {done.stderr[-500:]}"
        return _play(program, driver, folder, name, workload)
    except (subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
        return f"{type(error).__name__}: {error}"


def _play(program, driver, folder, name, workload):
    """Plays a workload. Returns what is wrong, or None."""
    iterations, measure = _length(workload)
    done = _run(driver, program, folder, name, iterations, measure)
    directory = done.stdout.strip().splitlines()[-1:]
    if not directory:
        return f"there is no report: {done.returncode}, {done.stderr[-600:]}"
    with open(f"{directory[0]}/report.json", encoding="utf-8") as text:
        report = json.load(text)
    if report["state"]["name"] not in STATES:
        return f"{report['state']}, errors {report['errors']}"
    counts = {(steps["class"], steps["verb"]): steps for steps in report["whole_run"] if steps["verb"] not in NOT_COUNTED}
    left_out = {left_out["name"] for left_out in report["left_out"] if left_out["kind"] == "verb"}
    promised = {key: count for key, count in _promised(workload, iterations).items() if key[1] not in left_out}
    for key in sorted(set(promised) | set(counts)):
        steps = counts.get(key, {"due": 0, "failed": 0, "not_begun": 0})
        if (steps["due"], steps["failed"], steps["not_begun"]) != (promised.get(key, 0), 0, 0):
            return f"{key[0]}, {key[1]}: {promised.get(key, 0)} promised, but {steps}; errors {report['errors']}"
        if steps.get("skipped", 0) > (steps["due"] // 2 if key[1] in MAY_SKIP else 0):
            return f"{key[0]}, {key[1]}: too many steps were skipped: {steps}"
    calls = [warning["text"] for warning in report["state"]["warnings"] if warning["rule"] == "calls"]
    if calls:
        return calls[0]
    reads = [steps for steps in report["whole_run"] if steps["verb"] == "read_attachment"]
    if any(steps["failed"] for steps in reads):
        return f"attachments could not be read: {report['errors']}"
    if name in ATTACHMENT_WORKLOADS and not sum(steps["due"] - steps["skipped"] for steps in reads):
        return "no attachment was read"
    return _check_mail(program, _place(folder, name), counts, iterations) if _workload(name) == "n8mail" else None


def _run(driver, program, folder, name, iterations, measure):
    """Runs the driver."""
    place = _place(folder, name)
    os.mkdir(place)
    set_words = [word for parameter in SET_OF.get(name, []) for word in ("--set", parameter)]
    words = [driver, "run", _workload(name), *_options(name), *set_words, "--users", str(_users(name)), "--speedup", str(SPEEDUP), "--documents", str(DOCUMENTS),
             "--database-documents", str(DATABASE_DOCUMENTS), "--size-scale", "0.01", "--iterations", str(iterations), "--measure", measure,
             "--server", program, "--server-set", "full_text.delay=0s", "--folder", place, "--out", place, "--keep"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as driver_process:
        try:
            out, error = driver_process.communicate(timeout=RUN_TIME_MAX_S)
        except subprocess.TimeoutExpired:
            # It ends its server.
            driver_process.terminate()
            out, error = driver_process.communicate()
            error += f"\nit did not end within {RUN_TIME_MAX_S} s"
    return subprocess.CompletedProcess(words, driver_process.returncode, out, error)


def _workload(name):
    """Returns the workload of a name."""
    return OTHER_FORMS.get(name, (name, []))[0]


def _options(name):
    """Returns the options of a form of a workload."""
    return OTHER_FORMS.get(name, (name, []))[1]


def _place(folder, name):
    """Returns the folder of a run. Its path is short, because the paths of sockets are limited."""
    return f"{folder}/{name[:6]}{name[-1]}"


def _users(name):
    """Returns the users of a workload."""
    return USERS_OF.get(name, USERS)


def _length(workload):
    """Returns the iterations of a whole cycle, and a measured interval in which users can perform them."""
    iteration_us = max(each["rhythm"]["iteration_us"] or 0 for each in workload["classes"])
    if not iteration_us:
        return UNPACED_ITERATIONS, "30 min"
    iterations = math.lcm(*(step["every"] for each in workload["classes"] for step in each["steps"]))
    return iterations, f"{(iterations + 2) * iteration_us // 1_000_000} s"


def _promised(workload, iterations):
    """Returns the steps that a workload promises of its users in whole cycles, by class and verb."""
    promised = {}
    for each, members in zip(workload["classes"], _members(workload["classes"], _users(workload["name"].lower()))):
        for step in each["steps"]:
            key = each["name"], step["verb"]
            promised[key] = promised.get(key, 0) + members * step["count"] * iterations // step["every"]
    return {key: count for key, count in promised.items() if count}


def _members(classes, users):
    """Returns the number of users of each class: each user joins the class that is furthest behind its share."""
    members = [each["members"].get("users", 0) for each in classes]
    shares = [each["members"].get("share", 0) for each in classes]
    joined = [0] * len(classes)
    for user in range(1, users + 1):
        behind = [share * user - count if share else -math.inf for share, count in zip(shares, joined)]
        joined[behind.index(max(behind))] += 1
    return [fixed + shared for fixed, shared in zip(members, joined)]


def _check_mail(program, place, counts, iterations):
    """Checks the messages of N8Mail: what the users have sent and read an hour, and what is in their mail files."""
    done = {verb: steps["due"] - steps["skipped"] for (_, verb), steps in counts.items()}
    hours = USERS * iterations / 4
    sent, read = (done["send"] + done["reply"]) / hours, counts["mail", "read"]["due"] / hours
    if (sent, read) != (8, 20):
        return f"{sent} sent and {read} read a user and hour"
    # Each iteration sends to one recipient, and each second one to three, and answers one. A copy of each is saved.
    received = 12 * hours
    kept = next(f"{place}/{entry}" for entry in os.listdir(place) if entry.startswith("doublet-bench-"))
    servers = sorted(f"{kept}/{entry}" for entry in os.listdir(kept) if entry.startswith("server-")) or [kept]
    expected = USERS * DOCUMENTS + done["send"] + done["reply"] + received + done["appointment"] - done["delete"]
    data = {user: f"{servers[(user - 1) % len(servers)]}/data" for user in range(1, USERS + 1)}
    found = sum(_documents(program, data[user], f"mail/mail{user}.nsf") for user in data)
    return None if found == expected else f"the mail files have {found} documents, not {expected}"


def _documents(program, data, path):
    """Returns the number of documents in a mail file."""
    table = f"{data}/{os.path.basename(path)}.jsonl"
    subprocess.run([program, "--data", data, "db", "export", path, table], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    with open(table, encoding="utf-8") as text:
        return sum(1 for _ in text)
