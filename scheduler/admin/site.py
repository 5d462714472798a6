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
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from scheduler.admin.desk import dashboard, navigation
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
        """Return the operator's desk, whose charts show the period in the query string."""
        desk = dashboard.context(period=_period(request), now=timezone.now())
        return super().index(request, {**(extra_context or {}), **desk})

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """Return the visible pages in groups by noun; with `app_label`, Django's list."""
        if app_label is not None:
            return super().get_app_list(request, app_label)
        apps = self._build_app_dict(request).values()
        return navigation.grouped(model for app in apps for model in app["models"])

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


def _period(request: HttpRequest) -> Period:
    """Return the period in the query string, or the last 24 hours for an unknown name."""
    return Period.__members__.get(request.GET.get("period", "").upper(), Period.DAY)


#: The only admin site; ``project/urls.py`` mounts it at ``/admin/``.
staff = StaffSite(name="admin")
