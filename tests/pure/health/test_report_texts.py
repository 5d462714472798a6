"""Messages about alerts name each change, with its hint and its times."""

from __future__ import annotations

import json
from datetime import timedelta

from scheduler.health.rules.report_texts import Reported, body, data, title
from tests.conftest import NOON

SILENT = Reported(
    kind="daemon_silent",
    subject="purger",
    sentence="The purger has sent no heartbeat for 2 h.",
    hint="check whether the daemon runs, and read its log.",
    began_at=NOON - timedelta(hours=2),
)
FULL = Reported("disk_full", "", "The disk of var is full.", "free disk space.", NOON)


def test_the_title_of_one_change_is_its_sentence():
    assert title("P", [SILENT], []) == "[P] The purger has sent no heartbeat for 2 h."
    assert title("P", [], [FULL]) == "[P] Ended: The disk of var is full."


def test_the_title_of_several_changes_is_their_numbers():
    assert title("P", [SILENT, FULL], [SILENT]) == "[P] 2 alerts began, 1 alert ended"
    assert title("P", [], [SILENT, FULL]) == "[P] 2 alerts ended"


def test_the_text_has_hints_of_new_alerts_and_durations_of_ended_ones():
    assert body("P", "https://p.example.org/", [FULL], [SILENT], now=NOON).splitlines() == [
        "P, https://p.example.org/, 2026-01-01 12:00 UTC",
        "",
        "New alerts:",
        "",
        "- The disk of var is full. (since 2026-01-01 12:00 UTC)",
        "  Hint: free disk space.",
        "",
        "Ended:",
        "",
        "- The purger has sent no heartbeat for 2 h. (it lasted 2 h)",
        "",
        "All current alerts: https://p.example.org/admin/, or `manage.py alerts`.",
    ]


def test_the_data_of_a_webhook_has_each_alert_with_its_fields():
    content = json.loads(
        json.dumps(data("P", "https://p.example.org/", [FULL], [SILENT], now=NOON))
    )
    assert content["text"].startswith("P, https://p.example.org/")
    assert [alert["kind"] for alert in content["began"]] == ["disk_full"]
    assert content["ended"] == [
        {
            "kind": "daemon_silent",
            "subject": "purger",
            "sentence": SILENT.sentence,
            "hint": SILENT.hint,
            "began_at": "2026-01-01T10:00:00+00:00",
        }
    ]
