"""Whose things may be seen: one's own, or, by who administers, everybody's."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from scheduler.api.authentication import Scope, may

if TYPE_CHECKING:
    from rest_framework.request import Request

    from scheduler.models import Account


def viewer_of(request: Request) -> Account | None:
    """Whose things may be seen; None: everybody's."""
    return None if may(request, Scope.ADMINISTER) else cast("Account", request.user)
