"""Base classes of the admin pages, which stay fast on huge tables.

Two rules apply:

- A page never counts a whole table, and never sorts or searches a large one without an index.
- A form saves only the columns that the user changed, because daemons write to the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.widgets import AdminSplitDateTime
from django.core.exceptions import FieldDoesNotExist
from django.core.paginator import Paginator
from django.db import models
from django.db.models import Model, Q, QuerySet
from django.forms import ModelForm, SplitDateTimeField, Textarea
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduler.admin.columns import column_of
from scheduler.admin.lists import searching
from scheduler.admin.lists.searching import Prefix
from scheduler.admin.lists.sorting import Sort, SortedChangeList
from scheduler.models import Account
from scheduler.people import audit
from scheduler.people.audit import Event
from scheduler.rights import Right

if TYPE_CHECKING:
    Base = admin.ModelAdmin[Any]
    InlineBase = admin.TabularInline[Any, Any]
    Pages = Paginator[Any]
    FormBase = ModelForm[Any]
else:
    Base, InlineBase, Pages = admin.ModelAdmin, admin.TabularInline, Paginator
    FormBase = ModelForm

#: A function that Django's admin runs for the selected rows.
Action = Callable[[Any, HttpRequest, QuerySet[Any]], HttpResponse | None]

#: Maximum number of rows that a list counts and shows, and that a search without an index reads.
MAX_LISTED_ROWS = 10_000
_BIGINT_MAX = 2**63 - 1
#: The maximum number of ids, and of characters of a filter, in an audit entry of an action.
_MAX_IDS, _MAX_FILTER = 100, 500
#: The attributes of a request whose action was refused, and whose action has an audit entry.
_REFUSED, _RECORDED = "action_was_refused", "action_was_recorded"
Row = TypeVar("Row", bound=Model)


def has_right(request: HttpRequest, right: Right) -> bool:
    return isinstance(request.user, Account) and request.user.has_right(right)


def is_superuser(request: HttpRequest) -> bool:
    return isinstance(request.user, Account) and request.user.is_superuser


def section(title: str | None, *fields: str, is_collapsed: bool = False) -> Any:
    """Return one entry of `ModelAdmin.fieldsets`; None as `title` shows no heading."""
    return title, {"fields": fields, "classes": ("collapse",) if is_collapsed else ()}


def _is_id(value: object) -> bool:
    """Return whether a value from the query string is a decimal id or a list of such ids."""
    values = value if isinstance(value, list) else [value]
    return all(
        isinstance(text, str)
        and text.isascii()
        and text.isdecimal()
        and len(text) < len(str(_BIGINT_MAX))
        for text in values
    )


def without_fields(fieldsets: Any, names: Collection[str]) -> Any:
    """Return `fieldsets` without the fields in `names`."""
    return tuple(
        (title, options | {"fields": tuple(f for f in options["fields"] if f not in names)})
        for title, options in fieldsets
    )


class BoundedPaginator(Pages):
    """A paginator that counts at most `MAX_LISTED_ROWS` rows, because a full count is slow."""

    @cached_property
    def count(self) -> int:
        rows: QuerySet[Any] = self.object_list  # type: ignore[assignment]
        return rows.order_by()[:MAX_LISTED_ROWS].count()


class LabelledDateTime(AdminSplitDateTime):
    """Django's two inputs of a date and a time, with a name each for screen readers."""

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__(attrs)
        for widget, name in zip(self.widgets, ("Date", "Time"), strict=True):
            widget.attrs["aria-label"] = name


class RowPage(NamedTuple):
    """A further page of each row of a table, such as that of the roll-out of an app version.

    `name` is the end of its URL and of the URL's name.  `may_open` decides whether the page of the
    row has a link to it; `view`, which gets the id of the row, checks the rights again.
    """

    name: str
    view: Callable[[Any, HttpRequest, int], HttpResponse]
    may_open: Callable[[HttpRequest], bool]


class StaffAdmin(Base):
    """Base class of pages on which staff can add and change rows, but not delete them."""

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    list_max_show_all = 500
    ordering: ClassVar[tuple[str, ...]] = ("-id",)
    formfield_overrides = {
        models.DateTimeField: {"form_class": SplitDateTimeField, "widget": LabelledDateTime},
        models.URLField: {"assume_scheme": "https"},
        models.JSONField: {
            "widget": Textarea(attrs={"rows": 3, "cols": 60, "spellcheck": "false"})
        },
    }
    change_list_template = "scheduler/admin/change_list.html"
    #: Whether the table has few rows in every project, so that each of its columns sorts the list.
    is_small: ClassVar[bool] = False
    #: The order of an index for each further column that sorts the list, by names of columns.
    sorts: Mapping[str, Sort] = {}
    #: Relations to join for the list, in addition to the foreign keys in `list_display`.
    list_select_related: ClassVar[tuple[str, ...]] = ()
    #: Indexed integer columns that are searched first, if the search term is a number.
    search_numbers: tuple[str, ...] = ("id",)
    #: Indexed text columns that are searched first, for the exact search term.
    search_names: tuple[str, ...] = ()
    #: Conditions on the columns that precede one of these columns in its index.
    search_leading: Mapping[str, Q] = {}
    #: Indexed columns whose texts begin with the search term.  The columns of `search_fields`,
    #: which contain it, need no index: they are searched in the newest `MAX_LISTED_ROWS` rows.
    search_prefixes: tuple[Prefix, ...] = ()
    #: Indexed foreign keys, and the function that finds the ids of their rows for a search term.
    search_owners: Mapping[str, Callable[[str], list[int]]] = {}
    #: Help texts by field: meaning and unit.
    helps: Mapping[str, str] = {}
    #: Right required to add and change rows, in addition to Django's permission.
    change_right: ClassVar[Right | None] = None
    #: A further page of each row, which the page of the row links to.
    row_page: ClassVar[RowPage | None] = None
    #: Audit event of an addition or change; None if an operation records the event.
    audit_event: ClassVar[Event | None] = None
    #: Actions that the audit log records here; other actions record their own events.
    audited_actions: ClassVar[frozenset[str]] = frozenset()

    def get_urls(self) -> list[Any]:
        """Return Django's URLs, and that of `row_page`."""
        page = self.row_page
        if page is None:
            return super().get_urls()

        def view(request: HttpRequest, row_id: int) -> HttpResponse:
            return page.view(self, request, row_id)

        name = f"{self.opts.app_label}_{self.opts.model_name}_{page.name}"
        own = path(f"<int:row_id>/{page.name}/", self.admin_site.admin_view(view), name=name)
        return [own, *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return the page of a row, with a link to `row_page` for users who may open it."""
        page = self.row_page
        link = {} if page is None else {"may_open_row_page": page.may_open(request)}
        return super().change_view(request, object_id, form_url, link | (extra_context or {}))

    def get_list_display(self, request: HttpRequest) -> Any:
        """Return the columns of the list, each converted by `columns.column_of`."""
        return tuple(
            column_of(self.opts, name) if isinstance(name, str) else name
            for name in super().get_list_display(request)
        )

    def action_checkbox(self, obj: Model) -> SafeString:
        """Return Django's checkbox of a row; its own renders a template for each of them."""
        return format_html(
            '<input type="checkbox" name="{}" value="{}" class="action-select" aria-label="{}">',
            ACTION_CHECKBOX_NAME,
            obj.pk,
            f"Select this object for an action - {obj}",
        )

    def get_list_select_related(self, request: HttpRequest) -> tuple[str, ...]:
        """Return the names of the foreign keys in `list_display` and of `list_select_related`."""
        related = {field.name for field in self.opts.concrete_fields if field.is_relation}
        shown = [str(name) for name in self.list_display if name in related]
        return (*shown, *self.list_select_related)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[SortedChangeList]:
        """Return the class of the list, which sorts only by the columns of `sort_of`."""
        return SortedChangeList

    def get_sortable_by(self, request: HttpRequest) -> Any:
        """Return the columns of the list that sort it."""
        return [column for column in self.get_list_display(request) if self.sort_of(column)]

    def sort_of(self, column: str | Callable[[Any], Any]) -> Sort | None:
        """Return the order by a column of the list; None if it does not sort the list."""
        name = column if isinstance(column, str) else column.__name__
        if name in self.sorts or not self.is_small:
            return self.sorts.get(name)
        try:
            field = self.opts.get_field(name)
        except FieldDoesNotExist:
            return None
        related: Any = field.related_model if field.is_relation else None
        if isinstance(field, models.JSONField):
            return None
        is_named = related is not None and any(f.name == "name" for f in related._meta.fields)
        return Sort((f"{name}__name" if is_named else name, "pk"))

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Return `search_fields`, or `search_numbers` if `search_fields` is empty.

        Django shows the search box only if this method returns at least one field.
        """
        return (*self.search_fields,) or self.search_numbers

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return True if the user has Django's permission and the right `change_right`."""
        return super().has_add_permission(request) and self._has_change_right(request)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return True if the user has Django's permission and the right `change_right`."""
        return super().has_change_permission(request, obj) and self._has_change_right(request)

    def has_move_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may cancel, hold and retry work of other accounts."""
        return has_right(request, Right.MANAGE_OTHERS_BATCHES)

    def _has_change_right(self, request: HttpRequest) -> bool:
        return self.change_right is None or has_right(request, self.change_right)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Write Django's history entry and, if `audit_event` is set, an audit entry."""
        if self.audit_event is not None:
            self.record(self.audit_event, obj, {"added": True})
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Write Django's history entry and, if `audit_event` is set, an audit entry.

        The audit entry has the names of the changed fields, but not their values.
        """
        if self.audit_event is not None:
            self.record(self.audit_event, obj, {"changed": changed_fields(message)})
        return super().log_change(request, obj, message)

    def record(self, event: Event, obj: Model, details: Mapping[str, Any]) -> None:
        """Write an audit entry whose subject is the row `obj`."""
        subject = f"{obj._meta.verbose_name} {obj}"
        audit.record(event, now=timezone.now(), subject=subject, details=details)

    def get_actions(self, request: HttpRequest) -> Any:
        """Return Django's actions; those in `audited_actions` write an entry to the audit log."""
        actions: Any = super().get_actions(request)
        for name in self.audited_actions & actions.keys():
            function, _name, title = actions[name]
            actions[name] = (_audited(function, name), name, title)
        return actions

    @contextmanager
    def refusals_shown(self, request: HttpRequest, *refusals: type[Exception]) -> Iterator[None]:
        """Return a context manager that shows exceptions of the types `refusals` as messages."""
        try:
            yield
        except refusals as refusal:
            self.refuse(request, str(refusal))

    def refuse(self, request: HttpRequest, text: str) -> None:
        """Show why an action changed nothing; the audit log records that it was refused."""
        setattr(request, _REFUSED, True)
        self.message_user(request, text, messages.ERROR)

    def record_action(
        self, request: HttpRequest, name: str, ids: Sequence[int], **details: Any
    ) -> None:
        """Write the audit entry of an action in `audited_actions`, once per request.

        `ids` are those of the rows, of which the entry has the first.  An action of several
        transactions calls this method before the first one, so that an interruption leaves no
        change without an entry.  The entries of other actions are written after the action.
        """
        if getattr(request, _RECORDED, False):
            return
        setattr(request, _RECORDED, True)
        details = {"action": name, "ids": ids[:_MAX_IDS], "more": len(ids) > _MAX_IDS} | details
        if query := request.GET.urlencode():
            details["filter"] = query[:_MAX_FILTER]
        if getattr(request, _REFUSED, False):
            details["refused"] = True
        subject = str(self.opts.verbose_name_plural)
        audit.record(Event.ACTION_TAKEN, now=timezone.now(), subject=subject, details=details)

    def selected(
        self, request: HttpRequest, queryset: QuerySet[Row], *, at_most: int, hint: str = ""
    ) -> list[Row]:
        """Return the selected rows in ascending id; none after a refusal of too many."""
        rows = list(queryset.order_by("pk")[: at_most + 1])
        if len(rows) <= at_most:
            return rows
        noun = self.opts.verbose_name_plural
        hint = hint or f"select fewer {noun}"
        self.refuse(request, f"More than {at_most} {noun} are selected. Hint: {hint}.")
        return []

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Return initial values from the query string, without invalid ids of related rows."""
        related = {field.name for field in self.opts.get_fields() if field.is_relation}
        return {
            name: value
            for name, value in super().get_changeform_initial_data(request).items()
            if name not in related or _is_id(value)
        }

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Return the rows for a search term, and False, because no row is listed twice.

        If the term equals a value in a column of `search_names` or `search_numbers`, only the rows
        with this value are returned.  Otherwise, these are rows with columns that begin with the
        term, rows of the owners that it finds, and the newest rows that contain it.  An empty term
        returns all rows.
        """
        term = search_term.strip().removeprefix("#")
        if not term:
            return queryset, False
        condition = self._exact_matches(queryset, term) or self._text_matches(
            request, queryset, term
        )
        return queryset.filter(condition or Q(pk__in=())), False

    def _exact_matches(self, rows: QuerySet[Any], term: str) -> Q | None:
        """Return the condition for rows with the value in an indexed column, or None."""
        values: list[tuple[str, str | int]] = [(column, term) for column in self.search_names]
        if is_bigint(term):
            values += [(column, int(term)) for column in self.search_numbers]
        condition = None
        for column, value in values:
            leading = self.search_leading.get(column)
            if (matches := searching.having(rows, column, [value], leading=leading)) is not None:
                condition = matches if condition is None else condition | matches
        return condition

    def _text_matches(self, request: HttpRequest, rows: QuerySet[Any], term: str) -> Q:
        """Return the condition for rows that match the term.

        These are the rows of matching owners, and at most `MAX_MATCHES` rows whose indexed text
        begins with the term, or else that contain it and are among the newest.
        """
        matching: dict[Any, None] = {}
        for prefix in self.search_prefixes:
            matching |= dict.fromkeys(searching.beginning(rows, prefix, term))
        if self.search_fields and len(matching) < searching.MAX_MATCHES:
            matching |= dict.fromkeys(self._newest_matches(request, rows, term))
        condition = searching.one_of(list(matching)[: searching.MAX_MATCHES])
        for column, owners in self.search_owners.items():
            ids = owners(term)
            matches = searching.having(rows, column, ids) if ids else None
            condition = condition if matches is None else condition | matches
        return condition

    def _newest_matches(self, request: HttpRequest, rows: QuerySet[Any], term: str) -> list[Any]:
        """Return the ids of the newest rows with the term in a column of `search_fields`."""
        ids = self.model._default_manager.order_by("-pk").values_list("pk", flat=True)
        oldest = next(iter(ids[MAX_LISTED_ROWS : MAX_LISTED_ROWS + 1]), None)
        newest = rows if oldest is None else rows.filter(pk__gt=oldest)
        matches, _ = super().get_search_results(request, newest, term)
        newest_ids = matches.order_by("-pk").values_list("pk", flat=True)
        return list(newest_ids[: searching.MAX_MATCHES])

    def formfield_for_dbfield(
        self, db_field: models.Field[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        """Return Django's form field, with the help text from `helps` if it has an entry."""
        if (help_text := self.helps.get(db_field.name)) is not None:
            kwargs["help_text"] = help_text
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return False, because these pages never delete rows."""
        return False

    def save_model(
        self, request: HttpRequest, obj: Any, form: ModelForm[Any], change: bool
    ) -> None:
        """Save only the changed columns of an existing row; set `created_at` of a new row."""
        if change:
            columns = {field.name for field in obj._meta.concrete_fields}
            obj.save(update_fields=[name for name in form.changed_data if name in columns])
            return
        if hasattr(obj, "created_at") and obj.created_at is None:
            obj.created_at = timezone.now()
        super().save_model(request, obj, form, change)


def _audited(function: Action, name: str) -> Action:
    """Return an action that records who ran it on which rows, unless it only asks first.

    The rows are read before the action, which may delete them.
    """

    @wraps(function)
    def run(page: StaffAdmin, request: HttpRequest, rows: QuerySet[Any]) -> HttpResponse | None:
        ids = list(rows.order_by("pk").values_list("pk", flat=True)[: _MAX_IDS + 1])
        response = function(page, request, rows)
        if not isinstance(response, TemplateResponse):
            page.record_action(request, name, ids)
        return response

    return run


class WrittenByPrograms:
    """A mixin for pages and inlines that are read-only, because only programs write the rows."""

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return False, because only programs add these rows."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Return False, because only programs change these rows."""
        return False


class RecordAdmin(WrittenByPrograms, StaffAdmin):
    """A read-only page of a table that programs write."""


class RecordInline(WrittenByPrograms, InlineBase):
    """A read-only inline of rows that programs write."""

    extra = 0
    can_delete = False
    show_change_link = True


def changed_fields(message: Any) -> list[str]:
    """Return the names of changed fields from a history message of Django's admin.

    For an inline row that was added or deleted, the list has one item: the name of its model and
    "added" or "deleted".
    """
    names: list[str] = []
    for part in message if isinstance(message, list) else ():
        if isinstance(part, dict):
            for verb, details in part.items():
                labels = details.get("fields") or [f"{details['name']} {verb}"] if details else []
                names.extend(str(label) for label in labels)
    return names


# Formatting of values


def is_bigint(term: str) -> bool:
    """Return whether a search term is a whole number that a `bigint` column can store.

    >>> is_bigint("42"), is_bigint("9" * 30), is_bigint("0" * 30 + "9" * 30)
    (True, False, False)
    """
    return re.fullmatch(r"[0-9]{1,30}", term) is not None and int(term) <= _BIGINT_MAX


#: State labels by tone, which sets the color of a badge; all other labels are plain.
_GOOD = {"OVER/SUCCESS", "VALID", "CANONICAL", "DONE", "RELEASED"}
_BAD = {
    "OVER/CLIENT_ERROR",
    "OVER/VALIDATE_ERROR",
    "OVER/COULDNT_SEND",
    "INVALID",
    "FAILED",
    "ERROR",
}
_UNEASY = {"OVER/NO_REPLY", "OVER/CLIENT_DETACHED", "INCONCLUSIVE", "TOO_LATE", "HELD"}


def tone(label: str) -> str:
    """Return the tone of a state label, for its CSS class: good, bad, uneasy or plain."""
    if label in _GOOD:
        return "good"
    if label in _BAD:
        return "bad"
    return "uneasy" if label in _UNEASY else "plain"


def badge(label: str) -> SafeString:
    """Return a state label as an HTML element whose color depends on the label's `tone`."""
    return format_html('<span class="state state-{}">{}</span>', tone(label), label)


def link_to(row: Model | None, text: str = "") -> SafeString | str:
    """Return a link to the admin page of a row, or a dash if `row` is None."""
    if row is None:
        return "–"
    url = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
    return format_html('<a href="{}">{}</a>', url, text or str(row))


def nbytes_label(nbytes: float) -> str:
    """Return a number of bytes as text with a binary unit.

    >>> nbytes_label(1_500_000)
    '1.4 MiB'
    """
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:  # noqa: PLR2004  bytes in a kilobyte
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def duration_label(duration: timedelta) -> str:
    """Return a duration as text, in its largest unit and the next smaller unit.

    >>> duration_label(timedelta(days=7, minutes=3))
    '7 d'
    >>> duration_label(timedelta(seconds=3700))
    '1 h 1 min'
    """
    seconds = int(duration.total_seconds())
    if seconds < 1:
        return "0 s"
    parts = []
    for name, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, length)
        parts.append(f"{count} {name}" if count else "")
    first = next(i for i, part in enumerate(parts) if part)
    return " ".join(part for part in parts[first : first + 2] if part)


def bits_label(names: Iterable[str | None]) -> str:
    """Return the flag names in lower case, separated by commas, or a dash if there are no names."""
    return ", ".join(str(name).lower().replace("_", " ") for name in names) or "–"
