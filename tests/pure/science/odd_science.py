"""Faulty science code for tests of the worker: it hangs, crashes or exits."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from daemons.science.interfaces import TransientScienceError


def double(thing):
    return [thing, thing]


def process():
    return os.getpid(), os.getsid(0), os.getpgid(0)


def modules(beginning):
    return sorted(name for name in sys.modules if name.startswith(beginning))


def hang():
    threading.Event().wait()


def hang_deaf():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    hang()


def note_and_hang(path):
    Path(path).write_text(str(os.getpid()))
    hang()


def start_program_and_hang(path):
    child = subprocess.Popen(["sleep", "600"])
    Path(path).write_text(str(child.pid))
    hang()


def leave():
    os._exit(7)


def leave_in_silence():
    os._exit(0)


def leave_politely():
    sys.exit(5)


def fork_and_leave():
    if not os.fork():
        hang()
    os._exit(3)


def segfault():
    ctypes.string_at(0)


def complain(text):
    raise ValueError(text)


def wait_for_better_times():
    raise TransientScienceError("the disk is full")


def answer_with_a_function():
    return lambda: None


def chatter():
    sys.stdout.write("printed\n")
    os.write(1, b"printed by hand\n")
    os.write(2, b"complained by hand\n")
    return "done"
