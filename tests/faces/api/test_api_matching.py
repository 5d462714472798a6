"""`If-Match`: a change is refused if the resource changed in the meantime."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import transaction
from django.utils import timezone

from scheduler.hosts import recognition
from scheduler.models import Account, App, Batch, Host, Queue
from scheduler.people import account_keys, teams
from scheduler.people.teams import TeamProfile
from scheduler.queues import named_queues
from tests.database.daemons.test_interleavings import PATIENCE, Meanwhile, stopped_in
from tests.database.people.test_idempotency import _in_another_connection
from tests.database.waiting import wait_until_blocked
from tests.faces.api.test_api_publishing_once import wait_until_two_wait
from tests.faces.api.test_api_schema import operations, schema
from tests.faces.apis import ALL_SCOPES, Program, a_program
from tests.rows import a_host, an_account, an_app, an_app_version
from tests.scientists import a_batch

__all__ = ["schema"]

#: Name of the operation -> the path and two different bodies.
CHANGES = {
    "change_balance": ("/balance", {"max_tasks": {"* 07:00": 5}}, {"max_tasks": {"* 07:00": 6}}),
    "change_app": ("/apps/primes", {"beta": True}, {"beta": False}),
    "change_app_version": ("/app-versions/{version}", {"beta": True}, {"beta": False}),
    "change_batch": ("/batches/{batch}", {"meta": {"n": 1}}, {"meta": {"n": 2}}),
    "limit_host": ("/hosts/{host}", {"max_in_progress": 3}, {"max_in_progress": None}),
    "change_my_computer": ("/me/computers/{host}", {"venue": "home"}, {"max_held": 2}),
    "change_my_key": ("/me/keys/{key}", {"name": "lab"}, {"name": "school"}),
    "change_me": ("/me", {"country": "Malta"}, {"home_page": "https://chief.example/"}),
    "change_team": ("/me/team", {"country": "Malta"}, {"country": "Chile"}),
    "change_consents": ("/me/consents", {"show_hosts": True}, {"show_hosts": False}),
    "change_computing_preferences": (
        "/me/preferences/computing",
        {"max_ncpus_pct": 50},
        {"max_ncpus_pct": 60},
    ),
    "change_project_preferences": (
        "/me/preferences/project",
        {"resource_share": 50},
        {"resource_share": 60},
    ),
    "change_queue": ("/queues/urgent", {"order": "fifo"}, {"order": "lifo"}),
}


@pytest.fixture
def chief(db) -> Program:
    return a_program(an_account("chief", is_superuser=True), *ALL_SCOPES)


@pytest.fixture
def ways(chief) -> dict[str, str]:
    app, account = an_app("primes"), Account.objects.get()
    teams.create(account, TeamProfile(name="Primes"), now=timezone.now())
    version, batch = an_app_version(app), a_batch(app=app)
    named_queues.create(name="urgent", now=timezone.now())
    key, _text = account_keys.create_key(account=account, name="first", now=timezone.now())
    host = a_host(account)
    ids = {"version": version.pk, "batch": batch.pk, "host": host.pk, "key": key.pk}
    return {name: way.format(**ids) for name, (way, _, _) in CHANGES.items()}


def change(program: Program, way: str, body, match: str | None = None):
    headers = {} if match is None else {"If-Match": match}
    return program.send("patch", way, body, headers=headers)


@pytest.mark.parametrize("name", CHANGES)
def test_change_with_a_stale_if_match_returns_412(chief, ways, name) -> None:
    way, (_, first, second) = ways[name], CHANGES[name]
    read = chief.send("get", way)
    made = change(chief, way, first, read["ETag"])
    assert made.status_code == 200, made.content
    assert made["ETag"] == chief.send("get", way)["ETag"] != read["ETag"]
    for stale in (read["ETag"], f"W/{made['ETag']}", '"other"', "other", ""):
        answer = change(chief, way, second, stale)
        assert answer.status_code == 412, answer.content
        assert answer["Content-Type"] == "application/problem+json"
        assert answer.json()["code"] == "changed_meanwhile"
        assert answer.json()["hint"]
        assert chief.send("get", way)["ETag"] == made["ETag"]
    assert change(chief, way, second, f'"other", {made["ETag"]}').status_code == 200
    assert change(chief, way, first, "*").status_code == 200
    assert change(chief, way, second).status_code == 200


@pytest.mark.parametrize("name", CHANGES)
def test_invalid_body_returns_400_even_with_a_stale_if_match(chief, ways, name) -> None:
    answer = change(chief, ways[name], {"no_such_field": 1}, '"other"')
    assert answer.status_code == 400, answer.content
    assert "no_such_field" in answer.content.decode()


def test_missing_resource_returns_404_with_if_match_any(chief, ways) -> None:
    eve = a_program(an_account("eve"))
    assert change(eve, ways["change_batch"], {"meta": {}}, "*").status_code == 404
    assert change(chief, "/queues/none", {"order": "fifo"}, "*").status_code == 404


def test_account_without_permission_gets_403_even_with_the_current_etag(ways) -> None:
    eve = a_program(an_account("eve"))
    read = eve.send("get", ways["change_app"])
    assert change(eve, ways["change_app"], {"beta": True}, read["ETag"]).status_code == 403
    assert not App.objects.get(name="primes").beta


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("name", "model"), [("change_queue", Queue), ("change_batch", Batch)])
def test_one_of_two_concurrent_changes_succeeds(chief, ways, name, model) -> None:
    way, bodies = ways[name], CHANGES[name][1:]
    read = chief.send("get", way)["ETag"]

    def send(body):
        def act():
            return change(chief, way, body, read)

        return lambda: _in_another_connection(act)

    with ThreadPoolExecutor(2) as threads:
        with transaction.atomic():
            assert len(model.objects.select_for_update()) == 1
            sent = [threads.submit(send(body)) for body in bodies]
            wait_until_two_wait(sent)
        answers = [one.result(20) for one in sent]
    assert sorted(one.status_code for one in answers) == [200, 412]
    [made] = [one for one in answers if one.status_code == 200]
    assert chief.send("get", way)["ETag"] == made["ETag"]


@pytest.mark.django_db(transaction=True)
def test_change_with_if_match_and_another_change_do_not_deadlock(chief, ways, monkeypatch) -> None:
    """Both take the lock of the queue's claims before its row."""
    queue = Queue.objects.get(name="urgent")

    def other_change():
        return named_queues.change(queue, schedule=[], max_in_progress=2, now=timezone.now())

    # This change has locked the claims, and not yet the row.
    with stopped_in(monkeypatch, named_queues, "_set_schedule") as (arrived, go):
        other = Meanwhile(other_change)
        assert arrived.wait(PATIENCE)
        matching = Meanwhile(lambda: change(chief, ways["change_queue"], {"order": "lifo"}, "*"))
        wait_until_blocked()
        go.set()
        assert other.wait().max_in_progress == 2
        assert matching.wait().status_code == 200
    queue.refresh_from_db()
    assert (queue.max_in_progress, queue.order) == (2, "lifo")


@pytest.mark.django_db(transaction=True)
def test_change_of_a_team_by_an_administrator_and_their_dismissal_do_not_deadlock() -> None:
    """Both lock the account of the administrator before the team."""
    ada, eve = an_account("ada"), an_account("eve")
    team = teams.create(ada, TeamProfile(name="Primes"), now=timezone.now())
    teams.join(eve, team.pk)
    teams.name_administrator(team.pk, eve.pk, by=ada, now=timezone.now())
    program = a_program(eve)
    with transaction.atomic():
        teams.lock_accounts([eve.pk])
        change_of_team = Meanwhile(lambda: change(program, "/me/team", {"country": "Peru"}, "*"))
        wait_until_blocked()
        teams.dismiss_administrator(team.pk, eve.pk, by=ada, now=timezone.now())
    assert change_of_team.wait().status_code == 403
    team.refresh_from_db()
    assert team.country == ""


@pytest.mark.django_db(transaction=True)
def test_deletion_of_a_computer_and_a_request_of_its_client_do_not_deadlock(chief) -> None:
    """Both take the lock of the client's requests before the row."""
    host = a_host(Account.objects.get())
    with transaction.atomic():
        recognition.lock_hosts([host.pk])
        headers = {"If-Match": "*"}
        path = f"/me/computers/{host.pk}"
        deletion = Meanwhile(lambda: chief.send("delete", path, headers=headers))
        wait_until_blocked()
        assert Host.objects.filter(pk=host.pk).update(rpc_seqno=1) == 1
    assert deletion.wait().status_code == 204
    host.refresh_from_db()
    assert host.is_deleted


def test_every_patch_operation_supports_if_match(schema) -> None:
    guarded = {
        operation["operationId"]
        for name, operation in operations(schema)
        if name.startswith("PATCH") and "412" in operation["responses"]
    }
    every = {
        operation["operationId"]
        for name, operation in operations(schema)
        if name.startswith("PATCH")
    }
    assert guarded == every == CHANGES.keys()
