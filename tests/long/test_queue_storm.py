"""Ten thousand claims by sixteen hosts never exceed the limit of a queue."""

from __future__ import annotations

import pytest

from tests.database.dispatch.test_queue_storm import storm_of
from tests.long.conftest import Proof

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]


def test_ten_thousand_claims_never_exceed_a_limit_and_keep_the_order(proof: Proof) -> None:
    claims = proof.how_many("claims", 10_000)
    proof.note(storm_of(claims))
    proof.count(claims=claims)
