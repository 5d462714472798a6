"""Defines the interfaces of validators and assimilators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scheduler.apps.rules.plugins import BadOptions as BadOptions  # noqa: PLC0414 - for plug-ins

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

E = TypeVar("E")


class TransientScienceError(Exception):
    """Raised for a transient failure of science code, such as an unreachable service.

    The call is retried later.  No result becomes invalid by this.
    """


class Defer(Exception):
    """Returned or raised by an assimilator to be called again later; this is not a failure.

    `until` is a datetime with a time zone, or a timedelta from now.
    """

    def __init__(self, until: datetime | timedelta, reason: str = "") -> None:
        super().__init__(until, reason)
        self.until = until
        self.reason = reason


class BadOutput(Exception):
    """Raised by a validator for an output that does not have the expected format.

    The result becomes VALIDATE_ERROR and gets no credit.
    """


#: The position of a program's standard error, for validators that read it.
STDERR = -1


@dataclass(frozen=True, slots=True)
class ReportedOutput:
    """An output of a result, with its entry in the workunit's list and its uploaded file.

    `sha256` is None if the output was not uploaded.  `path` is readable while `prepare` and `agree`
    run; it is empty for validators that compare digests.  An output marked ``no_validate`` must be
    uploaded, but its content is not compared.  Standard error (`STDERR`) has a `text` and no file.
    """

    position: int
    open_name: str = ""
    path: str = ""
    sha256: str | None = None
    optional: bool = False
    no_validate: bool = False
    text: str = ""

    @property
    def is_missed(self) -> bool:
        """Return whether a required output was not uploaded."""
        return self.sha256 is None and not self.optional


Options = Mapping[str, Any]


class Validator(Protocol[E]):
    """Decides whether two results of a workunit agree.

    A validator may have four more functions.  ``tidy(evidence)`` releases the resources of
    `prepare`; it is called even after an error.  ``check_options(options)`` raises `BadOptions`.
    ``runtime_outlier(evidence) -> bool`` excludes the run time of a valid result from averages.
    ``suspicious(evidence) -> bool`` requires that another result agrees with this one.
    """

    def prepare(self, outputs: Sequence[ReportedOutput], options: Options, /) -> E | None:
        """Return the evidence of a result, or None if a required output is missing.

        Raises `BadOutput` or `TransientScienceError`; any other exception counts as a failure of
        the validator, not of the result.
        """

    def agree(self, first: E, second: E, /) -> bool:
        """Return whether two results agree; this is called once for each pair of evidence."""


@dataclass(frozen=True, slots=True)
class Output:
    """A canonical output file, `file`, which is readable until the assimilator returns."""

    position: int
    open_name: str
    upload_name: str
    file: str

    @property
    def path(self) -> Path:
        """Return the path of the file."""
        return Path(self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assimilation:
    """A finished workunit as it is passed to the assimilator.

    Each workunit is passed at least once.  Its `key` (``<project>/<workunit id>``) never changes,
    so that an assimilator can recognize a repeated call.  A failed workunit has `errors` (names of
    errors), no canonical result and no outputs.  `options` are the app's `assimilator_options`.
    """

    key: str
    workunit_id: int
    workunit_name: str
    app: str
    batch_id: int | None = None
    meta: Any = None
    errors: tuple[str, ...] = ()
    cancel_reason: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    canonical_result_id: int | None = None
    canonical_result_name: str | None = None
    outputs: tuple[Output, ...] = field(default=())

    @property
    def failed(self) -> bool:
        """Return whether the workunit has failed, which means that it has no canonical result."""
        return self.canonical_result_id is None


@dataclass(frozen=True, slots=True)
class Records:
    """The lines that one workunit adds to a part of a dataset (`daemons.science.dataset`).

    `lines` are complete lines with line ends.  Each begins with `mark`, which identifies the
    workunit's lines.  `header` is the part's first line, or empty.
    """

    app: str
    part: str
    workunit_id: int
    mark: bytes
    header: bytes
    lines: tuple[bytes, ...]


if TYPE_CHECKING:
    #: The path of a file in ``var/results`` that is not synced yet, or records for a dataset.
    Written = Path | str | Records


class Assimilator(Protocol):
    """Processes finished workunits.

    Returns the files that it wrote, to be synced before the workunit counts as assimilated, or
    None.  A plug-in's function may also return a dict of names and contents, which the daemon
    writes to ``var/results/<app>/``.  Raises or returns `Defer` to be called again later, and
    raises `TransientScienceError` for a transient failure.  Any other exception is a failure.  If
    the attribute `transactional` is True (for a plug-in: that key in the allow-list), the
    assimilator is called in the transaction that marks the workunit as assimilated, so that its
    writes to the server's database happen exactly once.
    """

    def __call__(self, assimilation: Assimilation, /) -> Iterable[Written] | Defer | None:
        """Process one workunit."""
