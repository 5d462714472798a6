"""Passes trickle messages of running results to the handlers of their varieties.

The daemon claims trickles by a lease, and calls an app's own handlers in a worker process outside a
transaction.  If the lease is still valid, one transaction writes the effects and marks the trickles
as handled.  Trickles whose handler fails are retried with growing back-off, then parked.  Progress
reports change no state, so they wake no daemon.
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
from daemons.science.trickles import Answer, BadAnswer, Trickle, message, read
from daemons.tally import WHOLE, Shard, Tally
from scheduler import sql
from scheduler.apps.rules.plugins import TRICKLE_HANDLER, UnknownPlugin
from scheduler.messages.rules import trickle_texts
from scheduler.messages.rules.trickle_texts import Readings, Sample
from scheduler.messages.trickles import fault_of

log = logging.getLogger(__name__)

PACKAGE = "daemons.sql"
#: The maximum time between the claim and the last call of a handler; the lease is much longer.
TIME_LIMIT = timedelta(minutes=10)
LEASE = timedelta(hours=1)

_logged_unknown: set[tuple[int, str]] = set()


@dataclass(slots=True)
class _Batch:
    """The outcomes of the claimed trickles, by trickle id."""

    lease_until: datetime
    samples: dict[int, Sample] = field(default_factory=dict)
    answers: dict[int, tuple[dict[str, Any], Answer]] = field(default_factory=dict)
    unknown: list[int] = field(default_factory=list)
    failures: worker.Failures = field(default_factory=worker.Failures)
    untouched: list[int] = field(default_factory=list)

    @property
    def handled(self) -> list[int]:
        """Return the ids of trickles to mark as handled."""
        return sorted({*self.samples, *self.answers, *self.unknown})


def run_pass(*, now: datetime, limit: int, shard: Shard = WHOLE) -> Tally:
    """Claim and handle at most `limit` trickles."""
    batch = _Batch(lease_until=now + LEASE)
    params = {"now": now, "lease_until": batch.lease_until, "limit": limit, **shard.params}
    claimed = sql.fetch("claim_trickles", params, PACKAGE)
    if not claimed:
        return Tally(noun="trickles")
    _handle(claimed, batch)
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
            "put off": len(batch.failures.errors),
        },
        more=len(claimed) >= limit and bool(settled),
    )


def _handle(claimed: list[dict[str, Any]], batch: _Batch) -> None:
    began = monotonic()
    for row in claimed:
        target = (row["trickle_handlers"] or {}).get(row["variety"])
        if row["result_name"] is None:
            batch.unknown.append(row["id"])  # the result was purged in the meantime
        elif target is not None:
            if monotonic() - began > TIME_LIMIT.total_seconds():
                batch.untouched.append(row["id"])
            else:
                _call(str(target), row, batch)
        elif row["variety"] in trickle_texts.BUILT_IN_VARIETIES:
            batch.samples[row["id"]] = _sample(row, trickle_texts.readings(row["text"]))
        else:
            _log_unknown(row)
            batch.unknown.append(row["id"])


def _call(target: str, row: dict[str, Any], batch: _Batch) -> None:
    trickle = Trickle(**{name: row[name] for name in Trickle.__dataclass_fields__})
    try:
        answer = read(
            worker.call_plugin(
                settings.PLUGINS.get(TRICKLE_HANDLER, target),
                "daemons.science.trickles:run",
                message(trickle),
                time_limit=row["science_time_limit"],
            )
        )
        if answer.reply is not None and (fault := fault_of(answer.reply)):
            raise BadAnswer(fault)  # noqa: TRY301 - treated as every other fault of the handler
    except (TransientScienceError, worker.ScienceFailed, BadAnswer, UnknownPlugin) as error:
        batch.failures.add(row["id"], error)
    else:
        batch.answers[row["id"]] = (row, answer)
        if answer.fraction_done is not None:
            readings = Readings(fraction_done=answer.fraction_done)
            batch.samples[row["id"]] = _sample(row, readings)


def _sample(row: dict[str, Any], readings: Readings) -> Sample:
    at = trickle_texts.moment_of(row["said_at"], row["received_at"], sent_at=row["sent_at"])
    return Sample(result_id=row["result_id"], at=at, readings=readings)


def _log_unknown(row: dict[str, Any]) -> None:
    """Log that a variety of trickles has no handler, once per app and variety."""
    key = (row["app_id"], row["variety"])
    if key not in _logged_unknown:
        _logged_unknown.add(key)
        extra = {
            "app": row["app"],
            "variety": row["variety"],
            "hint": "add a handler for this variety to the app's trickle_handlers",
        }
        log.warning("unknown_trickle_variety", extra=extra)


def _settle(batch: _Batch, *, now: datetime) -> set[int]:
    """Mark trickles as handled and write the effects; return the ids whose lease was valid."""
    if not batch.handled:
        return set()
    extended = [row for row, answer in batch.answers.values() if answer.extend_deadline]
    with transaction.atomic():
        if extended:
            sql.fetch(
                "results/lock_workunits", {"workunit_ids": [row["workunit_id"] for row in extended]}
            )
        params = {"ids": batch.handled, "lease_until": batch.lease_until, "now": now}
        settled_ids = {row["id"] for row in sql.fetch("settle_trickles", params, PACKAGE)}
        _keep_samples([sample for id_, sample in batch.samples.items() if id_ in settled_ids])
        answered = sorted(settled_ids & batch.answers.keys())
        _apply_answers([batch.answers[id_] for id_ in answered], now=now)
    return settled_ids


def _keep_samples(samples: list[Sample]) -> None:
    progress = trickle_texts.progress(samples)
    if progress:
        fractions = {"ids": list(progress), "fractions": list(progress.values())}
        sql.execute("note_progress", fractions, PACKAGE)
    kept = trickle_texts.thin(sample for sample in samples if sample.readings.anything)
    if kept:
        params = {
            "result_ids": [sample.result_id for sample in kept],
            "ats": [sample.at for sample in kept],
            "fractions": [sample.readings.fraction_done for sample in kept],
            "cpu_times": [sample.readings.cpu_time for sample in kept],
            "elapsed_times": [sample.readings.elapsed_time for sample in kept],
            "memory_bytes": [sample.readings.memory_bytes for sample in kept],
            "gpu_usages": [sample.readings.gpu_usage for sample in kept],
            "every": trickle_texts.SAMPLE_EVERY,
        }
        sql.execute("insert_usage_samples", params, PACKAGE)


def _apply_answers(answers: list[tuple[dict[str, Any], Answer]], *, now: datetime) -> None:
    """Extend deadlines and store replies that the handlers returned."""
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
        pairs = [(id_, text) for id_, texts in replies.items() for text in texts]
        params = {"ids": [id_ for id_, _ in pairs], "texts": [text for _, text in pairs]}
        sql.execute("answer_trickles", {**params, "now": now}, PACKAGE)


def _put_off(batch: _Batch, apps: dict[int, int], *, now: datetime) -> None:
    again: dict[int, datetime | None] = dict.fromkeys(batch.untouched)
    if errors := batch.failures.errors:
        transient = batch.failures.transient
        records = poison.record(poison.Stage.TRICKLE, errors, apps, now=now, transient=transient)
        again |= {id_: now + record.wait for id_, record in records.items()}
        for id_, error in errors.items():
            log.warning("trickle_put_off", extra={"id": id_, "error": error.splitlines()[-1]})
    if again:
        params = {
            "ids": list(again),
            "again_ats": list(again.values()),
            "lease_until": batch.lease_until,
        }
        sql.execute("put_off_trickles", params, PACKAGE)
