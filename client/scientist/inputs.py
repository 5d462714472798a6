"""Converts the inputs of a submission, of several types, to workunits of the API."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from scientist.errors import UsageError
from scientist.words import duration

#: The default names under which a program opens its input and its output.
OPEN_NAME, OUTPUT_NAME = "in", "out"

#: Short names for fields of the API.
_FIELD_ALIASES = {
    "quorum": "min_quorum",
    "target": "target_nresults",
    "max_errors": "max_error_results",
    "fpops": "rsc_fpops_est",
    "memory": "rsc_memory_bound",
    "disk": "rsc_disk_bound",
    "cpus": "requested_cpus",
    "gpus": "requested_gpus",
}

#: Floating-point operations per second of a typical computer, and the smallest `rsc_fpops_bound`
#: of a workunit (a day on such a computer): clients stop a program that exceeds its bound.
_TYPICAL_FLOPS, _MIN_FPOPS_BOUND = 1e9, 8.64e13

Content = bytes | str | Path
#: The types of inputs that `work_of` converts to a workunit.
Input = Path | bytes | str | Mapping[str, Any] | tuple[str, bytes | str | Path]


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input file of a workunit.

    `source` is the content or the path of the file, or None if the project has the file.
    `reference` has the other fields of the API entry, such as `sha256` if `source` is None.
    """

    open_name: str
    source: bytes | Path | None = None
    reference: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """A workunit to submit.

    `fields` are the API's fields.  `name` is the complete name of the workunit.  If `name` is None,
    the name is generated, and `label` is a part of the generated name.
    """

    files: tuple[InputFile, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    name: str | None = None


def work_of(item: Input | object, open_name: str = OPEN_NAME) -> Work:
    """Convert one input to a workunit.  Raises UsageError for another type.

    A path or bytes are the input file, which the program opens as `open_name`.  A str is the
    command line.  A pair is a label and the input file (bytes, text or a path).  A mapping has
    fields of the API, which may have the short names of `fields_of`, and `input_files` in the forms
    of `files_of`.
    """
    match item:
        case Path():
            meta = {"input": original_name(item)}
            return Work((InputFile(open_name, item),), {"meta": meta}, label=item.stem)
        case bytes() | bytearray() | memoryview():
            return Work((InputFile(open_name, bytes(item)),))
        case str():
            return Work(fields={"command_line": item})
        case (str() as label, (bytes() | str() | Path()) as content):
            files = (InputFile(open_name, _bytes_of(content)),)
            return Work(files, {"meta": {"input": label}}, label=label)
        case Mapping():
            return _of_mapping(item)
        case _:
            hint = "give a path, bytes, a command line, a pair (name, content) or a dict."
            raise UsageError(f"A {type(item).__name__} cannot be the input of a workunit.", hint)


def original_name(path: Path) -> str:
    """Return the path of an input as text for the workunit's `meta`.

    The generated name of a workunit is ASCII and does not preserve the path.  Bytes that are not
    UTF-8 are replaced, because JSON cannot contain them.
    """
    return path.as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _bytes_of(content: Content) -> bytes | Path:
    return content.encode() if isinstance(content, str) else content


def _of_mapping(item: Mapping[str, Any]) -> Work:
    rest = dict(item)
    name, label = rest.pop("name", None), rest.pop("label", None)
    files = files_of(rest.pop("input_files", ()))
    fields = fields_of(rest)
    meta = fields.get("meta", {})
    if (names := _original_names(files)) and isinstance(meta, Mapping):
        fields["meta"] = {"input": names, **meta}
    return Work(files, fields, label, name)


def _original_names(files: Iterable[InputFile]) -> str | dict[str, str]:
    """Return the paths by open_name, or only the path if a single file has a path."""
    names = {f.open_name: original_name(f.source) for f in files if isinstance(f.source, Path)}
    return next(iter(names.values())) if len(names) == 1 else names


def files_of(
    items: Mapping[str, Content] | Iterable[Mapping[str, Any] | InputFile],
) -> tuple[InputFile, ...]:
    """Convert a mapping {open_name: content} or API entries to input files.

    An entry may have a `path` in place of its content.  Raises UsageError if an entry has no
    open_name.
    """
    if isinstance(items, Mapping):
        return tuple(InputFile(name, _bytes_of(content)) for name, content in items.items())
    return tuple(item if isinstance(item, InputFile) else _file_of(item) for item in items)


def _file_of(entry: Mapping[str, Any]) -> InputFile:
    rest = dict(entry)
    name = rest.pop("open_name", None)
    if not isinstance(name, str):
        hint = "open_name is the name under which the program opens the file."
        raise UsageError(f"An input file has no open_name: {entry!r}", hint)
    source: bytes | Path | None = None
    if "path" in rest:
        source = Path(rest.pop("path"))
    elif "content" in rest:
        source = _bytes_of(rest.pop("content"))
    elif "content_base64" in rest:
        source = base64.b64decode(rest.pop("content_base64"), validate=True)
    return InputFile(name, source, rest)


def fields_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the fields of a workunit, which may have short names, to fields of the API.

    Fields with the value None are left out.  If the run time is set, `rsc_fpops_bound` gets a
    default, which is ten times the run time and at least a day.  The deadline "inf" is infinite.

    >>> fields_of({"quorum": 2, "deadline": "3d", "outputs": "out", "priority": None})
    {'min_quorum': 2, 'delay_bound_seconds': 259200.0, 'outputs': ['out']}
    >>> fields_of({"takes": "1s"})
    {'rsc_fpops_est': 1000000000.0, 'rsc_fpops_bound': 86400000000000.0}
    """
    fields: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        if name == "deadline":
            fields["delay_bound_seconds"] = value if value == "inf" else seconds(value)
        elif name == "outputs":
            fields[name] = outputs_of(value)
        elif name == "takes":
            fields["rsc_fpops_est"] = seconds(value) * _TYPICAL_FLOPS
        else:
            fields[_FIELD_ALIASES.get(name, name)] = _plain(value)
    if "rsc_fpops_est" in fields:
        # Estimates are inexact: a program is stopped only after ten times the estimate.
        bound = max(_MIN_FPOPS_BOUND, 10 * fields["rsc_fpops_est"])
        fields.setdefault("rsc_fpops_bound", bound)
    return fields


def outputs_of(items: str | Sequence[str | Mapping[str, Any]]) -> list[str | dict[str, Any]]:
    """Convert output files to entries of the API.

    An output file is a name, ``name:max_nbytes`` or an API entry.
    """
    entries = [items] if isinstance(items, str) else list(items)
    return [_output(entry) if isinstance(entry, str) else dict(entry) for entry in entries]


def _output(text: str) -> str | dict[str, Any]:
    name, colon, nbytes = text.rpartition(":")
    if colon and nbytes.isdecimal() and name:
        return {"open_name": name, "max_nbytes": int(nbytes)}
    return text


def seconds(value: timedelta | float | str) -> float:
    """Convert a timedelta, a number of seconds or a str such as ``3d`` to seconds."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return duration(value).total_seconds() if isinstance(value, str) else float(value)


def _plain(value: Any) -> Any:  # noqa: ANN401  any JSON
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value
