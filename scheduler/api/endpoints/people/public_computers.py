"""Endpoint of a computer whose owner shows their computers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import Http404
from rest_framework import serializers

from scheduler.api.http.body import Shown
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Access, operation
from scheduler.hosts import own_hosts

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response

    from scheduler.models import Host

_OWNER_HELP = "Null if the owner does not share their statistics."


class ShownComputer(Shown):
    """A computer that everybody may see, without its name and addresses."""

    id = serializers.IntegerField()
    owner = serializers.IntegerField(
        allow_null=True, help_text=f"The account of the owner. {_OWNER_HELP}"
    )
    owner_name = serializers.CharField(allow_null=True, help_text=_OWNER_HELP)
    vendor = serializers.CharField(
        source="p_vendor", help_text="The manufacturer of the processor."
    )
    cpu = serializers.CharField(source="p_model")
    ncpus = serializers.IntegerField(source="p_ncpus")
    os_name = serializers.CharField()
    os_version = serializers.CharField()
    memory_nbytes = serializers.FloatField(source="m_nbytes")
    created_at = serializers.DateTimeField()
    last_contact_at = serializers.DateTimeField(source="rpc_at")
    total_credit = serializers.FloatField()
    recent_credit = serializers.FloatField(source="expavg_credit")

    def read_owner(self, host: Host) -> int | None:
        return host.account_id if host.account.share_statistics else None

    def read_owner_name(self, host: Host) -> str | None:
        return host.account.name if host.account.share_statistics else None


class PublicComputer(Endpoint):
    @operation(
        "Read a computer that is shown to everybody",
        name="read_public_computer",
        answer=ShownComputer,
        access=Access.PUBLIC,
        problems=(404,),
    )
    def get(self, request: Request, host_id: int) -> Response:
        """Returns a computer whose owner shows their computers; 404 for all others."""
        host = own_hosts.find_shown(host_id)
        if host is None:
            raise Http404
        return self.reply(host)
