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

from scheduler.work.submission.facts import NewBatch, NewFile, NewOutput, NewWorkunit

T = TypeVar("T")
#: Returns an empty string if a value is valid, else a description of what to give.
Check = Callable[[object], str]
_MOMENTS = ("start_after", "start_before", "end_before")
_NOUNS: dict[type, str] = {
    NewWorkunit: "a workunit",
    NewFile: "an input file",
    NewOutput: "an output",
    NewBatch: "a batch",
}
#: Additional keys, for values that JSON cannot represent in the fields.
_EXTRA_KEYS: dict[type, tuple[str, ...]] = {
    NewWorkunit: ("delay_bound_seconds",),
    NewFile: ("content_base64",),
    NewOutput: (),
    NewBatch: ("expires_in_seconds",),
}
#: Keys that `from_outside` refuses: paths are on the server's disk, the server sets dependency
#: counts and `keep_outputs`, and durations in seconds have a key that contains the unit.
_INTERNAL_KEYS: dict[type, frozenset[str]] = {
    NewWorkunit: frozenset({"pending_dependency_count", "delay_bound"}),
    NewFile: frozenset({"path"}),
    NewOutput: frozenset(),
    NewBatch: frozenset({"keep_outputs"}),
}
#: Common wrong keys that do not resemble the right key, with the key that the hint suggests.
_ALIASES = {"deadline": "delay_bound_seconds"}
_KEYS: dict[type, tuple[str, ...]] = {
    kind: (*(field.name for field in fields(kind)), *_EXTRA_KEYS[kind]) for kind in _NOUNS
}
#: PostgreSQL's bigint.
_MAX_BIGINT = 2**63 - 1
#: Limit on the number of input files, and of outputs, of a workunit.
_MAX_FILES = 1000


class BadDescription(ValueError):
    """A dict does not describe a workunit or batch. Hint: see the message.

    `pointer` is the JSON Pointer of the fault, as ``/input_files/0/open_name``.
    """

    def __init__(self, sentence: str, hint: str, pointer: str = "") -> None:
        super().__init__(f"{sentence} Hint: {hint}")
        self.sentence, self.hint, self.pointer = sentence, hint, pointer


def new_workunit(value: object, *, from_outside: bool = False) -> NewWorkunit:
    """Read the description of a workunit; raises `BadDescription`.

    The keys are the fields of `NewWorkunit`, or `delay_bound_seconds` in place of `delay_bound`.
    Durations are timedeltas or seconds.  Times are datetimes or ISO text; without a time zone, they
    are in UTC.  An input file is a `NewFile` or a dict of its fields, with `content` as bytes or
    text, or with `content_base64`.  An output is a dict of the fields of `NewOutput`, or its
    `open_name`.  With `from_outside`, the keys that only the server's own programs may use are
    refused: `path`, `pending_dependency_count` and `delay_bound`.
    """
    values = dict(_checked(NewWorkunit, value, from_outside=from_outside))
    if "input_files" in values:
        values["input_files"] = _each(
            values, "input_files", lambda entry: _file(entry, from_outside=from_outside)
        )
    if "outputs" in values:
        values["outputs"] = _each(values, "outputs", _output)
    for name in ("delay_bound", "delay_bound_seconds"):
        if name in values:
            values["delay_bound"] = _duration(name, values.pop(name))
    for name in _MOMENTS:
        if values.get(name) is not None:
            values[name] = _moment(name, values[name])
    return NewWorkunit(**values)


def new_batch(value: object, *, now: datetime, from_outside: bool = False) -> NewBatch:
    """Read the description of a batch; raises `BadDescription`.

    The keys are the fields of `NewBatch`, or `expires_in_seconds` in place of `expire_at`.
    """
    values = dict(_checked(NewBatch, value, from_outside=from_outside))
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
    return own | dict.fromkeys(_EXTRA_KEYS[kind], _is_anything)


_CHECKS = {kind: _checks_of(kind) for kind in _NOUNS}


# Files, durations, times


def _each(values: Mapping[str, Any], name: str, read: Callable[[object], T]) -> tuple[T, ...]:
    entries = values[name]
    if isinstance(entries, str | bytes | Mapping) or not hasattr(entries, "__iter__"):
        raise BadDescription(f"{name} is {entries!r:.60}.", "give a list.", f"/{name}")
    items = list(entries)
    if len(items) > _MAX_FILES:
        what = f"{name} has {len(items)} entries."
        raise BadDescription(what, f"give at most {_MAX_FILES}.", f"/{name}")
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


def _duration(name: str, value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return timedelta(seconds=value)
    except (OverflowError, ValueError):
        pass
    raise BadDescription(f"{name} is {value!r:.60}.", "give a timedelta or seconds.", f"/{name}")


def _moment(name: str, value: object) -> datetime:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if not isinstance(moment, datetime):
        hint = "give a datetime, or text as 2027-01-31T12:00."
        raise BadDescription(f"{name} is {value!r:.60}.", hint, f"/{name}")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
