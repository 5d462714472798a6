"""Checks whether workunits can be sent in task lists [pure].

A member of a list has one result at a time, and that result goes to the host that claims the list.
So it has no replicas and no target of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from scheduler.work.submission.facts import AppRules, NewBatch, NewWorkunit
from scheduler.work.submission.rules.new_workunits import Fault

#: Maximum number of workunits of a list: a claim locks all of them.
MAX_MEMBERS = 1000
#: Width of the label that marks the workunits of one list in a submission.
_MAX_LABEL_LENGTH = 250
_MAX_DURATION = timedelta(days=36_525)


def can_be_listed(workunit: NewWorkunit) -> bool:
    """Return whether a workunit can be a member of a task list."""
    return not any(_obstacles(workunit))


def faults(
    workunits: Sequence[NewWorkunit], *, app: AppRules, has_batch: bool
) -> dict[int, tuple[Fault, ...]]:
    """Return the faults of `bundle` and `expected_duration` by the index of their workunit."""
    by_index: dict[int, tuple[Fault, ...]] = {}
    counts: dict[str, int] = {}
    for index, workunit in enumerate(workunits):
        if workunit.bundle is None and workunit.expected_duration is None:
            continue
        own = [*_duration(workunit.expected_duration)]
        if workunit.bundle is not None:
            counts[workunit.bundle] = counts.get(workunit.bundle, 0) + 1
            own += _label(workunit, app, has_batch=has_batch, count=counts[workunit.bundle])
        if own:
            by_index[index] = tuple(own)
    return by_index


def batch_faults(batch: NewBatch) -> Iterator[Fault]:
    """Yield the faults of the sizes of a batch's task lists."""
    size, duration = batch.bundle_size, batch.bundle_duration
    if size is not None and not 1 <= size <= MAX_MEMBERS:
        yield Fault(f"bundle_size is {size}.", f"give a number from 1 to {MAX_MEMBERS}.")
    if duration is not None and not timedelta(0) < duration <= _MAX_DURATION:
        seconds = duration.total_seconds()
        yield Fault(f"bundle_duration is {seconds:g} seconds.", "give more than 0 seconds.")


def adaptive_fault(app: AppRules) -> Fault | None:
    """Return the fault of task lists for an app with adaptive replication, or None."""
    if app.target_nresults <= 1:
        return None
    return Fault(
        f"App {app.name} uses adaptive replication, which can send a workunit to several hosts.",
        "submit to an app whose target_nresults is 1, or leave the task lists out.",
    )


def _label(workunit: NewWorkunit, app: AppRules, *, has_batch: bool, count: int) -> Iterator[Fault]:
    label = workunit.bundle or ""
    if not 1 <= len(label) <= _MAX_LABEL_LENGTH or not label.isprintable():
        hint = f"give 1 to {_MAX_LABEL_LENGTH} printable characters."
        yield Fault(f"{label[:60]!r} is not a label for a task list.", hint)
    if count == MAX_MEMBERS + 1:
        hint = f"give at most {MAX_MEMBERS} workunits one label."
        yield Fault(f"Task list {label[:60]!r} has too many workunits.", hint)
    if not has_batch:
        yield Fault("A task list is part of a batch, but there is no batch.", "name a batch.")
    for obstacle, hint in _obstacles(workunit):
        yield Fault(f"A member of a task list {obstacle}.", hint)
    if workunit.after:
        yield Fault(
            "A member of a task list cannot wait for other workunits, because its list is sent "
            "as a unit.",
            "leave `bundle` out, or set bundle_size of the batch: then lists are made of "
            "workunits that are due.",
        )
    if fault := adaptive_fault(app):
        yield fault


def _obstacles(workunit: NewWorkunit) -> Iterator[tuple[str, str]]:
    if workunit.target != 1:
        yield f"has one result at a time, not {workunit.target}", "set min_quorum to 1."
    if workunit.group:
        yield "has a result, which a group has not", "leave `group` or `bundle` out."
    for name in ("target_host", "target_account", "target_team"):
        if getattr(workunit, name) is not None:
            yield f"has no {name}", f"leave {name} out."
    if workunit.queue is not None:
        yield "is sent with its list, not by a queue", "leave `queue` or `bundle` out."
    if workunit.broadcast:
        yield "goes to one host, not to all", "leave `broadcast` out."


def _duration(duration: timedelta | None) -> Iterator[Fault]:
    if duration is not None and not timedelta(0) < duration <= _MAX_DURATION:
        seconds = duration.total_seconds()
        yield Fault(f"expected_duration is {seconds:g} seconds.", "give more than 0 seconds.")


def run_time_defaults(fields: Mapping[str, object], expected: timedelta) -> dict[str, object]:
    """Return the fields that follow from the expected run time, unless they are in `fields`.

    The operations are those of a host of 1 GFLOPS; such a host reports them in that time.

    >>> run_time_defaults({}, timedelta(seconds=10))["rsc_fpops_est"]
    10000000000.0
    """
    operations = expected.total_seconds() * 1e9
    defaults = {
        "rsc_fpops_est": operations,
        "rsc_fpops_bound": 24 * operations,
        "delay_bound": max(3 * expected, timedelta(hours=1)),
    }
    return {name: value for name, value in defaults.items() if name not in fields}
