"""How bodies are read: as JSON that a database can keep, up to a length."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import IO, Any, NoReturn

from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from scheduler.api.http.problems import Problem

#: What one body may have at most, in bytes; a stream of workunits has its own parser.
MOST = 8 * 1024 * 1024


class StrictJson(BaseParser):
    """JSON in UTF-8, without NUL characters, lone surrogates, NaN and numbers without end."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Read it whole; what is no JSON is refused with the place where it ends to be."""
        body = stream.read(MOST + 1)
        if len(body) > MOST:
            msg = f"The body is longer than {MOST} bytes. Hint: send it in parts."
            raise Problem(413, "too_long", msg)
        return parse(body)


def parse(body: bytes) -> Any:
    """Read JSON; raises `ParseError` with a sentence."""
    try:
        text = body.decode("utf-8")
        found = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except UnicodeDecodeError as error:
        msg = f"The body is not UTF-8, at byte {error.start}. Hint: send UTF-8."
        raise ParseError(msg) from error
    except RecursionError as error:
        msg = "The body is nested too deeply. Hint: put fewer lists and objects into each other."
        raise ParseError(msg) from error
    except ValueError as error:
        msg = f"The body is no JSON: {error}. Hint: compare it with the schema's examples."
        raise ParseError(msg) from error
    if ("\\u" in text or "\x00" in text) and not _can_be_kept(found):
        msg = (
            "The body has a NUL character or half a surrogate pair, which cannot be kept. "
            "Hint: leave it out, or send it as base64."
        )
        raise ParseError(msg)
    return found


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is no number"
    raise ValueError(msg)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        msg = f"{text[:20]} is more than a number can be"
        raise ValueError(msg)
    return number


def _can_be_kept(value: object) -> bool:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            if "\x00" in one or any("\ud800" <= char <= "\udfff" for char in one):
                return False
        elif isinstance(one, dict):
            waiting += [*one, *one.values()]
        elif isinstance(one, list):
            waiting += one
    return True
