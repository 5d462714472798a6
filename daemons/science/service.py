"""The science service: starts workers for daemons, under a separate user id.

``python -m daemons.science.service SOCKET`` listens on a Unix socket, or on a socket that systemd
passes.  For each connection it starts a worker, which uses the connection as its channel, and
confines it by bubblewrap or Landlock if one of them works.  The service has no settings, no
database and no keys.  Its systemd unit or container limits the files that it can open.

A daemon sends eight bytes of length together with a file descriptor for traces, then a `Profile` as
JSON of this length.  After that the connection carries messages of the worker (`messages`).
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from typing import Any, Final

from daemons.science import confinement
from daemons.science.confinement import Profile
from daemons.science.messages import LENGTH, packed, receive
from daemons.science.worker_main import Limits

log = logging.getLogger("science_service")

#: The maximum length of a profile; bytes.
_MAX_HELLO: Final = 1 << 20
#: Timeout for a daemon's profile; seconds.
_HELLO_SECONDS: Final = 10.0
#: The maximum number of workers; each daemon process has at most four.
MAX_WORKERS: Final = 64
#: The first descriptor that systemd passes.
_FIRST_FROM_SYSTEMD: Final = 3


def main() -> None:
    """Start a worker for each connection, until SIGTERM or SIGINT arrives."""
    parser = argparse.ArgumentParser(description="Runs science code under a separate user id.")
    parser.add_argument(
        "socket", nargs="?", help="the path to listen on, unless systemd passes a socket"
    )
    parser.add_argument("--mode", default="660", help="the socket's permissions (660)")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, handlers=[_log_handler()])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    form = confinement.best_form(os.environ.get("SCIENCE_CONFINEMENT", "").strip() or "auto")
    listener = _listener(options.socket, int(options.mode, 8))
    log.info("science_service_started", extra={"fields": f"form={form} uid={os.getuid()}"})
    slots = threading.BoundedSemaphore(MAX_WORKERS)
    with suppress(KeyboardInterrupt), listener:
        while True:
            connection, _ = listener.accept()
            if slots.acquire(blocking=False):
                threading.Thread(target=_serve, args=(connection, form, slots), daemon=True).start()
            else:
                log.error("workers_exhausted", extra={"fields": f"max={MAX_WORKERS}"})
                connection.close()


def _log_handler() -> logging.Handler:
    # The project's formatter needs Django settings, which this process does not have.
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter("%(levelname)s %(name)s %(message)s %(fields)s", defaults={"fields": ""})
    )
    return handler


def _listener(path: str | None, mode: int) -> socket.socket:
    if os.environ.pop("LISTEN_PID", "") == str(os.getpid()):
        return socket.socket(fileno=_FIRST_FROM_SYSTEMD)
    if path is None:
        sys.exit(
            "There is no socket path. Hint: python -m daemons.science.service /run/science.sock"
        )
    with suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o777 & ~mode)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(MAX_WORKERS)
    return listener


def _serve(connection: socket.socket, form: str, slots: threading.BoundedSemaphore) -> None:
    traces, folder = -1, ""
    try:
        with connection:
            connection.settimeout(_HELLO_SECONDS)
            profile, traces = _hello(connection)
            connection.settimeout(None)
            folder = "" if form == confinement.BUBBLEWRAP else tempfile.mkdtemp(prefix="science-")
            process = _start(connection, form, profile, traces, folder)
        # The worker has the connection now; it ends when the daemon closes the connection.
        if process is not None:
            process.wait()
    except (OSError, ValueError, TypeError, LookupError) as error:
        log.warning("daemon_refused", extra={"fields": f"reason={error}"})
    finally:
        if traces >= 0:
            os.close(traces)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        slots.release()


def _start(
    connection: socket.socket, form: str, profile: Profile, traces: int, folder: str
) -> subprocess.Popen[bytes] | None:
    try:
        user = confinement.user_for(form, profile)
        if user is not None and folder:
            os.chown(folder, user, user)
        return confinement.spawn(
            form, profile, connection.fileno(), traces, folder=folder, user=user
        )
    except OSError as error:
        sentence = f"The science service cannot start a worker: {error}."
        answer = {"status": "transient", "sentence": sentence, "traceback": sentence}
        connection.sendall(packed(answer))
        return None


def _hello(connection: socket.socket) -> tuple[Profile, int]:
    head, descriptors, _, _ = socket.recv_fds(connection, LENGTH, 1)
    if len(descriptors) != 1:
        raise ValueError("the file descriptor for traces is missing")
    try:
        return _profile(connection, int.from_bytes(head, "big")), descriptors[0]
    except BaseException:
        os.close(descriptors[0])
        raise


def _profile(connection: socket.socket, size: int) -> Profile:
    if size > _MAX_HELLO:
        raise ValueError(f"a profile of {size} bytes")
    data = receive(connection, size)
    if len(data) < size:
        raise ValueError("the profile is cut short")
    message: dict[str, Any] = json.loads(data)
    limits = Limits(**message.pop("limits"))
    message.pop("identities", None)
    lists = {name: tuple(value) for name, value in message.items() if isinstance(value, list)}
    return Profile(**{**message, **lists}, limits=limits)


if __name__ == "__main__":
    main()
