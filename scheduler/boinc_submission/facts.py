"""The files and numbers of a workunit in BOINC's templates.

This module uses no database, files or clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.work.submission.facts import NewOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateInput:
    """One input file: a ``<file_info>`` and the ``<file_ref>`` at the same position.

    A file with a `physical_name` is constant: submissions do not name it.  Hosts download a file
    with `urls`, `md5` and `nbytes` from another server; the name in the submission is appended to
    each URL.  If `open_name` is None, the program opens the file by its physical name.
    """

    open_name: str | None = None
    physical_name: str | None = None
    urls: tuple[str, ...] = ()
    md5: str = ""
    nbytes: int = 0
    copy_file: bool = False
    sticky: bool = False
    no_delete: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether the file is the same for all workunits, so that submissions do not name it."""
        return self.physical_name is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTemplate:
    """The input files, command line, queue and numbers of an input template.

    `numbers` has the names of `NewWorkunit`'s fields; `delay_bound` is in seconds.  `queue` is the
    name of a queue, or None.
    """

    inputs: tuple[TemplateInput, ...] = ()
    command_line: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    queue: str | None = None

    @property
    def wanted(self) -> int:
        """The number of files that a submission must name for each workunit."""
        return sum(not each.is_constant for each in self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTemplate:
    """The output files of an output template, and whether clients report results at once."""

    outputs: tuple[NewOutput, ...] = ()
    report_immediately: bool = False
