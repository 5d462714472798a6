"""The tables of files that clients download for app versions and workunits."""

from __future__ import annotations

from django.db import models


class File(models.Model):
    """An immutable file that clients download, identified by its content and by its name.

    Clients cache files by physical name forever (PROTOCOL trap 4), so a name is never reused for
    other content.  A file without references is deleted in three steps: its row is marked
    (`doomed_at`), the file is deleted from the disk, and the row is deleted.  Submissions ignore
    marked rows.  If the same content is submitted during the deletion, it gets a new row with a new
    name, so that deletion and submission cannot race.
    """

    name = models.CharField(max_length=250)
    sha256 = models.CharField(max_length=64)
    md5 = models.CharField(max_length=32)
    nbytes = models.BigIntegerField()
    # URLs of a file on another server, one per line; empty if this server stores the file.  For a
    # file on another server, `sha256` is the digest of its URLs, MD5 and size, because this
    # server does not have the content.
    urls = models.TextField(blank=True, default="", db_default="")
    created_at = models.DateTimeField()
    doomed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
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
        return self.name


class FileHold(models.Model):
    """Protects a file without references from deletion until a given time.

    Each account has its own row for a file.
    """

    # CASCADE, because an expired hold must not prevent the deletion of the file's row.
    file = models.ForeignKey(File, models.CASCADE, related_name="holds", db_index=False)
    account = models.ForeignKey("scheduler.Account", models.CASCADE, related_name="+")
    until = models.DateTimeField()

    class Meta:
        db_table = "file_hold"
        constraints = [
            models.UniqueConstraint(fields=["file", "account"], name="file_hold_is_one_per_person"),
        ]
        indexes = [models.Index(fields=["until"], name="drop_past_file_holds")]

    def __str__(self) -> str:
        return f"{self.file} until {self.until:%Y-%m-%d %H:%M}"


class JobFile(models.Model):
    """An account's name for a file in BOINC's remote job submission (a BOINC job file).

    Clients download the file under the name in the `File` row.  So two accounts can use the same
    name, and content that two accounts upload is stored once.
    """

    account = models.ForeignKey(
        "scheduler.Account", models.CASCADE, related_name="+", db_index=False
    )
    name = models.CharField(max_length=255)
    # CASCADE, because a name must not prevent the deletion of the file's row.
    file = models.ForeignKey(File, models.CASCADE, related_name="job_files")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "job_file"
        constraints = [
            models.UniqueConstraint(
                fields=["account", "name"], name="job_file_name_is_the_submitters"
            ),
        ]
        # The search of the administration.
        indexes = [models.Index(fields=["name"], name="job_files_by_name")]

    def __str__(self) -> str:
        return self.name


class Installation(models.Model):
    """The identifier of this project; the table has a single row.

    Each `VAR_DIR` of the project contains the same identifier.
    """

    identifier = models.UUIDField()

    class Meta:
        db_table = "installation"
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="installation_is_one"),
        ]

    def __str__(self) -> str:
        return str(self.identifier)
