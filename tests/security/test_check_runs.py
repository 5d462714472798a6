"""Checks are requested and seen only with the right; texts of rows are escaped."""

from __future__ import annotations

from io import StringIO

import pytest
from allauth.account.models import EmailAddress
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from daemons import housekeeper
from scheduler.health.checks import check_runs
from scheduler.models import AuditEntry, CheckRun
from tests.faces.admin.test_credit_grants import staff_with
from tests.rows import a_workunit, an_account

pytestmark = pytest.mark.django_db

PAGE = "/admin/upkeep/"


def a_run(**fields: object) -> CheckRun:
    now = timezone.now()
    return CheckRun.objects.create(kind="fsck", started_at=now, ended_at=now, **fields)


def pages_of(run: CheckRun) -> tuple[str, str]:
    """Return the addresses of the list of runs and of a run."""
    page = reverse("admin:scheduler_checkrun_change", args=[run.pk])
    return reverse("admin:scheduler_checkrun_changelist"), page


@pytest.mark.parametrize("role", ["publisher", "moderator"])
def test_staff_without_the_right_neither_request_checks_nor_see_their_results(role):
    run = a_run()
    _, client = staff_with(role)
    for kind in CheckRun.Kind.values:
        assert client.post(PAGE, {"check": kind}).status_code == 403
    assert [client.get(url).status_code for url in (PAGE, *pages_of(run))] == [403] * 3
    assert CheckRun.objects.get() == run
    assert not AuditEntry.objects.filter(event="action_taken").exists()


def test_read_only_staff_see_results_but_cannot_request_checks():
    run = a_run()
    _, client = staff_with("read-only")
    assert [client.get(url).status_code for url in (PAGE, *pages_of(run))] == [200] * 3
    assert client.post(PAGE, {"check": "fsck"}).status_code == 403
    assert CheckRun.objects.get() == run


def test_visitors_and_volunteers_cannot_request_checks():
    volunteer = Client()
    volunteer.force_login(an_account())
    for client in (Client(), volunteer):
        assert client.post(PAGE, {"check": "fsck"}).status_code in {302, 403}
    assert not CheckRun.objects.exists()


def test_a_request_from_another_site_is_refused():
    account, _ = staff_with("operator")
    client = Client(enforce_csrf_checks=True)
    client.force_login(account)
    assert client.post(PAGE, {"check": "fsck"}).status_code == 403
    assert not CheckRun.objects.exists()


def test_no_role_changes_or_deletes_results_of_checks():
    run = a_run(violations=5)
    _, client = staff_with("operator")
    _, page = pages_of(run)
    assert client.post(page, {"violations": 0}).status_code == 403
    delete = reverse("admin:scheduler_checkrun_delete", args=[run.pk])
    assert client.post(delete, {"post": "yes"}).status_code == 403
    assert client.get(reverse("admin:scheduler_checkrun_add")).status_code == 403
    run.refresh_from_db()
    assert run.violations == 5


def test_names_and_details_of_rows_are_escaped():
    # Its state is not in the ledger.
    workunit = a_workunit(name="<script>alert(1)</script>")
    operator, client = staff_with("operator")
    check_runs.request(CheckRun.Kind.FSCK, account=operator, now=timezone.now())
    while check_runs.advance(housekeeper.CHECKERS, now=timezone.now()):
        pass
    run = CheckRun.objects.get()
    names = {row[0] for finding in run.findings for row in finding["rows"]}
    assert workunit.name in names
    marks = {"name": "x", "sentence": "<u>s</u>", "hint": "<u>h</u>", "count": 1}
    CheckRun.objects.update(
        findings=[*run.findings, {**marks, "rows": [["<u>n</u>", "<u>d</u>"]]}],
        carried=[{**marks, "rows": [["<u>c</u>", "<u>e</u>"]]}],
        not_checked=[{"name": "x", "sentence": "<u>p</u>", "reason": "<u>r</u>", "count": 1}],
        options={"app": "<u>a</u>"},
        kind="credit",
    )
    for url in (PAGE, *pages_of(run)):
        text = client.get(url).content.decode()
        assert "<script>alert" not in text
        assert "<u>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    for letter in "shndcepra":
        assert f"&lt;u&gt;{letter}&lt;/u&gt;" in text


def test_email_addresses_in_violations_are_not_stored():
    """They would outlive the erasure of the account."""
    ada = an_account("ada")
    EmailAddress.objects.filter(user=ada).update(email="other@example.org")
    with pytest.raises(SystemExit):
        call_command("fsck", stdout=StringIO())
    run = CheckRun.objects.get()
    [finding] = [each for each in run.findings if each["name"].startswith("accounts_have")]
    assert finding["rows"] == [[f"account {ada.pk}", "address (address), rows (address)"]]
    assert "example.org" not in str(run.findings)
