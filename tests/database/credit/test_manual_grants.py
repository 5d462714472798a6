"""Credit that operators grant or revoke by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from scheduler.boinc import statistics_export
from scheduler.credit import leaderboards, manual_grants, recompute_credit
from scheduler.credit.manual_grants import GrantRequest
from scheduler.credit.recompute_credit import Scope
from scheduler.credit.rules.board_positions import Order
from scheduler.credit.rules.grant_amounts import GrantRefused
from scheduler.health.invariants import invariants
from scheduler.health.status import _latest
from scheduler.models import AccountAppCredit, AuditEntry, CreditEntry, ManualGrant, Team
from scheduler.people.personal_data import erasure
from tests.conftest import NOON
from tests.rows import a_host, an_account, an_app, update

pytestmark = pytest.mark.django_db


@pytest.fixture
def team():
    return Team.objects.create(name="Reds", created_at=NOON)


@pytest.fixture
def host(team):
    return a_host(an_account("ada", team=team))


def a_request(host, amount=100, **fields):
    fields = {"reason": "A prize", "request_id": uuid4()} | fields
    return GrantRequest(account_id=host.account_id, amount=Decimal(str(amount)), **fields)


def grant(request, granted_by=None):
    return manual_grants.grant(request, granted_by=granted_by, now=NOON)


def totals(*rows):
    for row in rows:
        row.refresh_from_db()
    return [row.total_credit for row in rows]


def unbalanced():
    """Return the invariants of credit that are violated, and the differing totals."""
    wrong = [each.name for each in invariants() if "credit" in each.name and each.find(NOON)]
    return wrong + list(recompute_credit.compare(Scope(), progress=lambda _count: None))


def test_grant_counts_for_account_computer_team_and_app(host, team):
    app = an_app("mill")
    changed = grant(a_request(host, 100, host_id=host.pk, app_id=app.pk))
    assert totals(host, host.account, team, app) == [100] * 4
    assert AccountAppCredit.objects.get().total == 100
    assert [(each.before, each.after) for each in changed] == [(0, 100)] * 5
    assert unbalanced() == []


def test_grant_to_an_account_alone_keeps_all_sums_equal_to_their_entries(host, team):
    grant(a_request(host, "0.5", with_team=False))
    assert totals(host, host.account, team) == [0, Decimal("0.5"), 0]
    assert unbalanced() == []
    entry = CreditEntry.objects.get()
    assert (entry.result_id, entry.host_id, entry.app_id, entry.rule) == (
        None,
        None,
        None,
        "by hand",
    )


def test_revoked_credit_is_a_negative_entry(host, team):
    grant(a_request(host, 100, host_id=host.pk))
    grant(a_request(host, -30, host_id=host.pk))
    assert totals(host, host.account, team) == [70, 70, 70]
    assert unbalanced() == []


@pytest.mark.parametrize("owner", ["account", "computer", "team", "app"])
def test_a_total_never_becomes_negative(host, team, owner):
    app = an_app("mill")
    for row in (host, host.account, team, app):
        update(row, total_credit=50)
    AccountAppCredit.objects.create(account=host.account, app=app, total=50)
    poor = {"account": host.account, "computer": host, "team": team, "app": app}[owner]
    update(poor, total_credit=20)
    request = a_request(host, -30, host_id=host.pk, app_id=app.pk)
    name = "app mill" if owner == "app" else f"{owner} {poor.pk}"
    with pytest.raises(GrantRefused, match=f"total of {name} is 20, so 30 cannot be revoked"):
        manual_grants.preview(request)
    with pytest.raises(GrantRefused, match="Hint: revoke at most 20"):
        grant(request)
    assert not CreditEntry.objects.exists()
    assert not AuditEntry.objects.exists()


def test_recent_averages_do_not_change(host, team):
    for row in (host, host.account, team):
        update(row, total_credit=50, expavg_credit=7, expavg_at=NOON)
    grant(a_request(host, 1000, host_id=host.pk))
    grant(a_request(host, -1000, host_id=host.pk))
    for row in (host, host.account, team):
        row.refresh_from_db()
        assert (row.expavg_credit, row.expavg_at) == (7, NOON)


def test_recomputed_averages_leave_grants_by_hand_out(host):
    app = an_app()
    for result_id, at in ((1, NOON), (2, NOON.replace(day=NOON.day + 1))):
        CreditEntry.objects.create(
            result_id=result_id,
            rule="validated",
            account=host.account,
            host=host,
            app=app,
            amount=10,
            granted_at=at,
        )
    list(recompute_credit.correct(Scope(), progress=lambda _count: None))
    host.refresh_from_db()
    before = host.expavg_credit
    assert before > 0
    grant(a_request(host, 10_000, host_id=host.pk, app_id=app.pk))
    list(recompute_credit.correct(Scope(), averages=True, progress=lambda _count: None))
    assert totals(host, app) == [10_020, 10_020]
    assert host.expavg_credit == pytest.approx(before)
    assert unbalanced() == []


def test_recompute_restores_totals_with_grants_by_hand(host, team):
    grant(a_request(host, 100, host_id=host.pk))
    for row in (host, host.account, team):
        update(row, total_credit=1)
    list(recompute_credit.correct(Scope(), progress=lambda _count: None))
    assert totals(host, host.account, team) == [100, 100, 100]
    assert (host.expavg_credit, host.expavg_at) == (0, None)


def test_a_request_that_is_sent_twice_grants_once(host):
    request = a_request(host)
    grant(request)
    with pytest.raises(GrantRefused, match="was made already"):
        grant(request)
    assert totals(host.account) == [100]


def test_a_page_that_is_sent_for_another_account_at_the_same_time_grants_once(host, monkeypatch):
    request = a_request(host)
    grant(request)
    other = a_host(an_account("eve"))
    # The other transaction commits after this one has looked for the id.
    monkeypatch.setattr(ManualGrant.objects, "filter", lambda **_: ManualGrant.objects.none())
    with pytest.raises(GrantRefused, match="was made already"):
        grant(replace(request, account_id=other.account_id))
    assert totals(other.account) == [0]


def test_erasure_deletes_the_reason(host):
    grant(a_request(host, reason="A prize for Ada"))
    erasure.erase(host.account, now=NOON)
    assert ManualGrant.objects.get().reason == ""


def test_grant_is_stored_with_its_reason_and_person_and_audited(host):
    chief = an_account("chief")
    grant(a_request(host, 2, reason="  Lost results of May "), granted_by=chief)
    kept = ManualGrant.objects.get()
    assert (kept.reason, kept.granted_by, kept.account) == (
        "Lost results of May",
        chief,
        host.account,
    )
    entry = AuditEntry.objects.get(event="credit_granted")
    assert entry.subject == host.account.email
    assert entry.details["amount"] == "2"
    assert entry.details["reason"] == "Lost results of May"


@pytest.mark.parametrize("amount", ["0", "NaN", "Infinity", "1e13", "-1e13", "0.0000001"])
def test_invalid_amounts_are_refused(host, amount):
    with pytest.raises(GrantRefused, match="Hint"):
        grant(a_request(host, amount))


@pytest.mark.parametrize("reason", ["", "  ", "x" * 201, "a\nb", "a\0b", "a\u202eb"])
def test_invalid_reasons_are_refused(host, reason):
    for act in (grant, manual_grants.preview):
        with pytest.raises(GrantRefused, match="reason"):
            act(a_request(host, reason=reason))


def test_a_total_that_its_column_cannot_store_is_refused(host):
    update(host.account, total_credit=Decimal(99999999999999))
    with pytest.raises(GrantRefused, match="cannot be stored"):
        grant(a_request(host, 1))


def test_a_computer_must_be_an_unmerged_one_of_the_account(host):
    other = a_host()
    with pytest.raises(GrantRefused, match=f"has no computer {other.pk}"):
        grant(a_request(host, host_id=other.pk))
    with pytest.raises(GrantRefused, match="has no computer"):
        grant(a_request(host, host_id=2**62))
    kept = a_host(host.account)
    update(host, merged_into=kept)
    with pytest.raises(GrantRefused, match=f"merged into computer {kept.pk}"):
        grant(a_request(host, host_id=host.pk))
    with pytest.raises(GrantRefused, match="no account"):
        grant(replace(a_request(host), account_id=2**62))
    with pytest.raises(GrantRefused, match="no app"):
        grant(a_request(host, app_id=2**62))


def test_leaderboards_statistics_and_status_follow(host):
    app = an_app("mill")
    grant(a_request(host, 100, app_id=app.pk))
    board = leaderboards.account_board(Order.TOTAL)
    [line] = leaderboards.read(board, below=None, count=10).lines
    assert line.row.pk == host.account_id
    assert statistics_export.total_credit() == 100
    # The status page lists results, so grants by hand are left out.
    assert _latest() == ()


def command(*words):
    out = StringIO()
    call_command("grant_credit", *words, stdout=out)
    return out.getvalue()


def test_command_grants_and_prints_the_totals(host, team):
    text = command("ada@example.org", "12.5", "--reason", "A prize", "--host", str(host.pk))
    assert text.splitlines() == [
        "Granted 12.5 credit by hand.",
        f"  account {host.account_id}: 0 to 12.5",
        f"  computer {host.pk}: 0 to 12.5",
        f"  team {team.pk}: 0 to 12.5",
    ]
    assert ManualGrant.objects.get().actor.startswith("shell:")
    assert AuditEntry.objects.get(event="credit_granted").actor.startswith("shell:")


def test_dry_run_of_the_command_changes_nothing(host):
    an_app("mill")
    words = ("ada@example.org", "3", "--reason", "x", "--app", "mill", "--without-team")
    answer = json.loads(command(*words, "--dry-run", "--json"))
    assert answer["dry_run"] is True
    assert [Decimal(each["after"]) for each in answer["totals"]] == [3, 3, 3]
    assert not CreditEntry.objects.exists()
    assert totals(host.account) == [0]


def test_command_revokes_with_a_negative_amount_and_refuses_more_than_the_total(host):
    command("ada@example.org", "5", "--reason", "x")
    assert command("ada@example.org", "-2", "--reason", "x").startswith("Revoked 2 credit")
    with pytest.raises(CommandError, match="is 3, so 4 cannot be revoked"):
        command("ada@example.org", "-4", "--reason", "x")
    with pytest.raises(CommandError, match="'many' is not a number"):
        command("ada@example.org", "many", "--reason", "x")
    with pytest.raises(CommandError, match="no app 'none'"):
        command("ada@example.org", "4", "--reason", "x", "--app", "none")
