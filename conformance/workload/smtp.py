"""Submission of numbered messages over SMTP."""

import imaplib
import random
import smtplib
import threading

from .messages import DOMAIN, USERS, letter

GROUP, GROUP_MEMBERS = "team", ("reader1", "reader2")
FAR, FAR_DOMAIN = "far1", "far.test"
GONE = (OSError, smtplib.SMTPException, imaplib.IMAP4.abort, EOFError)


class Sender(threading.Thread):
    """Submits messages over SMTP until the server is killed.

    The recipients are readers, the group, or a user of the other server.
    """

    def __init__(self, loop, numbers):
        super().__init__(daemon=True)
        self.loop, self.numbers = loop, numbers
        self.random = random.Random(numbers[0])
        self.error = None

    def run(self):
        try:
            with smtplib.SMTP(*self.loop.server.address("submission"), timeout=20) as client:
                client.login(f"{USERS[0]}@{DOMAIN}", self.loop.password)
                while True:
                    self.send(client, self.numbers.pop(0))
        except GONE as error:
            if isinstance(error, smtplib.SMTPResponseException) and error.smtp_code != 421:
                self.error = error
            elif isinstance(error, smtplib.SMTPRecipientsRefused):
                self.error = error

    def send(self, client, number):
        """Sends one message and records its recipients when the server has acknowledged it."""
        to = self.random.choice(((USERS[0],), (USERS[2],), (USERS[1], USERS[2]), (GROUP,), (FAR,), (FAR, USERS[2]), (GROUP, USERS[0])))
        readers = {name for address in to for name in ((*GROUP_MEMBERS, FAR) if address == GROUP else (address,))}
        self.loop.possible |= {(reader, number) for reader in readers}
        addresses = [f"{name}@{FAR_DOMAIN if name == FAR else DOMAIN}" for name in to]
        # The number in the reverse path identifies the message in the log of the other server.
        client.sendmail(f"{USERS[0]}+n{number}@{DOMAIN}", addresses, letter(number))
        self.loop.promised |= {(reader, number) for reader in readers}
