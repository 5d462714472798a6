"""Reads from docs/lineage.md the code, tests and switches that each row names.

A row of a list below a table names code and tests in code spans, then its switches, each after the
word `switch:`.  A row that is a choice of technology, a name or a picture has instead `no rule:`
and the reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "lineage.md"

_NUMBER = r"B\d+[ab]?|(?:T2|T|E|D)-\d+"
_TABLE_ROW = re.compile(rf"^\| ({_NUMBER}) \| (.*) \|$", re.MULTILINE)
_LIST_ROW = re.compile(rf"^- \*\*({_NUMBER})\*\* (.*(?:\n  .*)*)", re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")
_SWITCH = "switch: "
_NO_RULE = "no rule: "


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a list: `reason` is empty for a rule, the other fields are empty for no rule."""

    number: str
    code: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    reason: str = ""

    @property
    def seed(self) -> str:
        """Return the letters of the number: B, T2, T, E or D."""
        return self.number.split("-")[0] if "-" in self.number else self.number[0]


def table_rows(page: str) -> list[tuple[str, list[str]]]:
    """Return the rows of the tables: the number and the other cells."""
    return [
        (number, [cell.strip() for cell in cells.split(" | ")])
        for number, cells in _TABLE_ROW.findall(page)
    ]


def read_rows(page: str | None = None) -> list[Row]:
    """Return the rows of the lists, in the order of the page."""
    text = PAGE.read_text() if page is None else page
    return [_row(number, " ".join(rest.split())) for number, rest in _LIST_ROW.findall(text)]


def _row(number: str, rest: str) -> Row:
    if rest.startswith(_NO_RULE):
        return Row(number, reason=rest.removeprefix(_NO_RULE))
    references, *switches = rest.split(_SWITCH)
    names = _SPAN.findall(references)
    return Row(
        number,
        code=tuple(name for name in names if "::" not in name),
        tests=tuple(name for name in names if "::" in name),
        switches=tuple(switch.strip() for switch in switches),
    )
