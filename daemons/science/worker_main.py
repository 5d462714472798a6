"""The worker process: takes one call after the other from its daemon, and answers.

Started as ``python -m daemons.science.worker_main SOCKET TRACES``, two file descriptors.  Imports
what the calls name, and no Django unless they do; what the science prints goes to the daemon's
standard error.
A message is eight bytes of length, big-endian, and that many bytes of pickle:

    to the worker       (target, args), target being ``package.module:function``
    the first answer    ("ready",)
    other answers       ("value", anything) | ("raised", sentence, traceback)
                        | ("transient", sentence, traceback)
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import signal
import socket
import sys
import traceback
from importlib import import_module
from typing import Any

from daemons.science.interfaces import TransientScienceError

_PR_SET_PDEATHSIG = 1
LENGTH = 8
Answer = tuple[Any, ...]


def main(channel_number: int, traces: int) -> None:
    """Serve calls until the daemon closes the channel."""
    _end_with_parent()
    # No program that the science starts may hold the channel open.
    os.set_inheritable(channel_number, False)
    os.set_inheritable(traces, False)
    # A crash, and a daemon that lost its patience, leave behind where the science was.
    faulthandler.enable(traces)
    faulthandler.register(signal.SIGUSR1, traces, all_threads=True)
    # Comparing is what most calls do: its import is ours, not the first call's.
    import_module("daemons.science.comparison")
    with socket.socket(fileno=channel_number) as channel:
        channel.sendall(packed(("ready",)))
        while (request := _receive(channel)) is not None:
            channel.sendall(_answer(*request))


def packed(message: Answer) -> bytes:
    """A message as it crosses the channel."""
    data = pickle.dumps(message)
    return len(data).to_bytes(LENGTH, "big") + data


def resolve(target: str) -> Any:  # noqa: ANN401 - whatever it names
    """What ``package.module:function`` names; science that needs Django's tables gets them."""
    module_name, _, function = target.partition(":")
    try:
        module = import_module(module_name)
    except Exception as error:
        if type(error).__name__ != "AppRegistryNotReady":
            raise
        import_module("django").setup()
        module = import_module(module_name)
    found: Any = module
    for name in function.split("."):
        found = getattr(found, name)
    return found


def _answer(target: str, args: Answer) -> bytes:
    try:
        return packed(("value", resolve(target)(*args)))
    except TransientScienceError as error:
        return packed(("transient", str(error), traceback.format_exc()))
    except BaseException as error:  # noqa: BLE001 - even sys.exit() ends the call, not the worker
        sentence = "".join(traceback.format_exception_only(error)).strip()
        return packed(("raised", sentence, traceback.format_exc()))


def _receive(channel: socket.socket) -> Any:  # noqa: ANN401 - what was pickled
    """The next request, or None at the end."""
    head = _read(channel, LENGTH)
    return pickle.loads(_read(channel, int.from_bytes(head, "big"))) if head else None  # noqa: S301 - from our daemon


def _read(channel: socket.socket, count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        part = channel.recv(min(count, 1 << 20))
        if not part:
            return b""
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _end_with_parent() -> None:
    """Have the kernel end us with the daemon, even in the middle of a hang (Linux only)."""
    parent = os.getppid()
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The daemon may have died before the kernel was asked.
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
