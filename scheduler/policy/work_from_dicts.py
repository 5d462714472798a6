"""Reads workunits that a program, a generator, describes as dicts [pure]."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any

from scheduler.facts.new_work import NewFile, NewOutput, NewWorkunit

_MOMENTS = ("start_after", "start_before", "end_before")
_KNOWN: dict[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind)) for kind in (NewWorkunit, NewFile, NewOutput)
}
_WORDS: dict[type, str] = {
    NewWorkunit: "a workunit",
    NewFile: "an input file",
    NewOutput: "an output",
}


class BadDescription(ValueError):
    """A dict does not describe a workunit. Hint: the message names what is known."""


def new_workunit(given: object) -> NewWorkunit:
    """Read one workunit; raises `BadDescription`.

    The keys are the fields of `NewWorkunit`; `delay_bound` is a timedelta or seconds, moments are
    datetimes or ISO text (UTC if they name no zone); `input_files` are dicts of `NewFile`, whose
    `content` may be text, `outputs` dicts of `NewOutput` or names.
    """
    said = dict(_checked(NewWorkunit, given))
    said["input_files"] = tuple(_file(one) for one in _listed(said, "input_files"))
    said["outputs"] = tuple(_output(one) for one in _listed(said, "outputs"))
    if "delay_bound" in said:
        said["delay_bound"] = _duration(said["delay_bound"])
    for name in _MOMENTS:
        if said.get(name) is not None:
            said[name] = _moment(name, said[name])
    return NewWorkunit(**said)


def _checked(kind: type, given: object) -> Mapping[str, Any]:
    what = _WORDS[kind]
    if not isinstance(given, Mapping):
        msg = f"{given!r:.100} is not {what}. Hint: give a dict of its fields."
        raise BadDescription(msg)
    known: Collection[str] = _KNOWN[kind]
    for name in given:
        if name not in known:
            near = get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
            msg = f"{name!r:.60} is no field of {what}. Hint: {hint}"
            raise BadDescription(msg)
    return given


def _listed(said: Mapping[str, Any], name: str) -> list[Any]:
    value = said.get(name, ())
    if isinstance(value, str | bytes | Mapping):
        msg = f"{name} is {value!r:.60}. Hint: give a list."
        raise BadDescription(msg)
    return list(value)


def _file(given: object) -> NewFile:
    said = dict(_checked(NewFile, given))
    if isinstance(said.get("content"), str):
        said["content"] = said["content"].encode()
    if not said.get("open_name"):
        msg = f"An input file has no open_name: {given!r:.100}. Hint: say what the program opens."
        raise BadDescription(msg)
    return NewFile(**said)


def _output(given: object) -> NewOutput:
    if isinstance(given, str):
        return NewOutput(open_name=given)
    said = _checked(NewOutput, given)
    if not said.get("open_name"):
        msg = f"An output has no open_name: {given!r:.100}. Hint: say what the program writes."
        raise BadDescription(msg)
    return NewOutput(**said)


def _duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        msg = f"delay_bound is {value!r:.60}. Hint: give a timedelta or seconds."
        raise BadDescription(msg)
    return timedelta(seconds=value)


def _moment(name: str, value: object) -> datetime:
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, datetime):
        msg = f"{name} is {value!r:.60}. Hint: give a datetime, or text as 2027-01-31T12:00."
        raise BadDescription(msg)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
