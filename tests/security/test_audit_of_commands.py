"""Commands do not print audit entries to the terminal."""

from __future__ import annotations

import logging

from project.logging import NotOfCommands


def record(**extra):
    return logging.makeLogRecord({"name": "manyhands.audit", "msg": "audit_entry", **extra})


def test_audit_entries_of_commands_are_not_printed_to_the_terminal():
    assert not NotOfCommands().filter(record(actor="shell:root", address=None))
    assert not NotOfCommands().filter(record(actor="", address=None))


def test_audit_entries_of_people_and_other_log_records_are_printed():
    assert NotOfCommands().filter(record(actor="ada@example.org", address="192.0.2.1"))
    assert NotOfCommands().filter(record(name="scheduler", actor="shell:root"))
