"""Endpoints of the results of the account's own computers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import Http404
from rest_framework import serializers
from rest_framework.utils.urls import replace_query_param

from scheduler.api.http.body import INT8, Shown, StrictQuery
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import operation
from scheduler.api.http.problems import Problem
from scheduler.work.volunteers import own_result, result_lists
from scheduler.work.volunteers.result_states import OwnState

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

    from scheduler.work.volunteers.own_result import ResultDetails

DEFAULT_LIMIT, MAX_LIMIT = 50, 100
_STATES = [state.value for state in OwnState]


class ResultQuery(StrictQuery):
    """The parameters of the list."""

    state = serializers.ChoiceField(choices=_STATES, required=False)
    computer = serializers.IntegerField(min_value=1, max_value=INT8, required=False)
    sort = serializers.ChoiceField(
        choices=["-id", "id"],
        default="-id",
        help_text="`-id` lists the newest results first, `id` the oldest.",
    )
    before = serializers.IntegerField(
        min_value=1,
        max_value=INT8,
        required=False,
        help_text="Only results with smaller ids; only with the order `-id`.",
    )
    after = serializers.IntegerField(
        min_value=1,
        max_value=INT8,
        required=False,
        help_text="Only results with larger ids; only with the order `id`.",
    )
    limit = serializers.IntegerField(
        min_value=1, max_value=MAX_LIMIT, default=DEFAULT_LIMIT, help_text="Results of a page."
    )


class OwnResultShown(Shown):
    """A result of a computer of the account."""

    id = serializers.IntegerField()
    workunit = serializers.IntegerField(source="workunit_id")
    app = serializers.CharField(help_text="The title of the app.")
    computer = serializers.IntegerField(source="host_id")
    state = serializers.ChoiceField(choices=_STATES)
    why = serializers.CharField(help_text="A sentence that explains the state.")
    sent_at = serializers.DateTimeField(allow_null=True)
    report_deadline = serializers.DateTimeField(allow_null=True)
    received_at = serializers.DateTimeField(
        allow_null=True, help_text="When the result ended; null while it is in progress."
    )
    elapsed_seconds = serializers.FloatField(source="elapsed_time")
    cpu_seconds = serializers.FloatField(source="cpu_time")
    credit = serializers.FloatField(source="granted_credit")


class OwnResultPage(Shown):
    """A page of results."""

    next = serializers.URLField(
        allow_null=True,
        help_text="The URL of the next page, or null. With `state`, a page can be short or empty "
        "although `next` is not null.",
    )
    results = OwnResultShown(many=True, source="rows")


class SiblingShown(Shown):
    """Another result of the same workunit."""

    state = serializers.ChoiceField(
        choices=_STATES, allow_null=True, help_text="Null: not sent yet."
    )
    own_result = serializers.IntegerField(
        source="own_id", allow_null=True, help_text="Its id, if it belongs to the account."
    )
    computer = serializers.IntegerField(
        source="shown_host_id",
        allow_null=True,
        help_text="Its computer, if its owner shows it.",
    )


class MomentShown(Shown):
    """A step of the timeline."""

    at = serializers.DateTimeField()
    text = serializers.CharField()


class GrantShown(Shown):
    """Credit that was granted for the result."""

    at = serializers.DateTimeField()
    amount = serializers.FloatField()
    rule = serializers.CharField()
    why = serializers.CharField(help_text="How the rule computes the amount.")


class OwnResultDetails(OwnResultShown):
    """A result of a computer of the account with its history."""

    id = serializers.IntegerField(source="result.id")
    workunit = serializers.IntegerField(source="result.workunit_id")
    app = serializers.CharField(help_text="The title of the app.")
    computer = serializers.IntegerField(source="result.host_id")
    sent_at = serializers.DateTimeField(source="result.sent_at", allow_null=True)
    report_deadline = serializers.DateTimeField(source="result.report_deadline", allow_null=True)
    received_at = serializers.DateTimeField(source="result.received_at", allow_null=True)
    elapsed_seconds = serializers.FloatField(source="result.elapsed_time")
    cpu_seconds = serializers.FloatField(source="result.cpu_time")
    credit = serializers.FloatField(source="result.granted_credit")
    name = serializers.CharField(source="result.name")
    exit_status = serializers.IntegerField(source="result.exit_status")
    flops = serializers.FloatField(
        source="result.flops_estimate", help_text="Speed of the devices that the result used."
    )
    timeline = MomentShown(many=True)
    grants = GrantShown(many=True)
    siblings = SiblingShown(
        many=True,
        allow_null=True,
        help_text="Other results of the workunit; null until the workunit is decided.",
    )
    stderr = serializers.CharField(
        help_text=f"The last {own_result.MAX_STDERR} characters of the error output."
    )
    stderr_is_cut = serializers.BooleanField()

    def read_app(self, details: ResultDetails) -> str:
        return details.result.app.user_friendly_name or details.result.app.name


class MyResults(Endpoint):
    @operation(
        "List the results of the account's computers",
        name="list_my_results",
        answer=OwnResultPage,
        query=ResultQuery,
        problems=(422,),
    )
    def get(self, request: Request) -> Response:
        """Returns the results of the account's computers, also for staff."""
        query = self.query()
        state = query.get("state")
        filters: dict[str, Any] = {
            "host_id": query.get("computer"),
            "state": None if state is None else OwnState(state),
            "count": query["limit"],
        }
        is_newest_first = query["sort"] == "-id"
        name, unused = ("before", "after") if is_newest_first else ("after", "before")
        if unused in query:
            msg = f"The order {query['sort']} does not use `{unused}`. Hint: give `{name}`."
            raise Problem(422, "bad_position", msg)
        if is_newest_first:
            page = result_lists.newest(self.account, below=query.get(name), **filters)
            edge = page.older_than
        else:
            page = result_lists.oldest(self.account, above=query.get(name), **filters)
            edge = page.newer_than
        url = request.build_absolute_uri()
        link = None if edge is None else replace_query_param(url, name, str(edge))
        return self.reply({"next": link, "rows": page.rows})


class MyResult(Endpoint):
    @operation(
        "Read a result of the account's computers",
        name="read_my_result",
        answer=OwnResultDetails,
        conditional=True,
    )
    def get(self, request: Request, result_id: int) -> Response:
        """Returns the result with its timeline, its credit and the end of its error output."""
        details = own_result.find(self.account, result_id)
        if details is None:
            raise Http404
        return self.reply(details)
