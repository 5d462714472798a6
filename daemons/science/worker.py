"""Runs science code in worker processes, because it may hang or crash.

Each daemon process has at most `MAX_WORKERS` workers, one per plug-in, and one for built-in
science.  A worker starts with the first call and serves many calls.  It is replaced after a hang, a
crash or an invalid answer, after `MAX_CALLS` calls, to free leaked memory, and when a module of the
plug-in has changed.  `confinement` starts and confines workers; a worker ends with its daemon.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from functools import partial
from math import inf
from operator import attrgetter
from time import monotonic
from typing import Any, Final, TypeVar

from django.conf import settings

from daemons.science import confinement
from daemons.science.comparison import TARGET, Answer, Question, read_answer
from daemons.science.confinement import Profile, Started
from daemons.science.interfaces import TransientScienceError
from daemons.science.messages import (
    LENGTH,
    MAX_SENTENCE,
    MAX_TRACEBACK,
    BadMessage,
    a_text,
    status_of,
    unpacked,
)
from daemons.science.worker_main import ENDING_SIZE, TRACES_SIZE, Limits
from scheduler.apps.rules.plugins import Plugin

T = TypeVar("T")

#: A worker is replaced after this number of calls, or this many seconds of calls.
MAX_CALLS, MAX_SECONDS = 500, 3600.0
#: Each worker needs memory, so above this number the least recently used one is ended.
MAX_WORKERS: Final = 4
#: The longest answer, unless the call allows more; bytes.
MAX_ANSWER: Final = 1 << 20
#: The maximum size in JSON of an agreeing pair of ids, and of the reason for a bad result; bytes.
_MAX_PAIR_BYTES, _MAX_REASON_BYTES = 48, 8192
#: Minimum time between two scans of the same modules; a pass makes many calls.
MODULES_SCAN_SECONDS: Final = 1.0
#: The depth of packages in which modules are looked for; it ends a loop of symbolic links.
_MAX_PACKAGE_DEPTH: Final = 8
#: Timeout for the start of a worker; seconds.  No science runs during the start.
START_LIMIT: Final = 60.0
#: The interval of checks of a silent worker, and the time in which a failed worker must write its
#: traceback; seconds.
_POLL_SECONDS, _TRACEBACK_SECONDS = 0.05, 1.0


class ScienceFailed(Exception):
    """Science code failed; `traceback` shows the line, if it is known."""

    def __init__(self, sentence: str, traceback: str = "") -> None:
        super().__init__(sentence)
        self.traceback = traceback or sentence


class ScienceTimedOut(ScienceFailed):
    """Science code did not answer within its time limit and was killed."""


class ScienceCrashed(ScienceFailed):
    """The worker process ended before it answered."""


class ScienceRaised(ScienceFailed):
    """Science code raised an exception (its last line is the sentence) or returned bad data."""


@dataclass(slots=True)
class Failures:
    """The failures in one pass.

    `errors` maps the ids of subjects to error texts.  `transient` contains the ids of subjects
    whose failure is transient.
    """

    errors: dict[int, str] = field(default_factory=dict)
    transient: set[int] = field(default_factory=set)

    def add(self, subject_id: int, error: Exception) -> None:
        """Add the failure of a subject, with the worker's traceback if the error has one."""
        text = "\n".join([str(error), *getattr(error, "__notes__", ())])
        self.errors[subject_id] = getattr(error, "traceback", text)
        if isinstance(error, TransientScienceError):
            self.transient.add(subject_id)


def anything(value: object) -> Any:  # noqa: ANN401 - any JSON
    """Return the value unchanged.  This is the default reader of answers."""
    return value


def call(
    target: str,
    *args: Any,
    time_limit: timedelta,
    read: Callable[[object], T] = anything,
    profile: Profile | None = None,
    max_answer: int = MAX_ANSWER,
) -> T:
    """Run ``package.module:function`` with these arguments in a worker; return its answer.

    Arguments and answer are JSON; `read` checks the answer's shape, and raises `BadMessage`.
    Raises `ScienceTimedOut`, `ScienceCrashed`, `ScienceRaised` (all `ScienceFailed`), or
    `TransientScienceError` if science code raised it or no worker can be started with the needed
    confinement.  The time limit does not include the start of a worker.
    """
    data = json.dumps({"target": target, "arguments": args}, ensure_ascii=False)
    request = data.encode("utf-8", "replace")
    profile = profile or profile_of(None)
    with _lock:
        worker = _ready_worker(profile)
        answer = worker.ask(target, request, time_limit.total_seconds(), max_answer)
        try:
            if answer["status"] == "value":
                return read(answer["value"])
        except BadMessage as error:
            worker.end()
            raise ScienceRaised(f"{target} returned an invalid value: {error}") from error
        finally:
            if worker.is_worn_out:
                worker.end()
    sentence = a_text(answer.get("sentence", ""), "sentence", MAX_SENTENCE)
    trace = a_text(answer.get("traceback", ""), "traceback", MAX_TRACEBACK)
    if answer["status"] == "transient":
        transient = TransientScienceError(sentence)
        transient.add_note(trace)
        raise transient
    raise ScienceRaised(sentence, trace)


def call_plugin(
    plugin: Plugin, run: str, *args: Any, read: Callable[[object], T] = anything, **options: Any
) -> T:
    """Call `run` in a worker of the plug-in, as `call` does.

    The first arguments of `run` are the plug-in's ``package.module:function`` and the folder of
    science code.
    """
    profile = profile_of(plugin)
    return call(
        run, plugin.function, science_folder(), *args, read=read, profile=profile, **options
    )


def compare(
    question: Question, plugin: Plugin | None, time_limit: timedelta, *, reads: tuple[str, ...] = ()
) -> Answer:
    """Compare results in a worker; `reads` are folders in addition to those of every worker.

    Raises the exceptions of `call`.
    """
    count: Final = len(question.results)
    return call(
        TARGET,
        question.message(),
        time_limit=time_limit,
        read=partial(read_answer, question),
        profile=profile_of(plugin, *reads),
        max_answer=MAX_ANSWER + count * (_MAX_REASON_BYTES + count * _MAX_PAIR_BYTES),
    )


def science_folder() -> str:
    """Return the folder of the project's own science programs and modules."""
    return f"{settings.VAR_DIR}/science"


def profile_of(plugin: Plugin | None, *reads: str) -> Profile:
    """Return the access of a plug-in's worker; None means built-in science.

    The worker can also read the folders `reads`.  All workers can read outputs and the project's
    science folder.
    """
    inputs = (f"{settings.VAR_DIR}/upload", science_folder())
    own: tuple[str, ...] = ()
    if plugin is not None:
        own = plugin.reads
        if plugin.runner == "script" and plugin.path.startswith("/"):
            own = (*own, os.path.dirname(plugin.path))
    folders: list[str] = []
    identities: list[tuple[int, ...]] = []
    for folder in dict.fromkeys((*inputs, *own, *reads)):
        # A running worker does not see folders created or mounted later, so a new one is needed.
        with suppress(OSError):
            folder_stat = os.stat(folder)
            folders.append(folder)
            identities.append((folder_stat.st_dev, folder_stat.st_ino))
    if plugin is not None and plugin.runner == "python":
        # A running worker keeps the modules that it has imported.
        identities.append((_modules_digest(plugin.path),))
    return Profile(
        name="" if plugin is None else f"{plugin.kind} {plugin.name}",
        reads=tuple(folders),
        identities=tuple(identities),
        writes=() if plugin is None else plugin.writes,
        hidden=(str(settings.VAR_DIR), str(settings.KEYS_DIR)),
        network=plugin is not None and plugin.network,
        limits=Limits(
            memory_mb=settings.SCIENCE_MEMORY_MB,
            file_mb=settings.SCIENCE_FILE_MB,
            processes=settings.SCIENCE_PROCESSES,
            cpu_seconds=settings.SCIENCE_CPU_SECONDS,
        ),
    )


def _modules_digest(path: str) -> int:
    """Return a digest of the modules that the plug-in at an import path may import.

    It is kept for a second, because a pass makes many calls, and a folder may have many packages.
    """
    began_at, key = monotonic(), (science_folder(), path)
    scanned_at, digest = _scanned.get(key, (-inf, 0))
    if began_at - scanned_at >= MODULES_SCAN_SECONDS:
        digest = hash(tuple(_module_versions(science_folder(), path.split("."))))
        _scanned[key] = began_at, digest
    return digest


def _module_versions(
    folder: str, own: Sequence[str], depth: int = 0
) -> Iterator[tuple[int, int, int, int]]:
    """Yield device, inode, size and modification time of the modules in a folder and its packages.

    A folder is a package if it has an `__init__.py`, or if it is named in `own`, the path of the
    plug-in's module.  Other folders may contain many files of data.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in sorted(entries, key=attrgetter("name")):
            with suppress(OSError):
                if entry.name.endswith(".py"):
                    module = entry.stat()
                    yield module.st_dev, module.st_ino, module.st_size, module.st_mtime_ns
                elif depth < _MAX_PACKAGE_DEPTH and entry.is_dir():
                    is_own = [entry.name] == list(own[:1])
                    if is_own or os.path.exists(f"{entry.path}/__init__.py"):
                        rest = own[1:] if is_own else ()
                        yield from _module_versions(entry.path, rest, depth + 1)


def warning() -> str:
    """Return a warning if science code is not confined, else an empty string."""
    if settings.SCIENCE_SOCKET or confinement.best_form(settings.SCIENCE_CONFINEMENT) != "none":
        return ""
    if settings.SCIENCE_CONFINEMENT == "none":
        return (
            "Science code runs with the rights of the daemons: SCIENCE_CONFINEMENT=none. "
            "Hint: unset it."
        )
    return (
        "Science code runs with the rights of the daemons: it can be confined neither by "
        f"bubblewrap ({confinement.trouble('bubblewrap')}) nor by Landlock "
        f"({confinement.trouble('landlock')}). "
        "Hint: apt install bubblewrap, or run the science service (docs/plug-ins.md)."
    )


def stop() -> None:
    """End all workers of this process; the next call starts a new worker."""
    with _lock:
        for worker in list(_own.values()):
            worker.end()


class _Worker:
    """A worker process, and the daemon's end of its channel."""

    def __init__(self, profile: Profile) -> None:
        self.owner = os.getpid()
        self.profile = profile
        self.calls = 0
        self.busy = 0.0
        self.form = ""
        self._has_ended = False
        self._started = _service(profile) if settings.SCIENCE_SOCKET else _local(profile)
        self.channel, self.process = self._started.channel, self._started.process
        _own[profile] = self
        start = "the start of a worker"
        try:
            answer = self._receive(start, monotonic() + START_LIMIT, MAX_ANSWER)
        except TimeoutError:
            self.end()
            raise TransientScienceError(f"No worker was ready within {START_LIMIT:g} s.") from None
        except BaseException:
            self.end()
            raise
        self.form = str(answer.get("form", ""))
        self._refuse_unconfined(int(answer.get("uid", -1)))

    def _refuse_unconfined(self, uid: int) -> None:
        """Raise `TransientScienceError` for an unconfined plug-in of a public project."""
        is_public = settings.PROJECT.master_url.startswith("https:")
        if self.form != confinement.NONE or uid != os.getuid():
            return
        if is_public and self.profile.name:
            self.end()
            msg = (
                f"The {self.profile.name} does not run: the project is public, and science code is "
                "not confined. Hint: apt install bubblewrap, or run the science service "
                "(docs/plug-ins.md)."
            )
            raise TransientScienceError(msg)

    def ask(self, target: str, request: bytes, seconds: float, most: int) -> dict[str, Any]:
        """Send a request and return the answer; any exception ends the worker."""
        self.calls += 1
        began = monotonic()
        deadline = began + seconds
        try:
            self._send(len(request).to_bytes(LENGTH, "big") + request, deadline)
            answer = self._receive(target, deadline, most)
        except TimeoutError:
            where = self._hang_traceback()
            self.end()
            sentence = f"{target} did not answer within {seconds:g} s and was killed."
            raise ScienceTimedOut(sentence, f"{sentence}\n{where}") from None
        except OSError:
            raise self._crashed(target) from None
        except BaseException:
            # Interrupted: the next request must not receive the answer to this one.
            self.end()
            raise
        self.busy += monotonic() - began
        return answer

    @property
    def is_worn_out(self) -> bool:
        return self.calls >= MAX_CALLS or self.busy > MAX_SECONDS

    def end(self) -> None:
        """Kill the whole process group and drop the worker; may be called twice."""
        if self._has_ended:
            return
        self._has_ended = True
        if _own.get(self.profile) is self:
            del _own[self.profile]
        if self.owner != os.getpid():
            # A copy made by fork: its process and channel belong to the parent.
            self._started.folder = ""
            if self.process is not None:
                self.process.returncode = 0
        else:
            with suppress(OSError):
                self.channel.shutdown(socket.SHUT_RDWR)
            if self.process is not None:
                self._end_process(self.process)
        self._started.tidy()

    def _end_process(self, process: subprocess.Popen[bytes]) -> None:
        # The keeper needs time to kill all processes that the science code started.
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TRACEBACK_SECONDS)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def is_usable(self) -> bool:
        """Return whether the worker is alive, has no unread data, and belongs to this process."""
        if self.owner != os.getpid() or (self.process and self.process.poll() is not None):
            return False
        return not select.select([self.channel], [], [], 0)[0]

    def _send(self, request: bytes, deadline: float) -> None:
        self.channel.settimeout(max(0.001, deadline - monotonic()))
        self.channel.sendall(request)

    def _receive(self, target: str, deadline: float, most: int) -> dict[str, Any]:
        size = int.from_bytes(self._read(LENGTH, target, deadline), "big")
        if size > most:
            msg = f"The answer of {target} has {size} bytes, more than {most}."
            raise ScienceRaised(msg)
        data = self._read(size, target, deadline)
        try:
            return dict(status_of(unpacked(data)))
        except BadMessage as error:
            raise ScienceRaised(f"The answer of {target} cannot be read: {error}") from error

    def _read(self, count: int, target: str, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < count:
            self._wait_for_bytes(target, deadline)
            part = self.channel.recv(min(count - len(data), 1 << 20))
            if not part:
                raise self._crashed(target)
            data += part
        return bytes(data)

    def _wait_for_bytes(self, target: str, deadline: float) -> None:
        # A child that the science code forked may keep the channel open, so watch the worker, too.
        while True:
            left = deadline - monotonic()
            if left <= 0:
                raise TimeoutError
            has_ended = self.process is not None and self.process.poll() is not None
            wait = 0 if has_ended else min(left, _POLL_SECONDS) if self.process else left
            if select.select([self.channel], [], [], wait)[0]:
                return
            if has_ended:
                raise self._crashed(target)

    def _crashed(self, target: str) -> ScienceCrashed:
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_TRACEBACK_SECONDS)
        ending, where = self._ending(), self._traces()
        self.end()
        sentence = f"{target} crashed its process: {ending or 'closed its channel'}."
        return ScienceCrashed(sentence, f"{sentence}\n{where}")

    def _hang_traceback(self) -> str:
        """Return the Python traceback of a hanging worker, after its keeper has requested it."""
        deadline = monotonic() + _TRACEBACK_SECONDS
        with suppress(OSError):
            self.channel.shutdown(socket.SHUT_WR)
            while (left := deadline - monotonic()) > 0:
                if select.select([self.channel], [], [], left)[0] and not self.channel.recv(65_536):
                    break
        return self._traces()

    def _traces(self) -> str:
        if self._has_ended:
            return ""
        data = os.pread(self._started.traces, MAX_TRACEBACK, 0)
        return data.rstrip(b"\0").replace(b"\0", b"?").decode(errors="replace")

    def _ending(self) -> str:
        if self._has_ended:
            return ""
        data = os.pread(self._started.traces, ENDING_SIZE, TRACES_SIZE - ENDING_SIZE)
        text = data.rstrip(b"\0").decode("ascii", "replace")
        return text if text.isprintable() else ""


def _local(profile: Profile) -> Started:
    form = confinement.best_form(settings.SCIENCE_CONFINEMENT)
    try:
        return confinement.start(form, profile, confinement.user_for(form, profile))
    except (confinement.CannotConfine, OSError) as error:
        msg = (
            f"No worker can be started: {error}. Hint: see SCIENCE_CONFINEMENT in docs/plug-ins.md."
        )
        raise TransientScienceError(msg) from error


def _service(profile: Profile) -> Started:
    """Start a worker by the science service; the file for traces is passed with the profile."""
    path = settings.SCIENCE_SOCKET
    channel = socket.socket(socket.AF_UNIX)
    traces = confinement.new_traces()
    try:
        channel.settimeout(START_LIMIT)
        channel.connect(path)
        hello = json.dumps(asdict(profile)).encode()
        socket.send_fds(channel, [len(hello).to_bytes(LENGTH, "big")], [traces])
        channel.sendall(hello)
    except OSError as error:
        Started(channel, traces).tidy()
        msg = (
            f"The science service does not answer at {path}: {error}. "
            "Hint: check `systemctl status manyhands-science` and the setting SCIENCE_SOCKET."
        )
        raise TransientScienceError(msg) from error
    return Started(channel, traces)


def _ready_worker(profile: Profile) -> _Worker:
    worker = _own.get(profile)
    if worker is not None and not worker.is_usable():
        worker.end()
        worker = None
    if worker is None:
        for other in list(_own.values()):
            if replace(other.profile, identities=profile.identities) == profile:
                other.end()
        while len(_own) >= MAX_WORKERS:
            next(iter(_own.values())).end()
        return _Worker(profile)
    # The most recently used worker is the last.
    _own[profile] = _own.pop(profile)
    return worker


#: This process's workers, the least recently used one first.
_own: dict[Profile, _Worker] = {}
#: The time of the last scan, and its digest, by the folder and the import path of a plug-in.
_scanned: dict[tuple[str, str], tuple[float, int]] = {}
_lock = threading.RLock()
atexit.register(stop)
