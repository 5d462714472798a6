"""Admin pages of hosts."""

from __future__ import annotations

import re
from json import dumps
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from scheduler.admin.base import RecordAdmin, RecordInline, StaffAdmin, section
from scheduler.admin.site import staff
from scheduler.hosts import denials
from scheduler.hosts.host_lists import decision_label
from scheduler.models import Host, HostAppVersion, HostToken
from scheduler.people.audit import Event
from scheduler.rights import Right

#: Fields that staff can change; clients and daemons set all other fields.
DECIDED_BY_STAFF = ("denied", "deny_reason", "max_in_progress", "venue")


class RecordsOfHost(RecordInline):
    """An inline with the statistics of a host by app version."""

    model = HostAppVersion
    fields = (
        "app_version",
        "n_valid",
        "consecutive_valid",
        "results_today",
        "max_results_per_day",
        "turnaround_avg",
    )
    ordering = ("app_version_id",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows, joined with the app versions, whose names are shown."""
        rows = super().get_queryset(request)
        return rows.select_related("app_version__app", "app_version__platform", "host")


@admin.register(Host, site=staff)
class HostAdmin(StaffAdmin):
    """The page of hosts, on which staff can change only the fields `DECIDED_BY_STAFF`."""

    change_right = Right.ADMINISTER_HOSTS
    audit_event = Event.HOST_CHANGED
    list_display = (
        "__str__",
        "account",
        "platform_name",
        "processors",
        "total_credit",
        "rpc_at",
        "denied",
    )
    list_filter = ("denied",)
    inlines = (RecordsOfHost,)
    fieldsets = (
        section(None, "domain_name", "account", "merged_into", "created_at", "rpc_at"),
        section("Set by staff", *DECIDED_BY_STAFF),
        section("Last requests for work, newest first", "decisions"),
        section("Credit", "total_credit", "expavg_credit", "expavg_at"),
        section(
            "The computer",
            "platform_name",
            "client_version",
            "os_name",
            "os_version",
            "p_ncpus",
            "p_vendor",
            "p_model",
            "p_fpops",
            "m_nbytes",
            "d_free",
            "d_total",
            "capabilities_text",
        ),
        section(
            "Other fields",
            "host_cpid",
            "last_ip_addr",
            "timezone",
            "rpc_seqno",
            "hr_class",
            "p_features",
            "p_iops",
            "p_membw",
            "m_cache",
            "m_swap",
            "n_bwup",
            "n_bwdown",
            "on_frac",
            "active_frac",
            "gpu_active_frac",
            "turnaround_seconds",
            is_collapsed=True,
        ),
    )
    helps = {
        "denied": "The host gets no work and cannot report its results in progress.",
        "deny_reason": "The reason why the host is denied.",
        "max_in_progress": "Maximum number of results in progress. If empty, only other limits "
        "apply.",
        "venue": "home, school or work. Selects the set of the owner's preferences that applies.",
    }
    search_fields = ("domain_name", "account__email", "account__name", "host_cpid")
    search_numbers = ("id", "account_id")
    actions = ("deny", "admit")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False, because the scheduler RPC adds hosts."""
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Return the columns except `id` and `DECIDED_BY_STAFF`, and the computed fields."""
        names = [field.name for field in Host._meta.concrete_fields]
        others = tuple(name for name in names if name not in ("id", *DECIDED_BY_STAFF))
        return (*others, "decisions", "capabilities_text")

    def processors(self, host: Host) -> str:
        """Return the number of CPUs and their model, without stepping and trademark signs."""
        model = re.sub(r"\s*\[[^]]*\]|\((?:R|TM|C)\)", "", host.p_model, flags=re.IGNORECASE)
        return f"{host.p_ncpus} × {model}" if model else str(host.p_ncpus)

    def decisions(self, host: Host) -> SafeString | str:
        """Return the outcomes of the host's last work requests as HTML, one paragraph each."""
        lines = [(decision_label(decision),) for decision in host.last_decisions]
        return format_html_join("", "<p>{}</p>", lines) or "–"

    @admin.display(description="capabilities")
    def capabilities_text(self, host: Host) -> SafeString:
        """Return the capabilities that the client reported, such as GPUs, as formatted JSON."""
        return format_html("<pre>{}</pre>", dumps(host.capabilities, indent=2, sort_keys=True))

    @admin.action(description="Deny work to the selected hosts", permissions=["change"])
    def deny(self, request: HttpRequest, queryset: QuerySet[Host]) -> None:
        """Deny the selected hosts: they get no work and cannot report results."""
        reason = f"denied in the administration by {request.user}"
        count = denials.change_all(queryset, denied=True, reason=reason, now=timezone.now())
        self.message_user(request, f"{count} hosts will get no more work.")

    @admin.action(description="Admit the selected hosts again", permissions=["change"])
    def admit(self, request: HttpRequest, queryset: QuerySet[Host]) -> None:
        """Allow the selected hosts to get work and report results again."""
        count = denials.change_all(queryset, denied=False, now=timezone.now())
        self.message_user(request, f"{count} hosts will get work again.")


@admin.register(HostAppVersion, site=staff)
class HostAppVersionAdmin(RecordAdmin):
    """The page of statistics by host and app version."""

    list_display = (
        "host",
        "app_version",
        "consecutive_valid",
        "n_valid",
        "max_results_per_day",
        "results_today",
        "turnaround_avg",
    )
    list_select_related = ("app_version__app", "app_version__platform")
    search_fields = ("host__domain_name",)
    search_numbers = ("id", "host_id", "app_version_id")


@admin.register(HostToken, site=staff)
class HostTokenAdmin(RecordAdmin):
    """The page of the tokens of the trusted pool, which are stored as hashes.

    `manage.py pool` creates and revokes them.
    """

    list_display = ("host", "created_at", "last_used_on", "expire_at", "revoked_at")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    search_fields = ("host__domain_name",)
    search_numbers = ("id", "host_id")
    fields = ("host", "created_at", "last_used_on", "expire_at", "revoked_at")
