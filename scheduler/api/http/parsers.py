"""Parses JSON bodies; refuses long bodies and values that PostgreSQL cannot store."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import IO, Any, NoReturn

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from scheduler.api.http.problems import Problem

#: Maximum length of a body in bytes; streams of workunits have another parser and limit.
MAX_BYTES = 8 * 1024 * 1024


class StrictJson(BaseParser):
    """Parses JSON in UTF-8; refuses NUL, lone surrogates, NaN and infinite numbers."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the parsed body; raise `Problem` (413) if it is too long, or `ParseError`."""
        body = stream.read(MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            msg = f"The body is longer than {MAX_BYTES} bytes. Hint: send it in parts."
            raise Problem(413, "too_long", msg)
        return parse(body)


def parse(body: bytes) -> Any:
    """Return the value of a JSON document; raise `ParseError` with the reason and a hint."""
    try:
        text = body.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except UnicodeDecodeError as error:
        msg = f"The body is not UTF-8, at byte {error.start}. Hint: send UTF-8."
        raise ParseError(msg) from error
    except RecursionError as error:
        msg = "The body is nested too deeply. Hint: use fewer levels of lists and objects."
        raise ParseError(msg) from error
    except ValueError as error:
        msg = f"The body is not JSON: {error}. Hint: compare it with the schema at /api/v1/docs."
        raise ParseError(msg) from error
    if ("\\u" in text or "\x00" in text) and not _can_be_stored(value):
        msg = (
            "The body has a NUL character or a lone surrogate, which cannot be stored. "
            "Hint: leave it out, or send it as base64."
        )
        raise ParseError(msg)
    return value


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is not a number"
    raise ValueError(msg)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        msg = f"the number {text[:20]} is too large"
        raise ValueError(msg)
    return number


def _can_be_stored(value: object) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            if "\x00" in item or any("\ud800" <= char <= "\udfff" for char in item):
                return False
        elif isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, list):
            waiting += item
    return True
