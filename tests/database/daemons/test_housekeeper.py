"""The housekeeper does each chore once when it is due, even if others fail."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from daemons import housekeeper
from scheduler import sql, storage
from scheduler.credit.rules.credit import recent_average
from scheduler.health import server_load, status
from scheduler.models import (
    AccountAppCredit,
    Batch,
    EmailChange,
    Heartbeat,
    HostAppVersion,
    PlanClass,
    Refusal,
    Team,
    TrickleDown,
    TrickleUp,
    UsageSample,
)
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
WEEK = 7 * DAY
LONG_AGO = NOON - timedelta(days=40)


def fresh(row):
    row.refresh_from_db()
    return row


def only(monkeypatch, *chores):
    monkeypatch.setattr(housekeeper, "CHORES", chores)


# Intervals


def test_a_chore_runs_only_after_its_interval_has_passed():
    host = rows.a_host(expavg_credit=8, expavg_at=NOON - WEEK)
    assert a_pass(housekeeper).done == {"averages faded": 1}
    rows.update(host, expavg_at=NOON - WEEK)
    assert not a_pass(housekeeper, now=NOON + DAY - timedelta(seconds=1)).changed
    assert a_pass(housekeeper, now=NOON + DAY).done == {"averages faded": 1}


def test_a_chore_can_be_claimed_by_only_one_housekeeper():
    chore = next(chore for chore in housekeeper.CHORES if chore.name == "fade hosts")
    assert housekeeper._claim(chore, NOON)
    assert not housekeeper._claim(chore, NOON)
    assert Heartbeat.objects.get(name="chore fade hosts").seen_at == NOON


def test_a_failed_chore_is_retried_after_five_minutes_and_the_others_run(monkeypatch, caplog):
    def fail(_now, _limit):
        raise RuntimeError("the broom broke")

    done = []
    broken = housekeeper.Chore("sweep", DAY, "rooms swept", fail)
    sound = housekeeper.Chore("dust", DAY, "rooms dusted", lambda now, _: done.append(now) or 1)
    only(monkeypatch, broken, sound)
    assert a_pass(housekeeper).done == {"rooms dusted": 1}
    [said] = [record for record in caplog.records if record.message == "chore_failed"]
    assert said.chore == "sweep"
    assert Heartbeat.objects.get(name="chore sweep").failed_passes == 1
    assert not a_pass(housekeeper, now=NOON + timedelta(minutes=5)).changed
    assert Heartbeat.objects.get(name="chore sweep").failed_passes == 2
    only(monkeypatch, replace(broken, act=lambda _now, _limit: 1), sound)
    assert not a_pass(housekeeper, now=NOON + timedelta(minutes=9)).changed
    assert a_pass(housekeeper, now=NOON + timedelta(minutes=10)).done == {"rooms swept": 1}
    assert Heartbeat.objects.get(name="chore sweep").failed_passes == 0
    assert done == [NOON]


def test_a_housekeeper_pass_without_changes_reports_nothing_to_do():
    rows.a_host()
    assert a_pass(housekeeper).sentence() == "nothing to do"


def test_the_status_page_counts_overdue_chores():
    a_pass(housekeeper)

    def late(now):
        [found] = [one for one in status.read(now=now).stations if one.daemon == "housekeeper"]
        return found.waiting.value

    assert late(NOON + DAY) == 0
    assert late(NOON + 3 * DAY) == len(housekeeper.CHORES)


def test_figures_of_the_state_of_the_server_are_stored_each_minute():
    server_load.forget()
    a_pass(housekeeper)
    rows.a_result(rows.a_workunit(), "unsent")
    assert not a_pass(housekeeper, now=NOON + timedelta(seconds=59)).changed
    assert server_load.current(now=NOON).work.unsent == 0
    minute = NOON + timedelta(minutes=1)
    assert not a_pass(housekeeper, now=minute).changed
    assert server_load.current(now=minute).work.unsent == 1


# Recent averages


@pytest.mark.parametrize("days", [1.5, 7, 30, 400])
def test_average_credit_without_new_grants_decays_as_with_a_zero_grant(days):
    at = NOON - timedelta(days=days)
    account = rows.an_account(expavg_credit=100, expavg_at=at)
    host = rows.a_host(account, expavg_credit=100, expavg_at=at)
    team = Team.objects.create(name="t", created_at=at, expavg_credit=100, expavg_at=at)
    by_app = AccountAppCredit.objects.create(
        account=account, app=rows.an_app(), expavg=100, expavg_at=at
    )
    assert a_pass(housekeeper).done == {"averages faded": 4}
    expected = pytest.approx(recent_average(100, at, 0, work_began_at=at, now=NOON))
    for row in (account, host, team):
        assert fresh(row).expavg_credit == expected
        assert row.expavg_at == NOON
    assert fresh(by_app).expavg == expected
    assert by_app.expavg_at == NOON


def test_average_credit_granted_recently_or_never_does_not_decay():
    lately = rows.a_host(expavg_credit=5, expavg_at=NOON - DAY)
    never = rows.a_host()
    assert not a_pass(housekeeper).changed
    assert fresh(lately).expavg_at == NOON - DAY
    assert fresh(never).expavg_at is None


def test_tiny_average_becomes_zero_and_is_not_updated_again():
    host = rows.a_host(expavg_credit=1e-7, expavg_at=LONG_AGO, total_credit=Decimal(3))
    a_pass(housekeeper)
    assert (fresh(host).expavg_credit, host.total_credit) == (0, 3)
    assert not a_pass(housekeeper, now=NOON + 2 * DAY).changed


def test_decay_of_a_very_old_average_does_not_underflow():
    host = rows.a_host(expavg_credit=1e-5, expavg_at=NOON - timedelta(days=36_500))
    a_pass(housekeeper)
    assert fresh(host).expavg_credit == pytest.approx(0, abs=1e-20)


def test_decay_processes_rows_in_batches_of_the_limit(monkeypatch):
    for _ in range(5):
        rows.a_host(expavg_credit=8, expavg_at=NOON - WEEK)
    asked = []
    real = sql.fetch

    def counted(name, *args, **identifiers):
        asked.append((name, identifiers.get("table")))
        return real(name, *args, **identifiers)

    monkeypatch.setattr(sql, "fetch", counted)
    assert a_pass(housekeeper, limit=2).done == {"averages faded": 5}
    assert asked.count(("decay_averages", "host")) == 3


# Adaptive credit


def test_app_version_credit_is_scaled_to_the_cheapest_version_and_its_cost_is_stored():
    PlanClass.objects.create(name="cuda", spec={"gpu_type": "nvidia", "ngpus": 1}, created_at=NOON)
    PlanClass.objects.create(name="mt", spec={"threads": 4}, created_at=NOON)
    app, other = rows.an_app(), rows.an_app()
    plain = rows.an_app_version(app, pfc_n=200, pfc_avg=2.0, plan_class="mt")
    gpu = rows.an_app_version(app, pfc_n=200, pfc_avg=8.0, plan_class="cuda")
    new = rows.an_app_version(app, pfc_n=7, pfc_avg=9.0)
    gone = rows.an_app_version(app, pfc_n=200, pfc_avg=1.0, deprecated=True)
    rows.an_app_version(other, pfc_n=3, pfc_avg=0.5)
    assert a_pass(housekeeper).done == {"versions scaled": 2}
    scales = [fresh(version).pfc_scale for version in (plain, gpu, new, gone)]
    assert scales == [1.0, 0.25, 0.0, 0.0]
    assert (fresh(app).min_avg_pfc, fresh(other).min_avg_pfc) == (2.0, 1.0)
    assert not a_pass(housekeeper, now=NOON + timedelta(hours=1)).changed


# Size classes


def test_hosts_are_divided_by_speed_into_the_size_classes_of_the_app():
    app = rows.an_app(n_size_classes=2)
    version, better = rows.an_app_version(app), rows.an_app_version(app)
    for speed in (1e9, 2e9, 4e9, 8e9):
        host = rows.a_host()
        HostAppVersion.objects.create(host=host, app_version=version, et_n=10, et_avg=10 / speed)
        HostAppVersion.objects.create(host=host, app_version=better, et_n=10, et_avg=1 / speed)
    # Too few results yet: the speed of these hosts is unknown.
    for _ in range(2):
        HostAppVersion.objects.create(host=rows.a_host(), app_version=version, et_n=4, et_avg=1e-12)
    assert a_pass(housekeeper).done == {"apps divided by size": 1}
    assert fresh(app).size_bounds == [pytest.approx(4e9)]
    assert not a_pass(housekeeper, now=NOON + DAY).changed


def test_host_speed_for_size_classes_is_multiplied_by_the_on_fraction():
    app = rows.an_app(n_size_classes=2)
    version = rows.an_app_version(app)
    for speed, on in ((1e9, 1.0), (8e9, 0.5)):
        host = rows.a_host(on_frac=on, active_frac=1.0)
        HostAppVersion.objects.create(host=host, app_version=version, et_n=10, et_avg=1 / speed)
    a_pass(housekeeper)
    assert fresh(app).size_bounds == [pytest.approx(4e9)]


def test_size_bounds_do_not_change_if_there_are_too_few_hosts():
    app = rows.an_app(n_size_classes=3, size_bounds=[1e9, 2e9])
    assert not a_pass(housekeeper).changed
    assert fresh(app).size_bounds == [1e9, 2e9]


# Batches


def test_expired_batches_are_aborted_and_finished_batches_are_completed():
    account = rows.an_account()
    late, done = (
        Batch.objects.create(
            name=name, submitter=account, app=rows.an_app(), state=1, created_at=LONG_AGO, **fields
        )
        for name, fields in (("late", {"expire_at": NOON - DAY}), ("done", {}))
    )
    workunit = rows.a_workunit(batch=late)
    over = rows.a_workunit(batch=done)
    rows.settled(over, rows.a_result(over, "valid", host=rows.a_host()), assimilate_state=2)
    assert a_pass(housekeeper).done == {"batches expired": 1, "batches completed": 1}
    assert fresh(workunit).cancel_requested_at == NOON
    assert (fresh(late).state, fresh(done).state) == (Batch.State.ABORTED, Batch.State.COMPLETE)


# Old rows and unknown files


def a_refusal(number, at):
    return Refusal.objects.create(
        workunit_id=number, host_id=1, app_id=1, reason="memory", sentence="Too little.", at=at
    )


def test_old_refusals_are_deleted():
    for number in range(3):
        a_refusal(number, LONG_AGO)
    kept = a_refusal(9, NOON - timedelta(days=29))
    assert a_pass(housekeeper, limit=2).done == {"refusals dropped": 3}
    assert list(Refusal.objects.all()) == [kept]


def test_expired_changes_of_addresses_are_deleted():
    for number, expire_at in enumerate((LONG_AGO, LONG_AGO, NOON + timedelta(seconds=1))):
        EmailChange.objects.create(
            account=rows.an_account(),
            email=f"new{number}@example.org",
            token_hash=str(number),
            created_at=expire_at - timedelta(days=1),
            expire_at=expire_at,
        )
    assert a_pass(housekeeper, limit=1).done == {"changes of addresses dropped": 2}
    assert EmailChange.objects.get().email == "new2@example.org"


def test_usage_samples_are_deleted_after_the_configured_time(settings):
    settings.PROJECT = replace(settings.PROJECT, usage_kept=timedelta(days=30))
    result = rows.a_result(rows.a_workunit(), "sent")
    for at in (LONG_AGO, LONG_AGO, NOON - timedelta(days=29)):
        UsageSample.objects.create(result_id=result.pk, at=at)
    assert a_pass(housekeeper, limit=1).done == {"usage samples dropped": 2}
    assert [sample.at for sample in UsageSample.objects.all()] == [NOON - timedelta(days=29)]


def test_handled_trickles_of_usage_are_deleted_after_a_week():
    result = rows.a_result(rows.a_workunit(), "sent", host=rows.a_host())
    own = rows.an_app(name="own", trickle_handlers={"usage": "mine"})
    for said, (variety, app, received_at, handled_at) in enumerate(
        (
            ("usage", result.app, LONG_AGO, LONG_AGO),
            ("progress", result.app, LONG_AGO, LONG_AGO),
            ("usage", result.app, NOON - WEEK + DAY, NOON),
            ("usage", result.app, LONG_AGO, None),
            ("usage", own, LONG_AGO, LONG_AGO),
            ("question", result.app, LONG_AGO, LONG_AGO),
        )
    ):
        TrickleUp.objects.create(
            result_id=result.pk,
            host=result.host,
            app=app,
            variety=variety,
            said_at=LONG_AGO + timedelta(seconds=said),
            received_at=received_at,
            handled_at=handled_at,
        )
    assert a_pass(housekeeper).done == {"trickles dropped": 2}
    kept = TrickleUp.objects.order_by("said_at").values_list("said_at", flat=True)
    assert [(at - LONG_AGO).seconds for at in kept] == [2, 3, 4, 5]


def test_old_messages_of_purged_results_are_deleted():
    result = rows.a_result(rows.a_workunit(), "sent", host=rows.a_host())
    gone = result.pk + 1
    trickle = {"host": result.host, "app": result.app, "said_at": LONG_AGO}
    for number in (result.pk, gone):
        UsageSample.objects.create(result_id=number, at=LONG_AGO)
        TrickleUp.objects.create(
            result_id=number, received_at=LONG_AGO, handled_at=LONG_AGO, **trickle
        )
        TrickleDown.objects.create(
            result_id=number, host=result.host, result_name="r", text="t", created_at=LONG_AGO
        )
    unhandled = TrickleUp.objects.create(
        result_id=gone, variety="progress", received_at=LONG_AGO, **trickle
    )
    UsageSample.objects.create(result_id=gone, at=NOON)
    assert a_pass(housekeeper).done == {"usage samples dropped": 1, "trickles dropped": 2}
    assert [one.result_id for one in UsageSample.objects.order_by("id")] == [result.pk, gone]
    assert TrickleDown.objects.get().result_id == result.pk
    kept = TrickleUp.objects.order_by("id")
    assert [one.pk for one in kept if one.result_id == gone] == [unhandled.pk]


def test_old_upload_files_without_a_row_are_deleted():
    result = rows.a_result(rows.a_workunit(), "success", host=rows.a_host())
    output = rows.an_output(result, b"x", uploaded=True)
    path = storage.upload_path(output.name)
    rows.update(result.workunit, created_at=NOON)
    result.output_files.all().delete()
    result.workunit.delete()
    os.utime(path, times=(LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    assert a_pass(housekeeper).done == {"antique files deleted": 1}
    assert not path.exists()


def test_old_heartbeats_are_deleted():
    Heartbeat.objects.create(name="web one", seen_at=LONG_AGO)
    Heartbeat.objects.create(name="web two", seen_at=NOON)
    assert a_pass(housekeeper).done == {"heartbeats dropped": 1}
    assert not Heartbeat.objects.filter(name="web one").exists()
    assert Heartbeat.objects.filter(name="web two").exists()
