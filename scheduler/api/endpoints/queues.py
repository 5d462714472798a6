"""Endpoints for queues: sets of workunits with their own limit and order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.http.body import INT4, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Name
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.models import Queue
from scheduler.queues import named_queues

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request

_ORDERS = ("priority", "fifo", "lifo")


class QueueOut(serializers.Serializer[Queue]):
    """A queue."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    app = serializers.CharField(source="app.name", default=None, allow_null=True)
    max_in_progress = serializers.IntegerField(allow_null=True)
    order = serializers.ChoiceField(_ORDERS)
    created_at = serializers.DateTimeField()


class ChangedQueue(Strict):
    """The fields of a queue that can be changed."""

    app = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=60,
        help_text="The only app whose work the queue accepts.",
    )
    max_in_progress = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=INT4,
        help_text="If null, there is no limit.",
    )
    order = serializers.ChoiceField(_ORDERS, required=False)


class NewQueue(ChangedQueue):
    """The fields of a new queue."""

    name = serializers.RegexField(
        r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=100, help_text="Letters, digits, - . and _."
    )


class QueueFilters(Filters):
    app = Name("app__name", help_text="Only queues of this app.")


class Queues(Endpoint):
    write_scope = Scope.ADMINISTER
    filterset_class = QueueFilters

    @operation("List queues", name="list_queues", answer=QueueOut, listed=True)
    def get(self, request: Request) -> Response:
        """Returns all queues, newest first."""
        return self.page(Queue.objects.select_related("app"))

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
        return self.reply(queue, headers={"Location": f"/api/v1/queues/{queue.name}"})


class OneQueue(Endpoint):
    write_scope = Scope.ADMINISTER

    @operation("Read a queue", name="read_queue", answer=QueueOut, conditional=True)
    def get(self, request: Request, name: str) -> Response:
        """Returns the queue with this name."""
        return self.reply(_find(name))

    def rows(self, name: str) -> QuerySet[Queue]:
        return Queue.objects.filter(name=name)

    @operation(
        "Change a queue", name="change_queue", answer=QueueOut, body=ChangedQueue, guarded=True
    )
    def patch(self, request: Request, name: str) -> Response:
        """Changes the given fields; omitted fields keep their values."""
        data = self.body()
        return self.reply(named_queues.change(_find(name), **data))

    @operation("Delete a queue", name="drop_queue", answer=None, status=204, problems=(409,))
    def delete(self, request: Request, name: str) -> Response:
        """Deletes a queue without workunits; for other queues, the response is 409."""
        named_queues.drop(_find(name))
        return Response(status=204)


def _find(name: str) -> Queue:
    return get_object_or_404(Queue.objects.select_related("app"), name=name)
