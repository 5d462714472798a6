"""Only enrolled hosts use the pool; its tokens open nothing else."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduler.hosts import denials
from scheduler.models import Account, AuditEntry, HostToken, Result
from scheduler.people import api_tokens
from scheduler.pool import host_tokens
from scheduler.queues import named_queues
from tests.faces.api_schema import PREFIX, schema
from tests.faces.apis import ALL_SCOPES, Program, a_program
from tests.rows import a_host, an_account
from tests.scripted_client import a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db

#: A valid body of each operation that takes one.
BODIES: dict[str, Any] = {"acquire_results": {}, "report_usage": {"memory_bytes": 1}}


def pool_operations() -> list[tuple[str, str, str]]:
    """Return the method, the path and the name of each operation of the pool."""
    return [
        (method, path.removeprefix(PREFIX).replace("{result_id}", "1"), said["operationId"])
        for path, item in schema()["paths"].items()
        for method, said in item.items()
        if isinstance(said, dict) and said.get("x-access") == "pool"
    ]


def statuses(program: Program) -> set[int]:
    return {
        program.send(method, path, BODIES.get(name)).status_code
        for method, path, name in pool_operations()
    }


def a_pool_host(**fields: Any) -> tuple[Any, str]:
    host = a_host(an_account(), **fields)
    _token, text = host_tokens.enroll(host.pk, now=timezone.now())
    return host, text


def test_the_schema_has_the_operations_of_the_pool():
    assert {name for _, _, name in pool_operations()} == {
        "read_pool",
        "acquire_results",
        "list_available_results",
        "list_claimed_results",
        "claim_result",
        "report_usage",
        "wait_for_cancellations",
    }


def test_strangers_volunteers_and_submitters_get_404():
    a_pool_host()
    staff = Account.objects.create_superuser(email="root@example.org", password="a long one")
    assert statuses(Program()) == {404}
    assert statuses(Program("not a token")) == {404}
    assert statuses(a_program(an_account())) == {404}
    assert statuses(a_program(staff, *ALL_SCOPES)) == {404}
    client = a_client()
    client.ask()
    assert statuses(Program(client.key)) == {404}


def test_revoked_expired_and_unknown_tokens_are_refused():
    host, text = a_pool_host()
    assert Program(text).send("get", "/pool").status_code == 200
    assert statuses(Program(f"{host_tokens.PREFIX}x")) == {401}
    HostToken.objects.update(expire_at=timezone.now() - timedelta(seconds=1))
    assert statuses(Program(text)) == {401}
    HostToken.objects.update(expire_at=None)
    assert Program(text).send("get", "/pool").status_code == 200
    assert host_tokens.withdraw(host.pk, now=timezone.now()) == 1
    assert statuses(Program(text)) == {401}
    assert host_tokens.withdraw(host.pk, now=timezone.now()) == 0


def test_tokens_of_denied_hosts_and_inactive_accounts_are_refused():
    host, text = a_pool_host()
    denials.deny(host.pk, reason="broken", now=timezone.now())
    assert statuses(Program(text)) == {401}
    with pytest.raises(host_tokens.NotEnrolled, match="is denied"):
        host_tokens.enroll(host.pk, now=timezone.now())
    denials.allow(host.pk, now=timezone.now())
    Account.objects.filter(pk=host.account_id).update(is_active=False)
    assert statuses(Program(text)) == {401}


def test_a_host_token_opens_no_operation_that_is_closed_without_a_token():
    _host, text = a_pool_host()
    host, stranger = Program(text), Program()
    checked = 0
    for path, item in schema()["paths"].items():
        address = re.sub(r"\{\w+\}", "1", path.removeprefix(PREFIX).replace("{sha256}", "0" * 64))
        for method, said in item.items():
            if "operationId" in said and said.get("x-access") != "pool":
                body = None if method == "get" else {}
                status = host.send(method, address, body).status_code
                if status != 401:
                    # Everybody may read this, or let the server compute without a change.
                    assert method == "get" or address == "/ownership-verifications", address
                    assert stranger.send(method, address, body).status_code == status, address
                checked += 1
    assert checked > 50


def test_a_host_token_opens_nothing_else():
    _host, text = a_pool_host()
    program = Program(text)
    for path in ("/me", "/workunits", "/batches", "/hosts", "/queues", "/tokens"):
        assert program.send("get", path).status_code == 401, path
    assert program.send("post", "/workunits", {"app": "x", "workunits": []}).status_code == 401
    assert api_tokens.recognize(text, now=timezone.now()) is None


def test_a_host_cannot_report_usage_of_another_hosts_result():
    queue = named_queues.create(name="lab", trusted=True, now=timezone.now())
    workunits(an_app(), 1, queue=queue)
    client = a_client(name="owner")
    client.ask()
    client.ask_for_work()
    _other, text = a_pool_host()
    result = Result.objects.get(host_id=client.hostid)
    answer = Program(text).send("post", f"/pool/results/{result.pk}/report_usage", {"cpu_time": 1})
    assert answer.status_code == 404


def test_a_host_cannot_list_the_results_of_another_host():
    queue = named_queues.create(name="lab", trusted=True, now=timezone.now())
    workunits(an_app(), 1, queue=queue)
    client = a_client(name="owner")
    client.ask()
    [name] = client.ask_for_work()
    _token, own = host_tokens.enroll(client.hostid, now=timezone.now())
    _other, text = a_pool_host()
    listed = Program(own).send("get", "/pool/claimed").json()["results"]
    assert [row["name"] for row in listed] == [name]
    assert Program(text).send("get", "/pool/claimed").json() == {"results": []}


def test_the_text_of_a_token_is_not_stored():
    host, text = a_pool_host()
    token = HostToken.objects.get(host=host)
    assert text not in str(vars(token))
    assert text not in str(list(AuditEntry.objects.values()))
    assert AuditEntry.objects.filter(event="token_created", subject=f"host {host.pk}").exists()
