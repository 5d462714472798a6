"""Path converters of the API's addresses: ids, names and digests."""

from __future__ import annotations

from django.urls import register_converter

from scheduler.api.http.body import INT8


class IdConverter:
    """The id of a row; a number above the range of `bigint` does not match."""

    regex = "[0-9]{1,19}"

    def to_python(self, value: str) -> int:
        number = int(value)
        if number > INT8:
            raise ValueError(value)
        return number

    def to_url(self, value: int) -> str:
        return str(value)


class NameConverter:
    """A name without slashes and control characters (PostgreSQL cannot store NUL)."""

    regex = r"[^/\x00-\x1f\x7f]{1,254}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class DigestConverter(NameConverter):
    """A SHA-256 in lower-case hex."""

    regex = "[0-9a-f]{64}"


register_converter(IdConverter, "id")
register_converter(NameConverter, "name")
register_converter(DigestConverter, "sha256")
