"""Makes workunits from documents and a template that refers to them [pure].

This is Disbatch's submission from a query.  A text of the template that is ``document.NAME`` and
nothing else becomes the value of that field, with its type.  In a longer text, ``{document.NAME}``
is replaced by the value as text; in a command line it is quoted for a shell, so that a value stays
one argument.  Names with dots refer to nested objects: ``document.meta.study``.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

MAX_DOCUMENTS: Final = 10_000
#: Maximum size of all workunits as JSON, so that a long template times many documents stays small.
MAX_TOTAL_BYTES: Final = 64 << 20
MAX_DEPTH: Final = 10
_NAME: Final = r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
_WHOLE: Final = re.compile(rf"document\.({_NAME})")
_INSIDE: Final = re.compile(rf"\{{document\.({_NAME})\}}")
_COLUMN: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
_Document = Mapping[str, Any]


class BadDocuments(ValueError):
    """Documents or their template cannot be used.  Hint: see the message."""


def expand(template: _Document, documents: Iterable[_Document]) -> Iterator[dict[str, Any]]:
    """Yield the fields of a workunit for each document; raises `BadDocuments`."""
    total = 0
    for number, document in enumerate(documents):
        if number >= MAX_DOCUMENTS:
            raise BadDocuments(
                f"There are more than {MAX_DOCUMENTS} documents. Hint: select fewer, or submit "
                "them in parts."
            )
        fields: dict[str, Any] = {
            key: _filled(value, document, number, key == "command_line", 1)
            for key, value in template.items()
        }
        total += len(json.dumps(fields))
        if total > MAX_TOTAL_BYTES:
            raise BadDocuments(
                f"The workunits have more than {MAX_TOTAL_BYTES} bytes together. Hint: submit "
                "fewer documents at once, or move constant parts to an input file."
            )
        yield fields


def _filled(value: Any, document: _Document, number: int, is_command: bool, depth: int) -> Any:  # noqa: ANN401, FBT001 - JSON
    if depth > MAX_DEPTH:
        raise BadDocuments(f"The template has more than {MAX_DEPTH} levels. Hint: use fewer.")
    if isinstance(value, dict):
        return {
            key: _filled(item, document, number, is_command, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_filled(item, document, number, is_command, depth + 1) for item in value]
    if not isinstance(value, str):
        return value
    if whole := _WHOLE.fullmatch(value):
        return _field(document, whole[1], number)
    return _INSIDE.sub(
        lambda match: _as_text(_field(document, match[1], number), match[1], is_command), value
    )


def _field(document: _Document, path: str, number: int) -> Any:  # noqa: ANN401 - JSON
    value: Any = document
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            fields = ", ".join(sorted(map(str, document)))[:200] or "none"
            raise BadDocuments(
                f"Document {number} has no field {path[:80]!r}. Hint: its fields are {fields}."
            )
        value = value[name]
    return value


def _as_text(value: object, path: str, is_command: bool) -> str:  # noqa: FBT001
    if isinstance(value, Mapping | list):
        raise BadDocuments(
            f"The field {path[:80]!r} is an object or a list, which is no text. Hint: refer to one "
            "of its fields, or write document.NAME without braces."
        )
    text = value if isinstance(value, str) else json.dumps(value)
    return shlex.quote(text) if is_command else text


def read_csv(text: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a CSV text, whose first line has the names; raises `BadDocuments`.

    Values that are whole numbers, written without leading zeros, become numbers.
    """
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        names = next(reader, [])
        if not names or len(set(names)) < len(names) or not all(map(_COLUMN.fullmatch, names)):
            raise BadDocuments(
                f"The first line of the CSV is {','.join(names)!r:.100}. Hint: write different "
                "names of letters, digits, _ and -, separated by commas."
            )
        for row in reader:
            if not row:
                continue
            if len(row) != len(names):
                raise BadDocuments(
                    f"Line {reader.line_num} of the CSV has {len(row)} values, and the first line "
                    f"{len(names)} names. Hint: quote values that contain commas."
                )
            yield dict(zip(names, map(_number_or_text, row), strict=True))
    except csv.Error as error:
        raise BadDocuments(
            f"Line {reader.line_num} is not CSV: {error}. Hint: quote values with double quotes."
        ) from None


def _number_or_text(value: str) -> int | str:
    return int(value) if _INTEGER.fullmatch(value) else value


def read_json_lines(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a text with a JSON object per line; raises `BadDocuments`."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise BadDocuments(
                f'Line {number} is {line!r:.60}. Hint: write a JSON object, as {{"n": 1}}.'
            )
        yield value
