"""The shapes that plug-ins of science have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta
    from pathlib import Path

E = TypeVar("E")


class TransientScienceError(Exception):
    """Raised by science code for what may heal: a full disk, a service that is away.

    The work is put off and tried again; nothing is invalidated, and nobody is blamed.
    """


class Defer(Exception):
    """Returned or raised by an assimilator that wants to be asked again later; no failure.

    `until` is a moment with a time zone, or a timedelta from now.
    """

    def __init__(self, until: datetime | timedelta, reason: str = "") -> None:
        super().__init__(until, reason)
        self.until = until
        self.reason = reason


class BadOutput(Exception):
    """Raised by a validator for an output that cannot be read as what it should be.

    It is the result's fault: it gets no credit and is computed again (VALIDATE_ERROR).
    """


class BadOptions(ValueError):
    """Options that a plug-in does not take. Hint: the message names what it knows."""


#: The place of what a program wrote to standard error, for the validators that look into it.
STDERR = -1


@dataclass(frozen=True, slots=True)
class Brought:
    """One output file that a result was to bring: as the workunit lists it, and what arrived.

    `sha256` None says that it did not arrive.  `path` is readable while `prepare` and `agree` run;
    it is empty for validators that judge by digests.  An output marked ``no_validate`` must arrive,
    but its content is not compared.  Standard error (`STDERR`) is no file but has a `text`.
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
        """Whether it had to arrive and did not."""
        return self.sha256 is None and not self.optional


Options = Mapping[str, Any]


class Validator(Protocol[E]):
    """Says whether two results of a workunit agree.

    Four more functions are used where a validator has them: ``tidy(evidence)`` forgets what
    `prepare` made, whatever happened in between; ``check_options(options)`` raises `BadOptions`;
    ``runtime_outlier(evidence) -> bool`` says that a valid result ran so unlike others that its
    times teach nothing; ``suspicious(evidence) -> bool`` that a result is not to be believed alone.
    """

    def prepare(self, outputs: Sequence[Brought], options: Options, /) -> E | None:
        """What is compared of one result; None if a required output is missing.

        Raises `BadOutput` or `TransientScienceError`; whatever else it raises is a fault of the
        science, and of no result.
        """

    def agree(self, one: E, other: E, /) -> bool:
        """Whether two pieces of evidence speak for the same answer; asked once for each two."""


@dataclass(frozen=True, slots=True)
class Output:
    """One canonical output file; `path` is readable until the assimilator returns."""

    position: int
    open_name: str
    upload_name: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Assimilation:
    """A finished workunit as it is handed to the science.

    It is handed over at least once; `key` (``<project>/<workunit id>``) never changes, so that a
    repeat is recognised.  A failed workunit has `errors`, in words, and neither canonical result
    nor outputs.  `options` are the app's `assimilator_options`.
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
        """Whether there is a reason instead of an answer."""
        return self.canonical_result_id is None


@dataclass(frozen=True, slots=True)
class Records:
    """What one workunit adds to a part of a dataset; see `daemons.science.dataset`.

    `lines` are whole lines with their ends, each beginning with `mark`, by which they are found
    again; `header` is the part's first line, or nothing.
    """

    app: str
    part: str
    workunit_id: int
    mark: bytes
    header: bytes
    lines: tuple[bytes, ...]


if TYPE_CHECKING:
    #: A file of ``var/results`` that is not yet on disk for good, or records not yet in a file.
    Written = Path | Records


class Assimilator(Protocol):
    """Does with a finished workunit what the scientist wants.

    Returns the files it wrote, to be synced before the workunit counts as assimilated, or None.
    A plug-in's function may also return a dict of names and contents, which the
    daemon writes to ``var/results/<app>/``.  Raises or returns `Defer` to be called again later,
    raises `TransientScienceError` for what may heal; whatever else it raises is a failure.  One
    with a true attribute `transactional` (a plug-in: with that key in the allow-list) is called
    inside the transaction that settles the workunit: what it writes to our database is written
    exactly once.
    """

    def __call__(self, assimilation: Assimilation, /) -> Iterable[Written] | Defer | None:
        """Take the workunit over."""
