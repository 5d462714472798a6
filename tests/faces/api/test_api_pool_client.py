"""Our client claims work in the order of the queues, or else from the list."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client
from django.utils import timezone

from scheduler.models import Queue, Result, Workunit
from scheduler.pool import acquisition, host_tokens
from scheduler.queues import named_queues
from scheduler.work import control
from tests.scripted_client import ScriptedClient, a_client
from tests.work import an_app, workunits
from volunteer.pool import LIST_SECONDS, PoolError, PoolLink
from volunteer.transport import Response

pytestmark = pytest.mark.django_db(transaction=True)


class ServerTransport:
    """Sends the requests of our client to the server in this process."""

    def __init__(self) -> None:
        self.client = Client()
        self.paths: list[str] = []

    def get(self, url: str, *, token: str, **_: Any) -> Response:
        answer = self.client.get(self._path(url), headers=_headers(token))
        return Response(answer.status_code, answer.content)

    def post_json(self, url: str, content: bytes, *, token: str) -> Response:
        answer = self.client.post(
            self._path(url), content, content_type="application/json", headers=_headers(token)
        )
        return Response(answer.status_code, answer.content)

    def _path(self, url: str) -> str:
        parts = urlsplit(url)
        self.paths.append(parts.path.rpartition("/pool")[2])
        return f"{parts.path}?{parts.query}"


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def a_queue(name: str = "lab", **facts: Any) -> Queue:
    return named_queues.create(name=name, trusted=True, now=timezone.now(), **facts)


def a_worker() -> tuple[ScriptedClient, PoolLink, ServerTransport]:
    """Return an enrolled host, with the part of our client that claims work for it."""
    client = a_client(email="worker@example.org", name="worker")
    client.ask()
    _token, text = host_tokens.enroll(client.hostid, now=timezone.now())
    transport = ServerTransport()
    link = PoolLink("http://testserver/", text, transport)  # type: ignore[arg-type]
    return client, link, transport


def claim(link: PoolLink) -> str:
    return link.claim(cpus=4.0, memory_bytes=1e12, disk_bytes=1e12)


@pytest.mark.parametrize(
    ("order", "wanted"), [("fifo", [0, 1, 2]), ("lifo", [39, 38, 37]), ("priority", [30, 0, 1])]
)
def test_our_client_claims_work_in_the_order_of_the_queue(order: str, wanted: list[int]) -> None:
    made = workunits(an_app(), 40, queue=a_queue(order=order))
    Workunit.objects.filter(pk=made[30].pk).update(priority=5)
    Result.objects.filter(workunit=made[30]).update(priority=5)
    _client, link, transport = a_worker()
    assert [claim(link) for _ in wanted] == [f"{made[number].name}_0" for number in wanted]
    assert transport.paths == ["/acquire"] * len(wanted)


def test_our_client_claims_work_of_a_higher_priority_group_first() -> None:
    app = an_app()
    workunits(app, 3, queue=a_queue("usual"))
    [urgent] = workunits(app, 1, queue=a_queue("urgent", priority_group=1))
    _client, link, _transport = a_worker()
    assert claim(link) == f"{urgent.name}_0"


def test_our_client_uses_the_list_for_a_minute_after_a_search_without_a_result_that_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acquisition, "MAX_ROWS", 100)
    app, queue = an_app(), a_queue(order="fifo")
    misfits = workunits(app, 120, queue=queue, requested_cpus=1000.0)
    fitting = workunits(app, 3, queue=queue)
    _client, link, transport = a_worker()
    assert claim(link) == f"{fitting[0].name}_0"
    assert claim(link) == f"{fitting[1].name}_0"
    ids = [Result.objects.get(workunit=each).pk for each in fitting]
    claims = [f"/results/{result_id}/claim" for result_id in ids]
    assert transport.paths == ["/acquire", "/results", claims[0], "/results", claims[1]]
    # The server reads the fitting result once fewer others are before it.
    Result.objects.filter(workunit__in=misfits[:60]).delete()
    link.position.list_until -= LIST_SECONDS
    assert claim(link) == f"{fitting[2].name}_0"
    assert transport.paths[5:] == ["/acquire"]


def test_our_client_claims_nothing_if_nothing_fits() -> None:
    _client, link, transport = a_worker()
    workunits(an_app(), 3, queue=a_queue(), requested_cpus=1000.0)
    assert [claim(link), claim(link)] == ["", ""]
    assert transport.paths == ["/acquire", "/acquire"]


def test_a_result_that_is_cancelled_after_our_client_claimed_it_is_not_sent() -> None:
    first, second = workunits(an_app(), 2, queue=a_queue(order="fifo"))
    client, link, _transport = a_worker()
    assert claim(link) == f"{first.name}_0"
    control.cancel(ids=[first.pk, second.pk], now=timezone.now())
    assert client.ask_for_work(1.0) == []
    assert claim(link) == ""


def test_our_client_reports_that_its_token_was_withdrawn() -> None:
    workunits(an_app(), 1, queue=a_queue())
    client, link, transport = a_worker()
    host_tokens.withdraw(client.hostid, now=timezone.now())
    with pytest.raises(PoolError, match="the host is not enrolled"):
        claim(link)
    assert transport.paths == ["/acquire"]
