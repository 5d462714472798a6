"""What a scientist hands in, in any of several shapes, as workunits to be."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from scientist.errors import UsageError
from scientist.words import duration

#: The name under which a program opens its input, and the name of its output, unless one is said.
OPEN_NAME, OUTPUT_NAME = "in", "out"

#: Names that people say for the fields of the API.
_SAID = {
    "quorum": "min_quorum",
    "target": "target_nresults",
    "max_errors": "max_error_results",
    "fpops": "rsc_fpops_est",
    "memory": "rsc_memory_bound",
    "disk": "rsc_disk_bound",
}
#: Fields of a workunit whose values are durations.
_DURATIONS = {"deadline": "delay_bound_seconds"}

#: How many operations a usual computer does in a second, and what clients let a program have at
#: least before they stop it.
_USUAL_SPEED, _LEAST_BOUND = 1e9, 8.64e13

Content = bytes | str | Path
#: Anything that can become a workunit; see `work_of`.
Input = Path | bytes | str | Mapping[str, Any] | tuple[str, bytes | str | Path]


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input file: its bytes, where they are read from, or what the project knows them as."""

    open_name: str
    source: bytes | Path | None = None
    known: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """A workunit to be.

    `name` is the workunit's own name, `label` a part of one that is made; `fields` are the API's.
    """

    files: tuple[InputFile, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    name: str | None = None


def work_of(one: Input | object, open_name: str = OPEN_NAME) -> Work:
    """Read one input.  Raises UsageError.

    A path or bytes: the input file.  A str: the command line.  A pair: a label, and the content
    of the input file (bytes, text, or the path of it).  A mapping: the fields of the API, with
    `input_files` as {open_name: content} or a list of entries, and what `fields_of` takes.
    """
    match one:
        case Path():
            return Work(
                (InputFile(open_name, one),), {"meta": {"input": original(one)}}, label=one.stem
            )
        case bytes() | bytearray() | memoryview():
            return Work((InputFile(open_name, bytes(one)),))
        case str():
            return Work(fields={"command_line": one})
        case (str() as label, (bytes() | str() | Path()) as content):
            files = (InputFile(open_name, _bytes_of(content)),)
            return Work(files, {"meta": {"input": label}}, label=label)
        case Mapping():
            return _of_mapping(one)
        case _:
            hint = "give a path, bytes, a command line, a pair (name, content) or a dict."
            raise UsageError(f"A {type(one).__name__} is no input of a workunit.", hint)


def original(path: Path) -> str:
    """The name of an input as it was given, for its workunit's `meta`.

    Names of workunits are ASCII.  Bytes that are no UTF-8 cannot be sent as JSON.
    """
    return path.as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _bytes_of(content: Content) -> bytes | Path:
    return content.encode() if isinstance(content, str) else content


def _of_mapping(said: Mapping[str, Any]) -> Work:
    rest = dict(said)
    name, label = rest.pop("name", None), rest.pop("label", None)
    files = files_of(rest.pop("input_files", ()))
    fields = fields_of(rest)
    meta = fields.get("meta", {})
    if (names := _originals(files)) and isinstance(meta, Mapping):
        fields["meta"] = {"input": names, **meta}
    return Work(files, fields, label, name)


def _originals(files: Iterable[InputFile]) -> str | dict[str, str]:
    """The name of the one file that has a path, or of each by what the program opens."""
    names = {one.open_name: original(one.source) for one in files if isinstance(one.source, Path)}
    return next(iter(names.values())) if len(names) == 1 else names


def files_of(
    said: Mapping[str, Content] | Iterable[Mapping[str, Any] | InputFile],
) -> tuple[InputFile, ...]:
    """Read input files: {open_name: content}, or entries as of the API, also with a `path`."""
    if isinstance(said, Mapping):
        return tuple(InputFile(name, _bytes_of(content)) for name, content in said.items())
    return tuple(one if isinstance(one, InputFile) else _file_of(one) for one in said)


def _file_of(entry: Mapping[str, Any]) -> InputFile:
    rest = dict(entry)
    name = rest.pop("open_name", None)
    if not isinstance(name, str):
        raise UsageError(f"An input file has no open_name: {entry!r}", "say what the app opens.")
    source: bytes | Path | None = None
    if "path" in rest:
        source = Path(rest.pop("path"))
    elif "content" in rest:
        source = _bytes_of(rest.pop("content"))
    elif "content_base64" in rest:
        source = base64.b64decode(rest.pop("content_base64"), validate=True)
    return InputFile(name, source, rest)


def fields_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """The API's fields of a workunit, from those and people's names; None says nothing.

    >>> fields_of({"quorum": 2, "deadline": "3d", "outputs": "out", "priority": None})
    {'min_quorum': 2, 'delay_bound_seconds': 259200.0, 'outputs': ['out']}
    >>> fields_of({"takes": "1s"})
    {'rsc_fpops_est': 1000000000.0, 'rsc_fpops_bound': 86400000000000.0}
    """
    found: dict[str, Any] = {}
    for name, value in said.items():
        if value is None:
            continue
        if name in _DURATIONS:
            found[_DURATIONS[name]] = seconds(value)
        elif name == "outputs":
            found[name] = outputs_of(value)
        elif name == "takes":
            found["rsc_fpops_est"] = seconds(value) * _USUAL_SPEED
        else:
            found[_SAID.get(name, name)] = _plain(value)
    if "rsc_fpops_est" in found:
        # An estimate is one: what takes ten times as long is stopped, and not before.
        bound = max(_LEAST_BOUND, 10 * found["rsc_fpops_est"])
        found.setdefault("rsc_fpops_bound", bound)
    return found


def outputs_of(said: str | Sequence[str | Mapping[str, Any]]) -> list[str | dict[str, Any]]:
    """Output files: names, ``name:max_nbytes``, or entries as the API takes them."""
    given = [said] if isinstance(said, str) else list(said)
    return [_output(one) if isinstance(one, str) else dict(one) for one in given]


def _output(text: str) -> str | dict[str, Any]:
    name, colon, nbytes = text.rpartition(":")
    if colon and nbytes.isdecimal() and name:
        return {"open_name": name, "max_nbytes": int(nbytes)}
    return text


def seconds(value: timedelta | float | str) -> float:
    """A duration in seconds, said as a timedelta, a number or a text such as ``3d``."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return duration(value).total_seconds() if isinstance(value, str) else float(value)


def _plain(value: Any) -> Any:  # noqa: ANN401  anything JSON can say
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value
