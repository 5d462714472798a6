"""No file goes that anybody needs, and every other goes, in any order."""

from __future__ import annotations

import pytest
from hypothesis import Phase

from tests.long.file_machine import try_out

pytestmark = [pytest.mark.lengthy, pytest.mark.django_db(transaction=True)]


def test_no_file_goes_that_is_needed_and_every_other_does(transactional_db, proof):
    """What fails is told as it was found; `test_many_files` also looks for a shorter way."""
    number = proof.how_many("files", 10)
    try_out(
        proof,
        max_examples=number,
        stateful_step_count=40,
        derandomize=True,
        phases=[Phase.generate],
    )
