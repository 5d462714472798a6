"""The parts of an address that name something: ids that a column holds, and names."""

from __future__ import annotations

from django.urls import register_converter

from scheduler.api.http.body import INT8


class IdConverter:
    """A row's number; one that no column can hold is no address."""

    regex = "[0-9]{1,19}"

    def to_python(self, value: str) -> int:
        """Read it."""
        number = int(value)
        if number > INT8:
            raise ValueError(value)
        return number

    def to_url(self, value: int) -> str:
        """Write it."""
        return str(value)


class NameConverter:
    """A name without slashes and control characters (PostgreSQL keeps no NUL)."""

    regex = r"[^/\x00-\x1f\x7f]{1,254}"

    def to_python(self, value: str) -> str:
        """Take it as it is."""
        return value

    def to_url(self, value: str) -> str:
        """Write it as it is."""
        return value


class DigestConverter(NameConverter):
    """A SHA-256 in lower-case hex."""

    regex = "[0-9a-f]{64}"


register_converter(IdConverter, "id")
register_converter(NameConverter, "name")
register_converter(DigestConverter, "sha256")
