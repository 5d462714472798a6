"""RPCs and the trusted pool agree on which unsent results may be sent."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from scheduler.dispatch import candidates, search
from scheduler.dispatch.candidates import BEFORE_ALL, CandidateStream
from scheduler.dispatch.search import Search
from scheduler.lifecycle import Outcome, ReleaseState, ServerState
from scheduler.models import Account, Host, Result, Workunit
from scheduler.pool import acquisition, claims
from scheduler.pool.facts import Filter, PoolHost
from scheduler.queues import named_queues
from tests.scripted_client import a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db(transaction=True)

_NOW = timezone.now()
_HOUR = timedelta(hours=1)
#: Changes of a workunit by name.  The last result of each is unsent.
_CHANGES: dict[str, dict[str, Any]] = {
    "unchanged": {},
    "failed": {"error_mask": 1},
    "cancelled": {"cancel_requested_at": _NOW},
    "held": {"release_state": ReleaseState.HELD},
    "waits for another": {"pending_dependency_count": 1},
    "starts later": {"start_after": _NOW + _HOUR},
    "may start": {"start_after": _NOW - _HOUR},
    "starts too late": {"start_before": _NOW - _HOUR},
    "starts in time": {"start_before": _NOW + _HOUR},
    "ends too late": {"end_before": _NOW - _HOUR},
    "ends in time": {"end_before": _NOW + _HOUR},
}
#: The workunits of `_CHANGES` whose result may be sent.
_SENDABLE = {"unchanged", "may start", "starts in time", "ends in time"}

_IN_PROGRESS = {"server_state": ServerState.IN_PROGRESS}
_SUCCESS = {"server_state": ServerState.OVER, "outcome": Outcome.SUCCESS, "received_at": _NOW}
_FAILURE = {"server_state": ServerState.OVER, "outcome": Outcome.CLIENT_ERROR}
#: Earlier results of workunits by name: whose they are, and their columns.
_EARLIER: dict[str, tuple[str, dict[str, Any]]] = {
    f"{what}, {whose}": (whose, fields)
    for whose in ("same host", "same account", "another account")
    for what, fields in {
        "in progress": _IN_PROGRESS,
        "success": _SUCCESS,
        "failure now": _FAILURE | {"received_at": _NOW},
        "failure long ago": _FAILURE | {"received_at": _NOW - 3 * _HOUR},
        "no reply": _FAILURE | {"report_deadline": _NOW - 3 * _HOUR},
    }.items()
}


def a_host(email: str, name: str) -> Host:
    client = a_client(email=email, name=name)
    client.ask()
    return Host.objects.get(pk=client.hostid)


def write_workunits(one_result_per: str, order: str) -> tuple[Host, dict[int, str], int]:
    """Return the asking host, the names of the unsent results by id, and the id of their queue."""
    host = a_host("a@example.org", "first")
    owners = {
        "same host": host,
        "same account": a_host("a@example.org", "second"),
        "another account": a_host("b@example.org", "third"),
    }
    assert Account.objects.count() == 2
    app = an_app(one_result_per=one_result_per, retry_same_account_after=_HOUR)
    queue = named_queues.create(name="lab", trusted=True, order=order, now=_NOW)
    names = [*_CHANGES, *_EARLIER]
    written = workunits(app, len(names), results=2, queue=queue)
    labels: dict[int, str] = {}
    for name, workunit in zip(names, written, strict=True):
        earlier, unsent = Result.objects.filter(workunit=workunit).order_by("pk")
        whose, fields = _EARLIER.get(name, ("another account", _SUCCESS))
        owner = owners[whose]
        rows = Result.objects.filter(pk=earlier.pk)
        whose_row = {"host": owner, "account_id": owner.account_id}
        times = {"sent_at": _NOW - 4 * _HOUR, "report_deadline": _NOW + _HOUR}
        rows.update(**whose_row, **times, **_IN_PROGRESS)
        rows.update(**fields)
        Workunit.objects.filter(pk=workunit.pk).update(**_CHANGES.get(name, {}))
        labels[unsent.pk] = name
    return host, labels, queue.pk


def sent_by_pool(host_search: Search, queue_id: int, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Return the ids of the results that the pool judges for a host."""
    ids: set[int] = set()

    def note(searches: list[Search], **_options: Any) -> None:
        ids.update(id_ for page in searches[0].candidates.values() for id_ in page)

    with monkeypatch.context() as patch:
        patch.setattr(search, "find_beyond", note)
        acquisition.find(
            host_search,
            Filter(),
            queue_ids=[queue_id],
            max_rows=1000,
            config=settings.PROJECT,
            now=_NOW,
        )
    return ids


def sent_by_rpc(host_search: Search, streams: tuple[CandidateStream, ...]) -> set[int]:
    """Return the ids of the results that a scheduler RPC judges for a host."""
    pages, _near = candidates.candidates(
        [replace(stream, after=BEFORE_ALL, page=1000) for stream in streams],
        hosts=[host_search.host],
        now=_NOW,
    )
    return {id_ for page in pages for id_ in page.for_host(host_search.host)}


@pytest.mark.parametrize("order", ["fifo", "lifo", "priority"])
@pytest.mark.parametrize("one_result_per", ["host", "account"])
def test_rpcs_and_the_pool_judge_the_same_results(
    one_result_per: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, names, queue_id = write_workunits(one_result_per, order)
    pool_host = PoolHost(0, host.pk, host.account_id)
    host_search = claims._search(pool_host, most=64, config=settings.PROJECT, now=_NOW)
    by_pool = sent_by_pool(host_search, queue_id, monkeypatch)
    by_rpc = sent_by_rpc(host_search, host_search.streams)
    assert {names[id_] for id_ in by_pool} == {names[id_] for id_ in by_rpc}
    assert {names[id_] for id_ in by_pool} & _CHANGES.keys() == _SENDABLE
    listed = claims.available(pool_host, Filter(), limit=200, now=_NOW)
    assert {names[row.id] for row in listed} & _CHANGES.keys() == _SENDABLE


@pytest.mark.parametrize("barred", [_IN_PROGRESS, _SUCCESS])
def test_a_host_gets_no_second_result_of_a_workunit(
    barred: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, names, queue_id = write_workunits("host", "fifo")
    pool_host = PoolHost(0, host.pk, host.account_id)
    host_search = claims._search(pool_host, most=64, config=settings.PROJECT, now=_NOW)
    judged = {names[id_] for id_ in sent_by_pool(host_search, queue_id, monkeypatch)}
    [label] = [name for name, each in _EARLIER.items() if each == ("same host", barred)]
    assert label not in judged
    assert label.replace("same host", "same account") in judged
