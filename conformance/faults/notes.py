"""Databases that are changed and read over the native protocol, with a model of each.

A database holds documents with attachments, folders, unread marks, profile documents with lists, and a view whose rows
must equal the documents. Each database has one writer. `bridge` makes the calls, in a Python that has gRPC.
"""

import base64
import hashlib
import json
import os
import subprocess
import threading

import native
from harness.doublet import SERVER_NAME
from workload.messages import DOMAIN, Refused, Wrong
from workload.writer import Writer

HERE = os.path.dirname(os.path.abspath(__file__))
USER = "native1"
VIEW = "Tasks"
NAMES = ("Alpha", "Beta", "Gamma")
FILES = ("one.bin", "two.bin")
LISTS = ("Colors", "Rooms")
FILE_SIZES = (0, 1, 4_000, 4_096, 70_000, 262_144, 300_000)
PIECE = 262_144
PAGE = 1_000
# What a server may answer that is out of space, memory or files.
TEMPORARY = ("UNAVAILABLE", "RESOURCE_EXHAUSTED")
OPERATIONS = ("create", "create", "create", "update", "update", "update", "attach", "delete", "folder", "rename", "move", "move", "mark", "list")


class Bridge:
    """The process that makes the calls. One thread at a time uses it."""

    def __init__(self, folder):
        self.python, self.reason = native.environment()
        self.process, self.lock = None, threading.Lock()
        if self.python is None:
            return
        stubs = native.compile_stubs(self.python, folder)
        self.process = subprocess.Popen([self.python, os.path.join(HERE, "bridge.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=os.environ | {"PYTHONPATH": stubs})

    def connect(self, server, password):
        """Logs in to a server."""
        host, port = server.address("native")
        with open(f"{server.data}/tls/certificate.pem", encoding="ascii") as file:
            certificate = file.read()
        self.exchange({"connect": {"address": f"{host}:{port}", "certificate": certificate, "name": SERVER_NAME,
                                   "login": f"{USER}@{DOMAIN}", "password": password}})

    def call(self, name, *requests):
        """Executes a call and returns its replies."""
        return self.exchange({"call": name, "requests": requests})

    def exchange(self, line):
        """Sends a line. Returns the replies, or raises what the answer means."""
        with self.lock:
            try:
                self.process.stdin.write(json.dumps(line) + "\n")
                self.process.stdin.flush()
                answer = self.process.stdout.readline()
            except BrokenPipeError:
                answer = ""
        if not answer:
            raise Wrong("the program that makes the calls of the native protocol has ended")
        answer = json.loads(answer)
        if "gone" in answer:
            raise ConnectionError(answer["gone"])
        if "refused" in answer:
            temporary = answer["refused"]["code"] in TEMPORARY
            raise (Refused if temporary else Wrong)(f"native: {line.get('call', 'login')}: {answer['refused']['text']}")
        return answer["replies"]

    def close(self):
        """Ends the process."""
        if self.process:
            self.process.kill()
            self.process.communicate()


class Database:
    """The content of a database.

    `documents` is {UNID: document}. A document is a dictionary with the subject, the number, the sequence number, the
    files ({name: (length, hash)}), whether it is unread, and the names of its folders.
    """

    def __init__(self, path):
        self.path = path
        self.documents = {}
        self.folders = frozenset()
        self.lists = {}

    def copy(self):
        """Returns a model that can be changed."""
        other = Database(self.path)
        other.documents = {unid: document | {"files": dict(document["files"])} for unid, document in self.documents.items()}
        other.folders, other.lists = self.folders, dict(self.lists)
        return other


class NotesWriter(Writer):
    """Changes databases over the native protocol. A target is a database."""

    def __init__(self, loop, targets, bridge, seed):
        super().__init__(loop, targets, seed)
        self.bridge = bridge

    def connect(self):
        self.bridge.connect(self.loop.server, self.loop.password)
        return self.bridge

    def step(self, client):
        """Executes one change of a database."""
        target = self.settled()
        operation = self.random.choice(OPERATIONS)
        if operation in ("update", "attach", "delete", "move", "mark") and not target.model.documents:
            operation = "create"
        with self.changing(target, target.model.copy()) as after:
            path = {"database": {"path": after.path}}
            {"create": self.create, "update": self.update, "attach": self.attach, "delete": self.delete, "folder": self.create_folder,
             "rename": self.rename_folder, "move": self.move, "mark": self.mark, "list": self.list}[operation](client, path, after)

    def create(self, client, path, after):
        """Creates a document. The client chooses its UNID."""
        unid = base64.b64encode(self.random.randbytes(16)).decode()
        fields = {"subject": self.text(), "number": self.random.randrange(1_000)}
        after.documents[unid] = fields | {"sequence": 1, "files": {}, "unread": True, "folders": frozenset()}
        client.call("Notes.CreateNote", path | {"unid": unid, "items": items(fields)})

    def update(self, client, path, after):
        """Changes the subject and the number of a document."""
        unid, document = self.document(after)
        expected = document["sequence"]
        fields = {"subject": self.text(), "number": self.random.randrange(1_000)}
        document |= fields | {"sequence": expected + 1}
        reply, = client.call("Notes.UpdateNote", path | {"note": {"unid": unid}, "expected_sequence": expected, "items": items(fields)})
        check_sequence(reply, document)

    def attach(self, client, path, after):
        """Adds a file to a document, or replaces one."""
        unid, document = self.document(after)
        expected, name = document["sequence"], self.random.choice(FILES)
        data = self.random.randbytes(self.random.choice(FILE_SIZES))
        document["files"][name] = (len(data), digest(data))
        document["sequence"] = expected + 1
        head = path | {"note": {"unid": unid}, "expected_sequence": expected, "file_name": name,
                       "media_type": "application/octet-stream", "length_bytes": len(data)}
        pieces = [{"content": base64.b64encode(data[start:start + PIECE]).decode()} for start in range(0, len(data), PIECE)]
        reply, = client.call("Notes.AttachFile", {"header": head}, *pieces)
        check_sequence(reply, document)

    def delete(self, client, path, after):
        """Deletes a document."""
        unid, document = self.document(after)
        del after.documents[unid]
        reply, = client.call("Notes.DeleteNote", path | {"note": {"unid": unid}, "expected_sequence": document["sequence"]})
        if not reply.get("deleted"):
            raise Wrong(f"a document of {after.path} that exists was not deleted")

    def create_folder(self, client, path, after):
        """Creates a folder, or renames one if all exist."""
        missing = sorted(set(NAMES) - after.folders)
        if not missing:
            return self.list(client, path, after)
        name = self.random.choice(missing)
        after.folders |= {name}
        return client.call("Views.CreateFolder", path | {"name": name})

    def rename_folder(self, client, path, after):
        """Renames a folder, which keeps its documents."""
        missing = sorted(set(NAMES) - after.folders)
        if not missing or not after.folders:
            return self.create_folder(client, path, after)
        old, new = self.random.choice(sorted(after.folders)), self.random.choice(missing)
        after.folders = after.folders - {old} | {new}
        for document in after.documents.values():
            if old in document["folders"]:
                document["folders"] = document["folders"] - {old} | {new}
        return client.call("Views.RenameFolder", path | {"folder": {"name": old}, "name": new})

    def move(self, client, path, after):
        """Adds documents to a folder, and removes them from another one."""
        if not after.folders:
            return self.create_folder(client, path, after)
        chosen = self.random.sample(sorted(after.documents), min(3, len(after.documents)))
        into = self.random.choice(sorted(after.folders))
        out_of = self.random.choice(sorted(after.folders))
        request = path | {"notes": [{"unid": unid} for unid in chosen], "into": {"name": into}}
        if out_of != into:
            request["out_of"] = {"name": out_of}
        for unid in chosen:
            document = after.documents[unid]
            document["folders"] = (document["folders"] - {out_of}) | {into}
        return client.call("Views.MoveNotes", request)

    def mark(self, client, path, after):
        """Marks documents as read or unread."""
        chosen = self.random.sample(sorted(after.documents), min(3, len(after.documents)))
        unread = self.random.random() < 0.4
        for unid in chosen:
            after.documents[unid]["unread"] = unread
        client.call("Notes.MarkNotes", path | {"notes": [{"unid": unid} for unid in chosen], "unread": unread})

    def list(self, client, path, after):
        """Changes the list in a profile document."""
        name, values = self.random.choice(LISTS), [self.text() for _ in range(self.random.randrange(1, 5))]
        after.lists[name] = values
        client.call("Notes.UpdateProfile", path | {"profile": name, "items": [{"name": "Values", "value": {"text_list": {"values": values}}}]})

    def document(self, after):
        """Returns a document."""
        unid = self.random.choice(sorted(after.documents))
        return unid, after.documents[unid]

    def text(self):
        """Returns a short text."""
        return f"text {self.random.randrange(1 << 40)}"


def items(fields):
    """Returns the items of a document."""
    values = {"Form": {"text": "Task"}, "Subject": {"text": fields["subject"]}, "Number": {"number": fields["number"]}}
    return [{"name": name, "flags": {"summary": True}, "value": value} for name, value in values.items()]


def digest(data):
    """Returns the hash of the content of an attachment."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def check_sequence(reply, document):
    """Checks the sequence number of a document after it was saved."""
    if reply["sequence"] != document["sequence"]:
        raise Wrong(f"a document has the sequence number {reply['sequence']} instead of {document['sequence']} after it was saved")


def prepare(server, bridge, password, path):
    """Creates a database with a view."""
    server.request({"db": {"create": {"path": path, "title": None}}})
    for request in ({"set": {"who": f"{USER}@{DOMAIN}", "level": "manager", "flags": [], "roles": []}},
                    {"settings": {"max_internet_access": "manager", "add_role": [], "remove_role": []}}):
        server.request({"db": {"acl": {"path": path, "what": request}}})
    if bridge.process:
        bridge.connect(server, password)
        columns = [{"title": "Number", "item": "Number", "sort": "SORT_ORDER_ASCENDING"}, {"title": "Subject", "item": "Subject"}]
        design = {"title": VIEW, "selection": 'SELECT Form = "Task"', "columns": columns}
        bridge.call("Views.CreateView", {"database": {"path": path}, "design": design})


def read_database(bridge, target, whole):
    """Reads a database. Returns it, and the contradictions within it as pairs of a kind and a text.

    The content of attachments that were read before is read again only with `whole`.
    """
    found, findings, unids = Database(target.model.path), [], {}
    path = {"database": {"path": found.path}}
    views, = bridge.call("Views.ListViews", path | {"kind": "KIND_FOLDERS"})
    names = {view["view_id"]: view["name"] for view in views.get("views", ())}
    found.folders = frozenset(names.values())
    for reply in bridge.call("Notes.SearchNotes", path | {"items": {"extent": "EXTENT_ALL"}}):
        for note in reply.get("notes", ()):
            unid = note["header"]["unid"]
            if unid in found.documents:
                findings.append(("doubled", f"a search of {found.path} returns the document {unid} twice"))
            unids[note["header"]["note_id"]] = unid
            known = {} if whole else target.model.documents.get(unid, {}).get("files", {})
            found.documents[unid] = read_document(note, names) | {"files": read_files(bridge, path, note, known)}
    for name in LISTS:
        values = read_list(bridge, path, name)
        if values is not None:
            found.lists[name] = values
    findings += check_rows(bridge, found, VIEW, found.documents)
    for name in found.folders:
        findings += check_rows(bridge, found, name, {unid for unid, document in found.documents.items() if name in document["folders"]})
    return found, findings + check_unread(bridge, found, unids)


def read_document(note, names):
    """Returns a document without its files. `names` are those of the folders by note id."""
    header, values = note["header"], {item["name"]: item["value"] for item in note["items"]}
    return {"subject": values["Subject"]["text"], "number": int(values["Number"]["number"]), "sequence": header["sequence"],
            "unread": header.get("unread", False),
            "folders": frozenset(names.get(number, f"folder {number}") for number in header.get("folder_ids", ()))}


def read_files(bridge, path, note, known):
    """Returns the length and the hash of each file of a document. Files that are known are not read again."""
    files = {}
    for item in note["items"]:
        attachment = item["value"].get("attachment")
        if attachment is None:
            continue
        name, length = attachment["file_name"], int(attachment.get("length_bytes", 0))
        if known.get(name, (None,))[0] == length:
            files[name] = known[name]
        else:
            chunks = bridge.call("Notes.ReadAttachment", path | {"note": {"unid": note["header"]["unid"]}, "file_name": name})
            data = b"".join(base64.b64decode(chunk.get("content", "")) for chunk in chunks)
            files[name] = (length, digest(data))
    return files


def read_list(bridge, path, name):
    """Returns the list in a profile document, or None if the profile does not exist."""
    try:
        profile, = bridge.call("Notes.OpenProfile", path | {"profile": name, "items": {"extent": "EXTENT_ALL"}})
    except Wrong as error:
        if "NOT_FOUND" not in str(error):
            raise
        return None
    return next(item["value"]["text_list"]["values"] for item in profile["items"] if item["name"] == "Values")


def check_rows(bridge, found, view, unids):
    """Compares the rows of a view or folder with the documents that it must show."""
    request, rows = {"database": {"path": found.path}, "view": {"name": view}}, []
    if view == VIEW:
        while bridge.call("Views.UpdateCollection", request)[0].get("incomplete"):
            pass
    page, position = {"more": True}, {"skip_navigator": "NAVIGATOR_NEXT", "skip_count": 1}
    while page.get("more"):
        mask = {"unid": True, "values": view == VIEW}
        page, = bridge.call("Views.ReadEntries", request | position | {"count": PAGE, "navigator": "NAVIGATOR_NEXT", "mask": mask})
        rows += page.get("entries", ())
        position = {"start_key": page.get("next", "")}
    shown = {row["unid"]: row for row in rows}
    findings = [("doubled", f"{view} of {found.path} has {len(rows)} rows for {len(shown)} documents")] if len(rows) != len(shown) else []
    findings += [("wrong", f"{view} of {found.path} does not show the document {unid}") for unid in sorted(set(unids) - set(shown))]
    findings += [("wrong", f"{view} of {found.path} shows the document {unid}") for unid in sorted(set(shown) - set(unids))]
    for unid in sorted(set(shown) & set(unids)) if view == VIEW else ():
        number, subject = shown[unid]["values"]
        document = found.documents[unid]
        if (number.get("number"), subject.get("text")) != (document["number"], document["subject"]):
            findings.append(("wrong", f"{view} of {found.path} shows {shown[unid]['values']} for the document {unid}, which is {document}"))
    return findings


def check_unread(bridge, found, unids):
    """Compares the list of unread documents with the documents. `unids` are the UNIDs by note id."""
    listed, after = set(), 0
    while after is not None:
        page, = bridge.call("Notes.ListUnread", {"database": {"path": found.path}, "after": after})
        listed |= {unids.get(number, f"note {number}") for number in page.get("note_ids", ())}
        after = page.get("next") or None
    unread = {unid for unid, document in found.documents.items() if document["unread"]}
    return [("wrong", f"the unread documents of {found.path} are {sorted(unread)} and are listed as {sorted(listed)}")] if unread != listed else []


def differences(found, model):
    """Returns the differences between a database and its model as pairs of a kind (`lost`, `wrong`) and a text."""
    findings = [("lost", f"the document {unid} is missing") for unid in sorted(model.documents.keys() - found.documents.keys())]
    findings += [("wrong", f"the document {unid} exists") for unid in sorted(found.documents.keys() - model.documents.keys())]
    for unid in sorted(found.documents.keys() & model.documents.keys()):
        ours, theirs = model.documents[unid], found.documents[unid]
        # A smaller sequence number means that an acknowledged save is missing.
        kind = "lost" if theirs["sequence"] < ours["sequence"] else "wrong"
        findings += [(kind, f"{field} of the document {unid} is {theirs[field]} instead of {ours[field]}")
                 for field in sorted(ours) if ours[field] != theirs[field]]
    findings += [("lost", f"the folder {name} is missing") for name in sorted(model.folders - found.folders)]
    findings += [("wrong", f"the folder {name} exists") for name in sorted(found.folders - model.folders)]
    findings += [("lost", f"the list {name} is {found.lists.get(name)} instead of {model.lists.get(name)}")
             for name in LISTS if found.lists.get(name) != model.lists.get(name)]
    return findings
