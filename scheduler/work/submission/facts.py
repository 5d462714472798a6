"""Descriptions of workunits and batches to be created [pure]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

from scheduler.work.rules.dependency_graphs import WorkunitReference
from scheduler.work.rules.statuses import DEFAULT_HOLD_CODE

#: BOINC's defaults; they are raised to `target_nresults` if that is larger.
DEFAULT_MAX_ERROR_RESULTS = 3
DEFAULT_MAX_TOTAL_RESULTS = 10
DEFAULT_MAX_SUCCESS_RESULTS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """An input file, with exactly one source: `content`, `path`, `known_as` or `sha256`.

    `open_name` is the name that the program opens.  `path` is the path of a file on the server.
    `known_as` is the physical name of a file that the server has.  `sha256` is the digest of such a
    file, in lower-case hexadecimal digits.  With `no_delete`, the file is not deleted with its
    workunits.
    """

    open_name: str
    content: bytes | None = None
    path: str | None = None
    known_as: str | None = None
    sha256: str | None = None
    copy_file: bool = False
    sticky: bool = False
    no_delete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOutput:
    """An output file that every result uploads, with a maximum size of `max_nbytes` bytes.

    With `optional`, a result may lack the file.  With `no_delete`, the uploaded file is never
    deleted.  With `gzip_when_done`, hosts compress the file before the upload, and the server
    stores it compressed.  With `report_immediately`, hosts report as soon as all uploads are
    complete.
    """

    open_name: str
    max_nbytes: int = 100_000_000
    optional: bool = False
    copy_file: bool = False
    sticky: bool = False
    no_validate: bool = False
    no_delete: bool = False
    gzip_when_done: bool = False
    report_immediately: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the entry of ``workunit.outputs``, without the flags that are false."""
        entry: dict[str, Any] = {"open_name": self.open_name, "max_nbytes": self.max_nbytes}
        return entry | {flag: True for flag in _OUTPUT_FLAGS if getattr(self, flag)}


_OUTPUT_FLAGS = tuple(field.name for field in fields(NewOutput) if field.default is False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorkunit:
    """A workunit to be created; numbers have BOINC's meaning and defaults (PROTOCOL 7.1).

    The units are floating-point operations for `rsc_fpops_*`, bytes for `rsc_memory_bound` and
    `rsc_disk_bound`, and bytes per second for `rsc_bandwidth_bound`.  If `target_nresults`,
    `max_total_results` or `max_success_results` is None, it depends on `min_quorum`.  If `name`
    is None, a name is generated.  With `held`, no results are sent until the workunit is released.
    A negative `hold_code` does the same, and is stored with the workunit while it is held.
    `after` has the names or ids of workunits of the same submitter, which must have an answer
    before this workunit is released; it fails if one of them fails.  `continuations` has those that
    wait for this one.  A `group` has no command and no results: it is complete when the workunits
    in `after` have answers, and has only a name, dependencies and meta.  `pending_dependency_count`
    must be 0: the server counts dependencies.

    If `priority` is None, the priority of the batch applies.  If that is None as well, the priority
    is 0 or, with fair share, is computed from the submitter's share.  `keywords` are BOINC's
    keyword ids, separated by commas.  An `app_version_num` of 0 allows every version of the app,
    and a `size_class` of -1 allows every host.  At most one of the `target_*` ids restricts the
    workunit to a host, an account or a team.  With `broadcast`, every host that can run the
    workunit gets a result, until `end_before`.  `queue` is the name of a queue.
    `max_termination_time` is the time that a cancelled program gets to end after SIGTERM; None
    means the app's.

    The workunits of a submission with one `bundle` label are a task list: one host gets all of them
    and runs them in order.  `expected_duration` is the run time on which the list's lease is based.

    `requested_cpus` and `requested_gpus` are the CPUs and GPUs that each result uses; 0 means those
    of its app version.  With `start_offset_seconds`, a random delay of at most that many seconds,
    in whole milliseconds, is added to `start_after`, which is the time of submission by default.
    """

    name: str | None = None
    command_line: str = ""
    input_files: tuple[NewFile, ...] = ()
    outputs: tuple[NewOutput, ...] = ()

    rsc_fpops_est: float = 3.6e12
    rsc_fpops_bound: float = 8.64e13
    rsc_memory_bound: float = 5e8
    rsc_disk_bound: float = 1e9
    rsc_bandwidth_bound: float = 0.0
    requested_cpus: float = 0.0
    requested_gpus: float = 0.0
    delay_bound: timedelta = timedelta(days=7)
    expected_duration: timedelta | None = None
    max_termination_time: timedelta | None = None
    min_quorum: int = 1
    target_nresults: int | None = None
    max_error_results: int = DEFAULT_MAX_ERROR_RESULTS
    max_total_results: int | None = None
    max_success_results: int | None = None
    max_timeouts: int | None = None
    priority: int | None = None
    size_class: int = -1
    app_version_num: int = 0
    keywords: str = ""
    target_host: int | None = None
    target_account: int | None = None
    target_team: int | None = None
    broadcast: bool = False
    queue: str | None = None

    start_after: datetime | None = None
    start_before: datetime | None = None
    end_before: datetime | None = None
    start_offset_seconds: float = 0.0
    held: bool = False
    hold_code: int | None = None
    group: bool = False
    after: tuple[WorkunitReference, ...] = ()
    continuations: tuple[WorkunitReference, ...] = ()
    pending_dependency_count: int = 0
    bundle: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hold(self) -> int | None:
        """The code with which the workunit is held at first, or None if it is not held."""
        if self.hold_code is None and self.held:
            return DEFAULT_HOLD_CODE
        return self.hold_code

    @property
    def target(self) -> int:
        """The number of results created at first: `target_nresults`, by default `min_quorum`."""
        return self.min_quorum if self.target_nresults is None else self.target_nresults

    @property
    def total(self) -> int:
        """The maximum number of results."""
        if self.max_total_results is None:
            return max(DEFAULT_MAX_TOTAL_RESULTS, self.target)
        return self.max_total_results

    @property
    def successes(self) -> int:
        """The maximum number of successes that are compared without a canonical result."""
        if self.max_success_results is None:
            return max(DEFAULT_MAX_SUCCESS_RESULTS, self.target)
        return self.max_success_results

    @property
    def operations(self) -> float:
        """The estimated floating-point operations of all results created at first."""
        return self.rsc_fpops_est * self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """A batch to create, or to extend if the submitter already has a batch of this name.

    If `name` is None, a name is generated.  `after` is the id of a predecessor: the workunits of
    this batch wait until the predecessor is over, and fail if workunits of the predecessor failed.
    With `after_any`, they start even then.  `priority` applies to workunits without a priority.
    With `keep_outputs`, outputs and rows of finished workunits are kept until the batch is retired.
    With `bundle_size` or `bundle_duration`, the workunits are sent in task lists of at most that
    many workunits, and of at most that expected run time.
    """

    name: str | None = None
    after: int | None = None
    after_any: bool = False
    expire_at: datetime | None = None
    priority: int | None = None
    accelerate_tail: bool = False
    keep_outputs: bool = False
    bundle_size: int | None = None
    bundle_duration: timedelta | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppRules:
    """The settings of an app that constrain workunits submitted to it."""

    name: str
    kind: str = "native"
    validator: str = "bitwise"
    one_result_per: str = "account"
    target_nresults: int = 1
    n_size_classes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTarget:
    """A queue that workunits name; `app` is the only app whose work it accepts, or None."""

    id: int
    name: str
    app: str | None = None
    trusted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressees:
    """The ids of the existing hosts, accounts and teams among the targets of workunits.

    `merged_hosts` maps the id of a merged host to the id of the host that replaced it, and the id
    of a deleted host to itself.
    `denied_hosts` are hosts that get no work.
    """

    hosts: frozenset[int] = frozenset()
    merged_hosts: Mapping[int, int] = field(default_factory=dict)
    denied_hosts: frozenset[int] = frozenset()
    accounts: frozenset[int] = frozenset()
    teams: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class NewEdges:
    """The edges of a workunit: the workunits for which it waits, and those that wait for it."""

    workunit_id: int
    after: Sequence[WorkunitReference]
    continuations: Sequence[WorkunitReference]

    def edges(self) -> Iterable[tuple[WorkunitReference, WorkunitReference]]:
        """Yield the edges as pairs of the parent and the child."""
        for parent in self.after:
            yield parent, self.workunit_id
        for child in self.continuations:
            yield self.workunit_id, child
