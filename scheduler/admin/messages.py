"""What hosts and the server tell each other beside results, as staff sees it."""

from __future__ import annotations

from django.contrib import admin

from scheduler.admin.base import RecordAdmin
from scheduler.admin.site import staff
from scheduler.models import FileRequest, TrickleDown, TrickleUp, UsageSample


@admin.register(TrickleUp, site=staff)
class TrickleUpAdmin(RecordAdmin):
    """Messages of running results."""

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
    list_select_related = ("app", "host")
    search_fields = ("variety",)
    search_help_text = "Number of a result or a host"
    search_numbers = ("result_id", "host_id")
    searches_texts = False


@admin.register(TrickleDown, site=staff)
class TrickleDownAdmin(RecordAdmin):
    """Messages for running results."""

    list_display = ("result_name", "host", "created_at", "sent_at")
    list_filter = (("sent_at", admin.EmptyFieldListFilter),)
    list_select_related = ("host",)
    search_fields = ("result_name",)
    search_help_text = "Number of a result or a host"
    search_numbers = ("result_id", "host_id")
    searches_texts = False


@admin.register(UsageSample, site=staff)
class UsageSampleAdmin(RecordAdmin):
    """What running results said of themselves: seconds, bytes, fractions of 1."""

    list_display = (
        "result_id",
        "at",
        "fraction_done",
        "cpu_time",
        "elapsed_time",
        "memory_bytes",
        "gpu_usage",
    )
    search_fields = ("result_id",)
    search_help_text = "Number of a result"
    search_numbers = ("result_id",)
    searches_texts = False


@admin.register(FileRequest, site=staff)
class FileRequestAdmin(RecordAdmin):
    """Files to be put on hosts, fetched or deleted; ``manage.py host_file`` asks for them."""

    list_display = ("host", "kind", "file_name", "state", "created_at", "sent_at", "done_at")
    list_filter = ("kind", "state")
    list_select_related = ("host",)
    search_fields = ("file_name",)
    search_numbers = ("id", "host_id")
