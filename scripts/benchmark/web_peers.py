"""The peers of the web mail: Roundcube behind nginx and PHP-FPM, and nginx alone. They are Debian's packages, in folders of
their own, on unprivileged ports of the loopback address.

Roundcube has Dovecot and Postfix below it, set up as for the other measurements, SQLite for its own data, and the defaults of
its package, with these exceptions: nginx compresses style sheets and scripts too, which Debian leaves to the operator, and
lets browsers keep them; the folders of a mailbox are created at the first login. nginx speaks TLS with a certificate of
its own. The configuration of the system is neither read nor changed, except PHP's own settings.
"""

import glob
import os
import shutil
import sqlite3
import subprocess

from harness.processes import Family, wait_for

from .peers import Peers, free_ports, listens

# The name has the version of PHP.
PHP_FPM = max(glob.glob("/usr/sbin/php-fpm*"), default="/usr/sbin/php-fpm")
NGINX = "/usr/sbin/nginx"
PROGRAM = "/var/lib/roundcube"
WEB_USER = "www-data"

CONFIG = """<?php
$config = [];
$config['db_dsnw'] = 'sqlite:///{folder}/roundcube/data.sqlite?mode=0640';
$config['imap_host'] = '127.0.0.1:{imap}';
$config['smtp_host'] = '127.0.0.1:{smtp}';
$config['smtp_user'] = '';
$config['smtp_pass'] = '';
$config['mail_domain'] = 'bench.test';
$config['des_key'] = 'a-key-of-24-bytes-bench!';
$config['temp_dir'] = '{folder}/roundcube/temp';
$config['log_dir'] = '{folder}/roundcube/logs';
$config['create_default_folders'] = true;
$config['plugins'] = [];
$config['skin'] = 'elastic';
$config['enable_spellcheck'] = false;
$config['language'] = 'en_US';
"""

PHP = """
[global]
error_log = {folder}/php-fpm.log
daemonize = no
[www]
user = {user}
group = {user}
listen = {folder}/php.sock
listen.owner = {user}
listen.group = {user}
pm = dynamic
pm.max_children = 5
pm.start_servers = 2
pm.min_spare_servers = 1
pm.max_spare_servers = 3
env[ROUNDCUBE_CONFIG_DIR] = {folder}/roundcube/config
php_admin_value[session.save_path] = {folder}/roundcube/temp
"""

NGINX_COMMON = """
user {user};
worker_processes auto;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;
events {{ worker_connections 768; }}
http {{
    sendfile on;
    tcp_nopush on;
    types_hash_max_size 2048;
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    ssl_prefer_server_ciphers on;
    ssl_certificate {folder}/certificate.pem;
    ssl_certificate_key {folder}/key.pem;
    access_log {folder}/nginx-access.log;
    client_body_temp_path {folder}/nginx-body;
    proxy_temp_path {folder}/nginx-proxy;
    fastcgi_temp_path {folder}/nginx-fastcgi;
    uwsgi_temp_path {folder}/nginx-uwsgi;
    scgi_temp_path {folder}/nginx-scgi;
    gzip on;
    gzip_types text/css text/javascript application/javascript application/json image/svg+xml text/plain;
    keepalive_requests 100000;
    server {{
        listen 127.0.0.1:{https} ssl http2;
        server_name localhost;
        {rest}
    }}
}}
"""

ROUNDCUBE_SITE = """
        root {program}/public_html;
        index index.php;
        client_max_body_size 50m;
        location ~ \\.php$ {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_pass unix:{folder}/php.sock;
        }}
        location ~* \\.(css|js|png|svg|gif|ico|woff2?|ttf)$ {{ expires 30d; }}
"""


class Nginx:
    """nginx over TLS, which serves the files of a folder."""

    name = "nginx"

    def __init__(self, folder, site=None):
        self.folder = folder
        self.https = free_ports(1)[0]
        self.family = None
        make_certificate(folder)
        os.makedirs(f"{folder}/files")
        rest = site or f"root {folder}/files;"
        with open(f"{folder}/nginx.conf", "w", encoding="ascii") as out:
            out.write(NGINX_COMMON.format(folder=folder, user=WEB_USER, https=self.https, rest=rest))

    def start(self):
        """Starts nginx and waits until it listens."""
        self.family = Family("nginx", [NGINX, "-c", f"{self.folder}/nginx.conf", "-p", self.folder, "-e", f"{self.folder}/nginx-error.log"],
                             f"{self.folder}/nginx.out")
        wait_for("nginx", lambda: listens(self.https), 30)

    def start_with_users(self, _users):
        """Starts nginx."""
        self.start()

    def stop(self):
        """Stops nginx."""
        if self.family:
            self.family.stop()
            self.family = None

    def cpu_seconds(self):
        """Returns the processor time of all its processes."""
        return self.family.cpu_seconds()


class Roundcube(Peers):
    """Roundcube on Dovecot and Postfix."""

    name = "Roundcube"

    def __init__(self, folder):
        super().__init__(folder)
        self.nginx = Nginx(folder, ROUNDCUBE_SITE.format(program=PROGRAM, folder=folder))
        for part in ("config", "temp", "logs"):
            os.makedirs(f"{folder}/roundcube/{part}")
        with open(f"{folder}/roundcube/config/config.inc.php", "w", encoding="ascii") as out:
            out.write(CONFIG.format(folder=folder, imap=self.port("imap"), smtp=self.port("smtp")))
        with sqlite3.connect(f"{folder}/roundcube/data.sqlite") as data, open("/usr/share/roundcube/SQL/sqlite.initial.sql", encoding="utf-8") as schema:
            data.executescript(schema.read())
        for name in ("defaults.inc.php", "mimetypes.php"):
            os.symlink(f"/etc/roundcube/{name}", f"{folder}/roundcube/config/{name}")
        subprocess.run(["chown", "-R", f"{WEB_USER}:{WEB_USER}", f"{folder}/roundcube"], check=True)
        with open(f"{folder}/php-fpm.conf", "w", encoding="ascii") as out:
            out.write(PHP.format(folder=folder, user=WEB_USER))

    @staticmethod
    def missing():
        """Returns what is missing on this machine, or None."""
        return missing_files({"roundcube-core": PROGRAM, "php-fpm": PHP_FPM, "nginx": NGINX, "postfix": "/usr/sbin/postfix", "dovecot-imapd": "/usr/lib/dovecot/imap"})

    def start(self):
        """Starts all servers and waits until the login page is there."""
        super().start()
        self.families.append(Family("php-fpm", [PHP_FPM, "-F", "-y", f"{self.folder}/php-fpm.conf"], f"{self.folder}/php-fpm.out"))
        wait_for("php-fpm", lambda: os.path.exists(f"{self.folder}/php.sock"), 30)
        self.nginx.start()
        self.families.append(self.nginx.family)

    def port(self, protocol):
        """Returns the port of `smtp`, `imap` or `https`."""
        return self.nginx.https if protocol == "https" else super().port(protocol)


def make_certificate(folder):
    """Creates a certificate for `localhost`, with a key as Doublet's is."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-keyout", f"{folder}/key.pem", "-out", f"{folder}/certificate.pem"],
                   check=True, capture_output=True)
    shutil.chown(f"{folder}/key.pem", WEB_USER)


def missing_files(files):
    """Returns the names of the packages whose files are missing, or None."""
    names = sorted(package for package, path in files.items() if not os.path.exists(path))
    return ", ".join(names) or None


