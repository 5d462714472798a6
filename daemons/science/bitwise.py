"""Results agree when their output files are the same, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The SHA-256 of each output that is compared, by position; None for an optional one left out.
Evidence = tuple[str | None, ...]


def evidence(outputs: Sequence[Mapping[str, Any]], digests: Mapping[int, str]) -> Evidence | None:
    """The digests of a result's outputs; None if a required output is missing.

    An output marked ``no_validate`` must arrive, but its content is not compared.
    """
    compared: list[str | None] = []
    for position, output in enumerate(outputs):
        if position not in digests and not output.get("optional"):
            return None
        if not output.get("no_validate"):
            compared.append(digests.get(position))
    return tuple(compared)


def agree(one: Evidence, other: Evidence) -> bool:
    """Whether all compared outputs are equal."""
    return one == other
