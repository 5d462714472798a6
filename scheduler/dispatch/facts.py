"""What a host is handed in one RPC, with all its client must be told [pure]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from scheduler.hosts.facts import AppFacts, Candidate, VersionFacts


class InputFile(NamedTuple):
    """An input file of a workunit that was given out; `urls` if it lies elsewhere, one a line."""

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
    """A signed file of an app version that was given out."""

    app_version_id: int
    name: str
    nbytes: int
    md5: str
    open_name: str
    main_program: bool
    executable: bool
    copy_file: bool
    signature: str


class Given(NamedTuple):
    """One result that the host was given, with what its client must know of the workunit.

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
    """An app version as a client must be told of it, with its app's rules.

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
    """What a host is given in one RPC, and why it is not given more.

    `refused` counts candidates by reason (`dispatch.rules.fit.Refusal`), `sentences` holds one
    sentence for each, `lasting` those refusals that will not pass.  `come_again` says that there
    may be work after all: others held it for the moment, or more candidates wait than one RPC
    judges.
    """

    given: list[Given] = field(default_factory=list)
    resent: list[Given] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    inputs: list[InputFile] = field(default_factory=list)
    versions: dict[int, Version] = field(default_factory=dict)
    version_files: list[VersionFile] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    sentences: dict[str, str] = field(default_factory=dict)
    come_again: bool = False
    asked: bool = False
    apps: Mapping[int, AppFacts] = field(default_factory=dict)
    lasting: list[tuple[Candidate, str, str]] = field(default_factory=list)

    @property
    def sent(self) -> list[Given]:
        """Everything the reply has to carry."""
        return [*self.resent, *self.given]

    def primary_reason(self) -> str:
        """The sentence of the most frequent refusal; empty if nothing was refused."""
        if not self.refused:
            return ""
        reason, _count = self.refused.most_common(1)[0]
        return self.sentences[reason]
