"""What may be sent: no unknown field, and no value of another type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from rest_framework import serializers

#: What PostgreSQL's integers hold.
INT4 = 2**31 - 1
INT8 = 2**63 - 1

#: What JSON must bring for a field: Django REST itself would make a text of a number, and the like.
_TYPES: tuple[tuple[type[serializers.Field[Any, Any, Any, Any]], tuple[type, ...], str], ...] = (
    (serializers.BooleanField, (bool,), "true or false"),
    (serializers.IntegerField, (int, float), "a whole number"),
    (serializers.FloatField, (int, float), "a number"),
    (serializers.DecimalField, (int, float, str), "a number"),
    (serializers.CharField, (str,), "a text"),
    (serializers.ChoiceField, (str,), "a text"),
    (serializers.DateTimeField, (str,), "a moment as 2027-01-31T12:00:00Z"),
    (serializers.DictField, (dict,), "an object"),
    (serializers.ListField, (list,), "a list"),
)


class Strict(serializers.Serializer[Any]):
    """Refuses fields that it does not know, naming the near miss, and values of another type.

    The schema says ``additionalProperties: false`` of it.
    """

    def get_fields(self) -> dict[str, Any]:
        """Take texts as they are: what is only white space is a text, too."""
        fields: dict[str, Any] = super().get_fields()
        for field in fields.values():
            inner = getattr(field, "child", field)
            if isinstance(inner, serializers.CharField):
                inner.trim_whitespace = False
        return fields

    def to_internal_value(self, data: Any) -> Any:
        """Look at names and types first, then as every serializer."""
        if isinstance(data, Mapping):
            faults: dict[str, list[str]] = {
                name: [unknown_name(name, self.fields, "field")]
                for name in map(str, data)
                if name not in self.fields
            }
            for name, value in data.items():
                if name in self.fields and (said := _other_type(self.fields[name], value)):
                    faults[name] = [said]
            if faults:
                raise serializers.ValidationError(faults)
        return super().to_internal_value(data)


class StrictQuery(Strict):
    """What may stand behind the question mark; everything there is a text."""

    def to_internal_value(self, data: Any) -> Any:
        """Read each from its text."""
        return serializers.Serializer.to_internal_value(self, data)


class JsonObject(serializers.DictField):
    """Any JSON object, as it is: `meta` and the like."""


def unknown_name(name: str, known: Iterable[str], noun: str) -> str:
    """Say that there is no such field or parameter, and which might be meant."""
    near = get_close_matches(name, list(known), n=1)
    meant = f"do you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known)) or '-'}."
    return f"There is no {noun} {name[:80]!r}. Hint: {meant}"


def _other_type(field: serializers.Field[Any, Any, Any, Any], value: object) -> str:
    if value is None or isinstance(field, JsonObject):
        # Whether null is taken, the field itself says.
        return "" if value is None or isinstance(value, dict) else "This must be an object."
    for kind, types, words in _TYPES:
        if isinstance(field, kind):
            fits = isinstance(value, types) and (bool in types or not isinstance(value, bool))
            if isinstance(field, serializers.IntegerField) and isinstance(value, float):
                fits = value.is_integer()
            if not fits:
                return f"This must be {words}."
            break
    child = getattr(field, "child", None)
    if isinstance(value, list) and isinstance(child, serializers.Field):
        return next((said for item in value if (said := _other_type(child, item))), "")
    return ""
