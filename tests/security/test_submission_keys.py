"""Keys of clients cannot submit work; submission keys can only submit work."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from scheduler.models import Account, AccountKey, Submitter
from scheduler.people import account_keys, accounts
from tests.conftest import NOON
from tests.faces.submitters import World, asked, get, md5, post
from tests.rows import an_account
from tests.scripted_client import RpcClient

EMAIL, PASSWORD = "eve@example.org", "a first password"
DIGEST = accounts.password_digest(email=EMAIL, password=PASSWORD)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def noon_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timezone, "now", lambda: NOON)


def web(door: str, **asked_for: str) -> str:
    return Client().get(f"/{door}.php", asked_for).content.decode()


def client_key(door: str) -> str:
    """Return a submitter's key as a BOINC client gets it, and writes it to init_data.xml."""
    made = web("create_account", email_addr=EMAIL, passwd_hash=DIGEST, user_name="Eve")
    if door == "lookup_account":
        made = web(door, email_addr=EMAIL, passwd_hash=DIGEST)
    Submitter.objects.get_or_create(
        account=Account.objects.get(email=EMAIL), defaults={"all_apps": True, "created_at": NOON}
    )
    return made.split("<authenticator>")[1].split("<")[0]


def allow(email: str) -> str:
    """Return the submission key that `submitter allow` prints."""
    out = io.StringIO()
    call_command("submitter", "allow", email, "--all-apps", "--json", stdout=out)
    return str(json.loads(out.getvalue())["submission_key"])


@pytest.mark.parametrize("door", ["create_account", "lookup_account"])
@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("query_batches", "submit_rpc_handler.php"),
        ("submit_batch", "submit_rpc_handler.php"),
        ("query_files", "job_file.php"),
    ],
)
def test_client_key_is_refused_for_submission(door: str, command: str, path: str) -> None:
    reply = post(asked(command, key=client_key(door)), path)
    assert "<error_num>-1</error_num>" in reply, reply
    first = reply.split("<error_msg>")[1].split(". ")[0]
    assert "submission key" in first
    assert "manage.py account_key make" in first
    assert len(first) < 255, "BOINC's libraries read no more"


def test_client_key_cannot_fetch_outputs() -> None:
    world = World()
    made = account_keys.new_key(account=world.ada, name="laptop", now=NOON)
    for query in (
        {"cmd": "result_file", "result_name": "wu_done_0", "file_num": 0},
        {"cmd": "batch_files", "batch_id": 54},
        {"cmd": "workunit_files", "wu_id": 101},
    ):
        of = str(query.get("result_name") or query.get("batch_id") or query.get("wu_id"))
        status, _headers, content = get("get_output.php", auth_str=md5(made + of), **query)
        assert status.startswith("404"), (query, content[:80])
    status, _headers, _content = get(
        "get_output.php", cmd="workunit_file", wu_name="wu_done", file_num=0, auth_str=made
    )
    assert status.startswith("404")


def test_submission_key_is_accepted_until_it_is_revoked() -> None:
    client_key("create_account")
    key = allow(EMAIL)
    assert len(key) == 32
    assert set(key) <= set("0123456789abcdef")
    assert "<error>" not in post(asked("query_batches", key=key))
    row = AccountKey.objects.get(key_hash=account_keys.key_hash(key))
    call_command("account_key", "revoke", EMAIL, str(row.pk), stdout=io.StringIO())
    assert "<error>" in post(asked("query_batches", key=key))


def command(*words: str) -> dict[str, Any]:
    """Return what `manage.py account_key` answers as JSON."""
    out = io.StringIO()
    call_command("account_key", *words, "--json", stdout=out)
    return json.loads(out.getvalue())


def test_account_key_command_creates_lists_and_revokes_keys() -> None:
    client_key("create_account")
    made = {kind: command("make", EMAIL, "--kind", kind) for kind in ("submission", "host")}
    assert "<error>" not in post(asked("query_batches", key=made["submission"]["key"]))
    assert "<error>" in post(asked("query_batches", key=made["host"]["key"]))
    listed = command("list", EMAIL)["keys"]
    assert {key["kind"] for key in listed} >= {"host", "submission"}
    assert not [key for key in listed if key["kind"] == "submission" and key["returned_by_log_in"]]
    secrets = {answer["key"] for answer in made.values()}
    assert not secrets & {str(value) for key in listed for value in key.values()}
    mine = AccountKey.objects.get(key_hash=account_keys.key_hash(made["submission"]["key"]))
    assert command("revoke", EMAIL, str(mine.pk))["revoked"]
    assert "<error>" in post(asked("query_batches", key=made["submission"]["key"]))
    assert mine.pk not in {key["id"] for key in command("list", EMAIL)["keys"]}


def test_creating_a_key_without_a_kind_is_refused() -> None:
    client_key("create_account")
    with pytest.raises(CommandError, match="give --kind host or --kind submission"):
        command("make", EMAIL)


def test_submission_key_cannot_attach_a_client() -> None:
    client_key("create_account")
    key = allow(EMAIL)
    body = (
        f"<scheduler_request><authenticator>{key}</authenticator><hostid>0</hostid>"
        "<core_client_major_version>8</core_client_major_version></scheduler_request>"
    )
    reply = RpcClient().post("/cgi/scheduler", body, content_type="text/xml").content.decode()
    assert "Invalid or missing account key" in reply
    by_key = md5(key + EMAIL)
    assert "<error_num>-206" in web("lookup_account", email_addr=EMAIL, passwd_hash=by_key)


def test_log_in_never_returns_a_submission_key() -> None:
    client_key("create_account")
    key = allow(EMAIL)
    assert key not in web("lookup_account", email_addr=EMAIL, passwd_hash=DIGEST)
    assert key not in web("create_account", email_addr=EMAIL, passwd_hash=DIGEST, user_name="Eve")


def test_repeated_submitter_permission_creates_no_second_key() -> None:
    account = an_account("sam")
    assert allow(account.email)
    out = io.StringIO()
    call_command("submitter", "allow", account.email, "--all-apps", "--json", stdout=out)
    assert json.loads(out.getvalue())["submission_key"] is None
    assert account.keys.filter(kind=3).count() == 1
