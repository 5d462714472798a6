"""Apps, their versions and platforms, as staff sees them."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from scheduler.admin.base import RecordAdmin, RecordInline, StaffAdmin
from scheduler.admin.site import staff
from scheduler.models import App, AppVersion, AppVersionFile, Platform


@admin.register(App, site=staff)
class AppAdmin(StaffAdmin):
    """Science applications and the rules that their results live by."""

    list_display = (
        "name",
        "user_friendly_name",
        "deprecated",
        "weight",
        "one_result_per",
        "validator",
        "assimilator",
        "credit_rule",
    )
    list_filter = ("deprecated", "beta", "one_result_per", "credit_rule")
    search_fields = ("name", "user_friendly_name")
    ordering = ("name",)
    readonly_fields = ("created_at",)
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "name",
                    "user_friendly_name",
                    "deprecated",
                    "beta",
                    "weight",
                    "created_at",
                )
            },
        ),
        ("Science", {"fields": ("validator", "assimilator")}),
        ("Credit", {"fields": ("credit_rule", "credit_per_workunit", "credit_window")}),
        (
            "Replication",
            {
                "fields": (
                    "one_result_per",
                    "retry_same_account_after",
                    "hr_type",
                    "homogeneous_app_version",
                    "grace",
                )
            },
        ),
        (
            "On the client",
            {"fields": ("non_cpu_intensive", "fraction_done_exact", "max_in_progress_per_cpu")},
        ),
    )

    def get_readonly_fields(
        self,
        request: HttpRequest,
        obj: Model | None = None,
    ) -> tuple[str, ...]:
        """Keep the name of an app that has one: clients and results folders are called by it."""
        return ("created_at",) if obj is None else ("name", "created_at")


@admin.register(Platform, site=staff)
class PlatformAdmin(StaffAdmin):
    """Kinds of computers."""

    list_display = ("name", "user_friendly_name")
    search_fields = ("name", "user_friendly_name")
    ordering = ("name",)


class FilesOfVersion(RecordInline):
    """The signed files of a version."""

    model = AppVersionFile
    fields = ("position", "file", "open_name", "main_program", "executable", "copy_file")
    ordering = ("position",)


@admin.register(AppVersion, site=staff)
class AppVersionAdmin(StaffAdmin):
    """Builds. Clients never ask again for a version they know, so most of it stays as it is."""

    list_display = (
        "app",
        "version_num",
        "platform",
        "plan_class",
        "avg_ncpus",
        "deprecated",
        "beta",
    )
    list_filter = ("deprecated", "beta", "app", "platform")
    list_select_related = ("app", "platform")
    search_fields = ("app__name", "platform__name", "plan_class")
    search_numbers = ("id", "version_num")
    inlines = (FilesOfVersion,)
    readonly_fields = (
        "app",
        "platform",
        "version_num",
        "plan_class",
        "api_version",
        "avg_ncpus",
        "cmdline",
        "file_prefix",
        "created_at",
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse: ``manage.py import_app`` hashes, signs and publishes a version's files."""
        return False


@admin.register(AppVersionFile, site=staff)
class AppVersionFileAdmin(RecordAdmin):
    """Which files make up which version."""

    list_display = ("app_version", "position", "file", "open_name", "main_program", "executable")
    list_filter = ("main_program", "executable", "copy_file")
    list_select_related = ("app_version__app", "app_version__platform", "file")
    search_fields = ("file__name", "open_name")
    search_numbers = ("id", "app_version_id")
