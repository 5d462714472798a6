"""Names and ids of rows in URLs, looked up before an operation is handled."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

Handler = TypeVar("Handler", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class UrlLookup:
    """A text of a URL, and the function that returns the id or name for which it stands."""

    text: str
    find: Callable[[Request, str], int | str]


def with_url_lookups(handler: Handler) -> Handler:
    """Return a handler whose arguments of type `UrlLookup` are replaced by ids or names.

    They are found after the checks of `Endpoint.initial`.
    """

    @functools.wraps(handler)
    def wrapper(view: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        resolved = {
            name: value.find(request, value.text) if isinstance(value, UrlLookup) else value
            for name, value in kwargs.items()
        }
        answer: Response = handler(view, request, *args, **resolved)
        return answer

    return wrapper  # type: ignore[return-value]
