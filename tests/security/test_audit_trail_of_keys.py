"""The audit log records the use of submission keys, and invitations."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from scheduler.models import AccountKey, AuditEntry, Invitation
from scheduler.people import account_keys, audit, invitations
from tests.conftest import NOON
from tests.faces.submitters import KEY, World, asked, get, md5
from tests.scripted_client import RpcClient

pytestmark = pytest.mark.django_db

OUTPUTS: list[dict[str, Any]] = [
    {"cmd": "result_file", "result_name": "wu_done_0", "file_num": 0, "auth_str": "wu_done_0"},
    {"cmd": "workunit_file", "wu_name": "wu_done", "file_num": 0},
    {"cmd": "workunit_files", "wu_id": 101, "auth_str": "101"},
    {"cmd": "batch_files", "batch_id": 54, "auth_str": "54"},
]


@pytest.fixture(autouse=True)
def first_use_of_the_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    audit._recorded_uses.clear()


@pytest.fixture
def world() -> World:
    world = World()
    AuditEntry.objects.all().delete()
    return world


def entries(event: str = "key_used") -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(event=event).order_by("pk"))


def post(command: str, path: str, *, key: str = KEY, address: str = "127.0.0.1") -> str:
    form = {"request": asked(command, key=key)}
    answer = Client(REMOTE_ADDR=address).post(f"/{path}", form)
    return answer.content.decode()


def fetch(query: dict[str, Any], *, key: str = KEY) -> int:
    said = md5(key + query["auth_str"]) if "auth_str" in query else key
    status, _headers, _content = get("get_output.php", **query | {"auth_str": said})
    return int(status.split()[0])


def require_one_entry_of(world: World) -> None:
    [entry] = entries()
    key = AccountKey.objects.get(account=world.ada, kind=AccountKey.Kind.SUBMISSION)
    assert (entry.account_id, entry.actor) == (world.ada.pk, world.ada.email)
    assert (entry.address, entry.subject) == ("127.0.0.1", f"key {key.pk}")
    assert entry.details == {"kind": "submission", "name": key.name}
    assert KEY not in str(vars(entry))


@pytest.mark.parametrize(
    ("command", "path"),
    [("query_batches", "submit_rpc_handler.php"), ("query_files", "job_file.php")],
)
def test_submission_key_use_is_recorded_once(world: World, command: str, path: str) -> None:
    for _ in range(2):
        assert "<error>" not in post(command, path)
    require_one_entry_of(world)


@pytest.mark.parametrize("query", OUTPUTS, ids=lambda query: query["cmd"])
def test_fetching_outputs_with_a_submission_key_is_recorded_once(
    world: World, query: dict[str, Any]
) -> None:
    for _ in range(2):
        assert fetch(query) == 200
    require_one_entry_of(world)


def test_submission_key_use_is_recorded_once_per_day_and_address(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "submit_rpc_handler.php"
    for address in ("127.0.0.1", "2001:db8::1", "127.0.0.1"):
        post("query_batches", path, address=address)
    assert fetch(OUTPUTS[0]) == 200
    assert [entry.address for entry in entries()] == ["127.0.0.1", "2001:db8::1"]
    monkeypatch.setattr(timezone, "now", lambda: NOON + timedelta(days=1))
    post("query_batches", path)
    assert len(entries()) == 3


def test_another_process_does_not_record_the_same_key_use_again(world: World) -> None:
    post("query_batches", "submit_rpc_handler.php")
    audit._recorded_uses.clear()
    post("query_batches", "submit_rpc_handler.php")
    require_one_entry_of(world)


def test_a_wrong_key_is_not_recorded_as_used(world: World) -> None:
    client_key = account_keys.new_key(account=world.ada, name="laptop", now=NOON)
    for key in (client_key, "f" * 32):
        assert "<error>" in post("query_batches", "submit_rpc_handler.php", key=key)
        assert fetch(OUTPUTS[0], key=key) == 404
    assert entries() == []


def test_scheduler_rpcs_are_not_recorded_in_the_audit_log(world: World) -> None:
    key = account_keys.new_key(account=world.ada, name="laptop", now=NOON)
    AuditEntry.objects.all().delete()
    body = (
        f"<scheduler_request><authenticator>{key}</authenticator><hostid>0</hostid>"
        "<core_client_major_version>8</core_client_major_version></scheduler_request>"
    )
    reply = RpcClient().post("/cgi/scheduler", body, content_type="text/xml").content.decode()
    assert "<hostid>" in reply
    assert not AuditEntry.objects.exists()


def test_created_and_revoked_invitations_are_recorded() -> None:
    out = io.StringIO()
    call_command("invitation", "make", "--uses", "3", "--name", "a school", stdout=out)
    code = out.getvalue().split("only now: ")[1].split()[0].rstrip(".")
    made = Invitation.objects.get()
    for _ in range(2):
        invitations.revoke(made.pk, now=NOON)
    [created], [revoked] = entries("invitation_created"), entries("invitation_revoked")
    assert created.actor.startswith("shell:")
    assert created.subject == revoked.subject == f"invitation {made.pk}"
    assert created.details == {"name": "a school", "max_uses": 3, "expire_at": None}
    assert code not in str([vars(created), vars(revoked)])
