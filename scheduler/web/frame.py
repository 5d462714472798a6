"""Adds the project to the context of every page."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest


def project(_request: HttpRequest) -> dict[str, Any]:
    """Return the project's options, and the languages of the form at the end of each page.

    Without a choice of languages the page has no form.
    """
    offered = settings.PROJECT.site_languages
    choice = [(code, name) for code, name in settings.LANGUAGES if code in offered]
    return {"project": settings.PROJECT, "languages": choice if len(choice) > 1 else []}
