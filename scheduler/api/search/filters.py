"""The parameter `filter` of lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import django_filters
from rest_framework.exceptions import ParseError
from rest_framework.exceptions import ValidationError as Invalid

from scheduler.api.http.parsers import parse
from scheduler.api.http.problems import Problem
from scheduler.api.search.expressions import BadFilter, Field, condition

MAX_BYTES: Final = 16_000
_EXAMPLE: Final = '{"status": "failed", "priority": {"gte": 5}}'


class Search(django_filters.CharFilter):
    """Filters by an expression over `fields`, such as ``?filter={"status": "failed"}``."""

    parameter: Mapping[str, Any] = {"content": {"application/json": {"schema": {"type": "object"}}}}

    def __init__(self, *args: Any, fields: Mapping[str, Field], **kwargs: Any) -> None:
        self.fields = fields
        kwargs.setdefault("help_text", f"An expression, such as {_EXAMPLE}; see docs/search.md.")
        super().__init__(*args, strip=False, **kwargs)

    def filter(self, qs: Any, value: Any) -> Any:
        """Return the rows that match the expression; raises the errors of `read`."""
        return qs.filter(read(value, self.fields)) if value else qs


def read(text: str, fields: Mapping[str, Field]) -> Any:
    """Return the condition of an expression in JSON.

    Raises `ValidationError` for a text that is not JSON or too long, and `Problem` (422) for an
    expression that is not valid.
    """
    content = text.encode("utf-8", "replace")
    if len(content) > MAX_BYTES:
        fault = f"The filter is longer than {MAX_BYTES} bytes. Hint: use fewer values."
        raise Invalid({"filter": [fault]})
    try:
        return condition(parse(content), fields)
    except ParseError:
        raise Invalid({"filter": [f"This is not JSON. Hint: write {_EXAMPLE}."]}) from None
    except BadFilter as error:
        raise Problem(422, "bad_filter", str(error)) from None
