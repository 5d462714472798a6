"""Confines science code to the files and resources that it needs.

A worker runs in one of four forms.  Each process tests a form once, by running a worker in it:

bubblewrap  private namespaces: the worker sees the system's programs, its inputs and a private
            /tmp, but no other process, and no network unless its profile allows it
landlock    the kernel refuses all other files, other processes and sockets
service     a process of another user, reached by a Unix socket (`daemons.science.service`),
            starts workers and confines them by one of the other forms
none        limits of memory, time, files and processes only

In each form, the worker gets only harmless environment variables, and inputs are read-only.  A
daemon that runs as root starts its workers as the user id `SCIENCE_UID`, which owns no files, if
that user can read the needed files.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from daemons.science.messages import LENGTH, BadMessage, receive, status_of, unpacked
from daemons.science.worker_main import DEFAULT_LIMITS, TRACES_SIZE, Config, Limits

BUBBLEWRAP, LANDLOCK, NONE = "bubblewrap", "landlock", "none"
#: Local forms, in the order in which they are tried.
LOCAL_FORMS = (BUBBLEWRAP, LANDLOCK, NONE)
#: The user id for science of a daemon that runs as root; Debian assigns it to no user.
SCIENCE_UID: Final = 65_533
#: Timeout of the test run of a form; seconds.
_PROBE_SECONDS: Final = 20.0
#: The only variables that science code inherits; other variables may contain secrets.
_ENVIRONMENT: Final = re.compile(
    r"PATH|LANG|LC_[A-Z]+|TZ|OMP_[A-Z_]+|OPENBLAS_NUM_THREADS|MKL_NUM_THREADS"
)
#: System paths that programs need; of /etc, only files without secrets.
_SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store"),
    *("/etc/alternatives", "/etc/fonts", "/etc/group", "/etc/ld.so.cache", "/etc/ld.so.conf"),
    *("/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf"),
    *("/etc/passwd", "/etc/ssl/certs"),
)
#: Further paths that network access needs.
_NETWORK: Final = ("/etc/hosts", "/etc/resolv.conf", "/run/systemd/resolve", "/etc/services")
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
#: The project's own folder.
BASE: Final = Path(__file__).resolve().parent.parent.parent
#: Parts of the project's folder that are not code: VAR_DIR by default, and deploy/.env.
_NO_CODE: Final = frozenset({"var", "deploy"})
#: The first version of Linux that counts processes per user namespace.
_COUNTS_PER_NAMESPACE: Final = (5, 14)


class CannotConfine(RuntimeError):
    """A form of confinement does not work on this machine. Hint: see the error text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The access rights and limits of a worker.

    `name` is the plug-in's name, or empty for built-in science.  `identities` are the devices and
    inodes of `reads`, and a digest of the plug-in's modules; workers that differ only in these
    replace each other.  `hidden` folders cannot be read, even if they are in a readable folder.
    """

    name: str = ""
    reads: tuple[str, ...] = ()
    identities: tuple[tuple[int, ...], ...] = ()
    writes: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    network: bool = False
    limits: Limits = DEFAULT_LIMITS


@dataclass(slots=True)
class Started:
    """A worker that was started.

    It has a process if it is local, the daemon's end of a channel, and a temporary folder.
    """

    channel: socket.socket
    traces: int
    process: subprocess.Popen[bytes] | None = None
    folder: str = ""

    def tidy(self) -> None:
        """Close the channel and files, and delete the temporary folder, after the process ended."""
        self.channel.close()
        os.close(self.traces)
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def best_form(wanted: str = "auto") -> str:
    """Return the form of confinement to use.

    This is `wanted`, or if `wanted` is ``auto``, the first local form that works on this machine.
    """
    if wanted != "auto":
        return wanted
    return next(form for form in LOCAL_FORMS if form == NONE or not trouble(form))


def trouble(form: str) -> str:
    """Return the reason why a local form fails on this machine, or an empty string.

    The result is cached per process.
    """
    with _probing:
        if form not in _troubles:
            _troubles[form] = _test_form(form)
        return _troubles[form]


def _test_form(form: str) -> str:
    why = "it does not work"
    # The users that workers can run as, in order of preference; None is the daemon's user.
    for user in (None,) if os.geteuid() else (SCIENCE_UID, None):
        try:
            _try(form, user)
        except (CannotConfine, OSError, subprocess.SubprocessError, BadMessage) as error:
            why = str(error)
        else:
            _user_of[form] = user
            return ""
    return why


def _try(form: str, user: int | None) -> None:
    """Start a worker and stop it when it is ready; raises an exception if it is never ready."""
    started = start(form, Profile(), user, stderr=subprocess.DEVNULL)
    try:
        started.channel.settimeout(_PROBE_SECONDS)
        size = int.from_bytes(_exactly(started.channel, LENGTH, form), "big")
        if size > TRACES_SIZE:
            raise CannotConfine(f"{form}: no worker answers")
        answer = status_of(unpacked(_exactly(started.channel, size, form)))
        if answer["status"] != "ready" or answer["form"] != form:
            raise CannotConfine(f"{form}: {answer.get('sentence', 'no worker answers')}")
    finally:
        if started.process:
            started.process.kill()
            started.process.wait()
        started.tidy()


def _exactly(channel: socket.socket, count: int, form: str) -> bytes:
    data = receive(channel, count)
    if len(data) < count:
        raise CannotConfine(f"{form}: the worker ended at its start")
    return data


def start(form: str, profile: Profile, user: int | None, stderr: int | None = None) -> Started:
    """Start a worker of a local form; raises `CannotConfine`."""
    daemon_end, worker_end = socket.socketpair()
    traces = new_traces()
    folder = "" if form == BUBBLEWRAP else _own_folder(user)
    with worker_end:
        try:
            process = spawn(
                form, profile, worker_end.fileno(), traces, folder=folder, user=user, stderr=stderr
            )
        except OSError as error:
            Started(daemon_end, traces, folder=folder).tidy()
            raise CannotConfine(f"{form}: {error}") from error
    return Started(daemon_end, traces, process, folder)


def user_for(form: str, profile: Profile) -> int | None:
    """Return the id of the user to which root's worker switches, or None if it does not switch.

    A worker stays root if it writes to folders, or if other users cannot read its inputs.
    """
    trouble(form)
    user = _user_of.get(form)
    if user is None or profile.writes or not _can_read_all(form, profile, in_group=True):
        return None
    return user


def _group_for(form: str, user: int | None, profile: Profile) -> int | None:
    """Return the group id that root's worker switches to, or None if it does not switch.

    The group id is equal to the user id, unless other users cannot read all inputs.  Then it is
    the daemon's group, which can read files with FILE_UMASK.
    """
    if user is None or _can_read_all(form, profile, in_group=False):
        return user
    return os.getegid()


def _can_read_all(form: str, profile: Profile, *, in_group: bool) -> bool:
    """Return whether a user other than root can read all inputs of a profile.

    `in_group` is True if this user is in the daemon's group.  The parent folders must also be
    searchable, except in bubblewrap, where root mounts the inputs.
    """
    for path in map(Path, profile.reads):
        above = () if form == BUBBLEWRAP else path.parents
        if not _grants(path, stat.S_IROTH, in_group=in_group):
            return False
        if not all(_grants(folder, 0, in_group=in_group) for folder in above):
            return False
    return True


def _grants(path: Path, rights: int, *, in_group: bool) -> bool:
    """Return whether a path's mode grants `rights`, and for a folder also the right to search.

    Returns True for a path that does not exist or cannot be examined.
    """
    try:
        status = path.stat()
    except OSError:
        return True
    if stat.S_ISDIR(status.st_mode):
        rights |= stat.S_IXOTH
    shift = 3 if in_group and status.st_gid == os.getegid() else 0
    return status.st_mode >> shift & rights == rights


def _own_folder(user: int | None) -> str:
    folder = tempfile.mkdtemp(prefix="science-")
    if user is not None:
        os.chown(folder, user, user)
    return folder


def spawn(
    form: str,
    profile: Profile,
    channel: int,
    traces: int,
    *,
    folder: str,
    user: int | None = None,
    stderr: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start the process that serves a channel; `folder` is for its temporary files."""
    processes = profile.limits.processes + _processes_before(form, user)
    config = Config(
        form=form,
        network=profile.network,
        limits=replace(profile.limits, processes=processes),
        user=user,
        group=_group_for(form, user, profile),
    )
    if form == LANDLOCK:
        config = replace(
            config,
            reads=(*_shown(profile), *_DEVICES),
            # Folders whose entries Python lists to find modules; not all of them are readable.
            lists=tuple(path for path in _module_paths() if os.path.isdir(path)),
            writes=(folder, "/dev/null", *profile.writes),
        )
    tmp = folder or "/tmp"  # noqa: S108 - a private one
    command = [sys.executable, "-m", "daemons.science.worker_main", str(channel), str(traces)]
    command.append(json.dumps(asdict(config)))
    if form == BUBBLEWRAP:
        command = [*_bubblewrap(profile, user), *command]
    return subprocess.Popen(  # noqa: S603 - a fixed command
        command,
        stdin=subprocess.DEVNULL,
        # Output of science code goes to the operator's log, never to the channel.
        stdout=2 if stderr is None else stderr,
        stderr=stderr,
        cwd=folder or "/",
        env=environment(tmp),
        pass_fds=(channel, traces),
        start_new_session=True,
    )


def environment(tmp: str) -> dict[str, str]:
    """Return the environment of science code, which inherits only harmless variables."""
    inherited = {name: text for name, text in os.environ.items() if _ENVIRONMENT.fullmatch(name)}
    return {
        "PATH": os.defpath,
        **inherited,
        "HOME": tmp,
        "TMPDIR": tmp,
        "PYTHONPATH": os.pathsep.join(_module_paths()),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def new_traces() -> int:
    """Return the descriptor of a file of fixed size, to which a worker writes its tracebacks."""
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryFile() as file:
            file.truncate(TRACES_SIZE)
            return os.dup(file.fileno())
    traces = os.memfd_create("traces", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(traces, TRACES_SIZE)
    import fcntl  # noqa: PLC0415 - Unix only

    fcntl.fcntl(traces, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return traces


# Visible paths


def _bubblewrap(profile: Profile, user: int | None) -> list[str]:
    program = shutil.which("bwrap")
    if program is None:
        raise FileNotFoundError("bwrap is not installed; Debian's package is bubblewrap")
    words = [program, "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--die-with-parent", "--cap-drop", "ALL"]
    # A worker that root starts changes its user itself, so it gets no new user namespace.
    words += (
        ["--unshare-user"]
        if user is None
        else ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    )
    words += [] if profile.network else ["--unshare-net"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    # A private /tmp, writable for the user that root switches to.
    words += ["--perms", "1777", "--tmpfs", "/tmp"]  # noqa: S108
    shown = [*_shown(profile), *profile.writes]
    for folder in _above(shown):
        # By default bwrap uses mode 0700, and the user that root switches to could not enter.
        words += ["--perms", "0755", "--dir", folder]
    for path in shown:
        words += _shown_in_place(path, "--bind-try" if path in profile.writes else "--ro-bind-try")
    return [*words, "--chdir", "/tmp", "--"]  # noqa: S108


def _above(paths: Iterable[str]) -> list[str]:
    """Return the parents of these paths, sorted from the root, without folders inside the paths."""
    paths = tuple(paths)
    above = {str(folder) for path in paths for folder in Path(path).parents}
    return sorted(
        folder
        for folder in above - {"/", "/tmp"}  # noqa: S108
        if not any(_is_in(folder, path) for path in paths)
    )


def _shown_in_place(path: str, how: str) -> list[str]:
    """Return the arguments of bwrap that make a path visible in a worker.

    A link in the root folder, such as /bin, stays a link.
    """
    if os.path.islink(path) and os.path.dirname(path) == "/":
        return ["--symlink", os.readlink(path), path]
    return [how, path, path]


def _shown(profile: Profile) -> Iterator[str]:
    """Yield the paths that a worker may read.

    These are the system, Python, the project's code and the profile's folders.  Hidden folders, and
    parts of the project's folder that are not code, are excluded, even if they are in one of these
    folders: the project may be installed below /usr.
    """
    hidden, base = tuple(os.path.realpath(path) for path in profile.hidden), str(BASE)
    for path in (*_SYSTEM, *(_NETWORK if profile.network else ())):
        yield from _without(path, (*hidden, base))
    paths = dict.fromkeys((*_python_paths(), *_code(BASE)))
    for path in paths:
        is_own = _is_in(path, base)
        if path not in _SYSTEM and not any(
            path != other and _is_in(path, other) and (_is_in(other, base) or not is_own)
            for other in (*paths, *_SYSTEM)
        ):
            yield from _without(path, hidden if is_own else (*hidden, base))
    yield from profile.reads


def _python_paths() -> Iterator[str]:
    yield from (sys.prefix, sys.base_prefix)
    executable = sys.executable
    while os.path.islink(executable):
        executable = os.path.join(os.path.dirname(executable), os.readlink(executable))
        yield os.path.normpath(executable)
    yield from (path for path in _module_paths() if path != str(BASE))


def _module_paths() -> list[str]:
    """Return the worker's module search path: Python's, the project's, and PYTHONPATH.

    The current folder, which Python may put first, is excluded.
    """
    named = {
        os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path
    }
    trusted_roots = (sys.prefix, sys.base_prefix, str(BASE))
    paths = [
        os.path.abspath(path)
        for path in sys.path
        if path
        and (os.path.abspath(path) in named or any(_is_in(path, root) for root in trusted_roots))
    ]
    return list(dict.fromkeys((str(BASE), *paths)))


def _code(base: Path) -> Iterator[str]:
    """Yield the entries of the project's folder except hidden ones, ``var`` and ``deploy``."""
    for entry in sorted(os.listdir(base)):
        if not entry.startswith(".") and entry not in _NO_CODE:
            yield str(base / entry)


def _without(path: str, hidden: Iterable[str]) -> Iterator[str]:
    """Yield paths that together contain `path` without the hidden folders.

    Yields `path` itself if it contains no hidden folder, else applies this to each of its entries.
    """
    real = os.path.realpath(path)
    if any(_is_in(real, folder) for folder in hidden):
        return
    if not any(_is_in(folder, real) for folder in hidden):
        yield path
        return
    with suppress(OSError):
        for entry in sorted(os.listdir(path)):
            yield from _without(os.path.join(path, entry), hidden)


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


# The limit of processes


def _processes_before(form: str, user: int | None) -> int:
    """Return the number of processes and threads that already count toward the limit."""
    numbers = re.findall(r"\d+", platform.release())[:2]
    if form == BUBBLEWRAP and user is None and tuple(map(int, numbers)) >= _COUNTS_PER_NAMESPACE:
        return 0
    uid = os.getuid() if user is None else user
    count = 0
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with suppress(OSError):
                if os.stat(f"/proc/{entry}").st_uid == uid:
                    count += len(os.listdir(f"/proc/{entry}/task"))
    return count


_troubles: dict[str, str] = {}
#: The user that workers run as, by form; None is the daemon's user.
_user_of: dict[str, int | None] = {}
_probing = threading.RLock()
