"""Endpoints of task lists: workunits that one host gets as a unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.shortcuts import get_object_or_404
from rest_framework import serializers

from scheduler.api.endpoints.batches import find_to_change
from scheduler.api.http.body import INT8, Shown, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Id, Word
from scheduler.api.http.openapi_operation import operation
from scheduler.api.viewer import OwnPages, viewer_of
from scheduler.lifecycle import BundleState
from scheduler.models import Bundle
from scheduler.work import task_lists
from scheduler.work.submission.rules.bundling import MAX_MEMBERS

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

_STATES = {state.name.lower(): state for state in BundleState}


class ByState(Word):
    """Filters by the state of a task list."""

    def filter(self, qs: Any, value: Any) -> Any:
        """Return the lists in this state."""
        return qs.filter(state=_STATES[value]) if value else qs


class BundleFilters(Filters):
    batch = Id(field_name="batch_id")
    host = Id(field_name="host_id")
    state = ByState(words=list(_STATES))


class BundleShown(Shown):
    """A task list, named `<created>_<worker>_<started>_<finished>` as far as these are known."""

    id = serializers.IntegerField()
    batch = serializers.IntegerField(source="batch_id")
    state = serializers.ChoiceField(choices=list(_STATES))
    label = serializers.CharField(  # type: ignore[assignment]  # `Field.label`
        help_text="The name of the list in TDF2: the times in Unix seconds and the host's name."
    )
    is_ready = serializers.BooleanField(help_text="Whether a host can claim the list now.")
    priority = serializers.IntegerField()
    created_at = serializers.DateTimeField(help_text="When its first workunit was created.")
    host = serializers.IntegerField(
        source="host_id", allow_null=True, help_text="Id of the host that holds, or held, the list."
    )
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    claims = serializers.IntegerField(help_text="How often a host has claimed the list.")

    def read_state(self, bundle: Bundle) -> str:
        return BundleState(bundle.state).name.lower()

    def read_label(self, bundle: Bundle) -> str:
        return task_lists.label_of(bundle)


class MemberShown(Shown):
    """A workunit of a task list, in the order of computation."""

    id = serializers.IntegerField(source="workunit_id")
    name = serializers.CharField()
    phase = serializers.ChoiceField(
        choices=list(task_lists.PHASES),
        help_text="Whether the list waits for a result of this workunit, has one that can be sent, "
        "waits for its report, or is done with it.",
    )


class BundleWithMembers(BundleShown):
    """A task list with its members."""

    lease_until = serializers.DateTimeField(
        allow_null=True,
        help_text="When the members that the host has not reported are sent again.",
    )
    workunits = MemberShown(many=True)

    def read_lease_until(self, bundle: Bundle) -> Any:
        return task_lists.lease_until(bundle)

    def read_workunits(self, bundle: Bundle) -> Any:
        return task_lists.members_now(bundle)


class BundleWanted(Strict):
    """The workunits of a new task list, by name; they belong to one batch."""

    batch = serializers.IntegerField(min_value=0, max_value=INT8)
    workunits = serializers.ListField(
        child=serializers.CharField(max_length=200), min_length=1, max_length=MAX_MEMBERS
    )


class Bundles(OwnPages):
    """The task lists of the batches that the caller may see."""

    filterset_class = BundleFilters
    batch_lookup = "batch"
    indexed_filters = ("batch",)

    @operation("List task lists", name="list_bundles", answer=BundleShown, listed=True)
    def get(self, request: Request) -> Response:
        """Returns task lists, newest first.

        These are the lists of the caller's batches, or all lists for callers who may view
        everything.
        """
        return self.page(Bundle.objects.select_related("host"))

    @operation(
        "Make a task list",
        name="create_bundle",
        answer=BundleWithMembers,
        body=BundleWanted,
        idempotent=True,
        status=201,
        problems=(404, 409),
    )
    def post(self, request: Request) -> Response:
        """Makes a task list of workunits that no host computes.

        One host gets all of them, and computes them in the order of their submission.
        """
        wanted = self.body()
        batch = find_to_change(request, wanted["batch"])
        bundle = task_lists.make_from(batch, wanted["workunits"], now=self.now)
        return self.reply(bundle)


class OneBundle(Endpoint):
    @operation("Read a task list", name="read_bundle", answer=BundleWithMembers, conditional=True)
    def get(self, request: Request, bundle_id: int) -> Response:
        """Returns the task list with its workunits."""
        viewer = viewer_of(request)
        rows = Bundle.objects.select_related("host")
        rows = rows if viewer is None else rows.filter(batch__submitter=viewer)
        return self.reply(get_object_or_404(rows, pk=bundle_id))
