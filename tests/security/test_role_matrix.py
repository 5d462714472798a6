"""Each role can do exactly its actions in the admin, tested on the real pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduler.admin.site import staff
from scheduler.messages import news
from scheduler.models import (
    Account,
    AccountBadge,
    ApiToken,
    App,
    AppVersion,
    AuditEntry,
    Badge,
    Batch,
    CheckRun,
    Host,
    HostAppVersion,
    Letter,
    News,
    Outage,
    OutboxMessage,
    PlanClass,
    Queue,
    ScienceFailure,
    Submitter,
    SubmitterApp,
    Team,
    Workunit,
)
from scheduler.people import accounts, roles, submitters
from scheduler.rights import ROLES, Right
from tests.conftest import NOON
from tests.faces.apis import a_token
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, an_app_version, update

pytestmark = [pytest.mark.django_db, pytest.mark.lengthy]

NEW_PASSWORD = "a new long one 5"


@dataclass
class World:
    """A row of every table that a role could act on."""

    chief: Account
    colleague: Account
    volunteer: Account
    scientist: Account
    submits: Account
    app: App
    version: AppVersion
    batch: Batch
    workunit: Workunit
    host: Host
    submitter: Submitter
    token: ApiToken
    chiefs_token: ApiToken
    failure: ScienceFailure
    message: OutboxMessage
    group: Group
    team: Team
    news: News
    badge: Badge


def person(name: str) -> Account:
    """An account with keys and a password, and no right."""
    email = f"{name}@example.org"
    digest = accounts.password_digest(email=email, password="a long one 6")
    return accounts.create_account(
        email=email, passwd_hash=digest, name=name, now=timezone.now()
    ).account


@pytest.fixture
def world() -> World:
    now = timezone.now()
    make = accounts.create_staff
    chief = make(email="chief@example.org", password="a long one 8", now=now)
    colleague = make(
        email="colleague@example.org", password="a long one 8", now=now, is_superuser=False
    )
    scientist, app = person("scientist"), an_app("shout")
    an_account("rich", total_credit=5)
    submitter = submitters.allow(scientist, apps=[app], may_manage=True, now=now)
    submits = person("submits")
    submitters.allow(submits, apps=None, now=now)
    batch = Batch.objects.create(
        name="b", submitter=scientist, app=app, state=Batch.State.IN_PROGRESS, created_at=NOON
    )
    workunit = a_workunit(app, batch=batch)
    a_token(scientist)
    a_token(chief)
    return World(
        chief=chief,
        colleague=colleague,
        volunteer=person("vera"),
        scientist=scientist,
        submits=submits,
        app=app,
        version=an_app_version(app),
        batch=batch,
        workunit=workunit,
        host=a_host(an_account("owner")),
        submitter=submitter,
        token=scientist.api_tokens.get(),
        chiefs_token=chief.api_tokens.get(),
        failure=ScienceFailure.objects.create(
            stage=1, subject_id=workunit.pk, app=app, failures=5, error="x",
            failed_at=NOON, parked_at=NOON,
        ),
        message=OutboxMessage.objects.create(
            recipient="a@example.org", subject="x", created_at=NOON, parked_at=NOON
        ),
        group=Group.objects.create(name="own group"),
        team=Team.objects.create(name="team", created_at=NOON),
        news=News.objects.create(title="news", text="x", published_at=NOON),
        badge=Badge.objects.create(
            name="gold", title="Gold", rule=Badge.Rule.TOTAL_CREDIT, threshold=1, created_at=NOON,
            is_published=True,
        ),
    )  # fmt: skip


def page(row: Any) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


def submit(web: Client, url: str, **changes: Any) -> None:
    """Send a form as a browser would: with its current values, and these changes."""
    shown = web.get(url)
    data: dict[str, Any] = {}
    if shown.status_code == 200 and "adminform" in shown.context:
        form = shown.context["adminform"].form
        for name in form.fields:
            value = form[name].value()
            if value is True:
                data[name] = "on"
            elif value is not None and value is not False:
                data[name] = value
        for inline in shown.context["inline_admin_formsets"]:
            for each in (inline.formset.management_form, *inline.formset.initial_forms):
                data |= {
                    each.add_prefix(name): each[name].value()
                    for name in each.fields
                    if each[name].value() not in ("", None) and each[name].value() is not False
                }
    data |= changes
    web.post(url, {name: value for name, value in data.items() if value is not None})


def change_badge(web: Client, w: World) -> None:
    """Confirm a change of a badge in its preview, as a browser would."""
    form = {"name": "gold", "title": "Changed", "level": "0", "color": "#2b7a66", "threshold": "1"}
    answer = web.post(page(w.badge), form | {"is_published": "on"})
    if answer.status_code == 200:
        web.post(page(w.badge), {**answer.context["hidden"], "confirmed": "yes"})


def act(web: Client, action: str, row: Any, **more: str) -> Any:
    url = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_changelist")
    return web.post(url, {"action": action, "_selected_action": [row.pk], **more})


def add_app_row(web: Client, w: World) -> None:
    other = an_app("other")
    submit(
        web, page(w.submitter), **{
            "apps-TOTAL_FORMS": "2", "apps-1-app": other.pk, "apps-1-may_manage": "on",
            "apps-1-submitter": w.submitter.pk,
        },
    )  # fmt: skip


def move_app_row(web: Client, w: World) -> None:
    submit(web, page(w.submitter), **{"apps-0-app": an_app("other").pk})


def validate_again(web: Client, w: World) -> None:
    a_result(w.workunit, "inconclusive")
    act(web, "validate_again", w.workunit, confirmed="yes")


def validate_app_again(web: Client, w: World) -> None:
    a_result(w.workunit, "inconclusive")
    a_result(w.workunit)
    url = reverse("admin:scheduler_app_revalidate", args=[w.app.pk])
    web.post(url, {"at_most": "9", "previewed": "1", "confirmed": "yes"})


def clear_quotas(web: Client, w: World) -> None:
    HostAppVersion.objects.create(host=w.host, app_version=w.version, max_results_per_day=1)
    act(web, "clear_waits", w.host, confirmed="yes")


def retire(web: Client, w: World) -> None:
    Batch.objects.filter(pk=w.batch.pk).update(state=Batch.State.COMPLETE)
    act(web, "retire", w.batch, confirmed="yes")


def admit(web: Client, w: World) -> None:
    update(w.host, denied=True)
    act(web, "admit", w.host, confirmed="yes", reason="x")


def restore(web: Client, w: World) -> None:
    update(w.version, deprecated=True)
    act(web, "restore", w.version, confirmed="yes")


def unblock(web: Client, w: World) -> None:
    update(w.volunteer, is_active=False)
    act(web, "unblock", w.volunteer, confirmed="yes", reason="x")


def set_password(web: Client, account: Account) -> None:
    url = reverse("admin:auth_user_password_change", args=[account.pk])
    web.post(url, {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "set-password": "1"})


def has_new_password(account: Account) -> bool:
    account.refresh_from_db()
    return account.password != "!" and account.check_password(NEW_PASSWORD)


def fresh(row: Any) -> Any:
    return type(row).objects.get(pk=row.pk)


Try = Callable[[Client, World], Any]
Done = Callable[[World], Any]

#: Action -> function that tries it, function that checks it, and the roles that may do it.
TRIALS: dict[str, tuple[Try, Done, set[str]]] = {
    "cancel a workunit": (
        lambda web, w: act(web, "cancel", w.workunit, confirmed="yes"),
        lambda w: fresh(w.workunit).cancel_requested_at,
        {"operator"},
    ),
    "hold a workunit": (
        lambda web, w: act(web, "hold", w.workunit, confirmed="yes"),
        lambda w: fresh(w.workunit).release_state != w.workunit.release_state,
        {"operator"},
    ),
    "validate a workunit again": (
        validate_again,
        lambda w: fresh(w.workunit).revalidate_requested_at,
        {"operator"},
    ),
    "validate the workunits of an app again": (
        validate_app_again,
        lambda w: fresh(w.workunit).revalidate_requested_at,
        {"operator"},
    ),
    "cancel a batch": (
        lambda web, w: act(web, "cancel", w.batch, confirmed="yes"),
        lambda w: fresh(w.batch).state == Batch.State.ABORTED,
        {"operator"},
    ),
    "accelerate a batch": (
        lambda web, w: act(web, "accelerate", w.batch, confirmed="yes"),
        lambda w: fresh(w.batch).accelerate,
        {"operator"},
    ),
    "retire a batch": (
        retire,
        lambda w: fresh(w.batch).state == Batch.State.RETIRED,
        {"operator"},
    ),
    "retry parked science": (
        lambda web, w: act(web, "retry", w.failure, confirmed="yes"),
        lambda w: not ScienceFailure.objects.filter(parked_at__isnull=False).exists(),
        {"operator"},
    ),
    "give up parked science": (
        lambda web, w: act(web, "drop", w.failure, confirmed="yes"),
        lambda w: fresh(w.workunit).cancel_requested_at,
        {"operator"},
    ),
    "retry a message": (
        lambda web, w: act(web, "retry", w.message, confirmed="yes"),
        lambda w: not OutboxMessage.objects.filter(parked_at__isnull=False).exists(),
        {"operator"},
    ),
    "drop a message": (
        lambda web, w: act(web, "drop", w.message, confirmed="yes"),
        lambda w: not OutboxMessage.objects.exists(),
        {"operator"},
    ),
    "write a letter": (
        lambda web, w: submit(
            web, reverse("admin:scheduler_letter_add"), subject="News", text="Hi", recipients="1"
        ),
        lambda w: Letter.objects.exists(),
        {"operator"},
    ),
    "deny a host": (
        lambda web, w: act(web, "deny", w.host, confirmed="yes", reason="x"),
        lambda w: fresh(w.host).denied,
        {"operator", "moderator"},
    ),
    "admit a host": (
        admit,
        lambda w: not fresh(w.host).denied and w.host.denied,
        {"operator", "moderator"},
    ),
    "clear the quotas of a host": (
        clear_quotas,
        lambda w: HostAppVersion.objects.filter(max_results_per_day=0).exists(),
        {"operator", "moderator"},
    ),
    "limit a host": (
        lambda web, w: submit(web, page(w.host), max_in_progress="3"),
        lambda w: fresh(w.host).max_in_progress == 3,
        {"operator", "moderator"},
    ),
    "withdraw a version": (
        lambda web, w: act(web, "deprecate", w.version, confirmed="yes"),
        lambda w: fresh(w.version).deprecated,
        {"publisher"},
    ),
    "restore a version": (
        restore,
        lambda w: not fresh(w.version).deprecated and w.version.deprecated,
        {"publisher"},
    ),
    "publish news": (
        lambda web, w: submit(
            web, reverse("admin:scheduler_news_add"), title="New", text="x", confirmed="yes"
        ),
        lambda w: News.objects.filter(title="New").exists(),
        {"operator"},
    ),
    "change news": (
        lambda web, w: submit(
            web, page(w.news), title="Changed", text="x", confirmed="yes",
            seen=news.fingerprint(w.news),
        ),
        lambda w: fresh(w.news).title == "Changed",
        {"operator"},
    ),
    "withdraw news": (
        lambda web, w: act(web, "withdraw", w.news, confirmed="yes"),
        lambda w: fresh(w.news).withdrawn_at,
        {"operator"},
    ),
    "change a badge": (
        change_badge,
        lambda w: fresh(w.badge).title == "Changed",
        {"operator"},
    ),
    "assign a badge": (
        lambda web, w: act(web, "assign", w.badge, confirmed="yes"),
        lambda w: AccountBadge.objects.exists(),
        {"operator"},
    ),
    "change an app": (
        lambda web, w: submit(web, page(w.app), user_friendly_name="Renamed"),
        lambda w: fresh(w.app).user_friendly_name == "Renamed",
        {"publisher", "operator"},
    ),
    "set an app's validator": (
        lambda web, w: submit(web, page(w.app), validator="trivial"),
        lambda w: fresh(w.app).validator == "trivial",
        {"operator"},
    ),
    "set an app's weight": (
        lambda web, w: submit(web, page(w.app), weight="7"),
        lambda w: fresh(w.app).weight == 7,
        {"operator"},
    ),
    "add an app": (
        lambda web, w: submit(web, reverse("admin:scheduler_app_add"), name="added"),
        lambda w: App.objects.filter(name="added").exists(),
        {"publisher", "operator"},
    ),
    "add a plan class": (
        lambda web, w: submit(web, reverse("admin:scheduler_planclass_add"), name="pc", spec="{}"),
        lambda w: PlanClass.objects.filter(name="pc").exists(),
        {"publisher", "operator"},
    ),
    "add a queue": (
        lambda web, w: submit(web, reverse("admin:scheduler_queue_add"), name="q"),
        lambda w: Queue.objects.exists(),
        {"operator"},
    ),
    "record an outage": (
        lambda web, w: web.post(
            reverse("admin:scheduler_outage_add"),
            {"began_at": "2026-01-01T10:00", "ended_at": "2026-01-01T12:00", "reason": "x",
             "confirmed": "yes"},
        ),
        lambda w: Outage.objects.exists(),
        {"operator"},
    ),
    "request a check of the invariants": (
        lambda web, w: web.post(reverse("admin:upkeep"), {"check": "fsck"}),
        lambda w: CheckRun.objects.exists(),
        {"operator"},
    ),
    "forbid a submitter": (
        lambda web, w: act(web, "forbid", w.submitter, confirmed="yes"),
        lambda w: not SubmitterApp.objects.exists(),
        {"operator"},
    ),
    "let a submitter submit for every app": (
        lambda web, w: submit(web, page(w.submitter), all_apps="on"),
        lambda w: fresh(w.submitter).all_apps,
        {"operator"},
    ),
    "let a submitter publish another app": (
        add_app_row,
        lambda w: SubmitterApp.objects.filter(may_manage=True).count() > 1,
        set(),
    ),
    "move a submitter's right to publish": (
        move_app_row,
        lambda w: not SubmitterApp.objects.filter(app=w.app).exists(),
        set(),
    ),
    "revoke a token": (
        lambda web, w: act(web, "revoke", w.token, confirmed="yes"),
        lambda w: fresh(w.token).revoked_at,
        {"operator"},
    ),
    "revoke a superuser's token": (
        lambda web, w: act(web, "revoke", w.chiefs_token, confirmed="yes"),
        lambda w: fresh(w.chiefs_token).revoked_at,
        set(),
    ),
    "rename a volunteer": (
        lambda web, w: submit(web, page(w.volunteer), name="Renamed"),
        lambda w: fresh(w.volunteer).name == "Renamed",
        {"moderator"},
    ),
    "block a volunteer": (
        lambda web, w: act(web, "block", w.volunteer, confirmed="yes", reason="x"),
        lambda w: not fresh(w.volunteer).is_active,
        {"moderator"},
    ),
    "unblock a volunteer": (
        unblock,
        lambda w: fresh(w.volunteer).is_active and not w.volunteer.is_active,
        {"moderator"},
    ),
    "block a colleague": (
        lambda web, w: act(web, "block", w.colleague, confirmed="yes", reason="x"),
        lambda w: not fresh(w.colleague).is_active,
        set(),
    ),
    "block an app manager": (
        lambda web, w: act(web, "block", w.scientist, confirmed="yes", reason="x"),
        lambda w: not fresh(w.scientist).is_active,
        set(),
    ),
    "set a volunteer's password": (
        lambda web, w: set_password(web, w.volunteer),
        lambda w: has_new_password(w.volunteer),
        {"moderator"},
    ),
    "set an app manager's password": (
        lambda web, w: set_password(web, w.scientist),
        lambda w: has_new_password(w.scientist),
        set(),
    ),
    "set a submitter's password": (
        lambda web, w: set_password(web, w.submits),
        lambda w: has_new_password(w.submits),
        set(),
    ),
    "set a colleague's password": (
        lambda web, w: set_password(web, w.colleague),
        lambda w: has_new_password(w.colleague),
        set(),
    ),
    "set a superuser's password": (
        lambda web, w: set_password(web, w.chief),
        lambda w: has_new_password(w.chief),
        set(),
    ),
    "rename a superuser": (
        lambda web, w: submit(web, page(w.chief), name="Renamed"),
        lambda w: fresh(w.chief).name == "Renamed",
        set(),
    ),
    "make a volunteer a superuser": (
        lambda web, w: submit(web, page(w.volunteer), is_superuser="on", is_staff="on"),
        lambda w: fresh(w.volunteer).is_superuser or fresh(w.volunteer).is_staff,
        set(),
    ),
    "put a volunteer into a group": (
        lambda web, w: submit(web, page(w.volunteer), groups=[w.group.pk], user_permissions=[1]),
        lambda w: w.volunteer.groups.exists() or w.volunteer.user_permissions.exists(),
        set(),
    ),
    "change a group": (
        lambda web, w: submit(web, page(w.group), name="own group", permissions=[1, 2]),
        lambda w: w.group.permissions.exists(),
        set(),
    ),
    "delete a group": (
        lambda web, w: web.post(
            reverse("admin:auth_group_delete", args=[w.group.pk]), {"post": "yes"}
        ),
        lambda w: not Group.objects.filter(pk=w.group.pk).exists(),
        set(),
    ),
    "add an account": (
        lambda web, w: web.post(
            reverse("admin:scheduler_account_add"),
            {"email": "new@example.org", "name": "New", "password1": NEW_PASSWORD,
             "password2": NEW_PASSWORD},
        ),
        lambda w: Account.objects.filter(email="new@example.org").exists(),
        {"moderator"},
    ),
    "change a team": (
        lambda web, w: submit(web, page(w.team), country="NL"),
        lambda w: fresh(w.team).country == "NL",
        {"moderator"},
    ),
}  # fmt: skip
EVERYBODY = (*ROLES, "superuser", "no role")


def member(role: str) -> Account:
    account = accounts.create_staff(
        email="member@example.org",
        password="a long one 7",
        now=timezone.now(),
        is_superuser=role == "superuser",
    )
    if role in ROLES:
        roles.give(account, role, now=timezone.now())
    return Account.objects.get(pk=account.pk)


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.mark.parametrize("role", EVERYBODY)
def test_each_role_can_perform_exactly_its_admin_actions(role, world):
    account = member(role)
    wrong = []
    for name, (attempt, done, allowed) in TRIALS.items():
        with undone():
            web = Client()
            web.force_login(account)
            attempt(web, world)
            was_done = bool(done(world))
        if was_done != (role == "superuser" or role in allowed):
            wrong.append(f"{role} {'did' if was_done else 'could not'} {name}")
    assert not wrong, "; ".join(wrong)


@pytest.mark.parametrize("role", EVERYBODY)
def test_each_role_can_view_exactly_its_admin_lists(role, world):
    account = member(role)
    web = Client()
    web.force_login(account)
    wrong = []
    for model in staff._registry:
        label = f"{model._meta.app_label}_{model._meta.model_name}"
        status = web.get(reverse(f"admin:{label}_changelist")).status_code
        may_view = role == "superuser" or f"view_{model._meta.model_name}" in ROLES.get(role, ())
        if status != (200 if may_view else 403):
            wrong.append(f"{label}: {status}")
    assert not wrong, "; ".join(wrong)


@pytest.mark.parametrize("role", EVERYBODY)
def test_cancel_confirmation_page_is_shown_only_to_roles_that_can_cancel(role, world):
    web = Client()
    web.force_login(member(role))
    answer = act(web, "cancel", world.workunit)
    asked = answer.status_code == 200 and b"Yes, cancel them" in answer.content
    assert asked == (role in {"operator", "superuser"})


def test_flags_whose_change_has_a_preview_cannot_be_changed_by_a_form(world):
    web = Client()
    web.force_login(member("superuser"))
    submit(web, page(world.volunteer), is_active=None, name="Renamed")
    submit(web, page(world.host), denied="on", max_in_progress="3")
    submit(web, page(world.version), deprecated="on", beta="on")
    volunteer, host, version = fresh(world.volunteer), fresh(world.host), fresh(world.version)
    assert (volunteer.is_active, volunteer.name) == (True, "Renamed")
    assert (host.denied, host.max_in_progress) == (False, 3)
    assert (version.deprecated, version.beta) == (False, True)


def test_superuser_cannot_add_change_or_delete_audit_entries(world):
    web = Client()
    web.force_login(member("superuser"))
    entry = AuditEntry.objects.first()
    assert web.get(page(entry)).status_code == 200
    assert web.post(page(entry), {"actor": "x"}).status_code == 403
    assert web.get(reverse("admin:scheduler_auditentry_add")).status_code == 403
    url = reverse("admin:scheduler_auditentry_delete", args=[entry.pk])
    assert web.post(url, {"post": "yes"}).status_code == 403


def test_built_in_roles_cannot_be_changed_or_deleted_in_the_admin(world):
    web = Client()
    web.force_login(member("superuser"))
    group = Group.objects.get(name="read-only")
    before = set(group.permissions.values_list("pk", flat=True))
    assert web.post(page(group), {"name": "read-only", "permissions": []}).status_code == 403
    url = reverse("admin:auth_group_delete", args=[group.pk])
    assert web.post(url, {"post": "yes"}).status_code == 403
    assert set(group.permissions.values_list("pk", flat=True)) == before


def test_repeated_role_setup_repairs_only_the_built_in_roles(world):
    group = Group.objects.get(name="publisher")
    group.permissions.add(Permission.objects.get(codename="change_account"))
    Group.objects.get(name="moderator").delete()
    roles.set_up()
    found = set(group.permissions.values_list("codename", flat=True))
    assert found == ROLES["publisher"]
    assert Group.objects.filter(name="moderator").exists()
    assert not world.group.permissions.exists()


def test_every_right_is_a_permission_and_rights_are_read_in_one_query(django_assert_num_queries):
    codenames = set(Permission.objects.values_list("codename", flat=True))
    assert {right.value for right in Right} <= codenames
    account = member("operator")
    with django_assert_num_queries(1):
        assert account.has_right(Right.ADMINISTER_PROJECT)
        assert not account.has_right(Right.PUBLISH_VERSIONS)


def test_a_deactivated_account_has_no_right():
    account = member("superuser")
    account.is_active = False
    assert account.rights == frozenset()
