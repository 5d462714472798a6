"""Wake-ups: the room of bells; a datagram says that a daemon may have work now.

Each daemon binds a Unix socket of its own, its bell, in ``VAR_DIR/run/bells``; whoever committed
work for that daemon rings all of its bells on this machine.  A ring is a hint and never more: it
may be lost, come late or come for nothing, and daemons poll as well.  So a ring never waits and
never fails: a full bell is about to be answered anyway, and one that is gone has nobody behind it.
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
    from types import TracebackType

log = logging.getLogger(__name__)

#: How long the names of bells are remembered before the folder is read again; seconds.
REMEMBERED: Final = 1.0
#: A bell whose owner gave no sign for so long, and that nobody answers, is taken away; seconds.
FORGOTTEN_AFTER: Final = 3600.0
#: The longest path of a socket, in bytes: 108 on Linux and less elsewhere, with the final NUL.
LONGEST_PATH: Final = 100

_SUFFIX: Final = ".bell"
_DRAINED_AT_ONCE: Final = 1024


def after_commit(*daemons: str) -> None:
    """Ring once the transaction that is open now commits, at once if none is open."""
    transaction.on_commit(partial(ring, daemons))


def ring(daemons: Iterable[str]) -> None:
    """Ring the bells of daemons, by their names; never waits, never fails."""
    _ringer.ring(daemons)


class Bell:
    """What a daemon hears its wake-ups by; a context manager, deaf where no socket can be bound."""

    def __init__(self, daemon: str) -> None:
        """Bind the socket; `daemon` is the name that ringers call."""
        self._folder = folder()
        self._name = f"{daemon}.{os.getpid()}.{time_ns():x}{_SUFFIX}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _take_away_the_dead(self._folder)
            with _Reach(self._folder) as reach:
                self._socket.bind(reach.path(self._name))
        except OSError as error:
            self._socket.close()
            log.warning("no wake-ups", extra={"daemon": daemon, "reason": str(error)})

    @property
    def is_deaf(self) -> bool:
        """Whether it hears nothing, so that its daemon has only its polls."""
        return self._socket.fileno() < 0

    def fileno(self) -> int:
        """Return what `select` asks for; -1 if it is deaf."""
        return self._socket.fileno()

    def silence(self) -> bool:
        """Take in what has been rung up to now; whether there was anything."""
        if self.is_deaf:
            return False
        was_rung = False
        with suppress(BlockingIOError):
            for _ in range(_DRAINED_AT_ONCE):
                self._socket.recv(1)
                was_rung = True
        return was_rung

    def show(self) -> None:
        """Give a sign that its owner lives, for it not to be taken away."""
        with suppress(OSError):
            (self._folder / self._name).touch()

    def close(self) -> None:
        """Hear nothing any more, and leave nothing behind."""
        if not self.is_deaf:
            self._socket.close()
            with suppress(OSError):
                (self._folder / self._name).unlink()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


class _Ringer:
    """The one socket of this process that rings, and the bells it knows; any thread may call."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._folder = Path()
        self._bells: tuple[str, ...] = ()
        self._read_at = 0.0

    def ring(self, daemons: Iterable[str]) -> None:
        prefixes = tuple(f"{daemon}." for daemon in daemons)
        wanted = [name for name in self._known() if name.startswith(prefixes)]
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
            pass  # full: it has been rung often enough
        except OSError:
            # Nobody is behind it on this machine; it is not tried again before it is read again.
            self._bells = tuple(one for one in self._bells if one != name)

    def _known(self) -> tuple[str, ...]:
        now = monotonic()
        here = folder()
        if now - self._read_at > REMEMBERED or here != self._folder:
            self._folder, self._read_at = here, now
            try:
                self._bells = tuple(n for n in os.listdir(here) if n.endswith(_SUFFIX))  # noqa: PTH208 - names are enough
            except OSError:
                self._bells = ()
        return self._bells


class _Reach:
    """Paths of sockets in a folder, short enough for the kernel however long the folder's is."""

    def __init__(self, where: Path) -> None:
        self._where = os.fspath(where)
        self._fd = -1

    def path(self, name: str) -> str:
        """How to call a socket of the folder."""
        return f"{self._where}/{name}"

    def __enter__(self) -> Self:
        # Linux reaches a folder through a descriptor; elsewhere a bell with a long path is deaf.
        if len(os.fsencode(self._where)) > LONGEST_PATH - 48:
            self._fd = os.open(self._where, os.O_RDONLY | os.O_DIRECTORY)
            self._where = f"/proc/self/fd/{self._fd}"
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def folder() -> Path:
    """Where the bells of this project hang."""
    where: Path = settings.VAR_DIR / "run" / "bells"
    return where


def wait(seconds: float, *what: int) -> bool:
    """Wait so long, or until one of the descriptors can be read; whether one can."""
    poll = select.poll()
    for descriptor in what:
        if descriptor >= 0:
            poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


def _take_away_the_dead(where: Path) -> None:
    """Remove bells whose owners were killed: nobody answers, and nobody has for a long while."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as knock, _Reach(where) as reach:
        knock.setblocking(False)
        for path in where.glob(f"*{_SUFFIX}"):
            with suppress(OSError):
                age = time_ns() / 1e9 - path.stat().st_mtime
                try:
                    knock.connect(reach.path(path.name))
                except ConnectionRefusedError:
                    # On a shared folder it may be another machine's: its owner renews it.
                    if age > FORGOTTEN_AFTER:
                        path.unlink()


_ringer = _Ringer()
