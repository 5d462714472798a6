"""Builds the OpenAPI 3.1 schema, with all error statuses of each operation."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast

from drf_spectacular.extensions import (
    OpenApiAuthenticationExtension,
    OpenApiSerializerExtension,
    OpenApiSerializerFieldExtension,
)
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from rest_framework import serializers

from scheduler.api.authentication import required_access
from scheduler.api.http.body import Strict
from scheduler.api.http.openapi_operation import Access, operation, spec_of
from scheduler.api.http.problems import CONTENT_TYPE

_DESCRIPTIONS = {
    "400": "The request does not match this schema.",
    "401": "The token is missing, unknown, expired or revoked.",
    "403": "The token lacks a scope, or its account lacks a right.",
    "404": "The resource does not exist, or it belongs to another account.",
    "410": "The file no longer exists.",
    "408": "The body took too long to arrive.",
    "411": "The request has no `Content-Length`.",
    "409": "The request conflicts with the current state, or a request with the same key is still "
    "running.",
    "412": "The resource changed since the ETag in `If-Match` was issued.",
    "413": "The body is too long.",
    "415": "The content type or encoding of the body is not supported.",
    "416": "The range is outside the content.",
    "422": "The request matches the schema, but cannot be carried out.",
    "429": "There were too many attempts. `Retry-After` is the number of seconds to wait.",
    "503": "The server is temporarily unavailable. `Retry-After` is the number of seconds to wait.",
}
#: Tags by the first path segment.  The tag of other paths is the segment itself.
_TAGS = {
    "": "project",
    "app-versions": "apps",
    "computers": "hosts",
    "me": "tokens",
    "ownership-verifications": "accounts",
    "platforms": "apps",
    "statistics": "project",
    "status": "project",
    "usage": "batches",
    "weak-key": "tokens",
}
#: Paths with names that several rows can have.
_BY_NAMES_OF_SEVERAL = ("/api/v1/batches/{", "/api/v1/hosts/{")
_LINE = {"type": "string"}
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": _LINE,
        "status": {"type": "integer"},
        "code": {**_LINE, "description": "A stable identifier of the error, for programs."},
        "detail": {**_LINE, "description": "A description of the error, for people."},
        "hint": {**_LINE, "description": "A hint on how to correct the request, for people."},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["detail"],
                "properties": {
                    "pointer": {
                        **_LINE,
                        "description": "The place in the body, as a JSON pointer (RFC 6901).",
                    },
                    "line": {
                        "type": "integer",
                        "description": "The line number in a stream of workunits.",
                    },
                    "detail": _LINE,
                    "hint": _LINE,
                },
            },
        },
    },
}


class Schema(AutoSchema):
    """Builds the schema of an operation from its `operation` decorator."""

    @property
    def spec(self) -> operation:
        """The `operation` declaration of the method."""
        return cast("operation", spec_of(self.view, self.method))

    def get_tags(self) -> list[str]:
        """Return a list with the tag, which is the first path segment or its entry in `_TAGS`."""
        [first] = super().get_tags() or [""]
        return [_TAGS.get(first, first)]

    def get_operation_id(self) -> str:
        return self.spec.name

    def get_summary(self) -> str:
        return self.spec.summary

    def get_request_serializer(self) -> Any:
        return self.spec.body

    def get_response_serializers(self) -> Any:
        return self.spec.answers

    def get_override_parameters(self) -> list[Any]:
        """Return the query serializer, if the operation has one, and its other parameters."""
        query = [self.spec.query] if self.spec.query is not None else []
        return [*query, *self.spec.parameters]

    def _get_filter_parameters(self) -> list[dict[str, Any]]:
        filterset = getattr(self.view, "filterset_class", None)
        if not self.spec.listed or filterset is None:
            return []
        return [
            {
                "name": name,
                "in": "query",
                **item.parameter,
                **(
                    {"description": str(item.extra["help_text"])}
                    if item.extra.get("help_text")
                    else {}
                ),
            }
            for name, item in filterset.base_filters.items()
        ]

    def _is_list_view(self, serializer: Any = None) -> bool:
        return self.spec.listed

    def _map_serializer_field(
        self,
        field: Any,
        direction: Any,
        bypass_extensions: bool = False,  # noqa: FBT001, FBT002
    ) -> Any:
        """Return the schema of a field; a non-blank string of a body has `minLength: 1`."""
        schema = super()._map_serializer_field(field, direction, bypass_extensions)
        text = isinstance(field, serializers.CharField) and not field.allow_blank
        if text and isinstance(field.root, Strict) and "string" in (schema or {}).get("type", ()):
            return {"minLength": 1, **schema}
        return schema

    def get_auth(self) -> list[dict[str, Any]]:
        """Return the security requirements: a token, an optional token, or none."""
        access = required_access(self.view, self.method)
        if access is Access.PUBLIC:
            return []
        auth: list[dict[str, Any]] = super().get_auth()
        return [*auth, {}] if access is Access.OPTIONAL else auth

    def get_operation(self, *args: Any, **kwargs: Any) -> Any:
        """Return the schema of an operation, with headers and error responses."""
        described = super().get_operation(*args, **kwargs)
        if described is None:
            return None
        spec = self.spec
        self._describe_access(described)
        if isinstance(spec.body, Mapping):
            described["requestBody"]["required"] = True
        if spec.idempotent or spec.keyed:
            described.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)
        if spec.guarded:
            described.setdefault("parameters", []).append(_IF_MATCH)
        if spec.conditional:
            described["responses"]["304"] = {"description": "The client's version is current."}
        for status, response in described["responses"].items():
            response["description"] = response["description"] or HTTPStatus(int(status)).phrase
        for status in sorted(self._error_statuses()):
            described["responses"].setdefault(
                status,
                {
                    "description": _DESCRIPTIONS[status],
                    "content": {CONTENT_TYPE: {"schema": self._problem().ref}},
                },
            )
        described["responses"] = dict(sorted(described["responses"].items()))
        return described

    def _describe_access(self, described: dict[str, Any]) -> None:
        """Add the scope that a token needs, or the kind of token, to an operation."""
        spec, access = self.spec, required_access(self.view, self.method)
        text = described.get("description", "")
        if access is Access.POOL:
            described["x-access"] = str(access)
            described["description"] = f"{text}\n\nNeeds a host token; other callers get 404."
        elif access not in Access:
            described["x-scope"] = str(access)
            names = f"`{access}`"
            if spec.or_scope is not None:
                described["x-or-scope"] = str(spec.or_scope)
                names += f" or `{spec.or_scope}`"
            described["description"] = f"{text}\n\nNeeds scope {names}.".strip()

    def _error_statuses(self) -> set[str]:
        spec, access = self.spec, required_access(self.view, self.method)
        conditions = (
            (True, {400, *spec.problems}),
            (access is not Access.PUBLIC, {401}),
            (access not in {Access.PUBLIC, Access.ANY, Access.POOL}, {403}),
            (access is Access.POOL, {404}),
            ("{" in self.path, {404}),
            (self.path.startswith(_BY_NAMES_OF_SEVERAL), {409}),
            (spec.listed, {422}),
            (spec.body is not None, {413, 415, 422}),
            (spec.idempotent or spec.keyed, {409, 422}),
            (spec.guarded, {412}),
        )
        return {str(status) for holds, statuses in conditions if holds for status in statuses}

    def _problem(self) -> ResolvedComponent:
        component = ResolvedComponent(
            name="Problem", type=ResolvedComponent.SCHEMA, object="Problem", schema=PROBLEM
        )
        self.registry.register_on_missing(component)
        return component


_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A repeated request with the same key has no second effect and returns the "
    "first response. Keys are kept for a week.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
}


_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "description": "An `ETag`. If the resource has another ETag, the response is 412.",
    "schema": {"type": "string"},
}


class Bearer(OpenApiAuthenticationExtension):
    target_class = "scheduler.api.authentication.BearerToken"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "A token from `POST /api/v1/tokens` or `manage.py token create`.",
        }


class StrictBody(OpenApiSerializerExtension):
    """Defines the schema of `Strict` serializers, which refuse unknown fields."""

    target_class = "scheduler.api.http.body.Strict"
    match_subclasses = True

    def map_serializer(self, auto_schema: AutoSchema, direction: Any) -> dict[str, Any]:
        """Return the schema with `additionalProperties: false`."""
        schema: dict[str, Any] = auto_schema._map_serializer(  # noqa: SLF001  the documented way
            self.target,
            direction,
            bypass_extensions=True,
        )
        return {**schema, "additionalProperties": False}


class FreeObject(OpenApiSerializerFieldExtension):
    """Defines the schema of `JsonObject`: an object with any properties."""

    target_class = "scheduler.api.http.body.JsonObject"
    match_subclasses = True

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Any) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": True}
