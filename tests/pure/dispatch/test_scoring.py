"""The score of a result for a host and its volunteer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.dispatch.facts import AppFacts, Candidate, HostFacts, Taste
from scheduler.dispatch.rules import scoring


def an_app(**facts: Any) -> AppFacts:
    known: dict[str, Any] = {
        "id": 1,
        "name": "sieve",
        "one_result_per": "nothing",
        "retry_same_account_after": timedelta(0),
    }
    return AppFacts(**(known | facts))


def a_candidate(**facts: Any) -> Candidate:
    known: dict[str, Any] = {
        "result_id": 1,
        "workunit_id": 1,
        "app_id": 1,
        "priority": 0,
        "rsc_fpops_est": 1e12,
        "rsc_memory_bound": 1e8,
        "rsc_disk_bound": 1e8,
        "delay_bound": timedelta(days=1),
    }
    return Candidate(**(known | facts))


def score(
    taste: Taste | None = None,
    *,
    app: dict[str, Any] | None = None,
    host: dict[str, Any] | None = None,
    speed: float = 0.0,
    **candidate: Any,
) -> float | None:
    facts = HostFacts(id=1, account_id=1, taste=taste or Taste(), **(host or {}))
    return scoring.score(
        a_candidate(**candidate), app=an_app(**(app or {})), host=facts, speed=speed
    )


def test_score_without_rules_is_the_priority():
    assert score(priority=7) == 7


# Volunteers' preferences


@pytest.mark.parametrize(
    ("selected", "others", "expected"),
    [
        (set(), False, 0),
        ({1}, False, 0),
        ({1, 2}, False, 0),
        ({2}, True, -1),
        ({2}, False, None),
    ],
)
def test_unselected_apps_are_refused_unless_the_volunteer_allows_other_apps(
    selected, others, expected
):
    taste = Taste(selected_apps=frozenset(selected), allow_other_apps=others)
    assert score(taste) == expected


def test_beta_apps_are_preferred_for_volunteers_who_allow_them_else_refused():
    assert score(Taste(allow_beta=True), app={"beta": True}) == 1
    assert score(Taste(allow_beta=False), app={"beta": True}) is None
    assert score(Taste(allow_beta=True)) == 0


@pytest.mark.parametrize(
    ("keywords", "likes", "dislikes", "expected"),
    [
        ("", {5}, {6}, 0),
        ("5", {5}, set(), 1),
        ("5 7 8", {5, 7, 9}, set(), 2),
        ("5 6", {5}, {6}, None),
        ("6", set(), {5}, 0),
        ("5,6", set(), {6}, None),
        ("x 5 -6", {5}, {6}, 1),
    ],
)
def test_liked_keywords_add_one_each_and_a_disliked_keyword_refuses(
    keywords, likes, dislikes, expected
):
    taste = Taste(likes=frozenset(likes), dislikes=frozenset(dislikes))
    assert score(taste, keywords=keywords) == expected


@pytest.mark.parametrize(
    ("taste", "app", "sentence"),
    [
        (Taste(), {}, ""),
        (Taste(), {"beta": True}, scoring.NO_BETA),
        (Taste(selected_apps=frozenset({2}), allow_other_apps=False), {}, scoring.NOT_SELECTED),
        (Taste(dislikes=frozenset({5})), {}, scoring.DISLIKED),
    ],
)
def test_each_refusal_has_its_sentence(taste, app, sentence):
    candidate = a_candidate(keywords="5")
    assert scoring.why_unwanted(candidate, app=an_app(**app), taste=taste) == sentence


# Suitability for the computer


@pytest.mark.parametrize(
    ("locality", "is_near", "expected"),
    [(True, True, 10), (True, False, 0), (False, True, 0)],
)
def test_host_with_the_files_scores_higher_if_the_app_uses_locality(locality, is_near, expected):
    assert score(app={"locality": locality}, is_near=is_near) == expected


SIZES = {"n_size_classes": 3, "size_bounds": [1e9, 4e9]}


@pytest.mark.parametrize(
    ("fpops", "active", "size", "expected"),
    [
        (2e9, 1.0, 1, 5),
        (2e9, 1.0, 2, -2),
        (2e9, 1.0, 0, -1),
        (9e9, 1.0, 2, 5),
        (9e9, 0.1, 0, 5),
        (2e9, 1.0, -1, 0),
    ],
)
def test_work_of_the_host_size_class_scores_higher(fpops, active, size, expected):
    host = {"fpops": fpops, "active_fraction": active}
    assert score(app=SIZES, host=host, size_class=size) == expected


def test_measured_speed_of_a_host_replaces_its_benchmark():
    host = {"fpops": 2e9, "active_fraction": 0.5}
    assert score(app=SIZES, host=host, speed=9e9, size_class=2) == 5
    assert score(app=SIZES, host=host, speed=7e9, size_class=1) == 5


@pytest.mark.parametrize("app", [{}, {"n_size_classes": 3}])
def test_size_class_has_no_effect_without_classes_or_boundaries(app):
    assert score(app=app, size_class=0) == 0


def test_score_is_the_sum_of_all_rules():
    taste = Taste(
        likes=frozenset({5}), selected_apps=frozenset({2}), allow_other_apps=True, allow_beta=True
    )
    app = {"beta": True, "locality": True} | SIZES
    total = 3 + 1 - 1 + 10 + 5 + 1
    host = {"fpops": 2e9}
    found = score(taste, app=app, host=host, priority=3, size_class=1, is_near=True, keywords="5")
    assert found == total


@given(
    st.integers(-1000, 1000),
    st.integers(-1, 3),
    st.booleans(),
    st.frozensets(st.integers(1, 5)),
    st.frozensets(st.integers(1, 5)),
)
def test_candidate_is_refused_exactly_if_its_app_is_not_selected(
    priority, size, near, likes, selected
):
    taste = Taste(likes=likes, selected_apps=selected, allow_other_apps=False)
    found = score(taste, app=SIZES, priority=priority, size_class=size, is_near=near)
    assert (found is None) == bool(selected and 1 not in selected)
