"""Messages for the measurements of web mail: with conversations, texts of some kilobytes, and HTML in every fourth one.

A seed determines them. `doublet-bench corpus` makes messages without conversations.
"""

import random
import time

WORDS = ("about account agenda answer attached before budget could customer date decision delivery draft friday have invoice issue meeting "
         "minutes next office order plan please project question regards release review send server team that this tomorrow travel until "
         "update version week will with you").split()
PEOPLE = ("Alice Ames", "Bob Byrne", "Carol Cole", "David Dunn", "Erin Esch", "Frank Foss", "Grace Gill")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# The message with this index and every 100th after it have a rare word in the subject, for which the sessions search.
RARE, RARE_WORD = 7, "quorum"
# Every third message answers one of the last 20.
ANSWER_BACK = 20
# The time of receipt of the first message, and the seconds between two of them.
FIRST_TIME, INTERVAL_S = 1_600_000_000, 60


def letters(count, user, size=4_000, seed=1):
    """Yields the messages to a user, oldest first. Texts have half of `size` to one and a half of it."""
    numbers = random.Random(f"{seed} {user}")
    subjects = []
    for index in range(count):
        parent = max(0, index - 1 - numbers.randrange(ANSWER_BACK)) if index and index % 3 == 0 else None
        subject = subjects[parent] if parent is not None else " ".join(numbers.choices(WORDS, k=5)) + f" {index}"
        if parent is None and index % 100 == RARE:
            subject = f"{subject} {RARE_WORD}"
        subjects.append(subject)
        yield _letter(numbers, (index, user, subject, parent), size)


def write_mbox(path, count, user, size=4_000):
    """Writes the messages to a user into an mbox file."""
    with open(path, "wb") as out:
        for index, content in enumerate(letters(count, user, size)):
            text = content.replace(b"\r\n", b"\n").replace(b"\nFrom ", b"\n>From ")
            moment = time.asctime(time.gmtime(FIRST_TIME + INTERVAL_S * index))
            out.write(f"From sender@elsewhere.test {moment}\n".encode() + text + b"\n")


def _letter(numbers, head, size):
    index, user, subject, parent = head
    day, second = divmod(index * 60, 86_400)
    year, day = divmod(day, 360)
    month, day = divmod(day, 30)
    moment = f"{min(day, 27) + 1} {('Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec')[month]} {2020 + year}"
    clock = f"{second // 3_600:02}:{second // 60 % 60:02}:{second % 60:02} +0000"
    text = _prose(numbers, size // 2 + numbers.randrange(size))
    lines = [f"Received: from client.bench.test by mx.bench.test; {moment} {clock}", f"Date: {moment} {clock}",
             f"From: {numbers.choice(PEOPLE)} <sender@elsewhere.test>", f"To: {user}bench@bench.test",
             f"Subject: {'Re: ' if parent is not None else ''}{subject}", f"Message-ID: <{index}.{user}@elsewhere.test>"]
    if parent is not None:
        lines += [f"In-Reply-To: <{parent}.{user}@elsewhere.test>", f"References: <{parent}.{user}@elsewhere.test>"]
    lines.append("MIME-Version: 1.0")
    if index % 4:
        lines += ["Content-Type: text/plain; charset=utf-8", "", text]
    else:
        html = "<html><body><p>" + text.replace("\r\n", "<br>\r\n") + "</p></body></html>"
        lines += ["Content-Type: multipart/alternative; boundary=\"=_part\"", "", "--=_part", "Content-Type: text/plain; charset=utf-8", "", text,
                  "--=_part", "Content-Type: text/html; charset=utf-8", "", html, "--=_part--"]
    return ("\r\n".join(lines) + "\r\n").encode()


def _prose(numbers, size):
    lines, length = [], 0
    while length < size:
        line = " ".join(numbers.choices(WORDS, k=10))
        lines.append(line)
        length += len(line) + 2
    return "\r\n".join(lines)
