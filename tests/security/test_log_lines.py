"""A request cannot add lines or tracebacks to the log."""

from __future__ import annotations

import logging

import pytest
from django.core.exceptions import DisallowedHost

from project.logging import Columns, JsonLines


def record(name: str = "project", event: str = "event", **extra: object) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.ERROR, __file__, 1, event, (), None)
    vars(made).update(extra)
    return made


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\x1b[2Jb", "a\u2028b", "a\x85b"])
def test_log_record_with_control_characters_stays_on_one_line(text):
    for line in (Columns().format(record(upload=text)), Columns().format(record(event=text))):
        assert len(line.splitlines()) == 1
        assert line.replace("\\", "").isprintable()


@pytest.mark.parametrize("form", [Columns(), JsonLines()])
def test_suspicious_request_is_logged_without_a_traceback(form):
    suspicious, fault = record("django.security.DisallowedHost"), record("scheduler.boinc")
    info = (DisallowedHost, DisallowedHost("x"), None)
    suspicious.exc_info = fault.exc_info = info
    assert "DisallowedHost: x" not in form.format(suspicious)
    assert "DisallowedHost: x" in form.format(fault)
