"""Archives finished workunits and drops their rows.

The daemon claims workunits by a lease, writes them as compressed JSON lines, and syncs the file to
disk.  Then it drops the rows of workunits that were not made due again in the meantime.  After a
crash, a workunit may be archived twice, but no workunit is dropped before it is archived.

The daemon also creates and drops the partitions of the ledger.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection, transaction

from daemons import archive_lines, low_water
from daemons.tally import WHOLE, Shard, Tally
from scheduler import sql, storage
from scheduler.sql.low_water import LowWaterMark

log = logging.getLogger(__name__)

PACKAGE = "daemons.sql"
LEASE = timedelta(minutes=10)
#: The number of workunits that one transaction drops, to keep it short.
DROP_BATCH_SIZE = 500
#: The number of days for which partitions of the ledger are created ahead.
DAYS_AHEAD = 14
#: The maximum number of rows that a pass moves from the default partition, because writers of the
#: ledger wait meanwhile.
MAX_MOVED_ROWS = 100_000
_PREFIX = "ledger_entry_"
#: The low-water mark in the queue of purgeable workunits, by shard.
_queues: dict[Shard, LowWaterMark[int]] = {}
#: Days for which this process has logged that the default partition has too many rows.
_logged_days: set[date] = set()


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Archive and drop finished workunits; create and drop partitions of the ledger."""
    made, dropped = tend_ledger(now=now)
    claimed = _claim(now=now, limit=limit, shard=shard)
    purged = _purge(claimed, now=now) if claimed else 0
    return Tally(
        seen=len(claimed),
        counts={
            "purged": purged,
            "woken meanwhile": len(claimed) - purged,
            "ledger days made": made,
            "ledger days dropped": dropped,
        },
        more=len(claimed) >= limit,
    )


def _claim(*, now: datetime, limit: int, shard: Shard) -> list[dict[str, Any]]:
    queue = _queues.setdefault(shard, LowWaterMark(0))
    params = {
        "now": now,
        "finished_before": now - settings.PROJECT.purge_after,
        "lease_until": now + LEASE,
        "limit": limit,
        **shard.params,
    }
    rows = low_water.read(
        queue, lambda after: sql.fetch("lease_purgeable", {"after_id": after, **params}, PACKAGE)
    )
    if rows:
        queue.mark = max(row["id"] for row in rows)
    return rows


def _purge(claimed: list[dict[str, Any]], *, now: datetime) -> int:
    tokens = {row["id"]: row["lease_token"] for row in claimed}
    storage.append_archive(now.date(), archive_lines.lines(sorted(tokens), now=now))
    ids = list(tokens)
    return sum(
        _drop({id_: tokens[id_] for id_ in ids[start : start + DROP_BATCH_SIZE]})
        for start in range(0, len(ids), DROP_BATCH_SIZE)
    )


def _drop(tokens: dict[int, int]) -> int:
    """Drop archived workunits whose lease token is unchanged; return their number.

    `tokens` maps workunit ids to lease tokens.
    """
    with transaction.atomic():
        sql.execute("forget_plans", {}, PACKAGE)
        sql.fetch_rows("lock_their_batches", {"ids": list(tokens)}, PACKAGE)
        params = {"ids": list(tokens), "tokens": list(tokens.values())}
        locked = [row["id"] for row in sql.fetch("lock_archived", params, PACKAGE)]
        # Read after the lock: a wake-up or report that was committed meanwhile is seen.
        rows = sql.fetch("read_droppable", {"ids": locked}, PACKAGE)
        if joined := [row["id"] for row in rows if row["has_edges"]]:
            sql.execute("drop_dependencies", {"ids": joined}, PACKAGE)
        if listed := [row["id"] for row in rows if row["is_listed"]]:
            sql.execute("drop_bundle_members", {"ids": listed}, PACKAGE)
        ids = [row["id"] for row in rows]
        ((dropped,),) = sql.fetch_rows("drop_workunits", {"ids": ids}, PACKAGE)
        return int(dropped)


def tend_ledger(*, now: datetime, max_moved: int | None = MAX_MOVED_ROWS) -> tuple[int, int]:
    """Create the partitions of the coming days; drop partitions older than the oldest workunit.

    Rows of these days in the default partition are moved to the new partitions.  A day with more
    than `max_moved` such rows gets no partition, and a warning is logged; None is no limit.
    Returns the numbers of created and of dropped partitions.
    """
    row = sql.fetch_one("read_ledger_days", {}, PACKAGE) or {}
    existing = set(row.get("partitions") or ())
    today = now.date()
    needed = [today + timedelta(days=ahead) for ahead in range(DAYS_AHEAD + 1)]
    missing = [day for day in needed if _partition(day) not in existing]
    oldest = row.get("oldest")
    keep_from = min(today, oldest.date()) if oldest else today
    stale = sorted(day for name in existing if (day := _day_of(name)) and day < keep_from)
    made = sum(_change(_make_day, day) for day in missing if _is_movable(day, max_moved))
    dropped = sum(_change(_drop_day, day) for day in stale)
    return made, dropped


def _change(change: Callable[[date], bool], subject: date) -> bool:
    """Call `change`, which creates or drops a partition; return whether it succeeded.

    The next pass retries a failed change.
    """
    try:
        with transaction.atomic():
            return change(subject)
    except DatabaseError as error:
        reason = " ".join(str(error).split())
        log.warning("ledger_change_failed", extra={"day": str(subject), "reason": reason})
        return False


def _is_movable(day: date, max_moved: int | None) -> bool:
    """Return True if the default partition has at most `max_moved` rows of a day, or log it."""
    if max_moved is None:
        return True
    params = {"start": _midnight(day), "end": _midnight(day + timedelta(days=1))}
    ((rows,),) = sql.fetch_rows("count_default_moves", {**params, "limit": max_moved + 1}, PACKAGE)
    if rows <= max_moved:
        return True
    if day not in _logged_days:
        _logged_days.add(day)
        reason = (
            f"The default partition of the ledger has more than {max_moved} rows of this day. "
            "Hint: stop the project and run `manage.py migrate`, which moves them."
        )
        log.warning("ledger_change_failed", extra={"day": str(day), "reason": reason})
    return False


def _make_day(day: date) -> bool:
    """Create the partition of a day, and move the day's rows from the default partition to it.

    PostgreSQL attaches a partition only if the default partition has no rows for it.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '2s'")
        # The function belongs to the owner of the ledger; the daemons' role may only call it.
        cursor.execute("SELECT create_ledger_day(%s::date)", [day])
        row = cursor.fetchone()
    return bool(row and row[0])


def _drop_day(day: date) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '2s'")
        cursor.execute("SELECT drop_ledger_day(%s::date)", [day])
    return True


def _partition(day: date) -> str:
    return f"{_PREFIX}{day:%Y%m%d}"


def _day_of(name: str) -> date | None:
    """Return the day in a partition's name, or None for the default partition."""
    digits = name.removeprefix(_PREFIX)
    if len(digits) != len("YYYYMMDD") or not digits.isdecimal():
        return None
    return date(int(digits[:4]), int(digits[4:6]), int(digits[6:]))


def _midnight(day: date) -> str:
    return f"{day.isoformat()} 00:00:00+00"
