"""The work that one RPC assigns to a host, with all that its client needs [pure]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from scheduler.hosts.facts import AppFacts, Candidate, VersionFacts


class InputFile(NamedTuple):
    """An input file of an assigned workunit.

    `urls` has one URL per line if the file is stored elsewhere, else it is empty.
    """

    workunit_id: int
    name: str
    nbytes: int
    md5: str
    open_name: str
    copy_file: bool
    sticky: bool
    urls: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFile:
    """A signed file of an assigned app version."""

    app_version_id: int
    name: str
    nbytes: int
    md5: str
    open_name: str
    main_program: bool
    executable: bool
    copy_file: bool
    signature: str


class AssignedResult(NamedTuple):
    """One result assigned to the host, with the workunit fields that its client needs.

    `outputs` is the workunit's list of output files (see `models.Workunit`).
    """

    result_id: int
    result_name: str
    workunit_id: int
    workunit_name: str
    app_id: int
    app_version_id: int
    flops: float
    report_deadline: datetime
    command_line: str
    outputs: list[dict[str, Any]]
    rsc_fpops_est: float
    rsc_fpops_bound: float
    rsc_memory_bound: float
    rsc_disk_bound: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """An app version as clients need it, with its app's rules.

    An own version (`OwnVersion`) is described by the client itself, and never sent.
    """

    facts: VersionFacts
    app: AppFacts
    api_version: str
    cmdline: str
    file_prefix: str
    dont_throttle: bool = False
    needs_network: bool = False
    is_wrapper: bool = False
    is_own: bool = False


@dataclass(slots=True, kw_only=True)
class Work:
    """The results that a host receives in one RPC, and why it receives no more.

    `refused` counts candidates by reason (`dispatch.rules.fit.Refusal`), `sentences` holds one
    sentence for each reason, `lasting` the refusals that will not pass.  `retry_soon` is set if
    there may be work after all: others had it locked, or more candidates wait than one RPC judges.
    """

    assigned: list[AssignedResult] = field(default_factory=list)
    resent: list[AssignedResult] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    inputs: list[InputFile] = field(default_factory=list)
    versions: dict[int, Version] = field(default_factory=dict)
    version_files: list[VersionFile] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    sentences: dict[str, str] = field(default_factory=dict)
    retry_soon: bool = False
    asked_for_work: bool = False
    apps: Mapping[int, AppFacts] = field(default_factory=dict)
    lasting: list[tuple[Candidate, str, str]] = field(default_factory=list)

    @property
    def sent(self) -> list[AssignedResult]:
        """All results in the reply: resent ones first."""
        return [*self.resent, *self.assigned]

    def primary_reason(self) -> str:
        """Return the sentence of the most frequent refusal; empty if nothing was refused."""
        if not self.refused:
            return ""
        reason, _count = self.refused.most_common(1)[0]
        return self.sentences[reason]
