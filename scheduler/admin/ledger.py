"""Read-only admin pages of the append-only tables: moves and credit grants."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from scheduler.admin.base import RecordAdmin, badge, is_bigint
from scheduler.admin.site import staff
from scheduler.models import CreditEntry, LedgerEntry, Workunit
from scheduler.work.timeline import describe_move


@admin.register(LedgerEntry, site=staff)
class LedgerEntryAdmin(RecordAdmin):
    """All moves, newest workunit first, which is the order of the table's index."""

    list_display = ("when", "workunit_id", "result_id", "of", "moved", "reason", "actor")
    list_filter = ("axis", "because", "by")
    ordering = ("-workunit_id", "-id")
    search_fields = ("workunit_id",)
    search_help_text = "Number or name of a workunit"
    fields = ("when", "workunit_id", "result_id", "of", "moved", "reason", "actor")
    readonly_fields = ("when", "of", "moved", "reason", "actor")

    def get_search_results(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        search_term: str,
    ) -> tuple[QuerySet[Any], bool]:
        """Return the moves of one workunit; the ledger has no index for other searches."""
        term = search_term.strip().removeprefix("#")
        if not term:
            return queryset, False
        ids = set(Workunit.objects.filter(name=term).values_list("id", flat=True))
        if is_bigint(term):
            ids.add(int(term))
        return queryset.filter(workunit_id__in=ids), False

    @admin.display(description="when (UTC)")
    def when(self, entry: LedgerEntry) -> str:
        """Return the time, to the second."""
        return f"{entry.at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="axis")
    def of(self, entry: LedgerEntry) -> str:
        """Return the axis, which is the state machine that moved."""
        return describe_move(entry).axis

    @admin.display(description="from → to")
    def moved(self, entry: LedgerEntry) -> SafeString:
        """Return the states before and after the move."""
        words = describe_move(entry)
        return badge(words.source) + SafeString(" → ") + badge(words.target)

    @admin.display(description="because")
    def reason(self, entry: LedgerEntry) -> str:
        """Return the reason."""
        return describe_move(entry).because

    @admin.display(description="by")
    def actor(self, entry: LedgerEntry) -> str:
        """Return the program or person that made the move."""
        return describe_move(entry).by


@admin.register(CreditEntry, site=staff)
class CreditEntryAdmin(RecordAdmin):
    """All grants of credit."""

    list_display = ("granted_at", "amount", "account", "host", "app", "result_id", "rule")
    list_filter = ("app",)
    list_select_related = ("account", "host", "app")
    search_fields = ("account__email", "account__name")
    search_numbers = ("result_id", "account_id", "host_id")
