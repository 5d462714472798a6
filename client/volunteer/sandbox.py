"""Limits the files, the network and the resources that programs can use.

Every program has resource limits. Unless confinement is disabled, a program also cannot gain
privileges on Linux. The client runs bubblewrap once to test it. If bubblewrap works, a program sees
only the system's programs and libraries, the program folders of the volunteer, its slot and the
files of its project. It has no network unless its app version requires a network. Bubblewrap's new
user namespace also prevents programs from reading or tracing other processes. A program that starts
containers has only the resource limits.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_PROBE_SECONDS = 20.0
_PROBE_CODE = 37
_NICENESS = 19
_PR_SET_NO_NEW_PRIVS = 38
# This limit stops fork bombs. It also counts the user's other processes.
_MAX_PROCESSES = 8192
_SYSTEM = ("/usr", "/etc", "/opt", "/nix/store", "/gnu/store", "/sys")
# These are links into /usr on most systems.
_SYSTEM_OR_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_RESOLVER = "/run/systemd/resolve"
_MAX_FOLDERS = 200
# Signals that bubblewrap reports as 128 + number. BOINC's own exit codes begin at 192.
_SIGNALS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 24, 25, 31})
_FIRST_SIGNAL = 128


class Confinement(StrEnum):
    """The mode of confinement.

    AUTO confines programs if bubblewrap works. OFF confines no programs. REQUIRE starts only
    confined programs.
    """

    AUTO = "auto"
    OFF = "off"
    REQUIRE = "require"


class NoSandboxError(Exception):
    """Confinement is required but does not work here. The message contains the reason."""


@dataclass(frozen=True, slots=True)
class Program:
    """The folders and resources that a program may use.

    `home` is the folder of the client. `project` is the folder of the project's files. `read_only`
    contains the files in `project` that must not change. `writes_project` is True if the program
    writes an output to `project`. A `max_file_bytes` of 0 means no limit.
    """

    home: Path
    slot: Path
    project: Path
    read_only: tuple[Path, ...] = ()
    writes_project: bool = True
    needs_network: bool = False
    needs_containers: bool = False
    max_file_bytes: int = 0


class Sandbox:
    """Confines programs.

    The constructor runs bubblewrap once to test it. It raises NoSandboxError if confinement is
    required and bubblewrap does not work.
    """

    def __init__(
        self,
        confinement: Confinement,
        readable: tuple[Path, ...] = (),
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.confinement = confinement
        self._tool = "" if confinement == Confinement.OFF else shutil.which("bwrap") or ""
        self._readable = (*readable, *_program_folders(environment)) if self._tool else ()
        self.fault = "confinement is disabled" if confinement == Confinement.OFF else self._probe()
        if self.fault:
            self._tool = ""
            if confinement == Confinement.REQUIRE:
                raise NoSandboxError(
                    f"Programs cannot be confined here: {self.fault}.\n"
                    "Hint: install bubblewrap and allow user namespaces, or use --confine auto."
                )

    @property
    def works(self) -> bool:
        return bool(self._tool)

    def is_wrapped(self, program: Program) -> bool:
        """Return whether a program runs under bubblewrap.

        A program that starts containers runs without bubblewrap, because container engines without
        a daemon need privileges. The container then confines the computation. If confinement is
        required, raises OSError for such a program.
        """
        if program.needs_containers and self.confinement == Confinement.REQUIRE:
            raise OSError(
                "the app needs a container engine, which --confine require does not allow"
            )
        return self.works and not program.needs_containers

    def command(self, program: Program, info_descriptor: int) -> list[str]:
        """Return bubblewrap's command line, to which the caller appends the program's command line.

        Bubblewrap writes the program's process id to `info_descriptor`. The process-id namespace is
        shared, so that signals reach the program as without bubblewrap.
        """
        slot, project = str(program.slot), str(program.project)
        words = [self._tool, "--new-session", "--info-fd", str(info_descriptor)]
        words += ["--unshare-user-try", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        words += ["--cap-drop", "ALL"]
        if not program.needs_network:
            words.append("--unshare-net")
        for folder in _SYSTEM:
            words += ["--ro-bind-try", folder, folder]
        for folder in _SYSTEM_OR_LINKS:
            path = Path(folder)
            if path.is_symlink():
                words += ["--symlink", str(path.readlink()), folder]
            else:
                words += ["--ro-bind-try", folder, folder]
        if program.needs_network:
            words += ["--ro-bind-try", _RESOLVER, _RESOLVER]
        words += ["--ro-bind", "/proc", "/proc", "--dev", "/dev"]
        words += ["--tmpfs", "/tmp", "--tmpfs", "/var/tmp"]  # noqa: S108 - new, private ones
        for path in self._readable:
            words += ["--ro-bind-try", str(path), str(path)]
        # The client's folder has account keys, and may be below a visible folder.
        words += ["--tmpfs", str(program.home)]
        words += ["--bind" if program.writes_project else "--ro-bind", project, project]
        if program.writes_project:
            for path in program.read_only:
                words += ["--ro-bind", str(path), str(path)]
        words += ["--bind", slot, slot, "--chdir", slot, "--"]
        return words

    def prepare_process(self, program: Program) -> Callable[[], None]:
        """Return a function that the child process calls between fork and exec.

        The function sets the priority and the limits of the program. All values are computed in
        advance, so that the function only makes system calls.
        """
        limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_NPROC, _MAX_PROCESSES)]
        if program.max_file_bytes:
            limits.append((resource.RLIMIT_FSIZE, program.max_file_bytes))
        bounded = [(kind, _lowered(kind, limit)) for kind, limit in limits]
        gives_up_privileges = self.confinement != Confinement.OFF and not program.needs_containers
        prctl = _prctl() if gives_up_privileges else None

        def prepare() -> None:
            os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
            for kind, pair in bounded:
                resource.setrlimit(kind, pair)
            if prctl is not None:
                prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

        return prepare

    def _probe(self) -> str:
        """Run bubblewrap once, and return the reason why it does not work, or an empty string."""
        if not self._tool:
            return "bubblewrap (bwrap) is not installed"
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder).resolve()
            program = Program(home, home, home)
            reader, writer = os.pipe()
            try:
                words = [*self.command(program, writer), "/bin/sh", "-c", f"exit {_PROBE_CODE}"]
                completed = subprocess.run(  # noqa: S603 - bubblewrap with fixed arguments
                    words,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    pass_fds=(writer,),
                    timeout=_PROBE_SECONDS,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                return f"bwrap cannot be run: {error}"
            finally:
                os.close(reader)
                os.close(writer)
        if completed.returncode == _PROBE_CODE:
            return ""
        reason = " ".join(completed.stderr.split()) or f"exit status {completed.returncode}"
        return f"bwrap does not work: {reason:.200}"


def read_child_pid(descriptor: int) -> int:
    """Return the program's process id, which bubblewrap writes to `descriptor`.

    Raises OSError if bubblewrap wrote no process id.
    """
    content = b""
    while not content.rstrip().endswith(b"}") and (chunk := os.read(descriptor, 4096)):
        content += chunk
    try:
        return int(json.loads(content)["child-pid"])
    except (ValueError, KeyError, TypeError) as error:
        raise OSError("bubblewrap did not start the program") from error


def signal_of(exit_code: int) -> int:
    """Return the signal that bubblewrap reports as an exit code, or 0.

    >>> signal_of(139), signal_of(3), signal_of(195)
    (11, 0, 0)
    """
    number = exit_code - _FIRST_SIGNAL
    return number if number in _SIGNALS else 0


def _lowered(kind: int, limit: int) -> tuple[int, int]:
    _, hard = resource.getrlimit(kind)
    bound = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    return bound, bound


def _prctl() -> Callable[..., int] | None:
    """Return Linux's `prctl`, which can forbid new privileges, or None if it is not available."""
    if sys.platform != "linux":
        return None
    with contextlib.suppress(OSError, AttributeError):
        prctl: Callable[..., int] = ctypes.CDLL(None).prctl
        return prctl
    return None


def _program_folders(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return at most 200 folders that programs on the search path need, without system folders.

    For example, an interpreter that pyenv or conda installed in the volunteer's home must be
    readable. Other files in the home must not be readable.
    """
    folders: dict[Path, None] = {}
    for entry in environment.get("PATH", "").split(os.pathsep):
        _add_folder(Path(entry), folders)
    for entry in environment.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if entry and Path(entry).is_dir() and not _holds_home(Path(entry)):
            folders[Path(entry)] = None
    return tuple(path for path in folders if not _is_system(path))[:_MAX_FOLDERS]


def _add_folder(folder: Path, folders: dict[Path, None]) -> None:
    if not folder.is_absolute() or folder in folders or _is_system(folder) or _holds_home(folder):
        return
    if len(folders) >= _MAX_FOLDERS or not folder.is_dir():
        return
    folders[folder] = None
    if folder.name in {"bin", "sbin"}:
        beside = ("lib", "lib64", "libexec", "pyvenv.cfg")
        folders.update(dict.fromkeys(folder.parent / name for name in beside))
    elif folder.name == "shims":
        # This folder has scripts of pyenv, rbenv or asdf that select the version to run.
        folders[folder.parent] = None
    for target in _link_targets(folder):
        if target.parent.name in {"bin", "sbin"}:
            _add_folder(target.parent, folders)
        elif not _holds_home(target):
            folders[target] = None


def _link_targets(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for path in (folder, *folder.iterdir()):
            if path.is_symlink() and (target := path.resolve()).exists():
                yield target


def _holds_home(folder: Path) -> bool:
    return Path.home().resolve().is_relative_to(folder.resolve())


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(system) for system in (*_SYSTEM, *_SYSTEM_OR_LINKS))
