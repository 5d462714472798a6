"""Accepts every result that has its required outputs, as the validator `trivial`.

It is used for work whose outputs cannot be compared, such as random searches whose answers are
checked elsewhere, and for broadcast work, in which each host has a different answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemons.science.checking import checked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemons.science.interfaces import Options, ReportedOutput


def check_options(options: Options) -> None:
    """Raise `BadOptions` if there are options, because `trivial` has no options."""
    checked("trivial", options, {})


def prepare(outputs: Sequence[ReportedOutput], _options: Options) -> tuple[()] | None:
    """Return empty evidence, or None if a required output is missing."""
    return None if any(output.is_missed for output in outputs) else ()


def agree(_one: tuple[()], _other: tuple[()]) -> bool:
    """Return True, because all results agree."""
    return True
