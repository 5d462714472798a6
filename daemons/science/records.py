"""Reads the records of an output, which is JSON or JSON lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daemons.science.interfaces import Assimilation, Output


class BadRecords(ValueError):
    """An output does not have the expected content or columns. Hint: see the error text."""


def chosen(assimilation: Assimilation, open_name: str | None) -> Output:
    """Return the output with this open name, or the first output if `open_name` is None.

    Raises `BadRecords` if there is no such output.
    """
    for output in assimilation.outputs:
        if open_name in (None, output.open_name):
            return output
    which = f"output {open_name!r}" if open_name else "output"
    raise BadRecords(
        f"Workunit {assimilation.workunit_name} has no {which}. "
        "Hint: the output may be optional, or the option 'output' is misspelled."
    )


def records(output: Output) -> list[dict[str, Any]]:
    """Return the JSON objects of an output in order; raises `BadRecords` for anything else."""
    text = output.path.read_text(encoding="utf-8-sig")
    try:
        try:
            entries = _loads(text)
        except json.JSONDecodeError:
            entries = [_loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        name = output.open_name or output.upload_name
        raise BadRecords(f"Output {name} is not JSON: {error}. Hint: write one object.") from error
    if isinstance(entries, dict):
        entries = [entries]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        name = output.open_name or output.upload_name
        raise BadRecords(
            f"Output {name} contains no JSON objects. Hint: write {{...}} or [{{...}}]."
        )
    return entries


def _loads(text: str) -> Any:  # noqa: ANN401 - any JSON
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON number")
