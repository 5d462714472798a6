"""Volunteers' computers, as staff sees them."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from scheduler.admin.base import RecordAdmin, StaffAdmin
from scheduler.admin.site import staff
from scheduler.models import Host, HostAppVersion

#: What staff decides about a host; the rest its client says, or the daemons compute.
DECIDED_BY_STAFF = ("denied", "max_in_progress", "venue")


@admin.register(Host, site=staff)
class HostAdmin(StaffAdmin):
    """Computers that attached; staff may deny one, and limit it."""

    list_display = (
        "__str__",
        "account",
        "platform_name",
        "p_ncpus",
        "p_model",
        "total_credit",
        "rpc_at",
        "denied",
    )
    list_filter = ("denied",)
    list_select_related = ("account",)
    search_fields = ("domain_name", "account__email", "account__name", "host_cpid")
    search_numbers = ("id", "account_id")
    actions = ("deny", "admit")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse: hosts introduce themselves."""
        return False

    def get_readonly_fields(
        self,
        request: HttpRequest,
        obj: Model | None = None,
    ) -> tuple[str, ...]:
        """Everything but what staff decides."""
        names = [field.name for field in Host._meta.concrete_fields]
        return tuple(name for name in names if name not in ("id", *DECIDED_BY_STAFF))

    @admin.action(description="Deny work to the selected hosts", permissions=["change"])
    def deny(self, request: HttpRequest, queryset: QuerySet[Host]) -> None:
        """Send no more work to these hosts."""
        count = queryset.filter(denied=False).update(denied=True)
        self.message_user(request, f"{count} hosts get no more work.")

    @admin.action(description="Admit the selected hosts again", permissions=["change"])
    def admit(self, request: HttpRequest, queryset: QuerySet[Host]) -> None:
        """Send work to these hosts again."""
        count = queryset.filter(denied=True).update(denied=False)
        self.message_user(request, f"{count} hosts get work again.")


@admin.register(HostAppVersion, site=staff)
class HostAppVersionAdmin(RecordAdmin):
    """What was learned of each app version on each host."""

    list_display = (
        "host",
        "app_version",
        "consecutive_valid",
        "n_valid",
        "max_results_per_day",
        "results_today",
        "turnaround_avg",
    )
    list_select_related = ("host", "app_version__app", "app_version__platform")
    search_fields = ("host__domain_name",)
    search_numbers = ("id", "host_id", "app_version_id")
