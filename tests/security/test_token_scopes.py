"""A token grants the rights of its scopes, within the rights of its account."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from django.apps import apps as installed
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from scheduler import migrations
from scheduler.models import Account, ApiToken, App, Batch, Workunit
from scheduler.people import api_tokens, roles, submitters
from scheduler.rights import FORMER_STAFF, SCOPES, Right
from tests.faces.api.test_api_strangers import faults_of, said
from tests.faces.api_schema import Operation
from tests.faces.apis import ALL_SCOPES, Program, a_program
from tests.faces.owned import SHARED, everything
from tests.rows import a_workunit, an_account, an_app, an_app_version

pytestmark = pytest.mark.django_db

PROGRAM = b"#!/bin/sh\ncat in\n"


def member(role: str) -> Account:
    account = an_account(role)
    roles.give(account, role, now=timezone.now())
    return Account.objects.get(pk=account.pk)


def publish(program: Program, app: App, version: str = "1.00"):
    form = {"version": version, "file": SimpleUploadedFile("run.sh", PROGRAM)}
    return program.post(f"/api/v1/apps/{app.name}/versions", form)


@pytest.fixture
def shout() -> App:
    return an_app("shout", kind="script")


def scopes_but(*left_out: str) -> list[str]:
    return [scope for scope in ALL_SCOPES if scope not in left_out]


def test_publishing_requires_the_publish_scope(shout):
    chief = an_account("chief", is_superuser=True)
    refused = publish(a_program(chief, *scopes_but("publish")), shout)
    assert refused.status_code == 403
    assert "lacks the scope 'publish'" in refused.json()["detail"]
    assert "--scope publish" in refused.json()["hint"]
    assert publish(a_program(member("publisher"), "publish"), shout).status_code == 201


def test_revoking_a_token_revokes_the_tokens_it_created():
    """A thief cannot keep access through tokens created with a stolen token."""
    ada = an_account("ada")
    now = timezone.now()
    stolen, _ = api_tokens.create(account=ada, name="stolen", scopes=["read"], now=now)
    child, _ = api_tokens.create_by_token(stolen, name="child", scopes=["read"], now=now)
    grandchild, text = api_tokens.create_by_token(child, name="other", scopes=["read"], now=now)
    own, _ = api_tokens.create(account=ada, name="own", scopes=["read"], now=now)
    assert api_tokens.revoke(account=ada, token_id=stolen.pk, now=now)
    live = set(api_tokens.of_account(ada).values_list("pk", flat=True))
    assert live == {own.pk}
    assert api_tokens.recognize(text, now=now) is None
    with pytest.raises(api_tokens.TokenRefused, match="was revoked"):
        api_tokens.create_by_token(grandchild, name="late", scopes=["read"], now=now)


def test_roles_other_than_publisher_cannot_get_the_publish_scope(shout):
    for role in ("submitter", "operator", "moderator", "read-only"):
        with pytest.raises(api_tokens.TokenRefused):
            a_program(member(role), "publish")


def test_app_manager_can_publish_only_that_app_and_only_with_the_publish_scope(shout):
    ada = an_account("ada")
    submitters.allow(ada, apps=[shout], may_manage=True, now=timezone.now())
    assert publish(a_program(ada, "read", "submit"), shout).status_code == 403
    assert publish(a_program(ada, "manage"), shout).status_code == 403
    program = a_program(ada, "publish")
    assert publish(program, shout).status_code == 201
    assert publish(program, an_app("other", kind="script")).status_code == 403
    version = shout.versions.first()
    path, wish = f"/app-versions/{version.pk}", {"deprecated": True}
    assert a_program(ada, "manage").send("patch", path, wish).status_code == 403
    assert program.send("patch", path, wish).status_code == 200
    foreign = an_app_version(an_app("third"))
    assert program.send("patch", f"/app-versions/{foreign.pk}", wish).status_code == 403


def test_publish_scope_allows_template_changes_and_manage_scope_all_app_fields(shout):
    ada = an_account("ada")
    submitters.allow(ada, apps=[shout], may_manage=True, now=timezone.now())
    publisher, manager = a_program(ada, "publish"), a_program(ada, "manage")
    assert publisher.send("patch", "/apps/shout", {"input_template": ""}).status_code == 200
    assert publisher.send("patch", "/apps/shout", {"beta": True}).status_code == 403
    both = {"input_template": "", "beta": True}
    assert publisher.send("patch", "/apps/shout", both).status_code == 403
    assert manager.send("patch", "/apps/shout", both).status_code == 200
    assert manager.send("post", "/apps", {"name": "new"}).status_code == 403
    assert a_program(ada, "submit").send("patch", "/apps/shout", {"beta": True}).status_code == 403


@pytest.fixture
def anothers() -> Workunit:
    batch = Batch.objects.create(
        name="b",
        submitter=an_account("bob"),
        app=an_app(),
        state=Batch.State.IN_PROGRESS,
        created_at=timezone.now(),
    )
    return a_workunit(batch.app, batch=batch)


@pytest.mark.parametrize(
    ("scopes", "sees", "aborts"),
    [
        (["read", "submit"], 404, 404),
        (["read", "submit", "administer"], 200, 404),
        (["read", "manage"], 200, 200),
        (["manage"], 403, 200),
        (["administer"], 403, 403),
        (["submit"], 403, 404),
    ],
)
def test_scopes_decide_access_to_batches_of_other_accounts(anothers, scopes, sees, aborts):
    program = a_program(member("operator"), *scopes)
    path = f"/batches/{anothers.batch_id}"
    assert program.send("get", path).status_code == sees
    assert program.send("post", f"{path}/abort", {"reason": "x"}).status_code == aborts
    cancelled = program.send("post", f"/workunits/{anothers.pk}/cancel", {"reason": "x"})
    assert cancelled.status_code == aborts


def test_submit_token_cannot_create_a_batch_after_a_batch_of_another_account(anothers):
    operator = member("operator")
    wish = {"app": anothers.app.name, "after": anothers.batch_id}
    refused = a_program(operator, "read", "submit").send("post", "/batches", wish)
    assert refused.status_code == 422
    allowed = a_program(operator, "read", "submit", "manage").send("post", "/batches", wish)
    assert allowed.status_code == 201, allowed.content


def test_read_only_account_can_view_other_batches_but_change_nothing(anothers, shout):
    program = a_program(member("read-only"), "read", "submit", "administer")
    assert program.send("get", f"/batches/{anothers.batch_id}").status_code == 200
    for method, path, body in (
        ("post", f"/batches/{anothers.batch_id}/abort", {"reason": "x"}),
        ("post", "/workunits", {"app": "shout", "workunits": [{"outputs": ["out"]}]}),
        ("post", "/queues", {"name": "q"}),
        ("post", "/apps", {"name": "new"}),
        ("patch", "/apps/shout", {"beta": True}),
    ):
        assert program.send(method, path, body).status_code in {403, 404}, path
    assert publish(program, shout).status_code == 403


def test_token_of_a_demoted_account_loses_its_scopes_immediately():
    owned = everything("adasown", is_superuser=True)
    program = owned.program(*ALL_SCOPES)
    assert program.send("get", "/me").json()["scopes"] == list(SCOPES)
    Account.objects.filter(pk=owned.account.pk).update(is_superuser=False, is_staff=True)
    assert program.send("get", "/me").json()["scopes"] == ["read", "submit"]
    stranger = everything("bobsown")

    def judge(operation: Operation) -> None:
        if operation.scope in {"publish", "manage", "administer"}:
            answer = operation.call(program, owned)
            assert answer.status_code == 403, f"{answer.status_code} {said(answer)}"
        elif operation.method == "get" and operation.scope and operation.place not in SHARED:
            assert stranger.mark not in said(operation.call(program, stranger))

    assert faults_of(judge) == []


def test_each_role_can_get_only_its_own_scopes():
    granted = {}
    for role in ("submitter", "publisher", "operator", "moderator", "read-only"):
        account = member(role)
        granted[role] = roles.grantable_scopes(account)
        for scope in set(SCOPES) - set(granted[role]):
            with pytest.raises(api_tokens.TokenRefused, match=scope):
                a_program(account, scope)
    assert granted == {
        "submitter": ["read", "submit"],
        "publisher": ["read", "submit", "publish", "manage"],
        "operator": ["read", "submit", "manage", "administer"],
        "moderator": ["read", "submit"],
        "read-only": ["read", "submit", "administer"],
    }


def test_token_cannot_create_a_token_with_more_scopes():
    program = a_program(an_account("chief", is_superuser=True), "read", "publish")
    for scope in ("submit", "manage", "administer"):
        asked = {"name": "child", "scopes": ["read", scope]}
        assert program.send("post", "/tokens", asked).status_code == 403
    made = program.send("post", "/tokens", {"name": "child"})
    assert made.status_code == 201
    assert made.json()["scopes"] == ["read", "publish"]


def test_default_scopes_are_all_grantable_scopes_except_administer():
    assert api_tokens.default_scopes(an_account("chief", is_superuser=True)) == [
        "read", "submit", "publish", "manage",
    ]  # fmt: skip
    assert api_tokens.default_scopes(an_account("ada")) == ["read", "submit"]


def _migrate() -> None:
    [path] = Path(str(migrations.__file__)).parent.glob("*_roles.py")
    module = import_module(f"scheduler.migrations.{path.stem}")
    module.keep_what_people_may(installed, None)
    roles.set_up()


def test_migration_gives_existing_staff_all_former_rights_except_publishing(shout):
    clerk = an_account("clerk", is_staff=True)
    _migrate()
    clerk = Account.objects.get(pk=clerk.pk)
    assert roles.of_account(clerk) == [FORMER_STAFF]
    assert clerk.rights == {
        Right.SUBMIT_FOR_EVERY_APP,
        Right.EXCEED_SUBMISSION_LIMITS,
        Right.MANAGE_APPS,
        Right.MANAGE_OTHERS_BATCHES,
        Right.VIEW_EVERYTHING,
        Right.ADMINISTER_PROJECT,
    }
    assert not clerk.user_permissions.exists()


def test_migration_does_not_add_the_publish_scope_to_existing_tokens():
    chief = an_account("chief", is_superuser=True)
    for scopes in (["read", "submit"], ["read", "administer"], ["read", "submit", "administer"]):
        a_program(chief, *scopes)
    _migrate()
    kept = [api_tokens.scopes_of(token) for token in ApiToken.objects.order_by("pk")]
    assert kept == [
        ["read", "submit"],
        ["read", "administer"],
        ["read", "submit", "manage", "administer"],
    ]


def test_migration_converts_admin_permissions_to_rights():
    from django.contrib.auth.models import Group, Permission

    group = Group.objects.create(name="support")
    group.permissions.add(Permission.objects.get(codename="change_host"))
    clerk = an_account("clerk")
    clerk.groups.add(group)
    clerk.user_permissions.add(Permission.objects.get(codename="change_workunit"))
    _migrate()
    assert Account.objects.get(pk=clerk.pk).rights == {
        Right.ADMINISTER_HOSTS,
        Right.MANAGE_OTHERS_BATCHES,
    }
