"""Endpoint that lists and publishes the versions of an app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.response import Response

from scheduler import storage
from scheduler.api.endpoints.app_versions import AppVersionOut, VersionsOfApp
from scheduler.api.http import idempotent
from scheduler.api.http.body import StrictQuery
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.api.http.problems import Problem
from scheduler.apps import deliveries, programs
from scheduler.apps.rollouts import DEFAULT_ROLLBACK_RESULTS
from scheduler.apps.rules.packaging import version_number
from scheduler.files import form_uploads
from scheduler.models import App
from scheduler.people.submitters import require_publish

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase
    from rest_framework.request import Request

#: Maximum size of the multipart form in addition to the files, in bytes.
_FORM_BYTES = 1 << 20


class NewVersion(StrictQuery):
    """The multipart form of a new version, with at most one of `file`, `source_url`, `image`."""

    version = serializers.CharField(max_length=20, help_text="For example 1.00.")
    platforms = serializers.ListField(
        child=serializers.CharField(max_length=254),
        required=False,
        max_length=50,
        help_text="By default, the usual platforms for the kind of the app.",
    )
    plan_class = serializers.CharField(required=False, allow_blank=True, max_length=60)
    main_program = serializers.CharField(
        required=False,
        max_length=200,
        help_text="The name of the file to start, if `file` has several files.",
    )
    cmdline = serializers.CharField(required=False, allow_blank=True, max_length=255)
    image = serializers.CharField(
        required=False, max_length=400, help_text="The container image, as name@sha256:DIGEST."
    )
    source_url = serializers.CharField(
        required=False,
        max_length=1000,
        help_text="The URL from which the server fetches the program once, during this request.",
    )
    beta = serializers.BooleanField(required=False, default=False)
    rollout_percent = serializers.IntegerField(
        required=False,
        default=100,
        min_value=0,
        max_value=100,
        help_text="The share of the hosts that get the version at first; the others get the "
        "previous version.",
    )
    max_error_percent = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=99,
        help_text="The share becomes 0 if more than this percentage of the results of 24 hours "
        "fail. By default, the version is not rolled back.",
    )
    min_rollback_results = serializers.IntegerField(
        required=False,
        default=DEFAULT_ROLLBACK_RESULTS,
        min_value=1,
        max_value=1_000_000,
        help_text="With fewer results, the version is not rolled back.",
    )
    file = serializers.ListField(child=serializers.FileField(), required=False, max_length=100)
    signatures = serializers.ListField(
        child=serializers.CharField(max_length=4096),
        required=False,
        max_length=100,
        help_text="Contents of .sig files made on another machine, one for each published file.",
    )


class Versions(VersionsOfApp):
    """The list of an app's versions, and the operation that publishes a version."""

    write_scope = Scope.PUBLISH
    parser_classes = (MultiPartParser,)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Let the form have files; it is read after the account and the length are checked."""
        form_uploads.accept_uploads(request)
        return super().dispatch(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Raise `Problem` (413) for a long request, before its body is read."""
        if request.method == "POST":
            length = str(request.META.get("CONTENT_LENGTH") or "0")
            if length.isdecimal() and int(length) > storage.MAX_PACKAGE_BYTES + _FORM_BYTES:
                msg = (
                    f"The request is longer than {storage.MAX_PACKAGE_BYTES} bytes. "
                    "Hint: leave out files that the app does not need."
                )
                raise Problem(413, "too_long", msg)
        super().initial(request, *args, **kwargs)

    @operation(
        "Publish a version of an app",
        name="publish_app_version",
        answer={201: AppVersionOut(many=True), 200: AppVersionOut(many=True)},
        body={"multipart/form-data": NewVersion},
        keyed=True,
        problems=(403, 409, 413, 415, 422, 503),
    )
    def post(self, request: Request, name: str) -> Response:
        """Publishes a version for all given platforms, or for none of them if an error occurs.

        The files depend on the app's kind. An app of kind `native` needs a program, several files,
        or an archive. Kind `script` needs a `run.sh`, or an archive (`.tar`, `.tar.gz`,
        `.tar.bz2`, `.tar.xz`, `.zip`) with `run.sh` at its top level. Kind `command` has no file.
        Kind `container` needs `image`. If the version was already published with the same files,
        the response is 200. If it was published with different files, the response is 409, because
        clients would never download the new files. A project that keeps its private key on another
        machine requires `signatures` of the exact published files, including the launcher and the
        repacked archive.
        """
        app = get_object_or_404(App, name=name)
        require_publish(self.account, app)
        if response := idempotent.stored_response(request):
            return response
        form = NewVersion(data=request.data)
        form.is_valid(raise_exception=True)
        fields = form.validated_data
        files = [(str(file.name), file.chunks()) for file in fields.get("file", ())]
        sent = deliveries.sent(app, _order(fields), files, holder=self.account, now=self.now)
        with sent as write:
            return idempotent.once(request, lambda: _response(write()))


def _order(fields: Mapping[str, Any]) -> programs.Order:
    return programs.Order(
        version_num=version_number(fields["version"]),
        platforms=tuple(fields.get("platforms", ())),
        plan_class=fields.get("plan_class", ""),
        main_program=fields.get("main_program"),
        cmdline=fields.get("cmdline", ""),
        image=fields.get("image", ""),
        source_url=fields.get("source_url", ""),
        signatures={
            f"signature {number}": text
            for number, text in enumerate(fields.get("signatures", ()), start=1)
        },
        beta=fields["beta"],
        rollout_percent=fields["rollout_percent"],
        max_error_percent=fields.get("max_error_percent"),
        min_rollback_results=fields["min_rollback_results"],
    )


def _response(outcome: programs.Outcome) -> Response:
    rows = programs.with_files(outcome.versions)
    return Response(AppVersionOut(rows, many=True).data, status=201 if outcome.created else 200)
