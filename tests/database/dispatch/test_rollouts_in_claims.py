"""Claims honor the share of a staged roll-out, without further statements."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from scheduler.apps import rollouts
from scheduler.apps.rollouts import Rollout
from scheduler.hosts.rules.rollout_shares import place
from scheduler.models import App, AppVersion, Refusal, Result
from tests.scripted_client import ScriptedClient, a_client, rpc_statements
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db


@pytest.fixture
def app() -> App:
    app = an_app()
    an_app(version_num=200)
    return app


def attached(number: int) -> ScriptedClient:
    client = a_client(email=f"v{number}@example.org", name=f"v{number}")
    client.ask()
    return client


def roll_out(app: App, percent: int, version_num: int = 200, **fields: Any) -> AppVersion:
    version = app.versions.get(version_num=version_num)
    rollout = Rollout(rollout_percent=percent, **fields)
    return rollouts.change(version.pk, rollout, now=timezone.now())


def texts(reply: Any) -> list[str]:
    return [message.text for message in reply.messages]


def test_hosts_in_the_share_get_the_new_version_and_others_the_previous_one(app):
    workunits(app, 20)
    version = roll_out(app, 50)
    for number in range(8):
        client = attached(number)
        [result] = client.ask(cpu_req_secs=1).results
        is_in = place(client.hostid, version.pk) < 50
        assert result.version_num == (200 if is_in else 100)
    assert set(Result.objects.exclude(host=None).values_list("app_version__version_num")) == {
        (100,),
        (200,),
    }


def test_growing_the_share_sends_the_new_version_at_the_next_request(app):
    workunits(app, 9)
    client = attached(1)
    used = []
    for percent in (0, 100, 0):
        roll_out(app, percent)
        used += [result.version_num for result in client.ask(cpu_req_secs=1).results]
    assert used == [100, 200, 100]


def test_a_claim_in_a_roll_out_takes_no_further_statement(app):
    workunits(app, 20)
    client = attached(1)
    counts = []
    for percent in (100, 0):
        roll_out(app, percent)
        client.ask(cpu_req_secs=1)  # reads the changed catalog
        counts.append(len(rpc_statements(lambda: client.ask(cpu_req_secs=1))))
    assert len(client.held) == 4
    assert counts[0] == counts[1]


def test_a_host_outside_the_share_of_the_only_version_is_told_why_and_is_not_counted_as_unfit():
    app = an_app()
    workunits(app, 1)
    roll_out(app, 0, version_num=100)
    reply = attached(1).ask(cpu_req_secs=1)
    assert reply.results == ()
    assert any("is sent to some computers first" in text for text in texts(reply))
    assert not Refusal.objects.exists()


def test_a_lost_result_of_a_version_that_was_rolled_back_is_sent_again(app):
    workunits(app, 1)
    client = attached(1)
    [name] = client.ask_for_work()
    roll_out(app, 0)
    client.held = []
    [again] = client.ask(cpu_req_secs=1).results
    assert (again.name, again.version_num) == (name, 200)
