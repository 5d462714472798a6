"""The schema: OpenAPI 3.1, each operation with every refusal that it may meet."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from drf_spectacular.extensions import (
    OpenApiAuthenticationExtension,
    OpenApiSerializerExtension,
    OpenApiSerializerFieldExtension,
)
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from rest_framework import serializers

from scheduler.api.authentication import needed
from scheduler.api.http import filters
from scheduler.api.http.body import Strict
from scheduler.api.http.operation import Access, described
from scheduler.api.http.problems import CONTENT_TYPE

_SAID = {
    "400": "The request has not the shape that this schema asks for.",
    "401": "No good token was shown.",
    "403": "The token, or its owner, may not do this.",
    "404": "There is no such thing, or it is not yours.",
    "410": "It is gone.",
    "408": "The body took too long to arrive.",
    "411": "The length of the body is not said.",
    "409": "It stands against what is there, or is being done by another request.",
    "412": "It is not any more what `If-Match` says.",
    "413": "The body is too long.",
    "415": "The body is of a type that is not read here.",
    "416": "The range lies outside of the content.",
    "422": "The request is understood, and cannot be carried out.",
    "429": "Too many of these. `Retry-After` says when to come again.",
    "503": "Not now. `Retry-After` says when to come again.",
}
_LINE = {"type": "string"}
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": _LINE,
        "status": {"type": "integer"},
        "code": {**_LINE, "description": "For programs: it does not change."},
        "detail": {**_LINE, "description": "For people: what happened."},
        "hint": {**_LINE, "description": "For people: what to do."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["detail"],
                "properties": {
                    "pointer": {**_LINE, "description": "Where in the body (RFC 6901)."},
                    "line": {"type": "integer", "description": "In which line of a stream."},
                    "detail": _LINE,
                    "hint": _LINE,
                },
            },
        },
    },
}


class Schema(AutoSchema):
    """Reads `operation`'s descriptions."""

    def get_override_parameters(self) -> list[Any]:
        """Add the query, and the headers that the endpoint obeys."""
        says = described(self.view, self.method)
        if says is None:
            return []
        return [says.query] if says.query is not None else []

    def _get_filter_parameters(self) -> list[dict[str, Any]]:
        says = described(self.view, self.method)
        found = getattr(self.view, "filterset_class", None)
        if says is None:
            usual: list[dict[str, Any]] = super()._get_filter_parameters()
            return usual
        if not says.listed or found is None:
            return []
        return [
            {
                "name": name,
                "in": "query",
                **_taken(filters.schema_of(one)),
                **(
                    {"description": str(one.extra["help_text"])}
                    if one.extra.get("help_text")
                    else {}
                ),
            }
            for name, one in found.base_filters.items()
        ]

    def _is_list_view(self, serializer: Any = None) -> bool:
        says = described(self.view, self.method)
        if says is None:
            return super()._is_list_view(serializer)
        return says.listed and self.method == "GET"

    def _map_serializer_field(
        self,
        field: Any,
        direction: Any,
        bypass_extensions: bool = False,  # noqa: FBT001, FBT002
    ) -> Any:
        """Say of a text that is sent that it is not empty, where it must not be."""
        found = super()._map_serializer_field(field, direction, bypass_extensions)
        text = isinstance(field, serializers.CharField) and not field.allow_blank
        if text and isinstance(field.root, Strict) and "string" in (found or {}).get("type", ()):
            return {"minLength": 1, **found}
        return found

    def get_auth(self) -> list[dict[str, Any]]:
        """Ask for a token where one is asked for."""
        asked = needed(self.view, self.method)
        if asked is Access.PUBLIC:
            return []
        auth: list[dict[str, Any]] = super().get_auth()
        return [*auth, {}] if asked is Access.OPTIONAL else auth

    def get_operation(self, *args: Any, **kwargs: Any) -> Any:
        """Describe an operation, with headers and refusals."""
        operation = super().get_operation(*args, **kwargs)
        if operation is None:
            return None
        says = described(self.view, self.method)
        asked = needed(self.view, self.method)
        if asked not in Access:
            operation["x-scope"] = str(asked)
            names = f"`{asked}`"
            if says is not None and says.or_scope is not None:
                operation["x-or-scope"] = str(says.or_scope)
                names += f" or `{says.or_scope}`"
            operation["description"] = (
                f"{operation.get('description', '')}\n\nNeeds scope {names}.".strip()
            )
        if says is not None and isinstance(says.body, Mapping):
            operation["requestBody"]["required"] = True
        if says is not None and says.idempotent:
            operation.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)
        if says is not None and says.guarded:
            operation.setdefault("parameters", []).append(_IF_MATCH)
        if says is not None and says.conditional:
            operation["responses"]["304"] = {"description": "It is what `If-None-Match` says."}
        for status, response in operation["responses"].items():
            response["description"] = response["description"] or HTTPStatus(int(status)).phrase
        for status in sorted(self._refusals()):
            operation["responses"].setdefault(
                status,
                {
                    "description": _SAID[status],
                    "content": {CONTENT_TYPE: {"schema": self._problem().ref}},
                },
            )
        operation["responses"] = dict(sorted(operation["responses"].items()))
        return operation

    def _refusals(self) -> set[str]:
        says = described(self.view, self.method)
        found = {"400"}
        asked = needed(self.view, self.method)
        if asked is not Access.PUBLIC:
            found |= {"401"}
        if asked not in {Access.PUBLIC, Access.ANY}:
            found |= {"403"}
        if "{" in self.path:
            found |= {"404"}
        if says is not None:
            if says.listed:
                found |= {"422"}
            if says.body is not None:
                found |= {"413", "415", "422"}
            if says.idempotent:
                found |= {"409", "422"}
            if says.guarded:
                found |= {"412"}
            found |= {str(status) for status in says.problems}
        return found

    def _problem(self) -> ResolvedComponent:
        component = ResolvedComponent(
            name="Problem", type=ResolvedComponent.SCHEMA, object="Problem", schema=PROBLEM
        )
        self.registry.register_on_missing(component)
        return component


def _taken(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter's schema; that of JSON in a parameter stands in its own place."""
    if schema.get("contentMediaType") == "application/json":
        return {"content": {"application/json": {"schema": {"type": "object"}}}}
    return {"schema": schema}


_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Send the same again with the same key, and it is done once; kept for a week.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
}


_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "description": "The `ETag` that was read: what is not any more so is not changed (412).",
    "schema": {"type": "string"},
}


class Bearer(OpenApiAuthenticationExtension):
    """Tokens, as the schema knows them."""

    target_class = "scheduler.api.authentication.BearerToken"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        """A bearer token."""
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "A token of `POST /api/v1/tokens` or `manage.py token create`.",
        }


class StrictBody(OpenApiSerializerExtension):
    """What refuses unknown fields says so."""

    target_class = "scheduler.api.http.body.Strict"
    match_subclasses = True

    def map_serializer(self, auto_schema: AutoSchema, direction: Any) -> dict[str, Any]:
        """Close the object."""
        schema: dict[str, Any] = auto_schema._map_serializer(  # noqa: SLF001  the documented way
            self.target,
            direction,
            bypass_extensions=True,
        )
        return {**schema, "additionalProperties": False}


class FreeObject(OpenApiSerializerFieldExtension):
    """A JSON object that may hold anything."""

    target_class = "scheduler.api.http.body.JsonObject"
    match_subclasses = True

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Any) -> dict[str, Any]:
        """Leave it open."""
        return {"type": "object", "additionalProperties": True}
