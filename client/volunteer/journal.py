"""Saves the state of the client on disk atomically, and loads it."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import types
import typing
from enum import StrEnum
from typing import Any

from volunteer.records import HeldFile, HeldResult, State
from volunteer.wire.messages import AppVersion, Workunit

if typing.TYPE_CHECKING:
    from pathlib import Path

T = typing.TypeVar("T")
FORMAT = 1
_TRANSIENT = frozenset({"busy", "contacted", "early_aborts", "paused", "progress"})
# The state has many of these records, and few of them change between two saves. Therefore their
# JSON is cached.
_CACHED_TYPES = (AppVersion, HeldFile, HeldResult, Workunit)


class DamagedJournalError(Exception):
    """State files exist, but none of them can be read. The message contains a hint."""


class Journal:
    """The files `state.json` and `state.previous.json` in the folder of a client."""

    def __init__(self, folder: Path) -> None:
        self.current = folder / "state.json"
        self.previous = folder / "state.previous.json"
        self._texts: dict[int, tuple[Any, str]] = {}

    def save(self, state: State) -> None:
        """Replace `state.json` atomically, and keep its old content in `state.previous.json`.

        If the client is killed during this call, the old or the new state is on the disk.
        """
        written = self.current.with_suffix(".writing")
        with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(f'{{"format": {FORMAT}, "state": {self._text(state)}}}')
            file.flush()
            os.fsync(file.fileno())
        if self.current.exists():
            self.previous.unlink(missing_ok=True)
            os.link(self.current, self.previous)
        written.replace(self.current)
        _sync_folder(self.current.parent)

    def _text(self, state: State) -> str:
        """Return the state as JSON, and reuse the text of records that have not changed."""
        former, self._texts = self._texts, {}

        def write(value: Any) -> str:  # noqa: ANN401 - as `to_plain`
            if dataclasses.is_dataclass(value):
                value = _fields(value)
            if not isinstance(value, dict):
                return json.dumps(to_plain(value))
            items = []
            for key, item in value.items():
                # Records are immutable. The cache refers to the record, so the id is unique.
                kept = former.get(id(item))
                if kept is None:
                    is_cached = isinstance(item, _CACHED_TYPES)
                    text = json.dumps(to_plain(item)) if is_cached else write(item)
                    kept = item, f"{json.dumps(key)}: {text}"
                if isinstance(item, _CACHED_TYPES):
                    self._texts[id(item)] = kept
                items.append(kept[1])
            return f"{{{', '.join(items)}}}"

        return write(state)

    def load(self) -> State | None:
        """Return the saved state, or None if the folder has no state file.

        If `state.json` is missing or damaged, the previous state is returned. Raises
        DamagedJournalError if state files exist and none of them can be read.
        """
        reasons = []
        for path in (self.current, self.previous):
            try:
                content = json.loads(path.read_text())
                if content["format"] != FORMAT:
                    reasons.append(f"{path} has the format {content['format']}")
                    continue
                return from_plain(State, content["state"])
            except FileNotFoundError:
                continue
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                reasons.append(f"{path}: {error}")
        if reasons:
            raise DamagedJournalError(
                f"The journal cannot be read ({'; '.join(reasons)}).\n"
                f"Hint: move {self.current.parent} away and attach again; the project sends the "
                "lost results to other hosts."
            )
        return None


def load_state(folder: Path) -> State:
    """Return the saved state of a folder, or a new state with a random `host_cpid`.

    Raises DamagedJournalError if state files exist and none of them can be read.
    """
    return Journal(folder).load() or State(host_cpid=secrets.token_hex(16))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def to_plain(value: Any) -> Any:  # noqa: ANN401 - converts every type of the records
    """Convert records to JSON types.

    Fields in `_TRANSIENT` are omitted, and so are fields that equal their default value.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain(item) for name, item in _fields(value).items()}
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return value


def _fields(record: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    return {
        field.name: value
        for field in dataclasses.fields(record)
        if field.name not in _TRANSIENT and (value := getattr(record, field.name)) != field.default
    }


def from_plain(kind: type[T], value: Any) -> T:  # noqa: ANN401 - as above
    """Convert JSON types to a record of the class `kind`, without unknown fields.

    Raises TypeError, ValueError or AttributeError for a value of the wrong type.
    """
    return typing.cast("T", _read(kind, value))


def _read(kind: Any, value: Any) -> Any:  # noqa: ANN401 - as above
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        items = {name: item for name, item in value.items() if name in hints}
        return typing.cast("type", kind)(
            **{name: _read(hints[name], item) for name, item in items.items()}
        )
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        return None if value is None else _read(arguments[0], value)
    if origin is tuple:
        return tuple(_read(arguments[0], item) for item in value)
    if origin is dict:
        return {key: _read(arguments[1], item) for key, item in value.items()}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind(value)
    if kind is float and isinstance(value, int):
        return float(value)
    if not isinstance(value, kind):
        raise TypeError(f"{value!r:.60} is not of type {kind.__name__}")
    return value
