"""What a judgement may know of a workunit and its results [pure]."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta

#: As many digits as the number of a row never has.
_DIGITS = 19


def output_name(result_name: str, result_id: int, position: int) -> str:
    """The physical name of a result's output number `position`, never given to another file.

    >>> output_name("range_7_0", 42, 1)
    'range_7_0_r42_1'
    """
    return f"{result_name}_r{result_id}_{position}"


def result_of(output: str) -> int | None:
    """The id of the result whose output has this physical name; None if it is another file's.

    >>> result_of("range_7_0_r42_1"), result_of("readme.txt")
    (42, None)
    """
    stem, _, position = output.rpartition("_")
    number = stem.rpartition("_r")[2]
    is_one = position.isdecimal() and number.isdecimal() and "_r" in stem
    return int(number) if is_one and len(number) < _DIGITS else None


def result_name(workunit_name: str, attempt: int) -> str:
    """The name of a workunit's attempt, counted from 0 as BOINC does.

    >>> result_name("range_7", 0)
    'range_7_0'
    """
    return f"{workunit_name}_{attempt}"


@dataclass(frozen=True, slots=True)
class ResultFacts:
    """One result as the transitioner sees it; codes are the law's.

    A pass leaves out times on which nothing depends: `received_at` is there for successes that came
    after their credit deadline, and where the app's `delete_delay` counts from it.
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
    """One workunit with all its results, in ascending id."""

    id: int
    name: str
    app_id: int
    priority: int
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
    canonical_result_id: int | None
    assimilate_state: int
    file_delete_state: int
    transition_at: datetime | None
    results: tuple[ResultFacts, ...] = ()
    unsendable_at: datetime | None = None
    revalidate_requested_at: datetime | None = None
    broadcast: bool = False
    dependency_failed_at: datetime | None = None
    outputs_kept: bool = False
    #: Whether every account (or host) that is about had its turn; None if the app waits for others.
    all_tried: bool | None = None
    delay_bound: timedelta | None = None
    delete_delay: timedelta | None = None


#: Facts that stand in another table: by which way the model of a workunit finds them.
JOINED = {"delete_delay": "app__delete_delay"}
#: The columns to read for each kind of facts.
RESULT_COLUMNS: tuple[str, ...] = tuple(field.name for field in fields(ResultFacts))
WORKUNIT_COLUMNS: tuple[str, ...] = tuple(
    field.name
    for field in fields(WorkunitFacts)
    if field.name not in {"results", "all_tried", *JOINED}
)
