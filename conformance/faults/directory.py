"""Administration while the server runs: people, groups and databases, through the control socket."""

from workload.messages import DOMAIN, Refused, Wrong
from workload.writer import Writer

NAMES = tuple(f"name{number}" for number in range(6))
FOLDER = "managed/"
# What a server may answer that is out of space, memory or files.
TEMPORARY = ("no space left", "sync failed", "storage failure", "shutting down", "free some space")


class Administrator(Writer):
    """Adds, changes and removes people, groups and databases. The targets are named after the three."""

    def __init__(self, loop, targets, seed, password):
        super().__init__(loop, targets, seed)
        self.password = password

    def connect(self):
        return self.loop.server

    def step(self, client):
        """Executes one change."""
        target = self.settled()
        {"people": self.change_people, "groups": self.change_groups, "databases": self.change_databases}[target.name](client, target)

    def change_people(self, server, target):
        """Adds or removes a person with a mailbox. The model is the set of names."""
        name = self.random.choice(NAMES)
        address = f"{name}@{DOMAIN}"
        if name in target.model:
            request = {"remove": {"who": address, "delete_mail": True}}
        else:
            request = {"add": {"address": address, "name": None, "aliases": [], "quota": None, "password": self.password}}
        with self.changing(target, target.model ^ {name}):
            send(server, {"user": request})

    def change_groups(self, server, target):
        """Adds, changes or removes a group. The model is {name: members}."""
        name, member = self.random.choice(NAMES), f"{self.random.choice(NAMES)}@elsewhere.test"
        group, members = f"group-{name}@{DOMAIN}", target.model.get(name)
        after = dict(target.model)
        if members is None:
            after[name] = frozenset({member})
            request = {"add": {"address": group, "members": [member]}}
        elif self.random.random() < 0.3:
            del after[name]
            request = {"remove": {"group": group}}
        elif member in members:
            after[name] = members - {member}
            request = {"set": {"group": group, "add_members": [], "remove_members": [member]}}
        else:
            after[name] = members | {member}
            request = {"set": {"group": group, "add_members": [member], "remove_members": []}}
        with self.changing(target, after):
            send(server, {"group": request})

    def change_databases(self, server, target):
        """Creates, renames or deletes a database, or changes its title. The model is {name: title}."""
        name, other, title = self.random.choice(NAMES), self.random.choice(NAMES), f"title {self.random.randrange(1 << 30)}"
        after, path = dict(target.model), f"{FOLDER}{name}.nsf"
        if name not in after:
            after[name] = title
            request = {"create": {"path": path, "title": title}}
        elif other not in after:
            after[other] = after.pop(name)
            request = {"rename": {"path": path, "to": f"{FOLDER}{other}.nsf"}}
        elif self.random.random() < 0.5:
            after[name] = title
            request = {"set": {"path": path, "title": title}}
        else:
            del after[name]
            request = {"delete": {"path": path}}
        with self.changing(target, after):
            send(server, {"db": request})


def send(server, request):
    """Sends a request to the control socket."""
    try:
        return server.request(request)
    except RuntimeError as error:
        if "gave no result" in str(error):
            raise ConnectionError(str(error)) from error
        temporary = any(words in str(error) for words in TEMPORARY)
        raise (Refused if temporary else Wrong)(f"{request}: {error}") from error


def models():
    """Returns the models of the targets: nothing has been added."""
    return {"people": frozenset(), "groups": {}, "databases": {}}


def read(server):
    """Returns what exists, in the form of the models."""
    at = f"@{DOMAIN}"
    people = {one["address"].removesuffix(at) for one in send(server, {"user": {"list": {"domain": None}}})["data"]}
    groups = {}
    for group in send(server, {"group": "list"})["data"]:
        name = group["address"].removesuffix(at)
        if name.startswith("group-"):
            groups[name.removeprefix("group-")] = frozenset(send(server, {"group": {"show": {"group": group["address"]}}})["data"]["members"])
    databases = {one["path"].removeprefix(FOLDER).removesuffix(".nsf"): one["title"]
                 for one in send(server, {"db": "list"})["data"] if one["path"].startswith(FOLDER)}
    return {"people": frozenset(people & set(NAMES)), "groups": groups, "databases": databases}


def differences(found, model):
    """Returns the differences between what exists and a model as pairs of a kind (`lost`, `wrong`) and a text."""
    result = [("lost", f"{name} is missing") for name in sorted(set(model) - set(found))]
    result += [("wrong", f"{name} exists") for name in sorted(set(found) - set(model))]
    if isinstance(model, dict):
        result += [("lost", f"{name} is {found[name]} instead of {model[name]}")
                 for name in sorted(set(found) & set(model)) if found[name] != model[name]]
    return result
