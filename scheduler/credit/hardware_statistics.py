"""Counts computers by operating system, processor and GPU; reads the counts.

Only computers whose owners share their statistics are counted.  A name that computers of less than
`MIN_OWNERS` accounts have is left out, so that no row describes a single person; shares are those
of the listed rows, so that nothing can be computed about the rows that are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from django.db import transaction

from scheduler import sql
from scheduler.models import HardwareCount

#: Owners of the computers of a row, so each row has at least as many computers.
MIN_OWNERS = 5
#: Maximum number of rows of each kind.
MAX_ROWS: Final = 100
Kind = HardwareCount.Kind


@dataclass(frozen=True, slots=True)
class HardwareLine:
    """The computers with one name.

    Shares are between 0 and 1, of the credit of all lines of the kind.
    """

    name: str
    computers: int
    total_credit: Decimal
    total_share: float
    recent_share: float


@dataclass(frozen=True, slots=True)
class HardwareStatistics:
    """The lines of each kind, those with the most recent credit first.

    `counted_at` is None before the first count.  After a count, there are no lines if no name may
    be listed.
    """

    lines: dict[Kind, tuple[HardwareLine, ...]]
    counted_at: datetime | None

    @property
    def is_empty(self) -> bool:
        """Whether no name of any kind is listed."""
        return not any(self.lines.values())


def count(*, now: datetime) -> int:
    """Replace the stored counts; return their number."""
    with transaction.atomic():
        HardwareCount.objects.all().delete()
        params = {"now": now, "min_owners": MIN_OWNERS, "max_rows": MAX_ROWS}
        counts = sql.execute("credit/count_hardware", params)
        if not counts:
            # Keeps the time, so that an empty count differs from no count.
            HardwareCount.objects.create(
                kind="", name="", computers=0, total_credit=0, recent_credit=0, counted_at=now
            )
        return counts


def current() -> HardwareStatistics:
    """Return the stored counts."""
    rows = list(HardwareCount.objects.order_by("-recent_credit", "-total_credit", "name"))
    lines: dict[Kind, tuple[HardwareLine, ...]] = {}
    for kind in Kind:
        of_kind = [row for row in rows if row.kind == kind]
        total = sum(float(row.total_credit) for row in of_kind) or 1.0
        recent = sum(row.recent_credit for row in of_kind) or 1.0
        lines[kind] = tuple(
            HardwareLine(
                name=row.name,
                computers=row.computers,
                total_credit=row.total_credit,
                total_share=float(row.total_credit) / total,
                recent_share=row.recent_credit / recent,
            )
            for row in of_kind
        )
    return HardwareStatistics(lines, max((row.counted_at for row in rows), default=None))
