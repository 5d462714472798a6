"""Read-only admin pages of tables such as the ledger, credit, files and messages."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString

from scheduler.admin.base import RecordAdmin, badge, is_bigint, nbytes_label
from scheduler.admin.lists import searching
from scheduler.admin.lists.searching import Prefix
from scheduler.admin.lists.sorting import BY_ID, Sort
from scheduler.admin.shown import times
from scheduler.admin.site import staff
from scheduler.models import (
    CreditEntry,
    File,
    FileHold,
    FileRequest,
    Installation,
    Invitation,
    JobFile,
    LedgerEntry,
    LoginNetwork,
    ManualGrant,
    ThrottleBucket,
    TrickleDown,
    TrickleUp,
    UsageSample,
    Workunit,
)
from scheduler.work.timeline import describe_move


@admin.register(LedgerEntry, site=staff)
class LedgerEntryAdmin(RecordAdmin):
    """The page of ledger entries, sorted by an index that puts the newest workunit first."""

    list_display = ("when", "workunit_id", "result_id", "of", "moved", "reason", "actor")
    list_filter = ("axis", "because", "by")
    ordering = ("-workunit_id", "-id")
    sorts = {"workunit_id": Sort(("workunit_id", "id"))}
    search_numbers = ("workunit_id",)
    search_help_text = "Number or name of a workunit"
    fields = ("when", "workunit_id", "result_id", "of", "moved", "reason", "actor")
    readonly_fields = ("when", "of", "moved", "reason", "actor")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the ledger entries of the workunits with this number or name.

        Other columns are not searched, because they have no index.  An empty term returns all
        entries.
        """
        term = search_term.strip().removeprefix("#")
        if not term:
            return queryset, False
        ids = set(Workunit.objects.filter(name=term).values_list("id", flat=True))
        if is_bigint(term):
            ids.add(int(term))
        return queryset.filter(workunit_id__in=ids), False

    @admin.display(description="when (UTC)")
    def when(self, entry: LedgerEntry) -> SafeString:
        """Return the time to the second, with its distance from now on hover."""
        return times.exact(entry.at, now=timezone.now())

    @admin.display(description="axis")
    def of(self, entry: LedgerEntry) -> str:
        return describe_move(entry).axis

    @admin.display(description="from → to")
    def moved(self, entry: LedgerEntry) -> SafeString:
        """Return the states before and after the move, as badges."""
        words = describe_move(entry)
        return badge(words.source) + SafeString(" → ") + badge(words.target)

    @admin.display(description="because")
    def reason(self, entry: LedgerEntry) -> str:
        return describe_move(entry).because

    @admin.display(description="by")
    def actor(self, entry: LedgerEntry) -> str:
        return describe_move(entry).by


@admin.register(CreditEntry, site=staff)
class CreditEntryAdmin(RecordAdmin):
    """The page of credit grants."""

    list_display = ("granted_at", "amount", "account", "host", "app", "result_id", "rule")
    list_filter = ("app",)
    sorts = {"granted_at": BY_ID}
    search_numbers = ("result_id", "account_id", "host_id")
    search_owners = {"account_id": searching.accounts}
    search_help_text = (
        "Beginning of an account's address or name, or number of a result, account or host"
    )


@admin.register(ManualGrant, site=staff)
class ManualGrantAdmin(RecordAdmin):
    """The page of credit that was granted by hand; the page of an account grants it."""

    list_display = ("amount", "account", "reason", "granted_by", "actor")
    list_select_related = ("entry",)
    search_fields = ("reason",)
    search_numbers = ("account_id", "entry_id")
    search_owners = {"account_id": searching.accounts}

    def amount(self, grant: ManualGrant) -> str:
        """Return the amount; it is negative if credit was revoked."""
        return f"{grant.entry.amount:,.2f}"


@admin.register(File, site=staff)
class FileAdmin(RecordAdmin):
    """The page of input files and app files."""

    list_display = ("name", "size", "md5", "created_at", "doomed_at")
    list_filter = (("doomed_at", admin.EmptyFieldListFilter),)
    sorts = {"name": Sort(("name",)), "created_at": BY_ID}
    search_fields = ("md5",)
    search_names = ("name",)
    search_prefixes = (searching.NAME, Prefix("sha256", only=Q(doomed_at__isnull=True)))
    search_help_text = (
        "Beginning of a file's name or SHA-256, or number of a file; in the newest 10,000 files "
        "also the MD5"
    )

    def size(self, file: File) -> str:
        """Return the file size with a unit."""
        return nbytes_label(file.nbytes)


@admin.register(FileHold, site=staff)
class FileHoldAdmin(RecordAdmin):
    """The page of file holds, which protect unused files from deletion until a given time."""

    list_display = ("file", "account", "until")
    sorts = {"file": Sort(("file_id", "account_id")), "until": Sort(("until",))}
    search_numbers = ("id", "file_id", "account_id")
    search_owners = {"file_id": searching.files, "account_id": searching.accounts}
    search_help_text = (
        "Beginning of a file's name, or of an account's address or name, or number "
        "of a file or account"
    )


@admin.register(JobFile, site=staff)
class JobFileAdmin(RecordAdmin):
    """The page of file names that accounts use in BOINC's remote job submission."""

    list_display = ("name", "account", "file", "created_at")
    sorts = {"created_at": BY_ID}
    search_numbers = ("id", "file_id", "account_id")
    search_names = ("name",)
    search_prefixes = (searching.NAME,)
    search_owners = {"account_id": searching.accounts}
    search_help_text = (
        "Beginning of a name, or of an account's address or name, or number of a file or account"
    )


@admin.register(Installation, site=staff)
class InstallationAdmin(RecordAdmin):
    """The page of the project's identifier, which is also in the file `project-id`."""

    list_display = ("identifier",)
    is_small = True
    search_fields = ("identifier",)


@admin.register(TrickleUp, site=staff)
class TrickleUpAdmin(RecordAdmin):
    """The page of messages from running results."""

    list_display = (
        "variety",
        "app",
        "result_id",
        "host",
        "said_at",
        "received_at",
        "handled_at",
        "handle_after",
    )
    list_filter = (("handled_at", admin.EmptyFieldListFilter), "app")
    sorts = {"result_id": Sort(("result_id", "variety", "said_at")), "received_at": BY_ID}
    search_help_text = "Number of a result or a host"
    search_numbers = ("result_id", "host_id")


@admin.register(TrickleDown, site=staff)
class TrickleDownAdmin(RecordAdmin):
    """The page of messages to running results."""

    list_display = ("result_name", "host", "created_at", "sent_at")
    list_filter = (("sent_at", admin.EmptyFieldListFilter),)
    sorts = {"created_at": BY_ID}
    search_help_text = "Number of a result, or of a host with messages that wait for it"
    search_numbers = ("result_id", "host_id")
    search_leading = {"host_id": Q(sent_at__isnull=True)}


@admin.register(UsageSample, site=staff)
class UsageSampleAdmin(RecordAdmin):
    """The page of the resource usage that running results report.

    Times are in seconds, sizes in bytes; `fraction_done` and `gpu_usage` are fractions of 1.
    `cpu_utilization` is the number of CPUs in use, if the host reported it.
    """

    list_display = (
        "result_id",
        "at",
        "fraction_done",
        "cpu_time",
        "elapsed_time",
        "memory_bytes",
        "gpu_usage",
        "cpu_utilization",
    )
    sorts = {"result_id": Sort(("result_id", "at"))}
    search_help_text = "Number of a result"
    search_numbers = ("result_id",)


@admin.register(FileRequest, site=staff)
class FileRequestAdmin(RecordAdmin):
    """The page of requests by ``manage.py host_file`` to send, fetch or delete files of hosts."""

    list_display = ("host", "kind", "file_name", "state", "created_at", "sent_at", "done_at")
    list_filter = ("kind", "state")
    sorts = {"created_at": BY_ID}
    search_fields = ("file_name",)
    search_numbers = ("id", "host_id")


@admin.register(ThrottleBucket, site=staff)
class ThrottleBucketAdmin(RecordAdmin):
    """The page of throttle buckets, whose keys contain hashes of networks and accounts."""

    list_display = ("key", "empty_at", "was_allowed", "recorded_at")
    list_filter = ("was_allowed",)
    sorts = {"key": Sort(("key",)), "empty_at": Sort(("empty_at",))}
    search_prefixes = (Prefix("key"),)


@admin.register(LoginNetwork, site=staff)
class LoginNetworkAdmin(RecordAdmin):
    """The page of networks from which accounts logged in."""

    list_display = ("account", "network", "last_login_at")
    sorts = {"last_login_at": Sort(("last_login_at",))}
    search_fields = ("network",)
    search_numbers = ("account_id",)
    search_owners = {"account_id": searching.accounts}


@admin.register(Invitation, site=staff)
class InvitationAdmin(RecordAdmin):
    """The page of invitations, without their codes.

    Only ``manage.py invitation make`` shows a code, once.
    """

    list_display = ("name", "uses", "max_uses", "created_at", "expire_at", "revoked_at")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    is_small = True
    search_fields = ("name",)
    fields = ("name", "uses", "max_uses", "created_at", "expire_at", "revoked_at")
