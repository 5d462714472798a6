"""A folder's table: a row for each workunit, with parameters, names and outputs."""

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


def is_ours(path: Path) -> bool:
    """Return whether a fetch wrote the file, or the file does not exist."""
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
    """Write a row for each workunit of the manifest's lines, the last line of each.

    Columns: name, status and errors, then each key of `meta`, then the path of each output. A key
    that another column has is written as `meta.KEY`, an output as `output.NAME`.  The lines are
    read twice, so that memory holds only the names.
    """
    last: dict[str, int] = {}
    keys: dict[str, None] = {}
    outputs: dict[str, None] = {}
    for number, line in enumerate(lines()):
        last[str(line.get("name"))] = number
        keys |= dict.fromkeys(line.get("meta") or {})
        outputs |= dict.fromkeys(one.get("open_name", "") for one in line.get("outputs") or ())
    taken = set(_HEAD)
    key_columns = _columns(keys, "meta", taken)
    output_columns = _columns(outputs, "output", taken)
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow([*_HEAD, *key_columns.values(), *output_columns.values()])
    for number, line in enumerate(lines()):
        if last[str(line.get("name"))] != number:
            continue
        entry = models.read(models.ManifestEntry, line)
        named = zip(entry.outputs, paths_of(entry), strict=True)
        paths = {one.open_name: path for one, path in named}
        row = [entry.name, entry.status, " ".join(entry.errors)]
        row += [_text(entry.meta.get(key)) for key in key_columns]
        rows.writerow([*row, *(paths.get(name, "") for name in output_columns)])


def _columns(names: Iterable[str], kind: str, taken: set[str]) -> dict[str, str]:
    """Return the heading of each name; the headings join those that are taken."""
    found = {}
    for name in names:
        found[name] = f"{kind}.{name}" if name in taken else name
        taken.add(found[name])
    return found


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
