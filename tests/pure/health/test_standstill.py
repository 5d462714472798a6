"""The causes why open work makes no progress, with numbers of workunits."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.dispatch.rules.fit import LASTING
from scheduler.health.rules import standstill_causes
from scheduler.health.rules.standstill_causes import MAX_EXAMINED, HeldFacts, UnsentFacts, waits
from tests.conftest import NOON

NOTHING = HeldFacts()
LONG_AGO = NOON - timedelta(hours=1)


@pytest.mark.parametrize(
    ("unsent", "held", "expected"),
    [
        ({}, {}, {}),
        ({"unsent": 3}, {}, {"no_host": 3}),
        ({"unsent": 3, "unversioned": 3}, {}, {"no_version": 3}),
        ({"unsent": 3, "all_refused": 3}, {}, {"no_host": 3}),
        ({"unsent": 3, "hosts": 2, "last_contact_at": NOON}, {}, {}),
        ({"unsent": 3, "hosts": 2, "last_contact_at": LONG_AGO}, {}, {"no_host_asks": 3}),
        (
            {"unsent": 3, "hosts": 2, "last_contact_at": LONG_AGO, "account_short": 1},
            {},
            {"no_host_asks": 2, "account_short": 1},
        ),
        (
            {"unsent": 3, "hosts": 2, "last_contact_at": LONG_AGO, "host_short": 3},
            {},
            {"host_short": 3},
        ),
        (
            {"unsent": 3, "hosts": 1, "last_contact_at": NOON, "all_refused": 2},
            {"computing": 1, "due_at": NOON},
            {"all_refused": 2, "computing": 1},
        ),
        (
            {},
            {"held": 1, "following": 2, "depending": 3, "not_yet": 4, "starts_at": NOON},
            {"held": 1, "follows": 2, "depends": 3, "not_yet": 4},
        ),
    ],
)
def test_each_cause_has_its_number_of_waiting_workunits(unsent, held, expected):
    found = waits(UnsentFacts(**unsent), HeldFacts(**held), now=NOON)
    assert {one.cause: one.workunits for one in found} == expected


def test_maintenance_is_the_first_cause():
    found = waits(UnsentFacts(unsent=1), NOTHING, now=NOON, maintenance="Shut down.")
    assert [one.cause for one in found] == ["maintenance", "no_host"]


def test_count_at_the_examined_limit_is_shown_as_or_more():
    (wait,) = waits(UnsentFacts(unsent=MAX_EXAMINED), NOTHING, now=NOON)
    assert wait.sentence.startswith(f"{MAX_EXAMINED} or more workunits wait for a computer")


def test_sentence_does_not_change_while_the_facts_are_unchanged():
    facts = UnsentFacts(unsent=1, hosts=1, last_contact_at=LONG_AGO)
    later = NOON + timedelta(minutes=5)
    assert waits(facts, NOTHING, now=NOON) == waits(facts, NOTHING, now=later)


def test_each_lasting_refusal_reason_has_a_text():
    assert set(standstill_causes._REASONS) == LASTING


@pytest.mark.parametrize("reason", sorted(LASTING))
def test_refused_work_shows_the_text_of_the_most_frequent_reason(reason):
    facts = UnsentFacts(unsent=1, hosts=1, last_contact_at=NOON, all_refused=1, reason=str(reason))
    (wait,) = waits(facts, NOTHING, now=NOON)
    assert wait.sentence.endswith(f"reason: {standstill_causes._REASONS[reason]}.")
