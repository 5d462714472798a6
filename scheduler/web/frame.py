"""Adds the project to the context of every page."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest


def project(_request: HttpRequest) -> dict[str, Any]:
    """Return the project's options, of which the frame of the pages shows the name."""
    return {"project": settings.PROJECT}
