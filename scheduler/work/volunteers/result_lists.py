"""Lists the results of a volunteer's computers at a bounded cost per computer.

Theory of operation.  `result` has no index by account.  A page merges the newest results of each
computer, which two indexes by host deliver: that of results in progress, and that of ended ones.  A
filter by state could examine all results of a computer, for example for its only invalid one, so a
filtered page examines about `MAX_READ` ended results.  If they contain too few matches, the page is
short or empty, and the next page begins below `older_than`.

The same indexes deliver the oldest results first.  Other orders, such as that of deadlines, run
times or credit, would each need a further index of `result`, which every report would write.
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
    """A page of results, which ends before the first row of the next page.

    The next page begins below the id `older_than` if the newest results are first, and above
    `newer_than` if the oldest are; both are None on the last page.
    """

    rows: tuple[OwnResult, ...]
    older_than: int | None = None
    newer_than: int | None = None


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
    rows, lowest_id = _read(
        "work/volunteers/read_own_results",
        account,
        host_id=host_id,
        state=state,
        count=count,
        below=_MAX_ID if below is None else below,
    )
    if len(rows) > count:
        return ResultPage(tuple(rows[:count]), older_than=rows[count - 1].id)
    return ResultPage(tuple(rows), older_than=lowest_id or None)


def oldest(
    account: Account,
    *,
    host_id: int | None = None,
    state: OwnState | None = None,
    above: int | None = None,
    count: int,
) -> ResultPage:
    """Return at most `count` results with ids greater than `above`, oldest first, as `newest`."""
    rows, highest_id = _read(
        "work/volunteers/read_oldest_own_results",
        account,
        host_id=host_id,
        state=state,
        count=count,
        above=0 if above is None else above,
    )
    if len(rows) > count:
        return ResultPage(tuple(rows[:count]), newer_than=rows[count - 1].id)
    return ResultPage(tuple(rows), newer_than=highest_id)


def _read(
    statement: str,
    account: Account,
    *,
    host_id: int | None,
    state: OwnState | None,
    count: int,
    **position: int,
) -> tuple[list[OwnResult], int | None]:
    """Return at most `count` + 1 results, and the id beyond which results were not examined."""
    fetched: list[dict[str, Any]] = sql.fetch(
        statement,
        {
            "account_id": account.pk,
            "host_id": host_id,
            "count": count + 1,
            # Without a filter, the rows of the page itself are sufficient.
            "max_read": 0 if state is None else MAX_READ,
            "with_running": state in (None, OwnState.IN_PROGRESS),
            "codes": [] if state is OwnState.IN_PROGRESS else codes_of(state),
            **position,
        },
    )
    edges = [row.pop("edge_id") for row in fetched]
    return [OwnResult(**row) for row in fetched if row["id"] is not None], edges[0]
