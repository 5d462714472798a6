"""The worker process: runs calls of science code one by one, and answers them.

Started as ``python -m daemons.science.worker_main SOCKET TRACES CONFIG``: two file descriptors and
JSON (see `Config`).  It consists of two processes:

- The *keeper* runs no science code.  It waits until the worker ends or the daemon closes its end of
  the channel, kills the processes that the science code started, records the worker's exit status,
  and exits.
- The *worker* confines itself by the configuration, and serves calls.  It imports the modules of
  the calls, but not Django: science code gets no settings, secrets or database.

The output of science code goes to the daemon's standard error.  `messages` defines the format of
calls and answers.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

from daemons.science import landlock
from daemons.science.interfaces import TransientScienceError
from daemons.science.kernel import die_with_parent, ending, prctl
from daemons.science.messages import LENGTH, packed, receive

_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
#: linux/capability.h: three sets of 64 bits follow.
_CAPABILITY_VERSION_3: Final = 0x20080522
#: The file of traces has this size; its last bytes record how the worker ended.
TRACES_SIZE, ENDING_SIZE = 65_536, 128
#: The time in which a hanging worker must write its traceback, and the time in which the keeper
#: kills the processes that the science code started; seconds.
_TRACEBACK_SECONDS, _KILLING_SECONDS = 0.25, 10.0
_POLL_MILLISECONDS: Final = 500
_MEGABYTE: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a worker, which the settings `SCIENCE_...` define."""

    memory_mb: int = 4096
    file_mb: int = 1024
    processes: int = 64
    cpu_seconds: int = 86_400


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The confinement of a worker.

    `form` is ``bubblewrap``, ``landlock`` or ``none``; bubblewrap is already active.  Paths are
    absolute.  Folders in `lists` can only be listed.  The limit of processes counts all processes
    of the user in this user namespace.  If `user` is set, the worker switches to this user id and
    to the group id `group`, which is by default equal to `user`.
    """

    form: str
    reads: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    network: bool = False
    limits: Limits = DEFAULT_LIMITS
    user: int | None = None
    group: int | None = None


def main(channel_number: int, traces: int, config: Config) -> None:
    """Start the worker, and watch it until it ends or the daemon closes the channel.

    `channel_number` and `traces` are file descriptors.
    """
    if config.user is not None:
        os.setgroups([])
        group = config.user if config.group is None else config.group
        os.setresgid(group, group, group)
        os.setresuid(config.user, config.user, config.user)
    die_with_parent(by=signal.SIGKILL)
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    channel = socket.socket(fileno=channel_number)
    # Programs that the science code starts must not keep the channel open.
    os.set_inheritable(channel_number, False)
    os.set_inheritable(traces, False)
    sys.stdout.flush()
    worker = os.fork()
    if not worker:
        os.setsid()
        die_with_parent(by=signal.SIGKILL)
        _work(channel, traces, config)
        os._exit(0)
    _keep(worker, channel, traces)


# The keeper


def _keep(worker: int, channel: socket.socket, traces: int) -> None:
    status = _watched(worker, channel)
    if status is None:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGUSR1)
        status = _status_within(worker, _TRACEBACK_SECONDS)
    _kill_descendants()
    words = "was killed" if status is None else ending(os.waitstatus_to_exitcode(status))
    with suppress(OSError):
        os.pwrite(traces, words.encode()[:ENDING_SIZE], TRACES_SIZE - ENDING_SIZE)
    with suppress(OSError):
        # A surviving process may have a copy of the channel, so shut down all copies.
        channel.shutdown(socket.SHUT_RDWR)


def _watched(worker: int, channel: socket.socket) -> int | None:
    """Return the worker's wait status, or None if the daemon closed the channel first."""
    poll = select.poll()
    poll.register(channel, getattr(select, "POLLRDHUP", 0))
    with suppress(AttributeError, OSError):  # needs Linux 5.3
        poll.register(os.pidfd_open(worker), select.POLLIN)
    while True:
        events = dict(poll.poll(_POLL_MILLISECONDS))
        if (status := _status_within(worker, 0)) is not None:
            return status
        if channel.fileno() in events:
            return None


def _status_within(worker: int, seconds: float) -> int | None:
    give_up_at = monotonic() + seconds
    while True:
        pid, status = os.waitpid(worker, os.WNOHANG)
        if pid:
            return status
        if monotonic() >= give_up_at:
            return None
        sleep(0.005)


def _kill_descendants() -> None:
    """Kill all descendants, for at most `_KILLING_SECONDS`.

    Orphaned descendants become children of this process.
    """
    give_up_at = monotonic() + _KILLING_SECONDS
    while monotonic() < give_up_at:
        for child in _children():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        sleep(0.001)


def _children() -> list[int]:
    try:
        return [
            int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        ]
    except OSError:
        return [pid for pid, parent in _parents().items() if parent == os.getpid()]


def _parents() -> dict[int, int]:
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with suppress(OSError, ValueError, IndexError):
                words = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                parents[int(entry)] = int(words[1])
    return parents


# The worker


def _work(channel: socket.socket, traces: int, config: Config) -> None:
    # After a crash or a timeout, the file of traces shows where the science code was.
    faulthandler.enable(traces)
    faulthandler.register(signal.SIGUSR1, traces, all_threads=True)
    # Most calls compare results: import this before the time limit of the first call begins.
    import_module("daemons.science.comparison")
    confine(config)
    channel.sendall(packed({"status": "ready", "form": config.form, "uid": os.getuid()}))
    while (request := _receive(channel)) is not None:
        channel.sendall(_answer(request))


def confine(config: Config) -> None:
    """Drop capabilities and set the limits; restrict the access if `form` is ``landlock``.

    This cannot be undone.
    """
    os.umask(0o027)
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _drop_capabilities()
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: config.limits.cpu_seconds,
        resource.RLIMIT_AS: config.limits.memory_mb * _MEGABYTE,
        resource.RLIMIT_FSIZE: config.limits.file_mb * _MEGABYTE,
        resource.RLIMIT_NPROC: config.limits.processes,
    }
    for limit, value in limits.items():
        hard_limit = resource.getrlimit(limit)[1]
        if hard_limit != resource.RLIM_INFINITY:
            value = min(value, hard_limit)  # noqa: PLW2901 - a limit only falls
        resource.setrlimit(limit, (value, value))
    if config.form == "landlock":
        landlock.confine(
            reads=config.reads, lists=config.lists, writes=config.writes, network=config.network
        )


def resolve(target: str, folder: str = "") -> Any:  # noqa: ANN401 - any object
    """Import and return the object ``package.module:function``.

    Modules are also searched in `folder`, which is added to `sys.path`.
    """
    if folder and folder not in sys.path:
        sys.path.append(folder)
    module_name, _, function = target.partition(":")
    try:
        module = import_module(module_name)
    except Exception as error:
        if type(error).__name__ in {"AppRegistryNotReady", "ImproperlyConfigured"}:
            error.add_note(
                "Hint: science code has no Django, settings or database. Make the assimilator "
                "`transactional` in the PLUGINS file, or return its results."
            )
        raise
    target_object: Any = module
    for name in function.split("."):
        target_object = getattr(target_object, name)
    return target_object


def _answer(request: dict[str, Any]) -> bytes:
    try:
        return packed(
            {"status": "value", "value": resolve(request["target"])(*request["arguments"])}
        )
    except TransientScienceError as error:
        return _failure("transient", str(error), traceback.format_exc())
    except BaseException as error:  # noqa: BLE001 - even sys.exit() ends the call, not the worker
        sentence = "".join(traceback.format_exception_only(error)).strip()
        return _failure("raised", sentence, traceback.format_exc())


def _failure(status: str, sentence: str, trace: str) -> bytes:
    def clean(text: str) -> str:
        return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()

    return packed(
        {"status": status, "sentence": clean(sentence)[:2000], "traceback": clean(trace)[-20_000:]}
    )


def _receive(channel: socket.socket) -> Any:  # noqa: ANN401 - the daemon's request
    """Return the next request, or None at the end of the channel."""
    head = receive(channel, LENGTH)
    if len(head) < LENGTH:
        return None
    return json.loads(receive(channel, int.from_bytes(head, "big")))


def _drop_capabilities() -> None:
    """Drop all capabilities of this process; raises OSError.

    A worker that stays root keeps root's rights as the owner of files.  Landlock does not limit
    capabilities, with which science code could load kernel modules.
    Programs that the science code starts do not regain them, because of no_new_privs.
    """
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None, use_errno=True)
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), 8)
    if library.capset(header, ctypes.create_string_buffer(24)):
        code = ctypes.get_errno()
        raise OSError(code, f"The worker cannot give up root's privileges: {os.strerror(code)}")


if __name__ == "__main__":
    config = json.loads(sys.argv[3])
    limits = Limits(**config.pop("limits"))
    main(int(sys.argv[1]), int(sys.argv[2]), Config(**config, limits=limits))
