"""Each app gets a share of the results sent, by its weight (wish W24)."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.dispatch.facts import AppFacts, Candidate, HostFacts
from scheduler.dispatch.rules import fit, selection
from scheduler.dispatch.rules.fair_share import interleave
from scheduler.dispatch.rules.trust import draw

CLAIMS = 1000
WEIGHTS = st.dictionaries(st.integers(1, 9), st.floats(0.01, 100), min_size=1)


def shares(
    weights: dict[int, float], *, per_call: int, lengths: dict[int, int]
) -> dict[int, float]:
    """Return each app's share of a thousand claims, if all apps always have work."""
    lanes = {app: [app] * length for app, length in lengths.items()}
    claimed: Counter[int] = Counter()
    call = 0
    while claimed.total() < CLAIMS:
        call += 1
        claimed.update(interleave(lanes, weights, draw("key", call))[:per_call])
    return {app: claimed[app] / claimed.total() for app in lengths}


@pytest.mark.parametrize("per_call", [1, 10, 48])
@given(weights=WEIGHTS)
@settings(max_examples=15, deadline=None)
def test_w24_share_of_each_app_over_a_thousand_claims_is_within_five_percent(per_call, weights):
    total = sum(weights.values())
    got = shares(weights, per_call=per_call, lengths=dict.fromkeys(weights, per_call))
    for app, weight in weights.items():
        assert got[app] == pytest.approx(weight / total, abs=0.05)


def test_huge_batch_does_not_starve_a_small_batch():
    got = shares({1: 1, 2: 1}, per_call=1, lengths={1: 500, 2: 1})
    assert got[2] == pytest.approx(0.5, abs=0.05)


def test_weights_of_one_to_two_give_one_and_two_thirds():
    got = shares({1: 1, 2: 2}, per_call=6, lengths={1: 12, 2: 12})
    assert got == {1: pytest.approx(1 / 3, abs=0.02), 2: pytest.approx(2 / 3, abs=0.02)}


@given(WEIGHTS, st.floats(0, 1, exclude_max=True))
def test_first_items_of_a_long_call_follow_the_weights(weights, lot):
    total = sum(weights.values())
    lanes = {app: [app] * 200 for app in weights}
    first = Counter(interleave(lanes, weights, lot)[:200])
    for app, weight in weights.items():
        assert first[app] == pytest.approx(200 * weight / total, abs=10)


@given(
    st.dictionaries(st.integers(1, 9), st.lists(st.integers(), max_size=20)),
    st.dictionaries(st.integers(1, 9), st.floats(-1, 1e300)),
    st.floats(0, 1, exclude_max=True),
)
def test_interleaving_keeps_every_item_and_the_order_of_each_queue(lanes, weights, lot):
    tagged = {app: [(app, *item) for item in enumerate(items)] for app, items in lanes.items()}
    order = interleave(tagged, weights, lot)
    for app, items in tagged.items():
        assert [item for item in order if item[0] == app] == items
    assert len(order) == sum(len(items) for items in lanes.values())


def test_app_of_weight_zero_comes_after_all_others():
    assert interleave({1: "aaa", 2: "bbb"}, {1: 0, 2: 1}, 0.0) == list("bbbaaa")
    assert sorted(interleave({1: "a", 2: "b"}, {1: 0, 2: 0}, 0.5)) == ["a", "b"]


def test_app_without_a_weight_has_weight_one():
    got = shares({1: 1}, per_call=1, lengths={1: 1, 2: 1})
    assert got[2] == pytest.approx(0.5, abs=0.05)


# Together with priorities


def an_app(number: int, weight: float) -> AppFacts:
    return AppFacts(
        id=number,
        name=f"app{number}",
        weight=weight,
        one_result_per="nothing",
        retry_same_account_after=timedelta(0),
    )


def a_candidate(number: int, app: int, priority: int) -> Candidate:
    return Candidate(
        result_id=number,
        workunit_id=number,
        app_id=app,
        priority=priority,
        rsc_fpops_est=1e12,
        rsc_memory_bound=1e8,
        rsc_disk_bound=1e8,
        delay_bound=timedelta(days=1),
    )


def order(weights: dict[int, float], work: list[tuple[int, int]], lot: float) -> list[Candidate]:
    """Return candidates from (app, priority) pairs, ordered for a host without preferences."""
    rules = fit.Rules(
        apps={app: an_app(app, weight) for app, weight in weights.items()},
        versions={},
        headroom=None,
        today=date(2026, 6, 1),
    )
    candidates = [a_candidate(number, *facts) for number, facts in enumerate(work)]
    ordered, disliked = selection.order(
        candidates, host=HostFacts(id=1, account_id=1), rules=rules, draw=lot
    )
    assert disliked == []
    return ordered


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(-5, 5))),
    st.floats(0, 1, exclude_max=True),
)
def test_priority_takes_precedence_over_weights(work, lot):
    ordered = order({1: 1, 2: 100, 3: 0}, work, lot)
    priorities = [candidate.priority for candidate in ordered]
    assert priorities == sorted(priorities, reverse=True)
    assert sorted(candidate.result_id for candidate in ordered) == list(range(len(work)))


def test_weights_apply_among_equal_priorities():
    work = [(1, 0)] * 30 + [(2, 0)] * 30
    claimed: Counter[int] = Counter()
    for call in range(100):
        ordered = order({1: 3, 2: 1}, work, draw("key", call))
        claimed.update(candidate.app_id for candidate in ordered[:10])
    assert claimed[1] / claimed.total() == pytest.approx(3 / 4, abs=0.05)
