"""A backup has database, keys and files, and restores the same project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from io import StringIO
from itertools import count
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder

from daemons import file_deleter
from project.upkeep import backups, dumps, manifest, processes, restore_checks, restores, versions
from scheduler import migrations, storage, wakeups
from scheduler.files import antiques
from scheduler.health import installation
from scheduler.health.rules.alert_texts import SILENT_AFTER
from scheduler.models import Account, ApiToken, AuditEntry, Result, Workunit
from scheduler.people import audit
from scheduler.people.personal_data import erasure
from scheduler.results.facts import output_name
from scheduler.storage import deleting
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.xdist_group("backups"),
    pytest.mark.lengthy,
]

#: The names of the newest migration, which the tests undo, and of the one before it.
*_, PREVIOUS, NEWEST = sorted(
    path.stem for path in Path(migrations.__file__).parent.glob("[0-9]*.py")
)


@pytest.fixture
def var(settings, tmp_path):
    """A VAR_DIR with keys, a finished upload, an answer and a partial upload."""
    folder = tmp_path / "var"
    (folder / "keys").mkdir(parents=True, mode=0o700)
    settings.VAR_DIR, settings.KEYS_DIR = folder, folder / "keys"
    for name in ("secret_key", "upload_grant_keys", "manyhands_password", "code_sign_public.1"):
        (folder / "keys" / name).write_text(f"{name} of the project")
    (folder / "postgres").mkdir()
    (folder / "postgres" / "PG_VERSION").write_text("18")
    return folder


@pytest.fixture
def work(var):
    """A workunit with an input, and a valid result whose output is kept as an answer."""
    workunit = rows.a_workunit(transition_at=None)
    rows.an_input(workunit, b"input")
    result = rows.a_result(workunit, "valid", output=b"output", uploaded=True)
    upload = output_name(result.name, result.pk, 0)
    storage.keep_result(upload_name=upload, app="app", relative="name/out")
    partial = storage.upload_path(upload).with_name(".other.part")
    partial.write_text("begun")
    return workunit


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "backups" / "first"


@pytest.fixture
def backup(work, folder):
    folder.parent.mkdir()
    return backups.back_up(folder, now=NOON)


@pytest.fixture
def begin_empty(settings, tmp_path):
    """Return a function that begins with an empty database and an empty VAR_DIR."""
    name = connection.settings_dict["NAME"]
    other = f"{name}_empty"
    numbers = count()

    def begin():
        connection.close()
        connection.settings_dict["NAME"] = name
        execute(f'DROP DATABASE IF EXISTS "{other}"')
        execute(f'CREATE DATABASE "{other}" TEMPLATE template0')
        connection.close()
        connection.settings_dict["NAME"] = other
        new = tmp_path / f"new{next(numbers)}"
        (new / "keys").mkdir(parents=True, mode=0o700)
        # Each command creates missing keys, and the server's password.
        for key in ("secret_key", "code_sign_private", "manyhands_password"):
            (new / "keys" / key).write_text("created by a command")
        settings.VAR_DIR, settings.KEYS_DIR = new, new / "keys"
        return new

    yield begin
    connection.close()
    connection.settings_dict["NAME"] = name
    execute(f'DROP DATABASE IF EXISTS "{other}"')


def execute(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)


def restore(folder):
    return restores.restore(folder, now=NOON)


def names_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def run(*words):
    out = StringIO()
    call_command("project", *map(str, words), stdout=out, stderr=out)
    return out.getvalue()


def test_a_backup_contains_the_database_the_keys_and_complete_files(backup, folder):
    names = names_in(folder)
    assert {"manifest.json", "SHA256SUMS", "database.dump", "files/project-id"} <= set(names)
    keys = [name for name in names if name.startswith("keys/")]
    assert keys == ["keys/code_sign_public.1", "keys/secret_key", "keys/upload_grant_keys"]
    assert [name.split("/")[1] for name in names if name.startswith("files/")] == [
        "download",
        "project-id",
        "results",
        "upload",
    ]
    assert backup.manifest.counts["workunit"] == backup.manifest.counts["result"] == 1
    assert backup.skipped == ()
    assert [path.name for path in folder.parent.iterdir()] == ["first"]
    assert AuditEntry.objects.get(event="backup_created").subject == str(folder)


def test_the_list_of_hashes_is_that_of_sha256sum(backup, folder):
    done = subprocess.run(
        ["sha256sum", "--check", "--quiet", manifest.SUMS], cwd=folder, check=False
    )
    assert done.returncode == 0


def test_an_answer_that_is_a_link_to_an_upload_is_stored_once(backup, folder, work):
    result = Result.objects.get()
    upload = folder / "files" / "upload" / storage.fan_out(output_name(result.name, result.pk, 0))
    [copied] = upload.iterdir()
    assert copied.samefile(folder / "files" / "results" / "app" / "name" / "out")


def test_a_restored_project_has_the_same_rows_keys_and_files(backup, folder, begin_empty):
    new = begin_empty()
    restored = restore(folder)
    assert restored.migrated == []
    assert Workunit.objects.count() == Result.objects.count() == 1
    keys = {path.name: path for path in (new / "keys").iterdir() if path.name != ".lock"}
    replaced = keys.pop("replaced")
    assert {path.name for path in replaced.iterdir()} == {"secret_key", "code_sign_private"}
    assert {path.stat().st_mode & 0o777 for name, path in keys.items() if "grant" in name} == {
        0o600
    }
    texts = {name: path.read_text() for name, path in keys.items()}
    assert texts == {
        "code_sign_public.1": "code_sign_public.1 of the project",
        "secret_key": "secret_key of the project",
        "upload_grant_keys": "upload_grant_keys of the project",
        "manyhands_password": "created by a command",
    }
    assert (new / "results/app/name/out").read_bytes() == b"output"
    assert (new / "project-id").read_text().strip() == backup.manifest.identifier
    assert not (new / "restore.new").exists()
    assert AuditEntry.objects.filter(event="backup_restored").count() == 1
    # Ids that were given after the backup are not given again.
    before = Workunit.objects.get()
    assert rows.a_host().pk > 1_000_000
    assert rows.a_workunit(before.app).pk > before.pk + 1_000_000_000


def test_a_restore_brings_back_tokens_and_accounts_and_the_command_prints_it(
    work, folder, begin_empty
):
    owner = rows.an_account(email="ada@example.org")
    ApiToken.objects.create(account=owner, token_hash="0" * 64, created_at=NOON)
    folder.parent.mkdir()
    backups.back_up(folder, now=NOON)
    erasure.erase(owner, now=NOON)
    assert not ApiToken.objects.exists()
    begin_empty()
    text = run("restore", folder)
    assert Account.objects.get(pk=owner.pk).email == "ada@example.org"
    assert ApiToken.objects.filter(account=owner).exists()
    assert "Hint: tokens, keys, passwords and rights are those of 20" in text
    assert "revoke again what was revoked since" in text
    assert "Hint: accounts that were erased since are back with their personal data" in text


def test_a_backup_of_an_earlier_version_is_migrated(work, folder, begin_empty):
    with an_earlier_version():
        folder.parent.mkdir()
        backups.back_up(folder, now=NOON)
    begin_empty()
    assert restore(folder).migrated == [f"scheduler.{NEWEST}"]
    assert versions.missing_migrations() == []


def test_a_backup_of_a_newer_version_is_refused(work, folder, begin_empty):
    with recorded_migrations(added="9999_from_the_future"):
        folder.parent.mkdir()
        backups.back_up(folder, now=NOON)
    new = begin_empty()
    reason = r"of a newer version .* lacks the migration scheduler\.9999_from_the_future\.\nHint: "
    with pytest.raises(restore_checks.RestoreRefused, match=reason):
        restore(folder)
    assert dumps.count_objects() == 0
    assert {path.name for path in new.iterdir()} == {"keys"}


@contextmanager
def an_earlier_version():
    """Undo the newest migration, as in a database of the version before it."""
    call_command("migrate", "scheduler", PREVIOUS, verbosity=0)
    try:
        yield
    finally:
        call_command("migrate", "scheduler", verbosity=0)


@contextmanager
def recorded_migrations(*, added):
    """Record more migrations than are applied."""
    recorder = MigrationRecorder(connection)
    recorder.record_applied("scheduler", added)
    try:
        yield
    finally:
        recorder.record_unapplied("scheduler", added)


def test_a_restore_overwrites_neither_a_database_nor_files(backup, folder, begin_empty):
    with pytest.raises(restore_checks.RestoreRefused, match="The database is not empty: it has"):
        restore(folder)
    new = begin_empty()
    (new / "upload" / "0a").mkdir(parents=True)
    (new / "upload" / "0a" / "name").write_text("of another project")
    with pytest.raises(restore_checks.RestoreRefused, match="is not empty: it contains upload"):
        restore(folder)
    (new / "upload" / "0a" / "name").unlink()
    (new / "keys" / "code_sign_public.1").write_text("of another project")
    with pytest.raises(
        restore_checks.RestoreRefused, match=r"it contains keys/code_sign_public\.1"
    ):
        restore(folder)
    assert dumps.count_objects() == 0


def test_a_failed_load_leaves_an_empty_database_and_no_files(
    backup, folder, begin_empty, monkeypatch
):
    new = begin_empty()
    monkeypatch.setattr(dumps, "_RESTORE_OPTIONS", (*dumps._RESTORE_OPTIONS, "--role=nobody_here"))
    with pytest.raises(dumps.DumpFailed, match=r"pg_restore failed with exit code 1: .*\nHint: "):
        restore(folder)
    assert dumps.count_objects() == 0
    assert {path.name for path in new.iterdir()} <= {"keys", "run"}


@pytest.mark.parametrize("step", ["_skip_ids", "_move", "call_command"])
def test_a_failure_after_the_load_is_reported_and_the_project_does_not_start(
    backup, folder, begin_empty, monkeypatch, step
):
    new = begin_empty()

    def fail(*_args, **_options):
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(restores, step, fail)
        reason = (
            r"^The restore is incomplete: .* \(OSError: the disk is full\)\.\nHint: .*restore again"
        )
        with pytest.raises(restores.RestoreIncomplete, match=reason):
            restore(folder)
    refused = pytest.raises(CommandError, match=r"A restore into .* failed .*\nHint: restore again")
    with refused:
        installation.claim_folder()
    for words in (("transitioner", "--once"), ("project", "upgrade", "--check")):
        with refused:
            call_command(*words)
    newer = begin_empty()
    assert newer != new
    restore(folder)
    assert not (newer / storage.INCOMPLETE_RESTORE).exists()
    installation.claim_folder()


def test_ids_are_skipped_before_anything_else_after_the_load(
    backup, folder, begin_empty, monkeypatch
):
    begin_empty()

    def fail(*_args, **_options):
        raise OSError("the disk is full")

    monkeypatch.setattr(restores, "_move", fail)
    with pytest.raises(restores.RestoreIncomplete):
        restore(folder)
    assert rows.a_host().pk > 1_000_000


@pytest.mark.parametrize("name", ["upload", "results", "keys"])
def test_a_linked_folder_of_the_target_is_refused_before_the_load(
    backup, folder, begin_empty, tmp_path, name
):
    new = begin_empty()
    elsewhere = tmp_path / "elsewhere"
    if name == "keys":
        (new / "keys").rename(elsewhere)
    else:
        elsewhere.mkdir()
    (new / name).symlink_to(elsewhere)
    with pytest.raises(restore_checks.RestoreRefused, match=f"{name} is a link .*\n?.*Hint: "):
        restore(folder)
    assert dumps.count_objects() == 0


def test_a_folder_of_the_target_on_another_file_system_is_refused_before_the_load(
    backup, folder, begin_empty, monkeypatch
):
    new = begin_empty()
    (new / "upload").mkdir()
    stat = Path.stat

    def other(path, **options):
        status = stat(path, **options)
        if path != new / "upload":
            return status
        return os.stat_result((*status[:2], status.st_dev + 1, *status[3:]))

    monkeypatch.setattr(Path, "stat", other)
    with pytest.raises(restore_checks.RestoreRefused, match=r"upload is a link or another file"):
        restore(folder)
    assert dumps.count_objects() == 0


def test_a_backup_without_files_overwrites_no_file_of_var_dir(work, var, folder, begin_empty):
    (var / "addresses.json").write_text("of the backup")
    folder.parent.mkdir()
    backups.back_up(folder, with_files=False, now=NOON)
    new = begin_empty()
    (new / "addresses.json").write_text("newer")
    (new / "keys" / "code_sign_public.1").write_text("newer")
    reason = r"addresses\.json differs from the file in the backup"
    with pytest.raises(restore_checks.RestoreRefused, match=reason):
        restore(folder)
    (new / "addresses.json").unlink()
    restore(folder)
    assert (new / "addresses.json").read_text() == "of the backup"
    assert (new / "keys" / "replaced" / "code_sign_public.1").read_text() == "newer"


def test_a_backup_without_files_is_restored_beside_the_files(work, var, folder, begin_empty):
    folder.parent.mkdir()
    backup = backups.back_up(folder, with_files=False, now=NOON)
    assert not (folder / "files" / "upload").exists()
    new = begin_empty()
    shutil.copytree(var / "upload", new / "upload")
    (new / "project-id").write_text(backup.manifest.identifier)
    (new / "keys" / "secret_key").write_text("an earlier one")
    restore(folder)
    assert (new / "keys" / "secret_key").read_text() == "secret_key of the project"
    assert (new / "keys" / "replaced" / "secret_key").read_text() == "an earlier one"
    assert Workunit.objects.count() == 1


def test_a_backup_without_keys_needs_the_keys_in_place(work, folder, begin_empty):
    folder.parent.mkdir()
    backups.back_up(folder, with_keys=False, now=NOON)
    assert not (folder / "keys").exists()
    new = begin_empty()
    with pytest.raises(
        restore_checks.RestoreRefused, match=r"made without keys, and .* has none either"
    ):
        restore(folder)
    (new / "keys" / "upload_grant_keys").write_text("saved elsewhere")
    restore(folder)
    assert (new / "keys" / "upload_grant_keys").read_text() == "saved elsewhere"


def test_a_backup_overwrites_nothing_and_is_not_made_inside_var_dir(backup, folder, var):
    with pytest.raises(backups.BackupRefused, match=r"exists, .*\nHint: name a new folder"):
        backups.back_up(folder, now=NOON)
    for inside in (var / "backup", var / "results" / "backup"):
        with pytest.raises(backups.BackupRefused, match="is inside VAR_DIR"):
            backups.back_up(inside, now=NOON)
    with pytest.raises(backups.BackupRefused, match="is not a folder"):
        backups.back_up(folder.parent / "none" / "x", now=NOON)


def test_a_failed_backup_leaves_nothing(work, folder, monkeypatch):
    folder.parent.mkdir()
    monkeypatch.setattr(dumps, "_DUMP_OPTIONS", ("--no-such-option",))
    with pytest.raises(dumps.DumpFailed, match="pg_dump failed with exit code 1"):
        backups.back_up(folder, now=NOON)
    assert list(folder.parent.iterdir()) == []


def test_a_backup_whose_audit_entry_cannot_be_written_gets_no_name(work, folder, monkeypatch):
    folder.parent.mkdir()

    def fail(*_args, **_options):
        raise OperationalError("the server is gone")

    monkeypatch.setattr(audit, "record", fail)
    with pytest.raises(OperationalError):
        backups.back_up(folder, now=NOON)
    assert list(folder.parent.iterdir()) == []


def test_a_backup_whose_audit_entry_is_not_committed_gets_no_name(work, folder, monkeypatch):
    folder.parent.mkdir()
    record = audit.record

    def record_what_cannot_be_committed(*args, **options):
        record(*args, **options)
        # A deferred constraint, which PostgreSQL checks at the commit.
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE TEMPORARY TABLE one (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)"
            )
            cursor.execute("INSERT INTO one VALUES (1), (1)")

    monkeypatch.setattr(audit, "record", record_what_cannot_be_committed)
    with pytest.raises(IntegrityError):
        backups.back_up(folder, now=NOON)
    assert list(folder.parent.iterdir()) == []
    assert not AuditEntry.objects.filter(event="backup_created").exists()


@pytest.mark.parametrize(("server", "dumper"), [(15, 18), (16, 17)])
def test_a_dump_that_the_server_could_not_load_is_refused(
    work, folder, monkeypatch, server, dumper
):
    folder.parent.mkdir()
    monkeypatch.setattr(dumps, "server_major", lambda: server)
    monkeypatch.setattr(dumps, "find", lambda name, *, at_least: (name, max(dumper, at_least)))
    monkeypatch.setattr(dumps, "_run", lambda *_, **__: pytest.fail("a program was started"))
    reason = rf"PostgreSQL {server}, and could not load a dump of pg_dump {dumper}, .*\nHint: apt "
    with pytest.raises(dumps.DumpFailed, match=rf"{reason}install postgresql-client-{server}\."):
        backups.back_up(folder, now=NOON)
    with pytest.raises(dumps.DumpFailed, match=r"cannot load a dump of pg_dump 18 .*\nHint: set"):
        dumps.find_restorer(18)
    assert list(folder.parent.iterdir()) == []


@pytest.mark.parametrize(("server", "program"), [(15, 16), (17, 18), (18, 18), (16, 16)])
def test_programs_whose_dumps_the_server_can_load_are_used(monkeypatch, server, program):
    monkeypatch.setattr(dumps, "server_major", lambda: server)
    monkeypatch.setattr(dumps, "find", lambda name, *, at_least: (name, max(program, at_least)))
    assert dumps.find_dumper() == ("pg_dump", program)
    assert dumps.find_restorer(program) == "pg_restore"


def test_a_backup_is_refused_if_the_disk_is_too_small(work, folder, monkeypatch):
    folder.parent.mkdir()
    usage = shutil.disk_usage(folder.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=1000))
    with pytest.raises(backups.BackupRefused, match="has 1,000 bytes free"):
        backups.back_up(folder, now=NOON)


# The deletion of files during a backup


def test_daemons_delete_no_file_while_a_backup_is_running(var):
    result = rows.a_result(
        rows.a_workunit(transition_at=None),
        "valid",
        output=b"x",
        uploaded=True,
        file_delete_state=1,
    )
    path = storage.upload_path(output_name(result.name, result.pk, 0))
    orphan = storage.download_path("orphan")
    orphan.parent.mkdir(parents=True)
    orphan.touch()
    os.utime(orphan, (0, 0))
    with storage.deletions_held():
        assert a_pass(file_deleter).sentence() == "nothing to do"
        with pytest.raises(storage.DeletionsHeld, match="is running, so no file is deleted"):
            antiques.delete_antique_files(NOON)
        assert path.exists()
        assert orphan.exists()
    assert a_pass(file_deleter).sentence() == "1 row: 1 results rid of outputs"
    antiques.delete_antique_files(NOON)
    assert not path.exists()
    assert not orphan.exists()


def test_a_backup_does_not_wait_for_a_deletion_without_end(var, monkeypatch):
    monkeypatch.setattr(deleting, "_DELETIONS_LOCK_SECONDS", 0.05)
    with (
        storage.deletions_allowed(),
        pytest.raises(storage.BackupRuns, match=r"is deleting files .*\nHint: wait"),
        storage.deletions_held(),
    ):
        pytest.fail("the deletions were not held")
    with storage.deletions_held():
        pass


# The command


def test_the_command_prints_what_a_backup_contains_and_lacks(work, folder):
    folder.parent.mkdir()
    text = run("backup", folder, "--without-files")
    assert "Saved 1 workunit, 1 result," in text
    assert "Not included: inputs, programs, outputs, answers and the archive" in text
    report = json.loads(run("backup", folder.with_name("second"), "--json"))
    assert report["counts"]["workunit"] == 1
    assert report["not_included"] == []
    with pytest.raises(CommandError, match="exists, and a backup does not overwrite anything"):
        run("backup", folder)


def test_upgrade_lists_the_migrations_and_is_refused_while_a_daemon_runs(var):
    assert "nothing to do" in run("upgrade")
    text = run("upgrade", "--backup", var.parent / "unused")
    assert "No backup was made: `project backup FOLDER` makes one." in text
    assert not (var.parent / "unused").exists()
    with an_earlier_version():
        report = json.loads(run("upgrade", "--check", "--json"))
        assert report["migrations"] == [f"scheduler.{NEWEST}"]
        with wakeups.Bell("validator"):
            assert processes.running(now=NOON) == [f"validator (process {os.getpid()})"]
            with pytest.raises(CommandError, match=r"These processes are running: validator"):
                run("upgrade", "--no-backup", "--yes")
        with pytest.raises(CommandError, match="An upgrade needs a backup"):
            run("upgrade", "--yes")
        with pytest.raises(CommandError, match=r"no terminal to confirm at.*--yes"):
            run("upgrade", "--no-backup")


def test_upgrade_finds_celery_workers_by_their_heartbeats(var):
    with an_earlier_version():
        storage.show_life("validator")
        with pytest.raises(CommandError, match=r"validator \(last heartbeat \d s ago\)"):
            run("upgrade", "--no-backup", "--yes")
    beat_at = storage.signs_of_life()["validator"]
    assert processes.running(now=beat_at + SILENT_AFTER) == []
    with wakeups.Bell("validator"):
        assert processes.running(now=beat_at) == [f"validator (process {os.getpid()})"]


def test_upgrade_backs_up_a_database_without_the_tables_of_this_version(var, folder):
    rows.a_workunit(transition_at=None)
    folder.parent.mkdir()
    with an_earlier_version(), renamed_tables("audit_entry", "batch"):
        backup = backups.back_up(folder, now=NOON)
        assert not backup.is_recorded
        assert backup.manifest.counts["workunit"] == 1
        assert "batch" not in backup.manifest.counts
    assert AuditEntry.objects.count() == 0


@contextmanager
def renamed_tables(*names):
    """Rename tables, as if they did not exist."""
    for name in names:
        execute(f"ALTER TABLE {name} RENAME TO {name}_later")
    try:
        yield
    finally:
        for name in names:
            execute(f"ALTER TABLE {name}_later RENAME TO {name}")


def test_upgrade_makes_a_backup_and_migrates(var, folder):
    folder.parent.mkdir()
    with an_earlier_version():
        text = run("upgrade", "--backup", folder, "--yes")
    assert "Applied 1 migration." in text
    assert AuditEntry.objects.get(event="backup_created").subject == str(folder)
    assert "fsck: 0 violations" in text
    assert (
        f"scheduler.{NEWEST}"
        not in json.loads((folder / manifest.MANIFEST).read_text())["migrations"]
    )


def test_upgrade_is_refused_if_the_database_is_newer(var):
    with (
        recorded_migrations(added="9999_from_the_future"),
        pytest.raises(CommandError, match=r"lacks the migration scheduler\.9999"),
    ):
        run("upgrade", "--check")


def test_a_key_that_a_command_could_have_made_is_kept_beside_the_restored_one(
    backup, folder, begin_empty
):
    new = begin_empty()
    (new / "keys" / "code_sign_private").write_text("of another project")
    restore(folder)
    kept = new / "keys" / "replaced" / "code_sign_private"
    assert kept.read_text() == "of another project"
