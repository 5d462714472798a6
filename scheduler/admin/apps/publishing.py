"""The page on which staff publish an app version by uploading its files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.csrf import csrf_protect

from scheduler import signing, storage
from scheduler.apps import app_versions, deliveries, programs
from scheduler.apps.rules.packaging import KNOWN_PLATFORMS, version_number
from scheduler.files import form_uploads
from scheduler.files.download_files import FileInMotion
from scheduler.models import Account, App, PlanClass
from scheduler.people import submitters

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

#: Errors of the form as a whole; their texts say what to do.
_REFUSALS: Final = (
    FileInMotion,
    app_versions.BadPackage,
    app_versions.BadSignature,
    app_versions.UnknownPlatform,
    app_versions.VersionExists,
    deliveries.BadSource,
    deliveries.SourceBusy,
    deliveries.SourceFailed,
    signing.KeyMissing,
    storage.StoreError,
    storage.UnreadablePackage,
    submitters.NotAllowed,
)
#: The maximum size of a form in addition to its files, in bytes.
_FORM_BYTES: Final = 1 << 20
#: The maximum size of a signature, in bytes.
_MAX_SIGNATURE: Final = 4096
_MAX_FILES: Final = 100


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


class VersionForm(forms.Form):
    """The form of a new app version."""

    app = forms.ModelChoiceField(App.objects.order_by("name"))
    version = forms.CharField(max_length=20, help_text="For example 1.00.")
    platforms = forms.MultipleChoiceField(
        choices=[(name, name) for name in KNOWN_PLATFORMS],
        required=False,
        help_text="Where the program runs. Without a choice, the usual platforms for the kind of "
        "the app; a native app needs a choice.",
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
    beta = forms.BooleanField(
        required=False, help_text="Only for volunteers who accept test applications."
    )

    def clean_version(self) -> int:
        """Return the number of the version; 1.23 is 123."""
        try:
            return version_number(self.cleaned_data["version"])
        except app_versions.BadPackage as refusal:
            raise forms.ValidationError(str(refusal)) from refusal

    def clean_signatures(self) -> dict[str, str]:
        """Return the texts of the signatures by file name."""
        return {
            str(file.name): file.read(_MAX_SIGNATURE).decode("ascii", "replace").strip() + "\n"
            for file in self.cleaned_data["signatures"]
        }

    def publish(self, account: Account) -> programs.Outcome:
        """Publish the version in the name of the account; raises `_REFUSALS`."""
        fields = self.cleaned_data
        submitters.require_publish(account, fields["app"])
        order = programs.Order(
            version_num=fields["version"],
            platforms=tuple(fields["platforms"]),
            plan_class=fields["plan_class"].name if fields["plan_class"] else "",
            main_program=fields["main_program"] or None,
            cmdline=fields["cmdline"],
            image=fields["image"],
            signatures=fields["signatures"],
            beta=fields["beta"],
        )
        files: Sequence[UploadedFile[Any]] = fields["program"]
        named = [(str(file.name), file.chunks()) for file in files]
        now = timezone.now()
        with deliveries.sent(fields["app"], order, named, holder=account, now=now) as write:
            return write()


def page(site_page: ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """Return the page with the form, or publish the version and redirect to it.

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
def _protected_page(request: HttpRequest, *, site_page: ModelAdmin[Any]) -> HttpResponse:
    is_sent = request.method == "POST"
    form = VersionForm(request.POST, request.FILES) if is_sent else VersionForm()
    if is_sent and form.is_valid() and isinstance(request.user, Account):
        try:
            outcome = form.publish(request.user)
        except _REFUSALS as refusal:
            form.add_error(None, str(refusal))
        else:
            return _published(site_page, request, outcome)
    return TemplateResponse(
        request,
        "scheduler/admin/publish.html",
        {
            **site_page.admin_site.each_context(request),
            "title": "Publish an app version",
            "opts": site_page.opts,
            "form": form,
            "this_server_signs": settings.PROJECT.online_signing,
        },
        status=422 if form.errors else 200,
    )


def _published(
    site_page: ModelAdmin[Any], request: HttpRequest, outcome: programs.Outcome
) -> HttpResponse:
    """Show which versions were published, and redirect to the first of them."""
    for published in outcome.published:
        verb = "is published" if published.created else "was published before, with the same files"
        site_page.message_user(request, f"{published.version} {verb}.", messages.SUCCESS)
    first = outcome.published[0].version
    return HttpResponseRedirect(reverse("admin:scheduler_appversion_change", args=[first.pk]))
