"""The tables of downloadable files, to which app versions and workunits refer."""

from __future__ import annotations

from django.db import models


class File(models.Model):
    """One immutable file that clients download, identified by its content and by its name.

    The physical name is an identity that clients remember forever (PROTOCOL trap 4), so a name is
    never reused for other content.  A file without references is first marked for deletion
    (`doomed_at`; submissions no longer find the row), then deleted from disk, then its row is
    dropped.  A content that is submitted again meanwhile gets a new row with a new name, so that
    deletion and submission cannot race.
    """

    name = models.CharField(max_length=250)
    sha256 = models.CharField(max_length=64)
    md5 = models.CharField(max_length=32)
    nbytes = models.BigIntegerField()
    # The URLs from which hosts fetch it, one per line; empty: this server.  `sha256` of a file on
    # another server is of its URLs, MD5 and size, because this server has not read it.
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
    """An account's hold on a file to which no workunit refers yet, until a given time."""

    # CASCADE for the deleter: an expired hold must not keep the row of a deleted file.
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
    """The name that a submitter with BOINC's tools gave a file (a BOINC job file).

    Clients get the name of the `File` row.  So accounts cannot take names from each other, and a
    content that two accounts upload is stored once.
    """

    account = models.ForeignKey(
        "scheduler.Account", models.CASCADE, related_name="+", db_index=False
    )
    name = models.CharField(max_length=255)
    # CASCADE for the deleter, as above: a name alone does not keep a file.
    file = models.ForeignKey(File, models.CASCADE, related_name="job_files")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "job_file"
        constraints = [
            models.UniqueConstraint(
                fields=["account", "name"], name="job_file_name_is_the_submitters"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Installation(models.Model):
    """The identifier of this project, which each of its VAR_DIRs carries as well; one row."""

    identifier = models.UUIDField()

    class Meta:
        db_table = "installation"
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="installation_is_one"),
        ]

    def __str__(self) -> str:
        return str(self.identifier)
