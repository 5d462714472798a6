"""Success rules and launchers, from dispatch to the report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.lifecycle import Outcome
from scheduler.models import Result, Workunit
from tests.scripted_client import a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db

LOUD = "<stderr_txt>\ncareful\n</stderr_txt>"


@pytest.mark.parametrize(
    ("rule", "said", "upload", "outcome"),
    [
        ("exit_code", {"stderr_out": LOUD}, b"1", Outcome.SUCCESS),
        ("exit_code", {"state": 3, "exit_status": 3}, b"1", Outcome.CLIENT_ERROR),
        ("empty_stderr", {"stderr_out": LOUD}, b"1", Outcome.CLIENT_ERROR),
        ("empty_stderr", {"state": 3, "exit_status": 3}, b"1", Outcome.SUCCESS),
        ("empty_stderr", {"state": 3, "exit_status": 3}, None, Outcome.CLIENT_ERROR),
        ("both", {"stderr_out": LOUD}, b"1", Outcome.CLIENT_ERROR),
        ("validator", {"state": 3, "exit_status": 9}, b"1", Outcome.SUCCESS),
        ("validator", {}, None, Outcome.CLIENT_ERROR),
    ],
)
def test_success_rule_of_the_app_decides_the_outcome_of_a_report(
    rule, said, upload, outcome
) -> None:
    workunits(an_app(success_rule=rule), 1)
    client = a_client()
    client.report(*client.ask_for_work(), upload=upload, **said)
    assert Result.objects.get().outcome == outcome


@pytest.mark.usefixtures("command_apps")
def test_launcher_command_line_contains_the_rule_file_names_and_shell_command() -> None:
    app = an_app(kind="command", success_rule="both")
    workunits(app, 1, command_line="sort <in >out && echo 'it is'")
    [workunit] = a_client().ask(cpu_req_secs=1.0).workunits
    assert workunit.command_line == (
        "rule=both in= out=out shell=sort%040%074in%040%076out%040%046%046%040echo%040"
        "%047it%040is%047 --"
    )


def test_native_app_gets_its_command_line_unchanged() -> None:
    workunits(an_app(), 1, command_line="--n 3 'a b'")
    [workunit] = a_client().ask(cpu_req_secs=1.0).workunits
    assert workunit.command_line == "--n 3 'a b'"


# Runners


def told(line: str) -> str:
    return f"<stderr_txt>\nmanyhands-runner: {line}\n</stderr_txt>"


@pytest.mark.parametrize(
    ("line", "status", "stdout", "outcome"),
    [
        ('{"status": 1, "stdout": "42", "stderr": "so"}', 1, "42", Outcome.SUCCESS),
        ('{"status": 77, "stdout": "", "stderr": "so"}', 77, "", Outcome.SUCCESS),
        ('{"status": 2, "stdout": "42", "stderr": "so"}', 2, "42", Outcome.CLIENT_ERROR),
        ('{"status": 0, "stderr": "so"}', 2, "", Outcome.CLIENT_ERROR),
        ('{"status": 1, "in_file": true, "stderr": "so"}', 1, None, Outcome.SUCCESS),
        ('{"status": 99999999999, "stderr": "so"}', 2, "", Outcome.CLIENT_ERROR),
        ('{"status": 1, "stdout": "\\ud800\\u0000x", "stderr": "so"}', 1, "?x", Outcome.SUCCESS),
    ],
)
def test_status_and_output_of_a_runner_are_stored(line, status, stdout, outcome) -> None:
    workunits(an_app(success_rule="runner"), 1)
    client = a_client()
    client.report(*client.ask_for_work(), stderr_out=told(line))
    row = Result.objects.get()
    assert (row.app_status, row.stdout, row.outcome) == (status, stdout, outcome)
    assert row.stderr == "<stderr_txt>\nso\n</stderr_txt>"


@pytest.mark.parametrize(
    "stderr_out",
    ["", LOUD, told("[" * 30_000), told('{"status": ' + "9" * 5000 + "}")],
    ids=["nothing", "no report", "deeply nested", "large number"],
)
def test_runner_without_a_readable_report_has_failed(stderr_out) -> None:
    workunits(an_app(success_rule="runner"), 1)
    client = a_client()
    client.report(*client.ask_for_work(), stderr_out=stderr_out)
    row = Result.objects.get()
    assert (row.app_status, row.outcome) == (2, Outcome.CLIENT_ERROR)


def test_other_apps_have_no_status_and_keep_the_line() -> None:
    workunits(an_app(), 1)
    client = a_client()
    client.report(*client.ask_for_work(), stderr_out=told('{"status": 7}'))
    row = Result.objects.get()
    assert (row.app_status, row.stdout) == (None, None)
    assert "manyhands-runner" in row.stderr


@pytest.mark.usefixtures("command_apps")
@pytest.mark.parametrize(
    ("storage", "limit", "word"),
    [("inline", 50, "inline=30000"), ("file", 50, "inline=0"), ("auto", 50, "inline=50")],
)
def test_setting_decides_where_the_output_of_a_runner_is_stored(
    settings, storage, limit, word
) -> None:
    settings.PROJECT = replace(
        settings.PROJECT, stdio_storage=storage, stdio_inline_bytes=limit, command_apps=True
    )
    workunits(an_app(kind="command", success_rule="runner"), 1, command_line="true")
    [workunit] = a_client().ask(cpu_req_secs=1.0).workunits
    assert word in workunit.command_line.split()
    assert "rule=runner" in workunit.command_line.split()


@pytest.mark.usefixtures("command_apps")
def test_runner_without_outputs_reports_inline(settings) -> None:
    settings.PROJECT = replace(settings.PROJECT, stdio_storage="file")
    [row] = workunits(an_app(kind="command", success_rule="runner"), 1, command_line="true")
    Workunit.objects.filter(pk=row.pk).update(outputs=[])
    [workunit] = a_client().ask(cpu_req_secs=1.0).workunits
    assert "inline=30000" in workunit.command_line.split()
