"""Counts the SQL statements of RPCs and passes for different numbers of rows."""

from __future__ import annotations

import re
from io import BytesIO

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from bench import backlog, passes
from bench.figures import BenchError, Statements
from bench.volunteer import Volunteer, volunteers
from scheduler.boinc import scheduler_rpc

_FEW, _MANY = 1, 500
_RESULT_NAME = re.compile(rb"<result>\s*<name>([^<]+)</name>")
_CONTROL = re.compile(r"BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE")


def of_rpcs() -> list[Statements]:
    """Count the statements of an RPC without work, with one result and with 50 results."""
    backlog.forget()
    (volunteer,) = volunteers(1)
    counts = {"no work": _request(volunteer, [], 1, expected=0)[0]}
    backlog.unsent(400, quorum=2)
    backlog.upload_all()
    for results in (1, 50):
        _, result_names = _request(volunteer, [], results, expected=results)
        counts[f"K = {results}"], result_names = _request(
            volunteer, result_names, results, expected=results
        )
        _request(volunteer, result_names, 0, expected=0)
    return [Statements(what="scheduler RPC", counts=counts)]


def of_passes() -> list[Statements]:
    """Count the statements of each daemon's pass with one due workunit and with 500."""
    counted: dict[str, dict[str, int]] = {}
    for rows in (_FEW, _MANY):
        backlog.forget()
        backlog.submit_all(backlog.workunits(rows, own_inputs=True))
        backlog.create_hosts(passes.HOSTS)
        for step in passes.LIFE:
            counted.setdefault(step.what, {})[_label(rows)] = _count(step, rows)
        backlog.unsent(2 * rows)
        step = passes.OVERDUE
        counted.setdefault(step.what, {})[_label(rows)] = _count(step, rows)
    return [Statements(what=what, counts=counts) for what, counts in counted.items()]


def _label(rows: int) -> str:
    return f"{rows} workunit{'s' * (rows != 1)}"


def _count(step: passes.Step, rows: int) -> int:
    if step.before:
        step.before()
    with CaptureQueriesContext(connection) as captured:
        tally = step.runner().run_pass(now=timezone.now(), limit=2 * _MANY + 1)
    step.check(tally, rows)
    return _without_control(captured)


def _request(
    volunteer: Volunteer, report: list[bytes], wanted: int, *, expected: int
) -> tuple[int, list[bytes]]:
    body = volunteer.request(report=report, results_wanted=wanted)
    with CaptureQueriesContext(connection) as captured:
        reply = scheduler_rpc.reply(str(len(body)), BytesIO(body).read, "127.0.0.1")
    result_names = _RESULT_NAME.findall(reply)
    if len(result_names) != expected:
        raise BenchError(
            f"{expected} results were expected, {len(result_names)} were sent: {reply[:300]!r}"
        )
    return _without_control(captured), result_names


def _without_control(captured: CaptureQueriesContext) -> int:
    """Return the number of statements that do not control transactions."""
    return sum(not _CONTROL.match(query["sql"] or "") for query in captured.captured_queries)
