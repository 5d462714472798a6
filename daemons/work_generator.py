"""Keeps a cushion of unsent results for apps whose work is made by a program.

Where there are fewer unsent results than the app's cushion, its generator is asked, in a worker
process with no transaction open, for as many workunits as are missing.  They are submitted together
with the generator's new state, if the state is still the one it began with: exactly once, whatever
crashes in between.  One daemon at a time runs the generator of an app.
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
from daemons.science.generators import MAX_ANSWER, Made, UnknownGenerator, allowed, read_answer
from daemons.science.interfaces import BadOptions, TransientScienceError
from daemons.tally import WHOLE, Shard, Tally
from scheduler import sql, storage
from scheduler.files import download_files
from scheduler.work.submission.rules.work_from_dicts import BadDescription, new_workunit
from scheduler.work.submission.submit import Submission, SubmissionRefused, submit

log = logging.getLogger(__name__)

PACKAGE = "daemons.sql"
_RUN = "daemons.science.generators:run"


class BadGeneratorName(LookupError):
    """An app names a generator that cannot be. Hint: the message says what can."""


class _Overtaken(Exception):
    """Somebody else changed the generator's state meanwhile: nothing is submitted."""


@dataclass(slots=True)
class _Round:
    """What became of the hungry apps."""

    submitted: int = 0
    full: bool = False
    exhausted: int = 0
    errors: dict[int, str] = field(default_factory=dict)
    transient: set[int] = field(default_factory=set)
    recovered: list[int] = field(default_factory=list)


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Have each generator fill its app's cushion, by `limit` workunits at most."""
    hungry = sql.fetch(
        "read_hungry_apps",
        {"now": now, "shard_count": shard.count, "shard_index": shard.index},
        PACKAGE,
    )
    made = _Round()
    for app in hungry:
        count = min(limit, missing(app))
        if count > 0:
            with _alone(app["id"]) as alone:
                if alone:
                    _feed(app, count, made, now=now)
    _put_off(hungry, made, now=now)
    return Tally(
        noun="apps",
        seen=len(hungry),
        counts={
            "workunits submitted": made.submitted,
            "exhausted": made.exhausted,
            "put off": len(made.errors),
        },
        more=made.full and made.submitted >= limit,
    )


def missing(app: dict[str, Any]) -> int:
    """How many workunits fill the cushion: each was worth so many results the last time."""
    each = max(1.0, float(app["generator_state"].get("results_each", 1)))
    missing_results = int(app["cushion"]) - int(app["unsent"])
    return ceil(missing_results / each) - int(app["coming"])


@contextmanager
def _alone(app_id: int) -> Iterator[bool]:
    """Whether we are the only one who runs this app's generator until the block ends."""
    row = sql.fetch_one("try_generator_lock", {"id": app_id}, PACKAGE)
    locked = bool(row and row["locked"])
    try:
        yield locked
    finally:
        if locked:
            sql.fetch("release_generator_lock", {"id": app_id}, PACKAGE)


def _feed(app: dict[str, Any], count: int, made: _Round, *, now: datetime) -> None:
    """Ask one generator and submit what it made."""
    try:
        answer = _ask(app, count)
        submitted = _submit(app, answer, now=now)
    except _Overtaken:
        return
    except TransientScienceError as error:
        made.errors[app["id"]] = "\n".join([str(error), *getattr(error, "__notes__", ())])
        made.transient.add(app["id"])
    except worker.ScienceFailed as error:
        made.errors[app["id"]] = error.traceback
    except (
        BadDescription,
        BadGeneratorName,
        SubmissionRefused,
        download_files.UnknownFiles,
        storage.BadFileName,
        OSError,
    ) as error:
        made.errors[app["id"]] = str(error)
    else:
        made.submitted += submitted
        made.full = made.full or submitted >= count
        made.exhausted += not answer.workunits and answer.ask_again is None
        if app["has_failed"]:
            made.recovered.append(app["id"])


def _ask(app: dict[str, Any], count: int) -> Made:
    before = app["generator_state"]
    # Another generator begins anew: it cannot read what the one before it left behind.
    is_same = before.get("generator", app["generator"]) == app["generator"]
    state = dict(before.get("state") or {}) if is_same else {}
    name = str(app["generator"])
    try:
        plugin, options = allowed(name, app["generator_options"] or {}, settings.PLUGINS)
    except (UnknownGenerator, BadOptions) as error:
        raise BadGeneratorName(str(error)) from error
    if plugin is None:
        return copies(name.partition(":")[2], count, app, state)
    return worker.call(
        _RUN,
        ":".join(plugin.path.rsplit(".", 1)),
        f"{settings.VAR_DIR}/science",
        count,
        options,
        state,
        time_limit=app["science_time_limit"],
        read=lambda answer: read_answer(answer, count),
        profile=worker.profile_of(plugin),
        max_answer=MAX_ANSWER,
    )


def copies(template: str, count: int, app: dict[str, Any], state: dict[str, Any]) -> Made:
    """Copies of a workunit of the app, numbered from 1 on; the option `most` ends them.

    Raises `BadGeneratorName` if it is gone, or its input files are.
    """
    row = sql.fetch_one("read_template", {"name": template}, PACKAGE)
    if row is None or row["app_id"] != app["id"] or row["file_delete_state"]:
        why = "is not there" if row is None else "is another app's"
        if row is not None and row["app_id"] == app["id"]:
            why = "has no input files any more"
        msg = (
            f"Workunit {template!r}, which is to be copied, {why}. Hint: submit one to be held "
            "(`submit_work --hold`), for it to last."
        )
        raise BadGeneratorName(msg)
    each = int(row["description"]["target_nresults"])
    made = int(state.get("made", 0))
    most = (app["generator_options"] or {}).get("most")
    wanted = max(1, ceil(count / each)) if not made else count
    if most is not None:
        wanted = min(wanted, max(0, int(most) - made))
    return Made(
        workunits=tuple(
            {**row["description"], "name": f"{template}_copy_{number}"}
            for number in range(made + 1, made + 1 + wanted)
        ),
        state={"made": made + wanted},
    )


def _submit(app: dict[str, Any], answer: Made, *, now: datetime) -> int:
    """Submit what was made together with the new state; how many workunits that are."""
    workunits = [
        new_workunit(description, from_outside=answer.from_outside)
        for description in answer.workunits
    ]
    state: dict[str, Any] = {
        **app["generator_state"],
        "generator": app["generator"],
        "state": answer.state,
    }
    for passing in ("exhausted", "ask_again_at"):
        state.pop(passing, None)
    if answer.ask_again is not None:
        until = answer.ask_again
        again_at = now + until if isinstance(until, timedelta) else until
        state["ask_again_at"] = again_at.isoformat()
    if not workunits:
        if answer.ask_again is None:
            state["exhausted"] = app["fingerprint"]
            log.info("generator exhausted", extra={"app": app["name"], "made": _said(state)})
        _keep_state(app, state)
        return 0
    state["results_each"] = sum(description.target for description in workunits) / len(workunits)

    def keep(done: Submission) -> None:
        ids = done.workunit_ids
        _keep_state(app, {**state, "first_id": min(ids), "last_id": max(ids)})

    done = submit(app=app["name"], workunits=workunits, then=keep, now=now)
    for warning in done.warnings:
        log.warning("generator warned", extra={"app": app["name"], "warning": warning})
    return done.count


def _said(state: dict[str, Any]) -> str:
    return str(state.get("state", ""))[:200]


def _keep_state(app: dict[str, Any], state: dict[str, Any]) -> None:
    """Swap the state; raises `_Overtaken` if it is not the one that we began with."""
    before = app["generator_state"]
    params = {"id": app["id"], "before": Jsonb(before), "state": Jsonb(state)}
    if not sql.execute("swap_generator_state", params, PACKAGE):
        raise _Overtaken


def _put_off(hungry: list[dict[str, Any]], made: _Round, *, now: datetime) -> None:
    """Count the failures, and ask those generators later."""
    poison.succeeded(poison.Stage.GENERATE, made.recovered)
    if not made.errors:
        return
    records = poison.record(
        poison.Stage.GENERATE,
        made.errors,
        {app_id: app_id for app_id in made.errors},
        now=now,
        transient=made.transient,
    )
    for app in hungry:
        if record := records.get(app["id"]):
            again_at = (now + record.wait).isoformat()
            params = {
                "id": app["id"],
                "before": Jsonb(app["generator_state"]),
                "state": Jsonb({**app["generator_state"], "ask_again_at": again_at}),
            }
            sql.execute("swap_generator_state", params, PACKAGE)
            error = made.errors[app["id"]].splitlines()[-1]
            log.error("generator failed", extra={"app": app["name"], "error": error})
