"""Keeps a stock of unsent results for apps whose work a program generates.

If an app has fewer unsent results than its `cushion`, its generator is called for the missing
workunits, in a worker process with no transaction open.  One transaction submits the workunits and
replaces the generator's state, provided that the stored state is unchanged.  So each workunit is
submitted exactly once, even after a crash.  Only one daemon at a time runs the generator of an app.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from django.conf import settings
from psycopg.types.json import Jsonb

from daemons import poison
from daemons.science import worker
from daemons.science.generators import MAX_ANSWER, GeneratedWork, allowed, read_answer
from daemons.science.interfaces import BadOptions, TransientScienceError
from daemons.tally import WHOLE, Shard, Tally
from scheduler import sql, storage
from scheduler.apps.rules.plugins import UnknownPlugin
from scheduler.files import download_files
from scheduler.work.dependencies import DependencyRefused
from scheduler.work.submission.rules.work_from_dicts import BadDescription, new_workunit
from scheduler.work.submission.submit import Submission, SubmissionRefused, submit

log = logging.getLogger(__name__)

PACKAGE = "daemons.sql"


class BadTemplate(LookupError):
    """The workunit of ``copy:WORKUNIT`` cannot be copied. Hint: submit a held workunit instead."""


class _StateConflict(Exception):
    """Another process changed the generator's state, so nothing is submitted."""


@dataclass(slots=True)
class _Outcome:
    """The outcome of one pass over the apps that need work."""

    submitted: int = 0
    full: bool = False
    exhausted: int = 0
    failures: worker.Failures = field(default_factory=worker.Failures)
    recovered: list[int] = field(default_factory=list)


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Call the generators of apps that need work, for at most `limit` workunits each."""
    apps = sql.fetch("read_hungry_apps", {"now": now, **shard.params}, PACKAGE)
    outcome = _Outcome()
    for app in apps:
        count = min(limit, missing(app))
        if count > 0:
            with _generator_lock(app["id"]) as is_locked:
                if is_locked:
                    _generate(app, count, outcome, now=now)
    _put_off(apps, outcome, now=now)
    return Tally(
        noun="apps",
        seen=len(apps),
        counts={
            "workunits submitted": outcome.submitted,
            "exhausted": outcome.exhausted,
            "put off": len(outcome.failures.errors),
        },
        more=outcome.full and outcome.submitted >= limit,
    )


def count_due_apps(*, now: datetime) -> int:
    """Return the number of apps whose generators the next pass calls."""
    apps = sql.fetch("read_hungry_apps", {"now": now, **WHOLE.params}, PACKAGE)
    return sum(missing(app) > 0 for app in apps)


def missing(app: dict[str, Any]) -> int:
    """Return the number of workunits that fill the app's cushion of unsent results.

    Submitted workunits that have no results yet are subtracted, so the number may be negative.  The
    number of results per workunit is assumed to be that of the last submission.
    """
    each = max(1.0, float(app["generator_state"].get("results_each", 1)))
    missing_results = int(app["cushion"]) - int(app["unsent"])
    return ceil(missing_results / each) - int(app["coming"])


@contextmanager
def _generator_lock(app_id: int) -> Iterator[bool]:
    """Lock this app's generator until the block ends; yield False if another process locks it."""
    row = sql.fetch_one("try_generator_lock", {"id": app_id}, PACKAGE)
    locked = bool(row and row["locked"])
    try:
        yield locked
    finally:
        if locked:
            sql.fetch("release_generator_lock", {"id": app_id}, PACKAGE)


def _generate(app: dict[str, Any], count: int, outcome: _Outcome, *, now: datetime) -> None:
    """Call the generator of an app for `count` workunits, and submit its workunits.

    Records a failure in `outcome`.
    """
    try:
        answer = _ask(app, count)
        submitted = _submit(app, answer, now=now)
    except _StateConflict:
        return
    except (
        TransientScienceError,
        worker.ScienceFailed,
        BadDescription,
        BadOptions,
        BadTemplate,
        UnknownPlugin,
        SubmissionRefused,
        DependencyRefused,
        download_files.UnknownFiles,
        storage.BadFileName,
        OSError,
    ) as error:
        outcome.failures.add(app["id"], error)
    else:
        outcome.submitted += submitted
        outcome.full = outcome.full or submitted >= count
        outcome.exhausted += not answer.workunits and answer.ask_again is None
        if app["has_failed"]:
            outcome.recovered.append(app["id"])


def _ask(app: dict[str, Any], count: int) -> GeneratedWork:
    before = app["generator_state"]
    # A different generator starts without state: it cannot read the previous generator's state.
    is_same = before.get("generator", app["generator"]) == app["generator"]
    state = dict(before.get("state") or {}) if is_same else {}
    name = str(app["generator"])
    plugin, options = allowed(name, app["generator_options"] or {}, settings.PLUGINS)
    if plugin is None:
        return copies(name.partition(":")[2], count, app, state)
    return worker.call_plugin(
        plugin,
        "daemons.science.generators:run",
        count,
        options,
        state,
        time_limit=app["science_time_limit"],
        read=lambda answer: read_answer(answer, count),
        max_answer=MAX_ANSWER,
    )


def copies(template: str, count: int, app: dict[str, Any], state: dict[str, Any]) -> GeneratedWork:
    """Return descriptions of up to `count` copies of the workunit named `template`.

    Copies are numbered from 1.  The option `most` limits their total number.  Raises `BadTemplate`
    if the app has no such workunit, or if the workunit's input files were deleted.
    """
    row = sql.fetch_one("read_template", {"name": template}, PACKAGE)
    if row is None or row["app_id"] != app["id"] or row["file_delete_state"]:
        why = "does not exist" if row is None else "belongs to another app"
        if row is not None and row["app_id"] == app["id"]:
            why = "no longer has its input files"
        msg = (
            f"Workunit {template!r}, the template to copy, {why}. Hint: submit a held workunit "
            "(`submit_work --hold`), so that it is kept."
        )
        raise BadTemplate(msg)
    each = int(row["description"]["target_nresults"])
    made = int(state.get("made", 0))
    most = (app["generator_options"] or {}).get("most")
    wanted = max(1, ceil(count / each)) if not made else count
    if most is not None:
        wanted = min(wanted, max(0, int(most) - made))
    return GeneratedWork(
        workunits=tuple(
            {**row["description"], "name": f"{template}_copy_{number}"}
            for number in range(made + 1, made + 1 + wanted)
        ),
        state={"made": made + wanted},
    )


def _submit(app: dict[str, Any], answer: GeneratedWork, *, now: datetime) -> int:
    """Submit the generated workunits and store the new state in one transaction.

    Returns the number of new workunits.
    """
    workunits = [
        new_workunit(description, from_outside=answer.from_outside)
        for description in answer.workunits
    ]
    state: dict[str, Any] = {
        **app["generator_state"],
        "generator": app["generator"],
        "state": answer.state,
    }
    for key in ("exhausted", "ask_again_at"):
        state.pop(key, None)
    if answer.ask_again is not None:
        until = answer.ask_again
        again_at = now + until if isinstance(until, timedelta) else until
        state["ask_again_at"] = again_at.isoformat()
    if not workunits:
        if answer.ask_again is None:
            state["exhausted"] = app["fingerprint"]
            log.info("generator_exhausted", extra={"app": app["name"], "made": _excerpt(state)})
        _keep_state(app, state)
        return 0
    state["results_each"] = sum(description.target for description in workunits) / len(workunits)

    def keep(submission: Submission) -> None:
        ids = submission.workunit_ids
        _keep_state(app, {**state, "first_id": min(ids), "last_id": max(ids)})

    done = submit(app=app["name"], workunits=workunits, then=keep, now=now)
    for warning in done.warnings:
        log.warning("generator_warned", extra={"app": app["name"], "warning": warning})
    return done.count


def _excerpt(state: dict[str, Any]) -> str:
    return str(state.get("state", ""))[:200]


def _keep_state(app: dict[str, Any], state: dict[str, Any]) -> None:
    """Replace the stored state; raises `_StateConflict` if another process has changed it."""
    before = app["generator_state"]
    params = {"id": app["id"], "before": Jsonb(before), "state": Jsonb(state)}
    if not sql.execute("swap_generator_state", params, PACKAGE):
        raise _StateConflict


def _put_off(apps: list[dict[str, Any]], outcome: _Outcome, *, now: datetime) -> None:
    """Record the failures of generators, and delay their next calls.

    The failure records of generators that have recovered are deleted.
    """
    poison.succeeded(poison.Stage.GENERATE, outcome.recovered)
    if not (errors := outcome.failures.errors):
        return
    records = poison.record(
        poison.Stage.GENERATE,
        errors,
        {app_id: app_id for app_id in errors},
        now=now,
        transient=outcome.failures.transient,
    )
    for app in apps:
        if record := records.get(app["id"]):
            again_at = (now + record.wait).isoformat()
            params = {
                "id": app["id"],
                "before": Jsonb(app["generator_state"]),
                "state": Jsonb({**app["generator_state"], "ask_again_at": again_at}),
            }
            sql.execute("swap_generator_state", params, PACKAGE)
            error = errors[app["id"]].splitlines()[-1]
            log.error("generator_failed", extra={"app": app["name"], "error": error})
