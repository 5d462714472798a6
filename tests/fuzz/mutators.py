"""Mutates requests: bytes, XML, forms, multipart, JSON, headers, addresses."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from tests.fuzz.raw import RawRequest
from tests.security import worst

NUMBERS = [text.encode() for text in worst.NUMBERS]
#: Shortened, because long texts cost time and find few faults.
TEXTS = [text[:3000] for text in worst.TEXTS]
VALUES = NUMBERS + TEXTS
JSON_VALUES: list[Any] = [
    None, True, False, 0, -1, 1.5, 1e308, -1e308, 5e-324, 2**31, 2**63, 2**64, 10**400, "", "x",
    "\0", "\ud800", "a" * 3000, [], {}, [[]], {"": {}}, [None], "9" * 400, "\N{ARABIC-INDIC DIGIT NINE}",
    "2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", -0.0,
]  # fmt: skip
METHODS = [b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"HEAD", b"OPTIONS", b"TRACE", b"X"]
HEADERS = [
    b"Content-Type", b"Accept", b"Range", b"If-Match", b"If-None-Match", b"Idempotency-Key",
    b"Content-Encoding", b"Accept-Encoding", b"X-Forwarded-For", b"X-Forwarded-Proto", b"Expect",
    b"Cookie", b"Authorization", b"If-Modified-Since", b"If-Range", b"Referer", b"Origin",
]  # fmt: skip
TYPES = [
    b"application/json", b"text/xml", b"application/x-www-form-urlencoded",
    b"multipart/form-data; boundary=b", b"multipart/form-data", b"application/x-ndjson",
    b"application/json; charset=utf-16", b"text/html; charset=\xff", b"",
]  # fmt: skip
_TEXT = re.compile(rb">([^<>]{0,200})<")
_ELEMENT = re.compile(rb"<([a-z_]{1,40})>[^<]{0,400}</\1>\s*")
_DIGITS = re.compile(rb"-?\d+(?:\.\d+)?")


def mutated(request: RawRequest, chance: Random, pool: list[RawRequest]) -> RawRequest:
    """Return the request with one to four mutations."""
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        request = _step(request, chance, pool)
    return request


def _step(request: RawRequest, chance: Random, pool: list[RawRequest]) -> RawRequest:
    die = chance.random()
    method, target, headers, body = request.method, request.target, request.headers, request.body
    if die < 0.03:
        method = chance.choice(METHODS)
    elif die < 0.12 or (not body and die < 0.55):
        target = _address(target, chance)
    elif die < 0.22 or not body:
        headers = _headers(headers, chance)
    elif die < 0.25:
        body = chance.choice(pool).body
    else:
        body = mutated_body(body, request.header(b"Content-Type"), chance)
    return RawRequest(method, target, headers, body)


def mutated_body(body: bytes, kind: bytes, chance: Random) -> bytes:
    """Return a body with one mutation that fits its format."""
    if body[:1] in b"{[" and chance.random() < 0.7:
        return _json(body, chance)
    if body.startswith(b"request=") and chance.random() < 0.7:
        inside = _xml(unquote_to_bytes(body[8:].replace(b"+", b" ")), chance)
        return b"request=" + quote_from_bytes(inside).encode()
    if b"x-www-form" in kind and b"<" not in body and b"=" in body:
        return _form(body, chance)
    if b"<" in body and chance.random() < 0.8:
        return _xml(body, chance)
    return noise(body, chance)


def noise(body: bytes, chance: Random) -> bytes:
    """Return a body with random bytes changed, deleted, repeated, inserted or cut off."""
    if not body:
        return chance.choice(VALUES)
    at = chance.randrange(len(body))
    end = min(len(body), at + int(chance.expovariate(0.05)) + 1)
    match chance.randrange(6):
        case 0:
            return body[:at] + bytes([body[at] ^ (1 << chance.randrange(8))]) + body[at + 1 :]
        case 1:
            return body[:at] + body[end:]
        case 2:
            return body[:end] + body[at:end] * chance.choice((1, 2, 50)) + body[end:]
        case 3:
            return body[:at] + chance.choice(VALUES) + body[at:]
        case 4:
            return body[:at]
        case _:
            return body[:at] + chance.randbytes(chance.randrange(1, 9)) + body[at:]


def _replaced(
    body: bytes, pattern: re.Pattern[bytes], chance: Random, values: list[bytes]
) -> bytes:
    """Replace a random match of the pattern (or its group 1) by a random value."""
    start = chance.randrange(len(body)) if body else 0
    found = pattern.search(body, start) or pattern.search(body)
    if found is None:
        return noise(body, chance)
    group = 1 if pattern.groups and pattern is _TEXT else 0
    return body[: found.start(group)] + chance.choice(values) + body[found.end(group) :]


def _xml(body: bytes, chance: Random) -> bytes:
    die = chance.random()
    if die < 0.35:
        return _replaced(body, _TEXT, chance, VALUES)
    if die < 0.55:
        return _replaced(body, _DIGITS, chance, NUMBERS)
    found = None
    if body:
        found = _ELEMENT.search(body, chance.randrange(len(body))) or _ELEMENT.search(body)
    if found is None or die > 0.9:
        return noise(body, chance)
    one = found[0]
    what = [
        b"", one * 2, one * 30, b"<x>" * 40 + one, b"<" + found[1] + b"/>", b"<!--" + one + b"-->",
        b"<![CDATA[" + one + b"]]>", b"<" + found[1] + b">", b"</" + found[1] + b">",
        b"<" + found[1] + b">" + one + b"</" + found[1] + b">",
    ]  # fmt: skip
    return body[: found.start()] + chance.choice(what) + body[found.end() :]


def _form(body: bytes, chance: Random) -> bytes:
    parts = body.split(b"&")
    at = chance.randrange(len(parts))
    name, _, value = parts[at].partition(b"=")
    bad = quote_from_bytes(chance.choice(VALUES)).encode()
    match chance.randrange(5):
        case 0:
            parts[at] = bad + b"=" + value
        case 1:
            del parts[at]
        case 2:
            parts.append(parts[at])
        case _:
            parts[at] = name + b"=" + bad
    return b"&".join(parts)


def _json(body: bytes, chance: Random) -> bytes:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return noise(body, chance)
    changed = _json_value(value, chance)
    try:
        return json.dumps(changed, ensure_ascii=chance.random() < 0.5).encode(
            "utf-8", "surrogatepass"
        )
    except ValueError:
        return noise(body, chance)


def _json_value(value: Any, chance: Random) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.9:
        name = chance.choice(sorted(value))
        match chance.randrange(8):
            case 0:
                return {key: one for key, one in value.items() if key != name}
            case 1:
                return value | {str(chance.choice(JSON_VALUES))[:300]: chance.choice(JSON_VALUES)}
            case _:
                return value | {name: _json_value(value[name], chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        if chance.random() < 0.2:
            return value * chance.choice((0, 2, 40))
        return [*value[:at], _json_value(value[at], chance), *value[at + 1 :]]
    return chance.choice(JSON_VALUES)


def _address(target: bytes, chance: Random) -> bytes:
    path, mark, query = target.partition(b"?")
    if query and chance.random() < 0.6:
        return path + mark + _form(query, chance).replace(b" ", b"+")
    bad = quote_from_bytes(chance.choice(VALUES)[:2000], safe="").encode()
    parts = path.split(b"/")
    at = chance.randrange(1, len(parts)) if len(parts) > 1 else 0
    match chance.randrange(5):
        case 0:
            parts[at] = bad
        case 1:
            parts[at] += bad
        case 2:
            parts.insert(at, bad)
        case 3:
            return path + b"?" + bad + b"=" + bad
        case _:
            parts[at] = chance.choice((b"..", b"%2e%2e", b"", b"0", b"-1", b"9" * 25, b"admin"))
    return (b"/".join(parts) or b"/") + mark + query


def _headers(headers: tuple[tuple[bytes, bytes], ...], chance: Random) -> tuple[Any, ...]:
    kept = list(headers)
    value = chance.choice(TYPES) if chance.random() < 0.4 else chance.choice(VALUES)[:2000]
    # HTTP does not allow these characters in headers.
    value = value.replace(b"\r", b"").replace(b"\n", b"").replace(b"\0", b"")
    if kept and chance.random() < 0.4:
        at = chance.randrange(len(kept))
        if chance.random() < 0.3:
            del kept[at]
        else:
            kept[at] = (kept[at][0], value)
    else:
        kept.append((chance.choice(HEADERS), value))
    return tuple(kept)
