"""Endpoints that list, read, create and change apps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Count
from django.shortcuts import get_object_or_404

from scheduler.api.app_bodies import AppOut, ChangedApp, NewApp
from scheduler.api.authentication import may, missing_scope
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.filters import Filters, TrueOrFalse, Word
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.api.http.problems import Problem, split_hint
from scheduler.apps import apps
from scheduler.apps.rules import app_rights
from scheduler.models import Account, App
from scheduler.models.science import AppKind
from scheduler.people import submitters

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request
    from rest_framework.response import Response


#: Fields of an app that scope `publish` may change, because templates must fit the programs.
_TEMPLATES = frozenset({"input_template", "output_template"})


class AppFilters(Filters):
    kind = Word("kind", words=AppKind.values)
    deprecated = TrueOrFalse("deprecated")
    beta = TrueOrFalse("beta")


class Apps(Endpoint):
    write_scope = Scope.MANAGE
    filterset_class = AppFilters
    ascending = True

    @operation("List apps", name="list_apps", answer=AppOut, listed=True)
    def get(self, request: Request) -> Response:
        """Returns all apps, oldest first."""
        return self.page(_apps_for(self.account))

    @operation(
        "Create an app",
        name="create_app",
        answer=AppOut,
        status=201,
        body=NewApp,
        idempotent=True,
        problems=(409,),
    )
    def post(self, request: Request) -> Response:
        """Creates an app without versions. Requires the right `manage_apps`."""
        data = self.body()
        submitters.require_manage(self.account, None)
        _refuse_reserved(request, data)
        try:
            app = apps.create(**data, now=self.now)
        except apps.BadApp as refusal:
            raise _bad(refusal) from refusal
        where = {"Location": f"/api/v1/apps/{app.name}"}
        return self.reply(_apps_for(self.account).get(pk=app.pk), headers=where)


class OneApp(Endpoint):
    write_scope = Scope.MANAGE

    @operation("Read an app", name="read_app", answer=AppOut, conditional=True)
    def get(self, request: Request, name: str) -> Response:
        """Returns the app with this name."""
        return self.reply(get_object_or_404(_apps_for(self.account), name=name))

    def rows(self, name: str) -> QuerySet[App]:
        return App.objects.filter(name=name)

    @operation(
        "Change an app",
        name="change_app",
        or_scope=Scope.PUBLISH,
        answer=AppOut,
        body=ChangedApp,
        problems=(422,),
        guarded=True,
    )
    def patch(self, request: Request, name: str) -> Response:
        """Changes the given fields; omitted fields keep their values.

        The account must be allowed to manage the app. Scope `publish` is sufficient to change only
        `input_template` and `output_template`.
        """
        app = get_object_or_404(App, name=name)
        data = self.body()
        if may(request, Scope.MANAGE):
            submitters.require_manage(self.account, app)
        elif data.keys() <= _TEMPLATES:
            submitters.require_publish(self.account, app)
        else:
            raise missing_scope(request, Scope.MANAGE)
        _refuse_reserved(request, data)
        try:
            apps.change(app, **data, now=self.now)
        except apps.BadApp as refusal:
            raise _bad(refusal) from refusal
        return self.reply(_apps_for(self.account).get(pk=app.pk))


def _apps_for(account: Account) -> QuerySet[App]:
    return App.objects.annotate(
        n_versions=Count("versions"), is_managed=submitters.manages(account)
    )


def _refuse_reserved(request: Request, data: dict[str, Any]) -> None:
    if not may(request, Scope.ADMINISTER) and (names := app_rights.reserved(data)):
        msg = (
            f"Only administrators of the project may set {names[0]}. "
            "Hint: leave it out, or ask the project's staff."
        )
        raise Problem(403, "not_allowed", msg)


def _bad(refusal: apps.BadApp) -> Problem:
    errors: list[dict[str, Any]] = [
        {"pointer": "" if name == "__all__" else f"/{name}", **split_hint(sentence)}
        for name, sentences in refusal.faults.items()
        for sentence in sentences
    ]
    summary = "; ".join(
        f"{error['pointer'][1:]}: {error['detail']}".removeprefix(": ") for error in errors
    )
    hint = errors[0].get("hint") if len(errors) == 1 else None
    return Problem(
        422,
        "bad_app",
        f"The app is not valid: {summary}",
        hint=hint or "correct these fields.",
        errors=errors,
    )
