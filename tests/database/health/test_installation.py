"""A VAR_DIR belongs to one project."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.core.management.base import CommandError
from django.db import connection

from scheduler.health.installation import claim_folder
from scheduler.models import Installation

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.VAR_DIR = tmp_path / "claimed"
    settings.VAR_DIR.mkdir()
    return settings.VAR_DIR


def test_the_first_start_writes_the_project_id_and_later_starts_accept_it(folder):
    for _ in range(2):
        claim_folder()
    [path] = folder.iterdir()
    assert path.read_text() == f"{Installation.objects.get()}\n"


def test_a_folder_of_another_project_is_refused_and_not_changed(folder):
    claim_folder()
    theirs = (folder / "project-id").read_text()
    Installation.objects.update(identifier=UUID(int=1))
    with pytest.raises(CommandError, match=r"the files of another project[^\n]*\nHint: "):
        claim_folder()
    assert (folder / "project-id").read_text() == theirs


def test_an_empty_project_id_file_is_written_again(folder):
    (folder / "project-id").touch()
    claim_folder()
    assert (folder / "project-id").read_text() == f"{Installation.objects.get()}\n"


def test_a_database_without_the_table_is_refused_with_a_hint(folder):
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE installation")
    with pytest.raises(CommandError, match=r"Hint: manage.py migrate"):
        claim_folder()
    assert not list(folder.iterdir())


def test_several_folders_of_one_project_are_accepted(settings, folder):
    for name in ("a", "b"):
        settings.VAR_DIR = folder / name
        claim_folder()
    assert (folder / "a/project-id").read_text() == (folder / "b/project-id").read_text()
