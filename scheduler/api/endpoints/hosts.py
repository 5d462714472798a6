"""Endpoints that list and read hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.shortcuts import get_object_or_404
from rest_framework import serializers

from scheduler.api.http.body import Column, RowShown
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Id, Name, TrueOrFalse
from scheduler.api.http.openapi_operation import operation
from scheduler.api.viewer import viewer_of
from scheduler.models import Host

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request
    from rest_framework.response import Response


class HostOut(RowShown):
    """A computer. Speeds are in operations per second per CPU; sizes are in bytes."""

    id = Column()
    account = serializers.IntegerField(source="account_id")
    name = serializers.CharField(source="domain_name")
    platform = serializers.CharField(source="platform_name")
    os_name = Column()
    os_version = Column()
    cpu = serializers.CharField(source="p_model")
    ncpus = serializers.IntegerField(source="p_ncpus")
    flops = serializers.FloatField(source="p_fpops")
    iops = serializers.FloatField(source="p_iops")
    memory_nbytes = serializers.FloatField(source="m_nbytes")
    disk_free_nbytes = serializers.FloatField(source="d_free")
    disk_total_nbytes = serializers.FloatField(source="d_total")
    client_version = Column()
    created_at = Column()
    last_contact_at = serializers.DateTimeField(source="rpc_at")
    turnaround_seconds = Column()
    total_credit = serializers.FloatField()
    recent_credit = serializers.FloatField(source="expavg_credit")
    max_in_progress = Column()
    denied = Column()
    deny_reason = Column()
    merged_into = serializers.IntegerField(source="merged_into_id", allow_null=True)

    class Meta:
        model = Host


class HostFilters(Filters):
    name = Name("domain_name", help_text="The host name that the client reported.")
    platform = Name("platform_name", help_text="The platform's BOINC name.")
    account = Id(
        "account_id",
        help_text="The owner's account id; useful for callers who may view everything.",
    )
    denied = TrueOrFalse(
        "denied",
        help_text="If true, only hosts that are denied; if false, only hosts that are not denied.",
    )


class Hosts(Endpoint):
    filterset_class = HostFilters

    @operation("List hosts", name="list_hosts", answer=HostOut, listed=True)
    def get(self, request: Request) -> Response:
        """Returns hosts, newest first.

        These are the account's hosts, or all hosts for callers who may view everything.
        """
        return self.page(_seen_by(request))


class OneHost(Endpoint):
    @operation("Read a host", name="read_host", answer=HostOut, conditional=True)
    def get(self, request: Request, host_id: int) -> Response:
        """Returns the host, if it belongs to the account or the caller may view everything."""
        return self.reply(get_object_or_404(_seen_by(request), pk=host_id))


def _seen_by(request: Request) -> QuerySet[Host]:
    viewer = viewer_of(request)
    return Host.objects.all() if viewer is None else Host.objects.filter(account=viewer)
