"""Programs that the server fetches: allowed addresses, retries, and size limits."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError

from project.ports import free_port
from scheduler.apps.rules.packaging import UNIX_PLATFORMS
from scheduler.files import fetching
from scheduler.models import AppVersion
from tests.database.apps.test_apps import run
from tests.faces.api.test_api_publishing import LINUX, RUN, an_app, packed, send, speaks
from tests.machine import needs
from tests.rows import an_account

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff():
    return speaks(an_account(is_superuser=True))


class Site:
    """A web server to fetch from; `pages` maps a path to a function of the request handler."""

    def __init__(self) -> None:
        self.pages: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.asked: list[str] = []
        site = self

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(self.path)
                with suppress(OSError):
                    site.pages[self.path](self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))

    def put(self, path: str, content: bytes, *, length: int | None = None) -> str:
        def page(request: BaseHTTPRequestHandler) -> None:
            request.send_response(200)
            request.send_header("Content-Length", str(len(content) if length is None else length))
            request.end_headers()
            request.wfile.write(content)

        self.pages[path] = page
        return self.url + path

    def send_on(self, path: str, target: str) -> str:
        def page(request: BaseHTTPRequestHandler) -> None:
            request.send_response(302)
            request.send_header("Location", target)
            request.end_headers()

        self.pages[path] = page
        return self.url + path

    def refuse(self, path: str, status: int) -> str:
        self.pages[path] = lambda request: request.send_error(status)
        return self.url + path

    def drip(self, path: str, *, headers: bool = False) -> str:
        def page(request: BaseHTTPRequestHandler) -> None:
            request.wfile.write(b"HTTP/1.0 200 OK\r\n" + (b"X: " if headers else b"\r\n"))
            for _ in range(200):
                request.wfile.write(b"x")
                time.sleep(0.02)

        self.pages[path] = page
        return self.url + path


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    made.thread.start()
    yield made
    made.server.shutdown()
    made.thread.join()
    made.server.server_close()


def allow(monkeypatch: pytest.MonkeyPatch, **options: object) -> None:
    options = {"import_private": True, "rsync_sources": True} | options
    monkeypatch.setattr(settings, "PROJECT", replace(settings.PROJECT, **options))  # type: ignore[arg-type]


def test_source_url_is_downloaded_only_once_per_version(staff, site, monkeypatch) -> None:
    allow(monkeypatch)
    app = an_app()
    url = site.put("/p-v1.zip", packed({"run.sh": RUN}, "zip"))
    answer = send(staff, source_url=url, platforms=[LINUX])
    assert answer.status_code == 201, answer.content
    assert answer.json()[0]["source_url"] == url
    assert send(staff, source_url=url, platforms=[LINUX]).status_code == 200
    assert send(staff, source_url=url).status_code == 201, "for further platforms"
    assert site.asked == ["/p-v1.zip"]
    assert app.versions.count() == len(UNIX_PLATFORMS)
    again = run("publish_app", "wave", "1.00", "--source-url", url)
    assert "is published already" in again
    site.put("/p-v1.zip", packed({"run.sh": RUN + b"#"}, "zip"))
    assert "Published wave 1.01" in run("publish_app", "wave", "1.01", "--source-url", url)
    assert len(site.asked) == 2


def test_at_most_five_redirects_are_followed_and_only_to_http_urls(
    staff, site, monkeypatch
) -> None:
    allow(monkeypatch)
    an_app()
    site.put("/run.sh", RUN)
    assert send(staff, source_url=site.send_on("/a", "/run.sh")).status_code == 201
    answer = send(staff, source_url=site.send_on("/loop", "/loop"), version="2")
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_source")
    assert "more than 5 redirects" in answer.json()["detail"]
    for target in ("file:///etc/passwd", "ftp://127.0.0.1/x", "rsync://127.0.0.1/m/x"):
        answer = send(staff, source_url=site.send_on("/out", target), version="2")
        assert "is not followed" in answer.json()["detail"]


@pytest.fixture
def slow_to_greet() -> Iterator[int]:
    """Yield the port of a server that sends its TLS handshake byte by byte."""

    def greet(listener: socket.socket) -> None:
        with suppress(OSError):
            connected, _ = listener.accept()
            with connected:
                # The header of a handshake record of 16 kB, which is sent only in part.
                for byte in b"\x16\x03\x03\x40\x00\x02" + bytes(200):
                    connected.sendall(bytes([byte]))
                    time.sleep(0.02)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        greeting = threading.Thread(target=greet, args=(listener,))
        greeting.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        greeting.join()


def test_failed_download_of_a_source_returns_422_with_the_reason(
    staff, site, slow_to_greet, monkeypatch
) -> None:
    allow(monkeypatch, import_limit=timedelta(seconds=0.2))
    monkeypatch.setattr("scheduler.storage.MAX_PACKAGE_BYTES", 1000)
    an_app()
    shorter = site.put("/short", RUN, length=100)
    for url, words in (
        (site.refuse("/none", 404), "returned 404"),
        (site.put("/long", b"x" * 1001), "more than 1000 bytes"),
        (site.drip("/slow"), "takes longer than 0.2 seconds"),
        (site.drip("/slower", headers=True), "takes longer than 0.2 seconds"),
        (f"https://127.0.0.1:{slow_to_greet}/x", "takes longer than 0.2 seconds"),
        (shorter, "failed after"),
        (site.put("/page", b"<html>"), "neither a script nor an archive"),
        (f"http://127.0.0.1:{free_port()}/x", "cannot be reached"),
        ("http://no-such-host.invalid/x", "is not found"),
    ):
        answer = send(staff, source_url=url)
        assert answer.status_code == 422, answer.content
        assert words in answer.json()["detail"]
        assert answer.json()["hint"]
    assert not AppVersion.objects.exists()
    answer = send(staff, ("run.sh", RUN), source_url=shorter)
    assert "give only one of them" in answer.json()["hint"]


def test_second_concurrent_source_download_returns_503(staff, site, monkeypatch) -> None:
    allow(monkeypatch)
    an_app()
    with fetching._one_at_a_time():
        answer = send(staff, source_url=site.put("/run.sh", RUN))
    assert (answer.status_code, answer.json()["code"]) == (503, "source_busy")
    assert site.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/run.sh",
        "http://localhost:{port}/run.sh",
        "http://2130706433:{port}/run.sh",
        "http://0x7f.1:{port}/run.sh",
        "http://0:{port}/run.sh",
        "http://0.0.0.0:{port}/run.sh",
        "http://[::1]:{port}/run.sh",
        "http://[::ffff:127.0.0.1]:{port}/run.sh",
        "http://169.254.169.254/latest/meta-data",
        "http://inside.example.org:{port}/run.sh",
        pytest.param("rsync://127.0.0.1:{port}/m/run.sh", marks=pytest.mark.needs("rsync")),
    ],
)
def test_source_url_in_the_servers_own_network_is_refused(staff, site, monkeypatch, url) -> None:
    really = socket.getaddrinfo

    def resolve(host, *more, **how):
        # A public host name that resolves to this machine.
        return really("127.0.0.1" if host == "inside.example.org" else host, *more, **how)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    allow(monkeypatch, import_private=False)
    an_app()
    site.put("/run.sh", RUN)
    answer = send(staff, source_url=url.format(port=site.server.server_port))
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_source"), answer.content
    assert "an address of this server's own network" in answer.json()["detail"]
    assert site.asked == []


def test_redirect_into_the_servers_own_network_is_refused(staff, site, monkeypatch) -> None:
    allow(monkeypatch, import_private=False, import_hosts=("outside.example.org",))
    really = socket.getaddrinfo
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *more, **how: really("127.0.0.1", *more, **how),
    )
    an_app()
    site.put("/run.sh", RUN)
    site.send_on("/a", f"http://inside.example.org:{site.server.server_port}/run.sh")
    outside = f"http://outside.example.org:{site.server.server_port}"
    assert "own network" in send(staff, source_url=f"{outside}/a").json()["detail"]
    assert site.asked == ["/a"]
    assert send(staff, source_url=f"{outside}/run.sh").status_code == 201


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://a.org/x", "rsync:/etc/passwd"])
def test_source_url_with_an_unsupported_scheme_is_refused(staff, url) -> None:
    an_app()
    answer = send(staff, source_url=url)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_source")
    with pytest.raises(CommandError, match="Hint"):
        run("publish_app", "wave", "1.00", "--source-url", url)


@pytest.fixture
def rsync_server(tmp_path) -> Iterator[str]:
    program = needs("rsync")
    port = free_port()
    (tmp_path / "programs").mkdir()
    (tmp_path / "rsyncd.conf").write_text(
        "use chroot = no\n"
        # Started by root, the server would run as nobody, without access to pytest's folders.
        + (f"uid = {os.getuid()}\ngid = {os.getgid()}\n" if os.getuid() == 0 else "")
        + f"[programs]\npath = {tmp_path}/programs\nread only = yes\n"
    )
    words = ["--daemon", "--no-detach", "--address=127.0.0.1", f"--port={port}"]
    words += [f"--config={tmp_path}/rsyncd.conf", f"--log-file={tmp_path}/log"]
    with subprocess.Popen([program, *words]) as daemon:
        give_up_at = time.monotonic() + 10
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            assert time.monotonic() < give_up_at, "rsync's daemon does not listen"
            time.sleep(0.02)
        yield f"rsync://127.0.0.1:{port}/programs"
        daemon.terminate()


@pytest.mark.needs("rsync")
def test_source_can_be_downloaded_from_an_rsync_server(
    staff, rsync_server, tmp_path: Path, monkeypatch
) -> None:
    allow(monkeypatch)
    monkeypatch.setenv("RSYNC_PROXY", "127.0.0.1:1")
    an_app()
    programs = tmp_path / "programs"
    (programs / "p.tar").write_bytes(packed({"run.sh": RUN}, ""))
    (programs / "folder").mkdir()
    answer = send(staff, source_url=f"{rsync_server}/p.tar", platforms=[LINUX])
    assert answer.status_code == 201, answer.content
    monkeypatch.setattr("scheduler.storage.MAX_PACKAGE_BYTES", 1000)
    (programs / "long.tar").write_bytes(b"x" * 1001)
    for name, words in (
        ("none.tar", "cannot be fetched: rsync: "),
        ("folder", "is not a file of 1000 bytes at most"),
        ("long.tar", "is not a file of 1000 bytes at most"),
    ):
        answer = send(staff, source_url=f"{rsync_server}/{name}", version="2")
        assert answer.status_code == 422, answer.content
        assert words in answer.json()["detail"]
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = send(staff, source_url=f"{rsync_server}/p.tar", version="3")
    assert answer.json()["detail"] == "There is no rsync on this server."
