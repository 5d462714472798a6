"""The rules of dependencies between workunits, and the search for cycles."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.lifecycle import ReleaseState
from scheduler.work.rules.dependency_graphs import (
    LinkedWorkunit,
    find_cycle,
    refusal_of_child,
    refusal_of_parent,
)

WAITING = LinkedWorkunit(
    id=1,
    name="wu",
    release_state=ReleaseState.INACTIVE,
    has_answer=False,
    has_failed=False,
    was_sent=False,
)
HELD, RELEASED = ReleaseState.HELD, ReleaseState.RELEASED


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({}, ""),
        ({"release_state": HELD}, ""),
        ({"release_state": HELD, "was_sent": True}, "wu was released"),
        ({"release_state": RELEASED}, "wu was released"),
        ({"release_state": RELEASED, "was_sent": True}, "wu was released"),
        ({"has_failed": True}, "wu has failed"),
        ({"has_answer": True}, "wu has an answer"),
        # Results of an inactive workunit are those of an earlier hold.
        ({"was_sent": True}, ""),
    ],
)
def test_child_must_be_inactive_or_held_since_its_submission(changes, refusal):
    assert refusal_of_child(replace(WAITING, **changes)) == refusal


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({}, ""),
        ({"release_state": RELEASED, "was_sent": True}, ""),
        ({"has_answer": True}, ""),
        ({"has_failed": True}, "wu has failed"),
    ],
)
def test_parent_must_not_have_failed(changes, refusal):
    assert refusal_of_parent(replace(WAITING, **changes)) == refusal


@pytest.mark.parametrize(
    ("edges", "cycle"),
    [
        ([], ()),
        ([(1, 2), (2, 3), (1, 3)], ()),
        ([(1, 1)], (1,)),
        ([(1, 2), (2, 1)], (1, 2)),
        ([(1, 2), (2, 3), (3, 4), (4, 2)], (2, 3, 4)),
        ([(5, 6), (1, 2), (2, 3), (3, 1)], (1, 2, 3)),
    ],
)
def test_cycle_is_found_without_the_path_that_leads_to_it(edges, cycle):
    assert find_cycle(edges) == cycle


@pytest.mark.lengthy
def test_deep_chain_needs_no_recursion():
    chain = [(number, number + 1) for number in range(100_000)]
    assert find_cycle(chain) == ()
    assert len(find_cycle([*chain, (100_000, 0)])) == 100_001


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20))
def test_found_cycle_exists_and_no_cycle_is_missed(edges):
    cycle = find_cycle(edges)
    for parent, child in zip(cycle, (*cycle[1:], *cycle[:1]), strict=True):
        assert (parent, child) in edges
    left = set(edges)
    while removable := {(p, c) for p, c in left if all(other != c for other, _ in left)}:
        left -= removable
    assert bool(cycle) == bool(left)
