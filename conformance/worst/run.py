"""The part `worst` of conformance/run: fills a server, searches, and prints a table of all verbs."""

import json
import os
import sys
import time

from . import imap, native, pop3, smtp
from .fill import SETTINGS, Fill
from .measure import SLOW_MS, Meter
from .search import SHOWN, Search
from .wire import Session

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir)


def add_options(parser):
    """Adds the options of the command line."""
    group = parser.add_argument_group("worst", "options of the search for the requests that keep a worker longest")
    group.add_argument(
        "--seed", type=int, default=int(os.environ.get("DOUBLET_SEED") or 1), help="the seed of the data and of all new requests"
    )
    group.add_argument("--seconds", type=float, default=60, help="the time of the search; every verb is tried in any case")
    group.add_argument("--bound-ms", type=float, default=250, help="the longest time that a job may keep a worker")
    group.add_argument("--messages", type=int, default=20_000, help="the number of small messages; the other data have their share of it")
    group.add_argument("--keep", metavar="FOLDER", help="the folder for the slowest requests")
    group.add_argument("--replay", metavar="FILE", help="sends only the request in a file of this folder")
    group.add_argument("--json", action="store_true", help="prints the result as JSON")


def run(server, count, options, only, password):
    """Runs the search on a server. `only` is a part of the names of the verbs to try, or empty."""
    say = print if not options.json else lambda text: print(text, file=sys.stderr)
    server.stop()
    server.settings |= SETTINGS
    server.start()
    start = time.monotonic()
    fill = Fill(server, password, options.messages, options.seed)
    fill.operator()
    meter = Meter(server)
    why = native.available()
    calls = native.Native(server, fill.account) if why is None else None
    if calls:
        calls.connect()
    fill.user(meter, calls)
    # The statistics begin anew, so that they are those of the search alone.
    server.stop()
    server.start()
    if calls:
        calls.connect()
    say(f"worst: filled in {time.monotonic() - start:.1f} s, seed {options.seed}")
    generators = {f"{protocol.NAME} {verb}": generate for protocol in (imap, smtp, pop3) for verb, generate in protocol.GENERATORS.items()}
    if calls:
        generators |= {f"{native.NAME} {verb}": generate for verb, generate in calls.generators().items()}
    else:
        say(f"worst: native calls skipped, {why}")
        count.add(0, 0, 1)
    missing = uncovered(server, meter, fill.account, generators)
    chosen = {verb: generate for verb, generate in generators.items() if only in verb}
    if not chosen:
        raise SystemExit(f"worst: no verb has {only} in its name; the verbs are {', '.join(generators)}")
    search = Search(server, meter, fill.account, chosen, options)
    if options.replay:
        search.replay(options.replay)
        return
    search.run()
    if options.keep:
        keep(search, options.keep)
    print(json.dumps(figures(search), indent=1) if options.json else table(search))
    failed = [row for row in search.rows.values() if failure(row, options.bound_ms)]
    for text in missing + [failure(row, options.bound_ms) for row in failed]:
        say(f"worst: {text}")
    count.add(len(search.rows) - len(failed), len(failed) + len(missing), 0)


def uncovered(server, meter, account, generators):
    """Returns what the server can do and no generator asks for."""
    verbs = [f"{protocol.NAME} {verb}" for protocol in (imap, smtp, pop3) for verb in protocol.verbs(ROOT)]
    texts = [f"{verb} has no generator" for verb in verbs if verb not in generators]
    session = Session(server, None, meter, account, 20)
    return texts + [f"the IMAP capability {word} is used by no generator" for word in imap.unknown_capabilities(session)]


def failure(row, bound_ms):
    """Returns the reason why a verb failed, or None."""
    if row.panicked:
        return f"{row.verb}: {row.panicked} jobs panicked"
    if row.tried == row.refused_before:
        return f"{row.verb}: no request could be prepared: {row.last_answer}"
    if row.repeated_ms <= bound_ms:
        return None
    times = f"{row.repeated_ms:.0f} ms at least, of {row.processor_ms:.0f} ms processor time"
    return f"{row.verb} keeps a worker for {times}: {shortened(row.confirmed)}"


def shortened(kept):
    """Returns the beginning of a request."""
    text = next((text for what, text in kept.session.request() if what == "request"), b"")
    return repr(text[:SHOWN])[2:-1] + (f"... ({len(text):,} bytes)" if len(text) > SHOWN else "")


def table(search):
    """Returns the result as text."""
    rows = sorted(search.rows.values(), key=lambda row: row.longest_ms, reverse=True)
    heads = ("requests", "accepted", "not sent", "longest job ms", "repeated ms", f"jobs > {SLOW_MS} ms", "longest answer ms")
    lines = [f"{'verb':32} {' '.join(heads)}"]
    for row in rows:
        repeated = f"{row.repeated_ms:.0f}" if row.repeated_ms else "-"
        cells = (row.tried, row.accepted, row.refused_before, f"{row.longest_ms:.1f}", repeated, row.slow, f"{row.response_ms:.1f}")
        lines.append(f"{row.verb:32} {' '.join(f'{cell:>{len(head)}}' for head, cell in zip(heads, cells))}")
    for label, longest in sorted(search.others.items()):
        lines.append(f"{'the server itself: ' + ' '.join(label[:2]):50} {longest:23.1f}")
    for row in rows:
        if row.longest_ms > search.options.bound_ms:
            lines.append(f"{row.verb}: {row.slowest.measured.longest_ms:.0f} ms: {shortened(row.slowest)}")
    return "\n".join(lines)


def figures(search):
    """Returns the result for programs."""
    verbs = {}
    for row in search.rows.values():
        verbs[row.verb] = {
            "requests": row.tried,
            "accepted": row.accepted,
            "not_sent": row.refused_before,
            "longest_job_ms": row.longest_ms,
            "repeated_ms": row.repeated_ms,
            "slow_jobs": row.slow,
            "longest_response_ms": row.response_ms,
            "panicked": row.panicked,
            "last_answer": row.last_answer,
            "slowest": shortened(row.slowest) if row.slowest else None,
        }
    others = {" ".join(label): longest for label, longest in search.others.items()}
    return {
        "seed": search.options.seed,
        "seconds": search.options.seconds,
        "bound_ms": search.options.bound_ms,
        "verbs": verbs,
        "server": others,
    }


def keep(search, folder):
    """Writes the slowest request of each verb to a file."""
    os.makedirs(folder, exist_ok=True)
    for row in search.rows.values():
        kept = row.confirmed or row.slowest
        if kept is None:
            continue
        head = {
            "verb": row.verb,
            "longest_job_ms": kept.measured.longest_ms,
            "repeated_ms": row.repeated_ms,
            "processor_ms": kept.measured.processor_ms,
            "jobs": kept.measured.jobs,
            "response_ms": kept.measured.response_ms,
            "answer": kept.measured.answer,
            "choices": kept.made,
        }
        with open(os.path.join(folder, row.verb.replace(" ", "-").replace("/", "-") + ".request"), "wb") as out:
            out.write(json.dumps(head).encode() + b"\n")
            for what, text in kept.session.request():
                out.write(b"\n" + what.encode() + b":\n" + text + b"\n")
