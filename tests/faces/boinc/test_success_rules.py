"""Success rules and launchers, from dispatch to the report."""

from __future__ import annotations

import pytest

from scheduler.lifecycle import Outcome
from scheduler.models import Result
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
