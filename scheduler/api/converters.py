"""Path converters for the API's URLs: ids, names and digests."""

from __future__ import annotations

from django.urls import register_converter
from django.urls.converters import IntConverter, StringConverter

from scheduler.api.http.body import INT8


class IdConverter(IntConverter):
    """The id of a row, up to the maximum of `bigint`."""

    regex = "[0-9]{1,19}"

    def to_python(self, value: str) -> int:
        number = int(value)
        if number > INT8:
            raise ValueError(value)
        return number


class NameConverter(StringConverter):
    """A name of at most 254 characters, without slashes and control characters."""

    regex = r"[^/\x00-\x1f\x7f]{1,254}"


class DigestConverter(StringConverter):
    """A SHA-256 digest in lower-case hex."""

    regex = "[0-9a-f]{64}"


register_converter(IdConverter, "id")
register_converter(NameConverter, "name")
register_converter(DigestConverter, "sha256")
