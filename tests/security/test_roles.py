"""`is_staff` only opens the admin site; accounts give only their own rights."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduler.models import Account, App
from scheduler.people import accounts, api_tokens
from tests.faces.apis import a_program
from tests.rows import an_account, an_app

pytestmark = pytest.mark.django_db

PROGRAM = b"#!/bin/sh\ncat in\n"


def staff_member(name: str = "clerk", *codenames: str) -> Account:
    """Create a member of staff without superuser status, with some of Django's permissions."""
    account = accounts.create_staff(
        email=f"{name}@example.org", password="a long one 7", now=timezone.now(), is_superuser=False
    )
    account.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    return Account.objects.get(pk=account.pk)


def admin_of(account: Account) -> Client:
    client = Client()
    client.force_login(account)
    return client


@pytest.fixture
def chief() -> Account:
    return accounts.create_staff(
        email="chief@example.org", password="a long one 8", now=timezone.now()
    )


def test_staff_flag_alone_does_not_allow_publishing():
    app = an_app("shout", kind="script")
    program = a_program(an_account("clerk", is_staff=True), "read", "submit")
    form = {"version": "1.00", "file": SimpleUploadedFile("run.sh", PROGRAM)}
    answer = program.post(f"/api/v1/apps/{app.name}/versions", form)
    assert answer.status_code == 403, answer.content
    assert not app.versions.exists()


def test_staff_flag_alone_does_not_allow_creating_an_app():
    program = a_program(an_account("clerk", is_staff=True), "read", "submit")
    assert program.send("post", "/apps", {"name": "new"}).status_code == 403
    assert not App.objects.exists()


def test_staff_flag_alone_does_not_allow_submitting_work():
    an_app("shout")
    program = a_program(an_account("clerk", is_staff=True), "read", "submit")
    body = {"app": "shout", "workunits": [{"outputs": ["out"]}]}
    assert program.send("post", "/workunits", body).status_code == 403


def test_staff_flag_alone_does_not_allow_a_token_with_the_administer_scope():
    with pytest.raises(api_tokens.TokenRefused):
        api_tokens.create(
            account=an_account("clerk", is_staff=True),
            name="t",
            scopes=["administer"],
            now=timezone.now(),
        )


EVERY_ACCOUNT_RIGHT = (
    "view_account", "add_account", "change_account", "delete_account",
    "view_group", "add_group", "change_group", "delete_group", "moderate_people",
)  # fmt: skip


@pytest.mark.parametrize("is_superuser", [True, False])
def test_only_a_superuser_can_set_the_password_of_staff(chief, is_superuser):
    target = chief if is_superuser else staff_member("other")
    clerk = staff_member("clerk", *EVERY_ACCOUNT_RIGHT)
    url = reverse("admin:auth_user_password_change", args=[target.pk])
    new = {"password1": "taken over 9", "password2": "taken over 9", "set-password": "1"}
    assert admin_of(clerk).post(url, new).status_code == 403
    assert Account.objects.get(pk=target.pk).password == target.password


def test_only_a_superuser_can_change_a_superuser(chief):
    clerk = staff_member("clerk", *EVERY_ACCOUNT_RIGHT)
    url = reverse("admin:scheduler_account_change", args=[chief.pk])
    assert admin_of(clerk).post(url, {"name": "Renamed"}).status_code == 403
    chief.refresh_from_db()
    assert (chief.name, chief.is_active) == ("chief", True)


def test_only_a_superuser_can_add_or_change_a_group():
    clerk = staff_member("clerk", *EVERY_ACCOUNT_RIGHT)
    group = Group.objects.create(name="mine")
    clerk.groups.add(group)
    everything = [one.pk for one in Permission.objects.all()]
    web = admin_of(clerk)
    url = reverse("admin:auth_group_change", args=[group.pk])
    assert web.post(url, {"name": "mine", "permissions": everything}).status_code == 403
    add = reverse("admin:auth_group_add")
    assert web.post(add, {"name": "new", "permissions": everything}).status_code == 403
    assert not group.permissions.exists()
    assert not Group.objects.filter(name="new").exists()


def test_only_a_superuser_can_create_a_staff_account():
    clerk = staff_member("clerk", *EVERY_ACCOUNT_RIGHT)
    form = {"email": "new@example.org", "name": "New", "password1": "long enough 7",
            "password2": "long enough 7", "is_staff": "on"}  # fmt: skip
    answer = admin_of(clerk).post(reverse("admin:scheduler_account_add"), form)
    assert answer.status_code == 302, answer.content
    assert not Account.objects.get(email="new@example.org").is_staff
