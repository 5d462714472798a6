"""No number from a volunteer makes another request, a pass or a page fail."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.db import IntegrityError, connection

from scheduler.boinc.wire import messages
from scheduler.models import Host, Result, Submitter, Workunit
from scheduler.sql import fetch_one
from scheduler.work.submission.submit import NewOutput, NewWorkunit, submit
from tests.conftest import NOON
from tests.rows import an_account
from tests.scripted_client import a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db

WORST_SPEEDS = (1e200, 1e308, -1e308, 5e-324)


def attach(email: str, **fields):
    """Attach a new host whose `HostInfo` has these fields; return its client."""
    client = a_client(email)
    client.ask(host_info=messages.HostInfo(domain_name=email, **fields))
    return client


def submit_one(app) -> None:
    outputs = (NewOutput(open_name="out", max_nbytes=9),)
    submit(app=app.name, workunits=[NewWorkunit(outputs=outputs)], now=NOON)


@pytest.mark.parametrize("p_fpops", WORST_SPEEDS)
def test_extreme_speed_of_one_host_does_not_stop_submissions(p_fpops):
    app = an_app()
    attach("good@example.org", p_fpops=1e9, p_ncpus=4)
    attach("bad@example.org", p_fpops=p_fpops, p_ncpus=2**31 - 1)
    submit_one(app)
    assert Workunit.objects.count() == 1


@pytest.mark.parametrize(
    ("state", "stored"),
    [(-1, 0), (7, 7), (8, 7), (100, 7), (70_000, 7), (-70_000, 0), (2**31 - 1, 7), (-(2**31), 0)],
)
def test_reported_client_state_is_clamped_to_0_through_7(state, stored):
    workunits(an_app(), 1)
    client = a_client()
    client.ask()
    (name,) = client.ask_for_work()
    client.report(name, state=state)
    result = Result.objects.get(name=name)
    assert (result.outcome, result.client_state) == (3, stored)


@pytest.mark.parametrize("state", [-1, 8])
def test_database_refuses_a_client_state_outside_0_through_7(state):
    workunits(an_app(), 1)
    client = a_client()
    client.ask()
    (name,) = client.ask_for_work()
    with pytest.raises(IntegrityError, match="result_client_state_is_named_by_the_law"):
        Result.objects.filter(name=name).update(client_state=state)


def test_migration_clamps_client_states_before_it_adds_the_constraint():
    workunits(an_app(), 1)
    client = a_client()
    client.ask()
    (name,) = client.ask_for_work()
    move, _field, check = import_module(
        "scheduler.migrations.0011_client_states"
    ).Migration.operations
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
        cursor.execute(f"ALTER TABLE result DROP CONSTRAINT {check.constraint.name}")
        Result.objects.filter(name=name).update(client_state=42)
        for statement in move.sql:
            cursor.execute(statement)
        with connection.schema_editor() as editor:
            editor.add_constraint(Result, check.constraint)
    assert Result.objects.get(name=name).client_state == 7


@pytest.mark.parametrize("field", ["core_client_major_version", "core_client_release"])
def test_extreme_client_version_does_not_overflow(field):
    client = a_client()
    client.ask(**{field: 2**31 - 1})
    assert Host.objects.get().client_version < 2**31


def test_reported_disk_and_swap_sizes_are_clamped():
    workunits(an_app(), 1)
    client = a_client()
    client.ask()
    (name,) = client.ask_for_work()
    client.report(name, final_peak_disk_usage=1e308, final_peak_swap_size=-1e308)
    result = Result.objects.get(name=name)
    assert (result.peak_disk_bytes, result.peak_swap_bytes) == (1e18, 0)


def test_denied_hosts_and_outliers_do_not_change_the_project_speed():
    app = an_app()
    for number in range(5):
        attach(f"good{number}@example.org", p_fpops=2e9, p_ncpus=1)
    for number in range(2):
        attach(f"bad{number}@example.org", p_fpops=1e14, p_ncpus=65_536)
    for number in range(20):
        attach(f"denied{number}@example.org", p_fpops=1e14, p_ncpus=65_536)
    Host.objects.filter(domain_name__startswith="denied").update(denied=True)
    # The statements use the planner's number of rows, which tests of plans change.
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE host")
    row = fetch_one("work/submission/read_submission_target", {"app": app.name, "hosts": 100})
    assert (row["fpops"], row["hosts"]) == (2e9, 7)
    submitter = an_account("scientist")
    Submitter.objects.create(account=submitter, created_at=NOON, logical_start_at=NOON)
    row = fetch_one("work/lock_submitter", {"account_id": submitter.pk, "hosts": 100})
    assert row["fpops"] == 7 * 2e9
