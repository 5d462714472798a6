"""Files that clients download, as staff sees them."""

from __future__ import annotations

from django.contrib import admin

from scheduler.admin.base import RecordAdmin, nbytes_label
from scheduler.admin.site import staff
from scheduler.models import File


@admin.register(File, site=staff)
class FileAdmin(RecordAdmin):
    """Input files and app files by name and digest."""

    list_display = ("name", "size", "md5", "created_at", "doomed_at")
    list_filter = (("doomed_at", admin.EmptyFieldListFilter),)
    search_fields = ("name__startswith", "sha256__startswith", "md5__startswith")
    search_names = ("name", "sha256")

    @admin.display(description="size")
    def size(self, file: File) -> str:
        """The number of bytes as people read it."""
        return nbytes_label(file.nbytes)
