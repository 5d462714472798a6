"""The quorum: which results agree, and which of them is canonical."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.results.rules.quorum import (
    Candidate,
    check_late,
    check_set,
    doubt_suspicious,
    majority,
)


def candidates(answers):
    """Return a candidate for each letter, with ids from 1; a dot is a missing output."""
    return [
        Candidate(number, None if letter == "." else letter)
        for number, letter in enumerate(answers, start=1)
    ]


def compared(answers, min_quorum):
    return check_set(candidates(answers), min_quorum=min_quorum, agree=operator.eq)


@pytest.mark.parametrize(
    ("answers", "min_quorum", "canonical", "valid", "invalid"),
    [
        ("a", 1, 1, (1,), ()),
        ("aa", 2, 1, (1, 2), ()),
        ("ab", 2, None, (), ()),
        ("aba", 2, 1, (1, 3), (2,)),
        ("baa", 2, 2, (2, 3), (1,)),
        ("aab", 3, 1, (1, 2), (3,)),
        ("abc", 3, None, (), ()),
        ("aabb", 2, None, (), ()),
        ("aabbb", 2, 3, (3, 4, 5), (1, 2)),
        ("aabb", 4, None, (), ()),
        ("aabc", 4, None, (), ()),
        ("a", 2, None, (), ()),
        ("ab", 1, None, (), ()),
    ],
)
def test_majority_determines_canonical_valid_and_invalid_results(
    answers, min_quorum, canonical, valid, invalid
):
    found = compared(answers, min_quorum)
    assert (found.canonical, found.valid, found.invalid) == (canonical, valid, invalid)


@pytest.mark.parametrize(
    ("answers", "suspicious", "canonical", "inconclusive"),
    [
        ("a", {1}, None, (1,)),
        ("a", {2}, 1, ()),
        ("aa", {1, 2}, 1, ()),
        ("ab", {1}, None, (1, 2)),
        (".a", {2}, None, (2,)),
    ],
)
def test_suspicious_result_becomes_canonical_only_if_another_result_agrees(
    answers, suspicious, canonical, inconclusive
):
    found = doubt_suspicious(compared(answers, 1), suspicious)
    assert (found.canonical, found.inconclusive) == (canonical, inconclusive)
    assert (1 in found.missing) is answers.startswith(".")


def test_results_that_disagree_are_inconclusive():
    assert compared("ab", 2).inconclusive == (1, 2)


def test_results_below_the_quorum_are_not_compared():
    found = compared("a.", 2)
    assert found.missing == (2,)
    assert found.inconclusive == ()


def test_result_with_a_missing_output_does_not_count_toward_the_quorum():
    found = compared("a.a", 2)
    assert found.canonical == 1
    assert found.valid == (1, 3)
    assert found.missing == (2,)


@pytest.mark.parametrize(("quorum", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4)])
def test_more_than_half_of_the_quorum_must_agree(quorum, needed):
    def canonical(agreeing, others):
        return compared("a" * agreeing + "bcdef"[:others], quorum).canonical

    assert majority(quorum) == needed
    assert canonical(needed, quorum - needed) == 1
    if quorum > 1:
        assert canonical(needed - 1, quorum - needed + 1) is None
        # Agreeing results are not valid before the quorum is complete.
        assert canonical(quorum - 1, 0) is None


def test_quorum_works_with_a_tolerant_comparison():
    near = check_set(
        [Candidate(1, 1.0), Candidate(2, 5.0), Candidate(3, 1.1)],
        min_quorum=2,
        agree=lambda one, other: abs(one - other) < 0.5,
    )
    assert (near.canonical, near.valid, near.invalid) == (1, (1, 3), (2,))


def test_late_results_are_compared_with_the_canonical_result():
    found = check_late(candidates("ab."), Candidate(9, "a"), agree=operator.eq)
    assert (found.canonical, found.valid, found.invalid, found.missing) == (9, (1,), (2,), (3,))


answers_given = st.text(alphabet="abc.", max_size=9)


@given(answers_given, st.integers(1, 5), st.randoms(use_true_random=False))
def test_order_of_results_does_not_change_the_verdict(answers, min_quorum, random):
    shuffled = candidates(answers)
    random.shuffle(shuffled)
    assert check_set(shuffled, min_quorum=min_quorum, agree=operator.eq) == compared(
        answers, min_quorum
    )


@given(answers_given, st.integers(1, 5))
def test_each_result_is_in_at_most_one_list_and_valid_results_agree(answers, min_quorum):
    found = compared(answers, min_quorum)
    named = [*found.valid, *found.invalid, *found.inconclusive, *found.missing]
    assert len(named) == len(set(named))
    assert len({answers[one - 1] for one in found.valid}) <= 1
    if found.canonical is not None:
        assert found.canonical in found.valid
        assert len(found.valid) >= majority(min_quorum)
        assert len(named) == len(answers)
