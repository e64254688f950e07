"""R6IMAP of the load generator against Doublet and against Dovecot with Postfix, with the same file and options.

Both servers are reached over TLS. The search for the largest number of users is that of `doublet-bench max-users`; then
both play half of the users that the peers bear, in turns and with fresh mailboxes, which gives the processor time of a
user. The processes of a server count with their descendants.
"""

import json
import os
import shutil
import subprocess
import tempfile

from .peers import PASSWORD, Peers, free_ports

SPEEDUP = 200
DOCUMENTS = 30
USERS_FIRST, USERS_MAX = 50, 800
# The measured interval in time of the users.
MEASURE = "2 h"
# Turns of each server with half of the users. The median counts.
TURNS = 3

DOVECOT_TLS = """
ssl = yes
ssl_cert = <{folder}/certificate.pem
ssl_key = <{folder}/key.pem
service imap-login {{
  inet_listener imaps {{
    port = {imaps_port}
    ssl = yes
  }}
}}
service auth {{
  inet_listener {{
    address = 127.0.0.1
    port = {auth_port}
  }}
}}
"""

# Options of the listener for submission over TLS (RFC 8314).
SUBMISSION = (
    "127.0.0.1:{port} inet n - n - - smtpd -o smtpd_tls_wrappermode=yes -o smtpd_tls_security_level=encrypt "
    "-o smtpd_tls_cert_file={folder}/certificate.pem -o smtpd_tls_key_file={folder}/key.pem "
    "-o smtpd_sasl_auth_enable=yes -o smtpd_sasl_type=dovecot -o smtpd_sasl_path=inet:127.0.0.1:{auth_port}\n"
)


class TlsPeers(Peers):
    """Postfix and Dovecot, with listeners for IMAP and submission over TLS."""

    def __init__(self, folder):
        super().__init__(folder)
        self.tls_ports = dict(zip(("imaps", "submissions", "auth"), free_ports(3)))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
                        "-subj", "/CN=mx.bench.test", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", f"{folder}/key.pem", "-out", f"{folder}/certificate.pem"], check=True, capture_output=True)
        with open(f"{folder}/dovecot.conf", "a", encoding="utf-8") as conf:
            conf.write(DOVECOT_TLS.format(folder=folder, imaps_port=self.tls_ports["imaps"], auth_port=self.tls_ports["auth"]))
        with open(f"{folder}/postfix/main.cf", "a", encoding="utf-8") as conf:
            # The largest messages of the size profile have more than the 10 MB that Postfix accepts by default.
            conf.write("message_size_limit = 104857600\n")
        with open(f"{folder}/postfix/master.cf", "a", encoding="utf-8") as conf:
            conf.write(SUBMISSION.format(folder=folder, port=self.tls_ports["submissions"], auth_port=self.tls_ports["auth"]))

    def target(self):
        """Writes the file that tells the driver where the servers are. Returns its path."""
        with open(f"{self.folder}/password", "w", encoding="utf-8") as file:
            file.write(PASSWORD + "\n")
        processes = [family.process.pid for family in self.families]
        queue = [f"{self.folder}/postfix-queue/{name}" for name in ("maildrop", "incoming", "active", "deferred")]
        lines = [f'imap = "127.0.0.1:{self.tls_ports["imaps"]}"', f'submission = "127.0.0.1:{self.tls_ports["submissions"]}"',
                 f'lmtp = "{self.folder}/dovecot-run/lmtp"', 'users = "{}bench@bench.test"', 'password_file = "password"',
                 'certificate = "certificate.pem"', f"processes = {processes}", f"queue_folders = {json.dumps(queue)}", f'data_folder = "{self.folder}/mail"']
        with open(f"{self.folder}/target.toml", "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return f"{self.folder}/target.toml"


def measure(bench):
    """Searches for the largest number of users of both servers, and plays half of that of the peers on both, in turns."""
    sides = [side for side, is_left_out in (("peer", bench.options.ours_only), ("ours", bench.options.peers_only)) if not is_left_out]
    for side in sides:
        bench.report.note("r6imap", side, _with_side(bench, side, largest))
    found = [bench.report.figures.get("r6imap", {}).get(side, {}).get("users") for side in ("peer", "ours")]
    half = max((found[0] or found[1] or USERS_FIRST) // 2, 1)
    turns = {side: [] for side in sides}
    for _ in range(1 if bench.options.quick else TURNS):
        for side in sides:
            turns[side].append(_with_side(bench, side, lambda play: at(play, half)))
    for side in sides:
        bench.report.note("r6imap, half", side, _middle(turns[side]))


def _with_side(bench, side, work):
    """Does a work with a fresh server. `work` gets the function that runs the driver against it."""
    if side == "ours":
        folder = tempfile.mkdtemp(dir=bench.folder)
        try:
            return work(lambda words: _play(bench, [*words, "--server", bench.options.program, "--folder", folder], folder))
        finally:
            shutil.rmtree(folder)
    done = []
    play = lambda server: lambda words: _play(bench, [*words, "--target", server.target()], server.folder)  # noqa: E731
    bench.with_server(TlsPeers, lambda server: done.append(work(play(server))))
    return done[0]


def largest(play):
    """Returns the largest number of users that a server bears, and what limits it."""
    found = json.loads(play(["max-users", "r6imap", "--from", str(USERS_FIRST), "--to", str(USERS_MAX), "--json"]))
    return {"users": found["users"], "users_missed": found["users_missed"], "limits": found["limits"], "end": found["end"]}


def at(play, users):
    """Plays so many users. Returns the processor time of a user and hour at speed 1, the mean response, and the state of the run."""
    directory = play(["run", "r6imap", "--users", str(users)]).strip().splitlines()[-1]
    with open(f"{directory}/report.json", encoding="utf-8") as text:
        report = json.load(text)
    busy = [row["mean"] for row in report["server"]["rows"] if row["resource"] == "processor_percent_of_one_core"]
    figures = {"users": users, "state": report["state"]["name"]}
    if report["headline"] and busy:
        headline = report["headline"][0]
        figures |= {"cpu_ms_per_user_and_hour": busy[0] / 100 * 3_600_000 / (users * SPEEDUP), "notesmark": headline["notesmark"],
                    "response_ms": headline["response"]["mean_us"] / 1e3, "errors": headline["errors"]}
    return figures


def _middle(turns):
    """Returns the turn with the median of the processor time, with the times and states of all turns."""
    complete = sorted((turn for turn in turns if "cpu_ms_per_user_and_hour" in turn), key=lambda turn: turn["cpu_ms_per_user_and_hour"])
    middle = complete[(len(complete) - 1) // 2] if complete else turns[0]
    return middle | {"turns_cpu_ms": [turn.get("cpu_ms_per_user_and_hour") for turn in turns], "states": [turn["state"] for turn in turns]}


def add_rows(report, shown):
    """Adds both rows. A number of users that the driver has limited is a lower bound, and is marked."""
    both = [report.figures.get("r6imap", {}).get(side) for side in ("ours", "peer")]
    if any(both):
        label = "R6IMAP of NotesBench over TLS, speed-up 200, 30 messages a mailbox: the largest number of users"
        ratio = both[0]["users"] / both[1]["users"] if all(found and found["users"] for found in both) else None
        # More users of ours than were found make the ratio larger, more of the peers make it smaller.
        is_least = ratio is not None and is_lower_bound(both[0])
        is_decided = ratio is not None and not is_lower_bound(both[1]) and (ratio >= 2 or not is_least)
        text = "" if ratio is None else f"{'≥ ' if is_least else ''}{ratio:.3g} ×"
        report.row(label, _users(both[0]), _users(both[1]), text, "≥ 2 ×", ratio >= 2 if is_decided else None)
    both = [report.figures.get("r6imap, half", {}).get(side, {}) for side in ("ours", "peer")]
    if any(both):
        label = f"server CPU for a user and hour of it, with {(both[0] or both[1])['users']} users"
        times = [found.get("cpu_ms_per_user_and_hour") for found in both]
        ratio = times[0] / times[1] if all(times) else None
        is_valid = all(set(found.get("states", [])) == {"valid"} for found in both)
        reached = ratio <= 1 / 2 if ratio is not None and is_valid else None
        label += "" if is_valid else " (not all turns are valid)"
        report.row(label, shown(times[0], "ms"), shown(times[1], "ms"), "" if ratio is None else f"{ratio:.3g} ×", "≤ 1/2 ×", reached)


def is_lower_bound(found):
    """Returns True if the server could bear more: the driver was the limit, or the largest permitted number was borne."""
    return found["limits"] == ["driver"] or found["end"] == "permitted"


def _users(found):
    """Formats a number of users."""
    if not found or not found["users"]:
        return ""
    return f"≥ {found['users']}" if is_lower_bound(found) else str(found["users"])


def _play(bench, words, folder):
    """Runs the driver. Returns its standard output."""
    out = f"{folder}/out"
    os.makedirs(out, exist_ok=True)
    options = ["--documents", str(max(DOCUMENTS // bench.part, 3)), "--speedup", str(SPEEDUP), "--measure", MEASURE, "--out", out]
    with subprocess.Popen([bench.driver, *words, *options], stdout=subprocess.PIPE, text=True) as driver:
        try:
            text, _ = driver.communicate()
        finally:
            # It stops its server.
            driver.terminate()
    if not text.strip():
        raise RuntimeError(f"doublet-bench {' '.join(words)} ended with {driver.returncode} and without a result")
    return text
