"""Rules of files: needed files are kept, unneeded files are deleted."""

from __future__ import annotations

from typing import Any

from tests.mutate.switching import Code, Sql, Switch, always

WALKS = "tests/long/test_files.py"
ONE_BY_ONE = "tests/database/files/test_unused_files.py"


def _looks(table: str, alias: str) -> str:
    return f"AND NOT EXISTS (SELECT FROM {table} AS {alias} WHERE {alias}.file_id = file.id)"


def _within_the_transaction(original: Any) -> Any:
    """Return a pass that deletes files before it commits their mark for deletion."""
    from django.db import transaction

    from scheduler import storage
    from scheduler.models import File

    def drop(share: dict[str, Any], *, now: Any) -> Any:
        with transaction.atomic():
            done = original(share, now=now)
            marked_files = File.objects.exclude(doomed_at=None)
            storage.delete_downloads(marked_files.values_list("name", flat=True))
        return done

    return drop


def _after_the_commit(original: Any) -> Any:
    """Return a `publish_all` that publishes files only after the commit of their rows."""
    from django.db import transaction

    return lambda contents: transaction.on_commit(lambda: original(contents))


RULES = (
    Switch(
        "A hold keeps a file until its end",
        Sql(
            "files/mark_unused_files",
            "AND NOT EXISTS ( SELECT FROM file_hold AS hold "
            "WHERE hold.file_id = file.id AND hold.until > %(now)s::timestamptz )",
        ),
        (f"{WALKS}::test_random_walks_keep_needed_files_and_delete_unneeded_files",),
    ),
    Switch(
        "A file that a workunit names is not marked for deletion",
        Sql("files/mark_unused_files", _looks("workunit_file", "input")),
        (f"{WALKS}::test_random_walks_keep_needed_files_and_delete_unneeded_files",),
    ),
    Switch(
        "A file of an app version is not marked for deletion",
        Sql("files/mark_unused_files", _looks("app_version_file", "part")),
        (ONE_BY_ONE, WALKS),
    ),
    Switch(
        "A file is deleted only after its mark for deletion is committed",
        Code("daemons.file_deleter:_drop_references", made=_within_the_transaction),
        (f"{WALKS}::test_random_walks_keep_needed_files_and_delete_unneeded_files",),
    ),
    Switch(
        "Inputs that could not be deleted are an error of their workunit",
        Sql(
            "settle_deleted_inputs",
            "file_delete_state = tried.target",
            "file_delete_state = {{FileDeleteState.DONE}}",
            "daemons.sql",
        ),
        ("tests/database/daemons/test_file_deleter.py",),
    ),
    Switch(
        "A file is published before its row is committed",
        Code("scheduler.storage.downloads:publish_all", made=_after_the_commit),
        (WALKS,),
    ),
    Switch(
        "A submission keeps its files from being marked for deletion until it commits",
        Sql("files/lock_known_files", "FOR SHARE"),
        (f"{WALKS}::test_random_walks_keep_needed_files_and_delete_unneeded_files",),
    ),
    Switch(
        "Files are locked before the check that they have no references",
        Sql("lock_their_files", "FOR UPDATE", package="daemons.sql"),
        ("tests/database/daemons/test_interleavings.py", WALKS),
    ),
    Switch(
        "A file that is marked for deletion is not reused",
        Sql("files/lock_known_files", "AND (doomed_at IS NULL) IS TRUE"),
        (WALKS, ONE_BY_ONE),
    ),
    Switch(
        "File names are never reused",
        Code("scheduler.files.download_files:int_to_base36", always("0")),
        (f"{WALKS}::test_random_walks_keep_needed_files_and_delete_unneeded_files",),
    ),
    Switch(
        "A published file that has a row is not antique",
        Code("scheduler.files.antiques:without_row", made=lambda _known: list),
        (WALKS, "tests/database/files/test_antiques.py"),
    ),
    Switch(
        "A new published file without a row is not antique",
        Code("scheduler.files.antiques:ORPHAN_AGE", made=lambda age: age * -1),
        (WALKS, "tests/database/files/test_antiques.py"),
    ),
    Switch(
        "Files without references are found, however the references ended",
        Sql("files/read_unused_files", "slice.doomed_at IS NULL", "FALSE"),
        (WALKS, ONE_BY_ONE),
    ),
    Switch(
        "The file of an expired hold can be deleted",
        Code("scheduler.files.unused_files:drop_past_holds", always(0)),
        (ONE_BY_ONE,),
    ),
)
