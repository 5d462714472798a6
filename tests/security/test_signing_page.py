"""The commands of docs/signing.md and of the runbook work as documented."""

from __future__ import annotations

import re
import shlex
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler import signing
from scheduler.models import AppVersion
from tests.security.test_offline_signing import ROOT, SCRIPT, run, signer

pytestmark = pytest.mark.django_db

COMMAND = re.compile(r"^ *\$ (.+)$", re.MULTILINE)


@pytest.fixture
def desk(settings, tmp_path, monkeypatch) -> Path:
    """A folder that both machines share, with a program, and a project without a key."""
    settings.KEYS_DIR = tmp_path / "server"
    settings.PROJECT = replace(settings.PROJECT, online_signing=False)
    signing.ensure_keys()
    desk = tmp_path / "desk"
    desk.mkdir()
    (desk / "run.sh").write_text(SCRIPT)
    with tarfile.open(desk / "sum.tar.gz", "w:gz") as archive:
        archive.add(desk / "run.sh", "run.sh")
    monkeypatch.chdir(desk)
    return desk


def commands(page: str, after: str, before: str = "\n## ") -> list[str]:
    text = (ROOT / "docs" / page).read_text()
    section = text[text.index(after) + len(after) :].partition(before)[0]
    return [line for line in COMMAND.findall(section) if "sign.py" in line or "--p" in line
            or "--s" in line]  # fmt: skip


def give(lines: list[str], desk: Path) -> None:
    for line in lines:
        words = shlex.split(line)
        if "manage.py" in words:
            run(*words[words.index("manage.py") + 1 :])
        else:
            at = words.index("sign.py") + 1
            # The tool runs in another folder, so arguments that are not options become absolute paths.
            paths = [str(desk / word) if "keys" in word or "/" in word or (desk / word).exists()
                     else word for word in words[at + 1 :]]  # fmt: skip
            signer(words[at], *paths, answer="y\n")


def numbers() -> set[int]:
    return set(AppVersion.objects.filter(deprecated=False).values_list("version_num", flat=True))


def test_commands_of_the_signing_page_publish_republish_and_replace_the_key(desk) -> None:
    give(commands("signing.md", "## A new project"), desk)
    first = signing.code_sign_key_text()
    give(commands("signing.md", "## Publish a version"), desk)
    assert numbers() == {100}
    give(commands("signing.md", "## After an upgrade of the server"), desk)
    assert numbers() == {101}
    give(commands("signing.md", "## Replace the key"), desk)
    assert signing.code_sign_key_text() != first
    assert signing.rotation_signature(first) is not None
    assert numbers() == {101}


def test_runbook_for_a_stolen_key_replaces_the_key_and_republishes_the_app(desk) -> None:
    give(commands("signing.md", "## A new project"), desk)
    give(commands("signing.md", "## Publish a version"), desk)
    first = signing.code_sign_key_text()
    runbook = commands("recipes.md", "### The code signing key", "\n### ")
    assert len(runbook) == 5
    give(runbook, desk)
    assert signing.code_sign_key_text() != first
    assert signing.rotation_signature(first) is not None
    assert numbers() == {101}
