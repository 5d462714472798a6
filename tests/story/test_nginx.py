"""Clients compute through nginx as deploy/ sets it up, and get files from it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from project.ports import free_port
from tests.story.project import ROOT, exponents

pytestmark = pytest.mark.story

ANSWERED = "SELECT count(*) FROM workunit WHERE canonical_result_id IS NOT NULL"


def nginx_for(project, port):
    """Start nginx before a project, with the server and the upstream of deploy/."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        pytest.skip("There is no nginx. Hint: apt install nginx-light.")
    folder = project.folder / "nginx"
    folder.mkdir()
    changes = {
        "listen 80 default_server": f"listen 127.0.0.1:{port} default_server",
        "root /var/lib/manyhands": f"root {project.folder}/var",
        "127.0.0.1:8000": f"127.0.0.1:{project.port}",
    }
    for name in ("manyhands.conf", "upstream.conf"):
        text = Path(ROOT, "deploy/nginx", name).read_text()
        for before, after in changes.items():
            text = text.replace(before, after)
        (folder / name).write_text(text)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    (folder / "whole").write_text(
        f"{'user root;' if os.geteuid() == 0 else ''} daemon off; worker_processes 1;\n"
        f"pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        "http { log_format short '$request_method $uri $status by $upstream_addr';\n"
        f"access_log {folder}/access.log short;\n"
        + "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
        + f"include {folder}/*.conf; }}\n"
    )
    project.children.start("nginx", [nginx, "-c", folder / "whole"])
    return folder / "access.log"


def test_clients_compute_through_nginx_and_fetch_files_from_it(make_project, our_client):
    project = make_project(PURGE_AFTER="86400")
    port = free_port()
    log = nginx_for(project, port)
    project.url = f"http://127.0.0.1:{port}/"
    project.environment["MASTER_URL"] = project.url
    project.start()
    project.publish()
    names = project.submit(exponents([[p] for p in (3, 5, 7)]), quorum=2, fpops=1e9)
    for who in ("alice", "bob"):
        our_client(project, who).start()
    project.wait(lambda: project.count(ANSWERED) == len(names), within=60, what="every answer")

    said = log.read_text().splitlines()
    downloads = [line for line in said if line.startswith("GET /download/")]
    assert downloads
    assert all(line.endswith(" by -") for line in downloads), "given out by nginx itself"
    through = f"by 127.0.0.1:{project.port}"
    assert any(line == f"POST /cgi/scheduler 200 {through}" for line in said)
    assert any(line.startswith("POST /upload/") and line.endswith(through) for line in said)
