"""Defines the shard that a pass processes and the counts that it returns [pure]."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class BadShard(ValueError):
    """A text is not a valid shard. Hint: write I/N with 1 <= I <= N."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` equal shares of all rows.

    It contains the rows whose id modulo `count` is `index`.
    """

    index: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard for ``I/N``, where I is counted from 1; raises `BadShard`.

        >>> Shard.parse("2/4")
        Shard(index=1, count=4)
        """
        match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text.strip())
        if match is None:
            msg = f"{text!r} is not a shard. Hint: write I/N, such as 2/4 for the second of four."
            raise BadShard(msg)
        number, count = int(match[1]), int(match[2])
        if not 1 <= number <= count:
            msg = (
                f"There is no shard {number} of {count}. "
                f"Hint: the first number goes from 1 to {max(count, 1)}."
            )
            raise BadShard(msg)
        return cls(number - 1, count)

    @property
    def params(self) -> dict[str, int]:
        """Return the parameters with which a statement reads only this shard."""
        return {"shard_count": self.count, "shard_index": self.index}

    def __str__(self) -> str:
        return f"{self.index + 1}/{self.count}"


#: The shard that contains all rows.
WHOLE = Shard()


@dataclass(frozen=True, slots=True)
class Tally:
    """The outcome of one pass.

    `seen` is the number of examined rows, and `noun` the plural noun for these rows.  `counts` maps
    a description of each change to the number of changed rows.  `more` is True if the next pass
    should follow at once.
    """

    noun: str = "workunits"
    seen: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    more: bool = False

    @property
    def changed(self) -> bool:
        """Return whether any count is not zero."""
        return any(self.counts.values())

    @property
    def done(self) -> dict[str, int]:
        """Return the counts that are not zero."""
        return {what: number for what, number in self.counts.items() if number}

    def __add__(self, other: Tally) -> Tally:
        """Add up two passes; `noun` and `more` are those of the second."""
        counts = Counter(self.counts)
        counts.update(other.counts)
        return Tally(other.noun, self.seen + other.seen, dict(counts), other.more)

    def sentence(self) -> str:
        """Return the counts as a line of text without a full stop.

        >>> Tally(seen=412, counts={"replicated": 38, "failed": 0}).sentence()
        '412 workunits: 38 replicated'
        """
        if not self.seen and not self.changed:
            return "nothing to do"
        what = ", ".join(f"{number} {what}" for what, number in self.done.items())
        if not self.seen:
            return what
        noun = self.noun[:-1] if self.seen == 1 and self.noun.endswith("s") else self.noun
        return f"{self.seen} {noun}: {what or 'nothing to change'}"
