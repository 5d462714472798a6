"""Generated workunits: parameters, their values and the places they fill."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from scientist.errors import UsageError

_PLACE = re.compile(r"\{\{|\}\}|\{(\w+)\}")
#: What every command line may say, whatever the parameters.
STANDING = ("index", "file", "name")
_HINT = "write seed=1..1000, x=0.0..1.0..0.1, mode=fast,exact or item=@items.txt."


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `first` to `last`, both included; not held in memory."""

    first: Decimal
    last: Decimal
    step: Decimal

    def __len__(self) -> int:
        """How many they are."""
        return int((self.last - self.first) / self.step) + 1

    def __iter__(self) -> Iterator[str]:
        """The numbers as text, none of them with the errors of binary fractions."""
        return (str(self.first + self.step * index) for index in range(len(self)))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A name and the values that it takes."""

    name: str
    values: Range | Sequence[str]


def parameter(text: str) -> Parameter:
    """Read ``NAME=VALUES``: a range, a list, or ``@FILE`` with a value a line.

    >>> list(parameter("x=0.0..0.4..0.2").values), list(parameter("mode=a,b").values)
    (['0.0', '0.2', '0.4'], ['a', 'b'])
    """
    name, equals, said = text.partition("=")
    if not equals or not name.isidentifier() or not said:
        raise UsageError(f"{text!r} is no parameter.", _HINT)
    if name in STANDING:
        raise UsageError(
            f"A parameter cannot be called {name}.", f"{{{name}}} has a meaning already."
        )
    if said.startswith("@"):
        return Parameter(name, lines_of(said[1:]))
    if ".." in said:
        return Parameter(name, _range(text, said))
    return Parameter(name, said.split(","))


def _range(text: str, said: str) -> Range:
    try:
        numbers = [Decimal(part) for part in said.split("..")]
        first, last, step = numbers if len(numbers) == 3 else (*numbers, Decimal(1))  # noqa: PLR2004
    except (InvalidOperation, ValueError):
        raise UsageError(f"{text!r} is no range of numbers.", _HINT) from None
    if not all(one.is_finite() for one in numbers) or step <= 0 or last < first:
        raise UsageError(f"{text!r} has no values.", "a range goes up: seed=1..1000.")
    return Range(first, last, step)


def lines_of(path: str) -> list[str]:
    """The lines of a file, without the empty ones.  Raises UsageError."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  also /dev/stdin
            return [line.rstrip("\n") for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The list {path} cannot be read: {error}") from None


def combinations(parameters: Sequence[Parameter]) -> Iterator[dict[str, str]]:
    """Every combination of values; the last parameter changes fastest."""
    if not parameters:
        yield {}
        return
    first, *others = parameters
    for value in first.values:
        for rest in combinations(others):
            yield {first.name: value, **rest}


def how_many(parameters: Sequence[Parameter]) -> int:
    """How many combinations there are."""
    return math.prod(len(one.values) for one in parameters)


def check(text: str, known: Sequence[str]) -> None:
    """Refuse a text that names a place which nothing fills.  Raises UsageError."""
    for found in _PLACE.finditer(text):
        if found[1] is not None and found[1] not in known:
            there = ", ".join(f"{{{name}}}" for name in known)
            hint = f"there are {there}; write {{{{ for a brace."
            raise UsageError(f"Nothing fills {found[0]} in {text!r}.", hint)


def fill(text: str, values: Mapping[str, object]) -> str:
    """Put values into their places; doubled braces are braces.

    >>> fill("--seed {seed} {{x}}", {"seed": 7})
    '--seed 7 {x}'
    """

    def put(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0][0]
        return str(values[found[1]])

    return _PLACE.sub(put, text)


def numbered(total: int | None) -> Iterator[str]:
    """Numbers from 1 with as many digits as the last has (six if nobody knows).

    >>> list(itertools.islice(numbered(10), 2)), next(numbered(None))
    (['01', '02'], '000001')
    """
    width = len(str(total)) if total else 6
    return (f"{number:0{width}d}" for number in itertools.count(1))
