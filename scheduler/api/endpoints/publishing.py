"""Publish a version of an app: a program, a script's archive, a command, an image."""

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

#: What the form's own lines may add to the files.
_FORM_BYTES = 1 << 20

#: What the operation refuses: its status and its code.
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
    """A form with what shall be published; of `file`, `source_url` and `image` one is given."""

    version = serializers.CharField(max_length=20, help_text="Such as 1.00.")
    platforms = serializers.ListField(
        child=serializers.CharField(max_length=254),
        required=False,
        max_length=50,
        help_text="Without any, those that are usual for the kind of the app.",
    )
    plan_class = serializers.CharField(required=False, allow_blank=True, max_length=60)
    main_program = serializers.CharField(
        required=False, max_length=200, help_text="Which of several files is started."
    )
    cmdline = serializers.CharField(required=False, allow_blank=True, max_length=255)
    image = serializers.CharField(
        required=False, max_length=400, help_text="A container's, as name@sha256:DIGEST."
    )
    source_url = serializers.CharField(
        required=False, max_length=1000, help_text="Where the server fetches the program, once."
    )
    beta = serializers.BooleanField(required=False, default=False)
    file = serializers.ListField(child=serializers.FileField(), required=False, max_length=100)
    signatures = serializers.ListField(
        child=serializers.CharField(max_length=4096, trim_whitespace=False),
        required=False,
        max_length=100,
        help_text="The texts of .sig files made on another machine, one for each published file.",
    )

    def to_internal_value(self, data: Any) -> Any:
        """Look at names first."""
        if isinstance(data, Mapping) and (unknown := data.keys() - self.fields.keys()):
            faults = {
                str(name): [unknown_name(str(name), self.fields, "field")] for name in unknown
            }
            raise serializers.ValidationError(faults)
        return super().to_internal_value(data)


class Versions(VersionsOfApp):
    """The versions of one app, and how they are made."""

    write_scope = Scope.PUBLISH
    parser_classes = (MultiPartParser,)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Refuse what is too long before a byte of it is read."""
        if request.method == "POST":
            said = str(request.META.get("CONTENT_LENGTH") or "0")
            if said.isdecimal() and int(said) > storage.MAX_PACKAGE_BYTES + _FORM_BYTES:
                msg = (
                    f"The request is longer than {storage.MAX_PACKAGE_BYTES} bytes. "
                    "Hint: leave out what the app does not need."
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
        """For one platform or several, for all or for none; what is sent depends on the app's kind.

        `native`: a program, or several files, or an archive. `script`: a `run.sh`, or an archive
        (`.tar`, `.tar.gz`, `.tar.bz2`, `.tar.xz`, `.zip`) with `run.sh` at its top. `command`: no
        file at all. `container`: `image`. The same again answers 200; other files under a number
        that clients may know are refused (409): they would never be fetched. A project that keeps
        its private key on another machine accepts `signatures` over the exact files, launcher and
        repacked archive included, and refuses a version without them.
        """
        app = App.objects.filter(name=name).first()
        if app is None:
            raise Http404
        require_publish(self.account, app)
        if told := idempotent.told_before(request):
            return told
        found = NewVersion(data=request.data)
        found.is_valid(raise_exception=True)
        said = found.validated_data
        files = [(str(one.name), one.chunks()) for one in said.get("file", ())]
        try:
            sent = deliveries.sent(app, _order(said), files, holder=self.account, now=self.now)
            with sent as write:
                return idempotent.once(request, lambda: _answer(write()))
        except tuple(kind for kind, _, _ in _REFUSALS) as refusal:
            raise _problem(refusal) from refusal


def _order(said: Mapping[str, Any]) -> programs.Order:
    return programs.Order(
        version_num=version_number(said["version"]),
        platforms=tuple(said.get("platforms", ())),
        plan_class=said.get("plan_class", ""),
        main_program=said.get("main_program"),
        cmdline=said.get("cmdline", ""),
        image=said.get("image", ""),
        source_url=said.get("source_url", ""),
        signatures={
            f"signature {number}": text
            for number, text in enumerate(said.get("signatures", ()), start=1)
        },
        beta=said["beta"],
    )


def _answer(done: programs.Outcome) -> Response:
    rows = programs.with_files(done.versions)
    return Response(AppVersionOut(rows, many=True).data, status=201 if done.created else 200)


def _problem(refusal: Exception) -> Problem:
    status, code = next((s, code) for kind, s, code in _REFUSALS if isinstance(refusal, kind))
    return Problem(status, code, str(refusal))


urlpatterns = [path("apps/<name:name>/versions", Versions.as_view())]
