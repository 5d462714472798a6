"""Clients compute through nginx with the shipped files, by HTTPS and by redirects."""

from __future__ import annotations

import subprocess
from collections import Counter

import pytest

from tests.story import front as fronts
from tests.story.project import exponents
from tests.story.volunteers import StockClient

pytestmark = pytest.mark.story

ANSWERED = "SELECT count(*) FROM workunit WHERE canonical_result_id IS NOT NULL"


@pytest.fixture
def front(make_project, monkeypatch):
    """Start a project behind nginx; this process trusts nginx's certificate."""
    project = make_project(PURGE_AFTER="86400")
    front = fronts.start(project)
    monkeypatch.setenv("SSL_CERT_FILE", str(front.certificate))
    project.start()
    project.publish()
    front.project = project
    return front


def a_stock_client(stage, front, name, *, url=None):
    """Start a stock client; `ca-bundle.crt` in its folder has the certificate (http_curl.cpp)."""
    client = StockClient(front.project, name)
    stage.callback(client.close)
    (client.folder / "ca-bundle.crt").write_bytes(front.certificate.read_bytes())
    client.start()
    if url is None:
        client.attach()
    else:
        key = front.project.sql("SELECT account_key FROM account ORDER BY id DESC LIMIT 1")
        client.command("--project_attach", url, str(next(iter(key[0].values()))))
    return client


def compute(front, clients, names):
    def is_done():
        for client in clients:
            client.update()
        return front.project.count(ANSWERED) == len(names)

    front.project.wait(is_done, within=150, what="every answer")


def show(front, title):
    """Print the version of nginx and counts of requests, for the log of CI (`pytest -s`)."""
    version = subprocess.run([fronts.nginx(), "-V"], capture_output=True, text=True, check=False)
    counts = Counter(
        (method, path[1:].partition("/")[0], status) for method, path, status in front.lines()
    )
    print(f"\n{title}: {version.stderr.splitlines()[0]}")  # noqa: T201
    print(front.check().strip())  # noqa: T201
    for (method, path, status), count in sorted(counts.items()):
        print(f"  {count:5} {method} /{path} {status}")  # noqa: T201


def check_log(front):
    lines = front.lines()
    assert ("POST", "/cgi/scheduler", 200) in lines
    assert any(line[:2] == ("POST", "/upload/file_upload_handler") for line in lines)
    assert any(path.startswith("/download/") for _, path, status in lines if status == 200)
    text = front.log.read_text() + front.error_log.read_text()
    assert "passwd_hash" not in text
    assert "email_addr" not in text
    assert "?" not in front.log.read_text()


def test_our_clients_compute_over_https_and_nginx_serves_the_files(front, our_client):
    names = front.project.submit(exponents([[p] for p in (3, 5, 7)]), quorum=2, fpops=1e9)
    for who in ("alice", "bob"):
        our_client(front.project, who).start()
    front.project.wait(
        lambda: front.project.count(ANSWERED) == len(names), within=60, what="every answer"
    )
    check_log(front)
    show(front, "our clients over HTTPS")


@pytest.mark.lengthy
@pytest.mark.stock_client
def test_a_stock_client_computes_over_https(front, stage):
    names = front.project.submit(exponents([[3], [5]]), quorum=1, fpops=1e9)
    compute(front, [a_stock_client(stage, front, "stock")], names)
    check_log(front)
    show(front, "a stock client over HTTPS")


@pytest.mark.lengthy
@pytest.mark.stock_client
def test_stock_client_attached_by_http_follows_the_redirects_to_https(
    make_project, stage, monkeypatch
):
    """Projects that move to HTTPS keep their MASTER_URL, which identifies them to clients (trap 24)."""
    project = make_project(PURGE_AFTER="86400")
    front = fronts.set_up(project.folder / "nginx", project.port, project.folder / "var")
    project.children.start("nginx", front.words)
    project.url = front.http_url
    project.environment |= {"MASTER_URL": front.http_url, "TRUSTED_PROXIES": "127.0.0.1"}
    monkeypatch.setenv("SSL_CERT_FILE", str(front.certificate))
    project.start()
    project.publish()
    front.project = project
    names = project.submit(exponents([[3], [5]]), quorum=1, fpops=1e9)

    compute(front, [a_stock_client(stage, front, "old")], names)

    lines = front.lines()
    for path in ("/cgi/scheduler", "/upload/file_upload_handler"):
        statuses = {status for method, asked, status in lines if (method, asked) == ("POST", path)}
        assert statuses == {308, 200}, "the body is sent again where the redirect points"
    show(front, "a stock client that was attached by http")
