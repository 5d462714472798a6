"""Results agree when their numbers do, in text, CSV and JSON.

Each output becomes a *shape* (its words, its keys, how many lines, rows and cells) and a list of
numbers.  Shapes must be equal.  Two numbers agree when they differ by no more than the larger of
`absolute` and `relative` times the larger of the two.
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

    from daemons.science.interfaces import Brought, Options

Number = int | float

RELATIVE = 1e-9
_SPELLED = re.compile(
    r"(?<![\w.])([-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?))(?![\w.])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far apart two numbers may be; `nan_is_nan` says whether NaN agrees with NaN."""

    absolute: float
    relative: float
    nan_is_nan: bool = True

    def covers(self, one: Number, other: Number) -> bool:
        """Whether two numbers agree; an infinity agrees with itself only."""
        if one == other:
            return True
        try:
            if math.isnan(one) or math.isnan(other):
                return self.nan_is_nan and math.isnan(one) and math.isnan(other)
            if math.isinf(one) or math.isinf(other):
                return False
            # Whole numbers stay whole: a float would lose what lies beyond 2**53.
            return abs(one - other) <= max(self.absolute, self.relative * max(abs(one), abs(other)))
        except OverflowError:  # a whole number larger than any float
            return False


@dataclass(frozen=True, slots=True)
class Rules:
    """The options as they are applied; patterns are kept in the order in which they are tried."""

    tolerance: Tolerance
    format: str
    delimiter: str
    header: bool
    columns: dict[str, Tolerance]
    keys: dict[str, Tolerance]
    ignore_columns: tuple[str, ...]
    ignore_keys: tuple[str, ...]
    ignore_lines: tuple[re.Pattern[str], ...]

    def keeps(self, line: str) -> bool:
        """Whether a line is compared."""
        return not any(pattern.search(line) for pattern in self.ignore_lines)


@dataclass(slots=True)
class Evidence:
    """What stands in the outputs of one result: as many tolerances as numbers."""

    shape: list[str] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    tolerances: list[Tolerance] = field(default_factory=list)

    def add(self, number: Number, tolerance: Tolerance) -> None:
        """Take one number."""
        self.numbers.append(number)
        self.tolerances.append(tolerance)


def check_options(options: Options) -> None:
    """Raise `BadOptions`."""
    _rules(options)


def prepare(outputs: Sequence[Brought], options: Options) -> Evidence | None:
    """Read a result's outputs; raises `BadOutput` for one that is not of its format."""
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


def agree(one: Evidence, other: Evidence) -> bool:
    """Whether shapes are equal and all numbers within their tolerances."""
    return one.shape == other.shape and all(
        tolerance.covers(mine, theirs)
        for mine, theirs, tolerance in zip(one.numbers, other.numbers, one.tolerances, strict=True)
    )


# Reading options


def _rules(options: Options) -> Rules:
    given = checked("numeric", options, _OPTIONS)
    tolerance = Tolerance(
        given.get("absolute", 0.0),
        given.get("relative", RELATIVE),
        nan_is_nan=given.get("nan", "equal") == "equal",
    )
    return Rules(
        tolerance=tolerance,
        format=given.get("format", "auto"),
        delimiter=given.get("delimiter", ","),
        header=given.get("header", True),
        columns=_tolerances(given.get("columns", {}), "column", tolerance),
        keys=_tolerances(given.get("keys", {}), "key", tolerance),
        ignore_columns=given.get("ignore_columns", ()),
        ignore_keys=given.get("ignore_keys", ()),
        ignore_lines=given.get("ignore_lines", ()),
    )


def _tolerances(found: dict[str, object], kind: str, general: Tolerance) -> dict[str, Tolerance]:
    """The tolerances of single columns or keys; what one leaves out is as for all."""
    read = {
        name: checked(f"numeric's {kind} {name!r}", its, _TOLERANCES) for name, its in found.items()
    }
    return {name: replace(general, **its) for name, its in read.items()}


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
        return tuple(re.compile(one) for one in texts(value))
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


def _format(output: Brought, rules: Rules) -> str:
    """The format of one output: as the options say, or by the end of its open name."""
    if rules.format != "auto":
        return rules.format
    ending = output.open_name.rpartition(".")[2].lower()
    return ending if ending in ("csv", "json") else "text"


def _text(output: Brought) -> str:
    try:
        with open(output.path, encoding="utf-8-sig", newline="") as file:  # noqa: PTH123 - a path as text
            return file.read()
    except UnicodeDecodeError as error:
        raise BadOutput(f"Output {output.position} is no text in UTF-8: {error}.") from error


def _read_text(text: str, rules: Rules, evidence: Evidence) -> None:
    """Lines of words and numbers; how much white space there is does not count."""
    for line in text.rstrip().splitlines():
        if rules.keeps(line):
            evidence.shape.append(_take_numbers(line, rules.tolerance, evidence))


def _take_numbers(line: str, tolerance: Tolerance, evidence: Evidence) -> str:
    """The line with a mark for each number, which the evidence takes."""

    def taken(match: re.Match[str]) -> str:
        number = _number(match[0])
        if isinstance(number, str):
            return number
        evidence.add(number, tolerance)
        return "\N{NUMERO SIGN}"

    return " ".join(_SPELLED.sub(taken, line).split())


def _read_csv(text: str, rules: Rules, evidence: Evidence) -> None:
    """Rows of cells; a cell is a number or a text, and columns are known by the first row."""
    lines = (line for line in text.splitlines(keepends=True) if rules.keeps(line.rstrip("\r\n")))
    try:
        rows = [row for row in csv.reader(lines, delimiter=rules.delimiter, strict=True) if row]
    except csv.Error as error:
        raise BadOutput(f"It is no CSV: {error}.") from error
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
    """What a column may be called: the name in its header, or its number from 1."""
    if place < len(names):
        yield names[place]
    yield str(place + 1)


def _of_column(rules: Rules, names: Sequence[str], place: int) -> Tolerance:
    known = (rules.columns[name] for name in _names_of(names, place) if name in rules.columns)
    return next(known, rules.tolerance)


def _cell(text: str, tolerance: Tolerance, evidence: Evidence, *, is_name: bool) -> str | None:
    """None for a number, which the evidence takes."""
    clean = text.strip()
    number = clean if is_name or not _SPELLED.fullmatch(clean) else _number(clean)
    if isinstance(number, str):
        return number
    evidence.add(number, tolerance)
    return None


def _read_json(text: str, rules: Rules, evidence: Evidence) -> None:
    """Objects in any order of keys; a value is known by its path: ``energies.0.total``."""
    try:
        _take_json(json.loads(text, parse_float=_number), "", rules, evidence)
    except (ValueError, RecursionError) as error:
        raise BadOutput(f"It is no JSON: {error}.") from error


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
        found = (pattern for pattern in rules.keys if fnmatchcase(path, pattern))
        evidence.add(value, rules.keys.get(next(found, ""), rules.tolerance))
    else:
        evidence.shape.append(f"{path} = {json.dumps(value)}")


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def _number(spelled: str) -> Number | str:
    """A number; itself if it is too large for one, for infinities would all be equal."""
    try:
        return int(spelled)
    except ValueError:
        number = float(spelled.lower().replace("d", "e"))
        return spelled if math.isinf(number) and any(map(str.isdigit, spelled)) else number


_READERS = {"text": _read_text, "csv": _read_csv, "json": _read_json}
