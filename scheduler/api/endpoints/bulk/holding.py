"""Endpoints that hold and release workunits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rest_framework import serializers

from scheduler.api.endpoints.batches import find_to_change
from scheduler.api.endpoints.cancelling import Named
from scheduler.api.http.body import Shown
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.api.viewer import changer_of
from scheduler.work import control, submitted
from scheduler.work.rules.statuses import DEFAULT_HOLD_CODE

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response


class ToHold(Named):
    """The workunits to hold, and the code of the hold."""

    hold_code = serializers.IntegerField(
        required=False,
        min_value=-(2**15),
        max_value=-1,
        help_text="A negative number with a meaning of your own; not -1, -2 and -6. Without it, "
        "-4, or no code for staff.",
    )


class _Changed(Shown):
    already = serializers.IntegerField(help_text="Number of workunits that had this state before.")
    finished = serializers.IntegerField(help_text="Number of workunits that have ended.")
    impossible = serializers.IntegerField(
        help_text="Number of workunits that wait for other workunits, or that staff hold."
    )


class Held(_Changed):
    """Numbers of workunits by the outcome of a hold."""

    held = serializers.IntegerField(source="changed", help_text="Number of workunits held now.")


class Released(_Changed):
    """Numbers of workunits by the outcome of a release."""

    released = serializers.IntegerField(
        source="changed", help_text="Number of workunits released now."
    )


class HoldWorkunits(Endpoint):
    @operation(
        "Hold workunits",
        name="hold_workunits",
        or_scope=Scope.MANAGE,
        answer=Held,
        body=ToHold,
        problems=(404,),
    )
    def post(self, request: Request) -> Response:
        """Holds the given workunits: no results are sent until they are released.

        Results in progress continue. A held workunit gets the new code, except for those that staff
        hold without a code: only staff change these. If one workunit does not exist, no workunit is
        held.
        """
        data = self.body()
        named = _named(request, data)
        code = data.get("hold_code", DEFAULT_HOLD_CODE if named["only_coded"] else None)
        return self.reply(control.hold(hold_code=code, now=self.now, **named))


class ReleaseWorkunits(Endpoint):
    @operation(
        "Release workunits",
        name="release_workunits",
        or_scope=Scope.MANAGE,
        answer=Released,
        body=Named,
        problems=(404,),
    )
    def post(self, request: Request) -> Response:
        """Releases held workunits, so that their results are sent.

        Submitters release workunits with a `hold_code`; those without one were held by staff, and
        only staff release them. A repeated call has no effect.
        """
        named = _named(request, self.body())
        return self.reply(control.release(now=self.now, **named))


def _named(request: Request, data: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `control.hold` for workunits or a batch that the caller may change.

    Raises `WorkunitsNotFound` for workunits of other accounts, and Http404 for their batches.
    """
    owner = changer_of(request)
    only_coded = owner is not None
    if "batch" in data:
        batch = find_to_change(request, data["batch"])
        return {"batch": batch.name, "submitter": batch.submitter, "only_coded": only_coded}
    ids, names = data.get("ids", []), data.get("names", [])
    if missing := submitted.not_owned(owner, ids=ids, names=names):
        raise control.WorkunitsNotFound(missing)
    return {"ids": ids, "names": names, "only_coded": only_coded}
