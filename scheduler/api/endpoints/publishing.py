"""Publishes app versions: a program, a script's archive, a command, an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.http import Http404
from django.urls import path
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.response import Response

from scheduler import storage
from scheduler.api.endpoints.app_versions import AppVersionOut, VersionsOfApp
from scheduler.api.http import idempotent
from scheduler.api.http.body import StrictQuery, unknown_name
from scheduler.api.http.operation import Scope, operation
from scheduler.api.http.problems import Problem
from scheduler.apps import app_versions, deliveries, programs
from scheduler.apps.rules.packaging import version_number
from scheduler.models import App
from scheduler.people.submitters import require_publish

if TYPE_CHECKING:
    from rest_framework.request import Request

#: Bytes that the multipart form may add to the files.
_FORM_BYTES = 1 << 20

#: Errors of the operation, with the status and code of their responses.
_REFUSALS: tuple[tuple[type[Exception], int, str], ...] = (
    (app_versions.VersionExists, 409, "version_exists"),
    (storage.UnreadablePackage, 422, "unreadable_package"),
    (app_versions.BadPackage, 422, "bad_package"),
    (app_versions.SignatureMissing, 422, "signature_missing"),
    (app_versions.BadSignature, 422, "bad_signature"),
    (app_versions.UnknownPlatform, 422, "unknown_platform"),
    (deliveries.BadSource, 422, "bad_source"),
    (deliveries.SourceFailed, 422, "source_failed"),
    (deliveries.SourceBusy, 503, "source_busy"),
)


class NewVersion(StrictQuery):
    """A multipart form with the new version; at most one of `file`, `source_url` and `image`."""

    version = serializers.CharField(max_length=20, help_text="For example 1.00.")
    platforms = serializers.ListField(
        child=serializers.CharField(max_length=254),
        required=False,
        max_length=50,
        help_text="By default, the usual platforms for the kind of the app.",
    )
    plan_class = serializers.CharField(required=False, allow_blank=True, max_length=60)
    main_program = serializers.CharField(
        required=False, max_length=200, help_text="The file to start, if there are several."
    )
    cmdline = serializers.CharField(required=False, allow_blank=True, max_length=255)
    image = serializers.CharField(
        required=False, max_length=400, help_text="The container image, as name@sha256:DIGEST."
    )
    source_url = serializers.CharField(
        required=False,
        max_length=1000,
        help_text="The URL from which the server fetches the program, once.",
    )
    beta = serializers.BooleanField(required=False, default=False)
    file = serializers.ListField(child=serializers.FileField(), required=False, max_length=100)
    signatures = serializers.ListField(
        child=serializers.CharField(max_length=4096, trim_whitespace=False),
        required=False,
        max_length=100,
        help_text="Contents of .sig files made on another machine, one for each published file.",
    )

    def to_internal_value(self, data: Any) -> Any:
        """Refuse unknown fields, then validate as any serializer does."""
        if isinstance(data, Mapping) and (unknown := data.keys() - self.fields.keys()):
            faults = {
                str(name): [unknown_name(str(name), self.fields, "field")] for name in unknown
            }
            raise serializers.ValidationError(faults)
        return super().to_internal_value(data)


class Versions(VersionsOfApp):
    """The versions of one app."""

    write_scope = Scope.PUBLISH
    parser_classes = (MultiPartParser,)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse a request that is too long before its body is read."""
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
        tag="apps",
        answer={201: AppVersionOut(many=True), 200: AppVersionOut(many=True)},
        body={"multipart/form-data": NewVersion},
        keyed=True,
        problems=(403, 409, 413, 415, 422, 503),
    )
    def post(self, request: Request, name: str) -> Response:
        """Publishes for all given platforms or for none. The files depend on the app's kind.

        `native`: a program, several files, or an archive. `script`: a `run.sh`, or an archive
        (`.tar`, `.tar.gz`, `.tar.bz2`, `.tar.xz`, `.zip`) with `run.sh` at its top level.
        `command`: no file. `container`: `image`. Publishing the same version with the same files
        again answers 200; other files under the same version number are refused (409), because
        clients would never download them. A project that keeps its private key on another machine
        requires `signatures` over the exact published files, launcher and repacked archive
        included.
        """
        app = App.objects.filter(name=name).first()
        if app is None:
            raise Http404
        require_publish(self.account, app)
        if response := idempotent.stored_response(request):
            return response
        form = NewVersion(data=request.data)
        form.is_valid(raise_exception=True)
        fields = form.validated_data
        files = [(str(file.name), file.chunks()) for file in fields.get("file", ())]
        try:
            sent = deliveries.sent(app, _order(fields), files, holder=self.account, now=self.now)
            with sent as write:
                return idempotent.once(request, lambda: _response(write()))
        except tuple(kind for kind, _, _ in _REFUSALS) as refusal:
            raise _problem(refusal) from refusal


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
    )


def _response(outcome: programs.Outcome) -> Response:
    rows = programs.with_files(outcome.versions)
    return Response(AppVersionOut(rows, many=True).data, status=201 if outcome.created else 200)


def _problem(refusal: Exception) -> Problem:
    status, code = next((s, code) for kind, s, code in _REFUSALS if isinstance(refusal, kind))
    return Problem(status, code, str(refusal))


urlpatterns = [path("apps/<name:name>/versions", Versions.as_view())]
