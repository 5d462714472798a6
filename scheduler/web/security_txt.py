"""Serves `/.well-known/security.txt`, the security contacts (RFC 9116)."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

PATH = "/.well-known/security.txt"
#: The time from now to `Expires`; RFC 9116 recommends less than a year.
VALID_FOR = timedelta(days=180)


@require_safe
def security_txt(_request: HttpRequest) -> HttpResponse:
    """Return the file with the contacts of `SECURITY_CONTACT`, or 404 without contacts."""
    project = settings.PROJECT
    if not project.security_contact:
        return HttpResponse("No contact is set.\n", status=404, content_type="text/plain")
    text = contents(project.security_contact, project.master_url, now=timezone.now())
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    response["Cache-Control"] = "public, max-age=86400"
    return response


def contents(contacts: tuple[str, ...], master_url: str, *, now: datetime) -> str:
    """Return the content of the file; `Expires` is the last midnight (UTC) within `VALID_FOR`."""
    origin = urlsplit(master_url)
    day = datetime.combine((now + VALID_FOR).astimezone(UTC).date(), time.min)
    lines = [f"Contact: {contact}" for contact in contacts]
    lines.append(f"Expires: {day:%Y-%m-%dT%H:%M:%SZ}")
    # A file from an http URL is not authenticated, so it has no canonical URL.
    if origin.scheme == "https":
        lines.append(f"Canonical: https://{origin.netloc}{PATH}")
    lines.append("Preferred-Languages: en")
    return "\n".join(lines) + "\n"
