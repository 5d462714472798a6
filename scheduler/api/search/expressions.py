"""Reads the JSON expressions of `filter`, and returns a condition of Django's ORM.

An expression is an object: ``{"status": "failed", "priority": {"gte": 5}}``.  All its conditions
must hold.  A key is a field of the list, or one of ``and``, ``or`` and ``not`` with a list of
expressions or one expression.  A value is compared for equality, or is an object of operators.
Operators may begin with ``$``, as in Disbatch.  Fields and operators come from fixed tables, values
are checked for the field's type and become parameters of SQL; there are no regular expressions and
no code.  Size and depth are limited.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final

from django.db.models import Q

from scheduler.api.http.body import INT8

MAX_DEPTH: Final = 5
MAX_CONDITIONS: Final = 50
MAX_LISTED: Final = 1000
MAX_TEXT: Final = 250
MAX_META: Final = 20
_MAX_NUMBER: Final = 1e300

#: Operators of ordered values, with Django's lookups.
_RANGES: Final = {"lt": "lt", "lte": "lte", "gt": "gt", "gte": "gte"}
_EQUALITY: Final = ("eq", "ne", "in", "null")


class BadFilter(ValueError):
    """An expression is not valid.  Hint: see the message."""


class Kind(Enum):
    """The type of a field, with the name that error messages use."""

    INTEGER = "a whole number"
    NUMBER = "a number"
    TEXT = f"a text of at most {MAX_TEXT} characters"
    TIME = "a time such as 2027-01-31T12:00Z"
    FLAG = "true or false"
    WORD = "a word"
    META = "an object"

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that a field of this type supports."""
        if self is Kind.META:
            return ("contains",)
        if self in {Kind.FLAG, Kind.WORD}:
            return _EQUALITY
        return (*_EQUALITY, *_RANGES, *(("prefix",) if self is Kind.TEXT else ()))


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a list: Django's lookup of its column, and its type.

    `words` are the values of a field of kind WORD, each with its condition or its stored value.
    """

    lookup: str
    kind: Kind = Kind.TEXT
    words: Mapping[str, Any] = field(default_factory=dict)


def condition(expression: object, fields: Mapping[str, Field]) -> Q:
    """Return the condition of an expression; raises `BadFilter`."""
    return _Reader(fields).read(expression, 1)


class _Reader:
    """Reads one expression, and counts its conditions."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self._fields = fields
        self._count = 0

    def read(self, expression: object, depth: int) -> Q:
        if depth > MAX_DEPTH:
            raise _bad(f"The filter has more than {MAX_DEPTH} levels.", "use fewer and, or, not.")
        if not isinstance(expression, dict) or not expression:
            hint = 'write {"status": "failed"}.'
            raise _bad(f"{_short(expression)} is not an object of conditions.", hint)
        parts = [self._part(str(key), value, depth) for key, value in expression.items()]
        return _joined(parts, Q.AND)

    def _part(self, key: str, value: object, depth: int) -> Q:
        name = key.removeprefix("$")
        if name == "not":
            return ~self.read(value, depth + 1)
        if name in {"and", "or"}:
            if not isinstance(value, list) or not value:
                raise _bad(f"{key} has {_short(value)}.", "give a list of expressions.")
            parts = [self.read(item, depth + 1) for item in value]
            return _joined(parts, Q.AND if name == "and" else Q.OR)
        if key not in self._fields:
            hint = f"valid names: {', '.join(sorted(self._fields))}, and, or, not."
            raise _bad(f"There is no field {_short(key)}.", hint)
        return _joined(list(self._comparisons(key, value)), Q.AND)

    def _comparisons(self, name: str, value: object) -> Iterator[Q]:
        own = self._fields[name]
        is_operators = isinstance(value, dict) and own.kind is not Kind.META
        if own.kind is Kind.META and not (
            isinstance(value, dict) and {key.removeprefix("$") for key in value} == {"contains"}
        ):
            raise _bad(f"{name} has {_short(value)}.", 'write {"meta": {"contains": {"a": 1}}}.')
        operators = value if is_operators or own.kind is Kind.META else {"eq": value}
        if not operators:
            raise _bad(f"{name} has no condition.", 'give a value, or {"gte": 5}.')
        for key, operand in operators.items():  # type: ignore[attr-defined]  # a dict
            self._count += 1
            if self._count > MAX_CONDITIONS:
                hint = "ask for less at once, or use in."
                raise _bad(f"The filter has more than {MAX_CONDITIONS} conditions.", hint)
            operator = str(key).removeprefix("$")
            if operator not in own.kind.operators:
                hint = f"valid operators: {', '.join(own.kind.operators)}."
                raise _bad(f"{name} has no operator {_short(key)}.", hint)
            yield _compare(name, own, operator, operand)


def _compare(name: str, own: Field, operator: str, operand: object) -> Q:
    if operator == "null":
        if not isinstance(operand, bool):
            raise _bad(f"{name} null has {_short(operand)}.", "give true or false.")
        return Q(**{f"{own.lookup}__isnull": operand})
    if operator == "in":
        if not isinstance(operand, list) or not 0 < len(operand) <= MAX_LISTED:
            raise _bad(f"{name} in has {_short(operand)}.", f"give a list of 1 to {MAX_LISTED}.")
        if own.kind is Kind.WORD:
            return _joined([_equals(name, own, item) for item in operand], Q.OR)
        return Q(**{f"{own.lookup}__in": [_value(name, own, item) for item in operand]})
    if operator == "contains":
        if not isinstance(operand, dict) or len(operand) > MAX_META:
            hint = f"give an object of at most {MAX_META} keys."
            raise _bad(f"{name} contains has {_short(operand)}.", hint)
        return ~Q(**{own.lookup: {}}) & Q(**{f"{own.lookup}__contains": operand})
    if operator in {"eq", "ne"}:
        equal = _equals(name, own, operand)
        return equal if operator == "eq" else ~equal
    suffix = "startswith" if operator == "prefix" else _RANGES[operator]
    return Q(**{f"{own.lookup}__{suffix}": _value(name, own, operand)})


def _equals(name: str, own: Field, operand: object) -> Q:
    if operand is None:
        return Q(**{f"{own.lookup}__isnull": True})
    value = _value(name, own, operand)
    return value if isinstance(value, Q) else Q(**{own.lookup: value})


def _value(name: str, own: Field, operand: object) -> Any:
    """Return the value for SQL; raises `BadFilter` for a value of another type."""
    if own.kind is Kind.WORD:
        if isinstance(operand, str) and operand in own.words:
            return own.words[operand]
        raise _bad(f"{name} has {_short(operand)}.", f"give one of {', '.join(own.words)}.")
    value = _READERS[own.kind](operand)
    if value is None:
        raise _bad(f"{name} has {_short(operand)}.", f"give {own.kind.value}.")
    return value


def _integer(operand: object) -> int | None:
    is_number = isinstance(operand, int) and not isinstance(operand, bool)
    return operand if is_number and abs(operand) <= INT8 else None  # type: ignore[arg-type, return-value]


def _number(operand: object) -> float | None:
    is_number = isinstance(operand, int | float) and not isinstance(operand, bool)
    return float(operand) if is_number and abs(operand) < _MAX_NUMBER else None  # type: ignore[arg-type]


def _text(operand: object) -> str | None:
    return operand if isinstance(operand, str) and len(operand) <= MAX_TEXT else None


def _flag(operand: object) -> bool | None:
    return operand if isinstance(operand, bool) else None


def _time(operand: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(operand) if isinstance(operand, str) else None
        return moment and (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


_READERS: Final[Mapping[Kind, Callable[[object], Any]]] = {
    Kind.INTEGER: _integer,
    Kind.NUMBER: _number,
    Kind.TEXT: _text,
    Kind.TIME: _time,
    Kind.FLAG: _flag,
}


def _joined(parts: list[Q], connector: str) -> Q:
    return parts[0] if len(parts) == 1 else Q(*parts, _connector=connector)


def _short(value: object) -> str:
    """Return a short text for a value; null, true and false as in JSON."""
    return json.dumps(value) if value is None or isinstance(value, bool) else f"{value!r:.60}"


def _bad(sentence: str, hint: str) -> BadFilter:
    return BadFilter(f"{sentence} Hint: {hint}")
