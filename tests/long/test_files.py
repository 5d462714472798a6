"""In random walks no needed file is deleted, and every unneeded file is."""

from __future__ import annotations

import pytest
from hypothesis import Phase

from tests.long.file_machine import try_out

pytestmark = [pytest.mark.lengthy, pytest.mark.django_db(transaction=True)]


def test_random_walks_keep_needed_files_and_delete_unneeded_files(transactional_db, proof):
    """A failing walk is shown without shrinking; `test_many_files` also shrinks it."""
    number = proof.how_many("files", 10)
    try_out(
        proof,
        max_examples=number,
        stateful_step_count=40,
        derandomize=True,
        phases=[Phase.generate],
    )
