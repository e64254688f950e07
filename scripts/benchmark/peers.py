"""The peers: Debian's Postfix and Dovecot, in a folder of their own, on the loopback address, on unprivileged ports.

They run with their defaults (syncing, process model, logging), with these exceptions: each of the 5,000 users logs in
with the same password, and the limits that would stop thousands of connections from one address are raised. Their user
lookups are tables without cost, which favours them. The configuration of the system is neither read nor changed.
"""

import os
import pwd
import shutil
import socket
import subprocess

from harness.processes import Family, wait_for

USERS = 5_000
DOMAIN = "bench.test"
PASSWORD = "bench-secret"

DOVECOT = """
base_dir = {folder}/dovecot-run
state_dir = {folder}/dovecot-state
log_path = {folder}/dovecot.log
protocols = imap lmtp
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
mail_location = maildir:{folder}/mail/%n
mail_uid = {uid}
mail_gid = {gid}
first_valid_uid = 1
auth_username_format = %Ln
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/mail/%n allow_all_users=yes
}}
namespace inbox {{
  inbox = yes
}}
mail_max_userip_connections = 20000
default_client_limit = 30000
default_process_limit = 20000
service imap-login {{
  process_limit = 20000
  inet_listener imap {{
    port = {imap_port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service imap {{
  process_limit = 20000
}}
service anvil {{
  client_limit = 60000
}}
service auth {{
  client_limit = 60000
}}
service lmtp {{
  unix_listener lmtp {{
    mode = 0666
  }}
}}
"""

POSTFIX = """
compatibility_level = 3.6
queue_directory = {folder}/postfix-queue
data_directory = {folder}/postfix-data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
shlib_directory = /usr/lib/postfix
meta_directory = /etc/postfix
mail_owner = postfix
setgid_group = postdrop
myhostname = mx.bench.test
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
alias_maps =
alias_database =
local_recipient_maps =
virtual_mailbox_domains = {domain}
virtual_mailbox_maps = texthash:{folder}/postfix/users
virtual_transport = lmtp:unix:{folder}/dovecot-run/lmtp
smtpd_relay_restrictions = permit_mynetworks, reject_unauth_destination
smtpd_tls_security_level = none
maillog_file = {folder}/postfix.log
maillog_file_prefixes = {folder}
"""


class Peers:
    """Postfix in front of Dovecot."""

    name = "Postfix + Dovecot"
    password = PASSWORD

    def __init__(self, folder):
        self.folder = folder
        self.families = []
        self.ports = dict(zip(("smtp", "imap"), free_ports(2)))
        owner = pwd.getpwnam("nobody")
        os.makedirs(f"{folder}/mail")
        os.chown(f"{folder}/mail", owner.pw_uid, owner.pw_gid)
        self.owner = owner
        self._write_dovecot(owner)
        self._write_postfix()

    @staticmethod
    def versions():
        """Returns the versions of the peers."""
        dovecot = subprocess.run(["dovecot", "--version"], capture_output=True, text=True, check=True).stdout.split()[0]
        postfix = subprocess.run(["postconf", "-dh", "mail_version"], capture_output=True, text=True, check=True).stdout.strip()
        return f"Postfix {postfix}, Dovecot {dovecot}"

    @staticmethod
    def user(number):
        """Returns the login of a user, counted from 1. The number comes first, as `smtp-source -N` requires."""
        return f"{number}bench"

    def maildir(self, number):
        """Returns the mail folder of a user."""
        return f"{self.folder}/mail/{self.user(number)}"

    def start(self):
        """Starts both servers and waits until they answer."""
        dovecot = Family("dovecot", ["dovecot", "-F", "-c", f"{self.folder}/dovecot.conf"], f"{self.folder}/dovecot.out")
        postfix = Family("postfix", ["postfix", "-c", f"{self.folder}/postfix", "start-fg"], f"{self.folder}/postfix.out")
        self.families = [dovecot, postfix]
        for port in self.ports.values():
            wait_for(f"an answer on port {port}", lambda port=port: answers(port), 30)

    def start_with_users(self, _users):
        """Starts both servers. They accept any user."""
        self.start()

    def stop(self):
        """Stops both servers."""
        for family in self.families:
            family.stop()
        self.families = []

    def cpu_seconds(self):
        """Returns the processor time of all their processes."""
        return sum(family.cpu_seconds() for family in self.families)

    def memory_kb(self):
        """Returns the memory of the processes that serve IMAP."""
        return self.families[0].memory_kb()

    def port(self, protocol):
        """Returns the port of `smtp` or `imap`."""
        return self.ports[protocol]

    def settle(self):
        """Does nothing: all data is in the mailbox files already."""

    def load(self, number, count, mbox):
        """Fills a user's inbox with the messages of an mbox, as files that another program has delivered."""
        folder = f"{self.maildir(number)}/cur"
        for part in ("cur", "new", "tmp"):
            os.makedirs(f"{self.maildir(number)}/{part}", exist_ok=True)
        for index, content in enumerate(messages(mbox), 1):
            _write_bytes(f"{folder}/{1_700_000_000 + index}.M{index}.bench:2,S", content)
        assert index == count, f"{mbox} holds {index} messages"
        subprocess.run(["chown", "-R", f"{self.owner.pw_uid}:{self.owner.pw_gid}", self.maildir(number)], check=True)

    def idle(self):
        """Returns True if all accepted mail is in its mailboxes: the queue contains no file."""
        for queue in ("maildrop", "incoming", "active", "deferred"):
            for _, _, files in os.walk(f"{self.folder}/postfix-queue/{queue}"):
                if files:
                    return False
        return True

    def stored(self):
        """Returns the number of messages in all mailboxes."""
        count = 0
        for folder, _, files in os.walk(f"{self.folder}/mail"):
            if os.path.basename(folder) in ("new", "cur"):
                count += len(files)
        return count

    def disk_bytes(self):
        """Returns the disk usage of the mailboxes in bytes."""
        out = subprocess.run(["du", "-s", "--block-size=1", f"{self.folder}/mail"], capture_output=True, text=True, check=True)
        return int(out.stdout.split()[0])

    def _write_dovecot(self, owner):
        text = DOVECOT.format(folder=self.folder, uid=owner.pw_uid, gid=owner.pw_gid, password=PASSWORD, imap_port=self.port("imap"))
        _write(f"{self.folder}/dovecot.conf", text)

    def _write_postfix(self):
        folder = self.folder
        for part in ("postfix", "postfix-queue", "postfix-data"):
            os.makedirs(f"{folder}/{part}")
        shutil.chown(f"{folder}/postfix-data", "postfix")
        _write(f"{folder}/postfix/main.cf", POSTFIX.format(folder=folder, domain=DOMAIN))
        _write(f"{folder}/postfix/users", "".join(f"{self.user(n)}@{DOMAIN} ok\n" for n in range(0, USERS + 1)))
        master = _master(self.port("smtp"))
        _write(f"{folder}/postfix/master.cf", master)


def _master(smtp_port):
    """Returns Debian's master.cf with the given port and without chroot."""
    lines = []
    with open("/usr/share/postfix/master.cf.dist", encoding="ascii") as original:
        for line in original:
            if line.startswith("smtp ") and " inet " in line:
                line = f"127.0.0.1:{smtp_port} inet n - n - - smtpd\n"
            elif line[:1].isalpha():
                fields = line.split(None, 7)
                fields[4] = "n"
                line = " ".join(fields).rstrip("\n") + "\n"
            lines.append(line)
    return "".join(lines)


def messages(mbox):
    """Yields the messages of an mbox."""
    with open(mbox, "rb") as lines:
        current = None
        for line in lines:
            if line.startswith(b"From "):
                if current is not None:
                    yield b"".join(current[:-1])
                current = []
            else:
                current.append(line[1:] if line.startswith(b">From ") else line)
        if current is not None:
            yield b"".join(current[:-1])


def free_ports(count):
    """Returns unused ports."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def answers(port):
    """Returns True if a server on the port sends a greeting."""
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as peer:
            peer.settimeout(5)
            return bool(peer.recv(3))
    except OSError:
        return False


def listens(port):
    """Returns True if a server accepts connections on the port."""
    try:
        socket.create_connection(("127.0.0.1", port), 2).close()
        return True
    except OSError:
        return False


def _write(path, text):
    with open(path, "w", encoding="ascii") as out:
        out.write(text)


def _write_bytes(path, content):
    with open(path, "wb") as out:
        out.write(content)
