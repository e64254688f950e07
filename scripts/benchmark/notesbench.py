"""R6IMAP of the load generator against Doublet and against Dovecot with Postfix, with the same file and options.

Both servers are reached over TLS. The search for the largest number of users is that of `doublet-bench max-users`; then
both play half of the users that the peers bear, which gives the processor time of a user. The processes of a server
count with their descendants.
"""

import json
import os
import subprocess

from .peers import PASSWORD, Peers, free_ports

SPEEDUP = 200
DOCUMENTS = 30
USERS_FIRST, USERS_MAX = 50, 800
# The measured interval in time of the users.
MEASURE = "2 h"

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
        with open(f"{folder}/postfix/master.cf", "a", encoding="utf-8") as conf:
            conf.write(SUBMISSION.format(folder=folder, port=self.tls_ports["submissions"], auth_port=self.tls_ports["auth"]))

    def target(self):
        """Writes the file that tells the driver where the servers are. Returns its path."""
        with open(f"{self.folder}/password", "w", encoding="utf-8") as file:
            file.write(PASSWORD + "\n")
        processes = [family.process.pid for family in self.families]
        lines = [f'imap = "127.0.0.1:{self.tls_ports["imaps"]}"', f'submission = "127.0.0.1:{self.tls_ports["submissions"]}"',
                 f'lmtp = "{self.folder}/dovecot-run/lmtp"', 'users = "{}bench@bench.test"', 'password_file = "password"',
                 'certificate = "certificate.pem"', f"processes = {processes}", f'data_folder = "{self.folder}/mail"']
        with open(f"{self.folder}/target.toml", "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return f"{self.folder}/target.toml"


def measure(bench):
    """Searches for the largest number of users of both servers, and plays half of that of the peers on both."""
    figures = bench.report.figures
    if not bench.options.ours_only:
        def peers(server):
            target = ["--target", server.target()]
            found = largest(bench.driver, target, server.folder, bench.part)
            bench.report.note("r6imap", "peer", found)
            half = max((found["users"] or USERS_FIRST) // 2, 1)
            bench.report.note("r6imap, half", "peer", at(bench.driver, target, half, server.folder, bench.part))
        bench.with_server(TlsPeers, peers)
    if not bench.options.peers_only:
        own = ["--server", bench.options.program, "--folder", bench.folder]
        found = largest(bench.driver, own, bench.folder, bench.part)
        bench.report.note("r6imap", "ours", found)
        half = figures.get("r6imap, half", {}).get("peer", {}).get("users") or max((found["users"] or USERS_FIRST) // 2, 1)
        bench.report.note("r6imap, half", "ours", at(bench.driver, own, half, bench.folder, bench.part))


def largest(driver, server, folder, part):
    """Returns the largest number of users that a server bears, and what limits it. `server` are the options that name it."""
    words = ["max-users", "r6imap", "--from", str(USERS_FIRST), "--to", str(USERS_MAX // part)]
    found = json.loads(_play(driver, [*words, *server, "--json"], folder, part))
    return {"users": found["users"], "users_missed": found["users_missed"], "limits": found["limits"]}


def at(driver, server, users, folder, part):
    """Plays so many users. Returns the processor time of a user and hour at speed 1, the mean response, and the state of the run."""
    directory = _play(driver, ["run", "r6imap", "--users", str(users), *server], folder, part).strip().splitlines()[-1]
    with open(f"{directory}/report.json", encoding="utf-8") as text:
        report = json.load(text)
    busy = next(row["mean"] for row in report["server"]["rows"] if row["resource"] == "processor_percent_of_one_core")
    cpu_ms = busy / 100 * 3_600_000 / (users * SPEEDUP)
    headline = report["headline"][0]
    return {"users": users, "cpu_ms_per_user_and_hour": cpu_ms, "response_ms": headline["response"]["mean_us"] / 1e3,
            "notesmark": headline["notesmark"], "errors": headline["errors"], "state": report["state"]["name"]}


def _play(driver, words, folder, part):
    """Runs the driver. Returns its standard output."""
    out = f"{folder}/out"
    os.makedirs(out, exist_ok=True)
    options = ["--documents", str(max(DOCUMENTS // part, 3)), "--speedup", str(SPEEDUP), "--measure", MEASURE, "--out", out]
    done = subprocess.run([driver, *words, *options], stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout.strip():
        raise RuntimeError(f"doublet-bench {' '.join(words)} ended with {done.returncode} and without a result")
    return done.stdout
