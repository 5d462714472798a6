"""Other users of the machine cannot access the project's files."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from project import env, folders
from tests.house.tracked import ROOT

PRINT_MODES = """
import os, sys
from pathlib import Path
import django
django.setup()
from django.conf import settings
from scheduler.storage import disk
os.close(disk.create(f"{settings.VAR_DIR}/upload/0a/file", os.O_WRONLY | os.O_CREAT))
(settings.VAR_DIR / "run").mkdir()
for path in sorted([settings.VAR_DIR, *settings.VAR_DIR.rglob("*")]):
    print(oct(path.lstat().st_mode & 0o7777), path.relative_to(settings.VAR_DIR.parent))
"""


def modes_of_new_files(var, **environment):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import os; os.umask({environment.pop('umask', 0o022)})\n{PRINT_MODES}",
        ],
        cwd=ROOT,
        env=os.environ
        | {"VAR_DIR": str(var), "DJANGO_SETTINGS_MODULE": "project.settings", "DATABASE_URL": ""}
        | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name: int(mode, 8) for mode, name in map(str.split, done.stdout.splitlines())}


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_new_files_are_inaccessible_to_other_users_despite_umask_0(tmp_path):
    modes = modes_of_new_files(tmp_path / "var", umask=0)
    assert len(modes) > 5
    assert {name: oct(found) for name, found in modes.items() if found & 0o027} == {}
    keys = {name: found for name, found in modes.items() if name.startswith("var/keys")}
    assert {name: oct(found) for name, found in keys.items() if found & 0o077} == {}


def test_a_stricter_umask_is_kept(tmp_path):
    modes = modes_of_new_files(tmp_path / "var", umask=0o077)
    assert {name: oct(found) for name, found in modes.items() if found & 0o077} == {}


def test_file_umask_setting_can_open_uploads_but_not_keys_to_other_users(tmp_path):
    modes = modes_of_new_files(tmp_path / "var", FILE_UMASK="0022")
    assert modes["var/upload/0a/file"] == 0o644
    assert modes["var/keys"] == 0o700
    assert modes["var/keys/secret_key"] == 0o600


@pytest.mark.parametrize("value", ["27", "0127", "0777", "0x17", "0o27", "0089"])
def test_invalid_file_umask_setting_is_refused(monkeypatch, value):
    monkeypatch.setenv("FILE_UMASK", value)
    with pytest.raises(env.BadSetting, match="a umask that starts with 0"):
        env.umask("FILE_UMASK", 0o027)


def test_modes_of_existing_files_are_corrected_and_their_paths_returned(tmp_path):
    var = tmp_path / "var"
    keys = var / "keys"
    for folder in (keys, keys / "old", var / "upload", var / "results"):
        folder.mkdir(parents=True)
        folder.chmod(0o777)
    (keys / "code_sign_private").touch()
    (keys / "code_sign_private").chmod(0o664)
    (var / "server.log").touch()
    (var / "server.log").chmod(0o644)
    (var / "link").symlink_to("/etc/passwd")
    var.chmod(0o755)
    changed = folders.correct_modes(var, keys, umask=0o027)
    assert (mode(var), mode(var / "upload"), mode(var / "server.log")) == (0o750, 0o750, 0o640)
    assert (mode(keys), mode(keys / "old"), mode(keys / "code_sign_private")) == (
        0o700,
        0o700,
        0o600,
    )
    assert {path.name for path in changed} == {
        *("var", "keys", "old", "upload", "results", "server.log", "code_sign_private")
    }
    assert folders.correct_modes(var, keys, umask=0o027) == []
