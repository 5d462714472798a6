"""Parameters of generated workunits and the placeholders that they replace."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from scientist.errors import UsageError

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\w+)\}")
#: Placeholders that are always available; their names cannot be parameters.
STANDARD_PLACEHOLDERS = ("index", "file", "name")
_HINT = "write seed=1..1000, x=0.0..1.0..0.1, mode=fast,exact or item=@items.txt."


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `first` up to and including `last`, at intervals of `step`."""

    first: Decimal
    last: Decimal
    step: Decimal

    def __len__(self) -> int:
        return int((self.last - self.first) / self.step) + 1

    def __iter__(self) -> Iterator[str]:
        """Yield the numbers as text; decimal arithmetic avoids rounding errors."""
        return (str(self.first + self.step * index) for index in range(len(self)))


@dataclass(frozen=True, slots=True)
class Parameter:
    """The name of a parameter and its values."""

    name: str
    values: Range | Sequence[str]


def parameter(text: str) -> Parameter:
    """Parse a parameter ``NAME=VALUES``.  Raises UsageError.

    The values are a range, a list, or ``@FILE`` for a file with one value per line.

    >>> list(parameter("x=0.0..0.4..0.2").values), list(parameter("mode=a,b").values)
    (['0.0', '0.2', '0.4'], ['a', 'b'])
    """
    name, equals, values = text.partition("=")
    if not equals or not name.isidentifier() or not values:
        raise UsageError(f"{text!r} is not a parameter.", _HINT)
    if name in STANDARD_PLACEHOLDERS:
        hint = f"choose another name; {{{name}}} is reserved."
        raise UsageError(f"A parameter cannot be called {name}.", hint)
    if values.startswith("@"):
        return Parameter(name, lines_of(values[1:]))
    if ".." in values:
        return Parameter(name, _range(text, values))
    return Parameter(name, values.split(","))


def _range(text: str, values: str) -> Range:
    try:
        numbers = [Decimal(part) for part in values.split("..")]
        first, last, step = numbers if len(numbers) == 3 else (*numbers, Decimal(1))  # noqa: PLR2004
    except (InvalidOperation, ValueError):
        raise UsageError(f"{text!r} is not a range of numbers.", _HINT) from None
    if not all(number.is_finite() for number in numbers) or step <= 0 or last < first:
        raise UsageError(f"{text!r} has no values.", "write a range upward: seed=1..1000.")
    return Range(first, last, step)


def lines_of(path: str) -> list[str]:
    """Return the lines of a file that are not blank.  Raises UsageError if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  also /dev/stdin
            return [line.rstrip("\n") for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The list {path} cannot be read: {error}") from None


def combinations(parameters: Sequence[Parameter]) -> Iterator[dict[str, str]]:
    """Yield every combination of the parameters' values; the last parameter changes fastest."""
    if not parameters:
        yield {}
        return
    first, *others = parameters
    for value in first.values:
        for rest in combinations(others):
            yield {first.name: value, **rest}


def count_combinations(parameters: Sequence[Parameter]) -> int:
    return math.prod(len(parameter.values) for parameter in parameters)


def check(text: str, names: Sequence[str]) -> None:
    """Raise UsageError if `text` has a placeholder that is not in `names`."""
    for match in _PLACEHOLDER.finditer(text):
        if match[1] is not None and match[1] not in names:
            available = ", ".join(f"{{{name}}}" for name in names)
            hint = f"available are {available}; write {{{{ for a brace."
            raise UsageError(f"Unknown placeholder {match[0]} in {text!r}.", hint)


def fill(text: str, values: Mapping[str, object]) -> str:
    """Replace the placeholders in a text by values.  Doubled braces become single braces.

    >>> fill("--seed {seed} {{x}}", {"seed": 7})
    '--seed 7 {x}'
    """

    def replacement(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        return str(values[match[1]])

    return _PLACEHOLDER.sub(replacement, text)


def numbered(total: int | None) -> Iterator[str]:
    """Yield the numbers from 1, with leading zeros.

    The numbers have as many digits as `total`, or six digits if `total` is None.

    >>> list(itertools.islice(numbered(10), 2)), next(numbered(None))
    (['01', '02'], '000001')
    """
    width = len(str(total)) if total else 6
    return (f"{number:0{width}d}" for number in itertools.count(1))
