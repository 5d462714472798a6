"""A VAR_DIR belongs to one project."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.core.management.base import CommandError
from django.db import connection

from scheduler.models import Installation
from scheduler.operations.installation import claim_folder

pytestmark = pytest.mark.django_db


def test_the_first_start_claims_the_folder_and_later_ones_find_it(tmp_path):
    for _ in range(2):
        claim_folder(tmp_path)
    [path] = tmp_path.iterdir()
    assert path.read_text() == f"{Installation.objects.get()}\n"


def test_a_folder_of_another_project_is_refused_and_stays_as_it_is(tmp_path):
    claim_folder(tmp_path)
    theirs = (tmp_path / "project-id").read_text()
    Installation.objects.update(identifier=UUID(int=1))
    with pytest.raises(CommandError, match=r"the files of another project[^\n]*\nHint: "):
        claim_folder(tmp_path)
    assert (tmp_path / "project-id").read_text() == theirs


def test_a_claim_that_was_cut_short_is_made_again(tmp_path):
    (tmp_path / "project-id").touch()
    claim_folder(tmp_path)
    assert (tmp_path / "project-id").read_text() == f"{Installation.objects.get()}\n"


def test_a_database_without_the_table_is_refused_with_a_hint(tmp_path):
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE installation")
    with pytest.raises(CommandError, match=r"Hint: manage.py migrate"):
        claim_folder(tmp_path)
    assert not list(tmp_path.iterdir())


def test_several_folders_of_one_project_are_accepted(tmp_path):
    for name in ("a", "b"):
        claim_folder(tmp_path / name)
    assert (tmp_path / "a/project-id").read_text() == (tmp_path / "b/project-id").read_text()
