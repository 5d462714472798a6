"""Converts the options of `submit` to workunits: files, parameters or JSON lines."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from scientist.errors import ScientistError, UsageError
from scientist.inputs import InputFile, Work, original_name, work_of
from scientist.template import (
    STANDARD_PLACEHOLDERS,
    check,
    combinations,
    count_combinations,
    fill,
    lines_of,
)
from scientist.uploads import checked


def _works(options: argparse.Namespace, files: list[Path]) -> Iterator[Work]:
    """Yield `--count` workunits for each combination of a file and values of the parameters."""
    index = 0
    paths: list[Path | None] = [*files] or [None]
    for path in paths:
        for values in combinations(options.param):
            for _ in range(options.count or 1):
                index += 1
                yield _work(options, path, values, index)


def _work(
    options: argparse.Namespace, path: Path | None, values: Mapping[str, str], index: int
) -> Work:
    replacements: dict[str, object] = {"index": index, **values}
    files: list[InputFile] = []
    meta: dict[str, Any] = {**values}
    label = None
    if path is not None:
        replacements |= {"file": path.name, "name": path.stem}
        files.append(InputFile(options.open_name, path))
        meta = {"input": original_name(path), **values}
        label = path.stem if not values and options.count in {None, 1} else None
    if options.input_text is not None:
        text = fill(options.input_text, replacements)
        files.append(InputFile(options.open_name, text.encode()))
    fields: dict[str, Any] = {"meta": meta} if meta else {}
    if options.command_line is not None:
        fields["command_line"] = fill(options.command_line, replacements)
    return Work(tuple(files), fields, label=label)


def works_of(options: argparse.Namespace, stack: ExitStack) -> tuple[Iterator[Work], int | None]:
    """Return the workunits to submit, and their number, which is None if it is unknown.

    Raises UsageError if options contradict each other, if a file is missing or if there is nothing
    to submit.
    """
    listed = lines_of(options.from_file) if options.from_file else []
    files = [Path(name) for name in (*options.files, *listed)]
    if options.ndjson is not None:
        if files or options.param or options.count or options.input_text:
            hint = "set all fields in the lines of the file."
            raise UsageError("--ndjson cannot be combined with files or parameters.", hint)
        return _lines(_opened(options.ndjson, stack)), None
    if files and options.input_text is not None:
        raise UsageError("An input is a FILE or --input-text, not both.", "leave one out.")
    has_no_text = options.command_line is None and options.input_text is None
    if not files and not options.param and options.count is None and has_no_text:
        hint = "name input files, or use --count, --param, --command-line or --ndjson."
        raise UsageError("There is nothing to submit.", hint)
    for path in files:
        checked(path)
    names = [parameter.name for parameter in options.param]
    if len(set(names)) < len(names):
        raise UsageError("A parameter is given twice.", "list all its values in one --param.")
    placeholders = [*(STANDARD_PLACEHOLDERS if files else ("index",)), *names]
    for text in (options.command_line, options.input_text):
        check(text or "", placeholders)
    total = max(len(files), 1) * count_combinations(options.param) * (options.count or 1)
    return _works(options, files), total


def _opened(name: str, stack: ExitStack) -> IO[bytes]:
    if name == "-":
        return sys.stdin.buffer
    checked(Path(name))
    return stack.enter_context(Path(name).open("rb"))


def _lines(file: IO[bytes]) -> Iterator[Work]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except ValueError as error:
            hint = "write one workunit per line."
            raise UsageError(f"Line {number} is not JSON: {error}", hint) from None
        if not isinstance(fields, dict):
            hint = 'write an object such as {"command_line": "7"}'
            raise UsageError(f"Line {number} is not a JSON object.", hint)
        try:
            yield work_of(fields)
        except (ScientistError, ValueError, TypeError, AttributeError) as error:
            reason = error.sentence if isinstance(error, ScientistError) else str(error)
            hint = "docs/scientist.md lists the fields of a line."
            raise UsageError(f"Line {number}: {reason}", hint) from None


def shared_of(text: str) -> dict[str, Any]:
    """Convert ``FILE`` or ``NAME=FILE`` to an entry of `input_files`.  Raises UnreadableInput."""
    name, equals, path = text.partition("=")
    file = Path(path if equals else text)
    checked(file)
    return {"open_name": name if equals else file.name, "path": str(file)}
