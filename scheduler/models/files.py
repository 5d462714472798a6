"""The tables of downloadable files: what app versions and workunits refer to."""

from __future__ import annotations

from django.db import models


class File(models.Model):
    """One immutable file that clients download, known by its content and by its name.

    The physical name is an identity that clients remember for ever (PROTOCOL trap 4), so a name is
    never given to other content.  A file that nobody refers to any more is first *doomed* (a row
    that no submission finds again), then deleted from disk, then dropped: content submitted again
    meanwhile becomes a new row with a new name, so that deletion and submission cannot race.
    """

    name = models.CharField(max_length=250)
    sha256 = models.CharField(max_length=64)
    md5 = models.CharField(max_length=32)
    nbytes = models.BigIntegerField()
    created_at = models.DateTimeField()
    doomed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        """A content is stored once; the doomed ones are few and found at once."""

        db_table = "file"
        constraints = [
            models.UniqueConstraint(fields=["name"], name="file_name_is_unique"),
            models.UniqueConstraint(
                fields=["sha256"],
                condition=models.Q(doomed_at__isnull=True),
                name="file_content_is_stored_once",
            ),
            models.CheckConstraint(
                condition=models.Q(nbytes__gte=0), name="file_nbytes_is_not_negative"
            ),
        ]
        indexes = [
            models.Index(
                fields=["doomed_at"],
                condition=models.Q(doomed_at__isnull=False),
                name="file_deleter_doomed",
            ),
        ]

    def __str__(self) -> str:
        """Show the physical name."""
        return self.name


class FileHold(models.Model):
    """One person's wish to keep a file that no workunit refers to yet, until a moment."""

    # CASCADE for the deleter: a hold that is past must not keep a doomed file's row.
    file = models.ForeignKey(File, models.CASCADE, related_name="holds", db_index=False)
    account = models.ForeignKey("scheduler.Account", models.CASCADE, related_name="+")
    until = models.DateTimeField()

    class Meta:
        """One wish of each person for each file."""

        db_table = "file_hold"
        constraints = [
            models.UniqueConstraint(fields=["file", "account"], name="file_hold_is_one_per_person"),
        ]
        indexes = [models.Index(fields=["until"], name="drop_past_file_holds")]

    def __str__(self) -> str:
        """Show the file and the moment."""
        return f"{self.file} until {self.until:%Y-%m-%d %H:%M}"
