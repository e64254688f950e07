"""A static file over TLS and HTTP/2, with Debian's `h2load`: requests a processor second, against nginx with the same bytes.

The file is the style sheet of the lite web mail, the only static file that the server has.
"""

import re
import statistics
import subprocess

from .browser import Browser

CLIENTS, STREAMS = 20, 10


def style_sheet(server):
    """Returns the address of the style sheet, and its bytes."""
    browser = Browser(server.port("https"))
    page = browser.get("/lite/login").page()
    address = next(name for name in page.resources if name.startswith("/lite/style/"))
    content = browser.request("GET", address, headers={"Accept-Encoding": "identity"}).content
    browser.close()
    return address, content


def measure(ours, nginx, requests, turns=5):
    """Measures both servers in turns, with and without compression. Returns the medians for each."""
    address, content = style_sheet(ours)
    with open(f"{nginx.folder}/files/style.css", "wb") as out:
        out.write(content)
    places = {"ours": (ours, f"https://localhost:{ours.port('https')}{address}"), "peer": (nginx, f"https://localhost:{nginx.https}/style.css")}
    found = {name: {"bytes": len(content)} for name in places}
    for coding in ("identity", "gzip"):
        turn_figures = {name: [] for name in places}
        for turn in range(turns):
            for name in (("ours", "peer") if turn % 2 else ("peer", "ours")):
                turn_figures[name].append(load(*places[name], requests, coding))
        for name, figures in turn_figures.items():
            for key in figures[0]:
                found[name][f"{coding}_{key}"] = statistics.median(one[key] for one in figures)
    return found


def load(server, url, requests, coding):
    """Requests the file over and over. Raises RuntimeError if a request fails."""
    cpu = server.cpu_seconds()
    words = ["h2load", "-n", str(requests), "-c", str(CLIENTS), "-m", str(STREAMS), "-H", f"accept-encoding: {coding}", url]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    cpu = server.cpu_seconds() - cpu
    succeeded = int(re.search(r"(\d+) succeeded", text)[1])
    if succeeded != requests or "Application protocol: h2" not in text:
        raise RuntimeError(text)
    return {"per_cpu_second": requests / cpu, "per_second": float(re.search(r"([\d.]+) req/s", text)[1]),
            "bytes_each": int(re.search(r"traffic: .*\((\d+)\) total", text)[1]) / requests}
