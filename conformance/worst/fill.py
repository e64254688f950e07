"""The data of one account: much of everything that the account may have, and of a kind that makes requests expensive.

The server has two workers. The account has a mailbox of many small messages that belong to few threads and have many
keywords, a mailbox of large messages, and one of odd messages, all generated as those of requests; many mailboxes with
similar names; documents with long texts and lists; personal views with expensive formulas; and it is a member of nested
groups. A second account has the same messages for POP3.
"""

import dataclasses
import json
import random
import re

from . import contents, imap
from .choices import Choices
from .native import DOCUMENTS, LISTED
from .wire import Session

DOMAIN = "worst.test"
SETTINGS = {
    "server.pool_tasks": "2",
    "router.outbound": "false",
    "log.format": "json",
    "directory.login_failures": "1000000",
    "directory.login_failures_per_address": "1000000",
    # Nothing leaves the machine: names are not resolved.
    "server.name_servers": "127.0.0.1:1",
    "native.database_creators": f"worst@{DOMAIN}",
    "blobs.grace": "0s",
    "tasks.blob_collection": "1min",
    "smtp.messages_per_connection": "1000000",
    "smtp.errors": "1000",
}
GROUPS = 40
MEMBERS = 2_000
LARGE, ODD = 40, 200
# The calls after which the index of a view stays incomplete. Each takes up to two seconds.
OPENED_MAX = 5
FORMULAS = (
    '@ProperCase(@ReplaceSubstring(Body; "x"; "long "))',
    '@Sort(@Unique(@Explode(Body; " ")))',
    '@Implode(@Sort(Many); "-")',
    "@Text(Numbers *+ Numbers)",
    "@Keywords(Body; Many)",
)


@dataclasses.dataclass
class Account:
    """The account, and what it has."""

    login: str
    password: str
    maildrop: str
    message_bytes: int
    name: str = ""
    counts: dict = dataclasses.field(default_factory=dict)
    validity: dict = dataclasses.field(default_factory=dict)
    notes: dict = dataclasses.field(default_factory=dict)
    views: dict = dataclasses.field(default_factory=dict)
    folders: dict = dataclasses.field(default_factory=dict)

    def refill(self, session, count):
        """Replaces messages that are to be removed from the maildrop."""
        owner = dataclasses.replace(self, login=self.maildrop)
        with imap.Client(dataclasses.replace(session, account=owner, sent=[])) as client:
            client.must(b"SELECT Refill")
            client.must(b"COPY 1:%d INBOX" % count)


class Fill:
    """The filling of a server."""

    def __init__(self, server, password, messages, seed):
        self.server = server
        # The other data grow with the number of messages.
        self.part = min(1.0, messages / 20_000)
        self.messages = messages
        self.dice = random.Random(f"{seed}/fill")
        self.account = Account(f"worst@{DOMAIN}", password, f"maildrop@{DOMAIN}", int(contents.MIB * max(4, 64 * self.part)))

    def some(self, count):
        """Returns the share of a number that this run uses."""
        return max(5, int(count * self.part))

    def operator(self):
        """Does what the operator does: accounts, groups, mail, databases."""
        server, account = self.server, self.account
        server.add_domain(DOMAIN)
        server.add_users([account.login, account.maildrop], account.password)
        server.command("user", "set", account.login, "--quota", "1TiB")
        self.groups()
        small, large, odd = (
            self.mbox("small", self.small, self.messages),
            self.mbox("large", self.large, LARGE),
            self.mbox("odd", self.odd, self.some(ODD)),
        )
        for user, folder, file in (
            (account.login, "Many", small),
            (account.login, "Large", large),
            (account.login, "Odd", odd),
            (account.login, "INBOX", odd),
            (account.maildrop, "INBOX", large),
            (account.maildrop, "INBOX", small),
            (account.maildrop, "Refill", small),
        ):
            server.command("import", "mbox", file, "--user", user, "--folder", folder, "--restart")
        table = f"{server.folder}/documents.jsonl"
        with open(table, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(self.document(number)) + "\n" for number in range(self.some(1_900)))
        for path in (DOCUMENTS, LISTED):
            server.command("db", "create", path, "--template", "discussion")
            server.command("db", "acl", path, "set", account.login, "--level", "manager", "--flag", "create-personal-folders")
            server.command("db", "acl", path, "settings", "--max-internet-access", "manager")
        server.command("db", "import", DOCUMENTS, table, "--map", "Who=Who:readers")
        server.command("db", "set", DOCUMENTS, "--keep-deleted", "48h")
        server.command("db", "index", DOCUMENTS, "--full-text", "immediate")

    def groups(self):
        """Creates groups: the last of each chain has many members, and all others have the one after them."""
        for number in reversed(range(GROUPS)):
            members = (
                [f"group{number + 1}@{DOMAIN}"] if (number + 1) % 20 else [f"m{index}@far.test" for index in range(self.some(MEMBERS))]
            )
            words = [word for member in (*members, self.account.login) for word in ("--member", member)]
            self.server.command("group", "add", f"group{number}@{DOMAIN}", *words)

    def mbox(self, name, make, count):
        """Writes messages to an mbox file and returns its path."""
        path = f"{self.server.folder}/{name}.mbox"
        with open(path, "wb") as out:
            for number in range(count):
                out.write(
                    b"From x@y Thu Jan  1 00:00:%02d 2026\n" % (number % 60)
                    + re.sub(rb"^(>*From )", rb">\1", make(number), flags=re.MULTILINE).replace(b"\r\n", b"\n")
                    + b"\n\n"
                )
        return path

    def small(self, number):
        """Returns a small message. Some of them have many references, many keywords, or a long subject."""
        dice = self.dice
        references = " ".join(f"<{dice.randrange(number + 1)}@{DOMAIN}>" for _ in range(min(900, int(dice.paretovariate(0.8)))))
        keywords = " ".join(f"k{dice.randrange(imap.KEYWORDS)}" for _ in range(min(100, int(dice.paretovariate(0.7)))))
        subject = "Re: " * min(200, int(dice.paretovariate(0.9))) + dice.choice(contents.WORDS)
        lines = (
            f'From: "Sender {dice.randrange(50)}" <s{dice.randrange(50)}@far.test>',
            f"To: {self.account.login}",
            f"Subject: {subject}",
            f"Date: Thu, 1 Jan 2026 00:{number // 60 % 60:02}:{number % 60:02} +0000",
            f"Message-ID: <{number}@{DOMAIN}>",
            f"References: {references}",
            f"X-Keywords: {keywords}",
            "",
            " ".join(dice.choices(contents.WORDS, k=20)),
        )
        return "".join(f"{line}\r\n" for line in lines).encode()

    def large(self, number):
        """Returns a large message."""
        return contents.message(Choices(f"large {number} {self.dice.random()}"), max(1 << 20, self.account.message_bytes // 8))

    def odd(self, number):
        """Returns a message with anything in its header or its parts."""
        return contents.message(Choices(f"odd {number} {self.dice.random()}"), 200 * contents.KIB)

    def document(self, number):
        """Returns the items of a document. Few are large."""
        dice = self.dice
        large = number % 40 == 0
        words = dice.choices(contents.WORDS, k=int(dice.paretovariate(0.5)) % 20_000 + 20)
        result = {
            "Form": "Topic",
            "Subject": " ".join(words[:8]) + f" {number}",
            "Categories": [f"{dice.choice(contents.WORDS)}\\{dice.randrange(100)}" for _ in range(dice.choice((1, 2, 50)))],
            "Body": " x ".join(words) * (10 if large else 1),
            "Many": [f"{dice.choice(contents.WORDS)} {index}" for index in range(1_024 if large else 5)],
            "Numbers": [dice.randrange(1_000) for _ in range(500 if large else 3)],
        }
        if number % 20 == 1:
            result["Who"] = [f"group{dice.randrange(GROUPS)}", "*/Elsewhere"]
        return result

    def user(self, meter, protocol):
        """Does what the account does: mailboxes, subscriptions, personal views. Reads what requests refer to."""
        session = Session(self.server, None, meter, self.account, 120)
        with imap.Client(session) as client:
            names = [f"{imap.FOLDER}{number}" for number in range(self.some(2_000))]
            names += ["Tree" + f"/{number % 10}/{number % 7}/{number}" + "/a" * (number % 25) for number in range(self.some(300))]
            self.send_all(client, [b"CREATE " + imap.string(name) for name in names])
            self.send_all(
                client, [b"SUBSCRIBE " + imap.string(name) for name in [f"s{number}" for number in range(500)] + names[: self.some(400)]]
            )
            for name in ("Many", "Large", "Odd", "INBOX"):
                client.write(b"t SELECT " + name.encode() + b"\r\n")
                while not (line := client.line()).startswith(b"t "):
                    if line.endswith(b"EXISTS"):
                        self.account.counts[name] = int(line.split()[1])
                    if b"UIDVALIDITY" in line:
                        self.account.validity[name] = int(re.search(rb"UIDVALIDITY (\d+)", line).group(1))
        if protocol:
            self.documents(protocol)

    @staticmethod
    def send_all(client, commands):
        """Sends commands without waiting for each answer."""
        for start in range(0, len(commands), 100):
            part = commands[start : start + 100]
            client.write(b"".join(b"t " + command + b"\r\n" for command in part))
            for _ in part:
                client.status()

    def documents(self, native):
        """Creates documents and views, and reads the numbers of documents."""
        mail = f"mail/{self.account.login.partition('@')[0]}.nsf"
        self.account.name = native.call("Sessions/GetSession", native.message("GetSessionRequest")).name
        for path in (DOCUMENTS, mail):
            database = native.message("DatabaseKey", path=path)
            for number, formula in enumerate(FORMULAS):
                column = native.message("ColumnDesign", title="Column", item="Column", formula=formula, sort=1)
                design = native.message("ViewDesign", title=f"Personal {number}", selection="SELECT @All", personal=True, columns=[column])
                native.call("Views/CreateView", native.message("CreateViewRequest", database=database, design=design))
                opened = native.message("UpdateCollectionRequest", database=database, view=native.message("ViewKey", name=design.title))
                for _ in range(OPENED_MAX):
                    if not native.call("Views/UpdateCollection", opened).incomplete:
                        break
            for number in range(10):
                items = [
                    native.message("Item", name=name, value=native.message("Value", text="x" * 10 ** (number % 6)))
                    for name in ("Body", "Subject")
                ]
                native.call(
                    "Notes/UpdateProfile", native.message("UpdateProfileRequest", database=database, profile=f"p{number}", items=items)
                )
            unread = native.call("Notes/ListUnread", native.message("ListUnreadRequest", database=database))
            self.account.notes[path] = list(unread.note_ids)[:1_000] or [1]
            folders = native.call("Views/ListViews", native.message("ListViewsRequest", database=database, kind=2)).views
            self.account.folders[path] = [folder.view_id for folder in folders] or [1]
        entries = [
            native.message("AclEntry", name=f"CN=Person {number}/O=Worst", roles=[f"[Role{number % 9}{role}]" for role in range(40)])
            for number in range(self.some(9_000))
        ]
        entries.append(native.message("AclEntry", name=self.account.name, level=6))
        acl = native.message("Acl", entries=entries, roles=sorted({role for entry in entries for role in entry.roles}), internet_max=6)
        native.call("Databases/SetAcl", native.message("SetAclRequest", database=native.message("DatabaseKey", path=LISTED), acl=acl))
        views = [f"Personal {number}" for number in range(len(FORMULAS))]
        self.account.views[DOCUMENTS] = [*views, "By Category", "All Documents", "absent"]
        self.account.views[mail] = [*views, "Many", "Many", "Large", "INBOX", f"{imap.FOLDER}1"]
