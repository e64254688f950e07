"""The table of figures of Doublet and the peer, with ratio and aim: as text, as JSON, and in docs/performance.md."""

import json
import re

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"


class Report:
    """Collects rows and prints them."""

    def __init__(self, facts, commit, peers):
        self.facts, self.commit, self.peers = facts, commit, peers
        self.rows = []
        self.figures = {}
        self.commits = {}
        # The properties of the machine for the commits at which it was described. Other commits were measured on the first of them.
        self.machines = {}

    def recall(self, data):
        """Loads the figures of an earlier run. New figures replace them."""
        with open(data, encoding="utf-8") as file:
            earlier = json.load(file)
        self.figures = earlier["figures"]
        self.commits = {name: earlier.get("commits", {}).get(name, earlier["commit"]) for name in self.figures}
        self.machines = earlier.get("machines") or {earlier["commit"]: earlier["machine"]}

    def note(self, name, server_name, figures):
        """Stores the figures of a work."""
        if self.commits.get(name) != self.commit:
            self.figures.pop(name, None)
            self.commits[name] = self.commit
        self.figures.setdefault(name, {})[server_name] = figures
        print(f"  {name}, {server_name}: {json.dumps(figures)}", flush=True)

    def row(self, work, ours, theirs, ratio, aim, reached):
        """Adds a row. `reached` is None if there is no aim.

        Figures are compared with the peer, or with what `work` names at its end: `(compared with: NAME)`.
        """
        work, _, name = work.partition(" (compared with: ")
        if name and theirs:
            theirs = f"{theirs} ({name.removesuffix(')')})"
        self.rows.append((work, ours, theirs, ratio, aim, {None: "", True: "yes", False: "no"}[reached]))

    def table(self):
        """Returns the rows as Markdown."""
        head = ("work", "Doublet", "compared with", "ratio", "aim", "reached")
        lines = [head, ("---",) + ("---:",) * 3 + ("---",) * 2] + self.rows
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)

    def page(self):
        """Returns the text between the marks in docs/performance.md."""
        machines = "; ".join(f"commit {commit}: {_described(facts)}" for commit, facts in self._machines().items())
        return f"Commit {self.commit}{self._earlier()}. Machines: {machines}. Peers: {self.peers}.\n\n{self.table()}"

    def _machines(self):
        """Returns the machines by commit: those of earlier runs, of which figures are left, and that of this one."""
        used = set(self.commits.values())
        first = next(iter(self.machines), None)
        kept = {commit: facts for commit, facts in self.machines.items() if commit in used or commit == first}
        return kept | {self.commit: self.facts}

    def _earlier(self):
        """Returns the works measured at other commits, with these commits."""
        works = {}
        for name, commit in self.commits.items():
            if commit != self.commit:
                works.setdefault(commit, set()).add(re.split(", | to ", name)[0])
        return "".join(f"; {', '.join(sorted(names))}: {commit}" for commit, names in works.items())

    def write(self, page, data):
        """Writes the table into the page, and all data into the JSON file."""
        with open(page, encoding="utf-8") as old:
            text = old.read()
        new = f"{BEGIN}\n\n{self.page()}\n\n{END}"
        text = re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: new, text, flags=re.S)
        with open(page, "w", encoding="utf-8") as out:
            out.write(text)
        with open(data, "w", encoding="utf-8") as out:
            json.dump({"commit": self.commit, "commits": self.commits, "machine": self.facts, "machines": self._machines(), "peers": self.peers, "figures": self.figures}, out, indent=1)
            out.write("\n")


def _described(facts):
    return (f"{facts['cores']} cores ({facts['processor']}), {facts['memory_gib']} GiB, Linux {facts['kernel']}, {facts['file_system']}, "
            f"4 KB durable in {facts['sync_us']} µs, load {facts.get('load', 'unknown')}")
