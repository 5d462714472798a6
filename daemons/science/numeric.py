"""Compares the numbers in text, CSV and JSON, as the validator `numeric`.

Each output becomes a *shape* (its words, keys, and numbers of lines, rows and cells) and a list of
numbers.  Shapes must be equal.  Two numbers agree if their difference is at most `absolute`, or at
most `relative` times the larger absolute value.
"""

from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from daemons.science.checking import checked, flag, number, one_of, texts
from daemons.science.interfaces import BadOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from daemons.science.interfaces import Options, ReportedOutput

Number = int | float

RELATIVE = 1e-9
_SPELLED = re.compile(
    r"(?<![\w.])([-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?))(?![\w.])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The maximum difference of two numbers.  With `nan_is_nan`, NaN agrees with NaN."""

    absolute: float
    relative: float
    nan_is_nan: bool = True

    def covers(self, first: Number, second: Number) -> bool:
        """Return whether two numbers agree; an infinity agrees with itself only."""
        if first == second:
            return True
        try:
            if math.isnan(first) or math.isnan(second):
                return self.nan_is_nan and math.isnan(first) and math.isnan(second)
            if math.isinf(first) or math.isinf(second):
                return False
            # Integers are compared as integers: floats lose precision beyond 2**53.
            return abs(first - second) <= max(
                self.absolute, self.relative * max(abs(first), abs(second))
            )
        except OverflowError:  # an integer larger than any float
            return False


@dataclass(frozen=True, slots=True)
class Rules:
    """The parsed options of the validator.  Patterns are tried in their order."""

    tolerance: Tolerance
    columns: dict[str, Tolerance]
    keys: dict[str, Tolerance]
    format: str = "auto"
    delimiter: str = ","
    header: bool = True
    ignore_columns: tuple[str, ...] = ()
    ignore_keys: tuple[str, ...] = ()
    ignore_lines: tuple[re.Pattern[str], ...] = ()

    def keeps(self, line: str) -> bool:
        """Return whether a line is compared."""
        return not any(pattern.search(line) for pattern in self.ignore_lines)


@dataclass(slots=True)
class Evidence:
    """The contents of a result's outputs, with a tolerance for each number."""

    shape: list[str] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    tolerances: list[Tolerance] = field(default_factory=list)

    def add(self, number: Number, tolerance: Tolerance) -> None:
        """Append one number."""
        self.numbers.append(number)
        self.tolerances.append(tolerance)


def check_options(options: Options) -> None:
    """Raise `BadOptions` if an option is not valid."""
    _rules(options)


def prepare(outputs: Sequence[ReportedOutput], options: Options) -> Evidence | None:
    """Return the contents of a result's outputs, or None if a required output is missing.

    Raises `BadOutput` for an output that is not in its format.
    """
    if any(output.is_missed for output in outputs):
        return None
    rules, evidence = _rules(options), Evidence()
    for output in outputs:
        if output.no_validate:
            continue
        evidence.shape.append(f"output {output.position}: {output.sha256 is not None}")
        if output.sha256 is not None:
            _READERS[_format(output, rules)](_text(output), rules, evidence)
    return evidence


def agree(first: Evidence, second: Evidence) -> bool:
    """Return whether shapes are equal and all numbers are within their tolerances."""
    return first.shape == second.shape and all(
        tolerance.covers(number, other)
        for number, other, tolerance in zip(
            first.numbers, second.numbers, first.tolerances, strict=True
        )
    )


# Reading options


def _rules(options: Options) -> Rules:
    settings = checked("numeric", options, _OPTIONS)
    tolerance = Tolerance(
        settings.pop("absolute", 0.0),
        settings.pop("relative", RELATIVE),
        nan_is_nan=settings.pop("nan", "equal") == "equal",
    )
    columns = _tolerances(settings.pop("columns", {}), "column", tolerance)
    keys = _tolerances(settings.pop("keys", {}), "key", tolerance)
    return Rules(tolerance, columns, keys, **settings)


def _tolerances(values: dict[str, object], kind: str, general: Tolerance) -> dict[str, Tolerance]:
    """Return the tolerances by column or key; the default of each value is that of `general`."""
    options_by_name = {
        name: checked(f"numeric's {kind} {name!r}", options, _TOLERANCES)
        for name, options in values.items()
    }
    return {name: replace(general, **options) for name, options in options_by_name.items()}


def _by_name(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError('an object of names and tolerances, as {"energy": {"absolute": 0.1}}')  # noqa: TRY004 - for checked()
    return value


def _character(value: object) -> str:
    if not isinstance(value, str) or len(value) != 1:
        raise ValueError("one character")
    return value


def _patterns(value: object) -> tuple[re.Pattern[str], ...]:
    try:
        return tuple(re.compile(pattern) for pattern in texts(value))
    except re.error as error:
        raise ValueError(f"a list of regular expressions ({error.pattern!r}: {error})") from error


_TOLERANCES = {"absolute": number(0, math.inf), "relative": number(0, 1)}
_OPTIONS: dict[str, Callable[[Any], Any]] = {
    **_TOLERANCES,
    "format": one_of("auto", "text", "csv", "json"),
    "nan": one_of("equal", "differ"),
    "delimiter": _character,
    "header": flag,
    "columns": _by_name,
    "ignore_columns": texts,
    "keys": _by_name,
    "ignore_keys": texts,
    "ignore_lines": _patterns,
}


# Reading outputs


def _format(output: ReportedOutput, rules: Rules) -> str:
    """Return the format of an output: ``csv``, ``json`` or ``text``.

    The format ``auto`` is determined from the suffix of the output's open name.
    """
    if rules.format != "auto":
        return rules.format
    ending = output.open_name.rpartition(".")[2].lower()
    return ending if ending in ("csv", "json") else "text"


def _text(output: ReportedOutput) -> str:
    try:
        with open(output.path, encoding="utf-8-sig", newline="") as file:  # noqa: PTH123 - a path as text
            return file.read()
    except UnicodeDecodeError as error:
        raise BadOutput(f"Output {output.position} is not UTF-8 text: {error}.") from error


def _read_text(text: str, rules: Rules, evidence: Evidence) -> None:
    """Read lines of words and numbers into the evidence, without the amount of white space."""
    for line in text.rstrip().splitlines():
        if rules.keeps(line):
            evidence.shape.append(_take_numbers(line, rules.tolerance, evidence))


def _take_numbers(line: str, tolerance: Tolerance, evidence: Evidence) -> str:
    """Append the numbers of a line to the evidence; return the line with placeholders for them."""

    def replaced(match: re.Match[str]) -> str:
        number = _number(match[0])
        if isinstance(number, str):
            return number
        evidence.add(number, tolerance)
        return "\N{NUMERO SIGN}"

    return " ".join(_SPELLED.sub(replaced, line).split())


def _read_csv(text: str, rules: Rules, evidence: Evidence) -> None:
    """Read rows of cells into the evidence.

    With the option `header`, the first row contains the names of the columns.
    """
    lines = (line for line in text.splitlines(keepends=True) if rules.keeps(line.rstrip("\r\n")))
    try:
        rows = [row for row in csv.reader(lines, delimiter=rules.delimiter, strict=True) if row]
    except csv.Error as error:
        raise BadOutput(f"It is not CSV: {error}.") from error
    names = [cell.strip() for cell in rows[0]] if rules.header and rows else []
    for index, row in enumerate(rows):
        cells = [
            _cell(
                cell, _of_column(rules, names, place), evidence, is_name=bool(names) and not index
            )
            for place, cell in enumerate(row)
            if not {*_names_of(names, place)} & {*rules.ignore_columns}
        ]
        evidence.shape.append(json.dumps(cells))


def _names_of(names: Sequence[str], place: int) -> Iterator[str]:
    """Yield the header of a column if there is one, and its number, counted from 1."""
    if place < len(names):
        yield names[place]
    yield str(place + 1)


def _of_column(rules: Rules, names: Sequence[str], place: int) -> Tolerance:
    tolerances = (rules.columns[name] for name in _names_of(names, place) if name in rules.columns)
    return next(tolerances, rules.tolerance)


def _cell(text: str, tolerance: Tolerance, evidence: Evidence, *, is_name: bool) -> str | None:
    """Return the text of a cell; for a number, append it to the evidence and return None."""
    clean = text.strip()
    number = clean if is_name or not _SPELLED.fullmatch(clean) else _number(clean)
    if isinstance(number, str):
        return number
    evidence.add(number, tolerance)
    return None


def _read_json(text: str, rules: Rules, evidence: Evidence) -> None:
    """Read JSON into the evidence; the order of keys is not compared.

    A value is identified by its path, such as ``energies.0.total``.
    """
    try:
        _take_json(json.loads(text, parse_float=_number), "", rules, evidence)
    except (ValueError, RecursionError) as error:
        raise BadOutput(f"It is not JSON: {error}.") from error


def _take_json(value: object, path: str, rules: Rules, evidence: Evidence) -> None:
    if path and _matches(path, rules.ignore_keys):
        return
    if isinstance(value, dict | list):
        items: Iterable[tuple[Any, object]]
        items = sorted(value.items()) if isinstance(value, dict) else enumerate(value)
        evidence.shape.append(f"{path} {type(value).__name__}")
        for key, inner in items:
            _take_json(inner, f"{path}.{key}" if path else str(key), rules, evidence)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        evidence.shape.append(path)
        matches = (pattern for pattern in rules.keys if fnmatchcase(path, pattern))
        evidence.add(value, rules.keys.get(next(matches, ""), rules.tolerance))
    else:
        evidence.shape.append(f"{path} = {json.dumps(value)}")


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def _number(spelled: str) -> Number | str:
    """Parse a number; return the text if it overflows, because infinities would be equal."""
    try:
        return int(spelled)
    except ValueError:
        number = float(spelled.lower().replace("d", "e"))
        return spelled if math.isinf(number) and any(map(str.isdigit, spelled)) else number


_READERS = {"text": _read_text, "csv": _read_csv, "json": _read_json}
