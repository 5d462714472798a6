"""The admin page of the audit log, with links by actor and address."""

from __future__ import annotations

from json import dumps
from urllib.parse import urlencode

from django.contrib import admin
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduler.admin.base import RecordAdmin
from scheduler.admin.lists.searching import Prefix
from scheduler.admin.lists.sorting import Sort
from scheduler.admin.shown import times
from scheduler.admin.site import staff
from scheduler.models import AuditEntry


@admin.register(AuditEntry, site=staff)
class AuditEntryAdmin(RecordAdmin):
    """The list of audit entries, newest first."""

    list_display = ("when", "event_name", "by_and_from", "subject_and_details")
    list_filter = ("event", "at")
    sorts = {"when": Sort(("at",))}
    search_fields = ("actor", "subject", "address")
    search_names = ("actor", "subject")
    search_numbers = ("id", "account_id")
    search_prefixes = (Prefix("actor"), Prefix("subject"))
    search_help_text = (
        "An actor or a subject (“token 17”) or its beginning, or an account's number; in the "
        "newest 10,000 entries also parts of them, and of addresses"
    )
    fields = ("when", "event", "by", "account_id", "from_address", "subject", "all_details")
    readonly_fields = ("when", "by", "from_address", "all_details")
    list_display_links = ("when",)

    @admin.display(description="when (UTC)", ordering="at")
    def when(self, entry: AuditEntry) -> SafeString:
        """Return the time to the second, with its distance from now on hover."""
        return times.exact(entry.at, now=timezone.now())

    @admin.display(description="actor and address")
    def by_and_from(self, entry: AuditEntry) -> SafeString:
        """Return the actor and, in a second line, the address, both as links."""
        return format_html("{}<br>{}", self.by(entry), self.from_address(entry))

    @admin.display(description="actor")
    def by(self, entry: AuditEntry) -> SafeString | str:
        """Return the actor, as a link to all entries of the same actor."""
        return _same("actor", entry.actor)

    @admin.display(description="address")
    def from_address(self, entry: AuditEntry) -> SafeString | str:
        """Return the address, as a link to all entries from the same address."""
        return _same("address", entry.address or "")

    @admin.display(description="event")
    def event_name(self, entry: AuditEntry) -> str:
        """Return the name of the event, which the log and the documentation use too."""
        return entry.event

    @admin.display(description="subject and details")
    def subject_and_details(self, entry: AuditEntry) -> SafeString:
        """Return the subject and, below it, at most 80 characters of the details."""
        text = ", ".join(
            f"{name}: {value if isinstance(value, str) else dumps(value)}"
            for name, value in entry.details.items()
        )
        if len(text) > _MAX_SUMMARY:
            text = f"{text[:_MAX_SUMMARY]}…"
        return format_html(
            '{}<div class="help wraps">{}</div>',
            entry.subject or "–",
            text,
        )

    @admin.display(description="details")
    def all_details(self, entry: AuditEntry) -> SafeString:
        return format_html("<pre>{}</pre>", dumps(entry.details, indent=2, sort_keys=True))


#: Maximum length of an entry's details in the list.
_MAX_SUMMARY = 80


def _same(column: str, value: str) -> SafeString | str:
    if not value:
        return "–"
    url = reverse("admin:scheduler_auditentry_changelist")
    return format_html('<a href="{}?{}">{}</a>', url, urlencode({column: value}), value)
