"""The page on which staff publish an app version by uploading its files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import UploadedFile
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.csrf import csrf_protect

from scheduler import signing, storage
from scheduler.admin.apps import rollouts
from scheduler.admin.base import nbytes_label
from scheduler.admin.confirm import is_confirmed
from scheduler.apps import app_versions, deliveries, programs
from scheduler.apps.deliveries import KeptUpload
from scheduler.apps.rollouts import DEFAULT_ROLLBACK_RESULTS
from scheduler.apps.rules.packaging import (
    KNOWN_PLATFORMS,
    BadPackage,
    FileRoles,
    version_number,
)
from scheduler.dispatch.catalog import ANONYMOUS
from scheduler.files import form_uploads
from scheduler.files.download_files import FileInMotion
from scheduler.models import Account, App, PlanClass, Platform
from scheduler.people import quotas, submitters

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

#: Errors of the form as a whole; their texts say what to do.
_REFUSALS: Final = (
    FileInMotion,
    BadPackage,
    app_versions.BadSignature,
    app_versions.UnknownPlatform,
    app_versions.VersionExists,
    deliveries.BadSource,
    deliveries.SourceBusy,
    deliveries.SourceFailed,
    deliveries.UploadsGone,
    quotas.QuotaExceeded,
    signing.KeyMissing,
    storage.StoreError,
    storage.UnreadablePackage,
    submitters.NotAllowed,
)
#: The maximum size of a form in addition to its files, in bytes.
_FORM_BYTES: Final = 1 << 20
#: The maximum length of a text with a line for each file.
_MAX_ROLES: Final = 20_000
#: The maximum size of a signature, in bytes.
_MAX_SIGNATURE: Final = 4096
_MAX_FILES: Final = 100
#: The button that returns the files to sign, and publishes nothing.
_TO_SIGN: Final = "to_sign"
#: The fields that the preview does not repeat: it sends what the server keeps of the files instead.
_FILE_FIELDS: Final = ("program", "signatures", "kept_program", "kept_signatures")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_MAX_NAME: Final = 250


class ManyFilesInput(forms.FileInput):
    """A file input that accepts several files."""

    allow_multiple_selected = True


class ManyFilesField(forms.FileField):
    """A field with a list of uploaded files, which may be empty."""

    widget = ManyFilesInput

    def clean(self, data: Any, initial: Any = None) -> Any:
        """Return the files; raises `ValidationError` for more than 100, and for an empty file."""
        files = [super(ManyFilesField, self).clean(file, initial) for file in data or ()]
        if len(files) > _MAX_FILES:
            msg = f"These are {len(files)} files. Hint: upload an archive instead."
            raise forms.ValidationError(msg)
        return files


def _platform_choices() -> list[tuple[str, str]]:
    """Return the platforms of BOINC's clients, and those that staff added."""
    added = Platform.objects.exclude(name__in=[*KNOWN_PLATFORMS, ANONYMOUS]).order_by("name")
    names = [*KNOWN_PLATFORMS, *added.values_list("name", flat=True)]
    return [(name, name) for name in names]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _text_area(label: str, help_text: str, placeholder: str) -> forms.CharField:
    attrs = {"rows": 2, "cols": 50, "spellcheck": "false", "placeholder": placeholder}
    return forms.CharField(
        label=label,
        required=False,
        max_length=_MAX_ROLES,
        help_text=help_text,
        widget=forms.Textarea(attrs=attrs),
    )


class VersionForm(forms.Form):
    """The form of a new app version."""

    app = forms.ModelChoiceField(App.objects.order_by("name"))
    version = forms.CharField(max_length=20, help_text="For example 1.00.")
    platforms = forms.MultipleChoiceField(
        choices=_platform_choices,
        required=False,
        help_text="Where the program runs. Without a choice, the usual platforms for the kind of "
        "the app; a native app needs a choice. Others can be added to the list of platforms.",
    )
    program = ManyFilesField(
        label="Program files",
        required=False,
        help_text="A program, an archive (.tar, .tar.gz, .tar.bz2, .tar.xz, .zip), or several "
        "files of a native app. Apps of the kinds command and container have none.",
    )
    signatures = ManyFilesField(
        required=False,
        help_text="The .sig files that sign.py wrote on the machine that has the private key, one "
        "for each published file. Not needed if this server signs.",
    )
    main_program = forms.CharField(
        required=False, max_length=200, help_text="The file to start, if there are several."
    )
    logical_names = _text_area(
        "Logical names",
        "One line for each file of a native app that the program opens by another name: the name "
        "of the file, =, and the other name. Not with a version.xml.",
        "table_7.dat = table.dat",
    )
    executables = _text_area(
        "Further programs",
        "Names of files that the main program starts, one a line. Files that begin with #! or are "
        "programs for Linux need not be listed.",
        "helper.exe",
    )
    copies = _text_area(
        "Copied files",
        "Names of files that are copied to the folder of each result, one a line, because the "
        "program changes them or opens them without BOINC's library.",
        "settings.ini",
    )
    plan_class = forms.ModelChoiceField(
        PlanClass.objects.order_by("name"),
        required=False,
        to_field_name="name",
        empty_label="none",
        help_text="For example for programs with several threads or for GPUs.",
    )
    cmdline = forms.CharField(
        required=False,
        max_length=255,
        label="Command line",
        help_text="Arguments appended at every start.",
    )
    image = forms.CharField(
        required=False,
        max_length=400,
        help_text="The container image, as name@sha256:DIGEST. Only for apps of kind container.",
    )
    rollout_percent = forms.IntegerField(
        initial=100,
        required=False,
        min_value=0,
        max_value=100,
        label="Share of hosts",
        help_text="In percent; empty means 100. The other hosts get the previous version. The "
        "page of the version changes the share.",
    )
    max_error_percent = rollouts.max_error_percent_field()
    min_rollback_results = forms.IntegerField(
        initial=DEFAULT_ROLLBACK_RESULTS,
        required=False,
        min_value=1,
        max_value=1_000_000,
        label="After results",
        help_text="With fewer results, the version is not rolled back. Empty means 50.",
    )
    beta = forms.BooleanField(
        required=False, help_text="Only for volunteers who accept test applications."
    )

    kept_program = forms.CharField(required=False, widget=forms.HiddenInput)
    kept_signatures = forms.CharField(required=False, widget=forms.HiddenInput)

    def clean_kept_program(self) -> list[KeptUpload]:
        """Return the files that the server keeps since the preview."""
        return [KeptUpload(*pair) for pair in _pairs(self.cleaned_data["kept_program"], _SHA256)]

    def clean_kept_signatures(self) -> dict[str, str]:
        """Return the texts of the signatures that were uploaded for the preview."""
        return dict(_pairs(self.cleaned_data["kept_signatures"]))

    def clean_version(self) -> int:
        """Return the number of the version; 1.23 is 123."""
        try:
            return version_number(self.cleaned_data["version"])
        except BadPackage as refusal:
            raise forms.ValidationError(str(refusal)) from refusal

    def clean_rollout_percent(self) -> int:
        """Return the share of the hosts in percent, by default all."""
        percent: int | None = self.cleaned_data["rollout_percent"]
        return 100 if percent is None else percent

    def clean_min_rollback_results(self) -> int:
        """Return the number of results before an automatic roll-back, by default 50."""
        results: int | None = self.cleaned_data["min_rollback_results"]
        return DEFAULT_ROLLBACK_RESULTS if results is None else results

    def clean_signatures(self) -> dict[str, str]:
        """Return the texts of the signatures by file name."""
        return {
            str(file.name): file.read(_MAX_SIGNATURE).decode("ascii", "replace").strip() + "\n"
            for file in self.cleaned_data["signatures"]
        }

    def clean_logical_names(self) -> dict[str, str]:
        """Return the logical names by file name."""
        names: dict[str, str] = {}
        for line in _lines(self.cleaned_data["logical_names"]):
            name, _, open_name = (part.strip() for part in line.partition("="))
            if not name or not open_name:
                msg = f"{line[:80]!r} is not a name, =, and another name."
                raise forms.ValidationError(f"{msg} Hint: write table_7.dat = table.dat.")
            if name in names:
                msg = f"{name[:80]!r} is listed twice. Hint: give each file one logical name."
                raise forms.ValidationError(msg)
            names[name] = open_name
        return names

    def clean_executables(self) -> frozenset[str]:
        """Return the names of the further programs."""
        return frozenset(_lines(self.cleaned_data["executables"]))

    def clean_copies(self) -> frozenset[str]:
        """Return the names of the copied files."""
        return frozenset(_lines(self.cleaned_data["copies"]))

    def order(self) -> programs.Order:
        """Return the order of a valid form."""
        fields = self.cleaned_data
        return programs.Order(
            version_num=fields["version"],
            platforms=tuple(fields["platforms"]),
            plan_class=fields["plan_class"].name if fields["plan_class"] else "",
            main_program=fields["main_program"] or None,
            roles=FileRoles(fields["logical_names"], fields["executables"], fields["copies"]),
            cmdline=fields["cmdline"],
            image=fields["image"],
            signatures=fields["signatures"] or fields["kept_signatures"],
            beta=fields["beta"],
            rollout_percent=fields["rollout_percent"],
            max_error_percent=fields["max_error_percent"],
            min_rollback_results=fields["min_rollback_results"],
        )

    def publish(self, account: Account) -> programs.Outcome:
        """Publish the version in the name of the account; raises `_REFUSALS`."""
        app, now = self.cleaned_data["app"], timezone.now()
        submitters.require_publish(account, app)
        files = self._files()
        if uploads := self.cleaned_data["kept_program"]:
            files = deliveries.kept_files(uploads, holder=account, now=now)
        with deliveries.sent(app, self.order(), files, holder=account, now=now) as write:
            return write()

    def plan(self, account: Account) -> tuple[programs.Plan, dict[str, str]]:
        """Return what would be published, and the values of the fields of kept files.

        The server keeps the uploaded files for the account; raises `_REFUSALS`.
        """
        app, now, order = self.cleaned_data["app"], timezone.now(), self.order()
        submitters.require_publish(account, app)
        planned = deliveries.planned(app, order, self._files())
        return planned, {
            "kept_program": json.dumps([astuple(each) for each in self._kept(account, now)]),
            "kept_signatures": json.dumps(list(order.signatures.items())),
        }

    def _kept(self, account: Account, now: datetime) -> list[KeptUpload]:
        files: Sequence[UploadedFile[Any]] = self.cleaned_data["program"]
        return deliveries.keep_uploads(
            [(str(file.name), cast("BinaryIO", file.file)) for file in files],
            version_num=self.cleaned_data["version"],
            holder=account,
            now=now,
        )

    def to_sign(self, account: Account) -> FileResponse:
        """Return a .zip with the files to sign on another machine; raises `_REFUSALS`."""
        app, order = self.cleaned_data["app"], self.order()
        submitters.require_publish(account, app)
        name = f"{app.name}_{order.version_num}_to-sign.zip"
        packed = deliveries.to_sign(app, order, self._files())
        return FileResponse(packed, as_attachment=True, filename=name)

    def _files(self) -> Sequence[tuple[str, Iterable[bytes]]]:
        files: Sequence[UploadedFile[Any]] = self.cleaned_data["program"]
        return [(str(file.name), file.chunks()) for file in files]


def page(site_page: ModelAdmin[Any], request: HttpRequest) -> HttpResponseBase:
    """Return the page with the form or the preview, or publish the version and redirect to it.

    A sent form is shown as a preview, and published after its confirmation.  With the button for
    the files to sign, a .zip is returned, and nothing is published.

    A form that is too large is not read: the page is shown again with an error.

    The caller has exempted the view from Django's CSRF middleware, which would read the form before
    uploads are accepted; the token is checked here.  Raises `PermissionDenied` for users who may
    not add versions.
    """
    if not site_page.has_add_permission(request) or not isinstance(request.user, Account):
        raise PermissionDenied
    length = str(request.META.get("CONTENT_LENGTH") or "0")
    if length.isdecimal() and int(length) > storage.MAX_PACKAGE_BYTES + _FORM_BYTES:
        msg = (
            f"The files have more than {storage.MAX_PACKAGE_BYTES} bytes. "
            "Hint: leave out files that the app does not need."
        )
        site_page.message_user(request, msg, messages.ERROR)
        return HttpResponseRedirect(request.path)
    form_uploads.accept_uploads(request)
    return _protected_page(request, site_page=site_page)


@csrf_protect
def _protected_page(request: HttpRequest, *, site_page: ModelAdmin[Any]) -> HttpResponseBase:
    is_sent = request.method == "POST"
    form = VersionForm(request.POST, request.FILES) if is_sent else VersionForm()
    preview: Mapping[str, Any] = {}
    if is_sent and form.is_valid() and isinstance(request.user, Account):
        try:
            if _TO_SIGN in request.POST:
                return form.to_sign(request.user)
            if is_confirmed(request):
                return _published(site_page, request, form.publish(request.user))
            preview = _preview(form, request.user)
        except _REFUSALS as refusal:
            form.add_error(None, str(refusal))
    return TemplateResponse(
        request,
        "scheduler/admin/publish.html",
        {
            **site_page.admin_site.each_context(request),
            "title": "Publish an app version",
            "opts": site_page.opts,
            "form": form,
            "this_server_signs": settings.PROJECT.online_signing,
            **preview,
        },
        status=422 if form.errors else 200,
    )


def _preview(form: VersionForm, account: Account) -> Mapping[str, Any]:
    """Return the context of the preview of a valid form; raises `_REFUSALS`."""
    planned, kept = form.plan(account)
    fields, planned_rollout = form.cleaned_data, form.order().rollout
    name = f"{fields['app'].name} {fields['version'] / 100:.2f}"
    return {
        "title": f"Really publish {name}?",
        "plan": planned,
        "files": [(file, nbytes_label(file.nbytes)) for file in planned.files],
        "versions": [(each, _consequence(each, fields["version"])) for each in planned.versions],
        "name": name,
        "rollout": planned_rollout,
        "is_beta": fields["beta"],
        "hidden_fields": [field for field in form if field.name not in _FILE_FIELDS],
        "kept": kept,
        "hours": round(settings.PROJECT.file_hold.total_seconds() / 3600),
    }


def _consequence(version: programs.PlannedVersion, number: int) -> str:
    """Return what becomes of the version that hosts of the platform get now."""
    if version.exists:
        return "was published before with the same files: nothing changes"
    if version.newest is None:
        return "the first version for this platform and plan class"
    if version.newest.version_num > number:
        return f"is older than {version.newest}, which hosts keep getting"
    return f"replaces {version.newest} as the newest"


def _pairs(text: str, value: re.Pattern[str] | None = None) -> list[tuple[str, str]]:
    """Return the pairs of texts in a JSON list; raises `ValidationError` for anything else."""
    try:
        rows = json.loads(text or "[]")
    except (ValueError, RecursionError):
        rows = None
    if (
        isinstance(rows, list)
        and len(rows) <= _MAX_FILES
        and all(
            isinstance(row, list)
            and len(row) == 2  # noqa: PLR2004  a pair
            and all(isinstance(part, str) for part in row)
            and len(row[0]) <= _MAX_NAME
            and (value is None or value.fullmatch(row[1]))
            for row in rows
        )
    ):
        return [(name, content) for name, content in rows]
    raise forms.ValidationError("The list of kept files is damaged. Hint: choose the files again.")


def _published(
    site_page: ModelAdmin[Any], request: HttpRequest, outcome: programs.Outcome
) -> HttpResponse:
    """Show which versions were published, and redirect to the first of them."""
    for published in outcome.published:
        verb = "is published" if published.created else "was published before, with the same files"
        site_page.message_user(request, f"{published.version} {verb}.", messages.SUCCESS)
    first = outcome.published[0].version
    return HttpResponseRedirect(reverse("admin:scheduler_appversion_change", args=[first.pk]))
