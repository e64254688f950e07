"""Mail between users of different servers while things fail: each message must arrive exactly once.

Bob, Carol and Dora have their mail files on one server each, and on no other. Ann's is shared. So a message for one of
the three that another server accepts is forwarded, and one for Ann is delivered where it was accepted. A message that is
being forwarded while one of the two servers is killed may arrive twice (docs/mail-flow.md, "Other servers of the
domain"), and one that was accepted or delivered after the copy to which a server is set back may be lost with it. These
are counted apart.
"""

import re
import smtplib
import ssl
from collections import Counter
from json import loads

from harness.processes import wait_for

# The server of each user, as the place in the list of servers.
HOMES = {"dora": 0, "bob": 1, "carol": 2}
SHARED = "ann"
PATIENCE_S = 20
AHEAD_S = 2 * 86_400
# Servers try again soon. Their clocks are wrong by days, and nothing may be returned because of that.
SETTINGS = {"router.retry_first": "1s", "router.retry_max": "4s", "router.expiry": "30d", "router.delay_warning": "0s"}
SUBJECT = re.compile(r"mail (\d+) end")


class Message:
    """A message that a server has accepted, and the recipients to whom it may come twice, or not at all."""

    def __init__(self, member, recipients):
        self.member = member
        self.recipients = recipients
        self.may_repeat, self.may_vanish = set(), set()


class Deliveries:
    """The messages that users send each other."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.random = cluster.random
        # The accepted messages by number, the numbers of those that may be in a queue, and of those that were finished and
        # those that were in queues when a server's data were copied.
        self.messages, self.open, self.copied = {}, set(), {}

    def prepare(self):
        """Adds the users, each on the server that has the mail file."""
        for user, place in HOMES.items():
            self.cluster.members[place].server.add_user(f"{user}@{self.cluster.domain}", self.cluster.password)

    def home(self, user):
        """Returns the server that has the mail file of a user."""
        return self.cluster.members[HOMES[user]]

    def send(self, member):
        """Lets a user of a server send a message to others. Returns its number, or None if it was refused."""
        sender = self.random.choice([SHARED] + [user for user in HOMES if self.home(user) is member])
        others = [user for user in (SHARED, *HOMES) if user != sender]
        recipients = self.random.sample(others, self.random.randint(1, 3))
        number = self.cluster.number()
        addresses = [f"{user}@{self.cluster.domain}" for user in recipients]
        size = self.random.choice((100, 10_000, 200_000))
        text = f"From: {sender}@{self.cluster.domain}\r\nTo: {', '.join(addresses)}\r\nSubject: mail {number} end\r\n\r\n"
        try:
            with smtplib.SMTP(*member.server.address("submission"), timeout=PATIENCE_S) as client:
                context = ssl.create_default_context()
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                client.starttls(context=context)
                client.login(f"{sender}@{self.cluster.domain}", self.cluster.password)
                refused = client.sendmail(f"{sender}@{self.cluster.domain}", addresses, text + "x" * size + "\r\n")
        except (OSError, smtplib.SMTPException) as error:
            self.cluster.counts["refused mail"] += 1
            self.cluster.note(f"mail {number} of {sender} was refused by {member.host}: {error}")
            return None
        accepted = {user for user, address in zip(recipients, addresses, strict=True) if address not in refused}
        self.messages[number] = Message(member, accepted)
        self.open.add(number)
        self.cluster.counts["mail"] += 1
        return number

    def place(self, message, user):
        """Returns the server that delivers a message to a recipient."""
        return message.member if user == SHARED else self.home(user)

    def parts(self):
        """Yields the messages with their numbers, for each recipient."""
        for number, message in self.messages.items():
            for user in message.recipients:
                yield number, message, user

    def unfinished(self, member):
        """Returns the numbers of the messages that wait in the queue of a server."""
        numbers = set()
        for row in loads(member.server.command("queue", "list", "--json")):
            try:
                header = loads(member.server.command("queue", "show", row["id"], "--json"))["header"]
            except RuntimeError:
                # It has been delivered meanwhile.
                continue
            numbers |= {int(number) for number in SUBJECT.findall("\n".join(header))}
        return numbers

    def refresh(self):
        """Finds out which messages are finished."""
        if self.open:
            self.open &= set().union(*(self.unfinished(member) for member in self.cluster.members))

    def send_ahead(self):
        """Sends mail from a server whose clock is ahead to one that is down, and sets the clock right.

        The times of the next attempts are those of the clock that was wrong.
        """
        sender, target = self.random.sample(self.cluster.members, 2)
        user = next(user for user in HOMES if self.home(user) is target)
        self.cluster.set_clock(sender, AHEAD_S)
        self.cluster.kill(target)
        number = None
        while number is None or user not in self.messages[number].recipients:
            number = self.send(sender) or number
        wait_for("a first attempt", lambda: self.last_replies(sender), PATIENCE_S)
        self.cluster.set_clock(sender, 0)
        target.server.start()

    @staticmethod
    def last_replies(member):
        """Returns the replies to the attempts to deliver what waits on a server."""
        return [row["last_reply"] for row in loads(member.server.command("queue", "list", "--json")) if row["last_reply"]]

    def before_kill(self, member):
        """Remembers the messages that may be on their way from or to a server that is killed."""
        for number, message, user in self.parts():
            place = self.place(message, user)
            if number in self.open and place is not message.member and member in (place, message.member):
                message.may_repeat.add(user)

    def before_copy(self, member):
        """Remembers the messages that are finished, and those that are in queues, when the data of a server are copied."""
        self.refresh()
        self.copied[member.name] = set(self.messages) - self.open, self.open.copy()

    def before_restore(self, member):
        """Remembers the messages that may be lost or sent again, because a server is set back to the copy of its data."""
        finished, queued = self.copied[member.name]
        for number, message, user in self.parts():
            if self.place(message, user) is member and number not in finished:
                message.may_vanish.add(user)
            if message.member is member and number in self.open:
                message.may_vanish.add(user)
            if message.member is member and number in queued:
                message.may_repeat.add(user)

    def inboxes(self):
        """Returns the number of copies of each message in the inbox of each user."""
        found = {}
        for user in (SHARED, *HOMES):
            members = self.cluster.members if user == SHARED else [self.home(user)]
            for member in members:
                found[user, member.host] = self.inbox(member, user)
        return found

    def inbox(self, member, user):
        """Returns the number of copies of each message in an inbox."""
        client = self.cluster.login(member, user)
        subjects = []
        if client.select("INBOX")[1] != [b"0"]:
            parts = client.fetch("1:*", "(BODY.PEEK[HEADER.FIELDS (SUBJECT)])")[1]
            subjects = [part[1].decode(errors="replace") for part in parts if isinstance(part, tuple)]
        client.logout()
        return Counter(int(number) for subject in subjects for number in SUBJECT.findall(subject))

    def missing(self):
        """Returns the messages that have not arrived, as texts."""
        return [text for text, count in self.wrong_counts() if count == 0]

    def wrong_counts(self):
        """Yields the messages that did not arrive exactly once, as texts, with the number of copies."""
        for (user, host), counts in self.inboxes().items():
            for number, message in self.messages.items():
                if user not in message.recipients:
                    continue
                count = counts[number]
                if (count > 1 and user not in message.may_repeat) or (count == 0 and user not in message.may_vanish):
                    yield f"mail {number} from {message.member.host} is {count} times in the inbox of {user} on {host}", count

    def faults(self):
        """Yields what is wrong."""
        for text, _ in self.wrong_counts():
            yield text
        for member in self.cluster.members:
            if waiting := self.unfinished(member):
                yield f"mail {sorted(waiting)} waits on {member.host}"

    def exact(self):
        """Returns for how many messages and recipients there is no exception, and the number of all."""
        parts = list(self.parts())
        return sum(user not in message.may_repeat | message.may_vanish for _, message, user in parts), len(parts)
