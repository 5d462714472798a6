"""Queues over the API: fields, refusals, rights, and submissions to a queue."""

from __future__ import annotations

from datetime import timedelta

import pytest

from daemons import transitioner
from scheduler.lifecycle import Target
from scheduler.models import Account, AuditEntry, Queue, QueueSlot, Result, Workunit
from scheduler.people import roles, submitters
from scheduler.queues.facts import FOREVER
from tests.conftest import NOON
from tests.database.passes import a_pass, statements_of
from tests.faces.apis import ALL_SCOPES, Program, a_program
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, an_app_version

pytestmark = pytest.mark.django_db

SETTINGS = {
    "max_in_progress": 3,
    "order": "lifo",
    "priority_group": -2,
    "disabled_until": "2031-01-01T00:00:00Z",
    "max_new_per_claim": 5,
    "max_new_per_host": 2,
    "trusted": True,
    "time_zone": "Europe/Berlin",
    "schedule": [
        {"at": "* 07:00", "max_in_progress": 10},
        {"at": "1 18:30", "max_in_progress": None},
    ],
}


@pytest.fixture
def staff() -> Program:
    return a_program(an_account("chief", is_superuser=True), *ALL_SCOPES)


@pytest.fixture
def ada() -> Account:
    account = an_account("ada")
    submitters.allow(account, apps=None, now=NOON)
    return account


def test_every_setting_is_stored_and_shown(staff: Program) -> None:
    host = a_host()
    lists = {"allowed_hosts": [host.pk], "denied_accounts": [host.account_id]}
    created = staff.send("post", "/queues", {"name": "lane", **SETTINGS, **lists})
    assert created.status_code == 201
    expected = SETTINGS | lists | {"allowed_accounts": [], "denied_hosts": [], "app": None}
    for queue in (created.json(), staff.send("get", "/queues/lane").json()):
        assert expected.items() <= queue.items()
    assert QueueSlot.objects.count() == 3
    changed = staff.send("patch", "/queues/lane", {"max_in_progress": 1, "schedule": []})
    assert changed.json()["schedule"] == []
    assert changed.json()["order"] == "lifo"
    assert QueueSlot.objects.count() == 1


@pytest.mark.parametrize(
    ("fields", "pointer", "text"),
    [
        ({"max_in_progress": 100_001}, "/max_in_progress", "100000"),
        ({"max_new_per_claim": 0}, "/max_new_per_claim", "1"),
        ({"max_new_per_host": 0}, "/max_new_per_host", "1"),
        ({"priority_group": 40_000}, "/priority_group", "32767"),
        ({"disabled_until": "tomorrow"}, "/disabled_until", ""),
        ({"allowed_hosts": [1, "a"]}, "/allowed_hosts/1", "number"),
        ({"order": "random"}, "/order", "give one of priority, fifo, lifo."),
        ({"name": "my lane"}, "/name", "use letters, digits, - . and _"),
        ({"schedule": [{"at": "* 7:00", "max_in_progress": 5}]}, "/schedule", "weekday"),
        ({"schedule": [{"at": "* 07:00"}]}, "/schedule", "required"),
        ({"schedule": "* 07:00"}, "/schedule", "list"),
    ],
)
def test_a_bad_field_is_refused_with_a_pointer(
    staff: Program, fields: dict[str, object], pointer: str, text: str
) -> None:
    answer = staff.send("post", "/queues", {"name": "lane", **fields})
    assert answer.status_code == 400
    [error] = answer.json()["errors"]
    assert error["pointer"].startswith(pointer)
    assert text in error["detail"] + error.get("hint", "")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"denied_hosts": [999]}, "unknown_listed"),
        ({"time_zone": "Mars"}, "bad_schedule"),
        (
            {"schedule": [{"at": "* 07:00", "max_in_progress": limit} for limit in (1, 2)]},
            "bad_schedule",
        ),
    ],
)
def test_values_that_cannot_be_stored_are_refused_with_a_hint(
    staff: Program, fields: dict[str, object], code: str
) -> None:
    answer = staff.send("post", "/queues", {"name": "lane", **fields})
    assert answer.status_code == 422
    assert answer.json()["code"] == code
    assert answer.json()["hint"]


def test_an_app_is_refused_while_work_of_another_app_waits(staff: Program) -> None:
    queue = Queue.objects.create(name="lane", created_at=NOON)
    workunit = a_workunit(an_app("primes"), queue=queue)
    a_result(workunit, target_kind=Target.QUEUE, target_id=queue.pk)
    an_app("other")
    answer = staff.send("patch", "/queues/lane", {"app": "other"})
    assert answer.status_code == 409
    assert answer.json()["code"] == "queue_of_other_app"


def test_a_queue_with_infinite_deadlines_stays_trusted(staff: Program) -> None:
    queue = Queue.objects.create(name="lab", trusted=True, created_at=NOON)
    a_workunit(queue=queue, delay_bound=FOREVER)
    answer = staff.send("patch", "/queues/lab", {"trusted": False})
    assert (answer.status_code, answer.json()["code"]) == (409, "queue_has_infinite_deadlines")
    assert answer.json()["hint"] == "wait until they are finished, or cancel them."


@pytest.mark.parametrize("method", ["get", "patch", "delete"])
def test_an_unknown_queue_is_named_with_a_hint(staff: Program, method: str) -> None:
    answer = staff.send(method, "/queues/lan", {} if method == "patch" else None)
    assert (answer.status_code, answer.json()["detail"]) == (404, "There is no queue 'lan'.")
    assert "scientist queue list" in answer.json()["hint"]


def test_the_list_shows_counts_with_a_constant_number_of_statements(
    staff: Program, django_assert_max_num_queries
) -> None:
    for number in range(5):
        queue = Queue.objects.create(name=f"lane{number}", created_at=NOON)
        for word in ("unsent", "unsent", "sent", "success"):
            a_result(a_workunit(queue=queue), word, target_kind=Target.QUEUE, target_id=queue.pk)
    with django_assert_max_num_queries(5):
        queues = staff.send("get", "/queues").json()["results"]
    assert [(queue["unsent"], queue["in_progress"]) for queue in queues] == [(2, 1)] * 5
    [queue] = staff.send("get", "/queues?name=lane3").json()["results"]
    assert queue["name"] == "lane3"


def test_lists_of_hosts_are_shown_only_to_those_who_see_all_hosts(
    staff: Program, ada: Account
) -> None:
    host = a_host()
    staff.send("post", "/queues", {"name": "lane", "allowed_hosts": [host.pk]})
    program = a_program(ada)
    assert program.send("get", "/queues/lane").json()["allowed_hosts"] is None
    [queue] = program.send("get", "/queues").json()["results"]
    assert queue["allowed_hosts"] is None
    assert staff.send("get", "/queues/lane").json()["allowed_hosts"] == [host.pk]


@pytest.mark.parametrize("scopes", [("read", "submit"), ("read", "manage")])
def test_only_the_scope_administer_changes_queues(ada: Account, scopes: tuple[str, ...]) -> None:
    Queue.objects.create(name="lane", created_at=NOON)
    roles.give(ada, "operator", now=NOON)
    program = a_program(ada, *scopes)
    assert program.send("post", "/queues", {"name": "q"}).status_code == 403
    assert program.send("patch", "/queues/lane", {"max_in_progress": 0}).status_code == 403
    assert program.send("delete", "/queues/lane").status_code == 403
    assert Queue.objects.get().max_in_progress is None


# Submissions


def submit(program: Program, **fields: object) -> object:
    workunit = {"outputs": ["out"], **fields}
    return program.send("post", "/workunits", {"app": "primes", "workunits": [workunit]})


@pytest.fixture
def primes() -> None:
    an_app_version(an_app("primes"))


def test_a_workunit_is_submitted_to_a_queue(primes: None, ada: Account) -> None:
    queue = Queue.objects.create(name="lane", created_at=NOON)
    program = a_program(ada)
    assert submit(program, queue="lane").status_code == 201
    workunit = Workunit.objects.get()
    assert workunit.queue == queue
    assert program.send("get", f"/workunits/{workunit.pk}").json()["queue"] == "lane"
    a_pass(transitioner, now=workunit.created_at + timedelta(seconds=1))
    [result] = Result.objects.all()
    assert (result.target_kind, result.target_id) == (Target.QUEUE, queue.pk)


def test_a_workunit_without_a_queue_goes_to_every_host(primes: None, ada: Account) -> None:
    program = a_program(ada)
    assert submit(program).status_code == 201
    workunit = Workunit.objects.get()
    assert program.send("get", f"/workunits/{workunit.pk}").json()["queue"] is None
    a_pass(transitioner, now=workunit.created_at + timedelta(seconds=1))
    [result] = Result.objects.all()
    assert result.target_kind == Target.EVERYBODY


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"queue": "lan"}, "There is no queue 'lan'."),
        ({"queue": "other"}, "accepts only work of app other"),
        ({"queue": "lane", "target_host": 1}, "both the queue lane and a target"),
        ({"queue": "lane", "delay_bound_seconds": "inf"}, "only trusted queues allow"),
        ({"queue": 7}, "queue"),
    ],
)
def test_a_workunit_that_does_not_fit_its_queue_is_refused(
    primes: None, ada: Account, fields: dict[str, object], text: str
) -> None:
    Queue.objects.create(name="lane", created_at=NOON)
    Queue.objects.create(name="other", app=an_app("other"), created_at=NOON)
    answer = submit(a_program(ada), **fields)
    assert answer.status_code in {400, 422}
    assert text in answer.content.decode()
    assert not Workunit.objects.exists()


def test_a_trusted_queue_accepts_an_infinite_deadline(primes: None, ada: Account) -> None:
    Queue.objects.create(name="lab", trusted=True, created_at=NOON)
    assert submit(a_program(ada), queue="lab", delay_bound_seconds="inf").status_code == 201
    assert Workunit.objects.get().delay_bound > timedelta(days=36_500)


def test_queues_cost_a_submission_one_statement(primes: None, ada: Account) -> None:
    for name in ("a", "b"):
        Queue.objects.create(name=name, created_at=NOON)
    program = a_program(ada)
    submit(program)

    def statements(*queues: str | None) -> int:
        workunits = [{"outputs": ["out"], **({"queue": q} if q else {})} for q in queues]
        body = {"app": "primes", "workunits": workunits}
        return statements_of(lambda: program.send("post", "/workunits", body))

    without = statements(None, None, None)
    assert statements("a", "b", "a") == without + 1


# The balance


def test_the_balance_is_read_and_changed(staff: Program) -> None:
    for name in ("urgent", "rest"):
        Queue.objects.create(name=name, created_at=NOON)
    empty = {"queues": [], "max_tasks": {}, "time_zone": "UTC", "disabled_until": None}
    assert staff.send("get", "/balance").json() == empty
    fields = {"queues": [["urgent"], ["rest"]], "max_tasks": {"* 00:00": 4}}
    answer = staff.send("patch", "/balance", fields)
    assert answer.status_code == 200
    assert answer.json() == empty | fields == staff.send("get", "/balance").json()
    limits = Queue.objects.order_by("pk").values_list("max_in_progress", flat=True)
    assert list(limits) == [4, 0]
    refused = staff.send("patch", "/queues/rest", {"max_in_progress": 5})
    assert (refused.status_code, refused.json()["code"]) == (409, "queue_is_balanced")
    assert refused.json()["hint"]
    staff.send("patch", "/balance", {"queues": []})
    assert staff.send("patch", "/queues/rest", {"max_in_progress": 5}).status_code == 200


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"queues": [["none"]]}, 422, "unknown_queue"),
        ({"queues": [["lane"], ["lane"]]}, 422, "repeated_queue"),
        ({"queues": [["lane"]], "max_tasks": {}}, 422, "bad_schedule"),
        ({"max_tasks": {"07:00": 5}}, 422, "bad_schedule"),
        ({"time_zone": "Mars"}, 422, "bad_schedule"),
        ({"max_tasks": {"* 07:00": -1}}, 400, "invalid"),
        ({"queues": "lane"}, 400, "invalid"),
        ({"queues": ["lane"]}, 400, "invalid"),
    ],
)
def test_a_bad_balance_is_refused_with_a_hint(
    staff: Program, fields: dict[str, object], status: int, code: str
) -> None:
    Queue.objects.create(name="lane", created_at=NOON)
    answer = staff.send("patch", "/balance", fields)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert "hint" in answer.json() or answer.json()["errors"]
    assert not Queue.objects.filter(balance_group__isnull=False).exists()


def test_only_administrators_change_the_balance(ada: Account) -> None:
    program = a_program(ada, "read", "submit")
    assert program.send("get", "/balance").status_code == 200
    assert program.send("patch", "/balance", {"max_tasks": {"* 00:00": 4}}).status_code == 403


def test_the_audit_log_names_who_changed_a_queue(staff: Program) -> None:
    staff.send("post", "/queues", {"name": "lane", "max_in_progress": 3})
    staff.send("patch", "/queues/lane", {"max_in_progress": 0, "schedule": SETTINGS["schedule"]})
    staff.send("patch", "/balance", {"max_tasks": {"* 00:00": 4}})
    staff.send("delete", "/queues/lane")
    chief = Account.objects.get(is_superuser=True)
    entries = AuditEntry.objects.filter(event__startswith="queue_").order_by("pk")
    assert [(e.event, e.subject, e.account_id) for e in entries] == [
        ("queue_created", "queue lane", chief.pk),
        ("queue_changed", "queue lane", chief.pk),
        ("queue_changed", "balance of queues", chief.pk),
        ("queue_deleted", "queue lane", chief.pk),
    ]
    assert entries[1].details == {
        "max_in_progress": 0,
        "schedule": ["* 07:00 10", "1 18:30 none"],
    }
