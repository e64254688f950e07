"""The cost of full-text search.

The example `full_text_cost` of the crate `mail` indexes generated mail in the real store and searches it. The example
`search_cost` of the crate `imap` searches a mailbox with and without the index.
"""

import json
import subprocess

FILE_MESSAGES = 10_000


def ours(example, messages):
    """Runs the example `full_text_cost`. Returns its figures by name."""
    files = max(messages // FILE_MESSAGES, 1)
    done = subprocess.run([example, str(messages), str(files), "--imap", "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def search(example, messages):
    """Runs the example `search_cost`. Returns the times of searches with and without the index, by kind of search."""
    done = subprocess.run([example, str(messages), "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def search_rows(messages, figures):
    """Returns the rows of the table: label, time with the index, time without it."""
    return tuple((f"SEARCH {kind}, of {messages:,} messages, indexed (compared with: not indexed)", found["with_ms"], found["without_ms"]) for kind, found in figures.items())


def rows(messages, figures):
    """Returns the rows of the table: label, value, unit, better value ("more" or "less"), aim."""
    query, added = "two words, by relevance", "one message more, indexed and committed"
    return (
        (f"full text: {messages:,} messages of 1 KB indexed", figures["messages a second"], "/s", "more", 5_000),
        ("processor time for each of them", figures["processor us a message"], "µs", "less", None),
        ("two words looked up in a mail file of them, p50", figures[f"{query}: p50 ms"], "ms", "less", 10),
        ("the same, p99", figures[f"{query}: p99 ms"], "ms", "less", None),
        ("a phrase, p99", figures["phrase: p99 ms"], "ms", "less", None),
        ("one message more indexed and committed, p50", figures[f"{added}: p50 ms"], "ms", "less", None),
    )
