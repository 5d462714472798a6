"""Fetches programs from URLs, and sends POST requests to other servers.

Theory of operation.  A host name is resolved once and every address is checked; the connection goes
to a checked address, even if the name resolves to other addresses later.  Each redirect is checked
like the first URL.  The content is written to a file, up to a maximum size and time.  The time
limit is for the whole fetch, including the TLS handshake and the headers, so that a slow server
cannot exceed it.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from scheduler.files.rules import sources
from scheduler.files.rules.sources import BadSource, Place

_CHUNK: Final = 1 << 18
#: The timeout of one connection attempt or one read.
_SILENCE_SECONDS: Final = 30.0
#: The timeout of a connection if no time is left; 0 would mean non-blocking.
_MIN_TIMEOUT_SECONDS: Final = 0.001
_REDIRECTS: Final = {301, 302, 303, 307, 308}
_OK: Final = 200
#: The maximum size of `Posted.excerpt`, in bytes.
_MAX_EXCERPT_BYTES: Final = 2000
#: The maximum size of `Looked.content`, in bytes.
_MAX_LOOKED_BYTES: Final = 1 << 17
#: The protocol version of rsync 3.4.0, and of earlier releases with the same security fixes.
MIN_RSYNC_PROTOCOL: Final = 32
#: A fetch occupies a thread of a web process.  Only one runs at a time, so that the other threads
#: serve volunteers.
_turn = threading.Lock()


class SourceFailed(RuntimeError):
    """A fetch or a POST request failed. Hint: see the message."""


class SourceBusy(RuntimeError):
    """Another program is being fetched at this moment. Hint: try again in a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The limits of a fetch: allowed hosts in private networks, maximum size and time.

    `any_private` allows all hosts in private networks, `private_hosts` allows only its hosts.
    `any_rsync` allows rsync servers, and is False by default, because rsync is a large C program.
    """

    any_private: bool = False
    private_hosts: frozenset[str] = frozenset()
    any_rsync: bool = False
    max_bytes: int = 2 * 1024**3
    seconds: float = 60.0


def fetch(url: str, folder: Path, rules: Rules) -> Path:
    """Fetch a file from a URL into a folder; return the path of the file.

    Raises `BadSource` for a URL that the server does not fetch and for a file of more than
    `rules.max_bytes`, `SourceFailed` if the fetch fails, and `SourceBusy` while another fetch runs.
    """
    place = sources.read(url)
    with _one_at_a_time():
        if place.scheme == "rsync":
            if not rules.any_rsync:
                raise BadSource(
                    "This server does not fetch by rsync. "
                    "Hint: give an https address, or ask an operator to set RSYNC_SOURCES=true."
                )
            return _by_rsync(place, folder, rules)
        limit = _Limit(rules.seconds)
        try:
            return _by_http(url, folder, rules, limit)
        except SourceFailed as error:
            if limit.is_over:
                raise _too_slow(url, rules) from error
            raise


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    if not _turn.acquire(blocking=False):
        msg = "Another program is being fetched at this moment. Hint: try again in a minute."
        raise SourceBusy(msg)
    try:
        yield
    finally:
        _turn.release()


class _Limit:
    """The time limit of a whole fetch; open connections are shut down at the limit."""

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The remaining seconds, at least 0."""
        return max(0.0, self._ends_at - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether no time is left; the connection may then have been shut down."""
        return not self.left

    @contextmanager
    def on(self, connected: socket.socket) -> Iterator[None]:
        """Shut a connection down at the limit, since socket timeouts apply only to single reads."""
        watch = threading.Timer(self.left, self._shut_down, (connected,))
        watch.daemon = True
        watch.start()
        try:
            yield
        finally:
            watch.cancel()

    def _shut_down(self, connected: socket.socket) -> None:
        while not self.is_over:  # timers may fire early
            time.sleep(self.left)
        with suppress(OSError):
            # SSLSocket.shutdown would drop the TLS object that another thread reads from.
            socket.socket.shutdown(connected, socket.SHUT_RDWR)


def _by_http(url: str, folder: Path, rules: Rules, limit: _Limit) -> Path:
    for _ in range(sources.MAX_REDIRECTS + 1):
        place = sources.read(url)
        connection = _connect(place, _addresses(place, rules), limit)
        with closing(connection), limit.on(connection.connected):
            answer = _ask(connection, place, url)
            if answer.status in _REDIRECTS and (location := answer.getheader("Location")):
                url = sources.redirected(url, location)
                continue
            if answer.status != _OK:
                msg = f"{url} returned {answer.status} {answer.reason}. Hint: check the address."
                raise SourceFailed(msg)
            return _keep(answer, folder / place.name, url, rules, limit)
    msg = f"There are more than {sources.MAX_REDIRECTS} redirects. Hint: give the file's own URL."
    raise BadSource(msg)


def _addresses(place: Place, rules: Rules) -> list[str]:
    try:
        infos = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        msg = f"The host {place.host} is not found: {error}. Hint: check the address."
        raise SourceFailed(msg) from error
    addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
    sources.check_addresses(
        place.host,
        addresses,
        private_hosts=rules.private_hosts,
        any_private=rules.any_private,
    )
    return addresses


class _Connection(http.client.HTTPConnection):
    """A connection to a checked address; the host name is not resolved again."""

    def __init__(self, place: Place, connected: socket.socket) -> None:
        super().__init__(place.host, place.port)
        self.sock = self.connected = connected

    def connect(self) -> None:
        """Do nothing: the connection is already open."""


def _connect(
    place: Place, addresses: list[str], limit: _Limit, silence: float = _SILENCE_SECONDS
) -> _Connection:
    error: Exception | None = None
    for address in addresses:
        try:
            wait = min(silence, limit.left) or _MIN_TIMEOUT_SECONDS
            plain = socket.create_connection((address, place.port), timeout=wait)
            plain.settimeout(silence)
            return _Connection(
                place, plain if place.scheme == "http" else _tls(plain, place, limit)
            )
        except OSError as failure:  # errors of TLS are OSErrors
            error = failure
    msg = f"{place.authority} cannot be reached: {error}. Hint: check the address, or try later."
    raise SourceFailed(msg)


def _tls(plain: socket.socket, place: Place, limit: _Limit) -> ssl.SSLSocket:
    wrapped = ssl.create_default_context().wrap_socket(
        plain, server_hostname=place.host, do_handshake_on_connect=False
    )
    try:
        with limit.on(wrapped):
            wrapped.do_handshake()
    except BaseException:
        wrapped.close()
        raise
    return wrapped


def _ask(connection: _Connection, place: Place, url: str) -> http.client.HTTPResponse:
    headers = {
        "Host": place.authority,
        "User-Agent": "Manyhands",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Connection": "close",
    }
    try:
        connection.request("GET", place.target, headers=headers)
        return connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        raise SourceFailed(f"{url} did not respond: {error!r}. Hint: try later.") from error


def _keep(
    answer: http.client.HTTPResponse, path: Path, url: str, rules: Rules, limit: _Limit
) -> Path:
    length = answer.getheader("Content-Length") or ""
    promised = int(length) if re.fullmatch(r"[0-9]{1,19}", length) else None
    total = 0
    with path.open("xb") as file:
        _check_size(promised or 0, url, rules)
        while True:
            try:
                chunk = answer.read1(_CHUNK)
            except (OSError, http.client.HTTPException) as error:
                msg = f"Fetching {url} failed after {total} bytes: {error}. Hint: try again."
                raise SourceFailed(msg) from error
            if not chunk:
                break
            total += len(chunk)
            _check_size(total, url, rules)
            file.write(chunk)
    if limit.is_over:  # the shutdown may look like the end of the file
        raise _too_slow(url, rules)
    if promised is not None and total != promised:
        msg = f"Fetching {url} failed after {total} of {promised} bytes. Hint: try again."
        raise SourceFailed(msg)
    return path


def _check_size(nbytes: int, url: str, rules: Rules) -> None:
    if nbytes > rules.max_bytes:
        msg = f"{url} has more than {rules.max_bytes} bytes. Hint: remove unneeded files."
        raise BadSource(msg)


def _too_slow(url: str, rules: Rules) -> SourceFailed:
    return SourceFailed(
        f"Fetching {url} takes longer than {rules.seconds:g} seconds. "
        "Hint: send the file itself, or ask an operator to import it by `manage.py publish_app`."
    )


def _require_safe_rsync(program: str) -> None:
    """Raise `SourceFailed` unless rsync has the security fixes of January 2025.

    Without them, an rsync server can read and write files of this machine (CVE-2024-12086, -12087).
    The fixes raised the protocol version, even where a distribution kept the program's version.
    """
    done = subprocess.run(  # noqa: S603  the program on the search path
        [program, "--version"], capture_output=True, check=False, timeout=10, env={"LC_ALL": "C"}
    )
    match = re.search(rb"version (\S+)\s+protocol version (\d+)", done.stdout)
    if match is None or int(match[2]) < MIN_RSYNC_PROTOCOL:
        version = match[1].decode("ascii", "replace") if match else "of an unknown version"
        raise SourceFailed(
            f"The rsync of this server ({version}) has known vulnerabilities. Hint: install 3.4.0"
            " or your distribution's security update, or give an https address."
        )


def _by_rsync(place: Place, folder: Path, rules: Rules) -> Path:
    program = shutil.which("rsync")
    if program is None:
        msg = "There is no rsync on this server. Hint: install rsync, or give an https address."
        raise SourceFailed(msg)
    _require_safe_rsync(program)
    url = f"rsync://{place.authority}{place.target}"
    address = _addresses(place, rules)[0]
    at = f"[{address}]" if ":" in address else address
    path = folder / place.name
    process = subprocess.Popen(  # noqa: S603  fixed options, ended by --
        [
            *("/bin/sh", "-c", 'ulimit -f "$1"; shift; exec "$@"', "sh"),
            str(rules.max_bytes // 512 + 1),
            *(program, "--no-motd", "--copy-links", "--no-devices", "--no-specials"),
            *(f"--timeout={_SILENCE_SECONDS:.0f}", f"--contimeout={_SILENCE_SECONDS:.0f}"),
            f"--max-size={rules.max_bytes}",
            *("--", f"rsync://{at}:{place.port}{place.target}", str(path)),
        ],
        cwd=folder,
        # Omits variables that make rsync use a proxy or another program.
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, stderr = process.communicate(timeout=rules.seconds)
    except subprocess.TimeoutExpired:
        raise _too_slow(url, rules) from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode != 0:
        error = " ".join(stderr.decode("utf-8", "replace").split())[:300]
        msg = f"{url} cannot be fetched: {error or process.returncode}. Hint: check the address."
        raise SourceFailed(msg)
    if not path.is_file():
        raise BadSource(
            f"{url} is not a file of {rules.max_bytes} bytes at most. "
            "Hint: name one archive or run.sh, not a folder."
        )
    return path


@dataclass(frozen=True, slots=True)
class Looked:
    """The response to a GET request of `look`; `certificate_ends_at` is None without TLS."""

    addresses: tuple[str, ...]
    status: int
    location: str
    content: bytes
    certificate_ends_at: datetime | None


def look(url: str, *, seconds: float) -> Looked:
    """Send one GET request to this project's own address; redirects are not followed.

    The address may be in the server's own networks.  Raises `BadSource` for an invalid URL, and
    `SourceFailed` if there is no response in time or the certificate is not valid.
    """
    place = sources.read_web(url)
    limit = _Limit(seconds)
    addresses = _addresses(place, Rules(any_private=True))
    connection = _connect(place, addresses, limit, seconds)
    connected = connection.connected
    with closing(connection), limit.on(connected):
        certificate = connected.getpeercert() if isinstance(connected, ssl.SSLSocket) else None
        answer = _ask(connection, place, url)
        try:
            content = answer.read(_MAX_LOOKED_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise SourceFailed(f"{url} did not respond: {error!r}.") from error
    if limit.is_over:  # a truncated response may look complete
        raise SourceFailed(f"{url} did not respond within {seconds:g} s.")
    location = answer.getheader("Location") or ""
    ends_at = _end_of(certificate) if certificate else None
    return Looked(tuple(addresses), answer.status, location, content, ends_at)


def _end_of(certificate: Any) -> datetime:  # noqa: ANN401  a dict with values of several types
    seconds = ssl.cert_time_to_seconds(certificate["notAfter"])
    return datetime.fromtimestamp(seconds, UTC)


@dataclass(frozen=True, slots=True)
class Posted:
    """The response of another server to a POST: status, reason and the beginning of the body."""

    status: int
    reason: str
    excerpt: str


def post(
    url: str,
    body: bytes,
    headers: dict[str, str],
    *,
    private_hosts: frozenset[str],
    timeout: float,
    seconds: float,
) -> Posted:
    """Send one POST request to an http(s) address; redirects are not followed.

    The host's addresses are checked as in `fetch`.  `timeout` is the limit in seconds for each
    connection attempt and each read, and `seconds` is the limit for the whole request.  Raises
    `BadSource` for an invalid URL or a private address of a host that is not in `private_hosts`,
    and `SourceFailed` if there is no response in time.
    """
    place = sources.read_web(url)
    limit = _Limit(seconds)
    rules = Rules(private_hosts=private_hosts)
    connection = _connect(place, _addresses(place, rules), limit, timeout)
    with closing(connection), limit.on(connection.connected):
        try:
            connection.request(
                "POST",
                place.target,
                body,
                {"Host": place.authority, **headers, "Connection": "close"},
            )
            answer = connection.getresponse()
            excerpt = answer.read(_MAX_EXCERPT_BYTES).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            why = f"no answer within {seconds:g} s" if limit.is_over else repr(error)
            raise SourceFailed(f"{url} does not answer: {why}.") from error
    if limit.is_over:  # a truncated response may look complete
        raise SourceFailed(f"{url} does not answer: no answer within {seconds:g} s.")
    return Posted(answer.status, answer.reason, excerpt)
