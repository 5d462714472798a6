"""Queries for BOINC's submitters: their batches, workunits and results."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler import sql
from scheduler.lifecycle import Outcome
from scheduler.models import Account, Batch, Result, Workunit

#: BOINC's unit of credit is defined as 1/200 of a day of a computer of 1 GFLOPS.
_CREDIT_PER_OPERATION = 200 / (86_400 * 1e9)

#: The maximum estimated duration: a hundred years, because `datetime` has a limit.
_MAX_DURATION_SECONDS = 100 * 366 * 86_400

State = Batch.State
#: The outcomes of results that a host ran and reported.
_RAN = (Outcome.SUCCESS.value, Outcome.CLIENT_ERROR.value, Outcome.VALIDATE_ERROR.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteBatch:
    """The fields of a batch for BOINC's submitters; the counts include purged workunits."""

    id: int
    name: str
    app_name: str
    state: int
    created_at: datetime
    expire_at: datetime | None
    completed_at: datetime | None
    total: int
    done: int
    failed: int
    credit: float
    fpops: float
    last_finished_at: datetime | None
    cpu_time: float

    @property
    def fraction_done(self) -> float:
        """The share of workunits that are done or failed, which is 0 for an empty batch."""
        return (self.done + self.failed) / self.total if self.total else 0.0

    @property
    def is_done(self) -> bool:
        """Whether all workunits are done or failed; False for an empty batch."""
        return self.total > 0 and self.done + self.failed == self.total

    @property
    def visible_state(self) -> int:
        """The state to report: COMPLETE if `is_done`, even if the stored state is IN_PROGRESS."""
        if self.state == State.IN_PROGRESS and self.is_done:
            return int(State.COMPLETE)
        return self.state

    @property
    def credit_estimate(self) -> float:
        """The credit for computing each workunit once, by its estimated operations."""
        return self.fpops * _CREDIT_PER_OPERATION

    def ended_at(self, now: datetime) -> datetime | None:
        """Return the time when the batch was completed or aborted; None while it is open."""
        if self.visible_state in (State.INIT, State.IN_PROGRESS):
            return None
        return self.completed_at or self.last_finished_at or now

    def expected_at(self, now: datetime) -> datetime | None:
        """Return the expected end, from the fraction done; None if no workunit is over yet."""
        if self.visible_state not in (State.INIT, State.IN_PROGRESS):
            return self.ended_at(now)
        if not self.fraction_done:
            return None
        seconds = (now - self.created_at).total_seconds() / self.fraction_done
        return self.created_at + timedelta(seconds=min(seconds, _MAX_DURATION_SECONDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWorkunit:
    """One workunit of a batch, with the state of its results."""

    id: int
    name: str
    canonical_result_id: int | None
    error_mask: int
    in_progress: bool
    sent: bool
    exit_statuses: list[int]
    cpu_time: float | None


def batches_of(account: Account, *, with_cpu_time: bool) -> list[RemoteBatch]:
    """Return all batches of an account that are not retired, oldest first."""
    return _batches(account, None, with_cpu_time=with_cpu_time)


def batch(account: Account, batch_id: int, *, with_cpu_time: bool) -> RemoteBatch | None:
    """Return one batch of an account; None if the account has no such batch."""
    rows = _batches(account, batch_id, with_cpu_time=with_cpu_time)
    return rows[0] if rows else None


def _batches(account: Account, batch_id: int | None, *, with_cpu_time: bool) -> list[RemoteBatch]:
    params = {"account_id": account.pk, "batch_id": batch_id, "with_cpu_time": with_cpu_time}
    return sql.fetch_into(RemoteBatch, "boinc_submission/submitted_batches", params)


def workunits_of(batch_id: int, *, since: datetime | None = None) -> list[RemoteWorkunit]:
    """Return the workunits of a batch, ordered by id.

    With `since`, workunits that were finished before this time are left out.
    """
    params = {"batch_id": batch_id, "since": since}
    return sql.fetch_into(RemoteWorkunit, "boinc_submission/submitted_workunits", params)


def find_batch(account: Account, *, batch_id: int = 0, name: str = "") -> Batch | None:
    """Return the batch of an account with this number or name, or None."""
    rows = Batch.objects.filter(submitter=account)
    rows = rows.filter(pk=batch_id) if batch_id else rows.filter(name=name)
    return rows.select_related("app").first()


def find_workunit(account: Account, *, workunit_id: int = 0, name: str = "") -> Workunit | None:
    """Return the workunit of an account's batches with this number or name, or None."""
    rows = Workunit.objects.filter(batch__submitter=account)
    rows = rows.filter(pk=workunit_id) if workunit_id else rows.filter(name=name)
    return rows.select_related("app").first()


def results_of(workunit: Workunit) -> list[Result]:
    """Return the results of a workunit, ordered by id, with prefetched `output_files`."""
    return list(workunit.results.order_by("id").prefetch_related("output_files"))


def final_result(workunit: Workunit) -> Result | None:
    """Return the canonical result, or else the last result that ran, or None if none ran."""
    results = workunit.results.order_by("-id")
    if workunit.canonical_result_id is not None:
        return results.filter(pk=workunit.canonical_result_id).first()
    return results.filter(outcome__in=_RAN).first()
