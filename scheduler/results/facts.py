"""Facts about workunits and their results, which the rules use [pure]."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta

#: Ids of rows have fewer digits than this.
_DIGITS = 19


def output_name(result_name: str, result_id: int, position: int) -> str:
    """Return the unique physical name of a result's output at `position`.

    >>> output_name("range_7_0", 42, 1)
    'range_7_0_r42_1'
    """
    return f"{result_name}_r{result_id}_{position}"


def result_of(output: str) -> int | None:
    """Return the result id in an output's physical name, or None for any other name.

    >>> result_of("range_7_0_r42_1"), result_of("readme.txt")
    (42, None)
    """
    stem, _, position = output.rpartition("_")
    number = stem.rpartition("_r")[2]
    is_output = position.isdecimal() and number.isdecimal() and "_r" in stem
    return int(number) if is_output and len(number) < _DIGITS else None


def result_name(workunit_name: str, attempt: int) -> str:
    """Return the name of a workunit's attempt, counted from 0 as in BOINC.

    >>> result_name("range_7", 0)
    'range_7_0'
    """
    return f"{workunit_name}_{attempt}"


@dataclass(frozen=True, slots=True)
class ResultFacts:
    """The columns of a result that the transitioner reads; states are codes of `lifecycle`.

    The fields have the order of the columns of the transitioner's statement.  That statement
    returns `received_at` only for successes that arrived after their credit deadline, for workunits
    whose `end_before` has passed, and for apps with a `delete_delay`, which begins at that time.
    """

    id: int
    workunit_id: int
    name: str
    attempt: int
    server_state: int
    outcome: int
    validate_state: int
    file_delete_state: int
    exit_status: int
    report_deadline: datetime | None
    credit_deadline: datetime | None
    received_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class WorkunitFacts:
    """A workunit with its results in the order of their ids.

    The fields have the order of the columns of the transitioner's statement.
    """

    id: int
    name: str
    app_id: int
    priority: int
    #: `Workunit.bundle_id`; it is no input of the rules.
    bundle_id: int | None = field(default=None, kw_only=True)
    canonical_result_id: int | None
    min_quorum: int
    target_nresults: int
    max_error_results: int
    max_total_results: int
    max_success_results: int
    max_timeouts: int | None
    hr_class: int
    app_version_id: int | None
    start_after: datetime | None
    start_before: datetime | None
    end_before: datetime | None
    release_state: int
    pending_dependency_count: int
    cancel_requested_at: datetime | None
    error_mask: int
    need_validate: bool
    assimilate_state: int
    file_delete_state: int
    transition_at: datetime | None
    #: When the oldest wake-up was inserted, None if the workunit is not in the queue.
    woken_at: datetime | None = None
    results: tuple[ResultFacts, ...] = ()
    unsendable_at: datetime | None = None
    revalidate_requested_at: datetime | None = None
    broadcast: bool = False
    dependency_failed_at: datetime | None = None
    outputs_kept: bool = False
    #: Whether the workunit has, or had, dependencies on other workunits, or others on it.
    has_parents: bool = False
    has_children: bool = False
    #: Whether the workunit has no command, and is complete when its dependencies are met.
    is_group: bool = False
    #: Whether every active account (or host) had a result; None without `App.fail_when_all_tried`.
    all_tried: bool | None = None
    delay_bound: timedelta | None = None
    delete_delay: timedelta | None = None


#: Facts from columns of other tables, with their Django lookup from `Workunit`.
JOINED = {"delete_delay": "app__delete_delay"}
#: The columns to read for each kind of facts.
RESULT_COLUMNS: tuple[str, ...] = tuple(field.name for field in fields(ResultFacts))
WORKUNIT_COLUMNS: tuple[str, ...] = tuple(
    field.name
    for field in fields(WorkunitFacts)
    if field.name not in {"results", "woken_at", "all_tried", *JOINED}
)
