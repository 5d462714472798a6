"""Both clients accept passwords and keys in ways that `ps` does not show."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.pure.client.fake_project import ACCOUNT_KEY, EMAIL, PASSWORD, FakeProject

pytestmark = pytest.mark.lengthy

CLIENT = Path(__file__).resolve().parents[2] / "client"


@pytest.fixture
def project():
    with FakeProject() as running:
        yield running


def volunteer(folder: Path, *arguments: str, stdin: str = "", **environment: str):
    return subprocess.run(
        [sys.executable, str(CLIENT), *arguments, "--dir", str(folder)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
        check=False,
    )


def is_attached(folder: Path) -> bool:
    return ACCOUNT_KEY in (folder / "state.json").read_text()


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\nsecond line\n"])
def test_volunteer_client_reads_the_password_from_a_file(tmp_path, project, ending):
    secret = tmp_path / "secret"
    secret.write_bytes((PASSWORD + ending).encode())
    home = tmp_path / "home"
    done = volunteer(home, "attach", project.url, "--email", EMAIL, "--password-file", str(secret))
    assert done.returncode == 0, done.stderr
    assert is_attached(home)


def test_volunteer_client_reads_the_password_from_standard_input(tmp_path, project):
    words = ("attach", project.url, "--email", EMAIL, "--password-file", "-")
    done = volunteer(tmp_path / "home", *words, stdin=f"{PASSWORD}\n")
    assert done.returncode == 0, done.stderr


def test_volunteer_client_reads_the_password_from_the_environment(tmp_path, project):
    words = ("attach", project.url, "--email", EMAIL)
    done = volunteer(tmp_path / "home", *words, VOLUNTEER_PASSWORD=PASSWORD)
    assert done.returncode == 0, done.stderr


def test_volunteer_client_reads_the_key_from_a_file_or_the_environment(tmp_path, project):
    secret = tmp_path / "key"
    secret.write_text(f"{ACCOUNT_KEY}\n")
    done = volunteer(tmp_path / "a", "attach", project.url, "--key-file", str(secret))
    assert done.returncode == 0, done.stderr
    done = volunteer(tmp_path / "b", "attach", project.url, VOLUNTEER_KEY=ACCOUNT_KEY)
    assert done.returncode == 0, done.stderr
    assert is_attached(tmp_path / "a")
    assert is_attached(tmp_path / "b")


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe"])
def test_file_without_a_password_is_a_usage_error(tmp_path, project, content):
    secret = tmp_path / "secret"
    if content is not None:
        secret.write_bytes(content)
    words = ("attach", project.url, "--email", EMAIL, "--password-file", str(secret))
    done = volunteer(tmp_path / "home", *words)
    assert done.returncode == 2
    assert "Hint:" in done.stderr
    assert "Traceback" not in done.stderr


def test_password_and_password_file_together_are_a_usage_error(tmp_path, project):
    words = ("--email", EMAIL, "--password", "x", "--password-file", "y")
    done = volunteer(tmp_path / "home", "attach", project.url, *words)
    assert done.returncode == 2
    assert "not allowed with" in done.stderr
    assert "usage:" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_password_from_standard_input_is_not_shown_in_ps(tmp_path, project):
    """The test reads the command line of the running process from /proc."""
    home = tmp_path / "home"
    words = ["attach", project.url, "--email", EMAIL, "--password-file", "-", "--dir", str(home)]
    running = subprocess.Popen(
        [sys.executable, str(CLIENT), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    time.sleep(0.5)
    shown = Path(f"/proc/{running.pid}/cmdline").read_bytes()
    running.communicate(f"{PASSWORD}\n".encode())
    assert running.returncode == 0
    assert PASSWORD.encode() not in shown
    assert is_attached(home)


@pytest.fixture
def api():
    """A server with the API operations of a login; keeps the bodies and tokens it receives."""
    seen: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.reply(b'{"token": "mh_1", "id": 1}')

        def do_GET(self) -> None:
            seen.append(self.headers["Authorization"].encode())
            self.reply(b'{"account": {"email": "ada@example.org"}, "scopes": ["read"]}')

        def reply(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    server.seen = seen
    yield server
    server.shutdown()
    server.server_close()


def scientist(tmp_path, api, *words: str, stdin: str = "", **environment: str):
    url = f"http://127.0.0.1:{api.server_port}/"
    return subprocess.run(
        [sys.executable, "-m", "scientist", "login", url, *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        env={
            **os.environ,
            "PYTHONPATH": str(CLIENT),
            "MANYHANDS_CONFIG": str(tmp_path / "config"),
            **environment,
        },
        check=False,
    )


def test_scientist_client_reads_the_password_from_a_file_or_standard_input(tmp_path, api):
    secret = tmp_path / "secret"
    secret.write_text("a long password\n")
    done = scientist(tmp_path, api, "--email", "a@b.c", "--password-file", str(secret))
    assert done.returncode == 0, done.stderr
    words = ("--email", "a@b.c", "--password-file", "-")
    done = scientist(tmp_path, api, *words, stdin="a long password\n")
    assert done.returncode == 0, done.stderr
    assert [b"a long password" in body for body in api.seen[::2]] == [True, True]


def test_scientist_client_reads_the_token_from_a_file(tmp_path, api):
    secret = tmp_path / "secret"
    secret.write_text("mh_secret\n")
    done = scientist(tmp_path, api, "--token-file", str(secret))
    assert done.returncode == 0, done.stderr
    assert api.seen == [b"Bearer mh_secret"]


def test_scientist_client_reports_a_missing_password_file(tmp_path, api):
    done = scientist(tmp_path, api, "--email", "a@b.c", "--password-file", str(tmp_path / "none"))
    assert done.returncode == 2
    assert "cannot be read" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("module", "command"), [("volunteer", "attach"), ("scientist", "login")])
def test_help_warns_that_other_users_can_see_the_option_in_ps(module, command):
    done = subprocess.run(
        [sys.executable, "-m", module, command, "--help"],
        capture_output=True, text=True, timeout=60, check=True,
        env={**os.environ, "PYTHONPATH": str(CLIENT)},
    )  # fmt: skip
    assert "see it in ps" in " ".join(done.stdout.split())
