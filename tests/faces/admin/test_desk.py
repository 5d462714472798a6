"""The operator's desk, and the navigation by noun."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduler import storage
from scheduler.admin.desk import dashboard, navigation
from scheduler.health import recent, samples, status
from scheduler.health.rules.alert_texts import SILENT_AFTER
from scheduler.hosts.decision_texts import WHY
from scheduler.models import Refusal, ScienceFailure, StatusSample
from scheduler.people import accounts, roles
from tests.rows import a_host, a_workunit, an_app

pytestmark = pytest.mark.django_db

#: Statements of the desk: session, account, rights, alerts, status, samples, troubles, tables.
STATEMENTS = 30


@pytest.fixture(autouse=True)
def empty_cache():
    status.forget()
    yield
    status.forget()


@pytest.fixture
def operator():
    staff = accounts.create_staff(email="chief@example.org", password="forty two hands")
    client = Client()
    client.force_login(staff)
    return client


def desk(client, query=""):
    status.forget_own()
    response = client.get(reverse("admin:index") + query)
    assert response.status_code == 200
    return response


def lamps(response):
    return {lamp.daemon: lamp for lamp in response.context["lamps"]}


def test_desk_shows_the_stations_of_workunits_with_links_to_their_lists(operator):
    a_workunit(an_app())
    response = desk(operator)
    stages = {stage.title: stage for stage in response.context["flow"]}
    assert stages["in progress"].count == "1"
    for stage in stages.values():
        assert operator.get(stage.url).status_code == 200
    assert operator.get(stages["in progress"].url).context["cl"].result_count == 1
    assert operator.get(stages["finished"].url).context["cl"].result_count == 0


def test_rate_of_the_last_hour_stands_beside_finished_workunits(operator):
    now = timezone.now()
    for minutes, finished in ((50, 100), (20, 130)):
        StatusSample.objects.create(
            at=now - timedelta(minutes=minutes), figures={"workunits.finished": finished}
        )
    page = desk(operator).content.decode()
    assert "60 workunits per hour" in page


def test_rates_of_daemons_stand_at_their_stations_and_in_the_list_of_daemons(operator):
    now = timezone.now()
    # A sample of an older version has no figure of daemons.
    StatusSample.objects.create(at=now - timedelta(minutes=55), figures={"people.hosts": 1})
    for minutes, examined in ((50, 1000), (20, 1600)):
        StatusSample.objects.create(
            at=now - timedelta(minutes=minutes),
            figures={"examined.validator": examined, "examined.file_deleter": examined / 2},
        )
    response = desk(operator)
    stages = {stage.title: stage.details for stage in response.context["flow"]}
    assert stages["waiting for validation"][0] == "1,200 workunits per hour"
    assert stages["waiting for assimilation"][0] == "rate not known yet"
    assert stages["waiting for deletion"][0] == "600 rows per hour"
    assert "<small>1,200 workunits per hour</small>" in response.content.decode()
    assert lamps(response)["validator"].rate == "1,200"
    assert lamps(response)["purger"].rate == "–"


def test_rate_is_unknown_without_samples(operator):
    assert "rate not known yet" in desk(operator).content.decode()


def test_lamp_of_a_silent_daemon_is_red(operator, monkeypatch):
    now = timezone.now()
    seen = {"transitioner": now, "validator": now - SILENT_AFTER - timedelta(minutes=1)}
    monkeypatch.setattr(storage, "signs_of_life", lambda: seen)
    shown = lamps(desk(operator))
    assert (shown["transitioner"].tone, shown["transitioner"].life) == ("good", "alive")
    assert (shown["validator"].tone, shown["validator"].life[:10]) == ("bad", "silent for")
    assert (shown["purger"].tone, shown["purger"].life) == ("bad", "never seen")
    assert 'class="lamp lamp-bad"' in desk(operator).content.decode()


def test_charts_show_the_chosen_period(operator):
    samples.take(now=timezone.now())
    page = desk(operator, "?period=week")
    chosen = [name for name, _, is_chosen in page.context["periods"] if is_chosen]
    assert chosen == ["week"]
    assert all(chart.lines for chart in page.context["charts"])
    assert page.content.decode().count("<svg") >= len(page.context["charts"])


@pytest.mark.parametrize("query", ["?period=century", "?period=", ""])
def test_unknown_period_shows_the_last_day(operator, query):
    response = desk(operator, query)
    assert [name for name, _, chosen in response.context["periods"] if chosen] == ["day"]


def test_new_project_says_where_charts_come_from(operator):
    assert "the housekeeper keeps one each minute" in desk(operator).content.decode()


def test_refusals_and_parked_subjects_link_to_their_lists(operator):
    now, app = timezone.now(), an_app()
    Refusal.objects.create(
        workunit_id=1, host_id=1, app_id=app.pk, reason="memory", sentence="", at=now
    )
    ScienceFailure.objects.create(
        stage=1, subject_id=1, app=app, error="", failed_at=now, parked_at=now
    )
    page = desk(operator).content.decode()
    assert "memory" in page
    url = reverse("admin:scheduler_sciencefailure_changelist") + "?stage__exact=1"
    assert url in page
    assert operator.get(url).status_code == 200


def test_hosts_without_work_are_listed_by_reason_with_a_link_to_the_newest(operator, monkeypatch):
    assert "Each host that requested work got some" in desk(operator).content.decode()
    at = timezone.now().isoformat(timespec="seconds")
    hosts = [
        a_host(rpc_at=timezone.now(), last_decisions=[{"at": at, "refused": {"quota": 3}}])
        for _ in range(2)
    ]
    page = desk(operator).content.decode()
    assert WHY["quota"] in page
    url = reverse("admin:scheduler_host_change", args=[hosts[1].pk])
    assert f'<a href="{url}#decisions">#{hosts[1].pk}</a></td><td class="number">2</td>' in page
    assert 'id="decisions"' in operator.get(url).content.decode()
    assert "Only the newest" not in page
    monkeypatch.setattr(recent, "MAX_HOSTS", 1)
    page = desk(operator).content.decode()
    assert "Only the newest 1 hosts are counted." in page
    assert '<td class="number">1</td>' in page
    a_host()
    assert "None of the newest 1 hosts." in desk(operator).content.decode()


def test_hosts_without_work_have_links_only_for_staff_who_may_see_hosts():
    at = timezone.now().isoformat(timespec="seconds")
    host = a_host(rpc_at=timezone.now(), last_decisions=[{"at": at, "refused": {"quota": 3}}])
    account = accounts.create_staff(
        email="new@example.org", password="forty two hands", is_superuser=False
    )
    client = Client()
    client.force_login(account)
    page = desk(client).content.decode()
    assert f"<td>#{host.pk}</td>" in page
    assert "#decisions" not in page


def test_number_of_statements_does_not_grow_with_rows(operator, django_assert_max_num_queries):
    app, now = an_app(), timezone.now()
    for index in range(20):
        a_workunit(app)
        StatusSample.objects.create(at=now - timedelta(minutes=index), figures={})
        Refusal.objects.create(
            workunit_id=index, host_id=1, app_id=app.pk, reason="memory", sentence="", at=now
        )
        a_host(
            rpc_at=now,
            last_decisions=[{"at": now.isoformat(timespec="seconds"), "refused": {"quota": 1}}],
        )
    with django_assert_max_num_queries(STATEMENTS):
        desk(operator)


def test_every_page_of_the_admin_is_in_exactly_one_group(operator):
    groups = desk(operator).context["app_list"]
    listed = [model["object_name"].lower() for group in groups for model in group["models"]]
    assert len(listed) == len(set(listed))
    named = {name for names in navigation.GROUPS.values() for name in names}
    assert named <= set(listed)
    assert navigation.INTERNAL not in navigation.GROUPS
    assert [group["name"] for group in groups][-1] == navigation.INTERNAL


def test_moderator_sees_only_the_groups_of_their_pages(operator):
    moderator = accounts.create_staff(
        email="mod@example.org", password="forty two hands", is_superuser=False
    )
    roles.give(moderator, "moderator", now=timezone.now())
    client = Client()
    client.force_login(moderator)
    names = [group["name"] for group in desk(client).context["app_list"]]
    assert "People" in names


def test_only_the_desk_builds_the_list_of_pages(operator, monkeypatch):
    """The list takes milliseconds, and Django asks for it for the context of every page."""
    built = []

    def grouped(models, pages=()):
        built.append(len(list(models)))
        return []

    monkeypatch.setattr(navigation, "grouped", grouped)
    assert operator.get("/admin/scheduler/workunit/").status_code == 200
    assert built == []
    desk(operator)
    assert len(built) == 1


def test_large_numbers_of_charts_are_short():
    assert [dashboard._number(n) for n in (999, 1000, 1_250_000)] == ["999", "1k", "1.2M"]
