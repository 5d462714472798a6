"""Hostile science code: functions that a worker runs for the tests of confinement."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path


class Pickled:
    """Runs a command when it is unpickled, in the process that unpickles it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def temporary_file():
    with tempfile.TemporaryFile() as file:
        file.write(b"kept")
        file.seek(0)
        return file.read().decode()


def answer_with_code(path):
    return Pickled(path)


def environment():
    return dict(os.environ)


def read(path):
    """Return the first bytes of a file, or the name of the error."""
    try:
        return Path(path).read_bytes()[:4096].decode(errors="replace").replace("\0", "\n")
    except OSError as error:
        return type(error).__name__


def write(path):
    try:
        with Path(path).open("r+b") as file:
            file.write(b"forged")
    except OSError as error:
        return type(error).__name__
    return "written"


def create(path):
    try:
        Path(path).write_text("x")
    except OSError as error:
        return type(error).__name__
    return "written"


def connect(path):
    """Connect to a Unix socket; return "connected", or the name of the error."""
    try:
        with socket.socket(socket.AF_UNIX) as tried:
            tried.connect(path)
    except OSError as error:
        return type(error).__name__
    return "connected"


def connect_tcp(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2):
            pass
    except OSError as error:
        return type(error).__name__
    return "connected"


def ancestors():
    """Return the readable environments of all parent processes."""
    texts, pid = [], os.getppid()
    for _ in range(10):
        texts.append(read(f"/proc/{pid}/environ"))
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return texts


def every_environment():
    """Return the readable environments of all processes, listed in /proc or not."""
    try:
        numbers = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    except OSError:
        numbers = range(1, 2000)
    return [read(f"/proc/{number}/environ") for number in numbers]


def limits():
    """Return the limits of this process, by name."""
    names = ("CORE", "AS", "FSIZE", "CPU", "NPROC")
    return {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1] for name in names}


def send(text):
    """Write raw bytes to the daemon in place of an answer."""
    for number in range(3, 64):
        try:
            socket.socket(fileno=os.dup(number)).sendall(text.encode("latin-1"))
        except OSError:
            continue
    time.sleep(5)


def fork_without_end(most):
    """Fork until it fails, at most `most` times; each child waits in a separate session."""
    count = 0
    while count < most:
        try:
            if not os.fork():
                os.setsid()
                time.sleep(300)
                os._exit(0)
        except OSError:
            return count
        count += 1
    return count


def process():
    """Return a number that no other worker has."""
    return [os.getpid(), Path("/proc/self").stat().st_ino, _BORN]


_BORN = time.monotonic_ns()


def transactional(assimilation):
    return None


transactional.transactional = True


_CAPABILITIES = """
import ctypes, struct
libc = ctypes.CDLL(None)
data = ctypes.create_string_buffer(24)
libc.capget(ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0), 8), data)
print(any(data.raw))
"""


def capabilities():
    """Return whether this process, and a program that it starts, hold any capability."""
    words = [sys.executable, "-c", _CAPABILITIES]
    child = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    with contextlib.redirect_stdout(io.StringIO()) as own:
        exec(_CAPABILITIES, {})
    return [own.getvalue().strip(), child.strip()]


def user():
    return os.getuid()
