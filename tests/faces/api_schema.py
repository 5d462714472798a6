"""The operations of the API, read from its schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode

from drf_spectacular.generators import SchemaGenerator

from tests.faces.owned import BODIES, PLACES, QUERIES, REQUIRED, Owned

METHODS = ("get", "post", "put", "patch", "delete")
PREFIX = "/api/v1"


@cache
def schema() -> dict[str, Any]:
    """Return the schema, generated from the code."""
    made: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return made


@dataclass(frozen=True)
class Operation:
    """An operation: an HTTP method of a path."""

    path: str
    method: str
    says: Any

    @property
    def name(self) -> str:
        return self.says["operationId"]

    @property
    def place(self) -> str:
        """Return the first segment of the path."""
        return self.path.removeprefix(f"{PREFIX}/").partition("/")[0]

    @property
    def scope(self) -> str | None:
        return self.says.get("x-scope")

    @property
    def scopes(self) -> tuple[str, ...]:
        """Return the scopes of which one is required; empty if none is."""
        return tuple(
            scope for scope in (self.scope, self.says.get("x-or-scope")) if scope is not None
        )

    @property
    def asks_for_a_token(self) -> bool:
        return bool(self.says.get("security")) and {} not in self.says["security"]

    def parameters(self, where: str) -> list[dict[str, Any]]:
        return [one for one in self.says.get("parameters", ()) if one["in"] == where]

    def url(self, owned: Owned) -> str:
        """Return the path with parameters replaced by ids of an account's rows."""
        found = self.path
        for one in self.parameters("path"):
            key = (self.place, one["name"])
            assert key in PLACES, (
                f"{self.method.upper()} {self.path} names something by {one['name']!r}, and no "
                f"test has one. Hint: add {key} to PLACES in tests/faces/owned.py, and the thing "
                "itself to `everything`."
            )
            found = found.replace(f"{{{one['name']}}}", str(PLACES[key](owned)))
        return found

    def queries(self, owned: Owned) -> dict[str, Any]:
        """Return the query parameters that refer to rows, with values of an account's rows."""
        found = {}
        for one in self.parameters("query"):
            if one.get("schema", {}).get("format") == "int64" or one["name"] in QUERIES:
                assert one["name"] in QUERIES, (
                    f"{self.method.upper()} {self.path} takes an id as {one['name']!r}, and no "
                    "test has one. Hint: add it to QUERIES in tests/faces/owned.py."
                )
                found[one["name"]] = QUERIES[one["name"]](owned)
        return found

    def body(self, owned: Owned) -> tuple[Any, str] | None:
        """Return a valid body and its content type, or None if the operation has no body."""
        content = self.says.get("requestBody", {}).get("content")
        if not content:
            return None
        kind = next(iter(content))
        if self.name in BODIES:
            return BODIES[self.name](owned), kind
        wants = content[kind].get("schema", {})
        reference = wants.get("$ref", "").rpartition("/")[2]
        wants = schema()["components"]["schemas"].get(reference, wants)
        assert not wants.get("required"), (
            f"{self.name} needs a body with {', '.join(wants['required'])}, and no test has one. "
            "Hint: add it to BODIES in tests/faces/owned.py, with ids of its owner's things."
        )
        return {}, kind

    def call(self, program: Any, owned: Owned, *, query: str = "") -> Any:
        """Call the operation on an account's rows; return the response.

        `query` begins with a question mark; parameters that the operation requires are added.
        """
        sent = self.body(owned)
        send = getattr(program, self.method)
        url = self.url(owned) + query
        if required := urlencode(REQUIRED.get(self.name, {})):
            url += f"{'&' if query else '?'}{required}"
        if sent is None:
            return send(url)
        body, kind = sent
        if kind == "multipart/form-data":
            return send(url, body)
        return send(url, body, content_type=kind)


def operations() -> Iterator[Operation]:
    """Yield all operations of the schema, except those for hosts of the trusted pool.

    `tests/security/test_pool_access.py` calls these.
    """
    for path, item in schema()["paths"].items():
        for method in METHODS:
            if method in item and item[method].get("x-access") != "pool":
                yield Operation(path, method, item[method])
