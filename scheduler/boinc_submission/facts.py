"""What BOINC's templates say of a workunit's files and numbers [pure]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateInput:
    """One input file: a ``<file_info>`` and the ``<file_ref>`` at the same place.

    With `physical_name` it is a constant file, which no submission names.  With `urls`, `md5` and
    `nbytes` hosts fetch it elsewhere: the name that the submission gives is put behind each URL.
    An `open_name` of None means that the program opens the file by its own name.
    """

    open_name: str | None = None
    physical_name: str | None = None
    urls: tuple[str, ...] = ()
    md5: str = ""
    nbytes: int = 0
    copy_file: bool = False
    sticky: bool = False
    no_delete: bool = False
    gzip: bool = False
    line: int = field(default=0, compare=False)

    @property
    def is_constant(self) -> bool:
        """Whether it takes none of the files that a submission names."""
        return self.physical_name is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTemplate:
    """What all workunits of one kind read, and their numbers as far as the template says them.

    `numbers` has `NewWorkunit`'s names; `delay_bound` is in seconds.
    """

    inputs: tuple[TemplateInput, ...] = ()
    command_line: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def wanted(self) -> int:
        """How many files a submission must name for each workunit."""
        return sum(not each.is_constant for each in self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateOutput:
    """One output file: a ``<file_ref>`` of the result and the ``<file_info>`` that it names."""

    open_name: str
    max_nbytes: int
    copy_file: bool = False
    optional: bool = False
    no_validate: bool = False
    sticky: bool = False
    no_delete: bool = False
    gzip_when_done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTemplate:
    """What every result of one kind brings."""

    outputs: tuple[TemplateOutput, ...] = ()
    report_immediately: bool = False
    warnings: tuple[str, ...] = field(default=(), compare=False)
