"""Admin pages of task lists and their members."""

from __future__ import annotations

from django.contrib import admin

from scheduler.admin.base import RecordAdmin, RecordInline, section
from scheduler.admin.lists.sorting import BY_ID, Sort
from scheduler.admin.site import staff
from scheduler.models import Bundle, BundleMember
from scheduler.work import task_lists


class MemberInline(RecordInline):
    """The workunits of a task list, on its page."""

    model = BundleMember
    fields = ("workunit",)
    ordering = ("workunit_id",)


@admin.register(Bundle, site=staff)
class BundleAdmin(RecordAdmin):
    """The page of task lists: their hosts, and whether they can be claimed."""

    list_display = (
        "id",
        "batch",
        "app",
        "state",
        "is_ready",
        "priority",
        "created_at",
        "host",
        "started_at",
        "finished_at",
        "claims",
    )
    list_filter = ("state", "is_ready", "app")
    sorts = {"id": BY_ID}
    search_numbers = ("id", "batch_id")
    readonly_fields = ("label",)
    fieldsets = (
        section(None, "batch", "app", "label", "priority", "created_at"),
        section("State", "state", "is_ready", "host", "started_at", "finished_at", "claims"),
    )
    inlines = (MemberInline,)

    @admin.display(description="name in TDF2")
    def label(self, bundle: Bundle) -> str:
        """Return the name of the list with its times and its worker."""
        return task_lists.label_of(bundle)


@admin.register(BundleMember, site=staff)
class BundleMemberAdmin(RecordAdmin):
    """The page of the members of all task lists."""

    list_display = ("bundle", "workunit")
    sorts = {"bundle": Sort(("bundle_id", "workunit_id")), "workunit": Sort(("workunit_id",))}
    search_numbers = ("bundle_id", "workunit_id")
