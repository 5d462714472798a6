"""Writes the CSV table of a folder of outputs, with a row for each workunit."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from scientist import models

NAME = "MANIFEST.csv"
_HEAD = ("workunit", "status", "errors")
Lines = Callable[[], Iterable[dict[str, Any]]]


def is_manifest_table(path: Path) -> bool:
    """Return whether the file is a table of an earlier fetch, or does not exist."""
    try:
        with path.open("rb") as file:
            return file.read(200).startswith(",".join(_HEAD).encode())
    except FileNotFoundError:
        return True
    except OSError:
        return False


def write(
    file: IO[str], lines: Lines, paths_of: Callable[[models.ManifestEntry], Sequence[str]]
) -> None:
    """Write a row for each workunit, from its last line in the manifest.

    The columns are workunit, status and errors, then the keys of `meta`, then the paths of outputs.
    If another column has the same heading, the heading is `meta.KEY` or `output.NAME`.  `lines` is
    called twice, so that the lines need not be kept in memory.  `paths_of` returns the paths of a
    workunit's outputs.
    """
    last: dict[str, int] = {}
    keys: dict[str, None] = {}
    outputs: dict[str, None] = {}
    for number, line in enumerate(lines()):
        last[str(line.get("name"))] = number
        keys |= dict.fromkeys(line.get("meta") or {})
        entries = line.get("outputs") or ()
        outputs |= dict.fromkeys(output.get("open_name", "") for output in entries)
    taken = set(_HEAD)
    key_columns = _columns(keys, "meta", taken)
    output_columns = _columns(outputs, "output", taken)
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow([*_HEAD, *key_columns.values(), *output_columns.values()])
    for number, line in enumerate(lines()):
        if last[str(line.get("name"))] != number:
            continue
        entry = models.read(models.ManifestEntry, line)
        outputs_with_paths = zip(entry.outputs, paths_of(entry), strict=True)
        paths = {output.open_name: path for output, path in outputs_with_paths}
        row = [entry.name, entry.status, " ".join(entry.errors)]
        row += [_text(entry.meta.get(key)) for key in key_columns]
        rows.writerow([*row, *(paths.get(name, "") for name in output_columns)])


def _columns(names: Iterable[str], kind: str, taken: set[str]) -> dict[str, str]:
    """Return the heading of the column for each name, and add the headings to `taken`.

    The heading is the name, or ``kind.name`` if `taken` has the name already.
    """
    headings = {}
    for name in names:
        headings[name] = f"{kind}.{name}" if name in taken else name
        taken.add(headings[name])
    return headings


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
