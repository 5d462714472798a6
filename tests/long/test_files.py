"""No needed file is deleted, and every other file is, in any order of acts."""

from __future__ import annotations

import pytest
from hypothesis import Phase

from tests.long.file_machine import try_out

pytestmark = [pytest.mark.lengthy, pytest.mark.django_db(transaction=True)]


def test_no_file_goes_that_is_needed_and_every_other_does(transactional_db, proof):
    """A failing walk is shown as it was found; `test_many_files` also shortens it."""
    number = proof.how_many("files", 10)
    try_out(
        proof,
        max_examples=number,
        stateful_step_count=40,
        derandomize=True,
        phases=[Phase.generate],
    )
