"""Slow lines: the first visit to a readable list with an empty cache, and a page with 20 images with and without persistent connections.

The proxy of the harness delays what both sides send and limits their rate. It adds the time that a connection takes to be
established; it has no slow start and loses nothing, which favours the server that sends more.
"""

import os
import re
import subprocess
import time

from harness.gate import Gate

from .browser import Browser
from .web_session import Lite, RoundcubeSession

# Name: bits per second, time for both ways.
LINES = {"1.6 Mbit/s, 150 ms": (1_600_000, 0.15), "64 kbit/s, 600 ms": (64_000, 0.6)}
# What browsers open to one server over HTTP/1.1.
CONNECTIONS = 6
# The rate of the line on which only its time matters, in bits per second.
FAST = 1_000_000_000
IMAGES = 20
IMAGE_BYTES = 2_000


class Behind:
    """A server as it is seen through a line."""

    def __init__(self, server, gate):
        self.server, self.gate = server, gate
        self.password, self.name = server.password, server.name

    def port(self, _protocol):
        """Returns the port of the line."""
        return int(self.gate.address.rpartition(":")[2])


def line_to(server, bits_per_second, round_trip_s):
    """Returns a server behind a line."""
    gate = Gate(lambda: ("127.0.0.1", server.port("https")), round_trip_s / 2, bits_per_second / 8)
    return Behind(server, gate)


def first_visit(kind, server, user, repeats=3):
    """The time until the list of the inbox is there, from the address of the server on, for each line. The fastest of some visits counts."""
    found = {}
    for name, (rate, round_trip) in LINES.items():
        times = []
        for _ in range(repeats):
            player = {"lite": Lite, "roundcube": RoundcubeSession}[kind](line_to(server, rate, round_trip), user)
            player.browser.close()
            player.browser = Browser(player.browser.port, lanes=CONNECTIONS)
            start = time.monotonic()
            player.log_in()
            player.list()
            times.append(time.monotonic() - start)
            player.browser.close()
        found[name] = {"seconds": min(times), "bytes": player.browser.bytes_received, "requests": player.browser.requests}
    return found


def images(server, user, round_trip_s, lanes, repeats=5):
    """The time to load a message and its 20 images over a line. The fastest of some visits counts."""
    place = line_to(server, FAST, round_trip_s) if round_trip_s else server
    message, cookies = log_in(place, user)
    times = []
    for _ in range(repeats):
        browser = Browser(place.port("https"), lanes=lanes)
        browser.cookies = dict(cookies)
        start = time.monotonic()
        browser.load_all(images_of(browser, message))
        times.append(time.monotonic() - start)
        browser.close()
    return {"ms": 1e3 * min(times), "connections": browser.connections}


def images_http2(server, user, round_trip_s, repeats=5):
    """The time to load the images alone over one connection with HTTP/2, by `h2load`. The fastest of some visits counts."""
    place = line_to(server, FAST, round_trip_s)
    message, cookies = log_in(place, user)
    browser = Browser(place.port("https"))
    browser.cookies = dict(cookies)
    addresses = f"{server.folder}/images"
    with open(addresses, "w", encoding="ascii") as out:
        out.writelines(f"{browser.base}{address}\n" for address in images_of(browser, message))
    browser.close()
    cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
    words = ["h2load", "-n", str(IMAGES), "-c", "1", "-m", str(IMAGES), "-H", f"cookie: {cookie}", "-i", addresses]
    times = []
    for _ in range(repeats):
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        if f"{IMAGES} succeeded" not in text or f"{IMAGES} 2xx" not in text:
            raise RuntimeError(text)
        number, unit = re.search(r"finished in ([\d.]+)(ms|s)", text).groups()
        times.append(float(number) * (1 if unit == "ms" else 1e3))
    os.remove(addresses)
    return {"ms": min(times)}


def images_alone(server, user, round_trip_s, repeats=5):
    """The time to load the images alone as a browser does over HTTP/1.1. The fastest of some visits counts."""
    place = line_to(server, FAST, round_trip_s)
    message, cookies = log_in(place, user)
    times = []
    for _ in range(repeats):
        first = Browser(place.port("https"))
        first.cookies = dict(cookies)
        addresses = images_of(first, message)
        first.close()
        browser = Browser(place.port("https"), lanes=CONNECTIONS)
        browser.cookies = dict(cookies)
        start = time.monotonic()
        browser.load_all(addresses)
        times.append(time.monotonic() - start)
        browser.close()
    return {"ms": 1e3 * min(times)}


def log_in(place, user):
    """Logs in. Returns the address of the newest message, and the cookies."""
    player = Lite(place, user)
    player.log_in()
    message = player.list()[0]
    player.browser.close()
    return message, player.browser.cookies


def images_of(browser, message):
    """Loads a message and returns the addresses of its images."""
    shown = [link["href"] for link in browser.get(message).page().links if link["href"].endswith("?show")]
    if len(shown) != IMAGES:
        raise RuntimeError(f"{message}: {len(shown)} images")
    return shown


def message_with_images(user):
    """Returns a message with 20 images."""
    head = (f"From: sender@elsewhere.test\r\nTo: {user}bench@bench.test\r\nSubject: twenty images\r\nMIME-Version: 1.0\r\n"
            "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nHere they are.\r\n")
    line = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
    filler = "\r\n".join("A" * 76 for _ in range(IMAGE_BYTES * 4 // 3 // 76))
    parts = [f"--b\r\nContent-Type: image/gif; name=i{at}.gif\r\nContent-Disposition: attachment; filename=i{at}.gif\r\n"
             f"Content-Transfer-Encoding: base64\r\n\r\n{line}{filler}\r\n" for at in range(IMAGES)]
    return head + "".join(parts) + "--b--\r\n"
