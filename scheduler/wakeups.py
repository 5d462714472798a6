"""Wakes daemons: a datagram to a daemon's socket signals that it may have work.

Each daemon process binds a Unix datagram socket, its bell, in ``VAR_DIR/run/bells``.  A process
that commits work for a daemon rings all bells of that daemon on this machine, that is, sends them a
datagram.  A ring is only a hint: it may be lost, late or spurious, and daemons poll as well.
Therefore ringing never blocks and raises no errors.  A daemon with unread datagrams wakes up
anyway, and if there is no bell, no daemon is running.
"""

from __future__ import annotations

import logging
import os
import select
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Final, Self

from django.conf import settings
from django.db import transaction

if TYPE_CHECKING:
    from collections.abc import Iterable

log = logging.getLogger(__name__)

#: How long the names of bells are cached before the folder is read again.
CACHE_SECONDS: Final = 1.0
#: A bell that refuses connections is removed if it was not touched for this time.
STALE_SECONDS: Final = 3600.0
#: The maximum path of a socket, in bytes: 108 on Linux and less elsewhere, with the final NUL.
MAX_PATH_BYTES: Final = 100

_SUFFIX: Final = ".bell"
_MAX_READ: Final = 1024


def after_commit(*daemons: str) -> None:
    """Ring the daemons' bells when the open transaction commits, or at once if none is open."""
    transaction.on_commit(partial(ring, daemons))


def ring(daemons: Iterable[str]) -> None:
    """Ring the bells of the named daemons; does not block and raises no `OSError`."""
    _ringer.ring(daemons)


class Bell:
    """The socket on which a daemon receives wake-ups; a context manager that closes it.

    If the socket cannot be bound, a warning is logged and `is_deaf` is True.
    """

    def __init__(self, daemon: str) -> None:
        """Bind the socket; `daemon` is the name that is given to `ring`."""
        self._folder = folder()
        self._name = f"{daemon}.{os.getpid()}.{time_ns():x}{_SUFFIX}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _remove_stale_bells(self._folder)
            with _Reach(self._folder) as reach:
                self._socket.bind(reach.path(self._name))
        except OSError as error:
            self._socket.close()
            log.warning("bell_unavailable", extra={"daemon": daemon, "reason": str(error)})

    @property
    def is_deaf(self) -> bool:
        """Whether the socket is not bound, so that the daemon only polls."""
        return self._socket.fileno() < 0

    def fileno(self) -> int:
        """Return the socket's descriptor for `select`; -1 if it is not bound."""
        return self._socket.fileno()

    def silence(self) -> bool:
        """Discard all datagrams received so far; return whether there was one."""
        if self.is_deaf:
            return False
        was_rung = False
        with suppress(BlockingIOError):
            for _ in range(_MAX_READ):
                self._socket.recv(1)
                was_rung = True
        return was_rung

    def show(self) -> None:
        """Update the modification time of the socket file, so that it is not removed as stale."""
        with suppress(OSError):
            (self._folder / self._name).touch()

    def close(self) -> None:
        """Close the socket and remove its file."""
        if not self.is_deaf:
            self._socket.close()
            with suppress(OSError):
                (self._folder / self._name).unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Ringer:
    """Rings bells with a socket of this process, and caches the names of bells; thread-safe."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._folder = Path()
        self._bells: tuple[str, ...] = ()
        self._read_at = 0.0

    def ring(self, daemons: Iterable[str]) -> None:
        prefixes = tuple(f"{daemon}." for daemon in daemons)
        wanted = [name for name in self._bell_names() if name.startswith(prefixes)]
        if not wanted:
            return
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
        try:
            with _Reach(self._folder) as reach:
                for name in wanted:
                    self._ring_one(name, reach)
        except OSError:
            self._bells = ()  # the folder is gone

    def _ring_one(self, name: str, reach: _Reach) -> None:
        assert self._socket is not None
        try:
            self._socket.sendto(b"!", reach.path(name))
        except (BlockingIOError, InterruptedError):
            pass  # the socket's queue is full, so the daemon wakes up anyway
        except OSError:
            # No process on this machine reads this socket: skip it until the folder is read again.
            self._bells = tuple(bell for bell in self._bells if bell != name)

    def _bell_names(self) -> tuple[str, ...]:
        now = monotonic()
        here = folder()
        if now - self._read_at > CACHE_SECONDS or here != self._folder:
            self._folder, self._read_at = here, now
            try:
                self._bells = tuple(n for n in os.listdir(here) if n.endswith(_SUFFIX))  # noqa: PTH208 - names are enough
            except OSError:
                self._bells = ()
        return self._bells


class _Reach:
    """Provides short paths of sockets, since the kernel limits their length (`MAX_PATH_BYTES`)."""

    def __init__(self, where: Path) -> None:
        self._where = os.fspath(where)
        self._fd = -1

    def path(self, name: str) -> str:
        """Return a path of a socket in the folder that is short enough for the kernel."""
        return f"{self._where}/{name}"

    def __enter__(self) -> Self:
        # Linux has /proc/self/fd; elsewhere a bell with a long path cannot be bound.
        if len(os.fsencode(self._where)) > MAX_PATH_BYTES - 48:
            self._fd = os.open(self._where, os.O_RDONLY | os.O_DIRECTORY)
            self._where = f"/proc/self/fd/{self._fd}"
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def folder() -> Path:
    """Return the folder of this project's bells."""
    where: Path = settings.VAR_DIR / "run" / "bells"
    return where


def answering_bells() -> list[str]:
    """Return the names of the bells that a process on this machine reads.

    A name begins with the daemon's name and its process id: ``validator.4711.``.
    """
    names: list[str] = []
    with suppress(FileNotFoundError):
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with probe, _Reach(folder()) as reach:
            for path in sorted(folder().glob(f"*{_SUFFIX}")):
                with suppress(OSError):
                    probe.connect(reach.path(path.name))
                    names.append(path.name)
    return names


def wait(seconds: float, *descriptors: int) -> bool:
    """Wait at most `seconds` until a descriptor is readable; return whether one is readable."""
    poll = select.poll()
    for descriptor in descriptors:
        if descriptor >= 0:
            poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def _remove_stale_bells(where: Path) -> None:
    """Remove the bells of killed processes: old sockets that refuse connections."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe, _Reach(where) as reach:
        probe.setblocking(False)
        for path in where.glob(f"*{_SUFFIX}"):
            with suppress(OSError):
                age = time_ns() / 1e9 - path.stat().st_mtime
                try:
                    probe.connect(reach.path(path.name))
                except ConnectionRefusedError:
                    # In a shared folder, it may be the bell of a daemon on another machine, which
                    # renews its modification time.
                    if age > STALE_SECONDS:
                        path.unlink()


_ringer = _Ringer()
