"""Endpoints that list, read and limit hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied

from scheduler.api.authentication import has_right
from scheduler.api.http.body import INT4, Column, RowShown, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Id, Name, TrueOrFalse
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.api.search import fields
from scheduler.api.search.filters import Search
from scheduler.api.viewer import seen_hosts
from scheduler.hosts import denials
from scheduler.models import Host
from scheduler.rights import Right

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
    merged_into = serializers.IntegerField(
        source="merged_into_id",
        allow_null=True,
        help_text="The host into which it was merged; its own id if its owner deleted it.",
    )

    class Meta:
        model = Host


class ChangedHost(Strict):
    """The field of a host that can be changed."""

    max_in_progress = serializers.IntegerField(
        min_value=0,
        max_value=INT4,
        allow_null=True,
        help_text="The maximum number of results in progress on the host. If null, only other "
        "limits apply; with 0, the host gets no new results.",
    )


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
    filter = Search(fields=fields.HOSTS)


class Hosts(Endpoint):
    filterset_class = HostFilters

    @operation("List hosts", name="list_hosts", answer=HostOut, listed=True)
    def get(self, request: Request) -> Response:
        """Returns hosts, newest first.

        These are the account's hosts, or all hosts for callers who may view everything.
        """
        return self.page(seen_hosts(request))


class OneHost(Endpoint):
    write_scope = Scope.ADMINISTER

    def rows(self, host_id: int) -> QuerySet[Host]:
        return Host.objects.filter(pk=host_id)

    @operation("Read a host", name="read_host", answer=HostOut, conditional=True)
    def get(self, request: Request, host_id: int) -> Response:
        """Returns the host, if it belongs to the account or the caller may view everything."""
        return self.reply(get_object_or_404(seen_hosts(request), pk=host_id))

    @operation("Limit a host", name="limit_host", answer=HostOut, body=ChangedHost, guarded=True)
    def patch(self, request: Request, host_id: int) -> Response:
        """Changes the host's maximum number of results in progress.

        A lower maximum interrupts no result: the host gets no new ones until it holds fewer.
        """
        if not has_right(request, Right.ADMINISTER_HOSTS):
            raise PermissionDenied(_NOT_ALLOWED)
        limit = self.body()["max_in_progress"]
        host = get_object_or_404(seen_hosts(request), pk=host_id)
        denials.limit(host.pk, limit, now=self.now)
        host.refresh_from_db()
        return self.reply(host)


_NOT_ALLOWED = (
    "The account may not limit hosts. Hint: ask the project's staff for the role operator."
)
