"""Reasons to send a client no work, and the delay of its next request."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.scripted_client import a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("barred", "said"),
    [
        ({"banned_os": "^Linux"}, "doesn't support operating system Linux"),
        ({"banned_cpu": "Penta"}, "doesn't support CPU type AuthenticMaker Pentathlon"),
    ],
)
def test_host_with_a_banned_os_or_cpu_gets_no_work_but_can_report(
    barred: dict[str, str], said: str, settings: Any
) -> None:
    workunits(an_app(), 2)
    client = a_client()
    facts = {"os_name": "Linux", "p_vendor": "AuthenticMaker", "p_model": "Pentathlon"}
    computer = replace(client.request().host_info, **facts)
    (name,) = client.ask_for_work(host_info=computer)
    settings.PROJECT = replace(settings.PROJECT, **barred)
    reply = client.ask(cpu_req_secs=1e6, host_info=computer)
    assert reply.results == ()
    assert [message.text for message in reply.messages if said in message.text]
    assert reply.request_delay == 86400
    assert client.report(name, upload=b"the answer").result_acks == (name,)


def test_host_without_a_banned_os_or_cpu_gets_work(settings: Any) -> None:
    workunits(an_app(), 1)
    settings.PROJECT = replace(settings.PROJECT, banned_os="^Windows", banned_cpu="^Nobody")
    assert len(a_client().ask_for_work()) == 1


def test_next_contact_setting_is_sent_as_next_rpc_delay(settings: Any) -> None:
    assert a_client().ask().next_rpc_delay is None
    settings.PROJECT = replace(settings.PROJECT, next_contact=timedelta(hours=4))
    assert a_client().ask().next_rpc_delay == 14400
