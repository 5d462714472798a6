"""Checks whether workunits fit the queues that they name [pure]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scheduler.queues.facts import FOREVER
from scheduler.queues.rules.accepted_work import WITHOUT_QUEUE, Admission
from scheduler.work.submission.facts import NewWorkunit, QueueTarget
from scheduler.work.submission.rules.new_workunits import Fault


def faults(
    workunits: Sequence[NewWorkunit], *, app: str, queues: Mapping[str, QueueTarget]
) -> dict[int, tuple[Fault, ...]]:
    """Return the faults of workunits that do not fit their queue, by index.

    `app` is the name of the submission's app, `queues` the existing queues by name.  The faults
    depend only on the shape of a workunit.
    """
    return {
        index: own
        for index, workunit in enumerate(workunits)
        if (workunit.queue is not None or workunit.delay_bound == FOREVER)
        and (own := tuple(_faults(workunit, app, queues)))
    }


def _faults(workunit: NewWorkunit, app: str, queues: Mapping[str, QueueTarget]) -> Iterator[Fault]:
    queue = None if workunit.queue is None else queues.get(workunit.queue)
    if workunit.queue is not None and queue is None:
        yield Fault(
            f"There is no queue {workunit.queue[:100]!r}.",
            "check the spelling, or leave it out; `scientist queue list` lists the queues.",
        )
        return
    admission = WITHOUT_QUEUE if queue is None else Admission(queue.app, queue.trusted)
    if queue is not None and not admission.accepts_app(app):
        yield Fault(
            f"Queue {queue.name} accepts only work of app {queue.app}, not of {app}.",
            "name another queue, or leave it out.",
        )
    if queue is not None and _has_target(workunit):
        yield Fault(
            f"The workunit has both the queue {queue.name} and a target.",
            "leave one of them out; the lists of a queue restrict it to hosts and accounts.",
        )
    if not admission.accepts_deadline(workunit.delay_bound):
        yield Fault(
            "The deadline is infinite, which only trusted queues allow.",
            "give delay_bound_seconds as a number, or name a trusted queue.",
        )


def _has_target(workunit: NewWorkunit) -> bool:
    targets = (workunit.target_host, workunit.target_account, workunit.target_team)
    return workunit.broadcast or any(target is not None for target in targets)
