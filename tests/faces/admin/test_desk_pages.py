"""The desk's own pages: recent failures, and log files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from scheduler.models import HostOutcomes, Result
from scheduler.people import accounts
from scheduler.storage.logs import tails
from tests.faces.admin.test_credit_grants import staff_with
from tests.rows import a_host, a_result, a_workunit, an_app, an_app_version

pytestmark = pytest.mark.django_db

FAILURES, LOGS = "/admin/failures/", "/admin/logs/"


@pytest.fixture
def chief() -> Client:
    client = Client()
    client.force_login(accounts.create_staff(email="chief@example.org", password="forty two"))
    return client


def fail(
    count: int, *, stderr: str = "<script>alert(1)</script>", exit_status: int = 197
) -> Result:
    """Create failed results of one host and version; return the newest one."""
    version, host = an_app_version(an_app()), a_host()
    fields = {"app_version": version, "stderr": stderr, "exit_status": exit_status}
    made = [a_result(a_workunit(version.app), "error", host=host, **fields) for _ in range(count)]
    counts = {"reported": count, "errors": count, "invalid": 0}
    HostOutcomes.objects.create(hour=timezone.now(), host_id=host.pk, **counts)
    return made[-1]


def query_of(result: Result) -> dict[str, int]:
    return {
        "app": result.app_id,
        "version": result.app_version_id,
        "outcome": result.outcome,
        "exit": result.exit_status,
    }


# Recent failures


def test_failures_lead_from_a_group_to_its_results_with_escaped_stderr(chief):
    result = fail(2)
    text = chief.get(FAILURES).content.decode()
    assert "197 EXIT_TIME_LIMIT_EXCEEDED" in text
    assert "together 2 results. Of these, 2 failed" in text
    [link] = re.findall(r'href="(\?app=[^"#]*)#results"', text)
    text = chief.get(FAILURES + link.replace("&amp;", "&")).content.decode()
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text
    assert not re.search(r"<style|style=|onclick", text)
    assert reverse("admin:scheduler_result_change", args=[result.pk]) in text


def test_negative_exit_codes_have_a_group(chief):
    result = fail(1, exit_status=-1073741819, stderr="")
    text = chief.get(FAILURES, query_of(result)).content.decode()
    assert "(0xC0000005)" in text
    assert "The stderr is empty" in text


@pytest.mark.parametrize(
    "change",
    [{"app": "x"}, {"app": "9" * 30}, {"exit": str(2**31)}, {"outcome": "1"}, {"exit": "-"},
     {"app": "١"}, {"version": "1\0"}],
)  # fmt: skip
def test_groups_that_are_no_numbers_get_404(chief, change):
    assert chief.get(FAILURES, {**query_of(fail(1)), **change}).status_code == 404


def test_unknown_group_is_empty(chief):
    text = chief.get(FAILURES, {**query_of(fail(1)), "exit": 5}).content.decode()
    assert "None of the results that were read belongs to this group" in text


def test_failures_take_the_same_number_of_statements_for_many_results(chief):
    def statements(result: Result) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert chief.get(FAILURES, query_of(result)).status_code == 200
        return len(captured)

    assert statements(fail(1)) == statements(fail(25))


def test_staff_who_may_view_results_see_failures():
    assert staff_with("read-only")[1].get(FAILURES).status_code == 200
    assert staff_with("moderator")[1].get(FAILURES).status_code == 403


# Log files


@pytest.fixture
def log(settings, tmp_path) -> Path:
    settings.VAR_DIR, settings.AUDIT_LOG = tmp_path, None
    path = tmp_path / "postgres.log"
    path.write_text("".join(f"line {number} <b>\n" for number in range(500)))
    return path


def test_last_lines_are_shown_with_the_number_of_bytes(chief, log):
    answer = chief.get(LOGS)
    text = answer.content.decode()
    nbytes = log.stat().st_size
    assert f"Read the last {nbytes:,} of {nbytes:,} bytes" in text
    assert "line 499 &lt;b&gt;" in text
    assert "line 399 " not in text
    assert str(log) in text
    assert not re.search(r"<style|style=|onclick", text)
    assert "line 399 " in chief.get(LOGS, {"lines": "300"}).content.decode()
    assert "line 399 " not in chief.get(LOGS, {"lines": "99999999999"}).content.decode()


def test_lines_are_filtered_without_regard_to_case(chief, log):
    text = chief.get(LOGS, {"text": "LINE 7 "}).content.decode()
    assert "1 contain the text" in text
    assert "line 7 " in text
    assert "line 8 " not in text


def test_only_the_end_of_a_long_file_is_read(log, monkeypatch):
    monkeypatch.setattr(tails, "MAX_BYTES", 100)
    tail = tails.read("postgres")
    assert (tail.read_nbytes, tail.nbytes) == (100, log.stat().st_size)
    assert all(re.fullmatch(r"line \d+ <b>", line) for line in tail.lines)
    assert tail.lines[-1] == "line 499 <b>"


def test_bytes_that_are_no_text_and_long_lines_are_shown_shortened(log):
    log.write_bytes(b"\xff\xfe" + b"x" * 10_000)
    [line] = tails.read("postgres").lines
    assert len(line) == tails.MAX_LINE
    assert line.startswith("\ufffd")


def test_missing_file_is_named_with_the_reason(chief, log):
    log.unlink()
    assert "cannot be read: No such file" in chief.get(LOGS).content.decode()


def test_audit_log_is_listed_if_it_is_written(chief, log, settings, tmp_path):
    assert chief.get(LOGS, {"file": "audit"}).status_code == 404
    settings.AUDIT_LOG = str(tmp_path / "audit.jsonl")
    Path(settings.AUDIT_LOG).write_text('{"what": "login_failed"}\n')
    text = chief.get(LOGS, {"file": "audit"}).content.decode()
    assert "login_failed" in text


@pytest.mark.parametrize(
    "name", ["../keys/secret", "/etc/passwd", "postgres.log", "", "postgres\0", "POSTGRES"]
)
def test_files_are_chosen_from_a_fixed_list(chief, log, name):
    assert chief.get(LOGS, {"file": name}).status_code == 404


@pytest.mark.parametrize("role", ["operator", "moderator", "publisher", "read-only"])
def test_roles_do_not_see_log_files_which_can_contain_secrets(log, role):
    account, client = staff_with(role)
    assert client.get(LOGS).status_code == 403
    assert LOGS not in client.get("/admin/").content.decode()
    account.user_permissions.add(Permission.objects.get(codename="view_logs"))
    assert client.get(LOGS).status_code == 200
    assert LOGS in client.get("/admin/").content.decode()


def test_anonymous_visitors_are_sent_to_the_log_in(client, log):
    for path in (FAILURES, LOGS):
        assert client.get(path).status_code == 302
