"""What a host and the server tell each other beside results [pure]."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

#: The last second that a moment can name: the end of the year 9999.
_LAST_SECOND = 253402300799


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleSaid:
    """A message of a running result; the same name, variety and moment are the same message."""

    result_name: str
    said_at: datetime
    variety: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleToSay:
    """A message to a running result; `time` is its name within the result's slot, in seconds."""

    result_name: str
    time: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToPut:
    """A file that the host shall fetch and keep."""

    request_id: int
    name: str
    nbytes: int
    md5: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileToGet:
    """A file of the host's that it shall send, as the output of a result of this name."""

    request_id: int
    name: str
    result_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMoves:
    """What one reply asks a host to do with its files; `deletes` are names."""

    puts: tuple[FileToPut, ...] = ()
    gets: tuple[FileToGet, ...] = ()
    deletes: tuple[str, ...] = ()


def moment(seconds: int) -> datetime:
    """The moment that a client's clock shows; nonsense becomes the nearest that can be named.

    >>> moment(0).isoformat(), moment(-5).isoformat()
    ('1970-01-01T00:00:00+00:00', '1970-01-01T00:00:00+00:00')
    """
    return datetime.fromtimestamp(min(max(0, seconds), _LAST_SECOND), tz=UTC)
