"""Endpoints for queues: sets of workunits with an order, limits and hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework.response import Response

from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Name
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.api.http.problems import Problem
from scheduler.api.queue_bodies import (
    BalanceOut,
    ChangedBalance,
    ChangedQueue,
    NewQueue,
    QueueListed,
    QueueOut,
)
from scheduler.api.search import fields
from scheduler.api.search.filters import Search
from scheduler.api.viewer import viewer_of
from scheduler.models import Queue, QueueBalance
from scheduler.queues import balance, named_queues, slots

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet
    from rest_framework.request import Request


class QueueFilters(Filters):
    name = Name("name", help_text="The queue with this name.")
    app = Name("app__name", help_text="Only queues of this app.")
    filter = Search(fields=fields.QUEUES)


class Queues(Endpoint):
    write_scope = Scope.ADMINISTER
    filterset_class = QueueFilters

    @operation("List queues", name="list_queues", answer=QueueListed, listed=True)
    def get(self, request: Request) -> Response:
        """Returns all queues with the numbers of their results, newest first."""
        shows_lists = _shows_lists(request)

        def context_of(queues: Iterable[Queue]) -> dict[str, Any]:
            return {"shows_lists": shows_lists, "counts": named_queues.counts(list(queues))}

        rows = Queue.objects.select_related("app").prefetch_related("schedules")
        return self.page(rows, context_of)

    @operation(
        "Create a queue",
        name="create_queue",
        answer=QueueOut,
        status=201,
        body=NewQueue,
        idempotent=True,
        problems=(409,),
    )
    def post(self, request: Request) -> Response:
        """Creates a queue; if the name is taken, the response is 409."""
        queue = named_queues.create(**self.body(), now=self.now)
        location = {"Location": f"/api/v1/queues/{queue.name}"}
        return self.reply(queue, headers=location, shows_lists=_shows_lists(request))


class OneQueue(Endpoint):
    write_scope = Scope.ADMINISTER

    @operation("Read a queue", name="read_queue", answer=QueueOut, conditional=True)
    def get(self, request: Request, name: str) -> Response:
        """Returns the queue with this name."""
        return self.reply(_find(name), shows_lists=_shows_lists(request))

    def lock_first(self, name: str) -> None:
        slots.lock_queue(_find(name).pk)

    def rows(self, name: str) -> QuerySet[Queue]:
        return Queue.objects.filter(name=name)

    @operation(
        "Change a queue",
        name="change_queue",
        answer=QueueOut,
        body=ChangedQueue,
        guarded=True,
        problems=(409,),
    )
    def patch(self, request: Request, name: str) -> Response:
        """Changes the given fields; omitted fields keep their values.

        A lower limit interrupts no result: the queue sends nothing until fewer results are in
        progress. An app is refused with 409 while the queue has unfinished workunits of other apps,
        and the end of `trusted` while it has some with an infinite deadline. Both are refused with
        409 (`queue_busy`) too while a submission or a retry adds workunits to the queue.
        """
        queue = named_queues.change(_find(name), **self.body(), now=self.now)
        return self.reply(queue, shows_lists=_shows_lists(request))

    @operation("Delete a queue", name="drop_queue", answer=None, status=204, problems=(409,))
    def delete(self, request: Request, name: str) -> Response:
        """Deletes a queue without workunits; for other queues, the response is 409.

        The response is 409 (`queue_busy`) too while a submission adds workunits to the queue.
        """
        named_queues.drop(_find(name), now=self.now)
        return Response(status=204)


class Balance(Endpoint):
    write_scope = Scope.ADMINISTER

    def rows(self) -> QuerySet[QueueBalance]:
        return QueueBalance.objects.filter(pk=1)

    @operation(
        "Read the balance of queues", name="read_balance", answer=BalanceOut, conditional=True
    )
    def get(self, request: Request) -> Response:
        """Returns the queues that share a maximum number of results in progress."""
        return self.reply(balance.settings())

    @operation(
        "Change the balance of queues",
        name="change_balance",
        answer=BalanceOut,
        body=ChangedBalance,
        guarded=True,
        problems=(422,),
    )
    def patch(self, request: Request) -> Response:
        """Changes the given fields, and sets the limits of the queues at once.

        Afterwards the housekeeper sets these limits every 15 seconds. A queue that leaves the
        balance keeps its last limit.
        """
        balance.change(**self.body(), now=self.now)
        return self.reply(balance.settings())


def _find(name: str) -> Queue:
    if queue := Queue.objects.select_related("app").filter(name=name).first():
        return queue
    hint = "check the spelling; `scientist queue list` lists the queues."
    raise Problem(404, "not_found", f"There is no queue {name[:100]!r}.", hint=hint)


def _shows_lists(request: Request) -> bool:
    """Whether the caller may see the ids of all hosts and accounts."""
    return viewer_of(request) is None
