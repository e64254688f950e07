"""Many users in shared databases over the native protocol.

The work compares large databases with small ones, and measures the effect of a very large one on the users of others.

A study of large databases in Domino found response times that grow exponentially with the number of documents in the
opened view. Two users in a view of 500,000 documents cost the others less than 5 %.
"""

import json
import os
import random
import subprocess
import time

USERS = 250
DATABASES = 25
VIEW = "All Documents"
# The views of the template and the additional ones. A change moves the document in four of them, and does not in one.
VIEWS = (VIEW, "By Category", "By Author", "By Topic", "By Price")
MADE_VIEWS = {"By Topic": ("Subject", "ascending"), "By Price": ("Price", "descending")}
WORDS = ("minutes", "offer", "order", "contract", "invoice", "complaint", "plan", "review", "budget", "travel")


def make(server, count, databases=DATABASES, name="shared{}.nsf", level="editor"):
    """Creates databases with `count` documents each from a template. All users may write in them."""
    table = f"{server.folder}/documents.jsonl"
    dice = random.Random(count)
    with open(table, "w", encoding="utf-8") as out:
        for number in range(count):
            subject = f"{' '.join(dice.sample(WORDS, 4))} {number}"
            out.write(json.dumps({"Form": "Topic", "Subject": subject, "Categories": [f"Category {dice.randrange(500):03}"], "Price": number}) + "\n")
    start = time.monotonic()
    for number in range(1, databases + 1):
        path = name.format(number)
        server.command("db", "create", path, "--template", "discussion")
        server.command("db", "acl", path, "set", "-Default-", "--level", level)
        server.command("db", "import", path, table)
    seconds = time.monotonic() - start
    server.command("updall")
    server.settle()
    return {"documents": count * databases, "per_second": count * databases / seconds}


def make_viewed(server, count, name):
    """Creates one database with `count` documents and five views."""
    made = make(server, count, 1, name, "designer")
    design = f"{server.folder}/view.toml"
    for title, (item, order) in MADE_VIEWS.items():
        with open(design, "w", encoding="utf-8") as out:
            out.write(f'[[view]]\ntitle = "{title}"\nselection = \'SELECT Form = "Topic"\'\n')
            out.write(f'columns = [{{ title = "{item}", item = "{item}", sort = "{order}" }}, {{ title = "Topic", item = "Subject" }}]\n')
        server.command("view", "create", name, design, "--user", "1bench@bench.test", "--password-file", "-", text=server.password)
    server.command("updall")
    server.settle()
    return made


def change(server, driver, count, name, rounds):
    """Measures one user who changes random documents and reads the first screen of five views after each change.

    Returns the times.
    """
    results = _results(server, driver, "--users", "1", "--databases", "1", "--files", name, "--views", "|".join(VIEWS), "--changes", str(count), "--rounds", str(rounds))
    return {"p50_us": results["times_us"]["CHANGE_AND_SCREENS"]["p50"], "save_p50_us": results["times_us"]["UPDATE_NOTE"]["p50"]}


def work(server, driver, rounds, users=USERS, databases=DATABASES, beside=None):
    """Measures the users, while two others work in the database `beside` if it is set.

    Returns the throughput and the response times of the users without those two.
    """
    guests = ["--guests", "2", "--guest-file", beside] if beside else []
    results = _results(server, driver, "--users", str(users), "--databases", str(databases), "--rounds", str(rounds), "--views", VIEW, *guests)
    mean = sum(times["mean"] * times["count"] for times in results["times_us"].values()) / results["count"]
    return {"calls": results["count"], "per_second": results["count"] / results["seconds"], "mean_us": mean,
            "p50_us": {name: times["p50"] for name, times in results["times_us"].items()},
            "p99_us": {name: times["p99"] for name, times in results["times_us"].items()}}


def _results(server, driver, *options):
    """Runs the driver and returns its figures. Raises RuntimeError if a call failed."""
    results = json.loads(subprocess.run([*_drive(server, driver), *options], stdout=subprocess.PIPE, check=True).stdout)
    if results["failures"]:
        raise RuntimeError(f"native: {results['failures']} failures, the first: {results['first_failure']}")
    return results


def _drive(server, driver):
    """Returns the command of the driver."""
    certificate = os.path.join(server.data, "tls", "certificate.pem")
    host, port = server.address("native")
    return [driver, "native", "--address", f"{host}:{port}", "--password", server.password, "--certificate", certificate]
