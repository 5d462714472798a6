"""Lists the results of a volunteer's computers at a bounded cost per computer.

Theory of operation.  `result` has no index by account.  A page merges the newest results of each
computer, which two indexes by host deliver: that of results in progress, and that of ended ones.  A
filter by state could examine all results of a computer, for example for its only invalid one, so a
filtered page examines about `MAX_READ` ended results.  If they contain too few matches, the page is
short or empty, and the next page begins below `older_than`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from scheduler import sql
from scheduler.models import Account
from scheduler.work.volunteers.result_states import OwnState, codes_of, state_of, why

#: Ended results that a filtered page examines, divided among the computers, but at least one more
#: than the page shows of each.  Each is in the worst case a page on disk.
MAX_READ: Final = 2_000
_MAX_ID: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class OwnResult:
    """A result in the list; `app` is the app's title, and times are in seconds.

    `received_at` is the time at which it ended, None while it is in progress.
    """

    id: int
    workunit_id: int
    app: str
    host_id: int
    host_name: str
    server_state: int
    outcome: int
    validate_state: int
    exit_status: int
    sent_at: datetime | None
    report_deadline: datetime | None
    received_at: datetime | None
    elapsed_time: float
    cpu_time: float
    granted_credit: Decimal

    @property
    def state(self) -> OwnState:
        return state_of(self.server_state, self.outcome, self.validate_state)

    @property
    def why(self) -> str:
        """A sentence that explains the state."""
        return why(self.server_state, self.outcome, self.validate_state, self.exit_status)


@dataclass(frozen=True, slots=True)
class ResultPage:
    """A page of results; the next page begins below the id `older_than`, None after the last."""

    rows: tuple[OwnResult, ...]
    older_than: int | None


def newest(
    account: Account,
    *,
    host_id: int | None = None,
    state: OwnState | None = None,
    below: int | None = None,
    count: int,
) -> ResultPage:
    """Return at most `count` results with ids less than `below`, newest first, in one statement.

    A `host_id` of another account has no results.  A page can be shorter than `count` although
    older results exist; see `MAX_READ`.
    """
    with_running = state in (None, OwnState.IN_PROGRESS)
    fetched: list[dict[str, Any]] = sql.fetch(
        "work/volunteers/read_own_results",
        {
            "account_id": account.pk,
            "host_id": host_id,
            "below": _MAX_ID if below is None else below,
            "count": count + 1,
            # Without a filter, the rows of the page itself are sufficient.
            "max_read": 0 if state is None else MAX_READ,
            "with_running": with_running,
            "codes": [] if state is OwnState.IN_PROGRESS else codes_of(state),
        },
    )
    lowest_id = fetched[0]["lowest_id"]
    rows = [
        OwnResult(**{name: value for name, value in row.items() if name != "lowest_id"})
        for row in fetched
        if row["id"] is not None
    ]
    if len(rows) > count:
        return ResultPage(tuple(rows[:count]), rows[count - 1].id)
    return ResultPage(tuple(rows), lowest_id or None)
