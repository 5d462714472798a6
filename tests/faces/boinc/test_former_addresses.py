"""Clients of a former address get the new one, and lose no work."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from project.upkeep import addresses
from scheduler.boinc.wire import messages, replies, requests
from scheduler.models import AuditEntry
from tests.scripted_client import RpcClient, a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db

OLD, NEW = "http://old.example/", "https://new.example/"
VERSION_8 = {"core_client_major_version": 8, "core_client_minor_version": 2}


@pytest.fixture
def moved(settings):
    """A project that has moved from OLD to NEW."""
    settings.PROJECT = replace(settings.PROJECT, master_url=NEW, former_urls=(OLD,))
    settings.ALLOWED_HOSTS = ["old.example", "new.example"]
    return settings.PROJECT


def ask(client, host="old.example", *, secure=False, **fields):
    """Send a request of the client to a host; return the reply."""
    body = requests.encode_request(client.request(**fields))
    scheme = {"HTTP_X_FORWARDED_PROTO": "https"} if secure else {}
    response = RpcClient().post(
        "/cgi/scheduler", data=body, content_type="text/xml", HTTP_HOST=host, **scheme
    )
    reply = replies.decode_reply(response.content)
    if reply.hostid is not None:
        client.hostid, client.rpc_seqno = reply.hostid, 0
    client.rpc_seqno += 1
    client.code_sign_key = client.code_sign_key or (reply.code_sign_key or "")
    return reply


def notices(reply):
    return [message.text for message in reply.messages if message.priority == "notice"]


def test_a_client_of_the_old_address_keeps_it_while_it_gets_or_has_tasks(moved):
    workunits(an_app(), 1)
    client = a_client()
    reply = ask(client, cpu_req_secs=100)
    assert len(reply.results) == 1
    assert reply.master_url == OLD
    [notice] = notices(reply)
    assert notice.startswith(f"This project has a new address: {NEW}.")
    assert notice.endswith("remove the project and add the new address.")
    client.held = [result.name for result in reply.results]
    assert ask(client).master_url == OLD
    reported = tuple(messages.ReportedResult(name=name, state=5) for name in client.held)
    client.held = []
    reply = ask(client, results=reported)
    assert reply.master_url == OLD, "the client would lose the report if it were repeated"
    assert reply.result_acks == tuple(result.name for result in reported)


def test_a_client_of_the_old_address_without_tasks_gets_the_new_one(moved):
    client = a_client()
    reply = ask(client, **VERSION_8)
    assert reply.master_url == NEW
    assert notices(reply) == [], "the client itself shows a message"


def test_version_8_is_told_that_it_changes_by_itself(moved):
    client = a_client()
    ask(client)
    client.held = ["a task"]
    [notice] = notices(ask(client, **VERSION_8))
    assert notice.endswith("it changes to the new address by itself.")


def test_files_have_the_new_address_for_all_clients(moved):
    workunits(an_app(), 1)
    reply = ask(a_client(), cpu_req_secs=100)
    urls = [url for file in reply.files for url in file.urls]
    assert urls
    assert all(url.startswith(NEW) for url in urls)


def test_a_refusal_has_the_old_address(moved):
    client = a_client()
    client.key = "not a key"
    assert ask(client).master_url == OLD


@pytest.mark.parametrize(
    "host", ["new.example", "unknown.example", "", "old.example:99", "[::1]:8"]
)
def test_requests_at_other_addresses_get_the_current_one(moved, host):
    client = a_client()
    client.held = ["a task"]
    reply = ask(client, host, secure=True)
    assert reply.master_url == NEW
    assert notices(reply) == []


def test_the_page_at_the_old_address_names_the_scheduler_there(moved):
    page = Client().get("/", HTTP_HOST="old.example").content.decode()
    assert f'<link rel="boinc_scheduler" href="{OLD}cgi/scheduler">' in page
    assert f'This project has a new address: <a href="{NEW}">' in page
    page = Client().get("/", HTTP_HOST="new.example", secure=True).content.decode()
    assert f'<link rel="boinc_scheduler" href="{NEW}cgi/scheduler">' in page
    assert "has a new address" not in page


def test_who_attaches_by_the_old_address_is_sent_to_the_new_one(moved):
    text = Client().get("/get_project_config.php", HTTP_HOST="old.example").content.decode()
    assert f"<master_url>{NEW}</master_url>" in text


# The command


@pytest.fixture
def var(settings, tmp_path):
    settings.VAR_DIR = tmp_path
    settings.PROJECT = replace(settings.PROJECT, master_url=OLD)
    return tmp_path


def rename(*words):
    out = StringIO()
    call_command("project", "rename-url", *words, stdout=out)
    return out.getvalue()


def test_rename_url_records_the_new_address_and_the_settings_use_it(var):
    text = rename("https://new.example", "--yes")
    assert f"Old address: {OLD}\nNew address: {NEW}\n" in text
    assert "let new.example and old.example both lead to this server" in text
    assert "restart the web server and the daemons" in text
    recorded = addresses.recorded(var)
    assert recorded == (NEW, OLD)
    # MASTER_URL may still have the old value, or has the new one.
    assert addresses.current(recorded, OLD) == addresses.current(recorded, NEW) == NEW
    assert addresses.former(recorded, NEW) == (OLD,)
    [entry] = AuditEntry.objects.filter(event="address_changed")
    assert (entry.subject, entry.details) == (NEW, {"old": OLD})


def test_a_second_change_keeps_both_former_addresses(var, settings):
    settings.PROJECT = replace(settings.PROJECT, master_url=NEW, former_urls=(OLD,))
    rename("https://newest.example/", "--yes")
    assert addresses.recorded(var) == ("https://newest.example/", NEW, OLD)


def test_check_changes_nothing_and_json_is_for_programs(var):
    reply = json.loads(rename(NEW, "--check", "--json"))
    assert (reply["old"], reply["new"], reply["changed"]) == (OLD, NEW, False)
    assert addresses.recorded(var) == ()
    with pytest.raises(CommandError, match=r"no terminal to confirm at.*--yes"):
        rename(NEW)
    assert addresses.recorded(var) == ()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (OLD, OLD, "is the project's address already"),
        (OLD, "http://old.example/path/", "differ only in their paths"),
        (OLD, "http://old.example:8080/", "cannot be distinguished"),
        (OLD, "HTTP://Old.Example/", "cannot be distinguished"),
        (OLD, "http://old.example./", "cannot be distinguished"),
        (NEW, "http://other.example/", "has no TLS"),
        (OLD, "ftp://new.example/", "expected an address such as"),
    ],
)
def test_an_address_that_clients_cannot_change_to_is_refused(var, settings, old, new, reason):
    settings.PROJECT = replace(settings.PROJECT, master_url=old)
    with pytest.raises(CommandError, match=reason):
        rename(new, "--yes")
    assert addresses.recorded(var) == ()


@pytest.mark.parametrize("new", [OLD, "http://OLD.example:8080/x/"])
def test_a_former_address_cannot_become_the_address_again(var, settings, new):
    newest = "http://newest.example/"
    settings.PROJECT = replace(
        settings.PROJECT, master_url=newest, former_urls=("https://between.example/", OLD)
    )
    with pytest.raises(CommandError, match=rf"{OLD} was an earlier address.*\n?.*Hint: "):
        rename(new, "--yes")
    assert addresses.recorded(var) == ()


def test_a_change_of_the_scheme_alone_is_accepted(var):
    rename("https://old.example/", "--yes")
    assert addresses.recorded(var) == ("https://old.example/", OLD)


def test_a_port_of_thousands_of_digits_in_a_request_is_no_error(moved):
    assert moved.attached_url("http", f"old.example:{'9' * 5000}") == NEW
    assert moved.attached_url("http", "old.example:0080") == OLD
