"""Hosts: the account's computers, or all if the caller may view everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from django.shortcuts import get_object_or_404
from django.urls import path
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.authentication import has_right
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Id, Name, TrueOrFalse
from scheduler.api.http.operation import operation
from scheduler.models import Host
from scheduler.rights import Right

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request

    from scheduler.models import Account


class HostOut(serializers.ModelSerializer[Host]):
    """A computer. Speeds are in operations per second and CPU, sizes in bytes."""

    account = serializers.IntegerField(source="account_id")
    name = serializers.CharField(source="domain_name")
    platform = serializers.CharField(source="platform_name")
    last_contact_at = serializers.DateTimeField(source="rpc_at")
    ncpus = serializers.IntegerField(source="p_ncpus")
    flops = serializers.FloatField(source="p_fpops")
    iops = serializers.FloatField(source="p_iops")
    memory_nbytes = serializers.FloatField(source="m_nbytes")
    disk_free_nbytes = serializers.FloatField(source="d_free")
    disk_total_nbytes = serializers.FloatField(source="d_total")
    cpu = serializers.CharField(source="p_model")
    total_credit = serializers.FloatField()
    recent_credit = serializers.FloatField(source="expavg_credit")
    merged_into = serializers.IntegerField(source="merged_into_id", allow_null=True)

    class Meta:
        model = Host
        fields = (
            "id",
            "account",
            "name",
            "platform",
            "os_name",
            "os_version",
            "cpu",
            "ncpus",
            "flops",
            "iops",
            "memory_nbytes",
            "disk_free_nbytes",
            "disk_total_nbytes",
            "client_version",
            "created_at",
            "last_contact_at",
            "turnaround_seconds",
            "total_credit",
            "recent_credit",
            "max_in_progress",
            "denied",
            "deny_reason",
            "merged_into",
        )


class HostFilters(Filters):
    """Filters of the list of hosts."""

    name = Name("domain_name", help_text="The host name that the client reported.")
    platform = Name("platform_name", help_text="The platform's BOINC name.")
    account = Id(
        "account_id",
        help_text="The owner's account id; useful for callers that may view everything.",
    )
    denied = TrueOrFalse(
        "denied", help_text="true: only hosts that get no work; false: only hosts that do."
    )


class Hosts(Endpoint):
    """Computers."""

    queryset = Host.objects.none()
    filterset_class = HostFilters

    @operation("List hosts", name="list_hosts", tag="hosts", answer=HostOut, listed=True)
    def get(self, request: Request) -> Response:
        """The account's hosts, newest first; all hosts for callers that may view everything."""
        return self.page(_seen_by(request), HostOut)


class OneHost(Endpoint):
    """One computer."""

    @operation("Read a host", name="read_host", tag="hosts", answer=HostOut, conditional=True)
    def get(self, request: Request, host_id: int) -> Response:
        """A host of the account; any host for callers that may view everything."""
        return Response(HostOut(get_object_or_404(_seen_by(request), pk=host_id)).data)


def _seen_by(request: Request) -> QuerySet[Host]:
    if has_right(request, Right.VIEW_EVERYTHING):
        return Host.objects.all()
    return Host.objects.filter(account=cast("Account", request.user))


urlpatterns = [
    path("hosts", Hosts.as_view()),
    path("hosts/<id:host_id>", OneHost.as_view()),
]
