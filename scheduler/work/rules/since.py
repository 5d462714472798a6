"""Where a reader of a batch's answers goes on: cursors that lose nothing [pure].

An answer is handed on (`finished_at`) some time after it is there, and the moment that is written
down is committed some time after it was.  So a cursor holds a moment a little before the reading
began, and the answers that were read although they count as later: those come back with every
reading until their moment has passed, and are left out of it.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: How long before a reading its cursor begins: passes commit what they date a moment earlier.
MARGIN: Final = timedelta(seconds=15)
#: So many answers a cursor names; of more it names none, and they are told twice.
MOST_NAMED: Final = 2000
#: As long as a cursor may be, in characters and, unpacked, in bytes.
LONGEST: Final = 8000
_LONGEST_UNPACKED: Final = 100_000
_NONSENSE: Final = (
    ValueError,
    TypeError,
    OverflowError,
    OSError,
    RecursionError,
    zlib.error,
    binascii.Error,
)


class BadCursor(ValueError):
    """This is no cursor of this batch. Hint: give back what an earlier answer said, unchanged."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """All that was handed on until `at` is read, and beyond that the workunits of these ids."""

    batch_id: int
    at: datetime
    read: frozenset[int] = frozenset()


def next_cursor(batch_id: int, *, began_at: datetime, late: Iterable[int]) -> Cursor:
    """Where to go on after a reading that saw the answers `late`, not handed on by then."""
    named = frozenset(late)
    return Cursor(batch_id, began_at - MARGIN, named if len(named) <= MOST_NAMED else frozenset())


def is_late(finished_at: datetime | None, *, began_at: datetime) -> bool:
    """Whether the next reading will see this answer again, and has to be told that it is known."""
    return finished_at is None or finished_at > began_at - MARGIN


def write(cursor: Cursor) -> str:
    """Write a cursor as text for an address."""
    ids = sorted(cursor.read)
    steps = [b - a for a, b in zip([0, *ids], ids, strict=False)]
    facts = [cursor.batch_id, cursor.at.timestamp(), steps]
    packed = zlib.compress(json.dumps(facts, separators=(",", ":")).encode(), 9)
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def read(text: str, *, batch_id: int) -> Cursor:
    """Read a cursor of this batch; raises `BadCursor`."""
    msg = "This is no cursor of this batch. Hint: give back what an earlier answer said, unchanged."
    if len(text) > LONGEST:
        raise BadCursor(msg)
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        facts = json.loads(zlib.decompressobj().decompress(packed, _LONGEST_UNPACKED))
        its_batch, at, steps = facts
        ids, last = set(), 0
        for step in steps:
            last += int(step)
            ids.add(last)
        cursor = Cursor(int(its_batch), datetime.fromtimestamp(at, UTC), frozenset(ids))
    except _NONSENSE as error:
        raise BadCursor(msg) from error
    if cursor.batch_id != batch_id:
        raise BadCursor(msg)
    return cursor
