"""Endpoints of the account's own computers and their last work requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import Http404
from django.utils import timezone
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.http.body import INT8, Shown, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Word
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.hosts import own_deletions, own_hosts, own_merges
from scheduler.hosts.decision_texts import read_decision
from scheduler.hosts.own_hosts import Group, System
from scheduler.models import Host

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request

    from scheduler.hosts.decision_texts import Decision
    from scheduler.hosts.machines import Gpu
    from scheduler.models import HostAppVersion


_INSTEAD = "0: no limit; null: the preferences for the project apply."
_MAX_HELD_HELP = f"The owner's limit of results in progress on this computer. {_INSTEAD}"
_MAX_CPUS_HELP = f"The owner's limit of processors that get work on this computer. {_INSTEAD}"
_HIDDEN_HELP = (
    "Whether the owner hides the computer: it has no public page, and is anonymous on the "
    "leaderboard and in the exported statistics, even if the account shows its computers."
)


class GpuShown(Shown):
    """The GPUs of one kind in a computer."""

    kind = serializers.CharField()
    name = serializers.CharField()
    count = serializers.IntegerField()
    memory_bytes = serializers.FloatField(source="ram_bytes")


class ComputerShown(Shown):
    """A computer of the account. Speeds are in operations per second for each processor."""

    id = serializers.IntegerField()
    name = serializers.CharField(source="domain_name")
    os_name = serializers.CharField()
    os_version = serializers.CharField()
    cpu = serializers.CharField(source="p_model")
    ncpus = serializers.IntegerField(source="p_ncpus")
    gpus = GpuShown(many=True)
    flops = serializers.FloatField(source="p_fpops")
    iops = serializers.FloatField(source="p_iops")
    created_at = serializers.DateTimeField()
    last_contact_at = serializers.DateTimeField(source="rpc_at")
    in_progress = serializers.IntegerField(help_text="Number of results in progress.")
    total_credit = serializers.FloatField()
    recent_credit = serializers.FloatField(source="expavg_credit")
    venue = serializers.CharField(
        help_text="home, school, work or empty: the preferences that apply."
    )
    denied = serializers.BooleanField(help_text="Whether the project denies work to the computer.")
    hidden = serializers.BooleanField(help_text=_HIDDEN_HELP)

    def read_gpus(self, host: Host) -> list[Gpu]:
        return own_hosts.gpus_of(host)


class ReasonShown(Shown):
    """A reason why results were not sent."""

    reason = serializers.CharField(source="name", help_text="A name of docs/choosing.md.")
    results = serializers.IntegerField(source="count")
    sentence = serializers.CharField(source="text")
    detail = serializers.CharField(help_text="The values that were compared, or empty.")


class DecisionShown(Shown):
    """The outcome of a work request."""

    at = serializers.DateTimeField(allow_null=True)
    sent = serializers.IntegerField()
    sent_again = serializers.IntegerField(source="resent")
    summary = serializers.CharField()
    reasons = ReasonShown(many=True)
    messages = serializers.ListField(
        child=serializers.CharField(), help_text="Messages that the client received."
    )


class RecordShown(Shown):
    """The record of an app version on the computer."""

    app_version = serializers.CharField()
    valid = serializers.IntegerField(source="n_valid")
    sent_today = serializers.IntegerField(source="results_today")
    max_per_day = serializers.IntegerField(
        source="max_results_per_day", help_text="The daily quota; 0 before it is first set."
    )

    def read_app_version(self, record: HostAppVersion) -> str:
        return str(record.app_version)


class ComputerDetails(ComputerShown):
    """A computer of the account with its last work requests and records."""

    memory_nbytes = serializers.FloatField(source="m_nbytes")
    disk_free_nbytes = serializers.FloatField(source="d_free")
    disk_total_nbytes = serializers.FloatField(source="d_total")
    turnaround_seconds = serializers.FloatField()
    max_in_progress = serializers.IntegerField(
        allow_null=True, help_text="A limit that the project set for this computer."
    )
    max_held = serializers.IntegerField(
        source="own_max_held", allow_null=True, help_text=_MAX_HELD_HELP
    )
    max_cpus = serializers.IntegerField(
        source="own_max_cpus", allow_null=True, help_text=_MAX_CPUS_HELP
    )
    decisions = DecisionShown(
        many=True, help_text="Outcomes of the last work requests, newest first."
    )
    records = RecordShown(many=True)

    def read_decisions(self, host: Host) -> list[Decision]:
        decisions = map(read_decision, host.last_decisions)
        return [decision for decision in decisions if decision is not None]

    def read_records(self, host: Host) -> list[HostAppVersion]:
        return own_hosts.records(host, today=timezone.now().date())


class OfGroup(Word):
    """Filters by the last contact or the visibility: ``?show=active``."""

    def filter(self, qs: Any, value: Any) -> Any:
        """Return the computers of the group, or all without a value."""
        if not value:
            return qs
        return qs.filter(own_hosts.condition(group=Group(value), now=timezone.now()))


class OfSystem(Word):
    """Filters by the family of operating systems: ``?system=linux``."""

    def filter(self, qs: Any, value: Any) -> Any:
        """Return the computers of the family, or all without a value."""
        if not value:
            return qs
        return qs.filter(own_hosts.condition(system=System(value), now=timezone.now()))


class ComputerFilters(Filters):
    show = OfGroup(
        words=[group.value for group in Group],
        help_text="`active` computers have contacted the project in the last "
        f"{own_hosts.ACTIVE_FOR.days} days; the owner hides `hidden` ones from others.",
    )
    system = OfSystem(
        words=[system.value for system in System],
        help_text="The family of the operating system that the client reported.",
    )


class MyComputers(Endpoint):
    filterset_class = ComputerFilters

    @operation(
        "List the account's computers", name="list_my_computers", answer=ComputerShown, listed=True
    )
    def get(self, request: Request) -> Response:
        """Returns the computers of the account, newest first, also for staff."""
        return self.page(own_hosts.with_progress(self.account))


class ChangedComputer(Strict):
    """The fields of a computer that its owner can change."""

    venue = serializers.CharField(
        required=False,
        max_length=60,
        allow_blank=True,
        help_text="home, school or work: the preferences of this location apply. If empty, the "
        "preferences that belong to no location apply.",
    )
    max_held = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=own_hosts.MAX_LIMIT,
        help_text=_MAX_HELD_HELP,
    )
    max_cpus = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=own_hosts.MAX_LIMIT,
        help_text=_MAX_CPUS_HELP,
    )
    hidden = serializers.BooleanField(required=False, help_text=_HIDDEN_HELP)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Require at least one field."""
        if not attrs:
            raise serializers.ValidationError(
                "The body changes nothing. Hint: give venue, max_held, max_cpus or hidden."
            )
        return attrs


_COLUMNS = {
    "venue": "venue",
    "max_held": "own_max_held",
    "max_cpus": "own_max_cpus",
    "hidden": "hidden",
}


class MergedComputer(Strict):
    """The older entry of the same computer."""

    merged = serializers.IntegerField(
        min_value=1, max_value=INT8, help_text="The id of the older entry, which disappears."
    )


class MyComputer(Endpoint):
    write_scope = Scope.SUBMIT

    def lock_first(self, host_id: int) -> None:
        own_deletions.lock(self.account, host_id)

    def rows(self, host_id: int) -> QuerySet[Host]:
        return Host.objects.filter(pk=host_id, account=self.account)

    @operation(
        "Read a computer of the account",
        name="read_my_computer",
        answer=ComputerDetails,
        conditional=True,
    )
    def get(self, request: Request, host_id: int) -> Response:
        """Returns the computer, and why its last requests for work got results or none."""
        return self.reply(_find(self, host_id))

    @operation(
        "Set the location and the limits of a computer, or hide it",
        name="change_my_computer",
        answer=ComputerDetails,
        body=ChangedComputer,
        guarded=True,
        problems=(404,),
    )
    def patch(self, request: Request, host_id: int) -> Response:
        """Sets the given fields.

        The computer gets the preferences of its location with the next scheduler reply, and work
        within the limits with its next request.  It is hidden or shown at once, except in the
        exported statistics, which are written once a day.
        """
        body = self.body()
        values = {column: body[name] for name, column in _COLUMNS.items() if name in body}
        own_hosts.change(self.account, host_id, values, now=self.now)
        return self.reply(_find(self, host_id))

    @operation(
        "Delete a computer of the account",
        name="delete_my_computer",
        answer=None,
        status=204,
        guarded=True,
        problems=(404, 409),
    )
    def delete(self, request: Request, host_id: int) -> Response:
        """Removes the computer, of which the project must not keep any results, from all lists.

        Its credit stays in the account's.  A client that is still attached gets a new entry.
        """
        own_deletions.delete(self.account, host_id, now=self.now)
        return Response(status=204)


class MergeMyComputer(Endpoint):
    write_scope = Scope.SUBMIT

    @operation(
        "Merge an older entry of a computer",
        name="merge_my_computer",
        answer=ComputerDetails,
        body=MergedComputer,
        problems=(404, 409),
    )
    def post(self, request: Request, host_id: int) -> Response:
        """Moves the results and the credit of an older entry to this computer.

        The older entry must have had its last contact before this computer was attached.  The
        merge cannot be undone.
        """
        own_merges.merge(
            self.account, kept_id=host_id, merged_id=self.body()["merged"], now=self.now
        )
        return self.reply(_find(self, host_id))


def _find(endpoint: Endpoint, host_id: int) -> Host:
    host = own_hosts.find(endpoint.account, host_id)
    if host is None:
        raise Http404
    return host
