"""Reads workunits and batches that a program describes as dicts [pure].

What a generator writes (timedeltas, datetimes, bytes) and what JSON can say (seconds, moments as
text, ``content_base64``) are read by the same functions.
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
#: Says nothing if a value is fine, else what to give.
Check = Callable[[object], str]
_MOMENTS = ("start_after", "start_before", "end_before")
_WORDS: dict[type, str] = {
    NewWorkunit: "a workunit",
    NewFile: "an input file",
    NewOutput: "an output",
    NewBatch: "a batch",
}
#: Names for what JSON cannot say otherwise.
_ALSO: dict[type, tuple[str, ...]] = {
    NewWorkunit: ("delay_bound_seconds",),
    NewFile: ("content_base64",),
    NewOutput: (),
    NewBatch: ("expires_in_seconds",),
}
#: What may not be said from outside: paths are of the server's own disk, what a workunit waits for
#: is counted down by the server's own programs, and seconds have a name that says so.
_INSIDE: dict[type, frozenset[str]] = {
    NewWorkunit: frozenset({"pending_dependency_count", "delay_bound"}),
    NewFile: frozenset({"path"}),
    NewOutput: frozenset(),
    NewBatch: frozenset({"keep_outputs"}),
}
#: What people say whose names are not like those of the fields.
_FOR = {"deadline": "delay_bound_seconds"}
_KNOWN: dict[type, tuple[str, ...]] = {
    kind: (*(field.name for field in fields(kind)), *_ALSO[kind]) for kind in _WORDS
}
#: PostgreSQL's bigint.
_MOST = 2**63 - 1
#: So many input files or outputs a workunit may have.
_MOST_FILES = 1000


class BadDescription(ValueError):
    """A dict does not describe a workunit; `pointer` says where. Hint: the message says what."""

    def __init__(self, sentence: str, hint: str, pointer: str = "") -> None:
        """Keep both, and where it is: ``/input_files/0/open_name``."""
        super().__init__(f"{sentence} Hint: {hint}")
        self.sentence, self.hint, self.pointer = sentence, hint, pointer


def new_workunit(given: object, *, from_outside: bool = False) -> NewWorkunit:
    """Read one workunit; raises `BadDescription`.

    The keys are the fields of `NewWorkunit`; `delay_bound` is a timedelta or seconds, as is
    `delay_bound_seconds`; moments are datetimes or ISO text (UTC if they name no zone);
    `input_files` are dicts of `NewFile`, whose `content` may be text, or `content_base64`;
    `outputs` dicts of `NewOutput` or names.  `from_outside` refuses what may only be said by the
    server's own programs: paths, how many dependencies are pending, and `delay_bound`.
    """
    said = dict(_checked(NewWorkunit, given, from_outside=from_outside))
    if "input_files" in said:
        said["input_files"] = _each(
            said, "input_files", lambda one: _file(one, from_outside=from_outside)
        )
    if "outputs" in said:
        said["outputs"] = _each(said, "outputs", _output)
    for name in ("delay_bound", "delay_bound_seconds"):
        if name in said:
            said["delay_bound"] = _duration(name, said.pop(name))
    for name in _MOMENTS:
        if said.get(name) is not None:
            said[name] = _moment(name, said[name])
    return NewWorkunit(**said)


def new_batch(given: object, *, now: datetime, from_outside: bool = False) -> NewBatch:
    """Read what a batch shall be; raises `BadDescription`.

    The keys are the fields of `NewBatch`, or `expires_in_seconds` in place of `expire_at`.
    """
    said = dict(_checked(NewBatch, given, from_outside=from_outside))
    if said.get("expire_at") is not None:
        said["expire_at"] = _moment("expire_at", said["expire_at"])
    seconds = said.pop("expires_in_seconds", None)
    if seconds is not None:
        if said.get("expire_at") is not None:
            what = "expire_at and expires_in_seconds are both given."
            raise BadDescription(what, "give one of them.", "/expires_in_seconds")
        try:
            said["expire_at"] = now + _duration("expires_in_seconds", seconds)
        except OverflowError:
            what = f"expires_in_seconds is {seconds!r:.60}."
            raise BadDescription(what, "give less.", "/expires_in_seconds") from None
    return NewBatch(**said)


def _checked(kind: type, given: object, *, from_outside: bool = False) -> Mapping[str, Any]:
    what = _WORDS[kind]
    if not isinstance(given, Mapping):
        raise BadDescription(f"{given!r:.100} is not {what}.", "give a dict of its fields.")
    known, checks = _KNOWN[kind], _CHECKS[kind]
    for name, value in given.items():
        check = checks.get(name)
        if check is None or (from_outside and name in _INSIDE[kind]):
            allowed = [one for one in known if not (from_outside and one in _INSIDE[kind])]
            raise _unknown(str(name), allowed, what)
        if said := check(value):
            raise BadDescription(f"{name} is {value!r:.60}.", f"give {said}.", f"/{name}")
    return given


def _unknown(name: str, known: Collection[str], what: str) -> BadDescription:
    near = [one for one in (_FOR.get(name),) if one in known] or get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
    pointer = f"/{name.replace('~', '~0').replace('/', '~1')[:100]}"
    return BadDescription(f"{name!r:.60} is no field of {what}.", hint, pointer)


# What each field may be: "" if a value is fine, else what to give


def _is_text(value: object) -> str:
    return "" if type(value) is str else "a text"


def _is_flag(value: object) -> str:
    return "" if type(value) is bool else "true or false"


def _is_whole(value: object) -> str:
    return "" if type(value) is int and -_MOST <= value <= _MOST else "a whole number"


def _is_number(value: object) -> str:
    return "" if type(value) in (int, float) else "a number"


def _is_object(value: object) -> str:
    return "" if isinstance(value, Mapping) else "an object"


def _is_content(value: object) -> str:
    return "" if isinstance(value, str | bytes) else "text or bytes"


def _is_anything(_value: object) -> str:
    return ""


_BY_TYPE: dict[object, Check] = {
    str: _is_text,
    bool: _is_flag,
    int: _is_whole,
    float: _is_number,
    bytes: _is_content,
}


def _check_of(hint: object) -> Check:
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    check = next((_BY_TYPE[kind] for kind in kinds if kind in _BY_TYPE), None)
    if check is None:
        # Lists, moments and durations are read, and judged by who reads them.
        return _is_object if getattr(hint, "__origin__", None) is Mapping else _is_anything
    if type(None) not in kinds:
        return check
    return lambda value: "" if value is None else check(value) and f"{check(value)}, or null"


def _checks_of(kind: type) -> dict[str, Check]:
    hints = get_type_hints(kind)
    own = {field.name: _check_of(hints[field.name]) for field in fields(kind)}
    return own | dict.fromkeys(_ALSO[kind], _is_anything)


_CHECKS = {kind: _checks_of(kind) for kind in _WORDS}


# Files, durations, moments


def _each(said: Mapping[str, Any], name: str, read: Callable[[object], T]) -> tuple[T, ...]:
    given = said[name]
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__iter__"):
        raise BadDescription(f"{name} is {given!r:.60}.", "give a list.", f"/{name}")
    values = list(given)
    if len(values) > _MOST_FILES:
        what = f"{name} has {len(values)} entries."
        raise BadDescription(what, f"give {_MOST_FILES} at most.", f"/{name}")
    found = []
    for place, value in enumerate(values):
        try:
            found.append(read(value))
        except BadDescription as bad:
            where = f"/{name}/{place}{bad.pointer}"
            raise BadDescription(bad.sentence, bad.hint, where) from None
    return tuple(found)


def _file(given: object, *, from_outside: bool) -> NewFile:
    if isinstance(given, NewFile):
        return given
    said = dict(_checked(NewFile, given, from_outside=from_outside))
    if isinstance(said.get("content"), str):
        said["content"] = said["content"].encode()
    if "content_base64" in said:
        if said.get("content") is not None:
            raise BadDescription("content and content_base64 are both given.", "give one of them.")
        said["content"] = _decoded(said.pop("content_base64"))
    if not said.get("open_name"):
        what = f"An input file has no open_name: {given!r:.100}."
        raise BadDescription(what, "say what the program opens.")
    return NewFile(**said)


def _decoded(value: object) -> bytes:
    try:
        if isinstance(value, str):
            return binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        pass
    what = f"content_base64 is {value!r:.60}."
    raise BadDescription(what, "give base64, with its padding.", "/content_base64")


def _output(given: object) -> NewOutput:
    if isinstance(given, str):
        return NewOutput(open_name=given)
    said = _checked(NewOutput, given)
    if not said.get("open_name"):
        what = f"An output has no open_name: {given!r:.100}."
        raise BadDescription(what, "say what the program writes.")
    return NewOutput(**said)


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
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, datetime):
        hint = "give a datetime, or text as 2027-01-31T12:00."
        raise BadDescription(f"{name} is {value!r:.60}.", hint, f"/{name}")
    return found if found.tzinfo else found.replace(tzinfo=UTC)
