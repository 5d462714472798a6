"""Which hosts a queue serves, and how many results it sends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.queues.facts import QueueFacts
from scheduler.queues.rules import serving

NOW = datetime(2029, 1, 7, 12, tzinfo=UTC)
HOST, ACCOUNT = 7, 3


def a_queue(**fields: Any) -> QueueFacts:
    return QueueFacts(id=1, name="lane", **fields)


@pytest.mark.parametrize(
    ("lists", "is_served"),
    [
        ({}, True),
        ({"denied_hosts": {HOST}}, False),
        ({"denied_accounts": {ACCOUNT}}, False),
        ({"denied_hosts": {8}, "denied_accounts": {4}}, True),
        ({"allowed_hosts": {HOST}}, True),
        ({"allowed_accounts": {ACCOUNT}}, True),
        ({"allowed_hosts": {8}}, False),
        ({"allowed_hosts": {8}, "allowed_accounts": {ACCOUNT}}, True),
        # Denied lists do not apply beside allowed lists.
        ({"allowed_hosts": {HOST}, "denied_hosts": {HOST}}, True),
        ({"allowed_accounts": {ACCOUNT}, "denied_hosts": {HOST}}, True),
        ({"allowed_hosts": {8}, "denied_hosts": {9}}, False),
    ],
)
def test_lists_of_allowed_hosts_take_precedence(lists: dict[str, Any], is_served: bool) -> None:
    queue = a_queue(**lists)
    assert serving.serves(queue, host_id=HOST, account_id=ACCOUNT) is is_served


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, None),
        ({"max_in_progress": 1}, None),
        ({"max_in_progress": 0}, "Queue lane is stopped"),
        (
            {"disabled_until": NOW + timedelta(minutes=1)},
            "Queue lane is disabled until 2029-01-07 12:01 UTC",
        ),
        ({"disabled_until": NOW}, None),
        ({"denied_hosts": {HOST}}, "Queue lane does not serve this computer"),
    ],
)
def test_a_closed_queue_has_a_sentence_for_the_volunteer(
    fields: dict[str, Any], sentence: str | None
) -> None:
    closed = serving.why_closed(a_queue(**fields), host_id=HOST, account_id=ACCOUNT, now=NOW)
    assert (closed and closed.sentence) == sentence


@pytest.mark.parametrize(
    ("fields", "free_slots", "for_others", "expected"),
    [
        ({}, None, 0, None),
        ({"max_in_progress": 9}, 4, 0, 4),
        ({"max_in_progress": 9}, 4, 3, 1),
        ({"max_in_progress": 9}, 4, 5, 0),
        ({"max_new_per_claim": 2}, None, 1, 1),
        ({"max_new_per_host": 2}, None, 7, 2),
        ({"max_in_progress": 9, "max_new_per_host": 2}, 1, 0, 1),
        ({"max_new_per_claim": 5, "max_new_per_host": 2}, None, 4, 1),
    ],
)
def test_the_lowest_limit_decides_how_many_results_a_host_gets(
    fields: dict[str, Any], free_slots: int | None, for_others: int, expected: int | None
) -> None:
    room = serving.room_for_host(
        a_queue(**fields), free_slots=free_slots, chosen_for_others=for_others
    )
    assert room == expected


@pytest.mark.parametrize(
    ("fields", "free_slots", "before", "expected"),
    [
        ({"max_new_per_claim": 3}, None, 2, 1),
        ({"max_new_per_claim": 3}, None, 4, 0),
        # The slots of results that were sent before are not among the free ones.
        ({"max_new_per_claim": 9}, 3, 5, 3),
        ({"max_new_per_host": 2}, None, 5, 2),
        ({}, None, 5, None),
    ],
)
def test_results_that_a_batch_has_sent_before_count_for_the_ramp_limit_of_a_claim(
    fields: dict[str, Any], free_slots: int | None, before: int, expected: int | None
) -> None:
    room = serving.room_for_host(
        a_queue(**fields), free_slots=free_slots, chosen_for_others=0, sent_before=before
    )
    assert room == expected


@pytest.mark.parametrize(
    ("fields", "in_progress", "expected"),
    [
        ({}, 3, "has 3 results in progress"),
        ({"max_in_progress": 4}, 3, "has 3 results in progress of at most 4"),
        ({"max_in_progress": 3}, 3, "is full: 3 results in progress, with a limit of 3"),
        ({"max_in_progress": 2}, 3, "is full: 3 results in progress, with a limit of 2"),
        ({"max_in_progress": 0}, 3, "is stopped, because its limit is 0"),
        (
            {"disabled_until": NOW + timedelta(hours=1)},
            0,
            "is disabled until 2029-01-07 13:00 UTC",
        ),
        (
            {"allowed_hosts": {1, 2}},
            0,
            "has 0 results in progress, and serves only 2 hosts and 0 accounts",
        ),
    ],
)
def test_the_state_of_a_queue_is_described(
    fields: dict[str, Any], in_progress: int, expected: str
) -> None:
    assert serving.describe(a_queue(**fields), in_progress=in_progress, now=NOW) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"is_stopped": True}, "its limit is 0"),
        ({"is_stopped": True, "is_scheduled": True}, None),
        (
            {"disabled_until": NOW + timedelta(hours=1)},
            "it is disabled until 2029-01-07 13:00 UTC",
        ),
        ({"disabled_until": NOW}, None),
        ({"is_unserved": True}, "its lists exclude every active host"),
        (
            {"only_app": "primes"},
            "it sends only work of app primes, and its results are of other apps",
        ),
        ({"full_since": NOW - timedelta(days=1)}, None),
        (
            {"full_since": NOW - timedelta(days=1, minutes=1)},
            "all its slots are in use since 2029-01-06 11:59 UTC",
        ),
    ],
)
def test_a_queue_with_work_stands_still(fields: dict[str, Any], expected: str | None) -> None:
    still = serving.why_still(serving.WaitingQueue("lane", **fields), now=NOW)
    assert (still and still[0]) == expected
    assert still is None or still[1].endswith(".")


@pytest.mark.parametrize(
    ("active", "ignored", "accepted"),
    [
        ((), (), True),
        (("lane",), (), True),
        (("other",), (), False),
        ((), ("lane",), False),
        ((), ("other",), True),
        (("lane",), ("lane",), True),
        (("other",), ("other",), False),
    ],
)
def test_active_queues_of_a_client_prevail(
    active: tuple[str, ...], ignored: tuple[str, ...], accepted: bool
) -> None:
    closed = serving.why_unwanted(a_queue(), active=active, ignored=ignored)
    assert (closed is None) is accepted
