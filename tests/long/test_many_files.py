"""The same as `test_files`, a thousand times and never the same."""

from __future__ import annotations

import pytest

from tests.long.file_machine import try_out

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]


@pytest.mark.parametrize("part", range(2))
def test_no_file_goes_that_is_needed_in_a_thousand_walks(transactional_db, proof, part):
    try_out(proof, max_examples=proof.how_many("files", 1000) // 2, stateful_step_count=80)
