"""App versions: what was published, and what of it is offered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.shortcuts import get_object_or_404
from django.urls import path
from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.http.body import Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Name, TrueOrFalse
from scheduler.api.http.operation import Scope, operation
from scheduler.apps import withdrawal
from scheduler.dispatch.catalog import ANONYMOUS
from scheduler.models import App, AppVersion, AppVersionFile
from scheduler.people import submitters

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request


class VersionFileOut(serializers.ModelSerializer[AppVersionFile]):
    """A file of an app version."""

    name = serializers.CharField(source="file.name")
    nbytes = serializers.IntegerField(source="file.nbytes")
    sha256 = serializers.CharField(source="file.sha256")

    class Meta:
        """What is told of it."""

        model = AppVersionFile
        fields = ("name", "open_name", "nbytes", "sha256", "main_program", "executable")


class AppVersionOut(serializers.ModelSerializer[AppVersion]):
    """A build of an app for one platform."""

    app = serializers.CharField(source="app.name")
    platform = serializers.CharField(source="platform.name")
    version = serializers.SerializerMethodField(help_text="As people write it: `1.00`.")
    files = VersionFileOut(many=True)

    class Meta:
        """What is told of it."""

        model = AppVersion
        fields = (
            "id",
            "app",
            "version",
            "version_num",
            "platform",
            "plan_class",
            "cmdline",
            "image",
            "source_url",
            "deprecated",
            "beta",
            "dont_throttle",
            "needs_network",
            "is_wrapper",
            "created_at",
            "files",
        )

    def get_version(self, version: AppVersion) -> str:
        """Write it with its two places."""
        return f"{version.version_num / 100:.2f}"


class ChangedVersion(Strict):
    """What can be changed of what clients know."""

    deprecated = serializers.BooleanField(required=False, help_text="Withdrawn: not sent any more.")
    beta = serializers.BooleanField(required=False, help_text="Only for testers.")


class VersionFilters(Filters):
    """Which versions to list."""

    platform = Name("platform__name", help_text="BOINC's name of it.")
    plan_class = Name("plan_class")
    deprecated = TrueOrFalse("deprecated")
    beta = TrueOrFalse("beta")


def versions() -> QuerySet[AppVersion]:
    """Find all versions, with what is told of them."""
    return AppVersion.objects.select_related("app", "platform").prefetch_related("files__file")


class VersionsOfApp(Endpoint):
    """The versions of one app; `publishing` adds how they are made."""

    queryset = AppVersion.objects.none()
    filterset_class = VersionFilters

    @operation(
        "List the versions of an app",
        name="list_app_versions",
        tag="apps",
        answer=AppVersionOut,
        listed=True,
    )
    def get(self, request: Request, name: str) -> Response:
        """All that were published, newest first."""
        app = get_object_or_404(App, name=name)
        published = versions().exclude(platform__name=ANONYMOUS)
        return self.page(published.filter(app=app), AppVersionOut)


class OneVersion(Endpoint):
    """One build."""

    write_scope = Scope.PUBLISH

    @operation(
        "Read an app version",
        name="read_app_version",
        tag="apps",
        answer=AppVersionOut,
        conditional=True,
    )
    def get(self, request: Request, version_id: int) -> Response:
        """With its files."""
        return Response(AppVersionOut(get_object_or_404(versions(), pk=version_id)).data)

    def rows(self, version_id: int) -> QuerySet[AppVersion]:
        """What is changed."""
        return AppVersion.objects.filter(pk=version_id)

    @operation(
        "Withdraw an app version, or offer it again",
        name="change_app_version",
        tag="apps",
        answer=AppVersionOut,
        body=ChangedVersion,
        guarded=True,
    )
    def patch(self, request: Request, version_id: int) -> Response:
        """Its program stays as it is: clients never ask again for a version that they know."""
        wishes = self.body()
        published = versions().exclude(platform__name=ANONYMOUS)
        version = get_object_or_404(published, pk=version_id)
        submitters.require_publish(self.account, version.app)
        changed = withdrawal.change(version, **wishes, now=self.now)
        return Response(AppVersionOut(changed).data)


urlpatterns = [
    path("app-versions/<id:version_id>", OneVersion.as_view()),
]
