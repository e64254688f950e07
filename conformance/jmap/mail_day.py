"""A day's mail with the PyPI package jmapc. Arguments: host and port of the server, a login, a password, a recipient."""

import sys
import tempfile

import jmapc
from jmapc import methods


def main():
    """Plays the day. An assertion fails if the server does something else than the RFCs say."""
    host, login, password, recipient = sys.argv[1:]
    client = jmapc.Client.create_with_password(host, login, password)
    echoed = client.request(methods.CoreEcho(data={"hello": [1, None, "ü"]}))
    assert echoed.data == {"hello": [1, None, "ü"]}, echoed
    boxes = {box.role: box for box in client.request(methods.MailboxGet(ids=None)).data}
    assert {"inbox", "drafts", "sent", "trash", "junk", "archive"} <= set(boxes), boxes
    identities = client.request(methods.IdentityGet()).data
    assert [identity.email for identity in identities] == [login], identities
    draft = create_draft(client, boxes["drafts"].id, login, recipient)
    send(client, draft, identities[0].id, boxes, login, recipient)
    found = client.request([
        methods.EmailQuery(filter=jmapc.EmailQueryFilterCondition(in_mailbox=boxes["sent"].id), sort=[jmapc.Comparator("receivedAt")]),
        methods.EmailGet(ids=jmapc.Ref("/ids"), fetch_all_body_values=True),
        methods.ThreadGet(ids=jmapc.Ref("/list/*/threadId", method=1)),
    ])
    email = found[1].response.data[0]
    assert email.subject == "Plan für Montag", email
    assert [thread.email_ids for thread in found[2].response.data] == [[email.id]], found[2]
    with tempfile.NamedTemporaryFile() as file:
        client.download_attachment(email.attachments[0], file.name)
        assert file.read() == b"1,2\r\n3,4\r\n"
    snippets = client.request(methods.SearchSnippetGet(filter=jmapc.EmailQueryFilterCondition(text="Montag"), ids=[email.id]))
    assert "<mark>Montag</mark>" in snippets.data[0].subject, snippets
    print("jmapc: passed")


def create_draft(client, drafts, login, recipient):
    """Creates a draft with a file, and returns its identifier."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        file.write(b"1,2\r\n3,4\r\n")
        file.flush()
        blob = client.upload_blob(file.name)
    draft = jmapc.Email(
        mail_from=[jmapc.EmailAddress(name="Ann", email=login)],
        to=[jmapc.EmailAddress(email=recipient)],
        subject="Plan für Montag",
        keywords={"$draft": True, "$seen": True},
        mailbox_ids={drafts: True},
        text_body=[jmapc.EmailBodyPart(part_id="body", type="text/plain")],
        body_values={"body": jmapc.EmailBodyValue(value="Der Plan ist angehängt.")},
        attachments=[jmapc.EmailBodyPart(blob_id=blob.id, type="text/csv", name="plan.csv", disposition="attachment")],
    )
    made = client.request(methods.EmailSet(create={"draft": draft}))
    assert not made.not_created, made.not_created
    return made.created["draft"].id


def send(client, draft, identity, boxes, login, recipient):
    """Sends the draft, and moves it to the sent messages with the same request."""
    submission = jmapc.EmailSubmission(
        email_id=draft,
        identity_id=identity,
        envelope=jmapc.Envelope(mail_from=jmapc.Address(email=login), rcpt_to=[jmapc.Address(email=recipient)]),
    )
    sent = client.request(methods.EmailSubmissionSet(
        create={"send": submission},
        on_success_update_email={
            "#send": {
                f"mailboxIds/{boxes['drafts'].id}": None,
                f"mailboxIds/{boxes['sent'].id}": True,
                "keywords/$draft": None,
            },
        },
    ))
    first = sent[0] if isinstance(sent, list) else sent
    assert first.created and "send" in first.created, sent


if __name__ == "__main__":
    main()
