"""Other users cannot read a backup, and a manipulated one is refused."""

from __future__ import annotations

import errno
import json
import os
import stat
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from project.upkeep import backups, copies, dumps, manifest, restore_checks, restores, versions
from project.upkeep.manifest import BadBackup
from tests.security.other_users import NOBODY, STRANGER, needs_root, run_as

IDENTIFIER = "3f0f1f6e-8d55-4d2f-9d5b-0c1d6a1f3b11"


@pytest.fixture
def var(settings, tmp_path):
    """An empty VAR_DIR."""
    folder = tmp_path / "var"
    (folder / "keys").mkdir(parents=True, mode=0o700)
    settings.VAR_DIR, settings.KEYS_DIR = folder, folder / "keys"
    return folder


@pytest.fixture
def backup(var, tmp_path, monkeypatch):
    """A small backup; the database counts as empty, and must not be loaded."""
    source = tmp_path / "source"
    (source / "upload" / "0a").mkdir(parents=True)
    (source / "upload" / "0a" / "name").write_text("output")
    (source / "secret_key").write_text("secret")
    (source / "project-id").write_text(f"{IDENTIFIER}\n")
    folder = tmp_path / "backup"
    folder.mkdir(mode=0o700)
    writer = backups._Writer(folder, lambda _nbytes: None)
    (folder / manifest.DUMP).write_text("dump")
    (folder / manifest.DUMP).chmod(0o600)
    writer.add(manifest.DUMP, copies.sha256_of(folder / manifest.DUMP), 4)
    writer.copy(
        [
            ("keys/secret_key", source / "secret_key"),
            ("files/project-id", source / "project-id"),
            ("files/upload/0a/name", source / "upload" / "0a" / "name"),
        ]
    )
    writer.finish(
        {
            "identifier": IDENTIFIER,
            "postgresql": 15,
            "pg_dump": 15,
            "migrations": ["scheduler.0001_initial"],
            "counts": {},
        },
        with_keys=True,
        with_files=True,
        created_at=timezone.now(),
    )
    monkeypatch.setattr(dumps, "server_major", lambda: 18)
    monkeypatch.setattr(dumps, "find_restorer", lambda _pg_dump: "pg_restore")
    monkeypatch.setattr(dumps, "count_objects", lambda: 0)
    monkeypatch.setattr(dumps, "load", lambda *_, **__: pytest.fail("the database was loaded"))
    return folder


def restore(folder):
    return restores.restore(folder, now=timezone.now())


def seal(folder):
    """Make the manifest fit a list of files that somebody has changed."""
    path = folder / manifest.MANIFEST
    content = json.loads(path.read_text())
    content["sums_sha256"] = copies.sha256_of(folder / manifest.SUMS)
    content["files"] = len((folder / manifest.SUMS).read_text().splitlines())
    path.write_text(json.dumps(content))


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# Nothing is left out silently


@pytest.fixture
def project(var):
    """A VAR_DIR with an input, an output and a key."""
    for name in ("download/0a/input", "upload/0b/output", "keys/upload_grant_keys", "project-id"):
        path = var / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return var


@pytest.fixture
def writer(tmp_path):
    folder = tmp_path / "draft"
    folder.mkdir(mode=0o700)
    writer = backups._Writer(folder, lambda _nbytes: None)
    yield writer
    writer.close()


@pytest.fixture
def unreadable(monkeypatch):
    """Return a function that makes a path unreadable, also for root."""
    paths = set()

    def denies(function):
        def checked(path, *args, **options):
            if os.fspath(path) in paths:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
            return function(path, *args, **options)

        return checked

    for name in ("open", "scandir"):
        monkeypatch.setattr(os, name, denies(getattr(os, name)))
    return lambda path: paths.add(os.fspath(path))


@pytest.mark.parametrize("name", ["download/0a/input", "keys/upload_grant_keys", "project-id"])
def test_a_backup_fails_at_a_file_that_it_cannot_read(project, writer, unreadable, name):
    unreadable(project / name)
    with pytest.raises(copies.Unreadable, match=rf"{name} cannot be read .*\nHint: "):
        writer.copy_project(with_keys=True, with_files=True)


@pytest.mark.parametrize("name", ["download", "upload/0b"])
def test_a_backup_fails_at_a_folder_that_it_cannot_read(project, writer, unreadable, name):
    unreadable(project / name)
    with pytest.raises(copies.Unreadable, match=rf"{name} cannot be read .*\nHint: "):
        writer.copy_project(with_keys=True, with_files=True)


@pytest.mark.parametrize("target", ["missing", "upload/0b/output"])
def test_a_backup_fails_if_a_folder_is_a_link_to_nothing_or_a_file(project, writer, target):
    (project / "results").symlink_to(project / target)
    with pytest.raises(copies.Unreadable, match=r"results cannot be read .*\nHint: "):
        writer.copy_project(with_keys=True, with_files=True)


def test_a_linked_folder_in_a_tree_is_reported_as_skipped(project, writer, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "output").write_text("output")
    (project / "upload" / "0c").symlink_to(tmp_path / "other")
    writer.copy_project(with_keys=True, with_files=True)
    assert writer.skipped == [str(project / "upload" / "0c")]


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "named pipe"])
def test_a_backup_fails_at_a_key_that_is_not_a_file(project, writer, kind):
    key = project / "keys" / "code_sign_public"
    if kind == "folder":
        key.mkdir()
    elif kind == "named pipe":
        os.mkfifo(key)
    else:
        key.symlink_to(project / "project-id" if kind == "link" else "missing")
    reason = r"code_sign_public is not a regular file.*\nHint: "
    with pytest.raises(backups.BackupRefused, match=reason):
        writer.copy_project(with_keys=True, with_files=True)


def test_a_backup_fails_at_a_key_that_vanishes(project, writer):
    files = [("keys/code_sign_public", project / "keys" / "code_sign_public")]
    with pytest.raises(backups.BackupRefused, match=r"code_sign_public .*\nHint: "):
        writer.copy_keys(files)


def test_replaced_keys_are_not_in_a_backup(project, writer):
    (project / "keys" / "replaced").mkdir()
    (project / "keys" / "replaced" / "secret_key").write_text("an earlier one")
    writer.copy_project(with_keys=True, with_files=False)
    assert files_in(writer.folder / "keys") == ["upload_grant_keys"]


# Access to a backup


def test_only_the_owner_can_open_the_files_of_a_backup(backup):
    for path in (backup, *backup.rglob("*")):
        assert stat.S_IMODE(path.lstat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@needs_root
def test_another_user_can_read_nothing_of_a_backup(backup):
    answer = run_as(STRANGER, lambda: sorted(backup.iterdir()))
    assert str(answer).startswith("PermissionError")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o702])
def test_a_backup_is_not_made_in_a_folder_to_which_others_can_write(var, tmp_path, mode):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    with pytest.raises(backups.BackupRefused, match=r"Other users can write to .*\nHint: `chmod"):
        backups.back_up(shared / "backup", now=timezone.now())
    assert list(shared.iterdir()) == []


@pytest.mark.parametrize(
    "path",
    [
        "../var/keys/secret_key",
        "files/../../outside",
        "files/upload/../../../outside",
        "/etc/passwd",
        "keys/../../outside",
        "keys/sub/secret_key",
        "files/postgres/pg_hba.conf",
        "files/run/../keys/secret_key",
        "files/.hidden.json",
        "files/upload//name",
        "files/upload/./name",
        "files/stop_upload",
        "manifest.json",
        "files",
        "",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused_before_anything_is_written(
    backup, var, tmp_path, path
):
    outside = tmp_path / "outside"
    outside.write_text("before")
    (backup / manifest.SUMS).write_text(manifest.sum_line("0" * 64, path))
    seal(backup)
    with pytest.raises(BadBackup, match=r"SHA256SUMS of the backup is damaged.*\nHint: "):
        restore(backup)
    assert outside.read_text() == "before"
    assert files_in(var) == []


def test_an_escaped_line_of_the_list_cannot_hide_a_path(backup, var):
    (backup / manifest.SUMS).write_text("\\" + "0" * 64 + "  files/upload/..\\\\../x\n")
    seal(backup)
    # A backslash is an ordinary character of a name.
    with pytest.raises(BadBackup, match="is missing in the backup"):
        restore(backup)
    assert files_in(var) == []


@pytest.mark.parametrize("kind", ["link to a file", "link to a folder", "named pipe"])
def test_a_link_or_a_special_file_in_a_backup_is_refused(backup, var, tmp_path, kind):
    place = backup / "files" / "upload" / "0a" / "name"
    secret = tmp_path / "secret"
    secret.write_text("output")
    place.unlink()
    if kind == "link to a file":
        place.symlink_to(secret)
    elif kind == "named pipe":
        os.mkfifo(place)
    else:
        place.write_text("output")
        (backup / "files" / "upload").rename(tmp_path / "upload")
        (backup / "files" / "upload").symlink_to(tmp_path / "upload")
    with pytest.raises(BadBackup, match="is a symbolic link or a special file"):
        restore(backup)
    assert files_in(var) == []


@pytest.mark.parametrize(
    "name", ["database.dump", "keys/secret_key", "files/upload/0a/name", "SHA256SUMS"]
)
def test_a_changed_file_is_refused_before_anything_is_written(backup, var, name):
    content = (backup / name).read_bytes()
    (backup / name).write_bytes(content[:-1] + b"?")
    with pytest.raises(BadBackup, match=f"{name} has not the hash that the backup lists"):
        restore(backup)
    assert files_in(var) == []


def test_a_missing_and_an_additional_file_are_refused(backup, var):
    added = backup / "files" / "upload" / "0a" / "added"
    added.write_text("x")
    with pytest.raises(BadBackup, match="The backup has 5 files, its list has 4"):
        restore(backup)
    added.unlink()
    (backup / "files" / "upload" / "0a" / "name").unlink()
    with pytest.raises(BadBackup, match="files/upload/0a/name is missing in the backup"):
        restore(backup)
    assert files_in(var) == []


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_backup_that_others_can_change_is_refused(backup, var, mode):
    backup.chmod(mode)
    with pytest.raises(restore_checks.RestoreRefused, match="Other users can change"):
        restore(backup)
    assert files_in(var) == []


@needs_root
def test_a_backup_that_belongs_to_another_user_is_refused(backup, var):
    os.chown(backup, STRANGER, STRANGER)
    with pytest.raises(
        restore_checks.RestoreRefused, match=f"belongs to another user \\({STRANGER}\\)"
    ):
        restore(backup)
    assert files_in(var) == []


ENTRIES = ["database.dump", "keys", "keys/secret_key", "files/upload/0a", "files/upload/0a/name"]


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_an_entry_of_a_backup_that_others_can_change_is_refused(backup, var, name, mode):
    (backup / name).chmod(mode)
    with pytest.raises(restore_checks.RestoreRefused, match=f"Other users can change .*{name} "):
        restore(backup)
    assert files_in(var) == []


@needs_root
@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_of_a_backup_that_belongs_to_another_user_is_refused(backup, var, name):
    os.chown(backup / name, STRANGER, STRANGER)
    with pytest.raises(restore_checks.RestoreRefused, match=f"{name} belongs to another user"):
        restore(backup)
    assert files_in(var) == []


# The user of the commands


@needs_root
@pytest.mark.django_db
@pytest.mark.parametrize(
    "words",
    [
        ("backup", "BACKUP"),
        ("upgrade", "--no-backup", "--yes"),
        ("rename-url", "https://new.example/", "--yes"),
    ],
)
def test_a_command_of_another_user_than_the_owner_of_var_dir_is_refused(
    var, tmp_path, monkeypatch, words
):
    monkeypatch.setattr(versions, "missing_migrations", lambda: ["scheduler.0028_audit_events"])
    os.chown(var, NOBODY, NOBODY)
    words = [word.replace("BACKUP", str(tmp_path / "saved")) for word in words]
    reason = r"belongs to the user nobody, .*\nHint: .*`sudo -u nobody .*`"
    with pytest.raises(CommandError, match=reason):
        call_command("project", *words, stdout=StringIO(), stderr=StringIO())
    assert files_in(var) == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "extra": 2}', "null", '"x"']
)
def test_a_damaged_manifest_is_refused(backup, var, text):
    (backup / manifest.MANIFEST).write_text(text)
    with pytest.raises(BadBackup, match="Hint: "):
        restore(backup)
    assert files_in(var) == []


def test_a_password_of_the_database_is_not_on_the_command_line_of_pg_dump(monkeypatch, tmp_path):
    calls = []

    def run(words, **options):
        calls.append((words, options))
        return dumps.subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(dumps.subprocess, "run", run)
    parameters = {"password": "very-secret", "user": "ada", "dbname": "x", "sslmode": "require"}
    monkeypatch.setattr(
        dumps.connection, "get_connection_params", lambda: parameters, raising=False
    )
    dumps._run(["pg_dump", "--format=custom"], stdout=0)
    [(words, options)] = calls
    assert "very-secret" not in " ".join(words)
    assert options["env"]["PGPASSWORD"] == "very-secret"
    assert options["env"]["PGSSLMODE"] == "require"
