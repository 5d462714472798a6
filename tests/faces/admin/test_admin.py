"""The admin: lists, pages, refusals and actions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from pytest_django.asserts import assertHTMLEqual

from scheduler import models
from scheduler.admin import base, history, workunits
from scheduler.admin.site import staff
from scheduler.lifecycle import (
    Actor,
    Axis,
    Because,
    Outcome,
    ReleaseState,
    ResultState,
    ServerState,
    ValidateState,
    WorkunitState,
)
from scheduler.models import (
    Account,
    App,
    AppVersion,
    Batch,
    CreditEntry,
    File,
    Host,
    LedgerEntry,
    Platform,
    Result,
    Workunit,
)
from scheduler.people import accounts, api_tokens, roles, submitters
from scheduler.work.control import Outcome as Became
from scheduler.work.timeline import describe_move
from tests.rows import a_result, a_workunit, an_account

pytestmark = pytest.mark.django_db

EMAIL, PASSWORD = "chief@example.org", "a first password"
REGISTERED = sorted(staff._registry, key=lambda model: model.__name__)
OWN = [getattr(models, name) for name in models.__all__]
RECORDS = [
    model
    for model in OWN
    if model.__name__
    in {
        "AccountAppCredit",
        "AppCreditCursor",
        "HostAppCredit",
        "TeamAppCredit",
        "FileRequest",
        "AlertState",
        "CheckRun",
        "Heartbeat",
        "OutboxMessage",
        "Refusal",
        "ScienceFailure",
        "TrickleDown",
        "TrickleUp",
        "UsageSample",
        "StatusSample",
        "CreditSample",
        "HardwareCount",
        "VersionOutcomes",
        "HostOutcomes",
        "Dependency",
        "WorkunitWakeup",
        "AccountKey",
        "ApiToken",
        "AppVersionFile",
        "Batch",
        "BatchUsage",
        "CreditEntry",
        "EmailChange",
        "StatisticsDeletion",
        "File",
        "FileHold",
        "HostAppVersion",
        "IdempotencyKey",
        "Installation",
        "Invitation",
        "JobFile",
        "LedgerEntry",
        "LetterRecipient",
        "LoginNetwork",
        "ManualGrant",
        "PurgedResults",
        "PurgedWorkunits",
        "HostToken",
        "QueueBalance",
        "QueueSchedule",
        "QueueSlot",
        "Bundle",
        "BundleMember",
        "Result",
        "ResultFile",
        "SubmitterApp",
        "TeamAdministrator",
        "ThrottleBucket",
        "Workunit",
        "WorkunitFile",
    }
]
#: Models whose rows operators delete.
DELETABLE = {models.Badge, models.AccountBadge, models.TeamBadge}
#: Queries for session, account, rows and bounded count; filters also read app or platform names.
QUERY_BUDGET = 9
#: A search reads the ids of matches by one statement for each index.
SEARCH_BUDGET = QUERY_BUDGET + 5


@pytest.fixture
def now() -> datetime:
    return timezone.now()


@pytest.fixture
def chief(now: datetime) -> Account:
    return accounts.create_staff(email=EMAIL, password=PASSWORD, name="Chief", now=now)


@pytest.fixture
def admin(chief: Account) -> Client:
    client = Client()
    client.force_login(chief)
    return client


def purge_some(batch: Batch, now: datetime) -> None:
    """Create the rows that a purge leaves."""
    models.BatchUsage.objects.create(batch=batch, day=now.date())
    models.PurgedWorkunits.objects.create(app=batch.app, done=2, failed=1)
    models.PurgedResults.objects.create(app=batch.app, outcome=1, results=4)


def pay(account: Account, result: Result, now: datetime) -> None:
    """Create a grant of credit for a result, and the reason of a grant by hand."""
    entry = CreditEntry.objects.create(
        result_id=result.pk,
        rule="validated",
        account=account,
        host=result.host,
        app=result.app,
        amount=1,
        granted_at=now,
    )
    models.ManualGrant.objects.create(
        entry=entry, account=account, reason="A prize", granted_by=account, request_id=uuid4()
    )


def record_project(account: Account, team: models.Team, now: datetime) -> None:
    """Create rows that daemons write about the whole project."""
    award_badges(account, team, now)
    helper = an_account("helper", team=team)
    models.TeamAdministrator.objects.create(account=helper, team=team, named_at=now)
    models.Heartbeat.objects.create(name="web", seen_at=now)
    models.CreditSample.objects.create(kind=0, holder_id=0, day=now.date(), total_credit=1)
    models.HardwareCount.objects.create(
        kind="gpu", name="RTX", computers=5, total_credit=1, recent_credit=1, counted_at=now
    )


def award_badges(account: Account, team: models.Team, now: datetime) -> None:
    badge = models.Badge.objects.create(name="helper", title="Helper", created_at=now)
    models.AccountBadge.objects.create(badge=badge, account=account, created_at=now)
    models.TeamBadge.objects.create(badge=badge, team=team, created_at=now)


def beside_version(version: AppVersion, file: File, now: datetime) -> None:
    """Create one row of each model that refers to an app version, and a count of a host."""
    models.AppVersionFile.objects.create(app_version=version, file=file, position=0, signature="s")
    counted = {"hour": now, "reported": 9, "errors": 2, "invalid": 1}
    models.VersionOutcomes.objects.create(app_version=version, **counted)
    models.HostOutcomes.objects.create(host_id=version.pk, **counted)


def host_of(account: Account, version: AppVersion, now: datetime) -> Host:
    """Create a host, and its rows about an app version and its app."""
    host = Host.objects.create(account=account, rpc_at=now, created_at=now)
    models.HostAppVersion.objects.create(host=host, app_version=version)
    models.HostAppCredit.objects.create(host=host, app=version.app)
    return host


def by_app(account: Account, team: models.Team, app: App) -> None:
    """Create the credit of an account and a team for an app."""
    models.AccountAppCredit.objects.create(account=account, app=app)
    models.TeamAppCredit.objects.create(team=team, app=app)
    models.AppCreditCursor.objects.create()


@pytest.fixture
def rows(chief: Account, now: datetime) -> dict[str, Any]:
    """Create several rows of each related model, so that tests notice a query per row."""
    app = App.objects.create(name="primes", created_at=now)
    platform = Platform.objects.create(name="x86_64-pc-linux-gnu")
    file = File.objects.create(name="in", sha256="a" * 64, md5="b" * 32, nbytes=5, created_at=now)
    team = models.Team.objects.create(name="Team", founder=chief, created_at=now)
    Account.objects.filter(pk=chief.pk).update(team=team)
    batch = Batch.objects.create(name="all", submitter=chief, app=app, created_at=now)
    purge_some(batch, now)
    made: dict[str, Any] = {"app": app, "batch": batch, "workunits": [], "results": []}
    models.PlanClass.objects.create(name="mt", created_at=now)
    record_project(chief, team, now)
    models.Outage.objects.create(began_at=now - timedelta(hours=1), ended_at=now)
    by_app(chief, team, app)
    submitters.allow(chief, apps=[app], now=now)
    models.FileHold.objects.create(file=file, account=chief, until=now)
    models.JobFile.objects.create(name="job", file=file, account=chief, created_at=now)
    beside_work(chief, now)
    for number in range(6):
        api_tokens.create(account=chief, name=f"t{number}", scopes=["read"], now=now)
        models.IdempotencyKey.objects.create(
            account=chief, key=f"k{number}", status=201, created_at=now
        )
        version = AppVersion.objects.create(
            app=app, platform=platform, version_num=100 + number, created_at=now
        )
        beside_version(version, file, now)
        host = host_of(chief, version, now)
        workunit = a_workunit(app, name=f"w{number}", batch=batch, created_at=now)
        models.WorkunitFile.objects.create(workunit=workunit, file=file, position=0)
        result = a_result(workunit, "sent", host=host, app_version=version)
        beside_results(result, number, now)
        models.ResultFile.objects.create(
            result=result, position=0, name="out", nbytes=1, md5="c" * 32, sha256="d" * 64
        )
        pay(chief, result, now)
        moved(now, workunit, None, Axis.WORKUNIT, 0, WorkunitState.OPEN, Because.SUBMITTED)
        if made["workunits"]:
            models.Dependency.objects.create(parent=made["workunits"][-1], child=workunit)
        made["workunits"].append(workunit)
        made["results"].append(result)
    a_queue_and_a_list(app, made["results"], now)
    return made


def a_queue_and_a_list(app: App, results: Sequence[Result], now: datetime) -> None:
    queue = models.Queue.objects.create(name="urgent", app=app, created_at=now)
    workunit = results[0].workunit
    bundle = models.Bundle.objects.create(batch=workunit.batch, app=app, created_at=now)
    models.BundleMember.objects.create(bundle=bundle, workunit=workunit)
    models.QueueSchedule.objects.create(queue=queue, minute=420, max_in_progress=5)
    models.QueueBalance.objects.create(id=1, max_tasks={"* 07:00": 50})
    for number, result in enumerate(results, start=1):
        models.QueueSlot.objects.create(queue=queue, number=number, result=result)


def beside_work(account: Account, now: datetime) -> None:
    """Create rows that belong to no workunit."""
    models.AlertState.objects.create(kind="disk_full", sentence="It is full.", began_at=now)
    for _ in range(3):
        models.CheckRun.objects.create(
            kind="fsck", requested_by=account, requested_at=now, started_at=now, ended_at=now
        )
    models.OutboxMessage.objects.create(
        recipient="a@example.org", subject="Welcome", created_at=now, next_attempt_at=now
    )
    models.Installation.objects.create(id=1, identifier=uuid4())
    models.ThrottleBucket.objects.create(key="n:1", empty_at=now)
    models.LoginNetwork.objects.create(account=account, network="192.0.2.0/24", last_login_at=now)
    letter = models.Letter.objects.create(subject="News", text="Dear all.", created_at=now)
    models.LetterRecipient.objects.create(letter=letter, account=account, created_at=now)
    models.News.objects.create(title="Hello", text="News.", published_at=now)
    models.StatisticsDeletion.objects.create(kind=1, number=1, cpid="c" * 32, deleted_at=now)
    models.StatusSample.objects.create(at=now, figures={"results.unsent": 1})
    models.EmailChange.objects.create(
        account=account, email="n@example.org", token_hash="f" * 64, created_at=now, expire_at=now
    )
    models.Invitation.objects.create(code_hash="e" * 64, name="class", created_at=now)


def beside_results(result: Result, number: int, now: datetime) -> None:
    """Create one row of each model that refers to a result or its host."""
    models.HostToken.objects.create(host=result.host, token_hash=f"{number:064}", created_at=now)
    ids = {"result_id": result.pk}
    models.TrickleUp.objects.create(
        **ids, host=result.host, app=result.app, said_at=now, received_at=now
    )
    models.TrickleDown.objects.create(**ids, host=result.host, result_name="r", created_at=now)
    models.UsageSample.objects.create(**ids, at=now)
    models.FileRequest.objects.create(host=result.host, kind=1, file_name="f", created_at=now)
    models.ScienceFailure.objects.create(
        stage=2, subject_id=result.workunit_id, app=result.app, error="broken", failed_at=now,
        failures=5, parked_at=now,
    )  # fmt: skip
    models.Refusal.objects.create(
        workunit_id=result.workunit_id, host_id=number, app_id=result.app_id, reason="memory",
        sentence="Too little memory.", at=now,
    )  # fmt: skip


def moved(
    at: datetime,
    workunit: Workunit,
    result: Result | None,
    axis: Axis,
    source: int,
    target: int,
    because: Because,
    *,
    by: Actor = Actor.SUBMITTER,
) -> None:
    LedgerEntry.objects.create(
        at=at,
        workunit_id=workunit.pk,
        result_id=result and result.pk,
        axis=axis,
        source=source,
        target=target,
        because=because,
        by=by,
    )


def list_of(model: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def page_of(row: Any) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


def filters_of(client: Client, model: Any) -> list[str]:
    """Return the query string of every filter choice in the admin list of a model."""
    answer = client.get(list_of(model))
    change_list = answer.context["cl"]
    return [
        choice["query_string"]
        for spec in change_list.filter_specs
        for choice in spec.choices(change_list)
        if choice.get("query_string")
    ]


def messages_of(answer: Any) -> list[str]:
    return [str(message) for message in answer.context["messages"]]


# Lists


def test_every_model_is_listed() -> None:
    assert set(OWN) | {Group} == set(REGISTERED)


def test_a_list_answers_within_the_query_budget(
    subtests: Any, admin: Client, rows: Any, django_assert_max_num_queries: Any
) -> None:
    for model in REGISTERED:
        with subtests.test(model=model.__name__):
            with django_assert_max_num_queries(QUERY_BUDGET):
                answer = admin.get(list_of(model))
            assert answer.status_code == 200


@pytest.mark.lengthy
def test_list_headers_have_no_wire_abbreviations_and_numbers_are_rounded(
    subtests: Any, admin: Client, rows: Any
) -> None:
    """No header is an abbreviated field name, and no cell has a number with many decimals."""
    for model in OWN:
        with subtests.test(model=model.__name__):
            CreditEntry.objects.update(amount=12.345678901234)
            Host.objects.update(total_credit=1234567.890123)
            Account.objects.update(total_credit=0.123456789)
            page = admin.get(list_of(model)).content.decode()
            table = page[page.find("result_list") : page.find("</table>")]
            headers = re.findall(r'<div class="text">(?:<a[^>]*>|<span>)?([^<]+)<', table)
            assert not [
                text for text in headers if re.search(r"\b[pmdn] [a-z]|expavg|ncpus|\brpc", text)
            ]
            assert not re.search(r"\d\.\d{3}", table)


def test_host_list_shows_readable_cpu_model_credit_and_contact_time(
    admin: Client, rows: Any
) -> None:
    Host.objects.update(
        p_ncpus=12,
        p_model="Intel(R) Core(TM) i7-8700K CPU @ 3.70GHz [Family 6 Model 158 Stepping 10]",
        total_credit=1234567.890123,
        rpc_at=datetime(2026, 11, 22, 21, 4, 59, tzinfo=UTC),
    )
    page = admin.get(list_of(Host)).content.decode()
    for text in ("12 × Intel Core i7-8700K CPU @ 3.70GHz<", ">1,234,568<"):
        assert text in page
    assert 'title="2026-11-22 21:04:59 UTC"' in page


@pytest.mark.lengthy
def test_a_search_answers_within_the_query_budget(
    subtests: Any, admin: Client, rows: Any, django_assert_max_num_queries: Any
) -> None:
    for model in OWN:
        with subtests.test(model=model.__name__):
            for term in ("1", "w1", "#3", "9" * 40, "%", "\x00", "no such thing", ""):
                with django_assert_max_num_queries(SEARCH_BUDGET):
                    answer = admin.get(list_of(model), {"q": term})
                assert answer.status_code == 200, term
                assert answer.context["cl"].search_fields


@pytest.mark.lengthy
def test_every_filter_answers_within_the_query_budget(
    subtests: Any, admin: Client, rows: Any, django_assert_max_num_queries: Any
) -> None:
    for model in OWN:
        with subtests.test(model=model.__name__):
            for query in filters_of(admin, model):
                with django_assert_max_num_queries(QUERY_BUDGET):
                    answer = admin.get(list_of(model) + query)
                assert answer.status_code == 200, query


@pytest.mark.parametrize(
    ("model", "column"),
    [
        (Workunit, "release_state"),
        (Workunit, "assimilate_state"),
        (Workunit, "file_delete_state"),
        (Workunit, "answer"),
        (Result, "server_state"),
        (Result, "outcome"),
        (Result, "validate_state"),
        (Result, "file_delete_state"),
        (LedgerEntry, "axis"),
        (LedgerEntry, "because"),
        (LedgerEntry, "by"),
        (Batch, "state"),
    ],
)
def test_list_can_be_filtered_by_state(model: Any, column: str, admin: Client, rows: Any) -> None:
    assert any(column in query for query in filters_of(admin, model))


def test_a_search_finds_a_workunit_by_name_and_by_number(admin: Client, rows: Any) -> None:
    third = rows["workunits"][3]
    for term in ("w3", str(third.pk), f"#{third.pk}"):
        found = admin.get(list_of(Workunit), {"q": term}).context["cl"].result_list
        assert third in found


def test_ledger_search_finds_the_entries_of_one_workunit(admin: Client, rows: Any) -> None:
    for term in (rows["workunits"][2].name, str(rows["workunits"][2].pk)):
        found = admin.get(list_of(LedgerEntry), {"q": term}).context["cl"].result_list
        assert [entry.workunit_id for entry in found] == [rows["workunits"][2].pk]


def test_row_count_of_a_long_list_is_capped(
    admin: Client, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "MAX_LISTED_ROWS", 4)
    assert admin.get(list_of(Workunit)).context["cl"].result_count == 4


# Pages


def test_a_change_page_answers_within_the_query_budget(
    subtests: Any, admin: Client, rows: Any, django_assert_max_num_queries: Any
) -> None:
    for model in OWN:
        with subtests.test(model=model.__name__):
            row = model.objects.order_by("-pk").first()
            # An account's form offers all rights; a page with inlines reads their rows; the
            # explanation of a workunit's state reads many tables.
            with django_assert_max_num_queries(QUERY_BUDGET + 10):
                assert admin.get(page_of(row)).status_code == 200


def test_admin_cannot_add_change_or_delete_records_written_by_programs(
    subtests: Any, admin: Client, rows: Any
) -> None:
    for model in RECORDS:
        with subtests.test(model=model.__name__):
            row = model.objects.order_by("-pk").first()
            name = f"admin:scheduler_{model._meta.model_name}"
            assert admin.get(reverse(f"{name}_add")).status_code == 403
            assert admin.post(page_of(row), {"name": "x"}).status_code == 403
            assert (
                admin.post(reverse(f"{name}_delete", args=[row.pk]), {"post": "yes"}).status_code
                == 403
            )


def test_admin_cannot_delete_any_other_row(subtests: Any, admin: Client, rows: Any) -> None:
    for model in set(OWN) - DELETABLE:
        with subtests.test(model=model.__name__):
            row = model.objects.order_by("-pk").first()
            url = reverse(f"admin:scheduler_{model._meta.model_name}_delete", args=[row.pk])
            assert admin.post(url, {"post": "yes"}).status_code == 403
            assert model.objects.filter(pk=row.pk).exists()


def test_posted_states_of_workunits_and_results_are_ignored(admin: Client, rows: Any) -> None:
    workunit, result = rows["workunits"][0], rows["results"][0]
    admin.post(page_of(workunit), {"assimilate_state": 2, "release_state": 2, "error_mask": 1})
    admin.post(page_of(result), {"server_state": 5, "outcome": 1, "validate_state": 1})
    workunit.refresh_from_db()
    result.refresh_from_db()
    assert (workunit.assimilate_state, workunit.release_state, workunit.error_mask) == (0, 3, 0)
    assert (result.server_state, result.outcome, result.validate_state) == (4, 0, 0)


#: The form fields that a browser sends for the read-only part of a host's page.
NO_RECORDS = {"app_versions-TOTAL_FORMS": "0", "app_versions-INITIAL_FORMS": "0"}


def test_posted_credit_and_denial_of_a_host_are_ignored(admin: Client, rows: Any) -> None:
    host = Host.objects.first()
    answer = admin.post(
        page_of(host),
        NO_RECORDS | {"denied": "on", "max_in_progress": "3", "venue": "", "total_credit": "99"},
    )
    assert answer.status_code == 302
    host.refresh_from_db()
    assert (host.denied, host.max_in_progress, host.total_credit) == (False, 3, 0)


def test_form_updates_only_changed_columns(admin: Client, rows: Any) -> None:
    host = Host.objects.first()
    with CaptureQueriesContext(connection) as queries:
        admin.post(page_of(host), NO_RECORDS | {"max_in_progress": "3", "venue": ""})
    (update,) = [q["sql"] for q in queries if q["sql"].startswith('UPDATE "host"')]
    assert '"max_in_progress"' in update
    assert '"total_credit"' not in update


def form_of(client: Client, name: str, *args: Any) -> dict[str, Any]:
    """Return the form's initial values, as a browser would send them unchanged."""
    form = client.get(reverse(name, args=args)).context["adminform"].form
    values = {name: form[name].value() for name in form.fields}
    return {
        name: value for name, value in values.items() if value is not None and value is not False
    }


def test_app_form_refuses_unknown_validator_assimilator_or_options(admin: Client) -> None:
    for change, words in (
        ({"validator": "bitwize"}, "validator"),
        ({"assimilator": "nowhere"}, "There is no assimilator"),
        ({"assimilator_options": '{"x": 1}'}, "has no option"),
    ):
        fields = form_of(admin, "admin:scheduler_app_add") | {"name": "folding"} | change
        answer = admin.post(reverse("admin:scheduler_app_add"), fields)
        assert answer.status_code == 200
        assert words in str(answer.context["adminform"].form.errors)
    assert not App.objects.exists()


def test_app_form_has_every_field_and_help_text_for_all_but_three(admin: Client) -> None:
    form = admin.get(reverse("admin:scheduler_app_add")).context["adminform"].form
    plain = {"user_friendly_name", "credit_rule", "generator_options"}
    assert {name for name in form.fields if not form.fields[name].help_text} == plain
    assert set(form.fields) | {
        "created_at",
        "total_credit",
        "min_avg_pfc",
        "generator_state",
        "has_bundles",
        "id",
    } == {field.name for field in App._meta.concrete_fields}


def test_invalid_plan_class_spec_is_refused_on_the_form(admin: Client) -> None:
    url = reverse("admin:scheduler_planclass_add")
    refused = admin.post(url, {"name": "mt", "spec": '{"max_thread": 3}'})
    assert "max_threads" in str(refused.context["adminform"].form.errors["spec"])
    assert admin.post(url, {"name": "mt", "spec": '{"max_threads": 3}'}).status_code == 302
    assert models.PlanClass.objects.get().spec == {"max_threads": 3}


def test_outage_is_recorded_but_refused_if_it_ends_before_it_begins(
    admin: Client, now: datetime
) -> None:
    url = reverse("admin:scheduler_outage_add")
    day = now.date() - timedelta(days=2)
    fields = {"began_at": f"{day}T10:00", "reason": "disk", "confirmed": "yes"}
    refused = admin.post(url, {**fields, "ended_at": f"{day}T09:00"})
    assert refused.status_code == 422
    assert not models.Outage.objects.exists()
    assert admin.post(url, {**fields, "ended_at": f"{day}T11:00"}).status_code == 302
    assert models.Outage.objects.get().reason == "disk"


def test_app_created_in_the_admin_gets_a_creation_time(admin: Client) -> None:
    fields = form_of(admin, "admin:scheduler_app_add") | {"name": "folding"}
    answer = admin.post(reverse("admin:scheduler_app_add"), fields)
    assert answer.status_code == 302
    assert App.objects.get().created_at is not None


# The page of one workunit


@pytest.fixture
def lived(rows: dict[str, Any], now: datetime) -> Workunit:
    """Return a finished workunit whose ledger entries are not in chronological order."""
    workunit, result = rows["workunits"][0], rows["results"][0]
    LedgerEntry.objects.filter(workunit_id=workunit.pk).delete()
    by = Actor.SCHEDULER
    hour = timedelta(hours=1)
    moved(now + 2 * hour, workunit, result, Axis.RESULT, 40, 54, Because.DEADLINE_PASSED,
          by=Actor.TIMEOUT_CHECKER)  # fmt: skip
    moved(now, workunit, None, Axis.WORKUNIT, 0, 1, Because.SUBMITTED)
    moved(now + hour, workunit, result, Axis.RESULT, 20, 40, Because.SENT, by=by)
    return workunit


def test_the_timeline_is_chronological_and_uses_the_labels_of_moves(
    lived: Workunit, admin: Client
) -> None:
    events = admin.get(page_of(lived)).context["timeline"]
    assert [(event.source, event.target) for event in events] == [
        ("nothing", "OPEN"),
        ("UNSENT", "IN_PROGRESS"),
        ("IN_PROGRESS", "OVER/NO_REPLY"),
    ]
    assert [event.because for event in events] == ["submitted", "sent to a host", "deadline passed"]
    assert [event.by for event in events] == ["submitter", "scheduler", "timeout_checker"]
    assert [event.subject for event in events] == ["workunit", "result 0", "result 0"]
    assert [event.since_first for event in events] == ["", "+1 h", "+2 h"]


def test_workunit_page_shows_the_timeline_in_order(lived: Workunit, admin: Client) -> None:
    page = admin.get(page_of(lived)).content.decode()
    places = [page.index(words) for words in ("submitted", "sent to a host", "deadline passed")]
    assert places == sorted(places)
    assert page.index('id="timeline"') < places[0]


def test_result_page_shows_only_its_own_ledger_entries(
    lived: Workunit, rows: Any, admin: Client
) -> None:
    events = admin.get(page_of(rows["results"][0])).context["timeline"]
    assert [event.target for event in events] == ["IN_PROGRESS", "OVER/NO_REPLY"]


def test_ledger_entry_with_unknown_codes_is_shown_with_the_numbers() -> None:
    entry = LedgerEntry(axis=77, source=88, target=99, because=111, by=122)
    said = ("code 77", "code 88", "code 99", "code 111", "code 122")
    assert describe_move(entry) == said


def test_possible_next_states_are_those_the_transition_table_allows(rows: Any) -> None:
    workunit, result = rows["workunits"][0], rows["results"][0]
    found = history.possibilities(workunit, [result])
    assert {(p.axis, p.target) for p in found if p.subject == "result 0"} == {
        ("result", "IN_PROGRESS"),
        ("result", "OVER/SUCCESS"),
        ("result", "OVER/CLIENT_ERROR"),
        ("result", "OVER/CLIENT_DETACHED"),
        ("result", "OVER/NO_REPLY"),
    }
    assert ("release", "HELD") in {(p.axis, p.target) for p in found if p.subject == "workunit"}


def test_failed_result_has_no_possible_validation(rows: Any) -> None:
    result = rows["results"][0]
    result.server_state, result.outcome = ServerState.OVER, Outcome.CLIENT_ERROR
    result.validate_state = ValidateState.INVALID
    assert history.result_state(result) is ResultState.CLIENT_ERROR
    assert {p.axis for p in history.result_possibilities(result)} == {"result files"}


def test_workunit_page_shows_why_the_workunit_waits(rows: Any, admin: Client) -> None:
    workunit = rows["workunits"][0]
    assert "needed to validate" in admin.get(page_of(workunit)).content.decode()
    act(admin, "hold", workunit, confirmed="yes")
    assert "is held by staff" in admin.get(page_of(workunit)).content.decode()


def test_stderr_with_markup_is_shown_as_text(rows: Any, admin: Client) -> None:
    result = rows["results"][0]
    Result.objects.filter(pk=result.pk).update(stderr="<script>alert(1)</script>")
    assert "<script>alert" not in admin.get(page_of(result)).content.decode()


# Actions


def act(client: Client, action: str, *workunits: Any, **more: str) -> Any:
    chosen = {"action": action, "_selected_action": [workunit.pk for workunit in workunits]}
    return client.post(list_of(type(workunits[0])), chosen | more, follow=True)


def test_cancelling_shows_a_confirmation_page_with_counts(admin: Client, rows: Any) -> None:
    for chosen in (rows["workunits"][0], rows["batch"]):
        answer = act(admin, "cancel", chosen)
        assert "Really cancel?" in answer.content.decode()
        assert not Workunit.objects.exclude(cancel_requested_at=None).exists()
    assert dict(answer.context["counts"]) == {
        "workunits": 6,
        "not finished": 6,
        "unsent results": 0,
        "results in progress": 6,
    }


def test_accelerate_and_slow_down_actions_change_the_batch(admin: Client, rows: Any) -> None:
    shown_messages = messages_of(act(admin, "accelerate", rows["batch"], confirmed="yes"))
    assert shown_messages == ["all: 6 workunits and 0 unsent results have a new priority."]
    assert Batch.objects.get().accelerate
    act(admin, "slow_down", rows["batch"], confirmed="yes")
    assert not Batch.objects.get().accelerate
    refused = act(admin, "retire", rows["batch"], confirmed="yes")
    assert "cannot be retired" in messages_of(refused)[0]


def test_parked_science_failure_is_retried_or_dropped(admin: Client, rows: Any) -> None:
    first, second = models.ScienceFailure.objects.order_by("pk")[:2]
    answer = act(admin, "retry", first, confirmed="yes")
    assert messages_of(answer) == ["1 will be tried again."]
    assert not models.ScienceFailure.objects.filter(pk=first.pk).exists()
    assert messages_of(act(admin, "drop", second, confirmed="yes")) == ["1 were given up."]


@pytest.mark.parametrize("action", ["retry", "drop"])
def test_action_on_a_deleted_science_failure_reports_it(
    admin: Client, rows: Any, action: str
) -> None:
    gone, left = models.ScienceFailure.objects.order_by("pk")[:2]
    models.ScienceFailure.objects.filter(pk=gone.pk).delete()
    (message,) = messages_of(act(admin, action, gone))
    assert message == "The selected failures no longer exist."
    assert models.ScienceFailure.objects.filter(pk=left.pk).exists()


@pytest.fixture
def messages_of_the_outbox(now: datetime) -> list[models.OutboxMessage]:
    """A parked, a waiting and a sent message."""
    common = {"subject": "Welcome", "created_at": now, "text": "a link"}
    return [
        models.OutboxMessage.objects.create(recipient="a@example.org", parked_at=now, **common),
        models.OutboxMessage.objects.create(
            recipient="b@example.org", next_attempt_at=now + timedelta(hours=1), **common
        ),
        models.OutboxMessage.objects.create(
            recipient="c@example.org", sent_at=now, **(common | {"text": ""})
        ),
    ]


@pytest.mark.parametrize("action", ["retry", "drop"])
def test_an_action_on_messages_asks_first_and_names_those_that_were_not_sent(
    admin: Client, messages_of_the_outbox: Any, action: str
) -> None:
    answer = act(admin, action, *messages_of_the_outbox)
    page = answer.content.decode()
    assert f"Really {action}?" in page
    assert [name in page for name in ("a@example.org", "b@example.org", "c@example.org")] == [
        True,
        True,
        False,
    ]
    assert list(answer.context["counts"]) == [("messages", 2)]
    assert models.OutboxMessage.objects.filter(parked_at=None).count() == 2


def test_confirmed_actions_retry_and_drop_messages(
    admin: Client, messages_of_the_outbox: Any
) -> None:
    answer = act(admin, "retry", messages_of_the_outbox[0], confirmed="yes")
    assert messages_of(answer) == ["1 will be sent again."]
    assert not models.OutboxMessage.objects.exclude(parked_at=None).exists()
    answer = act(admin, "drop", *messages_of_the_outbox, confirmed="yes")
    assert messages_of(answer) == ["2 were dropped."]
    sent = models.OutboxMessage.objects.get()
    (message,) = messages_of(act(admin, "drop", sent, confirmed="yes"))
    assert message.startswith("No selected message is waiting or parked. Hint:")


def test_the_front_page_lists_what_needs_attention(admin: Client) -> None:
    page = admin.get(reverse("admin:index")).content.decode()
    assert "Needs attention" in page
    assert "No daemon has ever run here." in page


def test_host_page_shows_app_version_records_and_recent_scheduling_decisions(
    admin: Client, rows: Any
) -> None:
    host = Host.objects.order_by("pk").first()
    assert host
    Host.objects.filter(pk=host.pk).update(last_decisions=[{"refused": {"memory": 3}}])
    page = admin.get(page_of(host)).content.decode()
    assert "refused 3 for memory" in page
    assert "primes 1.00" in page


def test_confirmed_cancellation_calls_the_cancel_operation(
    admin: Client, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def spy(ids: list[int], **given: Any) -> Became:
        asked.append({"ids": ids, **given})
        return Became(changed=2, already=1, finished=0)

    monkeypatch.setattr(workunits.operations, "cancel_in_chunks", spy)
    chosen = rows["workunits"][1:3]
    answer = act(admin, "cancel", *chosen, confirmed="yes")
    assert asked[0]["ids"] == [workunit.pk for workunit in chosen]
    assert "Chief" in asked[0]["reason"]
    assert messages_of(answer) == ["2 are being cancelled, 1 already were."]


def test_cancelling_a_workunit_stores_the_time_of_the_request(admin: Client, rows: Any) -> None:
    workunit = rows["workunits"][1]
    act(admin, "cancel", workunit, confirmed="yes")
    workunit.refresh_from_db()
    assert workunit.cancel_requested_at is not None


def test_hold_and_release_are_recorded_in_the_ledger_with_staff_as_actor(
    admin: Client, rows: Any
) -> None:
    workunit = rows["workunits"][1]
    act(admin, "hold", workunit, confirmed="yes")
    workunit.refresh_from_db()
    assert workunit.release_state == ReleaseState.HELD
    act(admin, "release_again", workunit, confirmed="yes")
    workunit.refresh_from_db()
    assert workunit.release_state == ReleaseState.RELEASED
    moves = LedgerEntry.objects.filter(workunit_id=workunit.pk, axis=Axis.RELEASE)
    assert [entry.by for entry in moves.order_by("id")] == [Actor.STAFF, Actor.STAFF]


def test_cancelling_a_batch_cancels_all_its_workunits(admin: Client, rows: Any) -> None:
    act(admin, "cancel", rows["batch"], confirmed="yes")
    assert not Workunit.objects.filter(cancel_requested_at__isnull=True).exists()


def test_explain_action_shows_a_message_for_each_workunit(admin: Client, rows: Any) -> None:
    shown_messages = messages_of(act(admin, "explain", *rows["workunits"][:2]))
    assert [line.split(":")[0] for line in shown_messages] == ["w1", "w0"]
    assert all(len(line) > 10 for line in shown_messages)


def test_staff_without_the_right_to_change_workunits_cannot_cancel(
    rows: Any, now: datetime
) -> None:
    reader = accounts.create_staff(
        email="reader@example.org", password="reads a lot", now=now, is_superuser=False
    )
    reader.user_permissions.add(Permission.objects.get(codename="view_workunit"))
    client = Client()
    client.force_login(reader)
    act(client, "cancel", rows["workunits"][0], confirmed="yes")
    assert not Workunit.objects.filter(cancel_requested_at__isnull=False).exists()
    assert 'value="cancel"' not in client.get(page_of(rows["workunits"][0])).content.decode()


def test_deny_and_admit_actions_change_the_host(admin: Client, rows: Any) -> None:
    host = Host.objects.order_by("pk").first()
    act(admin, "deny", host, confirmed="yes", reason="wrong results")
    host.refresh_from_db()
    assert (host.denied, host.deny_reason) == (True, "wrong results")
    act(admin, "admit", host, confirmed="yes", reason="repaired")
    host.refresh_from_db()
    assert (host.denied, host.deny_reason) == (False, "")


# People


def test_login_accepts_the_email_in_any_case(chief: Account) -> None:
    client = Client()
    given = {"login": EMAIL.upper(), "password": PASSWORD, "next": reverse("admin:index")}
    assert client.post(reverse("account_login"), given)["Location"] == reverse("admin:index")
    assert client.get(reverse("admin:index")).status_code == 200


def test_login_refuses_a_wrong_password_and_non_staff_accounts(
    chief: Account, now: datetime
) -> None:
    accounts.create_staff(
        email="v@example.org", password="volunteers", now=now, is_staff=False, is_superuser=False
    )
    for email, password, status in ((EMAIL, "another", 200), ("v@example.org", "volunteers", 403)):
        client = Client()
        page = client.get(reverse("admin:index"), follow=True).request["PATH_INFO"]
        assert page == reverse("account_login")
        client.post(page, {"login": email, "password": password})
        assert client.get(reverse("admin:index"), follow=True).status_code == status


def test_list_redirects_anonymous_visitors(rows: Any, client: Client) -> None:
    assert client.get(list_of(Account)).status_code == 302


def test_password_set_by_staff_is_valid_for_client_login(admin: Client, now: datetime) -> None:
    person = accounts.create_staff(email="p@example.org", password="forgotten", now=now)
    url = reverse("admin:auth_user_password_change", args=[person.pk])
    assert admin.get(url).status_code == 200
    new = "remembered for good"
    answer = admin.post(url, {"password1": new, "password2": new, "set-password": "1"})
    assert answer.status_code == 302
    digest = accounts.password_digest(email="p@example.org", password=new)
    login = accounts.look_up(email="p@example.org", passwd_hash=digest, now=timezone.now())
    assert login is not None
    assert login.account == person


def test_mismatched_new_passwords_are_refused(admin: Client, chief: Account) -> None:
    url = reverse("admin:auth_user_password_change", args=[chief.pk])
    answer = admin.post(url, {"password1": "one of two", "password2": "two of two"})
    assert answer.status_code == 200
    assert Account.objects.get(pk=chief.pk).password == chief.password


def test_staff_stay_logged_in_after_changing_their_own_password(
    admin: Client, chief: Account
) -> None:
    url = admin.get(reverse("admin:password_change"))["Location"]
    given = {"password1": "a second password", "password2": "a second password"}
    refused = admin.post(url, {"oldpassword": "wrong", **given})
    assert refused.status_code == 200
    assert refused.context["form"].errors["oldpassword"]
    assert admin.post(url, {"oldpassword": PASSWORD, **given}).status_code == 302
    assert admin.get(reverse("admin:index")).status_code == 200
    assert Client().login(username=EMAIL, password="a second password")


def test_an_account_made_by_staff_can_log_in_from_a_client(admin: Client) -> None:
    given = {
        "email": "new@example.org",
        "name": "New",
        "password1": "long enough 7",
        "password2": "long enough 7",
    }
    assert admin.get(reverse("admin:scheduler_account_add")).status_code == 200
    answer = admin.post(reverse("admin:scheduler_account_add"), given)
    assert answer.status_code == 302
    digest = accounts.password_digest(email="new@example.org", password="long enough 7")
    login = accounts.look_up(email="new@example.org", passwd_hash=digest, now=timezone.now())
    assert login is not None
    assert not login.account.is_staff
    assert not login.account.is_superuser


def test_account_form_refuses_an_email_that_is_already_used(admin: Client) -> None:
    given = {"email": EMAIL.lower(), "name": "N", "password1": "long enough 7"}
    given["password2"] = given["password1"]
    answer = admin.post(reverse("admin:scheduler_account_add"), given)
    assert answer.status_code == 200
    assert "There is already an account" in answer.content.decode()


@pytest.mark.parametrize("name", ["<b>", "a\u202eb"])
def test_account_form_refuses_an_invalid_name(admin: Client, name: str) -> None:
    given = {"email": "new@example.org", "name": name, "password1": "long enough 7"}
    given["password2"] = given["password1"]
    answer = admin.post(reverse("admin:scheduler_account_add"), given)
    assert answer.status_code == 200
    assert "is not a name" in answer.content.decode()


def test_email_cannot_be_changed_because_the_password_hash_includes_it(
    admin: Client, chief: Account
) -> None:
    answer = admin.post(
        page_of(chief),
        {"email": "x@example.org", "name": "Renamed", "is_active": "on", "is_staff": "on",
         "is_superuser": "on"},
    )  # fmt: skip
    assert answer.status_code == 302
    chief.refresh_from_db()
    assert (chief.name, chief.email) == ("Renamed", EMAIL)


def test_moderator_can_rename_volunteers_but_cannot_grant_rights(now: datetime) -> None:
    clerk = accounts.create_staff(
        email="clerk@example.org", password="clerks work", now=now, is_superuser=False
    )
    roles.give(clerk, "moderator", now=now)
    volunteer = an_account("vera")
    client = Client()
    client.force_login(clerk)
    asked = {"name": "Renamed", "is_active": "on", "is_staff": "on", "is_superuser": "on"}
    client.post(page_of(volunteer), asked)
    volunteer.refresh_from_db()
    assert volunteer.name == "Renamed"
    assert (volunteer.is_staff, volunteer.is_superuser) == (False, False)
    assert client.post(page_of(clerk), asked).status_code == 403
    clerk.refresh_from_db()
    assert not clerk.is_superuser


# Submitters


def test_revoke_action_revokes_selected_api_tokens(admin: Client, rows: Any) -> None:
    token = models.ApiToken.objects.get(name="t0")
    answer = act(admin, "revoke", token, confirmed="yes")
    assert messages_of(answer) == ["1 tokens were revoked."]
    assert not api_tokens.of_account(token.account).filter(pk=token.pk).exists()


def test_submitter_page_shows_apps_and_limits(admin: Client, rows: Any) -> None:
    submitter = models.Submitter.objects.get()
    page = admin.get(page_of(submitter)).content.decode()
    assert "primes" in page
    assert "no limit" in page


def test_forbid_action_removes_submit_rights_but_keeps_the_share(admin: Client, rows: Any) -> None:
    submitter = models.Submitter.objects.get()
    models.Submitter.objects.update(share=3, all_apps=True)
    shown_messages = messages_of(act(admin, "forbid", submitter, confirmed="yes"))
    assert shown_messages == ["1 people may no longer submit."]
    submitter.refresh_from_db()
    assert (submitter.share, submitter.all_apps, submitter.apps.count()) == (3, False, 0)


@pytest.mark.parametrize("model", [models.ApiToken, models.Batch, models.Submitter])
def test_list_with_actions_contains_the_selection_counter(
    admin: Client, rows: Any, model: Any
) -> None:
    page = admin.get(list_of(model)).content.decode()
    assert 'class="action-counter"' in page, "the script of the page looks for it"


def test_the_lists_show_rights_in_words(admin: Client, rows: Any) -> None:
    assert "primes" in admin.get(list_of(models.Submitter)).content.decode()
    page = admin.get(list_of(models.ApiToken)).content.decode()
    assert "Select API token" in page
    assert ">read, submit<" in page or ">read<" in page


def audited(**details: Any) -> list[dict[str, Any]]:
    entries = models.AuditEntry.objects.filter(event="action_taken", **details).order_by("pk")
    return [entry.details for entry in entries]


def test_confirmed_action_is_in_the_audit_log_with_the_person_and_the_rows(
    admin: Client, rows: Any
) -> None:
    workunit = rows["workunits"][0]
    act(admin, "cancel", workunit)
    act(admin, "explain", workunit)
    assert audited() == [], "a preview and an explanation change nothing"
    act(admin, "cancel", workunit, confirmed="yes")
    path = list_of(Workunit) + f"?app__id__exact={workunit.app_id}"
    chosen = {"_selected_action": [workunit.pk], "select_across": "on", "confirmed": "yes"}
    admin.post(path, {"action": "hold", **chosen})
    act(admin, "hold", workunit, hold_code="seven")
    assert audited(actor=EMAIL, subject="workunits") == [
        {"action": "cancel", "ids": [workunit.pk], "more": False, "total": 1},
        {
            "action": "hold",
            "ids": [each.pk for each in rows["workunits"]],
            "more": False,
            "filter": f"app__id__exact={workunit.app_id}",
        },
        {"action": "hold", "ids": [workunit.pk], "more": False, "refused": True},
    ]


def test_action_that_the_user_may_not_take_is_not_in_the_audit_log(
    rows: Any, now: datetime
) -> None:
    account = an_account(email="rosa@example.org")
    roles.give(account, "read-only", now=now)
    client = Client()
    client.force_login(account)
    act(client, "cancel", rows["workunits"][0], confirmed="yes")
    assert audited() == []


def test_a_second_value_of_the_form_does_not_hide_an_action_from_the_audit_log(
    admin: Client, rows: Any
) -> None:
    workunit = rows["workunits"][0]
    act(admin, "hold", workunit, confirmed="yes")
    form = {"action": ["hold", "explain"], "index": "0", "_selected_action": [workunit.pk]}
    admin.post(list_of(Workunit), form | {"confirmed": "yes"})
    expected = {"action": "hold", "ids": [workunit.pk], "more": False}
    assert audited() == [expected, expected]


def test_action_without_selected_rows_is_not_in_the_audit_log(admin: Client, rows: Any) -> None:
    admin.post(list_of(Workunit), {"action": "hold"})
    assert audited() == []


def test_a_group_takes_the_same_number_of_statements_with_many_permissions(
    admin: Client, rows: Any
) -> None:
    with CaptureQueriesContext(connection) as queries:
        page = admin.get(page_of(Group.objects.get(name="operator")))
    assert page.status_code == 200
    assert "Can view" in page.content.decode()
    assert len(queries) <= 10


def test_checkbox_of_a_row_is_that_of_django():
    account = an_account(email="eve@example.org", name='Eve <b>"&')
    page = staff.get_model_admin(Account)
    assertHTMLEqual(page.action_checkbox(account), ModelAdmin.action_checkbox(page, account))


def test_page_of_a_workunit_does_not_count_failed_results(admin):
    workunit = a_workunit()
    with CaptureQueriesContext(connection) as queries:
        shown = admin.get(reverse("admin:scheduler_workunit_change", args=[workunit.pk]))
    assert shown.status_code == 200
    assert not [query for query in queries if "n_failed" in query["sql"]]
