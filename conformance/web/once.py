"""Sending exactly once, over many seeds, with forms and with JMAP and without a browser.

A seed is one message. It determines its choices (`Plan`): who sends it how often, from one or two tabs with the same draft, at
which moments, whose answer is lost and whose request is cut, whether the draft is saved meanwhile, and for messages that wait
(JMAP with HOLDFOR, or a form whose sending can be undone), at which moment around its release it is withdrawn. Ten seeds share one life of the server, each with a
sender of its own. Their first one determines when it is killed (`kill -9`), or that it is not. `DOUBLET_SEED=N` begins
with seed N; the order in which threads run is not repeatable.

Then, and once more after the senders have repeated what had no answer, and have sent what is still a draft:

- A message has arrived at both recipients once, or it is a draft; at last it has arrived, unless it was withdrawn.
- An answer that it was sent, saved or withdrawn is true.
- The form of a message that was withdrawn, from an old page of the composer, comes back and sends nothing.
- The copy in the folder with sent messages is there as often as the message, has the bytes of the recipients' messages but for
  the fields that the server puts before them, and all files are whole.
"""

import concurrent.futures
import email
import email.policy
import hashlib
import os
import random
import re
import threading
import time

from .plain import Forms, Lost, Person, multipart

IS_LONG = os.environ.get("DOUBLET_SOAK") is not None
SEEDS = 1_000 if IS_LONG else 20
SEEDS_PER_LIFE = 10
SHOWN_MAX = 10
DOMAIN = "acme.test"
RECIPIENTS = [f"once-{name}@{DOMAIN}" for name in ("one", "two")]
SENDERS = [f"once-{number}@{DOMAIN}" for number in range(SEEDS_PER_LIFE)]
# In which storms last, from the first action on.
STORM_S = 0.3
DELIVERY_TIME_MAX_S = 30
# The fields that the server puts before a message.
ADDED_FIELDS = {"return-path", "received", "dkim-signature"}
SENT, BEFORE, SAVED = ("The message was sent.", "This message was sent before. It was not sent again.", "The draft was saved.")
WITHDRAWN, TOO_LATE = "The message was not sent. It is a draft again.", "It is too late: the message was sent."
# The beginning of a notice with the undo of sending. The rest is the time and the identifier of the message.
HELD = "h."
# What the composer says of a form whose message was withdrawn.
OLD = "The message of this form was withdrawn"
# What the composer says of a form with the identifier of one that was sent, but with another text: that of another tab.
OTHER = "This one was not sent."
# What the server says when it cannot do something now: too many requests of the account, or it is about to end.
NOT_NOW = (429, 503)


class Wrong(Exception):
    """A message is lost, was sent twice, or is not whole, or an answer was not true."""


class Plan:
    """The choices of a seed."""

    def __init__(self, seed):
        dice = random.Random(f"once {seed}")
        self.seed, self.subject = seed, f"once-{seed:07}"
        self.kind = dice.choices(("form", "held", "jmap"), (4, 3, 3))[0]
        self.file = dice.randbytes(dice.choice((0, 0, 10, 5_000, 60_000)))
        # For how long the message waits.
        self.hold_s = {"form": (0,), "held": (1, 1, 2), "jmap": (0, 1, 1, 2)}[self.kind]
        self.hold_s = dice.choice(self.hold_s)
        self.is_saved = dice.random() < 0.6
        self.tabs = 1
        if self.kind == "form":
            self.tabs = 2 if self.is_saved and dice.random() < 0.5 else 1
            verbs = [dice.choice(("send", "lose", "double"))]
            verbs += dice.choices(("send", "lose", "cut", "save", "double"), k=dice.randrange(3))
            self.actions = [(dice.uniform(0, STORM_S), verb, dice.randrange(self.tabs), dice.random()) for verb in verbs]
        else:
            self.verb = dice.choice(("send", "send", "lose", "double"))
            # Relative to the moment at which the message is released.
            self.undo_s = dice.uniform(-0.5, 0.4) if self.hold_s and dice.random() < 0.8 else None

    def __str__(self):
        choices = {name: value for name, value in vars(self).items() if name not in ("seed", "subject", "file")}
        return f"seed {self.seed}, a file of {len(self.file)} bytes, {choices}"


class Kill:
    """When the server is killed in the life of some seeds, or `None`."""

    def __init__(self, seed, plans):
        dice = random.Random(f"kill {seed}")
        holds = [plan.hold_s for plan in plans if plan.hold_s]
        moments = [None, *(dice.uniform(0, STORM_S) for _ in range(3))]
        if holds:
            # As often around the releases and the withdrawals.
            moments += [max(holds) + dice.uniform(-0.5, 0.5) for _ in range(3)]
        self.after_s = dice.choice(moments)


def run(server, password):
    """Plays all seeds. Returns what to print. Raises `Wrong` with what is wrong."""
    first = int(os.environ.get("DOUBLET_SEED") or (time.time_ns() // 1_000 % 1_000_000 if IS_LONG else 1))
    print(f"once: DOUBLET_SEED={first}", flush=True)
    server.add_users([*SENDERS, *RECIPIENTS], password)
    server.settings["listen.http"] = f"127.0.0.1:{server.port('http')}"
    play = Play(server, [Person(server, login, password) for login in SENDERS], [Person(server, login, password) for login in RECIPIENTS])
    for seed in range(first, first + SEEDS, SEEDS_PER_LIFE):
        play.live(seed, [Plan(number) for number in range(seed, min(seed + SEEDS_PER_LIFE, first + SEEDS))])
    server.kill()
    server.start()
    play.check_inboxes()
    if play.wrong:
        raise Wrong("\n".join(play.wrong[:SHOWN_MAX]) + f"\n{len(play.wrong)} seeds of {SEEDS}")
    return f"once: passed ({SEEDS} seeds, {', '.join(f'{count} {name}' for name, count in sorted(play.counts.items()))})"


class Play:
    """All lives of the server."""

    def __init__(self, server, senders, recipients):
        self.server, self.senders, self.recipients = server, senders, recipients
        self.wrong = []
        self.counts = {}
        self.lock = threading.Lock()
        # How often each message must be in the inboxes.
        self.expected = {}

    def count(self, name, number=1):
        """Counts something for the last line."""
        with self.lock:
            self.counts[name] = self.counts.get(name, 0) + number

    def live(self, seed, plans):
        """Plays the seeds of one life of the server."""
        makers = [{"form": Form, "held": HeldForm, "jmap": Submission}[plan.kind] for plan in plans]
        letters = [maker(self, sender, plan) for maker, sender, plan in zip(makers, self.senders, plans)]
        letters = self.each(letters, lambda letter: letter.prepare(), seed)
        kill = Kill(seed, plans)
        start = time.monotonic()
        killer = threading.Thread(target=self.kill, args=(start, kill.after_s))
        killer.start()
        letters = self.each(letters, lambda letter: letter.storm(start), seed)
        killer.join()
        if not self.server.is_running():
            self.server.start()
        letters = self.each(letters, lambda letter: letter.check(), seed)
        letters = self.each(letters, lambda letter: letter.finish(), seed)

    def kill(self, start, after_s):
        """Kills the server some time after the beginning of the storm."""
        if after_s is not None:
            pause(start + after_s)
            self.server.kill()
            self.count("kills")

    def each(self, letters, act, seed):
        """Does something with each message, all at a time. Returns those for which nothing is wrong."""
        def attempt(letter):
            try:
                act(letter)
                return True
            except (Wrong, Lost, RuntimeError, KeyError, StopIteration) as error:
                with self.lock:
                    self.wrong.append(f"{type(error).__name__}: {error}\n    {letter.plan}\n    {letter.said}\n    DOUBLET_SEED={seed} repeats the choices")
                return False
        with concurrent.futures.ThreadPoolExecutor(max(1, len(letters))) as hands:
            return [letter for letter, is_right in zip(letters, list(hands.map(attempt, letters))) if is_right]

    def check_inboxes(self):
        """Checks at the end that each message is there as often as before, so that none came later."""
        for recipient in self.recipients:
            client = recipient.imap()
            client.select("INBOX", readonly=True)
            found = {}
            for part in client.fetch("1:*", "(BODY.PEEK[HEADER.FIELDS (SUBJECT)])")[1]:
                if isinstance(part, tuple):
                    subject = part[1].decode().partition(":")[2].strip()
                    found[subject] = found.get(subject, 0) + 1
            client.logout()
            differing = {subject: (found.get(subject, 0), count) for subject, count in self.expected.items() if found.get(subject, 0) != count}
            if differing:
                self.wrong.append(f"at the end, {recipient.login} has messages (found, expected): {differing}")


class Letter:
    """The message of a seed: what its sender has done, and what it was told."""

    def __init__(self, play, sender, plan):
        self.play, self.sender, self.plan = play, sender, plan
        self.said = []
        self.has_promise = False

    def arrived(self):
        """Returns the messages that both recipients have. Each must have it at most once, and both or none."""
        found = [recipient.messages("INBOX", self.plan.subject) for recipient in self.play.recipients]
        if max(map(len, found)) > 1:
            raise Wrong(f"it has arrived {[len(messages) for messages in found]} times")
        if len(found[0]) != len(found[1]):
            raise Wrong(f"one recipient has it and the other one has not: {[len(messages) for messages in found]}")
        return [message for messages in found for message in messages]

    def check_copy(self, copies, arrived):
        """Checks that there is one copy, with the bytes of the messages that have arrived."""
        if len(copies) != 1:
            raise Wrong(f"it has arrived, and there are {len(copies)} copies")
        for message in arrived:
            added = message.removesuffix(copies[0])
            if not message.endswith(copies[0]):
                raise Wrong(f"the copy differs: {copies[0][:1000]!r} {message[:2000]!r}")
            names = {name.lower() for name in re.findall(r"^([!-9;-~]+):", added.decode("latin-1"), re.MULTILINE)}
            if not names <= ADDED_FIELDS:
                raise Wrong(f"the server has added {names}")

    def check_files(self, messages):
        """Checks that the file of each message is whole."""
        for message in messages:
            parsed = email.message_from_bytes(message, policy=email.policy.default)
            files = [part.get_content() for part in parsed.iter_attachments()]
            expected = [self.plan.file] if self.plan.file else []
            if files != expected:
                raise Wrong(f"it has files of {[(len(file), hashlib.sha256(file).hexdigest()[:8]) for file in files]}")


class Form(Letter):
    """A message that is sent with the forms of the web mail."""

    def __init__(self, play, sender, plan):
        super().__init__(play, sender, plan)
        # The fields and files that the tabs send.
        self.tabs = []
        self.saves = 0
        self.is_draft = False
        # The identifier of a message that waits.
        self.id = None

    def prepare(self):
        """Opens the composer in each tab, and saves the draft before if there is one."""
        self.set_undo(self.plan.hold_s)
        files = [("file", "file.bin", self.plan.file)] if self.plan.file else []
        fields = dict(Forms.fields(self.sender.page("/lite/compose"), "/lite/compose"))
        fields |= {"to": ", ".join(RECIPIENTS), "subject": self.plan.subject, "body": "text of tab 0"}
        if not self.plan.is_saved:
            self.tabs = [(fields, files)]
            return
        answer = self.post(fields, files, "save")
        if answer.notice() != SAVED:
            raise Wrong(f"the draft was not saved: {answer.status} {answer.text()[:500]}")
        self.is_draft = True
        opened = dict(Forms.fields(self.sender.page(answer.fields["Location"]), "/lite/compose"))
        self.tabs = [(opened | {"body": f"text of tab {number}"}, []) for number in range(self.plan.tabs)]

    def set_undo(self, seconds):
        """Chooses for how long sending can be undone."""
        fields = dict(Forms.fields(self.sender.page("/lite/settings"), "/lite/settings")) | {"undo": str(seconds or ""), "do": "preferences"}
        answer = self.sender.post("/lite/settings", fields)
        if answer.notice() != "The preferences were saved.":
            raise Wrong(f"the preferences were not saved: {answer.status} {answer.text()[:500]}")

    def post(self, fields, files, button):
        """Sends the form. Raises `Lost` if there is no answer."""
        return self.sender.request("POST", "/lite/compose", *multipart([*fields.items(), ("do", button)], files))

    def storm(self, start):
        """Executes all actions at their moments."""
        threads = [threading.Thread(target=self.act, args=(start, action)) for action in self.plan.actions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def act(self, start, action):
        """Executes an action."""
        after_s, verb, tab, share = action
        fields, files = self.tabs[tab]
        pause(start + after_s)
        self.play.count(f"actions {verb}")
        self.saves += verb == "save"
        if verb in ("lose", "cut"):
            body, kind = multipart([*fields.items(), ("do", "send")], files)
            head = len(self.sender.bytes_of("POST", "/lite/compose", body, kind)) - len(body)
            self.sender.leave("/lite/compose", body, kind, head + (len(body) if verb == "lose" else int(share * len(body))))
        elif verb == "double":
            twin = threading.Thread(target=self.attempt, args=(fields, files, "send"))
            twin.start()
            self.attempt(fields, files, "send")
            twin.join()
        else:
            self.attempt(fields, files, verb)

    def attempt(self, fields, files, button):
        """Presses a button, and records the answer."""
        try:
            answer = self.post(fields, files, button)
        except Lost:
            self.said.append(f"{button}: no answer")
            self.play.count("answers lost")
            return
        said = answer.notice() or f"{answer.status} {' '.join(re.findall(r'role=.alert.><p>([^<]*)', answer.text()))}"
        self.said.append(f"{button}: {said}")
        is_held = said.startswith(HELD) and self.plan.hold_s > 0
        self.id = said.rpartition(".")[2] if is_held else self.id
        self.has_promise |= is_held or said in (SENT, BEFORE)
        self.is_draft |= said == SAVED
        is_refused = answer.status == 422 and (button == "save" or any(text in said for text in ("Nothing was sent", OTHER)))
        is_damaged = answer.status == 400 and button == "save" and "attachments are not here" in answer.text()
        if said not in (SENT, BEFORE, SAVED) and not is_held and answer.status not in NOT_NOW and not is_refused and not is_damaged:
            self.said.append(f"not expected: {answer.text()[:2000]}")

    def check(self):
        """Checks the message after the storm."""
        unexpected = [text for text in self.said if text.startswith("not expected")]
        if unexpected:
            raise Wrong(unexpected[0])
        arrived, drafts, copies = self.observe()
        if self.has_promise and not arrived:
            raise Wrong("it was acknowledged, and is lost")
        if self.is_draft and not arrived and not drafts:
            raise Wrong("it was saved, and is neither a draft nor has it arrived")
        if len(drafts) > 1 + self.saves or arrived and len(drafts) > self.saves:
            raise Wrong(f"there are {len(drafts)} drafts, and {len(arrived)} messages have arrived")
        self.check_files([*drafts, *arrived])
        if arrived:
            self.check_copy(copies, arrived)
        elif copies:
            raise Wrong("there is a copy of a message that was not sent")
        self.play.count("arrived in the storm" if arrived else "not sent in the storm")

    def observe(self):
        """Returns the messages that have arrived, the drafts and the copies. Nothing has changed while they were read."""
        while True:
            read = [self.arrived(), *(self.sender.messages(folder, self.plan.subject) for folder in ("Drafts", "Sent"))]
            if read[:2] == [self.arrived(), self.sender.messages("Drafts", self.plan.subject)]:
                return read

    def finish(self):
        """Repeats the form, and sends all drafts. Then the message has arrived once."""
        has_arrived = bool(self.arrived())
        for path in self.draft_paths():
            self.repeat(dict(Forms.fields(self.sender.page(path), "/lite/compose")), [], has_arrived)
            has_arrived = True
        self.repeat(*self.tabs[0], has_arrived)
        arrived = self.arrived()
        if not arrived:
            raise Wrong("it has not arrived after all")
        self.check_files(arrived)
        self.check_copy(self.sender.messages("Sent", self.plan.subject), arrived)
        self.play.expected[self.plan.subject] = 1

    def repeat(self, fields, files, has_arrived):
        """Sends a form. One whose answer was lost may still be under way, so that it arrives now."""
        answer = self.post(fields, files, "send")
        self.said.append(f"again: {answer.notice() or answer.status}")
        is_other = answer.status == 422 and OTHER in answer.text()
        if answer.notice() not in ([BEFORE] if has_arrived else [SENT, BEFORE]) and not (has_arrived and is_other):
            raise Wrong(f"the repetition was answered with {answer.notice() or answer.text()[:2000]!r}")

    def draft_paths(self):
        """Returns the addresses of the composer with the drafts of this message, from the folder with drafts."""
        number, _ = self.sender.folders().get("Drafts", (None, 0))
        if number is None:
            return []
        return re.findall(rf'href="(/lite/compose\?draft=\d+)">{self.plan.subject}<', self.sender.page(f"/lite/folder/{number}"))


class HeldForm(Form):
    """A message that is sent with the form of the web mail, waits there, and is perhaps withdrawn."""

    def __init__(self, play, sender, plan):
        super().__init__(play, sender, plan)
        self.undone = None
        self.is_withdrawn = False

    def storm(self, start):
        """Sends the message, and withdraws it at its moment."""
        self.play.count(f"held {self.plan.verb}")
        fields, files = self.tabs[0]
        if self.plan.verb == "lose":
            self.sender.leave("/lite/compose", *multipart([*fields.items(), ("do", "send")], files), None)
        twin = threading.Thread(target=self.attempt, args=(fields, files, "send"))
        if self.plan.verb == "double":
            twin.start()
        self.attempt(fields, files, "send")
        if self.plan.verb == "double":
            twin.join()
        released = time.monotonic() + self.plan.hold_s
        if self.plan.undo_s is not None and self.id:
            pause(released + self.plan.undo_s)
            self.undo()

    def undo(self):
        """Presses the button that withdraws the message, and records the answer."""
        try:
            answer = self.sender.post("/lite/compose/undo", [("token", self.tabs[0][0]["token"]), ("id", self.id)])
        except Lost:
            self.said.append("undo: no answer")
            return
        said = answer.notice() or answer.status
        self.said.append(f"undo: {said}")
        self.undone = {WITHDRAWN: True, TOO_LATE: False}.get(said)
        if self.undone is None and said not in NOT_NOW:
            raise Wrong(f"the undo was answered with {answer.status} {answer.text()[:2000]}")

    def check(self):
        """Checks the message after the storm. One that was accepted arrives, or it was withdrawn and is a draft."""
        unexpected = [text for text in self.said if text.startswith("not expected")]
        if unexpected:
            raise Wrong(unexpected[0])
        arrived, drafts, copies = self.settled()
        if len(drafts) + bool(arrived) > 1 or (self.has_promise or self.is_draft) and not arrived and not drafts:
            raise Wrong(f"there are {len(drafts)} drafts, and {len(arrived)} messages have arrived")
        if self.undone is not None and self.undone == bool(arrived):
            raise Wrong(f"the undo was answered with {self.undone}, and {len(arrived)} messages have arrived")
        self.is_withdrawn = self.id is not None and not arrived
        if self.is_withdrawn and not any(text.startswith("undo") for text in self.said):
            raise Wrong("it was acknowledged, and is a draft, and nobody has withdrawn it")
        self.check_files([*drafts, *arrived])
        if arrived:
            self.check_copy(copies, arrived)
        elif copies:
            raise Wrong("there is a copy of a message that was not sent")
        self.play.count("withdrawn from a form" if self.is_withdrawn else "held and not withdrawn")

    def settled(self):
        """Returns what `observe` does, when the message no longer waits. Its recipients get it one after another."""
        end = time.monotonic() + DELIVERY_TIME_MAX_S
        while True:
            try:
                arrived, drafts, copies = self.observe()
                if arrived or not copies:
                    return arrived, drafts, copies
                reason = Wrong("there is a copy, and it has not arrived")
            except Wrong as wrong:
                reason = wrong
            if time.monotonic() > end:
                raise reason
            time.sleep(0.05)

    def finish(self):
        """Repeats the form. The old form of a message that was withdrawn is refused before and after the draft is sent."""
        self.set_undo(0)
        if not self.is_withdrawn:
            super().finish()
            return
        self.repeat_old()
        paths = self.draft_paths()
        if len(paths) != 1:
            raise Wrong(f"it was withdrawn, and there are {len(paths)} drafts")
        self.repeat(dict(Forms.fields(self.sender.page(paths[0]), "/lite/compose")), [], False)
        self.repeat_old()
        arrived = self.arrived()
        self.check_files(arrived)
        self.check_copy(self.sender.messages("Sent", self.plan.subject), arrived)
        self.play.expected[self.plan.subject] = 1

    def repeat_old(self):
        """Sends the form of the message that was withdrawn, without its files, which would be saved with a draft."""
        fields = {name: value for name, value in self.tabs[0][0].items() if name not in ("keep", "draft")}
        answer = self.post(fields, [], "send")
        if answer.status != 422 or OLD not in answer.text() or OTHER not in answer.text():
            raise Wrong(f"the old form was answered with {answer.notice() or answer.text()[:2000]!r}")


class Submission(Letter):
    """A message that is sent over JMAP, perhaps later, and perhaps withdrawn."""

    def __init__(self, play, sender, plan):
        super().__init__(play, sender, plan)
        self.email = self.boxes = self.identity = self.id = None
        # All identifiers that answers have given to the submission.
        self.ids = set()
        self.undone = None

    def prepare(self):
        """Stores the draft."""
        self.boxes = self.sender.mailboxes()
        self.identity = self.sender.call("Identity/get", {"ids": None})["list"][0]["id"]
        draft = {"mailboxIds": {self.boxes["drafts"]["id"]: True}, "keywords": {"$draft": True, "$seen": True}, "from": [{"email": self.sender.login}],
                 "to": [{"email": recipient} for recipient in RECIPIENTS], "subject": self.plan.subject,
                 "bodyValues": {"t": {"value": "text"}}, "textBody": [{"partId": "t", "type": "text/plain"}]}
        if self.plan.file:
            draft["attachments"] = [{"blobId": self.sender.upload(self.plan.file), "type": "application/octet-stream", "name": "file.bin",
                                     "disposition": "attachment"}]
        done = self.sender.call("Email/set", {"create": {"d": draft}})
        self.email = (done.get("created") or {}).get("d", {}).get("id")
        if self.email is None:
            raise Wrong(f"the draft was refused: {done}")

    def arguments(self, hold_s):
        """Returns the arguments of the call that sends the message, and moves it to the sent ones."""
        sender = {"email": self.sender.login, "parameters": {"HOLDFOR": str(hold_s)} if hold_s else None}
        one = {"identityId": self.identity, "emailId": self.email, "envelope": {"mailFrom": sender, "rcptTo": [{"email": one} for one in RECIPIENTS]}}
        return {"create": {"s": one}, "onSuccessUpdateEmail": {"#s": self.patch("drafts", "sent", None)}}

    def patch(self, source, target, is_draft):
        """Returns the change that moves the message."""
        return {f"mailboxIds/{self.boxes[source]['id']}": None, f"mailboxIds/{self.boxes[target]['id']}": True, "keywords/$draft": is_draft}

    def storm(self, start):
        """Sends the message, and withdraws it at its moment."""
        self.play.count(f"submissions {self.plan.verb}")
        if self.plan.verb == "double":
            twin = threading.Thread(target=self.submit)
            twin.start()
            self.submit()
            twin.join()
        else:
            if self.plan.verb == "lose":
                self.lose()
            self.submit()
        released = time.monotonic() + self.plan.hold_s
        if self.plan.undo_s is not None and self.id:
            pause(released + self.plan.undo_s)
            self.undo()

    def submit(self):
        """Sends the message, and records the answer."""
        try:
            done = self.sender.calls(("EmailSubmission/set", self.arguments(self.plan.hold_s)))[0][1]
        except Lost:
            self.said.append("send: no answer")
            self.play.count("answers lost")
            return
        created = (done.get("created") or {}).get("s")
        self.said.append(f"send: {created['id'] if created else done}")
        if created:
            self.ids.add(created["id"])
            self.id = created["id"]

    def lose(self):
        """Sends the message without reading the answer."""
        self.sender.leave_calls(("EmailSubmission/set", self.arguments(self.plan.hold_s)))

    def undo(self):
        """Withdraws the message, and moves it back to the drafts."""
        arguments = {"update": {self.id: {"undoStatus": "canceled"}}, "onSuccessUpdateEmail": {self.id: self.patch("sent", "drafts", True)}}
        try:
            done = self.sender.calls(("EmailSubmission/set", arguments))[0][1]
        except Lost:
            self.said.append("undo: no answer")
            return
        self.said.append(f"undo: {done.get('updated') or done.get('notUpdated')}")
        if self.id in (done.get("updated") or {}):
            self.undone = True
        elif (done.get("notUpdated") or {}).get(self.id, {}).get("type") == "cannotUnsend":
            self.undone = False
        else:
            raise Wrong(f"the undo was answered with {done}")

    def status(self):
        """Returns the status of the submission, or None if there is none. There is at most one."""
        found = self.sender.call("EmailSubmission/query", {"filter": {"emailIds": [self.email]}})["ids"]
        if len(found) > 1:
            raise Wrong(f"there are {len(found)} submissions")
        if not found:
            return None
        self.id = self.id or found[0]
        return self.sender.call("EmailSubmission/get", {"ids": found})["list"][0]["undoStatus"]

    def check(self):
        """Checks the message after the storm. One that was accepted is withdrawn or arrives."""
        if len(self.ids) > 1:
            raise Wrong(f"it was accepted as {' and as '.join(sorted(self.ids))}")
        refused = [said for said in self.said if said.startswith("send: {")]
        if refused:
            raise Wrong(f"it was refused: {refused[0]}")
        status = self.status()
        if status is None and self.id:
            raise Wrong("it was acknowledged, and is lost")
        if status is None:
            return
        end = time.monotonic() + DELIVERY_TIME_MAX_S
        while status == "pending" and time.monotonic() < end:
            time.sleep(0.05)
            status = self.status()
        if status not in ("final", "canceled"):
            raise Wrong(f"its status is {status}")
        if self.undone is not None and self.undone != (status == "canceled"):
            raise Wrong(f"the undo was answered with {self.undone}, and the status is {status}")
        self.play.count("withdrawn" if status == "canceled" else "not withdrawn")
        while status == "final" and not any(recipient.messages("INBOX", self.plan.subject) for recipient in self.play.recipients):
            if time.monotonic() > end:
                raise Wrong("it has not arrived")
            time.sleep(0.05)

    def finish(self):
        """Repeats what had no answer. Then the message has arrived once, or it was withdrawn and is a draft."""
        status = self.status()
        if status != "canceled":
            known = self.id
            done = self.sender.call("EmailSubmission/set", self.arguments(self.plan.hold_s))
            created = (done.get("created") or {}).get("s", {}).get("id")
            if created is None or known not in (None, created):
                raise Wrong(f"the repetition was answered with {done} and not with {known}")
            self.id = created
            self.undone = self.plan.undo_s = None
            self.check()
        arrived = self.arrived_at_last(status)
        if bool(arrived) == (status == "canceled"):
            raise Wrong(f"the status is {status}, and {len(arrived)} messages have arrived")
        copies = [message for folder in ("Drafts", "Sent") for message in self.sender.messages(folder, self.plan.subject)]
        if len(copies) != 1:
            raise Wrong(f"there are {len(copies)} copies")
        if self.undone and not self.sender.messages("Drafts", self.plan.subject):
            raise Wrong("it was withdrawn, and is no draft")
        self.check_files([*copies, *arrived])
        if arrived:
            self.check_copy(self.sender.messages("Sent", self.plan.subject), arrived)
        self.play.expected[self.plan.subject] = int(bool(arrived))

    def arrived_at_last(self, status):
        """Returns the messages that have arrived. The recipients of a message that has waited get it one after another."""
        end = time.monotonic() + DELIVERY_TIME_MAX_S
        while True:
            try:
                return self.arrived()
            except Wrong:
                if status == "canceled" or time.monotonic() > end:
                    raise
                time.sleep(0.05)


def pause(until):
    """Waits until a moment."""
    time.sleep(max(0.0, until - time.monotonic()))
