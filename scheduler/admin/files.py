"""Admin pages of files that clients download."""

from __future__ import annotations

from django.contrib import admin

from scheduler.admin.base import RecordAdmin, nbytes_label
from scheduler.admin.site import staff
from scheduler.models import File, FileHold, Installation, JobFile


@admin.register(File, site=staff)
class FileAdmin(RecordAdmin):
    """Input files and app files."""

    list_display = ("name", "size", "md5", "created_at", "doomed_at")
    list_filter = (("doomed_at", admin.EmptyFieldListFilter),)
    search_fields = ("name__startswith", "sha256__startswith", "md5__startswith")
    search_names = ("name", "sha256")

    @admin.display(description="size")
    def size(self, file: File) -> str:
        """Return the size with a unit."""
        return nbytes_label(file.nbytes)


@admin.register(FileHold, site=staff)
class FileHoldAdmin(RecordAdmin):
    """Holds, which keep uploaded files until workunits use them."""

    list_display = ("file", "account", "until")
    list_select_related = ("file", "account")
    search_fields = ("file__name__startswith", "file__sha256__startswith", "account__email")
    search_numbers = ("id", "file_id", "account_id")


@admin.register(JobFile, site=staff)
class JobFileAdmin(RecordAdmin):
    """File names of submissions by BOINC's remote job submission."""

    list_display = ("name", "account", "file", "created_at")
    list_select_related = ("file", "account")
    search_fields = ("name__startswith", "account__email")
    search_numbers = ("id", "file_id", "account_id")
    search_names = ("name",)


@admin.register(Installation, site=staff)
class InstallationAdmin(RecordAdmin):
    """The project's identifier, which is also in the file `project-id` of each VAR_DIR."""

    list_display = ("identifier",)
    search_fields = ("identifier",)
