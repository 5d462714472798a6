"""Typed dataclasses for the API's JSON answers."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

Kind = TypeVar("Kind")
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a batch, with the number of workunits in each of six states.

    `rate_per_second` and `seconds_left` are None when they are unknown.
    """

    total: int = 0
    waiting: int = 0
    unsent: int = 0
    in_progress: int = 0
    validating: int = 0
    done: int = 0
    failed: int = 0
    fraction_done: float = 0.0
    rate_per_second: float | None = None
    seconds_left: float | None = None

    @property
    def finished(self) -> int:
        """The number of workunits that are done or failed."""
        return self.done + self.failed

    @property
    def counts(self) -> tuple[int, ...]:
        """The total and the number of workunits in each state.

        These numbers change only if workunits change state; the rate can change at every poll.
        """
        open_counts = (self.waiting, self.unsent, self.in_progress, self.validating)
        return (self.total, *open_counts, self.done, self.failed)

    @property
    def is_complete(self) -> bool:
        """Whether all workunits are done or failed."""
        return self.finished >= self.total


@dataclass(frozen=True, slots=True, kw_only=True)
class LastError:
    """The most recent failed result of a batch."""

    result: str = ""
    exit_status: int = 0
    host: str = ""
    at: datetime | None = None
    stderr_tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A reason why unfinished work makes no progress, and how many workunits it affects."""

    cause: str = ""
    workunits: int = 0
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """The errors of a batch and the reasons for its delays.

    `parked` is the number of workunits whose validation or assimilation stopped after repeated
    failures.  `sentences` describe the last error and the parked workunits.  `waits` are the
    reasons for delays.
    """

    last_error: LastError | None = None
    parked: int = 0
    sentences: tuple[str, ...] = ()
    waits: tuple[Wait, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a batch at one poll.

    `unreachable_since` is the time at which the project stopped answering, or None.
    `has_changed` is True if workunits changed state since the previous snapshot, or if the project
    became unreachable or reachable again.
    """

    progress: Progress
    troubles: Troubles
    unreachable_since: datetime | None = None
    has_changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The number of a batch's results, and their processor time, elapsed time and credit."""

    cpu_seconds: float = 0.0
    elapsed_seconds: float = 0.0
    credit: float = 0.0
    results: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchInfo:
    id: int = 0
    name: str = ""
    app: str = ""
    state: str = ""
    created_at: datetime | None = None
    expire_at: datetime | None = None
    completed_at: datetime | None = None
    est_completion_at: datetime | None = None
    after: int | None = None
    priority: int | None = None
    keep_outputs: bool = False
    meta: Json = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """An output file of a result or of a finished workunit."""

    open_name: str = ""
    nbytes: int = 0
    sha256: str | None = None
    position: int | None = None
    name: str = ""
    member: str = ""
    missing: bool = False
    damaged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkunitInfo:
    """A workunit.

    `status` is `waiting`, `unsent`, `in_progress`, `validating`, `done` or `failed`.
    """

    id: int = 0
    name: str = ""
    app: str = ""
    batch: int | None = None
    status: str = ""
    errors: tuple[str, ...] = ()
    created_at: datetime | None = None
    finished_at: datetime | None = None
    canonical_result: int | None = None
    credit: float | None = None
    hold_code: int | None = None
    command_line: str = ""
    meta: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultInfo:
    """A result, which is one computation of a workunit by one host."""

    id: int = 0
    name: str = ""
    workunit: int | None = None
    host: int | None = None
    state: str = ""
    outcome: str = ""
    validate_state: str = ""
    sent_at: datetime | None = None
    received_at: datetime | None = None
    report_deadline: datetime | None = None
    exit_status: int | None = None
    cpu_seconds: float | None = None
    elapsed_seconds: float | None = None
    credit: float | None = None
    stderr: str = ""
    outputs: tuple[Output, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppInfo:
    """An app with its kind, success rule, number of versions and defaults of its workunits."""

    name: str = ""
    user_friendly_name: str = ""
    kind: str = ""
    success_rule: str = ""
    deprecated: bool = False
    beta: bool = False
    versions: int = 0
    workunit_defaults: Json = field(default_factory=dict)
    output_template: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInfo:
    """A computer.  `max_in_progress` is None if only the project's other limits apply."""

    id: int = 0
    account: int = 0
    name: str = ""
    platform: str = ""
    os_name: str = ""
    os_version: str = ""
    cpu: str = ""
    ncpus: int = 0
    flops: float = 0.0
    memory_nbytes: float = 0.0
    disk_free_nbytes: float = 0.0
    last_contact_at: datetime | None = None
    max_in_progress: int | None = None
    denied: bool = False
    deny_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """A named queue, with its limits and the numbers of its results.

    `max_in_progress` is None if there is no limit.  `unsent` and `in_progress` are None except in a
    list of queues.  The lists of hosts and accounts are None if the account may not see them.
    """

    id: int = 0
    name: str = ""
    app: str | None = None
    max_in_progress: int | None = None
    order: str = ""
    priority_group: int = 0
    disabled_until: datetime | None = None
    max_new_per_claim: int | None = None
    max_new_per_host: int | None = None
    trusted: bool = False
    time_zone: str = "UTC"
    schedule: list[Json] = field(default_factory=list)
    allowed_hosts: list[int] | None = None
    denied_hosts: list[int] | None = None
    allowed_accounts: list[int] | None = None
    denied_accounts: list[int] | None = None
    unsent: int | None = None
    in_progress: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceInfo:
    """The maximum number of results in progress that the named queues share, by group.

    `max_tasks` maps times of the week, such as `* 07:00`, to the maximum from this time on.
    """

    queues: list[list[str]] = field(default_factory=list)
    max_tasks: dict[str, int] = field(default_factory=dict)
    time_zone: str = "UTC"
    disabled_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleInfo:
    """A task list: workunits that one host gets as a unit; `label` is its name in TDF2.

    `workunits` (with `name` and `phase`) and `lease_until` are empty in a list of task lists.
    """

    id: int = 0
    batch: int = 0
    state: str = ""
    label: str = ""
    is_ready: bool = False
    priority: int = 0
    host: int | None = None
    claims: int = 0
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    lease_until: datetime | None = None
    workunits: list[Json] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppVersionInfo:
    """A published version of an app for one platform."""

    id: int = 0
    app: str = ""
    version: str = ""
    platform: str = ""
    plan_class: str = ""
    deprecated: bool = False
    beta: bool = False
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """A finished workunit and its outputs, as a line of ``MANIFEST.ndjson`` describes them."""

    id: int = 0
    name: str = ""
    status: str = ""
    errors: tuple[str, ...] = ()
    meta: Json = field(default_factory=dict)
    outputs: tuple[Output, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySummary:
    """The outcome of a retry, in numbers of workunits.

    `count` is the number of workunits that were submitted again.  The other fields are numbers of
    failed workunits that were not submitted again: because they were cancelled, because their
    inputs were deleted (`inputs_gone`), because they were retried before (`names_taken`), or
    because their queue does not accept them any more (`refused_by_queue`).
    """

    count: int = 0
    cancelled: int = 0
    inputs_gone: int = 0
    names_taken: int = 0
    refused_by_queue: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionSummary:
    """The batch of a submission and the workunits that the submission created."""

    batch_id: int
    batch_name: str
    count: int
    first_name: str = ""
    last_name: str = ""
    warnings: tuple[str, ...] = ()
    #: The number of workunits that the batch had before the first request; 0 for a new batch.
    workunits_before: int = 0


def read(kind: type[Kind], data: object) -> Kind:
    """Convert a JSON object to a dataclass of this module.

    A missing or null value is replaced by the default of its field.  Keys without a field are
    ignored.

    >>> read(Progress, {"total": 3, "done": 3, "news": 1}).is_complete
    True
    """
    source = data if isinstance(data, Mapping) else {}
    hints = _hints(kind)  # type: ignore[arg-type]  # every class can be hashed
    values: dict[str, Any] = {}
    for item in fields(kind):  # type: ignore[arg-type]  # always a dataclass
        value = source.get(item.name)
        if value is None and (item.default is not MISSING or item.default_factory is not MISSING):
            continue
        values[item.name] = _convert(hints[item.name], value)
    return kind(**values)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _convert(hint: Any, value: Any) -> Any:  # noqa: ANN401  any JSON
    if isinstance(hint, types.UnionType):
        hint = next(option for option in typing.get_args(hint) if option is not type(None))
    if hint is datetime:
        return datetime.fromisoformat(value)
    if is_dataclass(hint) and isinstance(hint, type):
        return read(hint, value)
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return tuple(_convert(inner, item) for item in value)
    if hint is str and isinstance(value, Mapping):
        return str(value.get("name", value))
    if hint is int and isinstance(value, Mapping):
        return value.get("id")
    return value
