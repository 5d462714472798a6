"""Alerts for operators: one sentence for each problem."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.health.rules.alert_texts import (
    LATE_AFTER,
    SILENT_AFTER,
    Facts,
    LastCheck,
    judge,
)
from tests.conftest import NOON

JUST_NOW = NOON - timedelta(seconds=10)
LONG_AGO = NOON - timedelta(hours=2)
WELL = {"transitioner": JUST_NOW, "validator": JUST_NOW}


def said(**facts) -> list[str]:
    return [alert.sentence for alert in judge(Facts(**({"lives": WELL} | facts)), now=NOON)]


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"lives": {"validator": NOON - SILENT_AFTER}},
        {"oldest": {"validator": NOON - LATE_AFTER, "assimilator": None}},
        {"web_seen_at": JUST_NOW},
        {"lives": {"validator": LONG_AGO}, "daemons_paused": True},
        {"oldest": {"validator": LONG_AGO}, "daemons_paused": True},
        {"parked": {"validate": 0}},
        {"checks": {"fsck": LastCheck(LONG_AGO, 0), "credit": LastCheck(LONG_AGO, 0)}},
    ],
)
def test_healthy_facts_raise_no_alert(facts):
    assert said(**facts) == []


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (
            {"lives": WELL | {"purger": LONG_AGO}},
            "The purger has sent no heartbeat for 2 h.",
        ),
        ({"lives": WELL | {"purger": None}}, "The purger has never run here."),
        ({"lives": {"purger": None, "validator": None}}, "No daemon has ever run here."),
        ({"oldest": {"validator": LONG_AGO}}, "The validator is 2 h behind."),
        ({"web_seen_at": LONG_AGO}, "No web process has sent a heartbeat for 2 h."),
        (
            {"parked": {"assimilate": 2}},
            "2 subjects of stage assimilate are parked: science code failed on them too often.",
        ),
        (
            {"hard_to_send": 1},
            "1 unsent workunit has at least half of the refusals that make a workunit unsendable.",
        ),
        ({"unknown_science": ("App a: no. Hint: yes.",)}, "App a: no."),
        (
            {"open_outages": 1},
            "1 outage is not applied yet: deadlines are still to be moved.",
        ),
        ({"expiring_batches": ("a",)}, "A batch expires within 3 d: a."),
        (
            {"expiring_batches": tuple("abcdef")},
            "6 batches expire within 3 d: a, b, c, d, e and more.",
        ),
        (
            {"checks": {"fsck": LastCheck(LONG_AGO, 1)}},
            "1 violation of invariants is known; the last check ended 2 h ago.",
        ),
        (
            {"checks": {"fsck": LastCheck(JUST_NOW, 0), "credit": LastCheck(LONG_AGO, 5)}},
            "5 sums of credit differ from the entries; the last comparison ended 2 h ago.",
        ),
        ({"maintenance": "Maintenance is on."}, "Maintenance is on."),
        ({"uploads_stopped": True}, "Uploads are refused because of the file var/stop_upload."),
        ({"disk_is_full": True}, "The disk of var is full: uploads are refused for now."),
        ({"disk_is_nearly_full": True}, "The disk of var is nearly full."),
    ],
)
def test_each_problem_raises_its_alert(facts, sentence):
    assert said(**facts) == [sentence]


def test_alert_contains_its_hint():
    (alert,) = judge(Facts(unknown_science=("App a: no. Hint: yes.",)), now=NOON)
    assert str(alert) == "App a: no. Hint: yes."
