"""Hands what running results say to the handlers of their varieties.

Claim, act, settle: trickles are claimed by a lease, an app's own handlers run in a worker process
with no transaction open, and what shall come of it is written together with the mark "handled", by
whoever still holds the lease.  What a handler fails on is put off, longer each time, and parked.
Progress wakes nobody: it changes no state.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from django.conf import settings
from django.db import transaction

from daemons import poison
from daemons.science import worker
from daemons.science.interfaces import TransientScienceError
from daemons.science.trickles import (
    Answer,
    BadAnswer,
    Trickle,
    UnknownHandler,
    allowed,
    message,
    read,
)
from daemons.tally import WHOLE, Shard, Tally
from scheduler import sql
from scheduler.messages.rules import trickle_texts as policy
from scheduler.messages.rules.trickle_texts import Readings, Sample
from scheduler.messages.trickles import fault_of

log = logging.getLogger(__name__)

PACKAGE = "daemons.sql"
#: No handler is begun later than this after the claim; a claim outlives it by far.
TIME_LIMIT = timedelta(minutes=10)
LEASE = timedelta(hours=1)
#: What every app understands; ``cpu_time`` is what BOINC's wrapper says.
BUILT_IN = frozenset({"progress", "usage", "cpu_time"})

_named_unknown: set[tuple[int, str]] = set()


@dataclass(slots=True)
class _Batch:
    """What became of the claimed trickles."""

    lease_until: datetime
    samples: dict[int, Sample] = field(default_factory=dict)
    answers: dict[int, tuple[dict[str, Any], Answer]] = field(default_factory=dict)
    unknown: list[int] = field(default_factory=list)
    errors: dict[int, str] = field(default_factory=dict)
    transient: set[int] = field(default_factory=set)
    untouched: list[int] = field(default_factory=list)

    @property
    def handled(self) -> list[int]:
        """What is done with."""
        return sorted({*self.samples, *self.answers, *self.unknown})


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Hand over what is not handled."""
    batch = _Batch(lease_until=now + LEASE)
    claimed = sql.fetch(
        "claim_trickles",
        {
            "now": now,
            "lease_until": batch.lease_until,
            "limit": limit,
            "shard_count": shard.count,
            "shard_index": shard.index,
        },
        PACKAGE,
    )
    if not claimed:
        return Tally(noun="trickles")
    _hand_over(claimed, batch)
    settled = _settle(batch, now=now)
    _put_off(batch, {row["id"]: row["app_id"] for row in claimed}, now=now)
    recovered = [row["id"] for row in claimed if row["has_failed"] and row["id"] in settled]
    poison.succeeded(poison.Stage.TRICKLE, recovered)
    return Tally(
        noun="trickles",
        seen=len(claimed),
        counts={
            "handled": len(settled) - len(batch.unknown),
            "of unknown varieties": len(batch.unknown),
            "put off": len(batch.errors),
        },
        more=len(claimed) >= limit and bool(settled),
    )


def _hand_over(claimed: list[dict[str, Any]], batch: _Batch) -> None:
    began = monotonic()
    for row in claimed:
        target = (row["trickle_handlers"] or {}).get(row["variety"])
        if row["result_name"] is None:
            batch.unknown.append(row["id"])  # purged meanwhile
        elif target is not None:
            if monotonic() - began > TIME_LIMIT.total_seconds():
                batch.untouched.append(row["id"])
            else:
                _call(str(target), row, batch)
        elif row["variety"] in BUILT_IN:
            batch.samples[row["id"]] = _sample(row, policy.readings(row["text"]))
        else:
            _name_unknown(row)
            batch.unknown.append(row["id"])


def _call(target: str, row: dict[str, Any], batch: _Batch) -> None:
    trickle = Trickle(
        **{name: row[name] for name in Trickle.__dataclass_fields__},
    )
    try:
        plugin = allowed(target, settings.PLUGINS)
        answer = read(
            worker.call(
                "daemons.science.trickles:run",
                ":".join(plugin.path.rsplit(".", 1)),
                f"{settings.VAR_DIR}/science",
                message(trickle),
                time_limit=row["science_time_limit"],
                profile=worker.profile_of(plugin),
            )
        )
        if answer.reply is not None and (fault := fault_of(answer.reply)):
            raise BadAnswer(fault)  # noqa: TRY301 - told as every other fault of the handler
    except TransientScienceError as error:
        batch.errors[row["id"]] = "\n".join([str(error), *getattr(error, "__notes__", ())])
        batch.transient.add(row["id"])
    except worker.ScienceFailed as error:
        batch.errors[row["id"]] = error.traceback
    except (BadAnswer, UnknownHandler) as error:
        batch.errors[row["id"]] = str(error)
    else:
        batch.answers[row["id"]] = (row, answer)
        if answer.fraction_done is not None:
            readings = Readings(fraction_done=answer.fraction_done)
            batch.samples[row["id"]] = _sample(row, readings)


def _sample(row: dict[str, Any], readings: Readings) -> Sample:
    at = policy.moment_of(row["said_at"], row["received_at"])
    return Sample(result_id=row["result_id"], at=at, readings=readings)


def _name_unknown(row: dict[str, Any]) -> None:
    """Say once what nobody handles."""
    key = (row["app_id"], row["variety"])
    if key not in _named_unknown:
        _named_unknown.add(key)
        extra = {
            "app": row["app"],
            "variety": row["variety"],
            "hint": "name a handler in the app's trickle_handlers",
        }
        log.warning("unknown trickle variety", extra=extra)


def _settle(batch: _Batch, *, now: datetime) -> set[int]:
    """Mark as handled and write what comes of it, all or nothing; the ids that were still ours."""
    if not batch.handled:
        return set()
    extended = [row for row, answer in batch.answers.values() if answer.extend_deadline]
    with transaction.atomic():
        if extended:
            sql.fetch(
                "results/lock_workunits", {"workunit_ids": [row["workunit_id"] for row in extended]}
            )
        params = {"ids": batch.handled, "lease_until": batch.lease_until, "now": now}
        ours = {row["id"] for row in sql.fetch("settle_trickles", params, PACKAGE)}
        _keep_samples([sample for id_, sample in batch.samples.items() if id_ in ours])
        _obey([batch.answers[id_] for id_ in sorted(ours & batch.answers.keys())], now=now)
    return ours


def _keep_samples(samples: list[Sample]) -> None:
    progress = policy.progress(samples)
    if progress:
        sql.execute(
            "note_progress",
            {"ids": list(progress), "fractions": list(progress.values())},
            PACKAGE,
        )
    kept = policy.thin(sample for sample in samples if sample.readings.anything)
    if kept:
        sql.execute(
            "insert_usage_samples",
            {
                "result_ids": [one.result_id for one in kept],
                "ats": [one.at for one in kept],
                "fractions": [one.readings.fraction_done for one in kept],
                "cpu_times": [one.readings.cpu_time for one in kept],
                "elapsed_times": [one.readings.elapsed_time for one in kept],
                "memory_bytes": [one.readings.memory_bytes for one in kept],
                "gpu_usages": [one.readings.gpu_usage for one in kept],
                "every": policy.SAMPLE_EVERY,
            },
            PACKAGE,
        )


def _obey(answers: list[tuple[dict[str, Any], Answer]], *, now: datetime) -> None:
    """Do what an app's own handlers ask for."""
    seconds: dict[int, float] = defaultdict(float)
    replies: dict[int, list[str]] = defaultdict(list)
    for row, answer in answers:
        if answer.extend_deadline:
            seconds[row["result_id"]] += answer.extend_deadline.total_seconds()
        if answer.reply is not None:
            replies[row["result_id"]].append(answer.reply)
    if seconds:
        params: dict[str, Any] = {"ids": list(seconds), "seconds": list(seconds.values())}
        sql.execute("extend_deadlines", {**params, "now": now}, PACKAGE)
    if replies:
        said = [(id_, text) for id_, texts in replies.items() for text in texts]
        params = {"ids": [id_ for id_, _ in said], "texts": [text for _, text in said]}
        sql.execute("answer_trickles", {**params, "now": now}, PACKAGE)


def _put_off(batch: _Batch, apps: dict[int, int], *, now: datetime) -> None:
    again: dict[int, datetime | None] = dict.fromkeys(batch.untouched)
    if batch.errors:
        records = poison.record(
            poison.Stage.TRICKLE, batch.errors, apps, now=now, transient=batch.transient
        )
        again |= {id_: now + its.wait for id_, its in records.items()}
        for id_, error in batch.errors.items():
            log.warning("trickle put off", extra={"id": id_, "error": error.splitlines()[-1]})
    if again:
        params = {
            "ids": list(again),
            "again_ats": list(again.values()),
            "lease_until": batch.lease_until,
        }
        sql.execute("put_off_trickles", params, PACKAGE)
