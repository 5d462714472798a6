"""Makes, merges and carries over the findings of checks, of bounded size [pure].

A finding of a run stays open until a later run checks the same invariant, or the same sums,
completely.  A run that checks less, such as one without the files, carries over the findings of
earlier runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Final, Self

#: The maximum number of rows of a finding: as many as `manage.py fsck` prints.
MAX_ROWS: Final = 20
#: The maximum length of each text: with all invariants violated, a run takes less than 1 MB.
MAX_LENGTH: Final = 500
#: E-mail addresses are not stored, because they would outlive the erasure of the account.
_EMAIL: Final = re.compile(r"[^\s@,]+@[^\s@,]+")


@dataclass(frozen=True, slots=True)
class Finding:
    """A violated invariant: the number of its violations, and the first of them.

    `rows` has the name and a description of each of the first violations.
    """

    name: str
    sentence: str
    hint: str
    count: int
    rows: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls,
        name: str,
        sentence: str,
        rows: Iterable[tuple[str | None, str | None]],
        *,
        count: int,
        hint: str = "",
        max_rows: int = MAX_ROWS,
    ) -> Self:
        """Return a finding with at most `max_rows` rows, whose texts can be stored."""
        kept_rows = (
            (cleaned(row or ""), cleaned(_EMAIL.sub("(address)", detail or "")))
            for row, detail in islice(rows, max_rows)
        )
        return cls(name, sentence, hint, count, tuple(kept_rows))

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return a finding from its stored form."""
        rows = tuple((str(name), str(detail)) for name, detail in stored["rows"])
        return cls(**{**stored, "rows": rows})

    def as_json(self) -> dict[str, Any]:
        """Return the form in which the finding is stored."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Unchecked:
    """A part of a run that was not checked, or not completely, with the first reason.

    `count` is the number of invariants or sums that were not checked.
    """

    name: str
    sentence: str
    reason: str
    count: int = 1


def cleaned(text: str) -> str:
    """Return a text without characters that JSON in the database cannot have, and shortened."""
    plain = text.replace("\0", "").encode("utf-8", "replace").decode()
    return plain if len(plain) <= MAX_LENGTH else f"{plain[: MAX_LENGTH - 1]}…"


def merged(findings: Sequence[Finding], new: Finding, *, max_rows: int) -> list[Finding]:
    """Return the findings with `new`, which is added to a finding of the same name, if any."""
    for place, old in enumerate(findings):
        if old.name == new.name:
            rows = (*old.rows, *new.rows)[:max_rows]
            both = Finding(old.name, old.sentence, old.hint, old.count + new.count, rows)
            return [*findings[:place], both, *findings[place + 1 :]]
    return [*findings, new]


def merged_unchecked(parts: Sequence[Unchecked], new: Unchecked) -> list[Unchecked]:
    """Return the unchecked parts with a new one, which is added to that of the same name."""
    for place, old in enumerate(parts):
        if old.name == new.name:
            both = Unchecked(old.name, old.sentence, old.reason, old.count + new.count)
            return [*parts[:place], both, *parts[place + 1 :]]
    return [*parts, new]


def still_open(findings: Iterable[Finding], carried: Iterable[Finding]) -> list[Finding]:
    """Return what is open after a run: its findings, and those that it carried over.

    Of two findings of one name, the one with more violations is returned: a run that is limited to
    an app does not see all of them.
    """
    by_name: dict[str, Finding] = {}
    for finding in (*findings, *carried):
        known_finding = by_name.get(finding.name)
        if known_finding is None or known_finding.count < finding.count:
            by_name[finding.name] = finding
    return list(by_name.values())


def not_checked_again(findings: Iterable[Finding], names: Collection[str]) -> list[Finding]:
    """Return the findings of earlier runs that a complete check of `names` does not settle."""
    return [finding for finding in findings if finding.name not in names]
