"""Filters of lists: they validate values and define OpenAPI parameters.

The attribute `parameter` of a filter is the part of its OpenAPI parameter that defines the type.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import django_filters
from django import forms
from django.core.exceptions import ValidationError
from rest_framework.exceptions import ParseError
from rest_framework.exceptions import ValidationError as Invalid

from scheduler.api.http.body import INT8
from scheduler.api.http.parsers import parse


class Filters(django_filters.FilterSet):
    """The filters of one list; `Endpoint` refuses other query parameters."""

    def filter_queryset(self, queryset: Any) -> Any:
        """Return the rows that pass all filters.

        Raises `ValidationError` for an empty value, unless it is a name: no type but a string has
        empty values.
        """
        empty = [
            name
            for name, its_filter in self.filters.items()
            if self.data.get(name) == "" and not isinstance(its_filter, Name)
        ]
        if empty:
            fault = "This is empty. Hint: enter a value, or omit the parameter."
            raise Invalid({name: [fault] for name in empty})
        return super().filter_queryset(queryset)


class _Number(forms.IntegerField):
    def to_python(self, value: Any) -> int | None:
        if isinstance(value, str) and value and not (value.isascii() and value.isdigit()):
            raise ValidationError(self.error_messages["invalid"], code="invalid")
        return super().to_python(value[:30] if isinstance(value, str) else value)


class Id(django_filters.Filter):
    """Filters by an id: ``?batch=17``."""

    field_class = _Number
    parameter: Mapping[str, Any] = {
        "schema": {"type": "integer", "format": "int64", "minimum": 0, "maximum": INT8}
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, min_value=0, max_value=INT8, **kwargs)


class Name(django_filters.CharFilter):
    """Filters by an exact name: ``?app=primes``."""

    parameter: Mapping[str, Any] = {"schema": {"type": "string"}}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, strip=False, **kwargs)


class Word(django_filters.ChoiceFilter):
    """Filters by a word in `words`, a mapping to column values or an iterable of such values."""

    def __init__(self, *args: Any, words: Mapping[str, Any] | Iterable[str], **kwargs: Any) -> None:
        self.words = words if isinstance(words, Mapping) else {word: word for word in words}
        self.parameter: Mapping[str, Any] = {"schema": {"type": "string", "enum": list(self.words)}}
        super().__init__(*args, choices=[(word, word) for word in self.words], **kwargs)

    def filter(self, qs: Any, value: Any) -> Any:
        """Return the rows with the column value of the word, or all rows without a word."""
        return qs.filter(**{self.field_name: self.words[value]}) if value else qs


class TrueOrFalse(Word):
    """Filters by a flag: ``?deprecated=false``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, words={"true": True, "false": False}, **kwargs)
        self.parameter = {"schema": {"type": "boolean"}}


class Meta(django_filters.CharFilter):
    """Filters by contents of `meta`: ``?meta={"study": 7}``, with PostgreSQL's ``@>``."""

    parameter: Mapping[str, Any] = {"content": {"application/json": {"schema": {"type": "object"}}}}

    def filter(self, qs: Any, value: Any) -> Any:
        """Return rows whose `meta` contains `value`; raise `ValidationError` for invalid JSON."""
        return qs.filter(**{f"{self.field_name}__contains": read_meta(value)}) if value else qs


def read_meta(text: str) -> dict[str, Any]:
    """Return the JSON object of a `meta` filter; raise `ValidationError` for other values."""
    try:
        value = parse(text.encode("utf-8", "replace"))
    except ParseError:
        value = None
    if not isinstance(value, dict):
        example = json.dumps({"study": 7})
        raise Invalid({"meta": [f"This is not a JSON object. Hint: write {example}."]})
    return value
