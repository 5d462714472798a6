"""The admin pages of apps check a publisher's changes, and hide secret options."""

from __future__ import annotations

import pytest
from django.utils import timezone

from scheduler.apps import apps
from scheduler.models import Account, App, AuditEntry, PlanClass, Platform
from scheduler.people import roles, submitters
from tests.conftest import NOON
from tests.faces.apis import a_program
from tests.rows import an_account, an_app
from tests.security.test_roles import admin_of

pytestmark = pytest.mark.django_db

SECRET = "hidden-treasure-of-the-webhook"
A_PATH = {"input_files": [{"open_name": "in", "path": "/etc/passwd"}]}


def browser_of(role: str):
    account = an_account(role)
    roles.give(account, role, now=timezone.now())
    return admin_of(Account.objects.get(pk=account.pk))


def form_of(page) -> dict[str, object]:
    """Return the fields that a browser would send from a page's form."""
    form = page.context["adminform"].form
    said = {name: form.get_initial_for_field(field, name) for name, field in form.fields.items()}
    return {
        name: value for name, value in said.items() if value is not None and value is not False
    } | {
        "workunit_defaults": "{}",
        "size_bounds": "[]",
    }


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"kind": "command"}, "kind"),
        ({"workunit_defaults": '{"no_such_field": 1}'}, "workunit_defaults"),
        ({"input_template": "<input_template><no_end>"}, "input_template"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_admin_form_refuses_invalid_app_fields_of_a_publisher(said, wrong):
    """A publisher sees the validator but cannot set it; the other fields are checked."""
    browser = browser_of("publisher")
    page = browser.get("/admin/scheduler/app/add/")
    form = form_of(page) | {"name": "sh", "user_friendly_name": "sh", **said}
    answer = browser.post("/admin/scheduler/app/add/", form)
    assert not App.objects.exists()
    assert wrong in answer.context["adminform"].form.errors


def test_a_publisher_writes_the_description_of_an_app_and_read_only_staff_does_not():
    app = an_app("primes")
    path = f"/admin/scheduler/app/{app.pk}/change/"
    browser = browser_of("publisher")
    form = form_of(browser.get(path)) | {"description": "Tests\r\nMersenne numbers."}
    assert browser.post(path, form).status_code == 302
    app.refresh_from_db()
    assert app.description.split() == ["Tests", "Mersenne", "numbers."]
    entry = AuditEntry.objects.get(event="app_changed")
    assert entry.actor == "publisher@example.org"
    assert "Description" in entry.details["changed"]
    answer = browser.post(path, form | {"description": "x" * 4001})
    assert "at most 4000 characters" in answer.content.decode()
    other = browser_of("read-only")
    assert other.post(path, form | {"description": "Wrong"}).status_code == 403
    app.refresh_from_db()
    assert "Mersenne" in app.description


def test_changes_of_plan_classes_and_platforms_are_in_the_audit_log():
    account = an_account("chief", is_staff=True, is_superuser=True)
    browser = admin_of(account)
    # Refused forms write no entry.
    answer = browser.post("/admin/scheduler/planclass/add/", {"name": "mt", "spec": "[]"})
    assert "It is not a JSON object" in answer.content.decode()
    browser.post("/admin/scheduler/planclass/add/", {"name": "mt", "spec": "{}"})
    platform = {"name": "vax", "user_friendly_name": "VAX"}
    browser.post("/admin/scheduler/platform/add/", platform)
    plan_class, row = PlanClass.objects.get(), Platform.objects.get(name="vax")
    spec = {"spec": '{"max_threads": 2}'}
    browser.post(f"/admin/scheduler/planclass/{plan_class.pk}/change/", spec)
    changed = platform | {"user_friendly_name": "VAX of DEC"}
    browser.post(f"/admin/scheduler/platform/{row.pk}/change/", changed)
    entries = AuditEntry.objects.filter(event__in=["plan_class_changed", "platform_changed"])
    assert {entry.actor for entry in entries} == {account.email}
    assert [(e.event, e.subject, e.details) for e in entries.order_by("pk")] == [
        ("plan_class_changed", "plan class mt", {"added": True}),
        ("platform_changed", "platform vax", {"added": True}),
        ("plan_class_changed", "plan class mt", {"changed": ["Spec"]}),
        ("platform_changed", "platform vax", {"changed": ["User friendly name"]}),
    ]


def test_a_publisher_can_create_a_script_app():
    browser = browser_of("publisher")
    form = form_of(browser.get("/admin/scheduler/app/add/"))
    form |= {"name": "sum", "user_friendly_name": "sum", "kind": "script"}
    answer = browser.post("/admin/scheduler/app/add/", form)
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    assert App.objects.get().kind == "script"


def test_workunit_defaults_with_a_server_file_path_are_refused():
    ada, app = an_account("ada"), an_app("sum")
    submitters.allow(ada, apps=[app], may_manage=True, now=NOON)
    program = a_program(ada, "read", "manage")
    answer = program.send("patch", "/apps/sum", {"workunit_defaults": A_PATH})
    assert answer.status_code == 422, answer.content
    with pytest.raises(apps.BadApp, match="path"):
        apps.create(name="more", workunit_defaults=A_PATH, now=NOON)


@pytest.mark.parametrize("role", ["read-only", "publisher"])
def test_webhook_secret_is_hidden_from_roles_that_cannot_set_it(role):
    options = {"url": "https://example.org/taken", "secret": SECRET}
    app = an_app("sum", assimilator="webhook", assimilator_options=options)
    browser = browser_of(role)
    page = browser.get(f"/admin/scheduler/app/{app.pk}/change/")
    assert page.status_code == 200
    assert b"webhook" in page.content
    assert SECRET.encode() not in page.content
    search = browser.get("/admin/scheduler/app/?assimilator_options__secret__startswith=h")
    assert search.status_code in (302, 400)


def test_app_page_shows_the_webhook_secret_to_a_superuser(admin_client):
    options = {"url": "https://example.org/taken", "secret": SECRET}
    app = an_app("sum", assimilator="webhook", assimilator_options=options)
    page = admin_client.get(f"/admin/scheduler/app/{app.pk}/change/")
    assert SECRET.encode() in page.content
