"""Descriptions of workunits and batches to be created [pure]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

#: BOINC's defaults; they are raised to `target_nresults` if that is larger.
DEFAULT_MAX_ERROR_RESULTS = 3
DEFAULT_MAX_TOTAL_RESULTS = 10
DEFAULT_MAX_SUCCESS_RESULTS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """One input file, with exactly one source: `content`, `path`, `known_as` or `sha256`.

    `open_name` is the name that the program opens.  `path` is read on the server.  `known_as` is a
    physical name that an earlier submission returned; `sha256` is the digest of content that the
    server has, in lower-case hexadecimal digits.  With `no_delete`, the file is not deleted with
    its workunits.
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
    """One output file that every result must upload, of at most `max_nbytes` bytes.

    `no_delete` keeps the uploaded file forever.  With `gzip_when_done`, hosts compress the file
    before the upload, and the server stores it compressed.  With `report_immediately`, hosts report
    as soon as all uploads are complete.
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
        """Return the entry of ``workunit.outputs``; flags that are off are left out."""
        entry: dict[str, Any] = {"open_name": self.open_name, "max_nbytes": self.max_nbytes}
        return entry | {flag: True for flag in _OUTPUT_FLAGS if getattr(self, flag)}


_OUTPUT_FLAGS = tuple(field.name for field in fields(NewOutput) if field.default is False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorkunit:
    """One workunit to be created; numbers have BOINC's meaning and defaults (PROTOCOL 7.1).

    `rsc_fpops_*` are floating-point operations, `rsc_memory_bound` and `rsc_disk_bound` bytes,
    `rsc_bandwidth_bound` bytes per second.  Numbers that are None follow `min_quorum`.  If `name`
    is None, a name is generated.  With `held`, no results are sent until the workunit is released.
    `pending_dependency_count` must be 0: only `NewBatch.after` makes workunits wait.

    `priority` None means 0, or the submitter's fair share if the project uses fair share.
    `keywords` are BOINC's keyword ids, separated by commas.  `app_version_num` 0 accepts any
    version; `size_class` -1 any host.  At most one of the `target_*` ids restricts the workunit to
    a host, an account or a team.  With `broadcast`, every host that can run the workunit gets a
    result, until `end_before`.
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
    delay_bound: timedelta = timedelta(days=7)
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

    start_after: datetime | None = None
    start_before: datetime | None = None
    end_before: datetime | None = None
    held: bool = False
    pending_dependency_count: int = 0
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def target(self) -> int:
        """Number of results created at first: `target_nresults`, by default `min_quorum`."""
        return self.min_quorum if self.target_nresults is None else self.target_nresults

    @property
    def total(self) -> int:
        """Maximum number of results."""
        if self.max_total_results is None:
            return max(DEFAULT_MAX_TOTAL_RESULTS, self.target)
        return self.max_total_results

    @property
    def successes(self) -> int:
        """Maximum number of compared successes without sufficient agreement."""
        if self.max_success_results is None:
            return max(DEFAULT_MAX_SUCCESS_RESULTS, self.target)
        return self.max_success_results

    @property
    def operations(self) -> float:
        """Estimated floating-point operations of the results created at first, in total."""
        return self.rsc_fpops_est * self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """A batch to create, or to extend if the submitter already has a batch of this name.

    If `name` is None, a name is generated.  `after` is the id of the batch that must be complete
    before this one starts; its workunits must not have failed, unless `after_any`.  `priority`
    applies to workunits without one.  With `keep_outputs`, outputs and rows stay until the batch is
    retired.
    """

    name: str | None = None
    after: int | None = None
    after_any: bool = False
    expire_at: datetime | None = None
    priority: int | None = None
    accelerate_tail: bool = False
    keep_outputs: bool = False
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
class Addressees:
    """The existing hosts, accounts and teams among the targets of workunits.

    `merged_hosts` maps a merged host to the host that replaced it; `denied_hosts` get no work.
    """

    hosts: frozenset[int] = frozenset()
    merged_hosts: Mapping[int, int] = field(default_factory=dict)
    denied_hosts: frozenset[int] = frozenset()
    accounts: frozenset[int] = frozenset()
    teams: frozenset[int] = frozenset()
