"""Makes cursors with which the answers of a batch are read without gaps [pure].

An answer is a done or failed workunit with its outputs.  It can be read before its `finished_at` is
set, and `finished_at` is committed later than the time that it contains.  Therefore the time of a
cursor is `MARGIN` before the read began, and the cursor lists the ids of answers that were read
although their `finished_at` is later or not set.  The next read finds these answers again, and
omits them by their ids.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The time of a cursor is this long before the read, since a pass commits after `finished_at`.
MARGIN: Final = timedelta(seconds=15)
#: Maximum number of ids in a cursor.  With more late answers, the cursor lists none of them, and
#: the next read returns them again.
MAX_LISTED_IDS: Final = 2000
#: Limits on the length of a cursor: in characters, and in bytes when decompressed.
MAX_LENGTH: Final = 8000
_MAX_UNPACKED_BYTES: Final = 100_000
_DECODE_ERRORS: Final = (
    ValueError,
    TypeError,
    OverflowError,
    OSError,
    RecursionError,
    zlib.error,
)


class BadCursor(ValueError):
    """The text is not a cursor of this batch. Hint: send the cursor of a reply unchanged."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in the answers of a batch, at which the next read continues.

    All answers whose `finished_at` is not later than `at` were read before.  `read` has the ids of
    workunits whose answers were also read, although their `finished_at` was later or not set.
    """

    batch_id: int
    at: datetime
    read: frozenset[int] = frozenset()


def next_cursor(batch_id: int, *, began_at: datetime, late: Iterable[int]) -> Cursor:
    """Return the cursor for the next read; `began_at` is the time when this read began.

    `late` are the ids of the workunits for whose answers `is_late` was true.
    """
    ids = frozenset(late)
    return Cursor(batch_id, began_at - MARGIN, ids if len(ids) <= MAX_LISTED_IDS else frozenset())


def is_late(finished_at: datetime | None, *, began_at: datetime) -> bool:
    """Return whether the cursor must list an answer, because the next read repeats the answer."""
    return finished_at is None or finished_at > began_at - MARGIN


def write(cursor: Cursor) -> str:
    """Return the cursor as text that is safe in a URL."""
    ids = sorted(cursor.read)
    steps = [b - a for a, b in zip([0, *ids], ids, strict=False)]
    facts = [cursor.batch_id, cursor.at.timestamp(), steps]
    packed = zlib.compress(json.dumps(facts, separators=(",", ":")).encode(), 9)
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def read(text: str, *, batch_id: int) -> Cursor:
    """Read a cursor of this batch; raises `BadCursor`."""
    msg = (
        "This is not a cursor of this batch. Hint: send the cursor of an earlier answer unchanged."
    )
    if len(text) > MAX_LENGTH:
        raise BadCursor(msg)
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        facts = json.loads(zlib.decompressobj().decompress(packed, _MAX_UNPACKED_BYTES))
        its_batch, at, steps = facts
        ids, last = set(), 0
        for step in steps:
            last += int(step)
            ids.add(last)
        cursor = Cursor(int(its_batch), datetime.fromtimestamp(at, UTC), frozenset(ids))
    except _DECODE_ERRORS as error:
        raise BadCursor(msg) from error
    if cursor.batch_id != batch_id:
        raise BadCursor(msg)
    return cursor
