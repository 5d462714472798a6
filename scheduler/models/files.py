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
    # Where hosts fetch it, an address a line; empty: here.  The digest of a file that lies
    # elsewhere is of its addresses, MD5 and size, for nobody here has read it.
    urls = models.TextField(blank=True, default="", db_default="")
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


class JobFile(models.Model):
    """What a submitter of BOINC's own kind calls a file: BOINC's job files have his names.

    To clients a file has the name of its row.  So people cannot take names from each other, and a
    content that two people upload is stored once.
    """

    account = models.ForeignKey(
        "scheduler.Account", models.CASCADE, related_name="+", db_index=False
    )
    name = models.CharField(max_length=255)
    # CASCADE for the deleter, as above: a name alone keeps nothing.
    file = models.ForeignKey(File, models.CASCADE, related_name="job_files")
    created_at = models.DateTimeField()

    class Meta:
        """A person's name is one file."""

        db_table = "job_file"
        constraints = [
            models.UniqueConstraint(
                fields=["account", "name"], name="job_file_name_is_the_submitters"
            ),
        ]

    def __str__(self) -> str:
        """Show the submitter's name for it."""
        return self.name


class Installation(models.Model):
    """The identifier of this project, which each of its VAR_DIRs carries as well; one row."""

    identifier = models.UUIDField()

    class Meta:
        """There is one project in a database."""

        db_table = "installation"
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="installation_is_one"),
        ]

    def __str__(self) -> str:
        """Show the identifier."""
        return str(self.identifier)
