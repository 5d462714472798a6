"""nginx with the shipped files: its limits, the files it serves, its logs."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import socket
import ssl
import subprocess
from contextlib import suppress
from threading import Thread
from time import sleep

import pytest

from tests.story import front as fronts
from tests.story.project import ROOT, Project
from tests.story.test_nginx import show

pytestmark = [pytest.mark.story, pytest.mark.xdist_group("nginx")]

LENGTH = 50_000_000
HASH = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("nginx") / "project")
    with pytest.MonkeyPatch.context() as patch:
        try:
            front = fronts.start(project)
            patch.setenv("SSL_CERT_FILE", str(front.certificate))
            project.start()
            front.project = project
            yield front
        finally:
            project.close()


@pytest.fixture(scope="module")
def tokens(front):
    """Three API tokens: of a submitter, for reading only, and of an account that cannot submit."""
    code = (
        "from django.core.management import call_command\n"
        "from django.utils import timezone\nfrom scheduler.models import Account\n"
        "from scheduler.people import api_tokens\n"
        "for name, scopes in (('may', ['read', 'submit']), ('reads', ['read']),"
        " ('stranger', ['read', 'submit'])):\n"
        "    email = f'{name}@example.org'\n"
        "    call_command('create_account', email, name=name, password='a long password')\n"
        "    if name != 'stranger':\n"
        "        call_command('submitter', 'allow', email, '--all-apps')\n"
        "    account = Account.objects.get(email=email)\n"
        "    print('token', name, api_tokens.create(account=account, name='t', scopes=scopes,"
        " now=timezone.now())[1])\n"
    )
    output = front.project.manage("shell", "--no-imports", "-c", code)
    return dict(re.findall(r"^token (\w+) (\S+)$", output, re.MULTILINE))


def connect(front, *, tls=True):
    plain = socket.create_connection(
        ("127.0.0.1", front.https_port if tls else front.http_port), timeout=30
    )
    if not tls:
        return plain
    context = ssl.create_default_context(cafile=str(front.certificate))
    return context.wrap_socket(plain, server_hostname="127.0.0.1")


def exchange(front, head, body=b"", *, tls=True):
    """Send a request that closes the connection; returns status, headers and body of the reply."""
    with connect(front, tls=tls) as connected:
        connected.sendall(head.encode() + b"Host: 127.0.0.1\r\nConnection: close\r\n\r\n" + body)
        reply = b""
        while b"\r\n\r\n" not in reply and (piece := connected.recv(65536)):
            reply += piece
        headers, _, rest = reply.partition(b"\r\n\r\n")
        # nginx waits some seconds for a body that it refuses; the reply comes before.
        match = re.search(rb"(?i)^content-length: (\d+)", headers, re.MULTILINE)
        with suppress(OSError):
            while not (match and len(rest) >= int(match[1])) and (piece := connected.recv(65536)):
                rest += piece
    return int(reply.split(b" ", 2)[1]), headers.decode().lower(), rest


def spooled(front):
    return sum(file.stat().st_size for file in (front.folder / "client_body").rglob("*"))


def put(token=None, *, length=LENGTH, sha256="0" * 64, framing="length"):
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    size = f"Content-Length: {length}" if framing == "length" else "Transfer-Encoding: chunked"
    return (
        f"PUT /api/v1/files/{sha256} HTTP/1.1\r\n{authorization}"
        f"Content-Type: application/octet-stream\r\n{size}\r\n"
    )


@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize(
    ("who", "status"), [(None, 401), ("unknown", 401), ("reads", 403), ("stranger", 403)]
)
def test_unauthorized_large_body_is_refused_before_it_is_read(front, tokens, who, status, framing):
    """The test sends no part of the body, so nginx cannot have waited for it."""
    token = tokens.get(who, "mh_unknown") if who else None
    answered, headers, body = exchange(front, put(token, framing=framing))
    assert answered == status
    assert "application/problem+json" in headers, "the project itself explains it"
    assert b'"code": ' in body
    assert spooled(front) == 0


@pytest.fixture
def http2(front):
    """nginx with HTTP/2 switched on, as operators may."""
    conf = front.folder / "manyhands/https.conf"
    shipped = conf.read_text()
    conf.write_text(shipped.replace(" ssl default_server", " ssl http2 default_server"))
    pid = int((front.folder / "pid").read_text())
    os.kill(pid, signal.SIGHUP)
    sleep(1.0)
    yield
    conf.write_text(shipped)
    os.kill(pid, signal.SIGHUP)
    sleep(1.0)


@pytest.mark.usefixtures("http2")
def test_unauthorized_http2_body_without_a_length_is_refused_before_it_is_read(front):
    """HTTP/2 has no chunked encoding: a body without a length ends with the stream."""
    url = f"{front.url}api/v1/files/{'0' * 64}"
    words = ["curl", "-skiN", "--http2", "--max-time", "10", "-T", "-", url]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, bufsize=0) as client:
        with suppress(BrokenPipeError):  # curl closes the pipe when nginx refuses the body
            client.stdin.write(b"x" * 200_000)  # without the end of the stream
        status = client.stdout.readline().split()[:2]
        client.kill()
    assert status == [b"HTTP/2", b"401"]


def test_submitter_can_upload_a_large_body(front, tokens):
    content = os.urandom(3_000_000)
    sha256 = hashlib.sha256(content).hexdigest()
    head = put(tokens["may"], length=len(content), sha256=sha256)
    assert exchange(front, head, content)[0] == 201


@pytest.mark.parametrize(
    "request_line",
    [
        "POST /api/v1/nowhere",
        "DELETE /api/v1/files/x",
        "POST /cgi/../api/v1/workunits",
        "GET /api/v1/",
    ],
)
def test_other_api_urls_do_not_buffer_a_large_unauthenticated_body(front, request_line):
    status, _, _ = exchange(front, f"{request_line} HTTP/1.1\r\nContent-Length: {LENGTH}\r\n")
    assert status in {200, 401, 403, 404, 405}
    assert spooled(front) == 0


@pytest.mark.usefixtures("tokens")
def test_token_creation_and_public_pages_need_no_token(front):
    body = b'{"email": "may@example.org", "password": "a long password", "name": "x", "scopes": ["read"]}'
    head = f"POST /api/v1/tokens HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    assert exchange(front, head, body)[0] == 201
    assert exchange(front, "GET /api/v1/ HTTP/1.1\r\n")[0] == 200


def test_excess_requests_from_one_address_get_503_after_the_first_500(front):
    """BOINC's client treats 4xx as a permanent error; a campus sends 500 requests at once."""
    requests = 900
    request = b"GET /robots.txt HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    reply = b""
    with connect(front) as connected:
        connected.settimeout(60)
        sent = (request + b"\r\n") * (requests - 1) + request + b"Connection: close\r\n\r\n"
        sender = Thread(target=connected.sendall, args=[sent])
        sender.start()
        with suppress(ssl.SSLError):
            while piece := connected.recv(65536):
                reply += piece
        sender.join()
    statuses = [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3}) ", reply)]
    assert len(statuses) == requests
    assert set(statuses) == {200, 503}
    assert 503 not in statuses[:500]
    # Wait until nginx accepts requests of the other tests.
    sleep(2)


@pytest.mark.parametrize("path", ["/upload/file_upload_handler", "/cgi/scheduler"])
def test_upload_or_rpc_body_over_the_size_limit_returns_503(front, path):
    """After a 4xx a client gives the upload up, or retries for 90 days."""
    head = f"POST {path} HTTP/1.1\r\nContent-Length: {1026 << 20}\r\n"
    assert exchange(front, head)[0] == 503
    assert spooled(front) == 0


def test_nginx_upload_limit_matches_the_project_output_limit():
    from scheduler.config import ProjectConfig

    text = (ROOT / "deploy/nginx/manyhands.conf").read_text()
    [megabytes] = re.findall(r"location /upload/ \{\s+client_max_body_size (\d+)m;", text)
    assert (int(megabytes) - 1) << 20 == ProjectConfig().max_output_bytes


@pytest.mark.parametrize(
    "path",
    [
        "/download/../keys/secret_key",
        "/download/%2e%2e/keys/secret_key",
        "/download/..%2fkeys/secret_key",
        "/download../keys/secret_key",
        "/download//../../keys/secret_key",
        "/download/link",
        "/download/linked/secret_key",
        "/download/.hidden",
        "/keys/secret_key",
        "/upload/../keys/secret_key",
        "/results/answer",
        "/var/keys/secret_key",
    ],
)
def test_files_outside_the_download_folder_links_and_hidden_files_are_not_served(front, path):
    var = front.project.folder / "var"
    (var / "results").mkdir(exist_ok=True)
    (var / "download").mkdir(exist_ok=True)
    (var / "results" / "answer").write_text("SECRET")
    (var / "download" / ".hidden").write_text("SECRET")
    for name, target in (("link", var / "keys" / "secret_key"), ("linked", var / "keys")):
        if not (var / "download" / name).is_symlink():
            (var / "download" / name).symlink_to(target)
    secret = (var / "keys" / "secret_key").read_text().strip()
    status, _, body = exchange(front, f"GET {path} HTTP/1.1\r\n")
    assert status >= 400
    assert secret.encode() not in body
    assert b"SECRET" not in body


def test_nginx_logs_contain_no_emails_or_password_hashes(front):
    lookup = f"/lookup_account.php?email_addr=secret%40example.org&passwd_hash={HASH}"
    exchange(front, f"GET {lookup} HTTP/1.1\r\nReferer: https://x/?passwd_hash={HASH}\r\n")
    front.project.children.stop("serve", within=60)
    try:
        status, _, _ = exchange(front, f"GET {lookup} HTTP/1.1\r\n")
        assert status == 502
    finally:
        front.project.start()
    text = front.log.read_text() + front.error_log.read_text()
    assert "/lookup_account.php" in front.log.read_text()
    assert HASH not in text
    assert "secret%40" not in text
    assert "secret@" not in text


def test_responses_have_strict_transport_security_and_no_nginx_version(front):
    _, headers, _ = exchange(front, "GET / HTTP/1.1\r\n")
    assert "strict-transport-security: max-age=31536000" in headers
    assert re.search(r"^server: nginx\r?$", headers, re.MULTILINE), "no version"


def test_plain_http_request_is_redirected_to_https_with_308(front):
    for request in ("GET /a?b=c", "POST /cgi/scheduler", "PUT /api/v1/files/x"):
        head = f"{request} HTTP/1.1\r\nContent-Length: 5\r\n"
        status, headers, _ = exchange(front, head, b"12345", tls=False)
        assert status == 308
        path = request.partition(" ")[2]
        assert f"location: https://127.0.0.1:{front.https_port}{path}" in headers
    head = f"POST /upload/x HTTP/1.1\r\nContent-Length: {LENGTH}\r\n"
    assert exchange(front, head, tls=False)[0] == 308, "whatever the size"


def test_forwarding_headers_sent_by_a_client_are_dropped(front):
    """A host is recorded with the address from which nginx got the request."""
    output = front.project.manage(
        "create_account", "v@example.org", "--password", "a long password", "--json"
    )
    key = re.findall(r'"([0-9a-f]{32})"', output)[0]
    body = (
        f"<scheduler_request>\n<authenticator>{key}</authenticator>\n<hostid>0</hostid>\n"
        "<platform_name>x86_64-pc-linux-gnu</platform_name>\n<core_client_major_version>7"
        "</core_client_major_version>\n<host_info>\n<p_ncpus>1</p_ncpus>\n</host_info>\n"
        "</scheduler_request>\n"
    ).encode()
    head = (
        f"POST /cgi/scheduler HTTP/1.1\r\nContent-Length: {len(body)}\r\n"
        "X-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\n"
    )
    status, _, reply = exchange(front, head, body)
    assert status == 200
    assert b"<hostid>" in reply, reply
    assert front.project.sql("SELECT last_ip_addr FROM host") == [{"last_ip_addr": "127.0.0.1"}]


def test_shipped_nginx_configuration_runs(front):
    show(front, "nginx with the shipped files")
    version = subprocess.run([fronts.nginx(), "-v"], capture_output=True, text=True, check=True)
    assert "nginx" in version.stderr
