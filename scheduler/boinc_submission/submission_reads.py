"""Reads what BOINC's submitters ask of their batches, workunits and results."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler import sql
from scheduler.lifecycle import Outcome
from scheduler.models import Account, Batch, Result, Workunit

#: Credit for a day of a computer of 1 GFLOPS, by the definition of BOINC's unit.
_CREDIT_PER_OPERATION = 200 / (86_400 * 1e9)

#: No batch is expected later than a hundred years from its beginning: calendars end.
_FARTHEST_SECONDS = 100 * 366 * 86_400

State = Batch.State
#: What a host computed to an end, whatever that was.
_RAN = (Outcome.SUCCESS.value, Outcome.CLIENT_ERROR.value, Outcome.VALIDATE_ERROR.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteBatch:
    """One batch as BOINC's submitters see it; purged workunits are among the counts."""

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
        """Which part of its workunits has an answer or a reason why not; 0 of none."""
        return (self.done + self.failed) / self.total if self.total else 0.0

    @property
    def is_done(self) -> bool:
        """Whether every workunit is, of at least one."""
        return self.total > 0 and self.done + self.failed == self.total

    @property
    def said_state(self) -> int:
        """Its state; complete from the moment at which the last workunit has what it gets."""
        if self.state == State.IN_PROGRESS and self.is_done:
            return int(State.COMPLETE)
        return self.state

    @property
    def credit_estimate(self) -> float:
        """What computing everything once is worth, by its estimate."""
        return self.fpops * _CREDIT_PER_OPERATION

    def ended_at(self, now: datetime) -> datetime | None:
        """When it was complete or given up; None while it is not."""
        if self.said_state in (State.INIT, State.IN_PROGRESS):
            return None
        return self.completed_at or self.last_finished_at or now

    def expected_at(self, now: datetime) -> datetime | None:
        """When it will be complete if it goes on as it did; None if nobody can say."""
        if self.said_state not in (State.INIT, State.IN_PROGRESS):
            return self.ended_at(now)
        if not self.fraction_done:
            return None
        seconds = (now - self.created_at).total_seconds() / self.fraction_done
        return self.created_at + timedelta(seconds=min(seconds, _FARTHEST_SECONDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWorkunit:
    """One workunit of a batch, and what its results say of it."""

    id: int
    name: str
    canonical_result_id: int | None
    error_mask: int
    in_progress: bool
    sent: bool
    exit_statuses: list[int]
    cpu_time: float | None


def batches_of(account: Account, *, with_cpu_time: bool) -> list[RemoteBatch]:
    """All batches of an account that are not retired, the oldest first."""
    return _batches(account, None, with_cpu_time=with_cpu_time)


def batch(account: Account, batch_id: int, *, with_cpu_time: bool) -> RemoteBatch | None:
    """One batch of an account; None if it has no such."""
    found = _batches(account, batch_id, with_cpu_time=with_cpu_time)
    return found[0] if found else None


def _batches(account: Account, batch_id: int | None, *, with_cpu_time: bool) -> list[RemoteBatch]:
    params = {"account_id": account.pk, "batch_id": batch_id, "with_cpu_time": with_cpu_time}
    return sql.fetch_into(RemoteBatch, "boinc_submission/submitted_batches", params)


def workunits_of(batch_id: int, *, since: datetime | None = None) -> list[RemoteWorkunit]:
    """The workunits of a batch by id; without those that were handed on until then."""
    params = {"batch_id": batch_id, "since": since}
    return sql.fetch_into(RemoteWorkunit, "boinc_submission/submitted_workunits", params)


def find_batch(account: Account, *, batch_id: int = 0, name: str = "") -> Batch | None:
    """A batch of an account, by number or by name; None if it has no such."""
    found = Batch.objects.filter(submitter=account)
    found = found.filter(pk=batch_id) if batch_id else found.filter(name=name)
    return found.select_related("app").first()


def find_workunit(account: Account, *, workunit_id: int = 0, name: str = "") -> Workunit | None:
    """A workunit of a batch of an account's, by number or by name; None if it has no such."""
    found = Workunit.objects.filter(batch__submitter=account)
    found = found.filter(pk=workunit_id) if workunit_id else found.filter(name=name)
    return found.select_related("app").first()


def results_of(workunit: Workunit) -> list[Result]:
    """The results of a workunit by id, each with its `output_files`: two statements."""
    return list(workunit.results.order_by("id").prefetch_related("output_files"))


def telling_result(workunit: Workunit) -> Result | None:
    """The result that says how a workunit went: the canonical one, or the last that ran."""
    results = workunit.results.order_by("-id")
    if workunit.canonical_result_id is not None:
        return results.filter(pk=workunit.canonical_result_id).first()
    return results.filter(outcome__in=_RAN).first()
