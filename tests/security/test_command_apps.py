"""Apps of kind `command` run unsigned commands, and are off by default."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from scheduler.apps import apps
from scheduler.dispatch.rules import launching
from scheduler.health import alerts
from scheduler.models import App
from scheduler.work.explain import explanation_of_workunit
from scheduler.work.submission import submit
from scheduler.work.submission.facts import NewFile, NewOutput, NewWorkunit
from tests.conftest import NOON
from tests.scripted_client import a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db


def test_command_apps_are_disabled_by_default(settings) -> None:
    assert settings.PROJECT.command_apps is False


def test_creating_a_command_app_is_refused_with_a_hint() -> None:
    with pytest.raises(apps.BadApp, match=r"are disabled.* Hint: .*COMMAND_APPS=true"):
        apps.create(name="sh", kind="command", now=NOON)
    with pytest.raises(CommandError, match="COMMAND_APPS=true"):
        call_command("create_app", "sh", "--kind", "command")
    assert not App.objects.exists()


def test_changing_a_script_app_to_a_command_app_is_refused() -> None:
    app = apps.create(name="sum", kind="script", now=NOON)
    with pytest.raises(apps.BadApp, match="COMMAND_APPS=true"):
        apps.change(app, kind="command", now=NOON)


def test_admin_refuses_to_change_a_script_app_to_a_command_app(admin_client) -> None:
    app = apps.create(name="sum", kind="script", now=NOON)
    page = admin_client.get(f"/admin/scheduler/app/{app.pk}/change/")
    fields = page.context["adminform"].form.initial
    said = {name: "" if value is None else value for name, value in fields.items()}
    said |= {"kind": "command", "versions-TOTAL_FORMS": 0, "versions-INITIAL_FORMS": 0}
    answer = admin_client.post(f"/admin/scheduler/app/{app.pk}/change/", said)
    assert answer.status_code == 200
    assert "COMMAND_APPS=true" in str(answer.context["adminform"].form.errors["kind"])
    app.refresh_from_db()
    assert app.kind == "script"


def test_publishing_a_command_app_version_is_refused_with_a_hint(settings) -> None:
    settings.PROJECT = replace(settings.PROJECT, command_apps=True)
    apps.create(name="sh", kind="command", now=NOON)
    settings.PROJECT = replace(settings.PROJECT, command_apps=False)
    with pytest.raises(CommandError, match="COMMAND_APPS=true"):
        call_command("publish_app", "sh", "1.00")


def test_submitting_to_a_command_app_is_refused_with_a_hint() -> None:
    an_app("sh", kind="command")
    with pytest.raises(submit.SubmissionRefused, match="COMMAND_APPS=true"):
        submit.submit(app="sh", workunits=[NewWorkunit(command_line="id")], now=NOON)


@pytest.mark.parametrize("lost", [False, True])
def test_existing_work_of_a_command_app_is_neither_sent_nor_resent(settings, lost: bool) -> None:
    app = an_app("sh", kind="command")
    [workunit] = workunits(app, 1, command_line="id")
    client = a_client()
    if lost:
        settings.PROJECT = replace(settings.PROJECT, command_apps=True)
        assert len(client.ask_for_work()) == 1
        client.held.clear()
        settings.PROJECT = replace(settings.PROJECT, command_apps=False)
    reply = client.ask(cpu_req_secs=1.0)
    assert reply.results == reply.workunits == reply.app_versions == ()
    if not lost:
        reasons = explanation_of_workunit(workunit.pk, now=timezone.now()).reasons
        assert any("COMMAND_APPS=true" in reason for reason in reasons)


def test_alert_names_the_disabled_command_apps(settings) -> None:
    an_app("sh", kind="command")
    [alert] = [one for one in alerts.current(now=NOON) if one.kind == "command_apps_off"]
    assert "sh" in alert.sentence
    settings.PROJECT = replace(settings.PROJECT, command_apps=True)
    assert not [one for one in alerts.current(now=NOON) if one.kind == "command_apps_off"]


@pytest.mark.usefixtures("command_apps")
def test_command_app_work_is_sent_if_the_setting_is_on() -> None:
    workunits(an_app("sh", kind="command"), 1, command_line="id")
    [name] = a_client().ask_for_work()
    assert name.startswith("sh_")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("boinc_finish_called", "'boinc_finish_called' is not a name that a program can open"),
        ("init_data.xml", "'init_data.xml' is not a name that a program can open"),
        ("_launcher/to/0", "'_launcher/to/0' cannot be the name of an input or output"),
        ("IN", "The names 'in' and 'IN' cannot be in one folder"),
    ],
)
def test_file_names_that_the_launcher_refuses_are_refused_at_submission(
    name: str, reason: str
) -> None:
    an_app("sum", kind="script")
    new = NewWorkunit(
        input_files=(NewFile(open_name="in", content=b"1"),),
        outputs=(NewOutput(open_name=name),),
    )
    with pytest.raises(submit.BadWorkunits, match=reason):
        submit.submit(app="sum", workunits=[new], now=NOON)


def test_ordinary_file_names_are_not_refused() -> None:
    assert (
        launching.refused_names(["in", "data/in put", "-r", "out.log", ".hidden", "programs"]) == []
    )
