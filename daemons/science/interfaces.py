"""The shapes that plug-ins of science have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

E = TypeVar("E")

if TYPE_CHECKING:
    #: A file of ``var/results`` that is not yet on disk for good.
    Written = Path


class TransientScienceError(Exception):
    """Raised by science code for what may heal: a full disk, a service that is away.

    The work is put off and tried again; nothing is invalidated, and nobody is blamed.
    """


class Validator(Protocol[E]):
    """Says whether two results of a workunit agree.

    `outputs` is the workunit's list of expected files; `digests` holds the SHA-256 of each that
    arrived, by its position in that list.
    """

    def evidence(
        self, outputs: Sequence[Mapping[str, Any]], digests: Mapping[int, str]
    ) -> E | None:
        """What is compared of one result; None if a required output is missing."""

    def agree(self, one: E, other: E) -> bool:
        """Whether two pieces of evidence speak for the same answer."""


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
    nor outputs.
    """

    key: str
    workunit_id: int
    workunit_name: str
    app: str
    batch_id: int | None = None
    meta: Any = None
    errors: tuple[str, ...] = ()
    cancel_reason: str = ""
    canonical_result_id: int | None = None
    canonical_result_name: str | None = None
    outputs: tuple[Output, ...] = field(default=())

    @property
    def failed(self) -> bool:
        """Whether there is a reason instead of an answer."""
        return self.canonical_result_id is None


class Assimilator(Protocol):
    """Does with a finished workunit what the scientist wants.

    Returns the files it wrote through `scheduler.storage`, to be synced before the workunit counts
    as assimilated; None if there are none.  Whatever it raises puts the workunit off.  With a true
    attribute `transactional` it is called inside the transaction that settles the workunit: what it
    writes to our database is then written exactly once.
    """

    def __call__(self, assimilation: Assimilation, /) -> Iterable[Path] | None:
        """Take the workunit over."""
