"""Assimilates by adding records to a dataset of JSON lines or CSV, exactly once.

Theory of operation.  A dataset is the folder ``var/results/<app>/<name>/`` of part files.  Each
part has a fixed range of ``part_size`` workunit ids, so that all records of a workunit are in one
part.  Every line begins with the workunit's key.  To add records, the assimilator locks the part,
removes lines with the same key, adds the new lines, and renames the new part over the old one.
After a crash or an expired lease, a workunit may be assimilated again.  This replaces its lines by
equal lines.  A part is complete at every moment, so no recovery is needed.  Concurrent assimilators
wait for the lock.

The records of a batch are collected, so that each part is written once per batch.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from daemons.science import checking
from daemons.science.interfaces import BadOptions, Records
from daemons.science.records import BadRecords, chosen, records
from scheduler import storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import timedelta
    from pathlib import Path

    from daemons.science.interfaces import Assimilation

#: The names of the server's own columns; records must not contain them.
KEY, WORKUNIT, ERRORS = "_key", "_workunit", "_errors"
_KNOWN = {
    "name": checking.text,
    "format": checking.one_of("jsonl", "csv"),
    "output": checking.text,
    "columns": checking.texts,
    "failed": checking.one_of("skip", "record"),
    "part_size": checking.number(1, 1_000_000),
}


@dataclass(frozen=True, slots=True)
class Dataset:
    """The dataset of an app, which is an assimilator.

    `columns` contains the columns of a CSV file except those that the server adds.
    """

    name: str = "dataset"
    format: str = "jsonl"
    output: str | None = None
    columns: tuple[str, ...] = ()
    failed: str = "skip"
    part_size: int = 1000
    transactional: ClassVar[bool] = False

    def __call__(self, assimilation: Assimilation) -> list[Records]:
        """Return the records of a workunit; raises `BadRecords` for an unreadable output."""
        if assimilation.failed and self.failed == "skip":
            return []
        own: dict[str, Any] = {KEY: assimilation.key, WORKUNIT: assimilation.workunit_name}
        if assimilation.failed:
            rows: list[dict[str, Any]] = [{ERRORS: list(assimilation.errors)}]
        else:
            output = chosen(assimilation, self.output)
            rows = records(output) if self.format == "jsonl" else self._csv_rows(output.path)
        if reserved := {name for row in rows for name in row if name in own}:
            raise BadRecords(
                f"A record has a field {min(reserved)!r}, which is reserved. Hint: rename it."
            )
        number = assimilation.workunit_id // self.part_size
        lines = [self._line(own | row) for row in rows]
        return [
            Records(
                assimilation.app,
                f"{self.name}/{number:09d}.{self.format}",
                assimilation.workunit_id,
                self._mark(assimilation.key),
                self._header(),
                tuple(lines),
            )
        ]

    def _line(self, row: Mapping[str, Any]) -> bytes:
        if self.format == "jsonl":
            return json.dumps(row, ensure_ascii=False).encode() + b"\n"
        return _csv([row.get(column, "") for column in (KEY, WORKUNIT, *self.columns)])

    def _mark(self, key: str) -> bytes:
        """Return the bytes with which this workunit's lines begin; they contain its key."""
        if self.format == "jsonl":
            return b"{%s: %s, " % (
                json.dumps(KEY).encode(),
                json.dumps(key, ensure_ascii=False).encode(),
            )
        return _csv([key]).rstrip(b"\r\n") + b","

    def _header(self) -> bytes:
        return _csv([KEY, WORKUNIT, *self.columns]) if self.format == "csv" else b""

    def _csv_rows(self, path: Path) -> list[dict[str, Any]]:
        reader = csv.DictReader(
            io.StringIO(path.read_text(encoding="utf-8-sig"), newline=""), strict=True
        )
        try:
            rows = list(reader)
        except csv.Error as error:
            raise BadRecords(f"Output {path.name} is not CSV: {error}.") from error
        if list(reader.fieldnames or ()) != list(self.columns):
            raise BadRecords(
                f"Output {path.name} has the columns {reader.fieldnames}, the dataset "
                f"{list(self.columns)}. Hint: the first line must list the dataset's columns."
            )
        for row in rows:
            # DictReader stores surplus fields under the key None, and missing fields as None.
            if None in row or None in row.values():
                raise BadRecords(
                    f"A line of output {path.name} does not have one field per column."
                )
            if any("\n" in value or "\r" in value for value in row.values()):
                raise BadRecords(f"A field of output {path.name} contains a line break.")
        return rows


def make(options: object, _time_limit: timedelta) -> Dataset:
    """Return the dataset of an app's options; raises `BadOptions`."""
    read = checking.checked("dataset", options, _KNOWN)
    dataset = Dataset(**{**read, "part_size": int(read.get("part_size", 1000))})
    if dataset.format == "csv" and not dataset.columns:
        raise BadOptions(
            "dataset needs the option 'columns' for CSV. Hint: list the program's columns."
        )
    if dataset.format == "csv" and dataset.failed == "record":
        raise BadOptions(
            "A CSV dataset has no column for failures. Hint: use the format jsonl, or failed=skip."
        )
    if dataset.format == "jsonl" and dataset.columns:
        raise BadOptions("Only a CSV dataset has columns. Hint: add the format csv.")
    try:
        storage.check_name(dataset.name)
    except storage.BadFileName as error:
        raise BadOptions(f"The dataset's name is not a file name: {error}") from error
    return dataset


def put(gathered: Iterable[Records]) -> tuple[list[Path], dict[int, Exception]]:
    """Write the records of a batch to their parts.

    Returns the paths of the changed parts, and a dict of errors by workunit id.
    """
    parts: dict[tuple[str, str], list[Records]] = defaultdict(list)
    for entry in gathered:
        parts[entry.app, entry.part].append(entry)
    paths: list[Path] = []
    failures: dict[int, Exception] = {}
    for (app, part), added in parts.items():
        try:
            change = partial(merged, added=added)
            paths.append(storage.change_result(app=app, relative=part, change=change))
        except (OSError, BadRecords) as error:
            failures |= dict.fromkeys((entry.workunit_id for entry in added), error)
    return paths, failures


def merged(old: bytes, added: list[Records]) -> bytes:
    """Return the content of a part after adding records.

    The records of a workunit replace its older records.  Raises `BadRecords` if the part has a
    different header.
    """
    header = added[0].header
    lines = old.splitlines(keepends=True)
    if header and lines:
        if lines[0] != header:
            raise BadRecords(
                "The part's columns differ from the dataset's. Hint: give the dataset a new name."
            )
        lines = lines[1:]
    marks = tuple(entry.mark for entry in added)
    kept_lines = [line for line in lines if not line.startswith(marks)]
    return header + b"".join(kept_lines) + b"".join(line for entry in added for line in entry.lines)


def _csv(fields: Iterable[object]) -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerow(fields)
    return buffer.getvalue().encode()
