"""Admin pages of trickle messages, usage samples and file requests."""

from __future__ import annotations

from django.contrib import admin

from scheduler.admin.base import RecordAdmin
from scheduler.admin.site import staff
from scheduler.models import FileRequest, TrickleDown, TrickleUp, UsageSample


@admin.register(TrickleUp, site=staff)
class TrickleUpAdmin(RecordAdmin):
    """Messages from running results."""

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
    """Messages to running results."""

    list_display = ("result_name", "host", "created_at", "sent_at")
    list_filter = (("sent_at", admin.EmptyFieldListFilter),)
    list_select_related = ("host",)
    search_fields = ("result_name",)
    search_help_text = "Number of a result or a host"
    search_numbers = ("result_id", "host_id")
    searches_texts = False


@admin.register(UsageSample, site=staff)
class UsageSampleAdmin(RecordAdmin):
    """Usage reported by running results, in seconds, bytes and fractions of 1."""

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
    """Requests to send, fetch or delete files of hosts, made by ``manage.py host_file``."""

    list_display = ("host", "kind", "file_name", "state", "created_at", "sent_at", "done_at")
    list_filter = ("kind", "state")
    list_select_related = ("host",)
    search_fields = ("file_name",)
    search_numbers = ("id", "host_id")
