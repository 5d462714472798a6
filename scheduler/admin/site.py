"""The admin site: the access of staff, and the operator's desk."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from django.conf import settings
from django.contrib.admin import AdminSite
from django.contrib.auth import REDIRECT_FIELD_NAME, logout
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.utils.functional import SimpleLazyObject
from django.utils.http import urlencode

from scheduler.admin.desk import (
    dashboard,
    error_rates,
    failures,
    host_classes,
    log_files,
    maintenance_switch,
    navigation,
    run_times,
    tables,
    upkeep,
)
from scheduler.health.samples import Period
from scheduler.models import Account
from scheduler.people import audit, second_factors

View = TypeVar("View", bound=Callable[..., HttpResponseBase])


class StaffSite(AdminSite):
    """The admin site of Manyhands."""

    site_title = "Manyhands administration"
    site_header = "Manyhands administration"
    index_title = "Operator's desk"
    index_template = "scheduler/admin/index.html"
    empty_value_display = "–"
    # Lists need the width of the page; the index page and breadcrumbs link to all pages.
    enable_nav_sidebar = False

    def admin_view(self, view: View, cacheable: bool = False) -> View:
        """Return a view whose audit entries have the user's account as their actor."""

        @wraps(view)
        def attributed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if isinstance(request.user, Account):
                audit.identify(request.user)
            return view(request, *args, **kwargs)

        return super().admin_view(cast("View", attributed), cacheable)

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        """Return the operator's desk, whose charts show the period in the query string.

        A request of htmx, which refreshes the figures, gets them without the frame of the page.
        """
        desk = dashboard.context(period=_period(request), now=timezone.now())
        is_of_htmx = request.headers.get("HX-Request") == "true"
        desk["frame"] = "scheduler/admin/desk_parts.html" if is_of_htmx else "admin/index.html"
        response = super().index(request, {**(extra_context or {}), **desk})
        patch_vary_headers(response, ("HX-Request",))
        return response

    def get_urls(self) -> list[Any]:
        """Return Django's URLs and those of the desk's own pages."""
        own = [
            path("error-rates/", self.admin_view(self.error_rates), name="error_rates"),
            path("failures/", self.admin_view(self.failures), name="failures"),
            path("host-classes/", self.admin_view(self.host_classes), name="host_classes"),
            path("logs/", self.admin_view(self.logs), name="logs"),
            path("maintenance/", self.admin_view(self.maintenance), name="maintenance"),
            path("upkeep/", self.admin_view(self.upkeep), name="upkeep"),
            path("run-times/", self.admin_view(self.run_times), name="run_times"),
            path("tables/", self.admin_view(self.tables), name="tables"),
        ]
        return [*own, *super().get_urls()]

    def error_rates(self, request: HttpRequest) -> HttpResponse:
        """Return the page of error rates by version, app, platform and host."""
        return error_rates.page(request, self.each_context(request))

    def failures(self, request: HttpRequest) -> TemplateResponse:
        """Return the page of recent failures by app, version and exit code."""
        context = {**self.each_context(request), **failures.context(request)}
        return TemplateResponse(request, "scheduler/admin/failures.html", context)

    def host_classes(self, request: HttpRequest) -> TemplateResponse:
        """Return the page of unsent results by class of computers."""
        context = {**self.each_context(request), **host_classes.context(request)}
        return TemplateResponse(request, "scheduler/admin/host_classes.html", context)

    def logs(self, request: HttpRequest) -> TemplateResponse:
        """Return the page of the last lines of a log file."""
        context = {**self.each_context(request), **log_files.context(request)}
        return TemplateResponse(request, "scheduler/admin/logs.html", context)

    def maintenance(self, request: HttpRequest) -> HttpResponse:
        """Return the page that switches maintenance on and off."""
        return maintenance_switch.page(request, self.each_context(request))

    def upkeep(self, request: HttpRequest) -> HttpResponse:
        """Return the page of migrations, checks and chores, on which checks are requested."""
        return upkeep.page(request, self.each_context(request))

    def run_times(self, request: HttpRequest) -> TemplateResponse:
        """Return the page of the run times of an app's newest results."""
        context = {**self.each_context(request), **run_times.context(request)}
        return TemplateResponse(request, "scheduler/admin/run_times.html", context)

    def tables(self, request: HttpRequest) -> TemplateResponse:
        """Return the page of the sizes of all tables, which all staff may view as on the desk."""
        context = {**self.each_context(request), **tables.context(self, request)}
        return TemplateResponse(request, "scheduler/admin/tables.html", context)

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> Any:
        """Return the visible pages in groups by noun; with `app_label`, Django's list.

        The groups are built when they are read: Django asks for them for the context of every page,
        but only the desk shows them.
        """
        if app_label is not None:
            return super().get_app_list(request, app_label)
        return SimpleLazyObject(lambda: self._groups_of_pages(request))

    def _groups_of_pages(self, request: HttpRequest) -> list[dict[str, Any]]:
        apps = self._build_app_dict(request).values()
        models = (model for app in apps for model in app["models"])
        return navigation.grouped(models, _pages(request))

    def has_permission(self, request: HttpRequest) -> bool:
        """Return whether the user is staff, with a second factor if the project requires it."""
        return super().has_permission(request) and not self._missing_step(request)

    def login(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Redirect to the page of the next step of the log-in; members of staff have up to three.

        The steps are the site's log-in, the set-up of a second factor, and a code of it.  Returns
        403 for accounts that are not staff.
        """
        target = request.GET.get(REDIRECT_FIELD_NAME) or reverse("admin:index")
        if not request.user.is_authenticated:
            step = "account_login"
        elif not super().has_permission(request):
            return render(request, "scheduler/admin/not_staff.html", status=403)
        else:
            step = self._missing_step(request)
        query = urlencode({REDIRECT_FIELD_NAME: target})
        return redirect(f"{reverse(step)}?{query}" if step else reverse("admin:index"))

    def logout(  # type: ignore[override]  # Django's page is not shown
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if request.method == "POST":
            logout(request)
        return redirect("status")

    def password_change(  # type: ignore[override]  # Django's page is not shown
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return redirect("account_change_password")

    def _missing_step(self, request: HttpRequest) -> str:
        """Return the name of the page that a staff session needs before the administration, or "".

        A password alone is enough unless `staff_second_factor` is set.
        """
        if not settings.PROJECT.staff_second_factor:
            return ""
        if not second_factors.has_one(cast(Account, request.user)):
            return "mfa_activate_totp"
        return "" if second_factors.is_proven(request) else "mfa_reauthenticate"


def _pages(request: HttpRequest) -> list[navigation.Page]:
    """Return the pages that are not lists of models and that the user may view, by noun."""
    work = reverse("admin:scheduler_workunit_changelist")
    may_view_work = request.user.has_perm("scheduler.view_workunit")
    pages = (
        ("Work", "Targeted workunits", f"{work}?target=any", may_view_work),
        ("Apps", "Run times", reverse("admin:run_times"), run_times.may_view(request)),
        *_pages_of_troubles(request),
        (navigation.INTERNAL, "Sizes of tables", reverse("admin:tables"), True),
    )
    return [navigation.Page(*page) for *page, may_view in pages if may_view]


def _pages_of_troubles(request: HttpRequest) -> tuple[tuple[str, str, str, bool], ...]:
    classes = reverse("admin:host_classes")
    return (
        ("Hosts", "Classes of computers", classes, host_classes.may_view(request)),
        ("Troubles", "Recent failures", reverse("admin:failures"), failures.may_view(request)),
        ("Troubles", "Log files", reverse("admin:logs"), log_files.may_view(request)),
        ("Troubles", "Upkeep", reverse("admin:upkeep"), upkeep.may_view(request)),
        (
            "Troubles",
            "Maintenance",
            reverse("admin:maintenance"),
            maintenance_switch.may_switch(request),
        ),
    )


def _period(request: HttpRequest) -> Period:
    """Return the period in the query string, or the last 24 hours for an unknown name."""
    return Period.__members__.get(request.GET.get("period", "").upper(), Period.DAY)


#: The only admin site; ``project/urls.py`` mounts it at ``/admin/``.
staff = StaffSite(name="admin")
