"""`recompute_credit` finds and corrects sums that differ from their entries."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from scheduler.credit import app_credits, recompute_credit
from scheduler.credit.recompute_credit import Scope
from scheduler.health.invariants import invariants
from scheduler.models import AccountAppCredit, CreditEntry, HostAppCredit, Team, TeamAppCredit
from tests import rows
from tests.conftest import NOON
from tests.database.daemons.test_interleavings import PATIENCE, Meanwhile, stopped_in

pytestmark = pytest.mark.django_db

AGREED = "Every sum of credit equals the sum of its entries.\n"


def said(*words):
    """Run the command; return its output and its exit status."""
    out = StringIO()
    try:
        call_command("recompute_credit", *words, stdout=out)
    except SystemExit as ended:
        return out.getvalue(), ended.code
    return out.getvalue(), 0


def a_grant(host, app, amount, *, team=None, at=NOON, result_id=0):
    return CreditEntry.objects.create(
        result_id=result_id or CreditEntry.objects.count() + 10_000,
        rule="validated",
        account=host.account,
        host=host,
        team=team,
        app=app,
        amount=Decimal(amount),
        granted_at=at,
    )


@pytest.fixture
def books():
    """Credit entries of 5 and 3 for a host with a team; no stored sum includes them."""
    team = Team.objects.create(name="t", created_at=NOON)
    host, app = rows.a_host(rows.an_account(team=team)), rows.an_app("mill")
    a_grant(host, app, 5, team=team, at=NOON - timedelta(days=7))
    a_grant(host, app, 3, team=team)
    return host, app, team


def unbalanced():
    return [one.name for one in invariants() if "credit" in one.name and one.find(NOON)]


def test_credit_by_computer_and_by_team_is_compared_up_to_the_last_counted_entry(books):
    host, app, team = books
    app_credits.count(now=NOON)
    said("--apply")
    a_grant(host, app, 7, team=team)
    HostAppCredit.objects.update(total=1, expavg=5)
    TeamAppCredit.objects.update(total=2)
    text, _status = said("--app", "mill")
    assert f"host {host.pk}, app {app.pk}: total 1.000000, entries 8.000000" in text
    assert f"team {team.pk}, app {app.pk}: total 2.000000, entries 8.000000" in text
    said("--apply", "--app", "mill")
    assert [row.total for row in (*HostAppCredit.objects.all(), *TeamAppCredit.objects.all())] == [
        8,
        8,
    ]
    assert 0 < HostAppCredit.objects.get().expavg < 5
    app_credits.count(now=NOON)
    assert HostAppCredit.objects.get().total == 15


def test_command_reports_that_all_sums_agree():
    rows.a_host()
    assert said("--verify") == (AGREED, 0)
    assert said() == (AGREED, 0)


def test_verify_lists_each_wrong_sum_and_exits_with_status_1(books):
    host, app, team = books
    text, status = said("--verify")
    assert status == 1
    assert text.splitlines() == [
        f"  host {host.pk}: total 0.000000, entries 8.000000",
        f"  account {host.account_id}: total 0.000000, entries 8.000000",
        f"  account {host.account_id}, app {app.pk}: total 0, entries 8.000000",
        f"  team {team.pk}: total 0.000000, entries 8.000000",
        f"  app {app.pk}: total 0.000000, entries 8.000000",
        "5 sums of credit differ from the entries.",
    ]


def test_nothing_is_changed_without_apply(books):
    host, _, _ = books
    text, status = said()
    assert status == 0
    assert "Nothing was changed. Hint: use --apply." in text
    assert said("--dry-run") == (text, 0)
    host.refresh_from_db()
    assert host.total_credit == 0
    assert not AccountAppCredit.objects.exists()


@pytest.mark.parametrize("word", ["--apply", "--yes"])
def test_apply_corrects_sums_that_differ_from_their_entries(books, word):
    host, app, team = books
    text, status = said(word)
    assert (text.splitlines()[-1], status) == ("5 sums of credit corrected.", 0)
    for row in (host, host.account, team, app):
        row.refresh_from_db()
        assert row.total_credit == 8
    assert AccountAppCredit.objects.get(account=host.account, app=app).total == 8
    assert unbalanced() == []
    assert said("--verify") == (AGREED, 0)


def test_a_sum_without_entries_is_reset_to_zero():
    host = rows.a_host(total_credit=5, expavg_credit=1, expavg_at=NOON)
    AccountAppCredit.objects.create(account=host.account, app=rows.an_app(), total=5, expavg=1)
    said("--apply")
    host.refresh_from_db()
    assert (host.total_credit, host.expavg_credit, host.expavg_at) == (0, 0, None)
    assert AccountAppCredit.objects.get().total == 0


def test_a_recent_average_is_replayed_in_the_order_of_the_grants(books):
    host, _, _ = books
    said("--apply")
    host.refresh_from_db()
    # 5 per day (1 day is assumed, as the result is purged), halved after a week; then 3 per week.
    assert host.expavg_credit == pytest.approx(2.5 + 0.5 * 3 / 7)
    assert host.expavg_at == NOON


def test_the_first_grant_counts_from_when_its_result_was_sent():
    workunit = rows.a_workunit()
    result = rows.a_result(workunit, "success", host=rows.a_host())
    a_grant(result.host, workunit.app, 2, result_id=result.pk)
    said("--apply")
    result.host.refresh_from_db()
    assert result.host.expavg_credit == pytest.approx(24)


def test_averages_of_correct_sums_are_recomputed_only_with_the_averages_option(books):
    host, _, _ = books
    rows.update(host, total_credit=8, expavg_credit=99, expavg_at=NOON)
    said("--apply")
    host.refresh_from_db()
    assert host.expavg_credit == 99
    said("--apply", "--averages")
    host.refresh_from_db()
    assert host.expavg_credit == pytest.approx(2.5 + 0.5 * 3 / 7)


def test_app_option_corrects_only_that_app(books):
    host, app, _ = books
    other = rows.an_app("other")
    a_grant(host, other, 1)
    text, _ = said("--apply", "--app", "mill")
    assert text.splitlines()[-1] == "2 sums of credit corrected."
    app.refresh_from_db()
    other.refresh_from_db()
    host.refresh_from_db()
    assert (app.total_credit, other.total_credit, host.total_credit) == (8, 0, 0)
    assert AccountAppCredit.objects.get().app == app


def test_batches_of_one_owner_correct_every_sum_and_report_progress(books, monkeypatch):
    monkeypatch.setattr(recompute_credit, "BATCH", 1)
    app = rows.an_app()
    for _ in range(3):
        a_grant(rows.a_host(), app, 1)
    seen = []
    found = list(recompute_credit.correct(Scope(), progress=seen.append))
    assert sum(seen) == recompute_credit.count_owners(Scope())
    assert set(seen) == {1}
    assert len(found) == 5 + 3 * 3 + 1
    assert unbalanced() == []


def test_json_option_prints_the_differences_as_json(books):
    text, status = said("--json", "--verify")
    answer = json.loads(text)
    assert status == 1
    assert answer["corrected"] is False
    assert answer["differences"][0]["entered"] == "8.000000"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--app", "no such"], "There is no app 'no such'. Hint: the admin lists the apps."),
        (["--averages"], "Hint: give both."),
    ],
)
def test_invalid_options_are_refused(words, hint):
    with pytest.raises(CommandError, match=hint):
        said(*words)


@pytest.mark.django_db(transaction=True)
def test_a_grant_during_correction_is_counted_exactly_once(monkeypatch):
    """A grant waits while the host's sum is corrected, and is then added to the new sum."""
    host, app = rows.a_host(), rows.an_app()
    a_grant(host, app, 5)

    def pay():
        from django.db import transaction

        with transaction.atomic():
            a_grant(host, app, 2)
            row = type(host).objects.select_for_update(no_key=True).get(pk=host.pk)
            row.total_credit += 2
            row.save(update_fields=["total_credit"])

    with stopped_in(monkeypatch, recompute_credit, "_write") as (arrived, go):
        correcting = Meanwhile(
            lambda: list(recompute_credit.correct(Scope(), progress=lambda _count: None))
        )
        assert arrived.wait(PATIENCE)
        paying = Meanwhile(pay)
        assert paying.is_waiting
        go.set()
        correcting.wait()
        paying.wait()
    host.refresh_from_db()
    assert host.total_credit == 7
