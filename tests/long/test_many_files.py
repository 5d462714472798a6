"""A thousand random walks of the file state machine; see `test_files`."""

from __future__ import annotations

import pytest

from tests.long.file_machine import try_out

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]


@pytest.mark.parametrize("part", range(2))
def test_thousand_random_walks_keep_needed_files(transactional_db, proof, part):
    try_out(proof, max_examples=proof.how_many("files", 1000) // 2, stateful_step_count=80)
