"""Clients that change data, with a model of what the server must have afterwards.

A writer changes *targets*: things that nobody else changes, such as the mailboxes of one user. Each target has a model.
The model of a change in progress is kept beside it until the server has answered. An acknowledged change replaces the
model, and a refused one must have changed nothing. If the connection breaks, the target is *unsettled*: it may be as
before or as after. A writer leaves an unsettled target alone until somebody has looked (`settle`).
"""

import contextlib
import imaplib
import random
import smtplib
import threading

from .messages import Refused

GONE = (OSError, smtplib.SMTPException, imaplib.IMAP4.abort, EOFError)
PAUSE_S = 0.05


class Target:
    """Something that one writer changes: its model, and the model after the change in progress.

    `in_parts` means that a change is not one transaction: it may have been executed in part when it is refused.
    """

    def __init__(self, name, model, in_parts=False):
        self.name, self.model, self.in_parts = name, model, in_parts
        self.after = None

    def settle(self, found, differences):
        """Makes what was found the model. Returns its differences from the nearer of the two models."""
        unlike = differences(found, self.model)
        if unlike and self.after is not None:
            unlike = min(unlike, differences(found, self.after), key=len)
        self.model, self.after = found, None
        return [(kind, f"{self.name}: {text}") for kind, text in unlike]


class Writer(threading.Thread):
    """A client that executes one change after the other until it is stopped.

    It connects again when its connection has broken. `tries` is the number of changes that it has begun. Each of them
    was acknowledged or refused, or its outcome is unknown.
    """

    def __init__(self, loop, targets, seed):
        super().__init__(daemon=True)
        self.loop, self.targets = loop, targets
        self.random = random.Random(seed)
        self.tries = self.acknowledged = self.refused = self.unknown = 0
        self.error = None
        self.stopping = threading.Event()

    def run(self):
        try:
            while self.may_go_on():
                self.session()
        except Exception as error:  # pylint: disable=broad-except   (the loop raises it again)
            self.error = error

    def session(self):
        """Changes data over one connection."""
        try:
            client = self.connect()
            while self.may_go_on():
                try:
                    self.step(client)
                except Refused:
                    if not self.loop.refusals:
                        raise
                    self.stopping.wait(PAUSE_S)
            self.disconnect(client)
        except GONE:
            self.stopping.wait(PAUSE_S)
        except Refused:
            if not self.loop.refusals:
                raise
            self.stopping.wait(PAUSE_S)

    def may_go_on(self):
        """Returns True if the writer is not stopped and has a target whose state is known."""
        return not self.stopping.is_set() and any(target.after is None for target in self.targets)

    def settled(self):
        """Returns a target whose state is known."""
        return self.random.choice([target for target in self.targets if target.after is None])

    @contextlib.contextmanager
    def changing(self, target, after):
        """Executes one change of a target, whose model becomes `after` when the server has acknowledged it."""
        self.tries += 1
        target.after = after
        try:
            yield after
        except Refused:
            # After a failed sync it is not known what of the refused changes is on the disk.
            if target.in_parts or self.loop.store_is_poisoned():
                self.unknown += 1
            else:
                self.refused += 1
                target.after = None
            raise
        except GONE:
            self.unknown += 1
            raise
        self.acknowledged += 1
        target.model, target.after = after, None

    def connect(self):
        """Returns a connection."""
        raise NotImplementedError

    def disconnect(self, client):
        """Ends a connection."""

    def step(self, client):
        """Executes one change."""
        raise NotImplementedError
