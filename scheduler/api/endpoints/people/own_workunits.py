"""Endpoint of a workunit of which a computer of the account has or had a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import Http404
from rest_framework import serializers

from scheduler.api.http.body import Duration, Shown
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import operation
from scheduler.work.volunteers import own_workunit
from scheduler.work.volunteers.result_states import OwnState
from scheduler.work.volunteers.workunit_states import WorkunitState

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

_STATES = [state.value for state in OwnState]
_WORKUNIT_STATES = [state.value for state in WorkunitState]


class WorkunitResultShown(Shown):
    """A result of the workunit."""

    state = serializers.ChoiceField(
        choices=_STATES, allow_null=True, help_text="Null: not sent yet."
    )
    why = serializers.CharField(
        help_text="A sentence that explains the state of the account's result; else empty."
    )
    own_result = serializers.IntegerField(
        source="own_id", allow_null=True, help_text="Its id, if it belongs to the account."
    )
    computer = serializers.IntegerField(
        source="host_id",
        allow_null=True,
        help_text="Its computer, if it is the account's, or if the owner shows their computers.",
    )
    owner = serializers.IntegerField(
        source="owner_id",
        allow_null=True,
        help_text="The id of another account that shows its computers and shares its statistics.",
    )
    owner_name = serializers.CharField(help_text="The name of this account, or empty.")
    sent_at = serializers.DateTimeField(allow_null=True)
    report_deadline = serializers.DateTimeField(allow_null=True)
    received_at = serializers.DateTimeField(
        allow_null=True, help_text="When the result ended; null while it is in progress."
    )
    credit = serializers.FloatField(source="granted_credit")


class OwnWorkunitShown(Shown):
    """A workunit, as the owner of a computer sees it that has or had a result of it."""

    id = serializers.IntegerField(source="workunit.id")
    app = serializers.CharField(help_text="The title of the app.")
    state = serializers.ChoiceField(choices=_WORKUNIT_STATES)
    why = serializers.CharField(help_text="A sentence that explains the state.")
    created_at = serializers.DateTimeField(source="workunit.created_at")
    delay_bound_seconds = Duration(
        source="workunit.delay_bound", help_text="The time from sending a result to its deadline."
    )
    fpops_estimate = serializers.FloatField(
        source="workunit.rsc_fpops_est", help_text="Estimated floating-point operations."
    )
    seconds_estimate = serializers.FloatField(
        help_text="The run time that follows, on one processor of the account's computer."
    )
    max_memory_bytes = serializers.FloatField(source="workunit.rsc_memory_bound")
    max_disk_bytes = serializers.FloatField(source="workunit.rsc_disk_bound")
    own = WorkunitResultShown(many=True, help_text="The results of the account's computers.")
    others = WorkunitResultShown(
        many=True,
        allow_null=True,
        help_text="The results of other accounts; null until the workunit is decided.",
    )


class MyWorkunit(Endpoint):
    @operation(
        "Read a workunit of which the account has a result",
        name="read_my_workunit",
        answer=OwnWorkunitShown,
        conditional=True,
    )
    def get(self, request: Request, workunit_id: int) -> Response:
        """Returns the workunit and its results, without the data of its submitter.

        404 if no computer of the account has or had a result of it, also for staff.
        """
        details = own_workunit.find(self.account, workunit_id)
        if details is None:
            raise Http404
        return self.reply(details)
