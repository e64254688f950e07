#!/usr/bin/env python3
"""A client of the native protocol in Python: logs in, writes a document, finds it, follows the changes, sends mail.

The standard tool of gRPC generates the stubs from the `.proto` files:

    pip install grpcio grpcio-tools
    python3 -m grpc_tools.protoc -I proto --python_out=OUT --grpc_python_out=OUT proto/doublet/v1/*.proto
    PYTHONPATH=OUT python3 examples/python/notes.py HOST:PORT CERTIFICATE LOGIN < FILE-WITH-PASSWORD

CERTIFICATE is the server's own certificate (`tls/certificate.pem` in its data folder) or the root that signed it. An
optional fourth argument is the name in the certificate, if it is not HOST.
"""

import sys

import grpc

from doublet.v1 import (change_pb2, change_pb2_grpc, database_pb2, database_pb2_grpc, directory_pb2, directory_pb2_grpc, mail_pb2,
                        mail_pb2_grpc, note_pb2, note_pb2_grpc, session_pb2, session_pb2_grpc, types_pb2)

PIECE = 256 * 1024


class Token(grpc.AuthMetadataPlugin):
    """Adds the session's token to every call."""

    def __init__(self, token):
        self.token = token

    def __call__(self, context, callback):
        callback((("authorization", f"Bearer {self.token}"),), None)


def connect(address, certificate, name):
    """Opens a connection. The native protocol always uses TLS."""
    with open(certificate, "rb") as file:
        roots = grpc.ssl_channel_credentials(file.read())
    options = [("grpc.ssl_target_name_override", name)] if name else []
    return roots, options, grpc.secure_channel(address, roots, options)


def text(name, value):
    """Returns a summary item, which views and formulas can read."""
    return types_pb2.Item(name=name, flags=types_pb2.ItemFlags(summary=True), value=types_pb2.Value(text=value))


def first_text(note, name):
    """Returns the text of an item."""
    return next(item.value.text for item in note.items if item.name == name)


def letter(sender, recipient):
    """Yields the messages of DepositMail: the envelope, then the content in pieces."""
    yield mail_pb2.DepositMailRequest(envelope=mail_pb2.DepositMailRequest.Envelope(recipients=[recipient]))
    content = f"From: {sender}\r\nTo: {recipient}\r\nSubject: From Python\r\n\r\nHello.\r\n".encode()
    for start in range(0, len(content), PIECE):
        yield mail_pb2.DepositMailRequest(content=content[start:start + PIECE])


def main():
    """Calls the main methods of the protocol and prints the results."""
    address, certificate, login = sys.argv[1:4]
    name = sys.argv[4] if len(sys.argv) > 4 else None
    password = sys.stdin.readline().rstrip("\n")
    roots, options, channel = connect(address, certificate, name)
    reply = session_pb2_grpc.SessionsStub(channel).Login(session_pb2.LoginRequest(login=login, password=password))
    print("logged in as", reply.session.name)

    # All further calls carry the token.
    credentials = grpc.composite_channel_credentials(roots, grpc.metadata_call_credentials(Token(reply.token)))
    channel = grpc.secure_channel(address, credentials, options)
    notes, database = note_pb2_grpc.NotesStub(channel), types_pb2.DatabaseKey(path=reply.session.mail_file)
    opened = database_pb2_grpc.DatabasesStub(channel).OpenDatabase(database_pb2.OpenDatabaseRequest(database=database))
    print("opened", opened.path, "with", opened.notes, "notes")

    made = notes.CreateNote(note_pb2.CreateNoteRequest(database=database, items=[text("Form", "Task"), text("Subject", "Paint")]))
    key = types_pb2.NoteKey(unid=made.unid)
    saved = notes.UpdateNote(note_pb2.UpdateNoteRequest(
        database=database, note=key, expected_sequence=made.sequence, items=[text("Subject", "Sand")]))
    try:
        notes.UpdateNote(note_pb2.UpdateNoteRequest(database=database, note=key, expected_sequence=made.sequence, items=[text("Subject", "x")]))
    except grpc.RpcError as error:
        print("a second save is refused:", error.code().name)
    search = note_pb2.SearchNotesRequest(
        database=database, formula='SELECT Form = "Task"', items=note_pb2.ItemSelection(names=["Subject"]))
    found = [first_text(note, "Subject") for reply in notes.SearchNotes(search) for note in reply.notes]
    print("found", found)

    watch = change_pb2.WatchChangesRequest(database=database, since_modseq=saved.modseq - 1, once=True)
    changes = [change.note_id for batch in change_pb2_grpc.ChangesStub(channel).WatchChanges(watch) for change in batch.changes]
    print("changed since:", changes == [made.note_id])

    looked_up = directory_pb2_grpc.DirectoryStub(channel).LookupNames(directory_pb2.LookupNamesRequest(names=[login]))
    own = looked_up.entries[0].address
    mail_pb2_grpc.MailStub(channel).DepositMail(letter(own, own))
    poll = change_pb2_grpc.ChangesStub(channel).PollNewMail(change_pb2.PollNewMailRequest(wait_ms=10000))
    print("new mail:", poll.new_mail)
    print("deleted:", notes.DeleteNote(note_pb2.DeleteNoteRequest(database=database, note=key)).deleted)


if __name__ == "__main__":
    main()
