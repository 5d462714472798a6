"""Path converters for the API's URLs: ids, names, digests and lookups of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from django.urls import register_converter
from django.urls.converters import IntConverter, StringConverter

from scheduler.api import names_and_ids
from scheduler.api.http.body import INT8
from scheduler.api.http.url_lookups import UrlLookup

if TYPE_CHECKING:
    from rest_framework.request import Request


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


class IdOrNameConverter(NameConverter):
    """An id, or the name of a row that `find` returns.

    Digits are always an id: a request with the id of a deleted row must not reach a row that has
    this id as its name.
    """

    find: ClassVar[staticmethod[[Request, str], int]]

    def to_python(self, value: str) -> int | UrlLookup:  # type: ignore[override]  # not a string
        if names_and_ids.is_id(value):
            return IdConverter().to_python(value)
        return UrlLookup(value, type(self).find)


class NameOrIdConverter(NameConverter):
    """A name, or the id of a row whose name `find` returns.

    A name of digits comes before an id, because the address of the row contains its name.
    """

    find: ClassVar[staticmethod[[Request, str], str]]

    def to_python(self, value: str) -> str | UrlLookup:  # type: ignore[override]  # not a string
        return UrlLookup(value, type(self).find) if names_and_ids.is_id(value) else value


class WorkunitConverter(IdOrNameConverter):
    find = staticmethod(names_and_ids.workunit_id)


class BatchConverter(IdOrNameConverter):
    find = staticmethod(names_and_ids.batch_id)


class HostConverter(IdOrNameConverter):
    find = staticmethod(names_and_ids.host_id)


class AppConverter(NameOrIdConverter):
    find = staticmethod(names_and_ids.app_name)


class QueueConverter(NameOrIdConverter):
    find = staticmethod(names_and_ids.queue_name)


class DigestConverter(StringConverter):
    """A SHA-256 digest in lower-case hex."""

    regex = "[0-9a-f]{64}"


register_converter(IdConverter, "id")
register_converter(NameConverter, "name")
register_converter(DigestConverter, "sha256")
register_converter(WorkunitConverter, "workunit")
register_converter(BatchConverter, "batch")
register_converter(HostConverter, "host")
register_converter(AppConverter, "app")
register_converter(QueueConverter, "queue")
