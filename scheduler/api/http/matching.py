"""`ETag` and `If-Match`: what was changed meanwhile is not changed unseen."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.problems import Problem
from scheduler.sql.guarded import guarded

Handler = TypeVar("Handler", bound=Callable[..., Any])


def obeys_match(handler: Handler) -> Handler:
    """Have a PATCH obey the header; its answer is what GET of the same view answers.

    The view's `rows` are what is changed, by the parts of the address.  What else is wrong with the
    request is told first (RFC 9110, 13.2.1); what was done until then is undone.
    """

    @functools.wraps(handler)
    def obeying(view: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        def act() -> Response:
            made: Response = handler(view, request, *args, **kwargs)
            made.headers["ETag"] = etag_of(made.data)
            return made

        said = request.headers.get("If-Match")
        if said is None:
            return act()

        def act_if_fresh() -> Response:
            now = etag_of(view.get(request, *args, **kwargs).data)
            made = act()
            if not {"*", now} & {one.strip() for one in said.split(",")}:
                msg = "It is not any more what If-Match says. Hint: read it again, then change it."
                raise Problem(412, "changed_meanwhile", msg)
            return made

        return guarded(view.rows(*args, **kwargs), act_if_fresh)

    return obeying  # type: ignore[return-value]


def etag_of(data: Any) -> str:
    """Make the ETag of an answer: the digest of what is sent."""
    return f'"{hashlib.sha256(JSONRenderer().render(data)).hexdigest()[:32]}"'
