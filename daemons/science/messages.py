"""Encodes, decodes and checks messages between a daemon and science code.

A message consists of its length (eight bytes, big-endian) and of that many bytes of UTF-8 JSON:

    to the worker       {"target": "package.module:function", "arguments": [...]}
    the first answer    {"status": "ready", "form": ..., "uid": ...}
    other answers       {"status": "value", "value": ...}
                        | {"status": "raised" | "transient", "sentence": ..., "traceback": ...}

Answers come from a process that may be hostile.  `unpacked` accepts plain JSON only.  The functions
below it check the types of values, and raise `BadMessage`.
"""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

T = TypeVar("T")

LENGTH: Final = 8
_MAX_PART: Final = 1 << 20
#: The maximum depth of nesting; PostgreSQL and `json` accept more.
MAX_DEPTH: Final = 50
#: The maximum lengths of a failure's sentence and traceback; characters.
MAX_SENTENCE, MAX_TRACEBACK = 2000, 20_000
_STATUSES: Final = {
    "ready": {"status", "form", "uid"},
    "value": {"status", "value"},
    "raised": {"status", "sentence", "traceback"},
    "transient": {"status", "sentence", "traceback"},
}


class BadMessage(ValueError):
    """A message does not have the required format. Hint: see the error text."""


def packed(message: object) -> bytes:
    """Encode a message for the channel; raises TypeError or ValueError if it is not JSON."""
    data = json.dumps(message, allow_nan=False, ensure_ascii=False).encode("utf-8")
    return len(data).to_bytes(LENGTH, "big") + data


def receive(channel: socket.socket, count: int) -> bytes:
    """Return the next `count` bytes of a channel, or fewer bytes if the channel ends."""
    data = bytearray()
    while len(data) < count and (part := channel.recv(min(count - len(data), _MAX_PART))):
        data += part
    return bytes(data)


def unpacked(data: bytes) -> Any:  # noqa: ANN401 - any JSON
    """Decode JSON; raises `BadMessage` if it is not valid.

    NaN, infinities, NUL characters, lone surrogates and deep nesting are not valid.
    """
    try:
        message = json.loads(data.decode("utf-8"), parse_constant=_refused, parse_float=_finite)
    except RecursionError:
        raise BadMessage("It is nested too deep.") from None
    except ValueError as error:
        raise BadMessage(f"It is not JSON: {error}.") from error
    _check_tree(message)
    return message


def status_of(message: object) -> Mapping[str, Any]:
    """Return a worker's answer; raises `BadMessage` unless it has one of the four formats."""
    if not isinstance(message, dict) or message.keys() != _STATUSES.get(
        str(message.get("status")), set()
    ):
        raise BadMessage("The message does not have the fields of a worker's answer.")
    for name in ("form", "sentence", "traceback"):
        if not isinstance(message.get(name, ""), str):
            raise BadMessage(f"The message's {name} is not text.")
    if type(message.get("uid", 0)) is not int:
        raise BadMessage("The message's uid is not a number.")
    return message


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large")
    return number


def _check_tree(message: object) -> None:
    level, depth = [message], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise BadMessage(f"The message is nested deeper than {MAX_DEPTH} levels.")
        below: list[object] = []
        for value in level:
            if isinstance(value, str):
                _check_text(value)
            elif isinstance(value, list):
                below += value
            elif isinstance(value, dict):
                below += value
                below += value.values()
        level = below


def _check_text(text: str) -> None:
    """Raise `BadMessage` for NUL and lone surrogates, which PostgreSQL cannot store."""
    if "\0" in text or (
        not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)
    ):
        raise BadMessage("A text has a NUL or a lone surrogate.")


# Checks of values


def an_object(value: object, what: str, names: Collection[str]) -> Mapping[str, Any]:
    """Return the value if it is a dict with exactly these keys; raises `BadMessage` otherwise."""
    if not isinstance(value, dict) or value.keys() != set(names):
        raise BadMessage(f"{what} is not an object of {', '.join(names)}: {value!r:.100}")
    return value


def a_list(value: object, what: str, most: int) -> list[Any]:
    """Return the value if it is a list of at most `most` items; raises `BadMessage` otherwise."""
    if not isinstance(value, list):
        raise BadMessage(f"{what} is not a list: {value!r:.100}")
    if len(value) > most:
        raise BadMessage(f"{what} has {len(value)} items, more than {most}.")
    return value


def a_text(value: object, what: str, most: int = MAX_SENTENCE) -> str:
    """Return the first `most` characters of a string; raises `BadMessage` for other values."""
    if not isinstance(value, str):
        raise BadMessage(f"{what} is not text: {value!r:.100}")
    return value[:most]


def a_number(value: object, what: str) -> float:
    """Return a number as a float; raises `BadMessage` for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadMessage(f"{what} is not a number: {value!r:.100}")
    try:
        return float(value)
    except OverflowError:
        raise BadMessage(f"{what} is too large.") from None


def one_of(value: object, what: str, allowed: Collection[int]) -> int:
    """Return an integer of `allowed`, such as a result id; raises `BadMessage` for other values."""
    if type(value) is not int or value not in allowed:
        raise BadMessage(f"{what} is not in the request: {value!r:.100}")
    return value


def optional(read: Callable[[object], T]) -> Callable[[object], T | None]:
    """Return a reader that accepts null, and all values that `read` accepts."""
    return lambda value: None if value is None else read(value)
