"""What a pass is asked to look at, and what it did, as numbers [pure]."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class BadShard(ValueError):
    """A shard that names no share of the work. Hint: write it as I/N with 1 <= I <= N."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` equal shares of all workunits: those whose id modulo `count` is `index`."""

    index: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``I/N``, counted from 1; raises `BadShard`.

        >>> Shard.parse("2/4")
        Shard(index=1, count=4)
        """
        match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text.strip())
        if match is None:
            msg = (
                f"{text!r} is no shard. Hint: write it as I/N, such as 2/4 for the second of four."
            )
            raise BadShard(msg)
        number, count = int(match[1]), int(match[2])
        if not 1 <= number <= count:
            msg = (
                f"There is no shard {number} of {count}. "
                f"Hint: the first number goes from 1 to {max(count, 1)}."
            )
            raise BadShard(msg)
        return cls(number - 1, count)

    def __str__(self) -> str:
        """Write it as it is read."""
        return f"{self.index + 1}/{self.count}"


#: All workunits.
WHOLE = Shard()


@dataclass(frozen=True, slots=True)
class Tally:
    """What one pass did.

    `seen` rows were looked at; `counts` says what was done to how many, in words; `more` says that
    the batch was full, so that looking again at once is worth while.
    """

    noun: str = "workunits"
    seen: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    more: bool = False

    @property
    def changed(self) -> bool:
        """Whether the pass did anything."""
        return any(self.counts.values())

    @property
    def done(self) -> dict[str, int]:
        """What was done, without the zeros."""
        return {what: number for what, number in self.counts.items() if number}

    def __add__(self, other: Tally) -> Tally:
        """Two passes as one."""
        counts = Counter(self.counts)
        counts.update(other.counts)
        return Tally(other.noun, self.seen + other.seen, dict(counts), other.more)

    def sentence(self) -> str:
        """Say what was done, in one line without a full stop.

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
