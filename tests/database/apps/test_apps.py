"""Creating apps of every kind, and publishing versions of them from a shell."""

from __future__ import annotations

import io
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from scheduler.apps import apps
from scheduler.apps.rules.packaging import UNIX_PLATFORMS
from scheduler.models import App, AppVersion

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
IMAGE = "docker.io/library/alpine@sha256:" + "0a" * 32
LINUX = "x86_64-pc-linux-gnu"


def run(*words: object) -> str:
    said = io.StringIO()
    call_command(*map(str, words), stdout=said)
    return said.getvalue()


def test_an_app_is_created_with_its_kind_and_rules() -> None:
    said = run(
        "create_app", "wave", "--kind", "script", "--success-rule", "both",
        "--workunit-defaults", '{"min_quorum": 2}', "--one-result-per", "host",
        "--description", "Looks for gravity waves.",
    )  # fmt: skip
    assert said.startswith("Created app wave of kind script.")
    app = App.objects.get()
    assert (app.kind, app.success_rule, app.user_friendly_name) == ("script", "both", "wave")
    assert app.description == "Looks for gravity waves."
    assert (app.workunit_defaults, app.one_result_per) == (
        {"outputs": ["out"], "min_quorum": 2},
        "host",
    )
    with pytest.raises(CommandError, match=r"There is an app 'wave' already\. Hint"):
        run("create_app", "wave")
    with pytest.raises(CommandError, match="is not a name for an app"):
        run("create_app", "../wave")
    with pytest.raises(CommandError, match="not a JSON object"):
        run("create_app", "other", "--workunit-defaults", "[1]")


def test_invalid_app_fields_are_refused_and_the_error_names_the_field() -> None:
    with pytest.raises(apps.BadApp, match=r"kind: .*'cobol'.*Hint: correct these"):
        apps.create(name="wave", kind="cobol", now=NOON)
    with pytest.raises(apps.BadApp, match="not a field that can be set"):
        apps.create(name="wave", now=NOON, colour="red")
    with pytest.raises(apps.BadApp, match=r"description: .* at most 4000 characters"):
        apps.create(name="wave", now=NOON, description="x" * 4001)
    with pytest.raises(apps.BadApp, match="app_numbers_make_sense"):
        apps.create(name="wave", now=NOON, weight=-1.0)
    assert not App.objects.exists()


@pytest.mark.usefixtures("command_apps")
def test_the_kind_of_an_app_with_versions_cannot_change_but_its_success_rule_can() -> None:
    app = apps.create(name="wave", kind="command", now=NOON)
    apps.change(app, now=NOON, kind="container")
    apps.change(app, now=NOON, kind="command")
    run("publish_app", "wave", "1.00", LINUX)
    with pytest.raises(apps.BadApp, match="it is command, and has versions"):
        apps.change(app, now=NOON, kind="script")
    assert apps.change(app, now=NOON, success_rule="validator").success_rule == "validator"


def test_publish_app_publishes_a_script_for_every_unix_platform(tmp_path: Path) -> None:
    path = tmp_path / "wave.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("run.sh", "#!/bin/sh\ncat $1\n")
    made = ["--create-app", "--kind", "script", "--success-rule", "empty_stderr"]
    said = run("publish_app", "wave", "1.00", "-", path, *made)
    assert said.count("Published wave 1.00 ") == len(UNIX_PLATFORMS)
    app = App.objects.get()
    assert (app.kind, app.success_rule) == ("script", "empty_stderr")
    assert "published already" in run("publish_app", "wave", "1.00", path), "the kind says for whom"
    again = json.loads(run("publish_app", "wave", "1.00", f"{LINUX},", path, *made, "--json"))
    assert not again["created"]
    assert [one["platform"] for one in again["versions"]] == [LINUX]
    with pytest.raises(CommandError, match=r"its kind is script, not command\. Hint"):
        run("publish_app", "wave", "1.00", "--create-app", "--kind", "command")
    with pytest.raises(CommandError, match="Hint: add --create-app"):
        run("publish_app", "wave", "1.00", "--kind", "script")


@pytest.mark.usefixtures("command_apps")
def test_publish_app_publishes_with_an_automatic_roll_back() -> None:
    made = ["--create-app", "--kind", "command", "--rollout-percent", "10"]
    for limit in ("-1", "100"):
        with pytest.raises(CommandError, match=f"The limit is {limit} %. Hint"):
            run("publish_app", "sh", "1.00", LINUX, *made, f"--max-error-percent={limit}")
    with pytest.raises(CommandError, match=r"The number of results is 0\. Hint"):
        run("publish_app", "sh", "1.00", LINUX, *made, "--min-rollback-results", "0")
    limits = ["--max-error-percent", "5", "--min-rollback-results", "20"]
    run("publish_app", "sh", "1.00", LINUX, *made, *limits)
    version = AppVersion.objects.get()
    assert (version.rollout_percent, version.max_error_percent) == (10, 5)
    assert version.min_rollback_results == 20


@pytest.mark.usefixtures("command_apps")
def test_publish_app_publishes_command_and_container_apps_without_files() -> None:
    made = ["--create-app", "--kind"]
    assert "with 1 file." in run("publish_app", "sh", "1.00", *made, "command")
    run("publish_app", "box", "1.00", LINUX, "--image", IMAGE, *made, "container")
    version = AppVersion.objects.get(app__name="box")
    assert (version.image, version.plan_class) == (IMAGE, "docker")
    with pytest.raises(CommandError, match="No image is named"):
        run("publish_app", "box", "1.01", LINUX)
    with pytest.raises(CommandError, match="runs no image"):
        run("publish_app", "sh", "1.01", "--image", IMAGE)
