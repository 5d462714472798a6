"""The validator `bitwise`: results agree if their output files are identical."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemons.science.checking import checked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemons.science.interfaces import Options, ReportedOutput

#: The SHA-256 of each compared output, in order of positions; None for a missing optional output.
Evidence = tuple[str | None, ...]


def check_options(options: Options) -> None:
    """Raise `BadOptions` if there are options, because `bitwise` has no options."""
    checked("bitwise", options, {})


def prepare(outputs: Sequence[ReportedOutput], _options: Options) -> Evidence | None:
    """Return the digests of the compared outputs, or None if a required output is missing."""
    if any(output.is_missed for output in outputs):
        return None
    return tuple(output.sha256 for output in outputs if not output.no_validate)


def agree(first: Evidence, second: Evidence) -> bool:
    """Return whether all compared outputs are equal."""
    return first == second
