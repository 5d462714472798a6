"""Whether hosts can compute what they are sent before its deadline.

The calculation uses the request, the reply and the server's estimated speed, and shares no code
with `scheduler`.
"""

from __future__ import annotations

from dataclasses import dataclass

#: BOINC's lower bound of a host's active fraction.
MIN_ACTIVE_FRACTION = 0.1
#: Deadlines in replies are rounded to seconds.
SLACK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Job:
    """A sent result; in seconds: run time, growth of the queue, and `limit`, the time allowed."""

    name: str
    seconds: float
    growth: float
    limit: float


def late_results(request, reply, flops, *, now):
    """Return sentences on the results of a reply that their host cannot finish in time.

    `flops` is the estimated speed by the result's name.  As in BOINC's `check_deadline`, the first
    result of an empty queue is not checked: a slow host may try one.  A reply is unordered, so a
    result counts as late only if it is late in every order.
    """
    jobs = _jobs(request, reply, flops, now=now)
    queued = request.estimated_delay
    late = _first_late(jobs, queued)
    if late is None:
        return []
    if queued <= 0 and any(
        _first_late([job for job in jobs if job is not first], first.growth) is None
        for first in jobs
    ):
        return []
    needs = f"{late.name} takes {late.seconds:.0f} s and has {late.limit:.0f} s"
    return [f"{needs}: {queued:.0f} s were queued and {len(jobs)} results sent"]


def _jobs(request, reply, flops, *, now):
    times, ncpus = request.time_stats, max(1, request.host_info.p_ncpus)
    active = min(1.0, max(MIN_ACTIVE_FRACTION, times.on_frac * times.active_frac))
    estimates = {workunit.name: workunit.rsc_fpops_est for workunit in reply.workunits}
    threads = {_key(version): version.avg_ncpus or 1.0 for version in reply.app_versions}
    apps = {workunit.name: workunit.app_name for workunit in reply.workunits}
    jobs = []
    for result in reply.results:
        seconds = estimates[result.wu_name] / flops[result.name] / active
        used = threads[apps[result.wu_name], *_version(result)]
        limit = result.report_deadline - now.timestamp()
        jobs.append(Job(result.name, seconds, seconds * used / ncpus, limit))
    return jobs


def _key(version):
    return (version.app_name, *_version(version))


def _version(row):
    return row.platform, row.version_num, row.plan_class


def _first_late(jobs, queued):
    """Return the job that is late in the best order, or None if none is.

    The best order is by the time at which the queue behind a job must be reached, `limit - seconds
    + growth`: exchanging two neighbors into this order makes no job late.
    """
    for job in sorted(jobs, key=lambda job: job.limit - job.seconds + job.growth):
        if queued + job.seconds > job.limit + SLACK_SECONDS:
            return job
        queued += job.growth
    return None
