"""The peer that speaks JMAP: Cyrus IMAP of Debian, in a folder of its own, on unprivileged ports of the loopback address.

It has the defaults of its package, with what JMAP needs: conversations, the full-text index (Xapian) with its rolling indexer, and
the module `jmap`. Passwords are in SASL's own database. Debian's package of `imapd` and the indexer cannot be installed
beside that of Dovecot, so it is fetched and unpacked into the folder with the builds, and copied from there.
"""

import glob
import imaplib
import os
import pwd
import shutil
import subprocess

from harness.processes import Family, wait_for

from .letters import FIRST_TIME, INTERVAL_S
from .peers import PASSWORD, free_ports, listens
from .web_peers import make_certificate, missing_files

PROGRAMS = "/usr/lib/cyrus/bin"
PACKAGE = "cyrus-imapd"
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "doublet", PACKAGE)
OWNER, GROUP = "cyrus", "mail"
FOLDER = "Projects"

SETTINGS = """
configdirectory: {folder}/lib
proc_path: {folder}/proc
mboxname_lockpath: {folder}/lock
defaultpartition: default
partition-default: {folder}/spool
altnamespace: yes
unixhierarchysep: yes
lmtp_downcase_rcpt: yes
admins: admin
allowanonymouslogin: no
umask: 077
hashimapspool: true
allowplaintext: yes
sasl_pwcheck_method: auxprop
sasl_auxprop_plugin: sasldb
sasl_sasldb_path: {folder}/passwords
sasl_mech_list: PLAIN
lmtpsocket: {folder}/lmtp
idlesocket: {folder}/idle
notifysocket: {folder}/notify
syslog_prefix: cyrus
servername: localhost
tls_server_cert: {folder}/certificate.pem
tls_server_key: {folder}/key.pem
autocreate_quota: 0
autocreate_inbox_folders: Drafts|Sent|Trash|{box}
xlist-drafts: Drafts
xlist-sent: Sent
xlist-trash: Trash
httpmodules: jmap
conversations: yes
conversations_db: twoskip
search_engine: xapian
search_index_headers: no
defaultsearchtier: t1
t1searchpartition-default: {folder}/search
sync_log: yes
sync_log_channels: squatter
"""

SERVICES = """
START {{
  recover cmd="{programs}/ctl_cyrusdb -C {folder}/imapd.conf -r"
}}
SERVICES {{
  imap cmd="{folder}/programs/imapd -C {folder}/imapd.conf -U 30" listen="127.0.0.1:{imap}" prefork=0 maxchild=200
  http cmd="{programs}/httpd -C {folder}/imapd.conf -U 30" listen="127.0.0.1:{http}" prefork=0 maxchild=2000
  https cmd="{programs}/httpd -C {folder}/imapd.conf -s -U 30" listen="127.0.0.1:{https}" prefork=0 maxchild=2000
  lmtp cmd="{programs}/lmtpd -C {folder}/imapd.conf -a" listen="127.0.0.1:{lmtp}" prefork=0 maxchild=20
}}
EVENTS {{
}}
DAEMON {{
  idled cmd="{folder}/programs/idled -C {folder}/imapd.conf"
  squatter cmd="{folder}/programs/squatter -C {folder}/imapd.conf -R"
}}
"""


class Cyrus:
    """Cyrus IMAP with its module for JMAP."""

    name = "Cyrus"
    password = PASSWORD

    def __init__(self, folder):
        self.folder = folder
        self.family = None
        self.ports = dict(zip(("imap", "http", "https", "lmtp"), free_ports(4)))
        for part in ("lib/socket", "spool", "proc", "lock", "search"):
            os.makedirs(f"{folder}/{part}")
        shutil.copytree(unpacked(), f"{folder}/programs")
        self._write("imapd.conf", SETTINGS.format(folder=folder, box=FOLDER))
        self._write("cyrus.conf", SERVICES.format(folder=folder, programs=PROGRAMS, **self.ports))
        make_certificate(folder)
        self.add_user("admin")
        subprocess.run(["chown", "-R", f"{OWNER}:{GROUP}", folder], check=True)

    @staticmethod
    def missing():
        """Returns what is missing on this machine, or None."""
        missing = missing_files({"cyrus-common": f"{PROGRAMS}/master", "cyrus-caldav": f"{PROGRAMS}/httpd", "sasl2-bin": "/usr/sbin/saslpasswd2"})
        return missing or (None if unpacked() else PACKAGE)

    def add_user(self, name):
        """Adds a login."""
        subprocess.run(["/usr/sbin/saslpasswd2", "-p", "-c", "-f", f"{self.folder}/passwords", "-u", "localhost", name], input=PASSWORD.encode(), check=True)

    def start(self):
        """Starts the server and waits until it listens."""
        words = [f"{PROGRAMS}/master", "-C", f"{self.folder}/imapd.conf", "-M", f"{self.folder}/cyrus.conf", "-p", f"{self.folder}/master.pid", "-D"]
        self.family = Family("cyrus", words, f"{self.folder}/master.out")
        for port in self.ports.values():
            wait_for(f"an answer on port {port}", lambda port=port: listens(port), 30)

    def start_with_users(self, _users):
        """Starts the server. Users are added when their mailboxes are filled."""
        self.start()

    def stop(self):
        """Stops the server."""
        if self.family:
            self.family.stop()
            self.family = None

    def port(self, protocol):
        """Returns the port of `imap`, `http`, `https` or `lmtp`."""
        return self.ports[protocol]

    def cpu_seconds(self):
        """Returns the processor time of all its processes."""
        return self.family.cpu_seconds()

    def memory_kb(self):
        """Returns the memory of all its processes."""
        return self.family.memory_kb()

    def load(self, number, contents, is_indexed=True):
        """Fills the inbox of a user with messages, as a restored backup: files that `reconstruct` takes over. The full-text index is brought up to date if
        it is needed.
        """
        self.add_user(f"{number}bench")
        client = imaplib.IMAP4("127.0.0.1", self.port("imap"))
        client.login(f"{number}bench", PASSWORD)
        client.logout()
        path = self._execute(f"{PROGRAMS}/mbpath", f"user/{number}bench").strip()
        for index, content in enumerate(contents, 1):
            with open(f"{path}/{index}.", "wb") as out:
                out.write(content)
            moment = FIRST_TIME + INTERVAL_S * index
            os.utime(out.name, (moment, moment))
        subprocess.run(["chown", "-R", f"{OWNER}:{GROUP}", path], check=True)
        self._execute(f"{PROGRAMS}/reconstruct", f"user/{number}bench")
        if is_indexed:
            self._execute(f"{self.folder}/programs/squatter", "-i", "-r", f"user/{number}bench")

    def _execute(self, program, *words):
        command = [program, "-C", f"{self.folder}/imapd.conf", *words]
        owner = pwd.getpwnam(OWNER)
        return subprocess.run(command, capture_output=True, text=True, check=True, user=owner.pw_uid, group=owner.pw_gid, extra_groups=[]).stdout

    def _write(self, name, text):
        with open(f"{self.folder}/{name}", "w", encoding="ascii") as out:
            out.write(text)


def unpacked():
    """Returns the folder with the programs of the package that Debian does not install beside Dovecot, or None.

    The package is fetched once. The system's folders are not changed.
    """
    programs = f"{CACHE}/usr/lib/cyrus/bin"
    if not os.path.exists(f"{programs}/imapd"):
        if not shutil.which("apt-get"):
            return None
        os.makedirs(CACHE, exist_ok=True)
        if subprocess.run(["apt-get", "download", "-qq", PACKAGE], cwd=CACHE, check=False, capture_output=True).returncode:
            return None
        subprocess.run(["dpkg", "-x", glob.glob(f"{CACHE}/*.deb")[0], CACHE], check=True)
    return programs
