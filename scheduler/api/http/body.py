"""Base serializers of responses and bodies; bodies refuse unknown fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cached_property
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, ClassVar

from rest_framework import serializers

#: Largest values of PostgreSQL's `integer` and `bigint`.
INT4 = 2**31 - 1
INT8 = 2**63 - 1

#: JSON types that a field accepts, and their description.  Django REST framework would accept other
#: types, too: for example, it converts a number to a string.
_TYPES: tuple[tuple[type[serializers.Field[Any, Any, Any, Any]], tuple[type, ...], str], ...] = (
    (serializers.BooleanField, (bool,), "true or false"),
    (serializers.IntegerField, (int, float), "a whole number"),
    (serializers.FloatField, (int, float), "a number"),
    (serializers.DecimalField, (int, float, str), "a number"),
    (serializers.CharField, (str,), "a string"),
    (serializers.ChoiceField, (str,), "a string"),
    (serializers.DateTimeField, (str,), "a time such as 2027-01-31T12:00:00Z"),
    (serializers.DictField, (dict,), "an object"),
    (serializers.ListField, (list,), "a list"),
)


class NameField(serializers.RegexField):
    """A name that becomes a part of URLs and of file names."""

    def __init__(self, **kwargs: Any) -> None:
        fault = (
            "This is not a name. Hint: use letters, digits, - . and _, and begin with a letter, a "
            "digit or _."
        )
        kwargs["error_messages"] = {"invalid": fault}
        super().__init__(r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", **kwargs)


class Strict(serializers.Serializer[Any]):
    """A serializer that refuses unknown fields and values of a wrong JSON type.

    The error for an unknown field suggests a similar valid name.  The OpenAPI schema has
    ``additionalProperties: false``.
    """

    checks_types: ClassVar[bool] = True

    def get_fields(self) -> dict[str, Any]:
        """Return the fields; string fields keep leading and trailing white space."""
        fields: dict[str, Any] = super().get_fields()
        for field in fields.values():
            inner = getattr(field, "child", field)
            if isinstance(inner, serializers.CharField):
                inner.trim_whitespace = False
            if isinstance(inner, serializers.ChoiceField):
                hint = f"Hint: give one of {', '.join(map(str, inner.choices))}."
                inner.error_messages["invalid_choice"] = (
                    f'"{{input}}" is not a valid choice. {hint}'
                )
        return fields

    def to_internal_value(self, data: Any) -> Any:
        """Return the validated values; raise `ValidationError` for wrong names, types or values."""
        if isinstance(data, Mapping):
            faults: dict[str, Any] = {
                name: [unknown_name(name, self.fields, "field")]
                for name in map(str, data)
                if name not in self.fields
            }
            for name, value in data.items() if self.checks_types else ():
                if name in self.fields and (fault := _type_fault(self.fields[name], value)):
                    faults[name] = fault
            if faults:
                raise serializers.ValidationError(faults)
        return super().to_internal_value(data)


class StrictQuery(Strict):
    """A `Strict` serializer of query parameters or form fields, whose types are not checked."""

    checks_types = False


class Shown(serializers.Serializer[Any]):
    """A serializer of a response or of a part of a response.

    The instance is an object, or a dict with the same names.  A method ``read_<field>(instance)``
    returns the value of a field that is not an attribute of the instance.
    """

    def to_representation(self, instance: Any) -> dict[str, Any]:
        """Return the values of the fields, faster than Django REST framework's own method."""
        if isinstance(instance, dict):
            instance = SimpleNamespace(**instance)
        values = ((name, read(instance), render) for name, read, render in self._columns)
        return {name: None if value is None else render(value) for name, value, render in values}

    @cached_property
    def _columns(self) -> list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]]:
        return [
            (
                name,
                getattr(self, f"read_{name}", None) or attrgetter(str(field.source)),
                field.to_representation,
            )
            for name, field in self.fields.items()
        ]


class Column(serializers.Field[Any, Any, Any, Any]):
    """A field of a `RowShown` that has the type and value of the column with the same name."""


class RowShown(serializers.ModelSerializer[Any]):
    """A serializer of a model's row."""

    def get_field_names(  # type: ignore[override]  # a dict
        self, declared_fields: dict[str, Any], info: Any
    ) -> list[str]:
        """Return the names of all declared fields, and delete each `Column` from them.

        Django REST framework creates the deleted fields from the model.
        """
        names = list(declared_fields)
        for name in names:
            if isinstance(declared_fields[name], Column):
                del declared_fields[name]
        return names


class Duration(serializers.FloatField):
    """A field that returns a `timedelta` as a number of seconds."""

    def to_representation(self, value: Any) -> float:  # type: ignore[override]  # a number
        return float(value.total_seconds())


class JsonObject(serializers.DictField):
    """A field for any JSON object, such as `meta`, which is stored unchanged."""


def unknown_name(name: str, valid_names: Iterable[str], noun: str) -> str:
    """Return the error text for an unknown name, with a hint that contains valid names.

    `noun` is the kind of the name, such as "field".
    """
    near = get_close_matches(name, list(valid_names), n=1)
    valid = ", ".join(sorted(valid_names)) or "none"
    meant = f"do you mean {near[0]!r}?" if near else f"valid names: {valid}."
    return f"There is no {noun} {name[:80]!r}. Hint: {meant}"


def _type_fault(
    field: serializers.Field[Any, Any, Any, Any], value: object
) -> list[str] | dict[int, Any]:
    """Return the fault of a value of a wrong JSON type, under its index if it is in a list."""
    if value is None or isinstance(field, JsonObject):
        # The field's own validation accepts or refuses null.
        return [] if value is None or isinstance(value, dict) else ["This must be an object."]
    for kind, types, words in _TYPES:
        if isinstance(field, kind):
            fits = isinstance(value, types) and (bool in types or not isinstance(value, bool))
            if isinstance(field, serializers.IntegerField) and isinstance(value, float):
                fits = value.is_integer()
            if not fits:
                return [f"This must be {words}."]
            break
    child = getattr(field, "child", None)
    if isinstance(value, list) and isinstance(child, serializers.Field):
        faults = ((index, _type_fault(child, item)) for index, item in enumerate(value))
        return next(({index: fault} for index, fault in faults if fault), {})
    return []
