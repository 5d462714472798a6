"""Clients that send or read slowly do not block other clients."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import ExitStack, suppress

import pytest

from tests.story.project import Project

pytestmark = [pytest.mark.story, pytest.mark.lengthy, pytest.mark.xdist_group("slow_clients")]

SCHEDULER = "/cgi/scheduler"
UPLOAD = "/upload/file_upload_handler"
FILE = bytes(range(256)) * 160


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    made = Project(tmp_path_factory.mktemp("slow") / "project")
    try:
        made.start("--workers", "2")
        yield made
    finally:
        made.close()


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


class Drippers:
    """Connections that announce a long body and send one byte per second."""

    def __init__(
        self, port, count, address, path, *, begin=b"<scheduler_request>\n", head="", length=100_000
    ):
        self._stop = threading.Event()
        self._port, self._address = port, address
        # Another host would be refused (ALLOWED_HOSTS) before the body is read.
        hello = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {length}\r\n"
        self._hello = f"{hello}{head}\r\n".encode() + begin
        self.cut = 0
        self._sockets = [self._connect() for _ in range(count)]
        self._thread = threading.Thread(target=self._drip, daemon=True)
        self._thread.start()

    def _connect(self):
        connected = socket.create_connection(
            ("127.0.0.1", self._port), source_address=(self._address, 0)
        )
        connected.sendall(self._hello)
        connected.setblocking(False)
        return connected

    def _drip(self):
        while not self._stop.wait(1.0):
            for number, connected in enumerate(self._sockets):
                try:
                    with suppress(BlockingIOError):
                        connected.send(b" ")
                    with suppress(BlockingIOError):
                        if connected.recv(4096) == b"":
                            raise ConnectionError
                except OSError:
                    self.cut += 1
                    connected.close()
                    with suppress(OSError):
                        self._sockets[number] = self._connect()

    def close(self):
        self._stop.set()
        self._thread.join()
        for connected in self._sockets:
            connected.close()


def exchange(port, path, body, *, address="127.0.0.1", rate=None, within=20.0):
    """Send a request at `rate` bytes per second; return the reply, or b"" if it is cut off."""
    with socket.create_connection(
        ("127.0.0.1", port), timeout=within, source_address=(address, 0)
    ) as connected:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\n"
        connected.sendall(f"{head}Connection: close\r\n\r\n".encode())
        reply = b""
        try:
            for start in range(0, len(body), rate or len(body)):
                connected.sendall(body[start : start + (rate or len(body))])
                time.sleep(1.0 if rate else 0.0)
            while piece := connected.recv(65536):
                reply += piece
        except (TimeoutError, ConnectionError):
            return b""
        return reply


def rpc_takes(port, **options):
    began = time.monotonic()
    reply = exchange(port, SCHEDULER, b"<scheduler_request>\n</scheduler_request>\n", **options)
    assert b"<scheduler_reply>" in reply, reply
    return time.monotonic() - began


def wait_until_cut(project, drippers):
    """Wait until 100 slow connections were cut.

    The server cuts some at each check, every half second, and the drippers notice it once a second:
    on a busy machine both take longer.  Without cuts, no connection would end within 300 seconds.
    """
    project.wait(lambda: drippers.cut >= 100, within=30, what="100 slow connections are cut")


@pytest.mark.parametrize(
    ("path", "begin", "head"),
    [
        (SCHEDULER, b"<scheduler_request>\n", ""),
        (UPLOAD, b"<data_server_request>\n", ""),
        ("/create_account.php", b"a=", "Content-Type: application/x-www-form-urlencoded\r\n"),
        (SCHEDULER, b"", "Expect: 100-continue\r\n"),
    ],
    ids=["scheduler", "upload", "page", "never-begins"],
)
def test_200_slow_request_bodies_do_not_block_the_server(project, stack, path, begin, head):
    drippers = Drippers(project.port, 200, "127.0.0.9", path, begin=begin, head=head)
    stack.callback(drippers.close)
    time.sleep(2.0)

    durations = []
    for _ in range(3):
        durations.append(rpc_takes(project.port))
        time.sleep(1.0)

    assert max(durations) < 8.0, durations
    wait_until_cut(project, drippers)


@pytest.mark.parametrize(
    ("path", "begin", "head"),
    [
        (SCHEDULER, b"<scheduler_request>\n", ""),
        (
            "/submit_rpc_handler.php",
            b"request=%3Cping%3E",
            "Content-Type: application/x-www-form-urlencoded\r\n",
        ),
    ],
    ids=["scheduler", "submission"],
)
def test_200_long_slow_request_bodies_do_not_block_the_server(project, stack, path, begin, head):
    """Long bodies are read one at a time; a body in the queue must still count as slow."""
    drippers = Drippers(
        project.port, 200, "127.0.0.9", path, begin=begin, head=head, length=2_000_000
    )
    stack.callback(drippers.close)
    time.sleep(2.0)

    durations = []
    for _ in range(3):
        durations.append(rpc_takes(project.port))
        time.sleep(1.0)

    assert max(durations) < 8.0, durations
    wait_until_cut(project, drippers)
    request = b"<scheduler_request>\n" + b" " * 2_000_000 + b"</scheduler_request>\n"
    assert b"<scheduler_reply>" in (reply := exchange(project.port, SCHEDULER, request))
    assert b"more requests than it can answer" not in reply


def test_hosts_with_the_same_address_as_an_attacker_are_answered(project, stack):
    stack.callback(Drippers(project.port, 200, "127.0.0.1", SCHEDULER).close)
    time.sleep(2.0)

    assert rpc_takes(project.port) < 8.0


def test_slow_upload_completes_during_an_attack(project, stack):
    name = "wu_slow_0_r1_0"
    output = project.manage(
        "shell",
        "--no-imports",
        "-c",
        f"from scheduler import signing; print(signing.upload_grant({name!r}, 100000))",
    )
    grant = output[: output.rindex(".") + 1].strip()
    stack.callback(Drippers(project.port, 200, "127.0.0.9", SCHEDULER).close)
    time.sleep(2.0)

    tries = 0
    offset = 0
    reply = b""
    while b"<status>0</status>" not in reply and tries < 5:
        tries += 1
        head = (
            "<data_server_request>\n<core_client_major_version>7</core_client_major_version>\n"
            "<core_client_minor_version>20</core_client_minor_version>\n"
            "<core_client_release>5</core_client_release>\n<file_upload>\n<file_info>\n"
            f"<name>{name}</name>\n<xml_signature>\n{grant}</xml_signature>\n"
            f"<max_nbytes>100000</max_nbytes>\n</file_info>\n<nbytes>{len(FILE)}</nbytes>\n"
            f"<offset>{offset}</offset>\n<data>\n"
        ).encode()
        reply = exchange(
            project.port, UPLOAD, head + FILE[offset:], address="127.0.0.77", rate=4000
        )
        stored = exchange(project.port, UPLOAD, size_query(name), address="127.0.0.77")
        offset = int(stored.partition(b"<file_size>")[2].partition(b"<")[0])

    assert b"<status>0</status>" in reply
    assert tries == 1, "as long as others hold more connections, a slow line is not cut"


def size_query(name):
    return (
        f"<data_server_request>\n<get_file_size>{name}</get_file_size>\n</data_server_request>\n"
    ).encode()


def test_received_part_of_an_interrupted_upload_is_kept(project, stack):
    """The client resumes the upload after the received part."""
    name = "wu_cut_0_r1_0"
    output = project.manage(
        "shell",
        "--no-imports",
        "-c",
        f"from scheduler import signing; print(signing.upload_grant({name!r}, 100000))",
    )
    grant = output[: output.rindex(".") + 1].strip()
    begin = (
        "<data_server_request>\n<core_client_major_version>7</core_client_major_version>\n"
        "<core_client_minor_version>20</core_client_minor_version>\n"
        "<core_client_release>5</core_client_release>\n<file_upload>\n<file_info>\n"
        f"<name>{name}</name>\n<xml_signature>\n{grant}</xml_signature>\n"
        "<max_nbytes>100000</max_nbytes>\n</file_info>\n<nbytes>99000</nbytes>\n"
        "<offset>0</offset>\n<data>\n"
    ).encode() + FILE[:20000]
    stack.callback(Drippers(project.port, 1, "127.0.0.9", UPLOAD, begin=begin).close)
    time.sleep(1.0)
    stack.callback(Drippers(project.port, 200, "127.0.0.9", UPLOAD, begin=begin[:100]).close)

    def kept():
        stored = exchange(project.port, UPLOAD, size_query(name))
        return int(stored.partition(b"<file_size>")[2].partition(b"<")[0] or 0)

    project.wait(lambda: kept() >= 19_000, within=30, what="the part is kept")


def test_clients_that_do_not_read_responses_do_not_block_the_server(project, stack):
    project.publish()
    [[name]] = [list(row.values()) for row in project.sql("SELECT name FROM file LIMIT 1")]
    path = next((project.folder / "var" / "download").rglob(name))
    with path.open("ab") as file:
        file.truncate(64 << 20)
    target = f"/download/{path.parent.name}/{name}"
    for _ in range(200):
        connected = socket.socket()
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connected.bind(("127.0.0.9", 0))
        connected.connect(("127.0.0.1", project.port))
        connected.sendall(
            f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{project.port}\r\n\r\n".encode()
        )
        stack.callback(connected.close)
    time.sleep(2.0)

    assert rpc_takes(project.port) < 8.0


def test_idle_connection_is_closed(project):
    """Granian's header timeout works only without detection of the HTTP version."""
    with socket.create_connection(("127.0.0.1", project.port), timeout=45) as silent:
        assert silent.recv(1) == b""
