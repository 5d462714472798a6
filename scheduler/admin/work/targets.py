"""The list of targeted workunits, and the page that changes targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import admin, messages
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduler.admin.base import link_to
from scheduler.admin.confirm import is_confirmed
from scheduler.lifecycle import Target
from scheduler.models import Account, Host, Team, Workunit
from scheduler.work.control import WorkunitsNotFound
from scheduler.work.targets import retarget
from scheduler.work.targets.retarget import BadTarget, Retargeting, WorkTarget

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_MAX_ID: Final = 2**63 - 1
_MODELS: Final[Mapping[Target, type[Model]]] = {
    Target.HOST: Host,
    Target.ACCOUNT: Account,
    Target.TEAM: Team,
}
#: The numbers of a `Retargeting` other than `changed`, with their names on the page.
_UNCHANGED: Final = (
    ("already", "already have this target"),
    ("finished", "finished or cancelled"),
    ("sent", "sent before"),
    ("replicated", "need several results"),
    ("bound", "in a queue or list, a broadcast or a group"),
)


class TargetFilter(admin.SimpleListFilter):
    """Filters workunits by the kind of their target; each choice has a partial index."""

    title = "target"
    parameter_name = "target"
    _RULES: Final = {
        "host": Q(target_host__isnull=False),
        "account": Q(target_account__isnull=False),
        "team": Q(target_team__isnull=False),
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return a choice for each kind of target, and one for all of them."""
        return [
            ("any", "a host, account or team"),
            *((name, f"one {name}") for name in self._RULES),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        rules = {**self._RULES, "any": Q(*self._RULES.values(), _connector=Q.OR)}
        rule = rules.get(str(self.value()))
        return queryset if rule is None else queryset.filter(rule)


def label(workunit: Workunit) -> SafeString | str:
    """Return the target of a workunit, as a link to the list of all work for it."""
    for kind in ("host", "account", "team"):
        id_ = getattr(workunit, f"target_{kind}_id")
        if id_ is not None:
            return format_html('<a href="?target_{}__exact={}">{} {}</a>', kind, id_, kind, id_)
    return "every host" if workunit.broadcast else "–"


class TargetForm(forms.Form):
    """The form of a target; the page that asks for a confirmation repeats its hidden values."""

    target_kind = forms.TypedChoiceField(
        label="Send to",
        coerce=lambda value: Target(int(value)),
        choices=[
            (Target.EVERYBODY.value, "every host: clear the target"),
            *((kind.value, f"one {name}") for kind, name in retarget.KINDS.items()),
        ],
    )
    target_id = forms.IntegerField(
        label="Number",
        required=False,
        min_value=1,
        max_value=_MAX_ID,
        help_text="The number of the host, account or team, as its page in the administration "
        "shows it. Leave it empty to clear the target.",
    )

    def clean(self) -> dict[str, Any]:
        """Add an error if the number is missing, or if there is no target that it belongs to."""
        cleaned: dict[str, Any] = super().clean() or {}
        kind = cleaned.get("target_kind")
        if kind is None or "target_id" not in cleaned:
            return cleaned
        if kind in retarget.KINDS and cleaned["target_id"] is None:
            name = retarget.KINDS[kind]
            self.add_error(
                "target_id",
                f"The number of the {name} is missing. Hint: enter it, or choose every host.",
            )
        if kind not in retarget.KINDS and cleaned["target_id"] is not None:
            msg = "Every host is chosen, but a number is given. Hint: choose what the number is of."
            self.add_error("target_id", msg)
        return cleaned

    def target(self) -> WorkTarget:
        """Return the target of a valid form."""
        return WorkTarget(self.cleaned_data["target_kind"], self.cleaned_data["target_id"] or 0)


def page(
    site_page: ModelAdmin[Any], request: HttpRequest, ids: Sequence[int], action: str
) -> HttpResponse | None:
    """Return the form, or the preview of a sent form; None after a confirmed change.

    `ids` are the selected workunits.
    """
    is_sent = "target_kind" in request.POST
    form = TargetForm(request.POST if is_sent else None)
    preview = None
    if is_sent and form.is_valid():
        target, now = form.target(), timezone.now()
        try:
            if is_confirmed(request):
                done = retarget.retarget(ids, target, now=now)
                site_page.message_user(request, sentence(done, target), messages.SUCCESS)
                return None
            preview = retarget.preview(ids, target, now=now)
        except (BadTarget, WorkunitsNotFound) as refusal:
            form.add_error("target_id", str(refusal))
    return _shown(site_page, request, form, preview, len(ids), action)


def sentence(done: Retargeting, target: WorkTarget) -> str:
    """Return what became of the selected workunits."""
    text = f"{done.changed:,} workunits are now for {target}"
    for name, words in _UNCHANGED:
        if count := getattr(done, name):
            text += f"; {count:,} unchanged ({words})"
    return f"{text}."


def _shown(
    site_page: ModelAdmin[Any],
    request: HttpRequest,
    form: TargetForm,
    preview: Retargeting | None,
    n_selected: int,
    action: str,
) -> HttpResponse:
    context = {
        **site_page.admin_site.each_context(request),
        "opts": site_page.opts,
        "title": "Change the target of workunits",
        "form": form,
        "n_selected": n_selected,
        "preview": preview,
        "action": action,
        "selected": request.POST.getlist("_selected_action"),
        "select_across": request.POST.get("select_across", "0"),
    }
    if preview is not None:
        target = form.target()
        counts = [("workunits change", preview.changed)]
        counts += [
            (words, count) for name, words in _UNCHANGED if (count := getattr(preview, name))
        ]
        context |= {
            "title": f"Really send these workunits to {target}?",
            "target": target,
            "target_link": _link(target),
            "counts": counts,
            "more": max(0, preview.changed - len(preview.names)),
        }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if form.errors else HTTPStatus.OK
    return TemplateResponse(request, "scheduler/admin/target.html", context, status=status)


def _link(target: WorkTarget) -> SafeString | str:
    """Return a link to the page of a target with its name, or an empty text for every host."""
    model = _MODELS.get(target.kind)
    return "" if model is None else link_to(model._default_manager.filter(pk=target.id).first())
