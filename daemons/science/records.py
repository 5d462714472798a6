"""Reads an output's records: a JSON object, a list of them, or JSON lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daemons.science.interfaces import Assimilation, Output


class BadRecords(ValueError):
    """An output does not hold what the app's assimilator expects. Hint: the message says what."""


def chosen(assimilation: Assimilation, open_name: str | None) -> Output:
    """The output of an open name, or the first one; raises `BadRecords` if it did not come."""
    for output in assimilation.outputs:
        if open_name in (None, output.open_name):
            return output
    which = f"output {open_name!r}" if open_name else "output"
    raise BadRecords(
        f"Workunit {assimilation.workunit_name} brought no {which}. "
        "Hint: it is optional, or the option 'output' is misspelt."
    )


def records(output: Output) -> list[dict[str, Any]]:
    """The JSON objects of an output, in their order; raises `BadRecords` for anything else."""
    text = output.path.read_text(encoding="utf-8-sig")
    try:
        try:
            found = _loads(text)
        except json.JSONDecodeError:
            found = [_loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        name = output.open_name or output.upload_name
        raise BadRecords(f"Output {name} is no JSON: {error}. Hint: write one object.") from error
    if isinstance(found, dict):
        found = [found]
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        name = output.open_name or output.upload_name
        raise BadRecords(f"Output {name} holds no JSON objects. Hint: write {{...}} or [{{...}}].")
    return found


def _loads(text: str) -> Any:  # noqa: ANN401 - any JSON
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON number")
