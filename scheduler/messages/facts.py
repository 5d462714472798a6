"""Messages between hosts and the server: trickles and file transfers [pure]."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

#: The last Unix time that a `datetime` can represent: the end of the year 9999.
_LAST_SECOND = 253402300799


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedTrickle:
    """A message from a running result; `said_at` is the time by the client's clock.

    The result's name, the variety and the time together identify the message.
    """

    result_name: str
    said_at: datetime
    variety: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTrickle:
    """A message to a running result; `time` is a Unix time.

    The client writes the message to a file whose name contains `time`.
    """

    result_name: str
    time: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToPut:
    """A file that the host is to download and keep."""

    name: str
    nbytes: int
    md5: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToGet:
    """A file that the host is to upload, as the output of a result named `result_name`."""

    name: str
    result_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMoves:
    """The file requests in one reply to a host; `deletes` has the names of files to delete."""

    puts: tuple[FileToPut, ...] = ()
    gets: tuple[FileToGet, ...] = ()
    deletes: tuple[str, ...] = ()


def moment(seconds: int) -> datetime:
    """Return a client's Unix time as a `datetime`; values out of range are clamped.

    >>> moment(0).isoformat(), moment(-5).isoformat()
    ('1970-01-01T00:00:00+00:00', '1970-01-01T00:00:00+00:00')
    """
    return datetime.fromtimestamp(min(max(0, seconds), _LAST_SECOND), tz=UTC)
