"""Runs nginx with the files of deploy/nginx in front of a project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from project.ports import free_port
from tests.machine import needs
from tests.story.project import ROOT, Project

SHIPPED = ROOT / "deploy" / "nginx"
#: Files that operators use unchanged; the other files are templates.
UNCHANGED = ("manyhands.conf", "manyhands/proxy.conf")
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@dataclass
class Front:
    """An nginx: its ports, certificate and log files."""

    folder: Path
    https_port: int
    http_port: int

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.https_port}/"

    @property
    def http_url(self) -> str:
        """The address that redirects to HTTPS."""
        return f"http://127.0.0.1:{self.http_port}/"

    @property
    def certificate(self) -> Path:
        """The self-signed certificate."""
        return self.folder / "fullchain.pem"

    @property
    def log(self) -> Path:
        return self.folder / "access.log"

    @property
    def error_log(self) -> Path:
        return self.folder / "error.log"

    @property
    def words(self) -> list[str]:
        """The command line, without options for an action."""
        return [nginx(), "-e", str(self.error_log), "-c", str(self.folder / "nginx.conf")]

    def lines(self) -> list[tuple[str, str, int]]:
        """Return (method, path, status) of each request so far."""
        found = re.findall(r'"(\S+) (.*?)" (\d{3}) ', self.log.read_text())
        return [(method, path, int(status)) for method, path, status in found]

    def check(self) -> str:
        """Make nginx check its configuration; return its output."""
        done = subprocess.run([*self.words, "-t"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr


def nginx() -> str:
    """Return the path of nginx; see `tests.machine.needs`."""
    needs("openssl")
    return needs("nginx")


def set_up(folder: Path, upstream_port: int, var: Path) -> Front:
    """Write the configuration, with ports, addresses, certificate and VAR_DIR filled in."""
    nginx()
    folder.mkdir(parents=True)
    front = Front(folder, free_port(), free_port())
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
            *("-keyout", str(folder / "privkey.pem"), "-out", str(front.certificate)),
        ],
        check=True,
        capture_output=True,
    )
    (folder / "manyhands").mkdir()
    for name in UNCHANGED:
        shutil.copy(SHIPPED / name, folder / name)
    edit("upstream.conf", folder, {"127.0.0.1:8000": f"127.0.0.1:{upstream_port}"})
    log = {"/var/log/nginx/manyhands.log": str(front.log), "listen [::]:": "#listen [::]:"}
    edit(
        "manyhands/https.conf",
        folder,
        {
            "listen 443 ": f"listen 127.0.0.1:{front.https_port} ",
            "server_name science.example.org": "server_name 127.0.0.1",
            "/etc/nginx/manyhands/tls": str(folder),
            "/var/lib/manyhands": str(var),
            **log,
        },
    )
    edit(
        "manyhands/http.conf",
        folder,
        {
            "listen 80 ": f"listen 127.0.0.1:{front.http_port} ",
            "server_name science.example.org": "server_name 127.0.0.1",
            "$https_name science.example.org": f"$https_name 127.0.0.1:{front.https_port}",
            **log,
        },
    )
    (folder / "nginx.conf").write_text(
        f"{'user root;' if os.geteuid() == 0 else ''} daemon off; worker_processes 1;\n"
        f"pid {folder}/pid; error_log {front.error_log}; events {{ worker_connections 2048; }}\n"
        "http {\n"
        + "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in _TEMPORARY)
        + "include upstream.conf; include manyhands.conf; }\n"
    )
    return front


def edit(name: str, folder: Path, changes: dict[str, str]) -> None:
    """Copy a template with replacements (old text -> new text); fail if one does not apply."""
    text = (SHIPPED / name).read_text()
    for before, after in changes.items():
        assert before in text, f"{name} has no {before!r}"
        text = text.replace(before, after)
    (folder / name).write_text(text)


def start(project: Project, *, master_url: str | None = None) -> Front:
    """Start nginx in front of a project, and set the project's MASTER_URL."""
    front = set_up(project.folder / "nginx", project.port, project.folder / "var")
    front.check()
    project.children.start("nginx", front.words)
    project.environment |= {
        "MASTER_URL": master_url or front.url,
        "ONLINE_SIGNING": "true",  # a public project would sign on another machine
        "TRUSTED_PROXIES": "127.0.0.1",
    }
    project.url = front.url
    return front
