"""Reads workunits and batches that are described as dicts [pure].

The same functions read Python values from a generator (timedeltas, datetimes, bytes) and their JSON
forms (seconds, times as text, ``content_base64``).
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from scheduler.queues.facts import FOREVER
from scheduler.work.submission.facts import (
    NewBatch,
    NewFile,
    NewOutput,
    NewWorkunit,
)
from scheduler.work.submission.rules import bundling
from scheduler.work.submission.rules.new_workunits import NAME_PATTERN

T = TypeVar("T")
#: Returns an empty string if a value is valid, else a description of what to give.
Check = Callable[[object], str]
_MOMENTS = ("start_after", "start_before", "end_before")
#: The names that TDF and TDF2 have for fields of a workunit.
_OTHER_NAMES = {"max_fails": "max_error_results", "until": "start_before"}
#: The limit of Eve, and the fields that follow from it.
_MAX_RETRIES = "max_retry_count"
_LIMITS_OF_RETRIES = ("max_error_results", "max_total_results")
_NOUNS: dict[type, str] = {
    NewWorkunit: "a workunit",
    NewFile: "an input file",
    NewOutput: "an output",
    NewBatch: "a batch",
}
#: Additional keys: other names of fields, and values that JSON cannot represent in the fields.
_EXTRA_KEYS: dict[type, tuple[str, ...]] = {
    NewWorkunit: (
        "delay_bound_seconds",
        "expected_duration_seconds",
        "max_fails",
        _MAX_RETRIES,
        "until",
    ),
    NewFile: ("content_base64",),
    NewOutput: (),
    NewBatch: ("expires_in_seconds", "bundle_duration_seconds"),
}
#: Keys that `from_outside` refuses: paths are on the server's disk, the server sets dependency
#: counts and `keep_outputs`, and durations in seconds have a key that contains the unit.
_INTERNAL_KEYS: dict[type, frozenset[str]] = {
    NewWorkunit: frozenset({"pending_dependency_count", "delay_bound", "expected_duration"}),
    NewFile: frozenset({"path"}),
    NewOutput: frozenset(),
    NewBatch: frozenset({"keep_outputs", "bundle_duration"}),
}
#: Common wrong keys that do not resemble the right key, with the key that the hint suggests.
_ALIASES = {"deadline": "delay_bound_seconds"}
_KEYS: dict[type, tuple[str, ...]] = {
    kind: (*(field.name for field in fields(kind)), *_EXTRA_KEYS[kind]) for kind in _NOUNS
}
#: The text of an infinite `delay_bound_seconds`; JSON has no infinite numbers.
_INFINITE = "inf"
#: PostgreSQL's bigint.
_MAX_BIGINT = 2**63 - 1
#: Limit on the number of input files, and of outputs, of a workunit.
_MAX_FILES = 1000
#: Limit on the number of workunits for which a workunit waits, and of those that wait for it.
_MAX_DEPENDENCIES = 10_000


class BadDescription(ValueError):
    """A dict does not describe a workunit or batch. Hint: see the message.

    `pointer` is the JSON Pointer of the fault, as ``/input_files/0/open_name``.
    """

    def __init__(self, sentence: str, hint: str, pointer: str = "") -> None:
        super().__init__(f"{sentence} Hint: {hint}")
        self.sentence, self.hint, self.pointer = sentence, hint, pointer


def new_workunit(value: object, *, from_outside: bool = False) -> NewWorkunit:
    """Read the description of a workunit; raises `BadDescription`.

    The keys are the fields of `NewWorkunit`, or `delay_bound_seconds` in place of `delay_bound`,
    `expected_duration_seconds` in place of `expected_duration`, `max_fails` in place of
    `max_error_results` and `until` in place of `start_before`.  `max_retry_count` N is the number
    of attempts beyond the first: at most N errors, and at most N results besides those created at
    first.  With an expected duration, the defaults of the operations and of the deadline follow
    from it.
    Durations are timedeltas or seconds, and "inf" is an infinite delay bound.  Times are datetimes
    or ISO text; without a time zone, they are in UTC.  An input file is a `NewFile` or a dict of
    its fields, with `content` as bytes or text, or with `content_base64`.  An output is a dict of
    the fields of `NewOutput`, or its `open_name`.  With `from_outside`, the keys that only the
    server's own programs may use are refused: `path`, `pending_dependency_count`, `delay_bound` and
    `expected_duration`.
    """
    values = dict(with_field_names(_checked(NewWorkunit, value, from_outside=from_outside)))
    _read_max_retries(values)
    if "input_files" in values:
        values["input_files"] = _each(
            values, "input_files", lambda entry: _file(entry, from_outside=from_outside)
        )
    if "outputs" in values:
        values["outputs"] = _each(values, "outputs", _output)
    for name in ("after", "continuations"):
        if name in values:
            values[name] = _each(values, name, _reference, at_most=_MAX_DEPENDENCIES)
    for name in ("delay_bound", "delay_bound_seconds"):
        if name in values:
            values["delay_bound"] = _delay_bound(name, values.pop(name))
    _read_durations(values, "expected_duration", "max_termination_time")
    if values.get("expected_duration") is not None:
        values |= bundling.run_time_defaults(values, values["expected_duration"])
    for name in _MOMENTS:
        if values.get(name) is not None:
            values[name] = _moment(name, values[name])
    return NewWorkunit(**values)


def _read_max_retries(values: dict[str, Any]) -> None:
    """Replace `max_retry_count` by the limit of results: the retries and those created at first."""
    max_retries = values.pop(_MAX_RETRIES, None)
    if max_retries is not None:
        target = values.get("target_nresults") or values.get("min_quorum", 1)
        values["max_total_results"] = max_retries + target


def with_field_names(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a workunit's description with fields in place of the names of TDF and TDF2.

    Call it before descriptions are merged.  Raises `BadDescription` if a value is given twice.
    `max_retry_count` stays, because the number of results also depends on descriptions that are
    merged later; it replaces, and is replaced by, the two limits that follow from it.
    """
    if values.keys().isdisjoint((*_OTHER_NAMES, _MAX_RETRIES, *_LIMITS_OF_RETRIES)):
        return values
    renamed = dict(values)
    for other_name, name in _OTHER_NAMES.items():
        if other_name in renamed:
            if name in renamed:
                what = f"{other_name} and {name} are both given."
                raise BadDescription(what, "give one: they mean the same.", f"/{other_name}")
            renamed[name] = renamed.pop(other_name)
    max_retries = renamed.get(_MAX_RETRIES)
    if max_retries is None:
        if not renamed.keys().isdisjoint(_LIMITS_OF_RETRIES):
            renamed[_MAX_RETRIES] = None
        return renamed
    limits = {"max_error_results": max_retries, "max_total_results": None}
    for name, limit in limits.items():
        if renamed.get(name, limit) != limit:
            what = f"{_MAX_RETRIES} and {name} are both given."
            hint = f"give one: {_MAX_RETRIES} sets {' and '.join(limits)}."
            raise BadDescription(what, hint, f"/{_MAX_RETRIES}")
    return renamed | limits


def new_batch(value: object, *, now: datetime, from_outside: bool = False) -> NewBatch:
    """Read the description of a batch; raises `BadDescription`.

    The keys are the fields of `NewBatch`, or `expires_in_seconds` in place of `expire_at` and
    `bundle_duration_seconds` in place of `bundle_duration`.
    """
    values = dict(_checked(NewBatch, value, from_outside=from_outside))
    _read_durations(values, "bundle_duration")
    if values.get("expire_at") is not None:
        values["expire_at"] = _moment("expire_at", values["expire_at"])
    seconds = values.pop("expires_in_seconds", None)
    if seconds is not None:
        if values.get("expire_at") is not None:
            what = "expire_at and expires_in_seconds are both given."
            raise BadDescription(what, "give one of them.", "/expires_in_seconds")
        try:
            values["expire_at"] = now + _duration("expires_in_seconds", seconds)
        except OverflowError:
            what = f"expires_in_seconds is {seconds!r:.60}."
            raise BadDescription(what, "give less.", "/expires_in_seconds") from None
    return NewBatch(**values)


def _checked(kind: type, description: object, *, from_outside: bool = False) -> Mapping[str, Any]:
    what = _NOUNS[kind]
    if not isinstance(description, Mapping):
        raise BadDescription(f"{description!r:.100} is not {what}.", "give a dict of its fields.")
    keys, checks = _KEYS[kind], _CHECKS[kind]
    for name, value in description.items():
        check = checks.get(name)
        if check is None or (from_outside and name in _INTERNAL_KEYS[kind]):
            allowed = [key for key in keys if not (from_outside and key in _INTERNAL_KEYS[kind])]
            raise _unknown(str(name), allowed, what)
        if expected := check(value):
            raise BadDescription(f"{name} is {value!r:.60}.", f"give {expected}.", f"/{name}")
    return description


def _unknown(name: str, allowed: Collection[str], what: str) -> BadDescription:
    alias = _ALIASES.get(name)
    near = [alias] if alias in allowed else get_close_matches(name, allowed, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the fields are {', '.join(allowed)}."
    pointer = f"/{name.replace('~', '~0').replace('/', '~1')[:100]}"
    return BadDescription(f"{name!r:.60} is not a field of {what}.", hint, pointer)


# Checks of single fields: each returns "" if a value is valid, else a description of what to give


def _is_whole(value: object) -> str:
    return "" if type(value) is int and -_MAX_BIGINT <= value <= _MAX_BIGINT else "a whole number"


def _is_number_of_retries(value: object) -> str:
    is_valid = value is None or (type(value) is int and 0 <= value <= _MAX_BIGINT)
    return "" if is_valid else "a whole number from 0, or null"


def _is_object(value: object) -> str:
    return "" if isinstance(value, Mapping) else "an object"


def _is_anything(_value: object) -> str:
    return ""


_BY_TYPE: dict[object, Check] = {
    str: lambda value: "" if type(value) is str else "text",
    bool: lambda value: "" if type(value) is bool else "true or false",
    int: _is_whole,
    float: lambda value: "" if type(value) in (int, float) else "a number",
    bytes: lambda value: "" if isinstance(value, str | bytes) else "text or bytes",
}


def _check_of(hint: object) -> Check:
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    check = next((_BY_TYPE[kind] for kind in kinds if kind in _BY_TYPE), None)
    if check is None:
        # Lists, times and durations are checked by the functions that read them.
        return _is_object if getattr(hint, "__origin__", None) is Mapping else _is_anything
    if type(None) not in kinds:
        return check
    return lambda value: "" if value is None else check(value) and f"{check(value)}, or null"


def _checks_of(kind: type) -> dict[str, Check]:
    hints = get_type_hints(kind)
    own = {field.name: _check_of(hints[field.name]) for field in fields(kind)}
    extra = {key: own.get(_OTHER_NAMES.get(key, ""), _is_anything) for key in _EXTRA_KEYS[kind]}
    return own | extra


_CHECKS = {kind: _checks_of(kind) for kind in _NOUNS}
_CHECKS[NewWorkunit][_MAX_RETRIES] = _is_number_of_retries


# Files, durations, times


def _each(
    values: Mapping[str, Any],
    name: str,
    read: Callable[[object], T],
    *,
    at_most: int = _MAX_FILES,
) -> tuple[T, ...]:
    entries = values[name]
    if isinstance(entries, str | bytes | Mapping) or not hasattr(entries, "__iter__"):
        raise BadDescription(f"{name} is {entries!r:.60}.", "give a list.", f"/{name}")
    items = list(entries)
    if len(items) > at_most:
        what = f"{name} has {len(items)} entries."
        raise BadDescription(what, f"give at most {at_most}.", f"/{name}")
    parsed = []
    for place, value in enumerate(items):
        try:
            parsed.append(read(value))
        except BadDescription as bad:
            where = f"/{name}/{place}{bad.pointer}"
            raise BadDescription(bad.sentence, bad.hint, where) from None
    return tuple(parsed)


def _file(value: object, *, from_outside: bool) -> NewFile:
    if isinstance(value, NewFile):
        return value
    values = dict(_checked(NewFile, value, from_outside=from_outside))
    if isinstance(values.get("content"), str):
        values["content"] = values["content"].encode()
    if "content_base64" in values:
        if values.get("content") is not None:
            raise BadDescription("content and content_base64 are both given.", "give one of them.")
        values["content"] = _decoded(values.pop("content_base64"))
    if not values.get("open_name"):
        what = f"An input file has no open_name: {value!r:.100}."
        raise BadDescription(what, "name the file that the program opens.")
    return NewFile(**values)


def _decoded(value: object) -> bytes:
    try:
        if isinstance(value, str):
            return binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        pass
    what = f"content_base64 is {value!r:.60}."
    raise BadDescription(what, "give base64, with its padding.", "/content_base64")


def _output(value: object) -> NewOutput:
    if isinstance(value, str):
        return NewOutput(open_name=value)
    values = _checked(NewOutput, value)
    if not values.get("open_name"):
        what = f"An output has no open_name: {value!r:.100}."
        raise BadDescription(what, "name the file that the program writes.")
    return NewOutput(**values)


def _delay_bound(name: str, value: object) -> timedelta:
    """Read a deadline, which may be "inf"."""
    return FOREVER if value == _INFINITE else _duration(name, value)


def _reference(value: object) -> str | int:
    """Return the name or the id of a workunit."""
    if isinstance(value, str) and NAME_PATTERN.fullmatch(value):
        return value
    if type(value) is int and 0 < value <= _MAX_BIGINT:
        return value
    what = f"{value!r:.60} is neither the name nor the id of a workunit."
    raise BadDescription(what, "give a name as text, or an id as a whole number.")


def _duration(name: str, value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return timedelta(seconds=value)
    except (OverflowError, ValueError):
        pass
    raise BadDescription(f"{name} is {value!r:.60}.", "give a timedelta or seconds.", f"/{name}")


def _read_durations(values: dict[str, Any], *names: str) -> None:
    for field in names:
        for name in (field, f"{field}_seconds"):
            if values.get(name) is not None:
                values[field] = _duration(name, values.pop(name))
            elif name != field:
                values.pop(name, None)


def _moment(name: str, value: object) -> datetime:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if not isinstance(moment, datetime):
        hint = "give a datetime, or text as 2027-01-31T12:00."
        raise BadDescription(f"{name} is {value!r:.60}.", hint, f"/{name}")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
