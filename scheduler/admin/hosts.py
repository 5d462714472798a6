"""Admin pages of hosts."""

from __future__ import annotations

import re
from json import dumps
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduler.admin.base import RecordAdmin, RecordInline, StaffAdmin, section
from scheduler.admin.confirm import confirmation_page_with, is_confirmed
from scheduler.admin.lists import searching
from scheduler.admin.lists.searching import Prefix
from scheduler.admin.lists.sorting import BY_ID, Sort, is_positive
from scheduler.admin.previews import host_denials
from scheduler.admin.site import staff
from scheduler.hosts import waits
from scheduler.hosts.host_lists import decision_label
from scheduler.models import Host, HostAppVersion, HostToken
from scheduler.people.audit import Event
from scheduler.rights import Right

#: Fields that staff can change; clients, daemons and actions set all other fields.
DECIDED_BY_STAFF = ("max_in_progress", "venue")
#: Maximum number of hosts that an action changes.
MAX_HOSTS = 1000
#: Maximum number of hosts that the confirmation page names.
_MAX_NAMES = 10
_WAITS_CLEARED = (
    "The numbers of results sent today are set to 0, and quotas that errors have reduced to the "
    "quota of the app, so that the next request of these hosts can get work. Errors reduce the "
    "quota again. The server refuses no request because it comes too soon; a client keeps the "
    "delay of its last reply by itself, and the button Update in the client ends it."
)


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
        "name",
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
        section("Set by staff", "denied", "deny_reason", *DECIDED_BY_STAFF),
        section("Set by the owner", "own_max_held", "own_max_cpus", "hidden"),
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
    change_form_template = "scheduler/admin/host.html"
    helps = {
        "max_in_progress": "Maximum number of results in progress. If empty, only other limits "
        "apply.",
        "venue": "home, school or work. Selects the set of the owner's preferences that applies.",
    }
    sorts = {
        "name": Sort(("domain_name", "account_id")),
        "total_credit": Sort(
            ("total_credit", "id"),
            only=Q(merged_into__isnull=True) & is_positive("total_credit"),
            note="This order lists only hosts with credit that are not merged into others.",
        ),
    }
    search_fields = ("domain_name", "host_cpid")
    search_numbers = ("id", "account_id")
    search_prefixes = (Prefix("domain_name"),)
    search_owners = {"account_id": searching.accounts}
    search_help_text = (
        "Beginning of a host's name, or of its account's address or name, or number of a host or "
        "account; in the newest 10,000 hosts also parts of names, and the cross-project id"
    )
    actions = ("deny", "admit", "clear_waits")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False, because the scheduler RPC adds hosts."""
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Return the columns except `id` and `DECIDED_BY_STAFF`, and the computed fields."""
        names = [field.name for field in Host._meta.concrete_fields]
        others = tuple(name for name in names if name not in ("id", *DECIDED_BY_STAFF))
        return (*others, "capabilities_text")

    @admin.display(description="host", ordering="domain_name")
    def name(self, host: Host) -> str:
        """Return the name that the client reported, and the number of the host."""
        return str(host)

    def processors(self, host: Host) -> str:
        """Return the number of CPUs and their model, without stepping and trademark signs."""
        model = re.sub(r"\s*\[[^]]*\]|\((?:R|TM|C)\)", "", host.p_model, flags=re.IGNORECASE)
        return f"{host.p_ncpus} × {model}" if model else str(host.p_ncpus)

    @admin.display(description="capabilities")
    def capabilities_text(self, host: Host) -> SafeString:
        """Return the capabilities that the client reported, such as GPUs, as formatted JSON."""
        return format_html("<pre>{}</pre>", dumps(host.capabilities, indent=2, sort_keys=True))

    @admin.action(description="Deny work to the selected hosts", permissions=["change"])
    def deny(self, request: HttpRequest, queryset: QuerySet[Host]) -> HttpResponse | None:
        """Deny the hosts, after a preview: they get no work and cannot report results."""
        hosts = self._chosen(request, queryset)
        return host_denials.page(self, request, hosts, denied=True) if hosts else None

    @admin.action(description="Admit the selected hosts again", permissions=["change"])
    def admit(self, request: HttpRequest, queryset: QuerySet[Host]) -> HttpResponse | None:
        """Allow the hosts to get work and report results again, after a preview."""
        hosts = self._chosen(request, queryset)
        return host_denials.page(self, request, hosts, denied=False) if hosts else None

    def _chosen(self, request: HttpRequest, queryset: QuerySet[Host]) -> list[Host]:
        return self.selected(request, queryset.select_related("account"), at_most=MAX_HOSTS)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Add the outcomes of the last requests for work, and whether the user may deny hosts."""
        host: Host = context["original"]
        context |= {
            "decisions": [decision_label(decision) for decision in host.last_decisions],
            "may_change": self.has_change_permission(request, host),
        }
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.action(
        description="Clear the daily quotas of the selected hosts", permissions=["change"]
    )
    def clear_waits(self, request: HttpRequest, queryset: QuerySet[Host]) -> HttpResponse | None:
        """Clear the daily quotas that the hosts have used or lost, after a confirmation."""
        hosts = self._chosen(request, queryset)
        if not hosts:
            return None
        ids, now = [host.pk for host in hosts], timezone.now()
        if is_confirmed(request):
            changed = waits.clear(ids, now=now)
            self.message_user(request, f"Hosts with cleared quotas: {len(changed)}.")
            return None
        read = waits.read(ids, now=now)
        notes = (
            [f"{read.denied} of the hosts are denied, and get no work before they are admitted."]
            if read.denied
            else []
        )
        return confirmation_page_with(
            self,
            request,
            "clear_waits",
            verb="clear the daily quotas of these hosts",
            button="Yes, clear them",
            counts=(
                ("hosts", len(ids)),
                ("of them with a used quota", read.hosts),
                ("results sent today", read.results_today),
                ("reduced quotas", read.reduced_quotas),
            ),
            explanation=_WAITS_CLEARED,
            notes=notes,
            names=[str(host) for host in hosts[:_MAX_NAMES]],
            more=max(0, len(hosts) - _MAX_NAMES),
        )


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
    sorts = {"host": Sort(("host_id", "app_version_id"))}
    search_numbers = ("id", "host_id")
    search_owners = {"host_id": searching.hosts}
    search_help_text = "Beginning of a host's name, or its number"


@admin.register(HostToken, site=staff)
class HostTokenAdmin(RecordAdmin):
    """The page of the tokens of the trusted pool, which are stored as hashes.

    `manage.py pool` creates and revokes them.
    """

    list_display = ("host", "created_at", "last_used_on", "expire_at", "revoked_at")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    sorts = {"created_at": BY_ID}
    search_numbers = ("id", "host_id")
    search_owners = {"host_id": searching.hosts}
    search_help_text = "Beginning of a host's name, or its number"
    fields = ("host", "created_at", "last_used_on", "expire_at", "revoked_at")
