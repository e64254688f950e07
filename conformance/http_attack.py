"""Attacks on the HTTP server with the tools of others, which are Debian packages: `slowhttptest` (slow headers, slow bodies,
slow readers, many ranges) and `testssl.sh` (protocols, ciphers and known weaknesses of TLS).

While `slowhttptest` holds its connections, every other client must get its page, and connections that are too slow must end.
`testssl.sh` must find nothing of the severities HIGH and CRITICAL, but that the certificate of the test is self-signed. A tool
that is not installed is skipped, with the reason. `DOUBLET_SOAK` makes the attacks longer.
"""

import json
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.request

CONNECTIONS = 1_000
CONNECTIONS_PER_SECOND = 300
SHORT_S, LONG_S = 30, 120
SETTINGS = {"http.header_timeout": "10s", "http.idle_timeout": "10s"}
PROBE_PATIENCE_S = 30
PROBE_PAUSE_S = 0.2
TLS_TIME_MAX_S = 1_800
FINDINGS_MIN = 50
# The attacks with their options, the address, and whether the attack is longer than the server's patience with it.
ATTACKS = {
    "slow headers": (["-H", "-i", "3", "-x", "24"], "/lite/login", True),
    "slow bodies": (["-B", "-i", "3", "-s", "100000", "-x", "10"], "/lite/login", False),
    "slow readers": (["-X", "-w", "1", "-y", "2", "-n", "5", "-z", "32", "-k", "3"], "/lite/login", False),
    "many ranges": (["-R", "-a", "1", "-b", "3000"], "/lite/login", False),
}
# What is not sound in a test: nobody has signed the certificate.
FINDINGS_OF_THE_CERTIFICATE = re.compile(r"^cert_(trust|chain_of_trust|caIssuers|crlDistributionPoints|ocsp.*|revocation)|^DNS_CAA|^overall")


class Probe(threading.Thread):
    """Another client, which gets a page again and again."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address = address
        self.ending = threading.Event()
        self.pages, self.slowest_s, self.failure = 0, 0.0, None

    def run(self):
        """Gets the page until the end."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while not self.ending.wait(PROBE_PAUSE_S):
            begin = time.monotonic()
            try:
                with opener.open(self.address, timeout=PROBE_PATIENCE_S) as page:
                    page.read()
            except OSError as error:
                self.failure = str(error)
                return
            self.pages += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - begin)


def run(server, count, only):
    """Plays all attacks."""
    server.stop()
    server.settings |= SETTINGS
    server.start()
    for name, (options, path, is_cut) in ATTACKS.items():
        judge(count, name, only, "slowhttptest", lambda options=options, path=path, is_cut=is_cut: slow(server, options, path, is_cut))
    judge(count, "TLS", only, "testssl", lambda: tls(server))


def judge(count, name, only, program, play):
    """Plays an attack, and counts its result."""
    if only and only not in name:
        return
    if not shutil.which(program):
        print(f"{name}: skipped, {program} is not installed", flush=True)
        count.add(0, 0, 1)
        return
    failure, remark = play()
    print(f"{name}: failed, {failure} ({remark})" if failure else f"{name}: passed ({remark})", flush=True)
    count.add(int(not failure), int(bool(failure)), 0)


def slow(server, options, path, is_cut):
    """Attacks with `slowhttptest`. Returns what is wrong, or None, and a remark."""
    base = f"http://localhost:{server.port('http')}"
    seconds = LONG_S if os.environ.get("DOUBLET_SOAK") else SHORT_S
    probe = Probe(f"{base}/lite/login")
    probe.start()
    words = ["slowhttptest", *options, "-c", str(CONNECTIONS), "-r", str(CONNECTIONS_PER_SECOND), "-l", str(seconds), "-p", "5",
             "-u", base + path]
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds + 120, check=False)
    probe.ending.set()
    probe.join()
    closed = [int(number) for number in re.findall(r"closed:\s*(\d+)", plain(done.stdout))]
    remark = f"{probe.pages} pages meanwhile, the slowest after {probe.slowest_s:.2f} s, {max(closed, default=0)} connections ended"
    if probe.failure:
        return f"another client got no page: {probe.failure}", remark
    if not probe.pages:
        return "no page was asked for meanwhile", remark
    if not closed:
        return f"slowhttptest said {plain(done.stdout)[-500:]!r}", remark
    # On a busy machine slowhttptest notices late which of its connections have ended.
    if is_cut and max(closed) < CONNECTIONS // 10:
        return "slow connections did not end", remark
    return (None if server.is_running() else "the server has ended"), remark


def tls(server):
    """Looks for weaknesses with `testssl.sh`. Returns what is wrong, or None, and a remark."""
    out = f"{server.folder}/testssl.json"
    words = ["testssl", "--quiet", "--color", "0", "--warnings", "batch", "--ip", "127.0.0.1", "--jsonfile", out,
             f"localhost:{server.port('https')}"]
    try:
        subprocess.run(words, capture_output=True, timeout=TLS_TIME_MAX_S, check=False)
        with open(out, encoding="utf-8") as file:
            findings = json.load(file)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return f"testssl.sh has no result: {error}", "no findings"
    if len(findings) < FINDINGS_MIN:
        return f"testssl.sh has looked at little: {findings}"[:2000], f"{len(findings)} findings"
    bad = [f"{one['id']}: {one['finding']}" for one in findings
           if one["severity"] in ("HIGH", "CRITICAL", "FATAL") and not FINDINGS_OF_THE_CERTIFICATE.search(one["id"])]
    if not server.is_running():
        bad.append("the server has ended")
    return "; ".join(bad)[:2000] or None, f"{len(findings)} findings"


def plain(text):
    """Returns a text without the colours of a terminal."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
