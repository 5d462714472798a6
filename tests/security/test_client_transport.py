"""The client limits redirects, sizes, packed bodies and the time of transfers."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import ipaddress
import socket
import ssl
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from volunteer.attach import Credentials, NoProjectError, look_up_project
from volunteer.files import DownloadError, FileDownload, fetch
from volunteer.transport import Body, HttpTransport, UnreachableError
from volunteer.wire.messages import FileInfo

pytestmark = pytest.mark.lengthy

KEY = "0123456789abcdef0123456789abcdef"


class Server:
    """A server that calls `answer` for each request, and records paths and bodies."""

    def __init__(self, answer, certificate=None):
        outer = self
        self.seen = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.seen.append((self.path, b""))
                answer(self)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.seen.append((self.path, body))
                answer(self)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.scheme = "https" if certificate else "http"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.server.server_port}/"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def serving(answer, certificate=None):
    server = Server(answer, certificate)
    try:
        yield server
    finally:
        server.close()


def reply(handler, status=200, content=b"fine", **headers):
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content)


def redirecting(where, status=302):
    return lambda handler: reply(handler, status, b"", Location=where)


@pytest.fixture
def certificate(tmp_path_factory, monkeypatch):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return path


@pytest.fixture
def transport(certificate):
    found = HttpTransport("x86_64-pc-linux-gnu")
    yield found
    found.close()


def by_get(transport, url):
    return transport.get(url).content


def by_post(transport, url):
    return transport.post(url, Body(b"body")).content


def by_stream(transport, url):
    with transport.stream(url, 0) as stream:
        return b"".join(stream.chunks)


WAYS = [by_get, by_post, by_stream]


@pytest.mark.parametrize("way", WAYS)
def test_redirect_from_https_to_http_is_refused(transport, certificate, way):
    with serving(reply) as plain, serving(redirecting(plain.url), certificate) as encrypted:
        with pytest.raises(UnreachableError, match="not encrypted"):
            way(transport, encrypted.url)
        assert plain.seen == []


@pytest.mark.parametrize("way", WAYS)
def test_redirect_to_https_is_followed(transport, certificate, way):
    with serving(reply, certificate) as encrypted, serving(redirecting(encrypted.url)) as plain:
        assert way(transport, plain.url) == b"fine"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_redirect_to_another_scheme_is_refused(transport, way, where):
    with (
        serving(redirecting(where)) as server,
        pytest.raises(UnreachableError, match="not http or https"),
    ):
        way(transport, server.url)


@pytest.mark.parametrize("way", WAYS)
def test_more_than_10_redirects_are_refused(transport, way):
    def again(handler):
        reply(handler, 302, b"", Location=f"/{len(handler.path)}{handler.path}")

    with serving(again) as server:
        with pytest.raises(UnreachableError, match="more than 10 redirects"):
            way(transport, server.url)
        assert len(server.seen) == 11


def test_download_follows_a_redirect_to_another_host(transport):
    with serving(reply) as mirror, serving(redirecting(mirror.url)) as server:
        assert by_stream(transport, server.url) == b"fine"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_account_key_is_not_sent_to_another_host(transport, status):
    with serving(reply) as other, serving(redirecting(other.url, status)) as server:
        with pytest.raises(UnreachableError, match="must not get the account key"):
            transport.post(server.url, Body(KEY.encode()), has_credentials=True)
        assert other.seen == []


def test_account_key_is_sent_after_a_redirect_on_the_same_host(transport):
    def answer(handler):
        if handler.path == "/":
            reply(handler, 302, b"", Location="/cgi")
        else:
            reply(handler)

    with serving(answer) as server:
        assert transport.post(server.url, Body(b"key"), has_credentials=True).content == b"fine"
        assert server.seen == [("/", b"key"), ("/cgi", b"key")]


def test_password_hash_is_not_sent_to_another_host(transport):
    """The project's log-in page redirects to another host with the query."""

    def answer(handler):
        if "lookup_account" in handler.path:
            reply(handler, 302, b"", Location=other.url.rstrip("/") + handler.path)
        elif handler.path == "/":
            reply(handler, 200, f"<scheduler>{server.url}cgi</scheduler>".encode())
        else:
            reply(handler, 404)

    with serving(reply) as other, serving(answer) as server:
        with pytest.raises(NoProjectError, match="must not get") as caught:
            look_up_project(transport, server.url, Credentials(email="a@b.c", password="secret"))
        assert other.seen == []
        assert "passwd_hash" not in str(caught.value)


def test_credentials_for_an_https_project_are_not_sent_over_plain_http(transport, certificate):
    def answer(handler):
        if "project_config" in handler.path:
            base = f"<web_rpc_url_base>{plain.url}</web_rpc_url_base>"
            reply(handler, 200, f"<project_config>{base}</project_config>".encode())
        else:
            reply(handler, 200, f"<scheduler>{plain.url}cgi</scheduler>".encode())

    with serving(reply) as plain, serving(answer, certificate) as server:
        with pytest.raises(NoProjectError, match="not an https address"):
            look_up_project(transport, server.url, Credentials(email="a@b.c", password="secret"))
        assert plain.seen == []


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://a.example/", "http://me:pw@a.example/"]
)
def test_invalid_project_url_is_refused(transport, url):
    with pytest.raises(NoProjectError, match="is not the address of a project"):
        look_up_project(transport, url, Credentials(key="k"))


def endless(handler, **headers):
    handler.send_response(200)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Connection", "close")
    handler.end_headers()
    try:
        for _ in range(4000):
            handler.wfile.write(bytes(1 << 18))
    except OSError:
        handler.close_connection = True


@pytest.mark.parametrize("way", [by_get, by_post])
def test_endless_response_is_cut_off(transport, way):
    with (
        serving(endless) as server,
        pytest.raises(UnreachableError, match="the response has more than"),
    ):
        way(transport, server.url)


@pytest.mark.parametrize("way", [by_get, by_post])
def test_response_size_limit_applies_to_decompressed_bytes(transport, way):
    bomb = gzip.compress(bytes(300 << 20), 1)
    with (
        serving(lambda handler: reply(handler, 200, bomb, Content_Encoding="gzip")) as server,
        pytest.raises(UnreachableError, match="the response has more than"),
    ):
        way(transport, server.url)


def test_gzip_response_of_usual_size_is_decompressed(transport):
    text = b"<scheduler_reply>" * 1000
    packed = gzip.compress(text)
    with serving(lambda handler: reply(handler, 200, packed, Content_Encoding="gzip")) as server:
        assert [way(transport, server.url) for way in WAYS] == [text] * 3


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip"])
def test_unsupported_content_encoding_is_refused(transport, coding):
    packed = gzip.compress(gzip.compress(b"x"))
    with (
        serving(lambda handler: reply(handler, 200, packed, Content_Encoding=coding)) as server,
        pytest.raises(UnreachableError, match="unknown Content-Encoding"),
    ):
        by_get(transport, server.url)


def test_download_is_cut_off_at_its_declared_size(transport, tmp_path):
    with serving(endless) as server:
        info = FileInfo("f", urls=(server.url,), nbytes=1000)
        with pytest.raises(DownloadError, match="more than 1000 bytes") as caught:
            fetch(transport, FileDownload(info, tmp_path / "f", None))
    assert caught.value.code.startswith("-200")
    assert list(tmp_path.iterdir()) == []


def test_compressed_download_is_cut_off_at_its_declared_size(transport, tmp_path):
    bomb = gzip.compress(bytes(100 << 20), 1)
    with serving(lambda handler: reply(handler, 200, bomb, Content_Encoding="gzip")) as server:
        info = FileInfo("f", urls=(server.url,), nbytes=1000)
        with pytest.raises(DownloadError, match="more than 1000 bytes"):
            fetch(transport, FileDownload(info, tmp_path / "f", None))


def test_download_without_a_declared_size_is_limited(transport, tmp_path, monkeypatch):
    monkeypatch.setattr("volunteer.files.MAX_UNDECLARED_BYTES", 1 << 20, raising=False)
    with serving(endless) as server:
        info = FileInfo("f", urls=(server.url,))
        with pytest.raises(DownloadError, match="more than"):
            fetch(transport, FileDownload(info, tmp_path / "f", None))


def test_download_that_does_not_fit_on_the_disk_is_not_started(transport, tmp_path):
    with serving(endless) as server:
        info = FileInfo("f", urls=(server.url,), nbytes=10**18)
        with pytest.raises(DownloadError, match="do not fit on the disk"):
            fetch(transport, FileDownload(info, tmp_path / "f", None))
        assert server.seen == []


def test_gzipped_file_without_a_declared_size_is_limited(transport, tmp_path, monkeypatch):
    monkeypatch.setattr("volunteer.files.MAX_UNDECLARED_BYTES", 1 << 20, raising=False)
    bomb = gzip.compress(bytes(100 << 20), 1)
    with serving(lambda handler: reply(handler, 200, bomb)) as server:
        info = FileInfo("f", gzipped_urls=(server.url,))
        with pytest.raises(DownloadError):
            fetch(transport, FileDownload(info, tmp_path / "f", None))
    assert list(tmp_path.iterdir()) == []


@contextmanager
def dripping(before, drop=b"x"):
    """Serve some bytes at once, then one every tenth of a second."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve():
        while not over.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                connection.sendall(before)
                while not over.wait(0.1):
                    connection.sendall(drop)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "before",
    [
        b"HTTP/1.1 200 OK\r\nX-Drip: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
    ids=["headers", "body", "body without length"],
)
def test_response_that_is_too_slow_is_cut_off(way, before):
    from volunteer.transport import TransferLimits

    limits = TransferLimits(reply_seconds=2.0, slow_seconds=2.0, min_bytes_per_second=1000.0)
    transport = HttpTransport("x86_64-pc-linux-gnu", limits)
    began = time.monotonic()
    with dripping(before) as url, pytest.raises(UnreachableError, match=r"took too long|too slow"):
        way(transport, url)
    assert time.monotonic() - began < 15
    transport.close()


def test_slow_response_above_the_minimum_speed_is_not_cut_off():
    from volunteer.transport import TransferLimits

    limits = TransferLimits(slow_seconds=0.5, min_bytes_per_second=1000.0)
    transport = HttpTransport("x86_64-pc-linux-gnu", limits)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n"
    with dripping(head, drop=b"x" * 1000) as url:
        assert len(by_stream(transport, url)) == 20_000
    transport.close()
