"""The calculation of late results that random walks use."""

from __future__ import annotations

import pytest

from scheduler.boinc.wire import messages
from tests.conftest import NOON
from tests.long.lateness import late_results

HOUR = 3600.0


def request(queued=0.0, ncpus=1, on_frac=1.0, active_frac=1.0):
    return messages.SchedulerRequest(
        estimated_delay=queued,
        host_info=messages.HostInfo(p_ncpus=ncpus),
        time_stats=messages.TimeStats(on_frac=on_frac, active_frac=active_frac),
    )


def reply(*jobs, avg_ncpus=1.0):
    """Return a reply with one result for each pair (run time, deadline), in hours."""
    version = messages.ReplyAppVersion(
        app_name="plain", version_num=100, platform="linux", avg_ncpus=avg_ncpus
    )
    return messages.SchedulerReply(
        app_versions=(version,),
        workunits=tuple(
            messages.ReplyWorkunit(name=f"w{i}", app_name="plain", rsc_fpops_est=hours * HOUR)
            for i, (hours, _deadline) in enumerate(jobs)
        ),
        results=tuple(
            messages.ReplyResult(
                name=f"w{i}_0",
                wu_name=f"w{i}",
                report_deadline=NOON.timestamp() + deadline * HOUR,
                platform="linux",
                version_num=100,
            )
            for i, (_hours, deadline) in enumerate(jobs)
        ),
    )


def late(asked, answer):
    flops = dict.fromkeys([result.name for result in answer.results], 1.0)
    return len(late_results(asked, answer, flops, now=NOON))


@pytest.mark.parametrize(
    ("asked", "answer", "faults"),
    [
        # With an empty queue the first result is not checked.
        (request(), reply((9, 1)), 0),
        (request(), reply((9, 1), (9, 1)), 1),
        (request(), reply((1, 2), (1, 2)), 0),
        (request(), reply((1, 2), (1, 2), (1, 2)), 1),
        (request(), reply((9, 1), (1, 10)), 0),
        # The order of the reply does not matter.
        (request(queued=1.0), reply((4, 6), (1, 2)), 0),
        # With a queue all results are checked.
        (request(queued=HOUR), reply((1, 2)), 0),
        (request(queued=2 * HOUR), reply((1, 2)), 1),
        # Several CPUs, and versions that use all of them.
        (request(queued=1.0, ncpus=4), reply((1, 2), (1, 2), (1, 2)), 0),
        (request(queued=1.0, ncpus=4), reply((1, 2), (1, 2), (1, 2), avg_ncpus=4), 1),
        # A host that is active for a part of the time.
        (request(queued=1.0, on_frac=0.5, active_frac=0.5), reply((1, 5)), 0),
        (request(queued=1.0, on_frac=0.5, active_frac=0.5), reply((1, 3)), 1),
        (request(queued=1.0, on_frac=0.0), reply((1, 11)), 0),
    ],
)
def test_late_results_are_counted_from_queue_cpus_and_active_time(asked, answer, faults):
    assert late(asked, answer) == faults
