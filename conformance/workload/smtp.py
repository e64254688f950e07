"""Submission of numbered messages over SMTP."""

import smtplib

from .messages import DOMAIN, USERS, Refused, Wrong, letter
from .writer import GONE, Writer

GROUP, GROUP_MEMBERS = "team", ("reader1", "reader2")
FAR, FAR_DOMAIN = "far1", "far.test"
PATIENCE_S = 20


class Sender(Writer):
    """Submits messages over SMTP.

    The recipients are readers, the group, or a user of the other server. A message is *possible* for its readers from
    the moment when it is sent, unless the server refuses it, and *promised* when the server has accepted it.
    """

    recipients = ((USERS[0],), (USERS[2],), (USERS[1], USERS[2]), (GROUP,), (FAR,), (FAR, USERS[2]), (GROUP, USERS[0]))
    members = (*GROUP_MEMBERS, FAR)

    def __init__(self, loop, numbers):
        super().__init__(loop, (), numbers[0])
        self.numbers = numbers

    def may_go_on(self):
        return not self.stopping.is_set()

    def connect(self):
        client = smtplib.SMTP(*self.loop.server.address("submission"), timeout=PATIENCE_S)
        try:
            client.login(f"{USERS[0]}@{DOMAIN}", self.loop.password)
        except smtplib.SMTPResponseException as error:
            raise refusal(error.smtp_code, error.smtp_error) from error
        return client

    def disconnect(self, client):
        client.quit()

    def step(self, client):
        """Sends one message."""
        number, to = self.numbers.pop(0), self.random.choice(self.recipients)
        readers = {(reader, number) for reader in self.readers(to)}
        addresses = {f"{name}@{FAR_DOMAIN if name == FAR else DOMAIN}": name for name in to}
        self.loop.possible |= readers
        self.tries += 1
        try:
            # The number in the reverse path identifies the message in the log of the other server.
            refused = client.sendmail(f"{USERS[0]}+n{number}@{DOMAIN}", list(addresses), letter(number))
        except smtplib.SMTPRecipientsRefused as error:
            self.note_refusal(readers)
            raise refusal(*max(error.recipients.values())) from error
        except smtplib.SMTPResponseException as error:
            if error.smtp_code == 421:
                self.unknown += 1
            else:
                self.note_refusal(readers)
            raise refusal(error.smtp_code, error.smtp_error) from error
        except GONE:
            self.unknown += 1
            raise
        self.acknowledged += 1
        taken = self.readers(name for address, name in addresses.items() if address not in refused)
        self.loop.promised |= {(reader, number) for reader in taken}
        self.loop.possible -= readers - self.loop.promised
        if refused:
            raise refusal(*max(refused.values()))

    def readers(self, names):
        """Returns the readers of messages to these names."""
        return {reader for name in names for reader in (self.members if name == GROUP else (name,))}

    def note_refusal(self, readers):
        """Records that nobody may have the message."""
        if self.loop.store_is_poisoned():
            self.unknown += 1
        else:
            self.refused += 1
            self.loop.possible -= readers


def refusal(code, text):
    """Returns the error for a reply. A server that closes the connection has not refused a command."""
    if code == 421:
        return ConnectionError(f"{code} {text!r}")
    return (Refused if code < 500 else Wrong)(f"SMTP: {code} {text!r}")
