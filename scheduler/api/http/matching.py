"""Supports the headers `ETag` and `If-Match`, which prevent lost updates."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import QuerySet
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.problems import Problem

Handler = TypeVar("Handler", bound=Callable[..., Any])


def with_if_match(handler: Handler) -> Handler:
    """Return a PATCH or DELETE handler that supports `If-Match`.

    The response has the same body as a GET of the view, or none.  The view's `rows(...)` takes the
    URL arguments and returns the rows that the handler changes.  They are locked before the handler
    runs; `Endpoint.lock_first` takes the locks that come before them in the lock order.  Other
    errors of the request take precedence over 412 (RFC 9110, 13.2.1).  A 412 rolls back the
    handler's changes.
    """

    @functools.wraps(handler)
    def wrapper(view: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        def act() -> Response:
            response: Response = handler(view, request, *args, **kwargs)
            if response.data is not None:
                response.headers["ETag"] = etag_of(response.data)
            return response

        if_match = request.headers.get("If-Match")
        if if_match is None:
            return act()

        def act_if_fresh() -> Response:
            with view.read_spec():
                current = etag_of(view.get(request, *args, **kwargs).data)
            response = act()
            if not {"*", current} & {etag.strip() for etag in if_match.split(",")}:
                msg = (
                    "The resource changed since the ETag in If-Match was issued. "
                    "Hint: read it again, then change it."
                )
                raise Problem(412, "changed_meanwhile", msg)
            return response

        with transaction.atomic():
            view.lock_first(*args, **kwargs)
            _lock(view.rows(*args, **kwargs))
            return act_if_fresh()

    return wrapper  # type: ignore[return-value]


def etag_of(data: Any) -> str:
    """Return the ETag of a response: a digest of the rendered body."""
    return f'"{hashlib.sha256(JSONRenderer().render(data)).hexdigest()[:32]}"'


def _lock(rows: QuerySet[Any]) -> None:
    list(rows.order_by("pk").select_for_update(of=("self",), no_key=True))
