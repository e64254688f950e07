"""The cost of views, compared with SQLite with an index on the same columns and with PouchDB with the same map.

Doublet is the example `view_cost` of the crate `notes`, which runs in one process on the real storage engine, as SQLite
does here. Both hold the same kind of documents, and the results of SQLite are fetched completely. Two requests are
measured. The first is a page at a random position, as a scroll bar requests it; SQLite implements it with OFFSET. The
second is a page that starts at a known key, the best case for an index without counts. Both draw from at least a
thousand keys, so that the page is not in the processor's cache.
"""

import json
import os
import random
import sqlite3
import statistics
import subprocess
import time

LOOKS = 1_000
POUCHDB = "pouchdb@9"
COLUMNS = "sender, date, subject, price"
ORDER = "sender, date DESC, subject"


def ours(example, count, folder):
    """Runs the example `view_cost`. Returns its figures by name."""
    done = subprocess.run([example, str(count), folder, "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def sqlite(count, folder):
    """Measures SQLite. Returns its figures by name."""
    path = os.path.join(folder, "documents.sqlite")
    base = sqlite3.connect(path)
    base.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -262144;"
                       "CREATE TABLE document (id INTEGER PRIMARY KEY, form TEXT, subject TEXT, customer TEXT, sender TEXT, status TEXT, price REAL, date INTEGER);")
    dice = random.Random(7)
    base.executemany("INSERT INTO document VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (document(dice, number) for number in range(count)))
    base.commit()
    start = time.monotonic()
    base.execute(f"CREATE INDEX by_sender ON document ({ORDER}, price)")
    base.commit()
    seconds = time.monotonic() - start
    cursor = base.cursor()
    page = f"SELECT {COLUMNS} FROM document INDEXED BY by_sender"
    keys = [cursor.execute(f"{page} ORDER BY {ORDER} LIMIT 1 OFFSET ?", (dice.randrange(count - 50),)).fetchone() for _ in range(LOOKS)]
    after = f"{page} WHERE sender >= ? AND (sender > ? OR date < ?) ORDER BY {ORDER} LIMIT 50"
    figures = {
        "build_per_second": count / seconds,
        "first_ms": times(lambda: cursor.execute(f"{page} ORDER BY {ORDER} LIMIT 50").fetchall()),
        "after_key_ms": times(lambda: cursor.execute(after, next_key(dice, keys)).fetchall()),
        "offset_ms": times(lambda: cursor.execute(f"{page} ORDER BY {ORDER} LIMIT 50 OFFSET ?", (dice.randrange(count - 50),)).fetchall(), 50),
        "totals_ms": times(lambda: cursor.execute("SELECT customer, count(*), sum(price) FROM document GROUP BY customer").fetchall(), 3),
    }
    base.close()
    return figures


def pouchdb(count, folder):
    """Measures PouchDB, which npm installs into the cache folder. Returns its figures, or None if that fails."""
    modules = fetch_modules(POUCHDB)
    if not modules:
        return None
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pouchdb.js")
    done = subprocess.run(["node", script, modules, folder, str(count), "200"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def fetch_modules(package):
    """Lets npm install a package, such as `pouchdb@9`, into the cache folder. Returns its folder, or None if that fails."""
    name = package.partition("@")[0]
    modules = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "doublet", name)
    if not os.path.exists(os.path.join(modules, "node_modules", name)):
        os.makedirs(modules, exist_ok=True)
        done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", modules, package], stdout=subprocess.DEVNULL)
        if done.returncode:
            print(f"  {package} cannot be fetched and is left out", flush=True)
            return None
    return modules


def document(dice, number):
    """Returns a document like those of the example."""
    subject = f"{dice.choice(('Minutes', 'Offer', 'Order', 'Contract', 'Invoice'))} of {dice.choice(('Paris', 'London', 'Zürich', 'Kyoto'))} number {number}"
    return (number + 1, "Order", subject, f"Customer {dice.randrange(1_000):04}", f"CN=User {dice.randrange(20_000):05}/OU=Sales/O=Acme",
            dice.choice(("open", "closed", "waiting", "lost")), dice.randrange(1_000_000) / 100, 1_600_000_000 + dice.randrange(100_000_000))


def next_key(dice, keys):
    """Returns the parameters of a random row after which a page begins."""
    sender, date, _, _ = dice.choice(keys)
    return sender, sender, date


def times(look, count=LOOKS):
    """Returns the median time of a request, in milliseconds."""
    found = []
    for _ in range(count):
        start = time.perf_counter()
        look()
        found.append((time.perf_counter() - start) * 1_000)
    return statistics.median(found)


def rows(count, mine, theirs, pouch):
    """Returns the rows of the table.

    A row has a label, the figure of Doublet, that of the peer, the unit, the better value ("more" or "less"), the aim for
    the figure of Doublet, and the aim for the ratio.
    """
    build = 'build of view \'Three\', documents a processor second'
    first, page = f"open and first 50 entries, of {count}: median", f"50 entries at a random position, of {count}: median"
    key = f"50 entries from a known key on, of {count}: median"
    saved = "a document saved and the first 50 entries read: median"
    against_pouch = () if pouch is None else (
        (f"a document saved and 50 entries read (PouchDB: of {pouch['documents']:,} documents)", mine[saved], pouch["update_and_read_ms"], "ms", "less", None, 1 / 5),)
    size = f"{count * 4_000 / 1e9:.0f} GB"
    ram = f"rebuild of a view of {size}, sorted in memory: median"
    rebuilt = () if ram not in mine else (
        (f"rebuild of a view of {size}, rows sorted in a memory file system (compared with: on the disk)", mine[ram], mine[ram.replace("in memory", "on the disk")], "s", "less", None, None),)
    return against_pouch + rebuilt + (
        ("build of a view with three sorted columns, documents a CPU second", mine[build], theirs["build_per_second"], "/s", "more", 150_000, None),
        ("open a view and read its first 50 entries (SQLite: the same rows)", mine[first], theirs["first_ms"], "ms", "less", 0.3, 2),
        ("50 entries from a known key on (SQLite: the same)", mine[key], theirs["after_key_ms"], "ms", "less", 0.3, 2),
        ("50 entries at a random position, with their positions (SQLite: by OFFSET, without)", mine[page], theirs["offset_ms"], "ms", "less", 0.3, 2),
        ("99th percentile of that", mine[page.replace("median", "99th percentile")], None, "ms", "less", 3, None),
        ("1,000 collapsed categories with totals (SQLite: GROUP BY)", mine["1,000 collapsed categories with totals: median"], theirs["totals_ms"], "ms", "less", 2, None),
        ("a document saved under 5 views until it is durable, large (compared with: 1,000 documents)", mine[f"durable update with 5 views of {count}: median"],
         mine["durable update with 5 views of 1000: median"], "ms", "less", None, 1.3),
        ("the same without waiting for the disk", mine[f"update with 5 views of {count}: median"], mine["update with 5 views of 1000: median"], "ms", "less", None, None),
        (f"a document saved and 50 rows read, {count // 200:,} of {count // 10:,} documents hidden", mine[f"a document saved and 50 entries read, {count // 200} of {count // 10} hidden: median"],
         None, "ms", "less", None, None),
    )
