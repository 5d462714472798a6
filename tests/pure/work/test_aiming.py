"""Faults and warnings of workunits that are targeted or do not fit their app."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from scheduler.work.submission.facts import Addressees, AppRules, NewWorkunit
from scheduler.work.submission.rules import aiming
from tests.conftest import NOON

GOOD = NewWorkunit()
APP = AppRules(name="sieve", n_size_classes=3)
TRIVIAL = replace(APP, validator="trivial")
ADAPTIVE = replace(APP, target_nresults=2)
KNOWN = Addressees(
    hosts=frozenset({1, 2}),
    merged_hosts={9: 1},
    denied_hosts=frozenset({2}),
    accounts=frozenset({3}),
    teams=frozenset({4}),
)
LATER = NOON + timedelta(days=1)


def said(app=APP, **change):
    found = aiming.faults([replace(GOOD, **change)], app=app, addressees=KNOWN)
    return [str(fault) for fault in found.get(0, ())]


@pytest.mark.parametrize(
    ("app", "change"),
    [
        (APP, {"size_class": -1}),
        (APP, {"size_class": 2}),
        (APP, {"target_host": 1}),
        (APP, {"target_account": 3}),
        (APP, {"target_team": 4, "min_quorum": 2}),
        (replace(APP, one_result_per="host"), {"target_account": 3, "min_quorum": 2}),
        (TRIVIAL, {"broadcast": True, "end_before": LATER}),
        (ADAPTIVE, {}),
        (ADAPTIVE, {"min_quorum": 2}),
    ],
)
def test_workunit_that_fits_its_app_and_target_has_no_faults(app, change):
    assert said(app, **change) == []


@pytest.mark.parametrize(
    ("app", "change", "words"),
    [
        (APP, {"size_class": 3}, "size_class is 3; app sieve has 3 size classes."),
        (APP, {"size_class": -2}, "size_class is -2"),
        (APP, {"app_version_num": -1}, "app_version_num is -1."),
        (APP, {"target_host": 7}, "There is no host 7."),
        (APP, {"target_host": 9}, "Host 9 was merged into host 1."),
        (APP, {"target_account": 7}, "There is no account 7."),
        (APP, {"target_team": 7}, "There is no team 7."),
        (APP, {"target_host": 1, "target_team": 4}, "targets a host and a team at once"),
        (APP, {"target_host": 1, "min_quorum": 2}, "one host gets one result"),
        (APP, {"target_account": 3, "min_quorum": 2}, "one account gets one result"),
        (TRIVIAL, {"broadcast": True}, "A broadcast has no end."),
        (APP, {"broadcast": True, "end_before": LATER}, "validator 'bitwise'"),
        (TRIVIAL, {"broadcast": True, "end_before": LATER, "min_quorum": 2}, "to every host"),
        (TRIVIAL, {"broadcast": True, "end_before": LATER, "target_host": 1}, "and a target"),
        (ADAPTIVE, {"max_total_results": 1}, "max_total_results is 1"),
        (ADAPTIVE, {"max_success_results": 1}, "max_success_results is 1"),
    ],
)
def test_workunit_that_does_not_fit_is_a_fault_with_a_hint(app, change, words):
    found = said(app, **change)
    assert [words in fault for fault in found] == [True], found
    assert "Hint: " in found[0]


def test_equal_workunits_are_each_reported_by_their_index():
    bad = replace(GOOD, target_host=7)
    found = aiming.faults([GOOD, bad, GOOD, bad], app=APP, addressees=KNOWN)
    assert sorted(found) == [1, 3]


def test_denied_or_untrusted_target_host_gives_a_warning():
    warnings = aiming.warnings([replace(GOOD, target_host=2)], app=ADAPTIVE, addressees=KNOWN)
    assert ["Host 2 is denied" in w for w in warnings] == [True, False]
    assert "not trusted" in warnings[1]
    assert aiming.warnings([GOOD], app=ADAPTIVE, addressees=KNOWN) == ()
