"""Endpoints of the trusted pool: browse, claim, report usage and wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django.conf import settings
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.http.body import INT8, Duration, Shown, Strict, StrictQuery
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Access, operation
from scheduler.api.http.problems import Problem
from scheduler.models import Host
from scheduler.pool import cancellations, claims, usage_reports
from scheduler.pool.claims import MAX_ACQUIRED, MAX_LISTED, ClaimRefused, ResultUnknown
from scheduler.pool.facts import Filter, Usage

if TYPE_CHECKING:
    from rest_framework.request import Request

    from scheduler.pool.facts import PoolHost

#: The names of fields in the API of Eve, for ours.
_EVE_NAMES = {"_id": "id"}
#: The fields that a worker needs to choose work (Eve's projection).
_DEFAULT_FIELDS = "id,max_termination_time,requested_resources"
_MAX_NUMBER = 1e100
_MAX_WAIT_SECONDS = 60
_BUSY_SECONDS = 1


class ResourcesOut(Shown):
    """The resources of a result."""

    cpus = serializers.FloatField(help_text="0: those of the app version.")
    gpus = serializers.FloatField(help_text="0: those of the app version.")
    memory_bytes = serializers.FloatField()
    disk_bytes = serializers.FloatField()
    fpops = serializers.FloatField(help_text="Estimated number of floating-point operations.")


class AvailableOut(Shown):
    """An unsent result; only the requested fields are included."""

    id = serializers.IntegerField(required=False)
    name = serializers.CharField(required=False)
    workunit = serializers.IntegerField(source="workunit_id", required=False)
    workunit_name = serializers.CharField(required=False)
    app = serializers.CharField(required=False)
    queue = serializers.CharField(required=False)
    batch = serializers.CharField(required=False, allow_null=True)
    priority = serializers.IntegerField(required=False)
    max_termination_time = Duration(required=False, help_text="In seconds.")
    delay_bound_seconds = Duration(source="delay_bound", required=False)
    requested_resources = ResourcesOut(required=False)

    def to_representation(self, instance: Any) -> dict[str, Any]:
        """Return the fields named in the context's `fields`."""
        shown = super().to_representation(instance)
        names = self.context.get("fields", ())
        return {name: value for name, value in shown.items() if name in names}


_FIELDS = tuple(AvailableOut().fields)


class AvailableList(Shown):
    """Available results, oldest first."""

    results = AvailableOut(many=True)


class _Limits(StrictQuery):
    queue = serializers.CharField(required=False, max_length=100, help_text="Name of a queue.")
    app = serializers.CharField(required=False, max_length=60, help_text="Name of an app.")
    batch = serializers.CharField(required=False, max_length=250, help_text="Name of a batch.")
    max_memory_bytes = serializers.FloatField(
        required=False, min_value=0, max_value=_MAX_NUMBER, help_text="Most memory of a result."
    )
    max_disk_bytes = serializers.FloatField(
        required=False, min_value=0, max_value=_MAX_NUMBER, help_text="Most disk of a result."
    )
    max_fpops = serializers.FloatField(
        required=False, min_value=0, max_value=_MAX_NUMBER, help_text="Most operations of a result."
    )
    max_cpus = serializers.FloatField(
        required=False, min_value=0, max_value=_MAX_NUMBER, help_text="Most CPUs of a result."
    )
    max_gpus = serializers.FloatField(
        required=False, min_value=0, max_value=_MAX_NUMBER, help_text="Most GPUs of a result."
    )


class AvailableQuery(_Limits):
    """The filters and the projection of a list of available results."""

    fields_ = serializers.CharField(required=False, max_length=500)
    limit = serializers.IntegerField(
        required=False,
        default=50,
        min_value=1,
        max_value=MAX_LISTED,
        help_text="Length of the list.",
    )
    after = serializers.IntegerField(
        required=False,
        default=0,
        min_value=0,
        max_value=INT8,
        help_text="Only results with a greater id.",
    )

    def get_fields(self) -> dict[str, Any]:
        """Return the fields; `fields` cannot be an attribute of a serializer."""
        fields = super().get_fields()
        del fields["fields_"]
        text = f"Names of fields, separated by commas: {', '.join(_FIELDS)}."
        fields["fields"] = serializers.CharField(
            required=False, default=_DEFAULT_FIELDS, max_length=500, help_text=text
        )
        return fields


class AcquireBody(_Limits, Strict):
    """The number and the limits of the results to claim."""

    checks_types = True

    count = serializers.IntegerField(
        required=False, default=1, min_value=1, max_value=MAX_ACQUIRED, help_text="At most."
    )


class ClaimedOut(Shown):
    """A claimed result; the client gets its files by the next scheduler RPC."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    report_deadline = serializers.DateTimeField()


class ClaimedList(Shown):
    """Claimed results."""

    results = ClaimedOut(many=True)


class AcquiredList(Shown):
    """Claimed results; the list is empty if no available result that was read fits the host."""

    results = ClaimedOut(many=True)
    results_read = serializers.IntegerField(
        help_text="The number of unsent results that the server has looked at."
    )
    all_read = serializers.BooleanField(
        help_text="Whether these were all unsent results of the queues that serve the host."
    )


class PoolOut(Shown):
    """The caller's host, and where it waits for cancellations."""

    host = serializers.IntegerField()
    name = serializers.CharField(allow_blank=True)
    wait_url = serializers.CharField()


class WaitQuery(StrictQuery):
    """The cursor of the last answer, and the longest time to wait."""

    cursor = serializers.CharField(required=False, max_length=64, default="")
    timeout = serializers.IntegerField(
        required=False,
        default=_MAX_WAIT_SECONDS,
        min_value=0,
        max_value=_MAX_WAIT_SECONDS,
        help_text="In seconds.",
    )


class CancellationsOut(Shown):
    """The names of the results that the host must abort."""

    cursor = serializers.CharField(help_text="Send it with the next request.")
    aborts = serializers.ListField(child=serializers.CharField())


class UsageBody(Strict):
    """The progress and usage of a running result; fields that are left out are unknown.

    `memory_usage` is the name that Eve has for `memory_bytes`.
    """

    fraction_done = serializers.FloatField(required=False, min_value=0, max_value=1)
    cpu_time = serializers.FloatField(
        required=False, min_value=0, max_value=1e12, help_text="CPU seconds so far."
    )
    elapsed_time = serializers.FloatField(
        required=False, min_value=0, max_value=1e12, help_text="Seconds of running so far."
    )
    memory_bytes = serializers.FloatField(required=False, min_value=0, max_value=1e18)
    gpu_usage = serializers.FloatField(required=False, min_value=0, max_value=1)
    cpu_utilization = serializers.FloatField(
        required=False,
        min_value=0,
        max_value=65_536,
        help_text="CPUs in use, 0.8 for 80 % of one. Without it, it is computed from the times.",
    )
    memory_usage = serializers.FloatField(
        required=False, min_value=0, max_value=1e18, help_text="Another name of `memory_bytes`."
    )

    def validate(self, attrs: Any) -> Any:
        if not attrs:
            msg = f"The report is empty. Hint: send one of {', '.join(self.fields)}."
            raise serializers.ValidationError(msg)
        if "memory_usage" in attrs:
            if "memory_bytes" in attrs:
                msg = "memory_bytes and memory_usage are both given. Hint: give one of them."
                raise serializers.ValidationError({"memory_usage": msg})
            attrs["memory_bytes"] = attrs.pop("memory_usage")
        return attrs


class UsageStored(Shown):
    """Whether the sample was stored.

    It is stored with all of its values if the result got no sample with one of these values in the
    last second.
    """

    stored = serializers.BooleanField()


class PoolEndpoint(Endpoint):
    """An endpoint for hosts of the pool."""

    @property
    def pool_host(self) -> PoolHost:
        return cast("PoolHost", self.request.auth)


class Pool(PoolEndpoint):
    @operation("Read the pool", name="read_pool", answer=PoolOut, access=Access.POOL)
    def get(self, request: Request) -> Response:
        """Returns the caller's host, and the URL where it waits for cancellations."""
        name = Host.objects.values_list("domain_name", flat=True).get(pk=self.pool_host.host_id)
        project = settings.PROJECT
        url = project.pool_wait_url or f"{project.master_url}api/v1/pool/wait"
        return self.reply({"host": self.pool_host.host_id, "name": name, "wait_url": url})


class AvailableResults(PoolEndpoint):
    @operation(
        "List available results",
        name="list_available_results",
        answer=AvailableList,
        query=AvailableQuery,
        access=Access.POOL,
    )
    def get(self, request: Request) -> Response:
        """Returns unsent results of trusted queues that serve the host, oldest first.

        `fields` names the fields to return. A listed result may be gone when it is claimed.
        """
        query = self.query()
        names = _projection(query.pop("fields"))
        limit = query.pop("limit")
        rows = claims.available(self.pool_host, Filter(**query), limit=limit, now=self.now)
        return self.reply({"results": rows}, fields=names)


class ClaimedResults(PoolEndpoint):
    @operation(
        "List claimed results",
        name="list_claimed_results",
        answer=ClaimedList,
        access=Access.POOL,
    )
    def get(self, request: Request) -> Response:
        """Returns the results in progress on the caller's host, newest first, at most 1000.

        A worker finds the id of a result by its name here, also after a restart.
        """
        return self.reply({"results": claims.claimed_by(self.pool_host)})


class Claim(PoolEndpoint):
    @operation(
        "Claim a result",
        name="claim_result",
        answer=ClaimedOut,
        access=Access.POOL,
        problems=(409,),
    )
    def post(self, request: Request, result_id: int) -> Response:
        """Claims an available result for the caller's host; a repeated claim has no effect.

        If the result cannot be claimed, the response is 409 with a `reason`: `claimed` by another
        host, `cancelled`, `unavailable` now, `unfit` for this host, or `busy`. The client gets the
        files of the result by its next scheduler RPC.
        """
        try:
            result = claims.claim_one(
                self.pool_host, result_id, config=settings.PROJECT, now=self.now
            )
        except (ResultUnknown, ClaimRefused) as error:
            raise _refusal(error) from error
        return self.reply(result)


class Acquire(PoolEndpoint):
    @operation(
        "Acquire results",
        name="acquire_results",
        answer=AcquiredList,
        body=AcquireBody,
        access=Access.POOL,
        problems=(409,),
    )
    def post(self, request: Request) -> Response:
        """Claims up to `count` available results, selected in the order of their queues.

        One request looks at a limited number of unsent results, `results_read`. The list is empty
        if no available result fits. If none of the results that one request reads fits, and there
        are more, the response is 409 with the reason `unfit`: name another `queue` or `app`, or
        claim a result by its id.
        """
        body = self.body()
        count = body.pop("count")
        try:
            acquired = claims.acquire(
                self.pool_host, Filter(**body), count=count, config=settings.PROJECT, now=self.now
            )
        except ClaimRefused as error:
            raise _refusal(error) from error
        return self.reply(acquired)


class ReportUsage(PoolEndpoint):
    @operation(
        "Report usage",
        name="report_usage",
        answer=UsageStored,
        body=UsageBody,
        access=Access.POOL,
    )
    def post(self, request: Request, result_id: int) -> Response:
        """Appends a sample of the progress and usage of a result in progress on the host.

        The sample is stored if it has a value of which the result got no sample in the last second.
        """
        return self.reply({"stored": self.store(result_id)})

    def store(self, result_id: int) -> bool:
        """Store the sample in the body; return whether it was stored."""
        try:
            return usage_reports.report(
                self.pool_host, result_id, Usage(**self.body()), now=self.now
            )
        except ResultUnknown as error:
            raise _refusal(error) from error


class ReportOneValue(ReportUsage):
    """`report_usage` under the names that Eve has for its parts, by POST or PATCH."""

    schema = None  # not in the schema

    @operation(
        "Report one value",
        name="report_one_value",
        answer=UsageStored,
        body=UsageBody,
        access=Access.POOL,
    )
    def post(self, request: Request, result_id: int) -> Response:
        return self.reply({"stored": self.store(result_id)})

    patch = post


class Wait(PoolEndpoint):
    @operation(
        "Wait for cancellations",
        name="wait_for_cancellations",
        answer=CancellationsOut,
        query=WaitQuery,
        access=Access.POOL,
    )
    def get(self, request: Request) -> Response:
        """Returns the results that the host must abort.

        The process `runpool` answers this request when the results differ from those of `cursor`,
        or after `timeout` seconds. The web server answers it at once.
        """
        self.query()
        host_id = self.pool_host.host_id
        return self.reply(cancellations.read([host_id])[host_id])


def _projection(text: str) -> list[str]:
    """Return the names of fields in a projection; raises `ValidationError` for unknown names."""
    names = [_EVE_NAMES.get(name, name) for name in text.replace(" ", "").split(",") if name]
    if unknown := [name for name in names if name not in _FIELDS]:
        msg = f"There is no field {unknown[0][:80]!r}. Hint: valid names: {', '.join(_FIELDS)}."
        raise serializers.ValidationError({"fields": [msg]})
    return names


def _refusal(error: ResultUnknown | ClaimRefused) -> Problem:
    if isinstance(error, ResultUnknown):
        return Problem(404, "not_found", str(error))
    problem = Problem(
        409,
        error.reason,
        str(error),
        retry_after=_BUSY_SECONDS if error.reason == "busy" else None,
    )
    problem.body["reason"] = error.reason
    return problem
