"""Endpoints that list, read and change app versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.shortcuts import get_object_or_404
from rest_framework import serializers

from scheduler.api.http.body import Column, RowShown, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, Name, TrueOrFalse
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.apps import withdrawal
from scheduler.dispatch.catalog import ANONYMOUS
from scheduler.models import App, AppVersion, AppVersionFile
from scheduler.people import submitters

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request
    from rest_framework.response import Response


_ROLLOUT_HELPS = {
    "rollout_percent": "The share of the hosts that may get the version; other hosts get the "
    "previous version.",
    "max_error_percent": "If a larger share of its results fails, in percent, the version is "
    "rolled back automatically; null means never.",
    "min_rollback_results": "With fewer results, the version is not rolled back.",
    "rolled_back_at": "When the version was rolled back; null if it was not.",
}


class VersionFileOut(RowShown):
    """A file of an app version."""

    name = serializers.CharField(source="file.name")
    open_name = Column()
    nbytes = serializers.IntegerField(source="file.nbytes")
    sha256 = serializers.CharField(source="file.sha256")
    main_program = Column()
    executable = Column()

    class Meta:
        model = AppVersionFile


class AppVersionOut(RowShown):
    """A build of an app for one platform."""

    id = Column()
    app = serializers.CharField(source="app.name")
    version = serializers.SerializerMethodField(
        help_text="`version_num` / 100, with two decimals: `1.00`."
    )
    version_num = Column()
    platform = serializers.CharField(source="platform.name")
    plan_class = Column()
    cmdline = Column()
    image = Column()
    source_url = Column()
    deprecated = Column()
    beta = Column()
    dont_throttle = Column()
    needs_network = Column()
    is_wrapper = Column()
    rollout_percent = Column()
    max_error_percent = Column()
    min_rollback_results = Column()
    rolled_back_at = Column()
    rollback_reason = Column()
    created_at = Column()
    files = VersionFileOut(many=True)

    class Meta:
        model = AppVersion
        extra_kwargs = {name: {"help_text": text} for name, text in _ROLLOUT_HELPS.items()}

    def get_version(self, version: AppVersion) -> str:
        return f"{version.version_num / 100:.2f}"


class ChangedVersion(Strict):
    """The fields of an app version that can be changed."""

    deprecated = serializers.BooleanField(
        required=False, help_text="If true, the version is withdrawn and no longer sent."
    )
    beta = serializers.BooleanField(
        required=False,
        help_text="If true, the version is sent only to volunteers who accept test applications.",
    )


class VersionFilters(Filters):
    platform = Name("platform__name", help_text="The platform's BOINC name.")
    plan_class = Name("plan_class")
    deprecated = TrueOrFalse("deprecated")
    beta = TrueOrFalse("beta")


def versions() -> QuerySet[AppVersion]:
    """Return all versions, with apps, platforms and files prefetched."""
    return AppVersion.objects.select_related("app", "platform").prefetch_related("files__file")


class VersionsOfApp(Endpoint):
    """The list of an app's versions; the subclass in `publishing` adds POST."""

    filterset_class = VersionFilters

    @operation(
        "List the versions of an app", name="list_app_versions", answer=AppVersionOut, listed=True
    )
    def get(self, request: Request, name: str) -> Response:
        """Returns all published versions, newest first."""
        app = get_object_or_404(App, name=name)
        published = versions().exclude(platform__name=ANONYMOUS)
        return self.page(published.filter(app=app))


class OneVersion(Endpoint):
    write_scope = Scope.PUBLISH

    @operation(
        "Read an app version", name="read_app_version", answer=AppVersionOut, conditional=True
    )
    def get(self, request: Request, version_id: int) -> Response:
        """Returns the app version with its files."""
        return self.reply(get_object_or_404(versions(), pk=version_id))

    def rows(self, version_id: int) -> QuerySet[AppVersion]:
        return AppVersion.objects.filter(pk=version_id)

    @operation(
        "Withdraw an app version, or offer it again",
        name="change_app_version",
        answer=AppVersionOut,
        body=ChangedVersion,
        guarded=True,
    )
    def patch(self, request: Request, version_id: int) -> Response:
        """Withdraws a version, offers it again, or limits it to volunteers who accept tests.

        The files cannot be changed, because clients download each version only once.
        """
        data = self.body()
        published = versions().exclude(platform__name=ANONYMOUS)
        version = get_object_or_404(published, pk=version_id)
        submitters.require_publish(self.account, version.app)
        return self.reply(withdrawal.change(version, **data, now=self.now))
