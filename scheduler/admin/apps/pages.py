"""Admin pages of apps, app versions, plan classes and platforms."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import JSONField, QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from scheduler.admin.apps import publishing, revalidations, rollouts
from scheduler.admin.apps.app_fields import FIELDSETS, HELPS
from scheduler.admin.base import (
    FormBase,
    RecordAdmin,
    RecordInline,
    RowPage,
    StaffAdmin,
    has_right,
    without_fields,
)
from scheduler.admin.lists.sorting import Sort
from scheduler.admin.previews import version_withdrawals
from scheduler.admin.site import staff
from scheduler.apps import apps
from scheduler.dispatch.rules import plan_classes
from scheduler.models import App, AppVersion, AppVersionFile, PlanClass, Platform
from scheduler.people.audit import Event
from scheduler.rights import Right

#: Fields that may contain secrets, shown only to users with the right to set them.
SECRET_FIELDS = ("assimilator_options",)
#: Fields that select server-side code and credit; setting them requires `administer_project`.
RESERVED_FIELDS = (
    "weight",
    "validator",
    "validator_options",
    "assimilator",
    "assimilator_options",
    "science_time_limit",
    "max_science_failures",
    "trickle_handlers",
    "generator",
    "generator_options",
    "cushion",
    "credit_rule",
    "credit_per_workunit",
    "host_scale_check",
)


class _DefaultsForm(FormBase):
    """A form that sets empty JSON fields to their defaults."""

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        for field in self.instance._meta.concrete_fields:
            if isinstance(field, JSONField) and cleaned.get(field.name, "") is None:
                cleaned[field.name] = field.get_default()
        return cleaned


class AppForm(_DefaultsForm):
    """The form of an app, whose fields are validated by `apps.faults`."""

    def _post_clean(self) -> None:
        """Add the faults that `apps.faults` finds in the app to their fields, or to the whole form.

        Fields that the form omits have their stored values.
        """
        super()._post_clean()  # type: ignore[misc]  # django-stubs omits this method
        is_new_kind = "kind" in self.changed_data or self.instance.pk is None
        for name, refusal in apps.faults(self.instance, self.fields, is_new_kind=is_new_kind):
            self.add_error(name if name in self.fields else None, refusal)


@admin.register(App, site=staff)
class AppAdmin(StaffAdmin):
    form = AppForm
    change_right = Right.MANAGE_APPS
    audit_event = Event.APP_CHANGED
    change_form_template = "scheduler/admin/app.html"
    row_page = RowPage("revalidate", revalidations.page, revalidations.may_request)
    list_display = (
        "name",
        "user_friendly_name",
        "kind",
        "deprecated",
        "weight",
        "one_result_per",
        "validator",
        "assimilator",
        "credit_rule",
    )
    list_filter = ("deprecated", "beta", "kind", "one_result_per", "credit_rule")
    is_small = True
    search_fields = ("name", "user_friendly_name")
    ordering = ("name",)
    readonly_fields = ("created_at", "total_credit", "min_avg_pfc", "generator_state")
    fieldsets = FIELDSETS
    helps = HELPS

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Return the read-only fields.

        `RESERVED_FIELDS` are read-only for users without the right `administer_project`.  The
        name of an existing app is read-only, because clients and result folders use it.  The kind
        is read-only once the app has versions.
        """
        fixed: tuple[str, ...] = self.readonly_fields
        if not has_right(request, Right.ADMINISTER_PROJECT):
            fixed = (*RESERVED_FIELDS, *fixed)
        if obj is None:
            return fixed
        is_published = AppVersion.objects.filter(app_id=obj.pk).exists()
        return ("name", *(["kind"] if is_published else []), *fixed)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fieldsets, without `SECRET_FIELDS` for users without `administer_project`."""
        fieldsets = super().get_fieldsets(request, obj)
        if has_right(request, Right.ADMINISTER_PROJECT):
            return fieldsets
        return without_fields(fieldsets, SECRET_FIELDS)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Return False for `SECRET_FIELDS`, because repeated queries could reveal the secrets."""
        if lookup.startswith(SECRET_FIELDS):
            return False
        return super().lookup_allowed(lookup, value, request)


class PlanClassForm(_DefaultsForm):
    """The form of a plan class, which validates `spec`."""

    def clean(self) -> dict[str, Any]:
        """Validate `spec`, and add an error to this field for each problem."""
        cleaned = super().clean()
        name = cleaned.get("name") or self.instance.name
        if "spec" in cleaned and not isinstance(cleaned["spec"], dict):
            self.add_error("spec", 'It is not a JSON object. Hint: write {"max_threads": 8}.')
        elif name and "spec" in cleaned:
            try:
                plan_classes.parse(name, cleaned["spec"])
            except plan_classes.BadPlanClass as error:
                for _key, sentence in error.problems:
                    self.add_error("spec", sentence)
        return cleaned


@admin.register(PlanClass, site=staff)
class PlanClassAdmin(StaffAdmin):
    change_right = Right.MANAGE_APPS
    audit_event = Event.PLAN_CLASS_CHANGED
    form = PlanClassForm
    list_display = ("name", "spec", "created_at")
    is_small = True
    search_fields = ("name",)
    ordering = ("name",)
    helps = {
        "name": "App versions refer to the plan class by this name. It cannot be changed.",
        "spec": "A JSON object. Its keys are described in docs/plan-classes.md. "
        "`manage.py plan_class try NAME` counts the hosts that can run it.",
    }

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Make the name of an existing plan class read-only, because app versions refer to it."""
        return ("created_at",) if obj is None else ("name", "created_at")


@admin.register(Platform, site=staff)
class PlatformAdmin(StaffAdmin):
    change_right = Right.MANAGE_APPS
    audit_event = Event.PLATFORM_CHANGED
    list_display = ("name", "user_friendly_name")
    is_small = True
    search_fields = ("name", "user_friendly_name")
    ordering = ("name",)


class FilesOfVersion(RecordInline):
    model = AppVersionFile
    fields = ("position", "file", "open_name", "main_program", "executable", "copy_file")
    ordering = ("position",)


@admin.register(AppVersion, site=staff)
class AppVersionAdmin(StaffAdmin):
    """The page of app versions.

    Most fields are read-only, because clients never download a version again.
    """

    change_right = Right.PUBLISH_VERSIONS
    audit_event = Event.VERSION_CHANGED
    change_form_template = "scheduler/admin/app_version.html"
    row_page = RowPage("rollout", rollouts.page, rollouts.may_roll_out)
    list_display = (
        *("app", "version", "platform", "plan_class", "avg_ncpus"),
        *("deprecated", "beta", "rollout_percent"),
    )
    list_filter = ("deprecated", "beta", "app", "platform")
    is_small = True
    sorts = {"version": Sort(("version_num", "id"))}
    search_fields = ("app__name", "platform__name", "plan_class")
    search_numbers = ("id", "version_num")
    inlines = (FilesOfVersion,)
    actions = ("deprecate", "restore")
    readonly_fields = (
        "app",
        "platform",
        "version_num",
        "plan_class",
        "api_version",
        "avg_ncpus",
        "cmdline",
        "image",
        "source_url",
        "file_prefix",
        "dont_throttle",
        "needs_network",
        "is_wrapper",
        "deprecated",
        "pfc_n",
        "pfc_avg",
        "pfc_scale",
        "rollout_percent",
        "rollout_at",
        "max_error_percent",
        "min_rollback_results",
        "rolled_back_at",
        "rollback_reason",
        "created_at",
    )
    helps = {
        "min_core_version": "Oldest supported client, as 10000*major + 100*minor + release. "
        "0 means any.",
        "max_core_version": "Newest supported client, in the same format. 0 means any.",
        "beta": "If set, the version is sent only to volunteers who accept test applications.",
        "rollout_percent": "The share of the hosts that may get the version.",
    }

    @admin.display(ordering="version_num")
    def version(self, version: AppVersion) -> str:
        """Return the version number with two decimals."""
        return f"{version.version_num / 100:.2f}"

    @admin.action(description="Deprecate the selected versions", permissions=["change"])
    def deprecate(
        self, request: HttpRequest, queryset: QuerySet[AppVersion]
    ) -> HttpResponse | None:
        """Stop sending the versions, after a preview; results in progress continue."""
        ids = list(queryset.values_list("pk", flat=True))
        return version_withdrawals.page(self, request, ids, deprecated=True)

    @admin.action(description="Restore the selected deprecated versions", permissions=["change"])
    def restore(self, request: HttpRequest, queryset: QuerySet[AppVersion]) -> HttpResponse | None:
        """Send the versions again, after a preview."""
        ids = list(queryset.values_list("pk", flat=True))
        return version_withdrawals.page(self, request, ids, deprecated=False)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return the page of a version, with a button that deprecates or restores it."""
        may_change = {"may_change": self.has_change_permission(request)}
        return super().change_view(request, object_id, form_url, may_change | (extra_context or {}))

    @csrf_exempt
    def add_view(  # type: ignore[override]  # the files to sign are streamed
        self, request: HttpRequest, form_url: str = "", extra_context: Any = None
    ) -> HttpResponseBase:
        """Return the page that publishes a version; it checks the CSRF token itself."""
        return publishing.page(self, request)


@admin.register(AppVersionFile, site=staff)
class AppVersionFileAdmin(RecordAdmin):
    """The page of the files of app versions."""

    list_display = ("app_version", "position", "file", "open_name", "main_program", "executable")
    list_filter = ("main_program", "executable", "copy_file")
    is_small = True
    list_select_related = ("app_version__app", "app_version__platform")
    search_fields = ("file__name", "open_name")
    search_numbers = ("id", "app_version_id")
