"""Which workunits a command line asks for: of files, parameters, or lines of JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from scientist.errors import ScientistError, UsageError
from scientist.inputs import InputFile, Work, original, work_of
from scientist.template import (
    STANDING,
    Parameter,
    check,
    combinations,
    fill,
    how_many,
    lines_of,
)
from scientist.uploads import checked
from scientist.words import size


@dataclass(frozen=True, slots=True)
class _Template:
    """What all generated workunits have in common."""

    command_line: str | None
    input_text: str | None
    open_name: str
    parameters: tuple[Parameter, ...]
    repeats: int

    def works(self, files: list[Path]) -> Iterator[Work]:
        """A workunit per file, combination of parameters and repeat."""
        index = 0
        given: list[Path | None] = [*files] or [None]
        for path in given:
            for values in combinations(self.parameters):
                for _ in range(self.repeats):
                    index += 1
                    yield self._work(path, values, index)

    def _work(self, path: Path | None, values: Mapping[str, str], index: int) -> Work:
        places: dict[str, object] = {"index": index, **values}
        files = []
        if path is not None:
            places |= {"file": path.name, "name": path.stem}
            files.append(InputFile(self.open_name, path))
        if self.input_text is not None:
            files.append(InputFile(self.open_name, fill(self.input_text, places).encode()))
        meta = {**({} if path is None else {"input": original(path)}), **values}
        fields: dict[str, Any] = {"meta": meta} if meta else {}
        if self.command_line is not None:
            fields["command_line"] = fill(self.command_line, places)
        single = path is not None and not values and self.repeats == 1
        return Work(tuple(files), fields, label=path.stem if single and path else None)


def works_of(options: argparse.Namespace, stack: ExitStack) -> tuple[Iterator[Work], int | None]:
    """What to submit, and how many that is.  Raises UsageError for what cannot be meant."""
    listed = lines_of(options.from_file) if options.from_file else []
    files = [Path(name) for name in (*options.files, *listed)]
    if options.ndjson is not None:
        if files or options.param or options.count or options.input_text:
            hint = "say everything in its lines."
            raise UsageError("--ndjson stands alone, without files and parameters.", hint)
        return _lines(_opened(options.ndjson, stack)), None
    if files and options.input_text is not None:
        raise UsageError("An input is a FILE or --input-text, not both.", "leave one out.")
    says_nothing = options.command_line is None and options.input_text is None
    if not files and not options.param and options.count is None and says_nothing:
        hint = "name input files, or say --count, --param, --command-line or --ndjson."
        raise UsageError("There is nothing to submit.", hint)
    for path in files:
        checked(path)
    names = [one.name for one in options.param]
    if len(set(names)) < len(names):
        raise UsageError("A parameter is given twice.", "list all its values in one --param.")
    known = [*(STANDING if files else ("index",)), *names]
    for text in (options.command_line, options.input_text):
        check(text or "", known)
    template = _Template(
        options.command_line,
        options.input_text,
        options.open_name,
        tuple(options.param),
        options.count or 1,
    )
    total = max(len(files), 1) * how_many(options.param) * (options.count or 1)
    return template.works(files), total


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
            said = json.loads(line)
        except ValueError as error:
            raise UsageError(f"Line {number} is no JSON: {error}", "a workunit a line.") from None
        if not isinstance(said, dict):
            raise UsageError(f"Line {number} is no JSON object.", 'such as {"command_line": "7"}')
        try:
            yield work_of(said)
        except (ScientistError, ValueError, TypeError, AttributeError) as error:
            reason = error.sentence if isinstance(error, ScientistError) else str(error)
            hint = "docs/scientist.md shows what a line may say."
            raise UsageError(f"Line {number}: {reason}", hint) from None


def output_of(text: str) -> str | dict[str, Any]:
    """Read ``NAME`` or ``NAME:SIZE``.  Raises UsageError."""
    name, colon, length = text.rpartition(":")
    return {"open_name": name, "max_nbytes": size(length)} if colon and name else text


def shared_of(text: str) -> dict[str, Any]:
    """Read ``FILE`` or ``NAME=FILE``.  Raises UnreadableInput."""
    name, equals, path = text.partition("=")
    file = Path(path if equals else text)
    checked(file)
    return {"open_name": name if equals else file.name, "path": str(file)}
