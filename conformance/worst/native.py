"""Requests of the native protocol, made from the descriptions of its messages.

Every field of a request is filled: with an object that exists, if its type or name says which, and otherwise with values
whose sizes go up to the limits of `docs/native-protocol.md`. So a new call, and a new field, is covered as soon as
`proto/` has it. Calls that need something before (a note to delete, a view to change) create it first.
"""

import importlib
import os
import subprocess
import sys
import sysconfig

import native as example  # conformance/native.py, which installs gRPC

from harness.doublet import SERVER_NAME

from . import contents, formulas
from .wire import Refused, TooSlow

NAME = "native"
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir)
MODULES = ("types", "session", "database", "note", "view", "search", "change", "directory", "mail")
MESSAGE_BYTES = 8 << 20
PIECE_BYTES = 256 << 10
STREAM_REPLIES_MAX = 2_000
# The columns that a click sorts, in both directions, make all of the 16 orders of a shared view, or 3 of the 4 orders of a
# personal one.
CLICKS_MAX, PERSONAL_CLICKS_MAX = 7, 1
# The databases that are filled with documents, and one whose access control list is changed.
DOCUMENTS, LISTED = "docs.nsf", "listed.nsf"
# The largest number of elements of a repeated field. 1,000 for all others.
COUNTS = {
    "Acl.entries": 10_000,
    "CreateNoteRequest.items": 10_000,
    "UpdateNoteRequest.items": 10_000,
    "UpdateProfileRequest.items": 10_000,
    "LookupNamesRequest.names": 500,
    "Expansion.exceptions": 10_000,
    "Tumbler.levels": 63,
    "FindByKeyRequest.keys": 8,
    "FindByKeyRequest.to_keys": 8,
    "ReadEntriesRequest.items": 100,
    "SearchFullTextRequest.items": 100,
    "ViewDesign.columns": 256,
    "ViewDesign.aliases": 16,
    "TextList.values": 300_000,
    "NumberList.values": 900_000,
    "TimeList.values_us": 900_000,
    "UnidList.values": 300_000,
    "Envelope.recipients": 1_000,
    "CreateNoteRequest.folder_ids": 64,
    "SearchNotesRequest.note_classes": 20,
    "AclEntry.roles": 100,
}
TEXTS = {
    "Item.name": 250,
    "ColumnDesign.title": 1_000,
    "ColumnDesign.item": 250,
    "CreateFolderRequest.name": 900,
    "RenameFolderRequest.name": 900,
    "LoginRequest.login": 1_000,
    "LoginRequest.password": 4_000,
    "AuthenticateRequest.mechanism": 20,
    "Value.text": 7_000_000,
    "Value.rich_text": 7_000_000,
    "Attachment.file_name": 1_000,
}


def available():
    """Makes gRPC importable. Returns None, or the reason why it is not."""
    python, why = example.environment()
    if python is None:
        return why
    folder = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if os.path.basename(os.path.dirname(folder)) != os.path.basename(os.path.dirname(sysconfig.get_path("purelib"))):
        return f"gRPC is installed for another version of Python, in {folder}"
    sys.path.append(folder)
    return None


class Native:
    """The generators of all calls, and a channel with a session."""

    def __init__(self, server, account):
        self.account = account
        self.server = server
        import grpc  # pylint: disable=import-outside-toplevel

        python, _ = example.environment()
        sys.path.append(example.compile_stubs(python, server.folder))
        self.grpc = grpc
        self.messages, self.calls = {}, {}
        for name in MODULES:
            module = importlib.import_module(f"doublet.v1.{name}_pb2")
            for message in module.DESCRIPTOR.message_types_by_name:
                self.messages[message] = getattr(module, message)
            for service in module.DESCRIPTOR.services_by_name.values():
                for method in service.methods:
                    self.calls[f"{service.name}/{method.name}"] = method
        self.channel = self.token = None

    def connect(self):
        """Opens a channel and logs in. The server was started."""
        with open(f"{self.server.data}/tls/certificate.pem", "rb") as file:
            credentials = self.grpc.ssl_channel_credentials(file.read())
        options = [
            ("grpc.ssl_target_name_override", SERVER_NAME),
            ("grpc.enable_http_proxy", 0),
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
        ]
        if self.channel:
            self.channel.close()
        self.channel = self.grpc.secure_channel("{}:{}".format(*self.server.address("native")), credentials, options)
        self.token = self.log_in()

    def log_in(self):
        """Returns the token of a new session."""
        return self.call(
            "Sessions/Login", self.message("LoginRequest", login=self.account.login, password=self.account.password), patience_s=60
        ).token

    def message(self, name, /, **fields):
        """Creates a message."""
        return self.messages[name](**fields)

    def call(self, name, request, token=None, patience_s=60):
        """Calls a method and returns its reply, or the list of the replies of a stream. Raises `grpc.RpcError`."""
        return [reply for _, reply in self._replies(name, request, token, patience_s, self.reply_type(name).FromString)][-1]

    def reply_type(self, name):
        """Returns the class of the replies of a call."""
        return self.messages[self.calls[name].output_type.name]

    def _replies(self, name, request, token, patience_s, decode):
        method = self.calls[name]
        kind = ("stream" if method.client_streaming else "unary") + "_" + ("stream" if method.server_streaming else "unary")
        stub = getattr(self.channel, kind)(
            f"/doublet.v1.{name}", request_serializer=lambda message: message.SerializeToString(), response_deserializer=decode
        )
        metadata = (("authorization", f"Bearer {token or self.token}"),) if token or self.token else ()
        answer = stub(iter(request) if method.client_streaming else request, metadata=metadata, timeout=patience_s)
        if not method.server_streaming:
            yield 0, answer
            return
        for number, reply in enumerate(answer):
            yield number, reply
            if number > STREAM_REPLIES_MAX:
                answer.cancel()
                return

    def generators(self):
        """Returns the generators of all calls."""
        return {name: self.generator(name) for name in self.calls}

    def generator(self, name):
        """Returns the generator of one call."""
        prepare = PREPARATIONS.get(name)

        def generate(session):
            request, token = None, None
            if not self.calls[name].client_streaming:
                request = Maker(self, session).request(self.calls[name].input_type)
            if prepare:
                request, token = prepare(Maker(self, session), request)
            self.ask(session, name, request, token)
            for verb, undo in session.undone:
                self.quietly(verb, undo)

        return generate

    def quietly(self, name, request):
        """Calls a method, whatever the outcome."""
        try:
            self.call(name, request)
        except self.grpc.RpcError:
            pass

    def ask(self, session, name, request, token):
        """Sends the request itself and measures it."""

        def send():
            size = count = 0
            try:
                for number, reply in self._replies(name, request, token, session.patience_s, lambda data: data):
                    size, count = size + len(reply), number + 1
            except self.grpc.RpcError as error:
                if error.code() in (self.grpc.StatusCode.DEADLINE_EXCEEDED, self.grpc.StatusCode.CANCELLED):
                    raise TooSlow from error
                return f"{error.code().name} {error.details()}"
            return f"OK, {count} messages with {size} bytes"

        session.measure(lambda: f"{name} {shown(request)}", send, lambda answer: answer.startswith("OK"))


def shown(request):
    """Returns a request as text."""
    return str(request) if not isinstance(request, list) else "\n".join(str(part)[:4_000] for part in request)


class Maker:
    """Makes the messages of one request."""

    def __init__(self, native, session):
        self.native = native
        self.session = session
        self.choices = session.choices
        self.left = MESSAGE_BYTES - (1 << 16)

    def request(self, descriptor):
        """Returns the request of a call."""
        return self.fill(self.native.messages[descriptor.name]())

    def fill(self, message):
        """Fills the fields of a message."""
        descriptor = message.DESCRIPTOR
        if descriptor.name in MESSAGES:
            message.CopyFrom(MESSAGES[descriptor.name](self))
            return message
        for union in descriptor.oneofs:
            if len(union.fields) > 1:
                self.field(message, self.choices.one(f"{descriptor.name} {union.name}", list(union.fields)))
        for field in descriptor.fields:
            if field.containing_oneof is None or len(field.containing_oneof.fields) == 1:
                is_expected = field.is_repeated or field.message_type and field.message_type.name in MESSAGES
                if is_expected or self.choices.chance(f"{descriptor.name} {field.name} set", 75):
                    self.field(message, field)
        return message

    def field(self, message, field):
        """Fills a field: a single value, or many of a few kinds."""
        name = f"{message.DESCRIPTOR.name}.{field.name}"
        if not field.is_repeated:
            if field.message_type:
                self.part(name, getattr(message, field.name)).SetInParent()
            else:
                setattr(message, field.name, self.scalar(name, field))
            return
        target, count = getattr(message, field.name), self.choices.size(name, COUNTS.get(name, 1_000), 0)
        kinds = []
        for _ in range(min(count, self.choices.integer(f"{name} kinds", 1, 3))):
            kinds.append(self.part(name, target.add().__class__()) if field.message_type else self.scalar(name, field))
        del target[:]
        if not kinds:
            return
        size = max(
            4,
            sum(kind.ByteSize() if field.message_type else len(kind) if isinstance(kind, (str, bytes)) else 8 for kind in kinds)
            // len(kinds)
            + 4,
        )
        count = max(1, min(count, self.left // size))
        self.left -= count * size
        target.extend(kinds[number % len(kinds)] for number in range(count))
        distinguish(name, target)

    def part(self, name, message):
        """Fills a message within a message."""
        if name not in PARTS:
            return self.fill(message)
        message.CopyFrom(PARTS[name](self))
        return message

    def scalar(self, name, field):
        """Returns the value of a field that is not a message."""
        if field.type == field.TYPE_BOOL:
            return self.choices.chance(name, 50)
        make = SCALARS.get(name) or SCALARS.get(field.name)
        if make:
            return make(self)
        if field.enum_type:
            return self.choices.one(name, [value.number for value in field.enum_type.values])
        if field.type in (field.TYPE_STRING, field.TYPE_BYTES):
            most = min(TEXTS.get(name, 2_000), max(1, self.left // 4))
            text = contents.text(self.choices, name, most)
            self.left -= len(text.encode())
            return text if field.type == field.TYPE_STRING else text.encode()
        if field.type == field.TYPE_DOUBLE:
            return float(self.choices.one(name, (0, 1, -1, 1e300, 0.1)))
        return self.choices.size(name, (1 << 31) - 1, 0)

    def note_id(self):
        """Returns the number of a document of the current database."""
        return self.choices.one("note", self.session.account.notes[self.database_path()])

    def database_path(self):
        """Returns the path of the database of the request, which is the same in all of its fields."""
        if not self.session.path:
            self.session.path = self.choices.one("database", tuple(self.session.account.notes))
        return self.session.path

    def make(self, kind, /, **fields):
        """Creates a message."""
        return self.native.message(kind, **fields)

    def must(self, name, request):
        """Calls a method that prepares the request."""
        self.session.note("prepared by", lambda: f"{name} {shown(request)}")
        try:
            return self.native.call(name, request)
        except self.native.grpc.RpcError as error:
            raise Refused(f"{name}: {error.code().name} {error.details()}") from error

    def database(self):
        """Returns the key of the database of the request."""
        return self.make("DatabaseKey", path=self.database_path())

    def undo(self, name, request):
        """Notes a call to make after the request."""
        self.session.undone.append((name, request))

    def design(self):
        """Returns the design of a view."""
        design = self.make("ViewDesign")
        for field in design.DESCRIPTOR.fields:
            if field.name not in (
                "title",
                "selection",
                "columns",
                "readers",
                "personal",
                "folder",
                "calendar",
                "calendar_columns",
                "locale",
            ) and self.choices.chance(f"view {field.name}", 30):
                self.field(design, field)
        design.title, design.personal = f"New{self.session.serial}", self.choices.chance("personal view", 60)
        design.selection = formulas.selection(self.choices, lookups=False)
        design.locale = self.choices.one("locale", ("", "", "sv", "de-u-co-phonebk", "zh"))
        for number, alias in enumerate(design.aliases):
            design.aliases[number] = f"{alias[:100]}{self.session.serial}-{number}"
        kinds = [self.column() for _ in range(self.choices.integer("column kinds", 1, 3))]
        count = min(self.choices.size("columns", 256), max(1, (MESSAGE_BYTES - (1 << 18)) // max(kind.ByteSize() for kind in kinds)))
        for number in range(count):
            column = design.columns.add()
            column.CopyFrom(kinds[number % len(kinds)])
            column.title = column.item = f"Column {number}"
            if number >= (PERSONAL_CLICKS_MAX if design.personal else CLICKS_MAX):
                column.click_ascending = column.click_descending = False
        design.columns.sort(key=lambda column: not column.category)
        return design

    def column(self):
        """Returns a column."""
        choices = self.choices
        column = self.make("ColumnDesign", sort=choices.integer("sort", 0, 2), hidden=choices.chance("hidden", 20))
        if choices.chance("formula", 80):
            column.formula = formulas.formula(choices, 20_000, lookups=False)
        column.category = bool(column.sort) and choices.chance("category", 30)
        column.separate = bool(column.sort) and choices.chance("separate", 50)
        column.click_ascending, column.click_descending = choices.chance("click", 30), choices.chance("click down", 20)
        column.case, column.accents = choices.chance("case", 30), choices.chance("accents", 30)
        column.total = 0 if column.category else choices.integer("total", 0, 5)
        return column

    def items(self):
        """Returns the items of a document."""
        note = self.make("CreateNoteRequest")
        self.field(note, note.DESCRIPTOR.fields_by_name["items"])
        return readable(note.items)

    def created(self):
        """Creates a document and returns its saved state."""
        return self.must("Notes/CreateNote", self.make("CreateNoteRequest", database=self.database(), items=self.items()))


def readable(items):
    """Returns items without lists of readers, which would hide the document from its author."""
    for item in items:
        item.flags.readers = False
    return items


def distinguish(name, values):
    """Gives names to what must have different ones."""
    if name.endswith(".items") and hasattr(values[0], "name"):
        for number, item in enumerate(values):
            item.name = f"{item.name[:200]}{number}" if number else item.name or "x"
    if name == "Acl.roles":
        values[:] = [f"[Role{number}]" for number in range(len(values))]
    if name == "Envelope.recipients":
        values[:] = [value.replace("{}", str(number)) for number, value in enumerate(values)]
    if name.endswith("folder_ids"):
        values[:] = sorted(set(values))
    if name == "Acl.entries":
        for number, entry in enumerate(values):
            entry.name = f"CN={entry.name[:100]}-{number}/O=Worst"


def _note_key(maker):
    if maker.choices.chance("missing note", 5):
        return maker.make("NoteKey", note_id=maker.choices.size("missing", 1 << 31))
    return maker.make("NoteKey", note_id=maker.note_id())


def _value(maker):
    value = maker.make("Value")
    fields = [field for field in value.DESCRIPTOR.fields if field.name not in ("attachment", "mime_part")]
    maker.field(value, maker.choices.one("value", fields))
    return value


def _key(maker):
    value = maker.make("Value")
    fields = [field for field in value.DESCRIPTOR.fields if field.name in ("text", "number", "time_us")]
    maker.field(value, maker.choices.one("key", fields))
    return value


# Messages that are made as a whole.
MESSAGES = {
    "DatabaseKey": lambda maker: maker.database(),
    "NoteKey": _note_key,
    "ViewKey": lambda maker: maker.make("ViewKey", name=maker.choices.one("view", maker.session.account.views[maker.database_path()])),
    "ViewDesign": lambda maker: maker.design(),
    "Value": _value,
}
# Messages within others that are made in another way.
PARTS = {"FindByKeyRequest.keys": _key, "FindByKeyRequest.to_keys": _key}
# Fields with a certain name, in whatever message.
SCALARS = {
    "ReadItemRequest.name": lambda maker: maker.choices.one("item read", formulas.ITEMS),
    "formula": lambda maker: formulas.selection(maker.choices),
    "query": lambda maker: formulas.query(maker.choices),
    "path": lambda maker: maker.database_path(),
    "unid": lambda maker: b"",
    "parent_unid": lambda maker: maker.choices.one("parent", (b"", bytes(16), b"\1" * 16)),
    "UnidList.values": lambda maker: maker.choices.one("referred", (bytes(16), b"\1" * 16)),
    "content_id": lambda maker: bytes(32),
    "state": lambda maker: b"",
    "wait_ms": lambda maker: maker.choices.size("wait", 300, 0),
    "since_modseq": lambda maker: maker.choices.size("modseq", 1 << 20, 0),
    "since_us": lambda maker: 0,
    "until_us": lambda maker: 0,
    "expected_sequence": lambda maker: 0,
    "note_classes": lambda maker: maker.choices.one("class", (1, 8, 4, 512)),
    "note_class": lambda maker: 1,
    "folder_ids": lambda maker: maker.choices.one("folder", maker.session.account.folders[maker.database_path()]),
    "template": lambda maker: maker.choices.one("template", ("", "discussion", "mail", "log")),
    "login": lambda maker: (
        maker.native.account.login if maker.choices.chance("known login", 50) else contents.text(maker.choices, "login", 1_000)
    ),
    "password": lambda maker: (
        maker.native.account.password if maker.choices.chance("right password", 50) else contents.text(maker.choices, "password", 4_000)
    ),
    "file_name": lambda maker: maker.choices.one("file", ("large.bin", "small.txt", "absent")),
    "start_key": lambda maker: b"",
    "names": lambda maker: maker.choices.one(
        "looked up",
        ("worst@worst.test", "group0@worst.test", "group20@worst.test", "CN=worst/O=Doublet", "Body", "Subject", "x" * 200, "a@far.test"),
    ),
    "recipients": lambda maker: maker.choices.one(
        "recipient", ("worst@worst.test", "maildrop@worst.test", "worst+{}@worst.test", "a{}@far.test", "a{}@far.test", "group0@worst.test")
    ),
    "profile": lambda maker: f"p{maker.choices.integer('profile', 0, 20)}",
    "user": lambda maker: maker.choices.one("profile of", ("", "worst@worst.test")),
    "request_id": lambda maker: "",
    "sender": lambda maker: "",
    "collation": lambda maker: maker.choices.one("collation", (0, 0, 0, 1, 2)),
    "Acl.roles": lambda maker: "[Role]",
    "AclEntry.roles": lambda maker: f"[Role{maker.choices.size('role', 100)}]",
}


def _create_database(maker, request):
    request.path = f"new/{maker.session.serial}.nsf"
    maker.session.databases.append(request.path)
    return request, None


def _set_acl(maker, request):
    request.database.path = LISTED
    entry = request.acl.entries.add(name=maker.native.account.name, kind=1, level=6)
    entry.flags.create_personal_folder = True
    request.acl.internet_max = 6
    return request, None


def _own_note(maker, request):
    saved = maker.created()
    request.note.note_id = saved.note_id
    maker.undo("Notes/DeleteNote", maker.make("DeleteNoteRequest", database=maker.database(), note=request.note, permanent=True))
    return request, None


def _update_note(maker, request):
    _own_note(maker, request)
    request.on_conflict = maker.choices.integer("on conflict", 0, 1)
    if maker.choices.chance("stale", 50):
        request.expected_sequence = 1
        maker.must("Notes/UpdateNote", maker.make("UpdateNoteRequest", database=maker.database(), note=request.note, items=maker.items()))
    return request, None


def _delete_note(maker, request):
    _own_note(maker, request)
    request.soft, request.permanent = False, maker.choices.chance("permanently", 50)
    return request, None


def _restore_note(maker, request):
    maker.session.path = DOCUMENTS
    request.database.path = DOCUMENTS
    _own_note(maker, request)
    maker.must("Notes/DeleteNote", maker.make("DeleteNoteRequest", database=maker.database(), note=request.note, soft=True))
    return request, None


def _attached(maker, size):
    """Creates a document with a file."""
    saved = maker.created()
    header = maker.make("AttachFileRequest").Header(
        database=maker.database(), note=maker.make("NoteKey", note_id=saved.note_id), file_name="large.bin", length_bytes=size
    )
    data = contents.repeated(contents.text(maker.choices, "content", 10_000).encode() or b"x", size)
    pieces = [maker.make("AttachFileRequest", content=data[start : start + PIECE_BYTES]) for start in range(0, size, PIECE_BYTES)]
    maker.undo("Notes/DeleteNote", maker.make("DeleteNoteRequest", database=maker.database(), note=header.note, permanent=True))
    return header.note, [maker.make("AttachFileRequest", header=header), *pieces]


def _attach_file(maker, _):
    maker.session.path = DOCUMENTS
    return _attached(maker, maker.choices.size("attachment", maker.session.account.message_bytes, 0))[1], None


def _with_file(maker, request):
    maker.session.path = request.database.path = DOCUMENTS
    note, stream = _attached(maker, maker.choices.size("attachment", maker.session.account.message_bytes, 0))
    maker.must("Notes/AttachFile", stream)
    request.note.CopyFrom(note)
    request.file_name = "large.bin"
    return request, None


def _create_note(maker, request):
    readable(request.items)
    request.unid = maker.session.serial.to_bytes(16, "big")
    maker.undo(
        "Notes/DeleteNote",
        maker.make("DeleteNoteRequest", database=maker.database(), note=maker.make("NoteKey", unid=request.unid), permanent=True),
    )
    return request, None


def _own_folder(maker, request):
    made = maker.must(
        "Views/CreateFolder", maker.make("CreateFolderRequest", database=maker.database(), name=f"New{maker.session.serial}", personal=True)
    )
    request.folder.view_id = made.view_id
    maker.undo(
        "Views/DeleteFolder",
        maker.make("DeleteFolderRequest", database=maker.database(), folder=maker.make("ViewKey", view_id=made.view_id)),
    )
    return request, None


def _move_notes(maker, request):
    made = maker.must(
        "Views/CreateFolder",
        maker.make(
            "CreateFolderRequest",
            database=maker.database(),
            name=f"New{maker.session.serial}",
            personal=maker.choices.chance("personal", 50),
        ),
    )
    request.ClearField("out_of")
    request.into.view_id = made.view_id
    notes = maker.session.account.notes[maker.database_path()]
    first = maker.choices.integer("first moved", 0, len(notes) - 1)
    del request.notes[:]
    request.notes.extend(
        maker.make("NoteKey", note_id=notes[(first + number) % len(notes)]) for number in range(maker.choices.size("moved", 1_000))
    )
    back = maker.make("MoveNotesRequest", database=maker.database(), notes=request.notes, out_of=request.into)
    maker.undo("Views/MoveNotes", back)
    maker.undo("Views/DeleteFolder", maker.make("DeleteFolderRequest", database=maker.database(), folder=request.into))
    return request, None


def _create_folder(maker, request):
    request.name = f"New{maker.session.serial}{request.name}"[:900]
    request.personal = maker.choices.chance("personal", 50)
    maker.undo(
        "Views/DeleteFolder", maker.make("DeleteFolderRequest", database=maker.database(), folder=maker.make("ViewKey", name=request.name))
    )
    return request, None


def _removed_after(maker, name):
    maker.undo("Views/DeleteView", maker.make("DeleteViewRequest", database=maker.database(), view=maker.make("ViewKey", name=name)))


def _create_view(maker, request):
    _removed_after(maker, request.design.title)
    return request, None


def _own_view(maker, request):
    """Creates a view for the request."""
    design = maker.design()
    maker.must("Views/CreateView", maker.make("CreateViewRequest", database=maker.database(), design=design))
    _removed_after(maker, design.title)
    request.view.name = design.title
    return request, None


def _open_collection(maker, request):
    if maker.choices.chance("new view", 70):
        _own_view(maker, request)
        if maker.choices.chance("changed later", 40):
            opened = maker.make("OpenCollectionRequest", database=request.database, view=request.view)
            maker.must("Views/OpenCollection", opened)
            _own_note(maker, maker.make("OpenNoteRequest"))
    return request, None


def _read_view(maker, request):
    if maker.choices.chance("new view", 40):
        _own_view(maker, request)
        maker.must("Views/OpenCollection", maker.make("OpenCollectionRequest", database=request.database, view=request.view))
    return request, None


def _logout(maker, request):
    return request, maker.native.log_in()


def _authenticate(maker, _):
    account = maker.native.account
    right = f"\0{account.login}\0{account.password}".encode()
    response = right if maker.choices.chance("right password", 50) else contents.text(maker.choices, "response", 4_000).encode()
    first = maker.make("AuthenticateRequest", mechanism=maker.choices.one("mechanism", ("PLAIN", "SCRAM-SHA-256", "X")), response=response)
    return [first, *[maker.make("AuthenticateRequest", response=response)] * maker.choices.size("steps", 8, 0)], None


def _deposit(maker, request):
    envelope = maker.make("DepositMailRequest").Envelope()
    maker.field(envelope, envelope.DESCRIPTOR.fields_by_name["recipients"])
    raw = contents.message(maker.choices, maker.choices.size("message bytes", maker.session.account.message_bytes))
    pieces = [maker.make("DepositMailRequest", content=raw[start : start + PIECE_BYTES]) for start in range(0, len(raw), PIECE_BYTES)]
    return [maker.make("DepositMailRequest", envelope=envelope), *pieces], None


def _watch(maker, request):
    request.once = True
    return request, None


PREPARATIONS = {
    "Sessions/Logout": _logout,
    "Sessions/Authenticate": _authenticate,
    "Databases/CreateDatabase": _create_database,
    "Databases/SetAcl": _set_acl,
    "Notes/CreateNote": _create_note,
    "Notes/UpdateNote": _update_note,
    "Notes/DeleteNote": _delete_note,
    "Notes/RestoreNote": _restore_note,
    "Notes/AttachFile": _attach_file,
    "Notes/DetachFile": _with_file,
    "Notes/ReadAttachment": _with_file,
    "Views/OpenCollection": _open_collection,
    "Views/UpdateCollection": _open_collection,
    "Views/ReadEntries": _read_view,
    "Views/FindByKey": _read_view,
    "Views/CreateFolder": _create_folder,
    "Views/RenameFolder": _own_folder,
    "Views/DeleteFolder": _own_folder,
    "Views/MoveNotes": _move_notes,
    "Views/CreateView": _create_view,
    "Views/UpdateView": _own_view,
    "Views/DeleteView": _own_view,
    "Views/GetViewDesign": _own_view,
    "Mail/DepositMail": _deposit,
    "Changes/WatchChanges": _watch,
}
