"""Others while one account asks for the most expensive work that the protocols allow.

The server has two workers. Three users send NOOP and STATUS, deliver messages and read pages of a view with 50 rows, first alone and then while another user
repeats the requests of one attack after the other on eight connections.
"""

import json
import os
import subprocess

from . import crowd

SETTINGS = {"server.pool_tasks": "2"}
MEASURED = ("NOOP", "STATUS", "delivery", "view page")
DATABASE = "neighbors.nsf"
# The longest time that others may wait, at the 99th percentile.
P99_MS_MAX = 100


def attacks(driver):
    """Returns the names of all attacks. The first is `none`."""
    return subprocess.run([driver, "attacks"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def prepare(server, driver):
    """Creates what the users read, and fills the mail file of the attacker."""
    crowd.make(server, 1_000, 1, DATABASE)
    measure(server, driver, "none", 1, "--fill", "1")


def measure(server, driver, attack, seconds, *options):
    """Returns the 99th percentiles of the others in milliseconds, and the number of requests of the attack."""
    host, port = server.address("native")
    imap, smtp = (f"127.0.0.1:{server.port(protocol)}" for protocol in ("imap", "smtp"))
    certificate = os.path.join(server.data, "tls", "certificate.pem")
    command = [driver, "neighbors", "--imap", imap, "--smtp", smtp, "--native", f"{host}:{port}", "--certificate", certificate,
               "--password", server.password, "--database", DATABASE, "--view", crowd.VIEW, "--attack", attack, "--seconds", str(seconds), *options]
    results = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    if results["failures"]:
        raise RuntimeError(f"{attack}: {results['failures']} requests of others failed, the first: {results['first_failure']}")
    return {"p99_ms": {name: results["times_us"][name]["p99"] / 1_000 for name in MEASURED}, "requests": results["attack_requests"]}
