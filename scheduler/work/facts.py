"""Facts about the attempts at a workunit, for its history [pure]."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime


class UsageFacts(NamedTuple):
    """One usage sample of a result: times in seconds, fractions from 0 to 1, None if unknown.

    `cpu_utilization` is the number of CPUs in use, if the host reported it.
    """

    at: datetime
    fraction_done: float | None = None
    cpu_time: float | None = None
    elapsed_time: float | None = None
    memory_bytes: float | None = None
    gpu_usage: float | None = None
    cpu_utilization: float | None = None


class OutputFacts(NamedTuple):
    """An uploaded output file of a result."""

    position: int
    name: str
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A result of a workunit with what its host reported; states are codes of `lifecycle`.

    `samples` has its usage samples, oldest first, `outputs` its uploaded files in their order.
    """

    id: int
    name: str
    attempt: int
    server_state: int
    outcome: int
    validate_state: int
    exit_status: int
    host_id: int | None
    created_at: datetime
    sent_at: datetime | None
    acknowledged_at: datetime | None
    report_deadline: datetime | None
    received_at: datetime | None
    fraction_done: float
    cpu_time: float
    elapsed_time: float
    peak_working_set_bytes: float
    app_status: int | None = None
    stderr: str = ""
    samples: tuple[UsageFacts, ...] = ()
    outputs: tuple[OutputFacts, ...] = field(default=())


class MoveFacts(NamedTuple):
    """A move of the ledger: its time, its result (None for the workunit), axis and target."""

    at: datetime
    result_id: int | None
    axis: int
    target: int
