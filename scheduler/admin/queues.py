"""Admin pages of queues, their schedules and their slots."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString

from scheduler.admin.base import FormBase, RecordAdmin, StaffAdmin, section
from scheduler.admin.lists.sorting import Sort, SortedChangeList
from scheduler.admin.shown import times
from scheduler.admin.site import staff
from scheduler.models import Queue, QueueBalance, QueueSchedule, QueueSlot
from scheduler.queues import named_queues
from scheduler.queues.facts import QueueDepth, ScheduleEntry
from scheduler.queues.rules import schedules
from scheduler.rights import Right

_LISTS = tuple(named_queues.LISTS)


class QueueForm(FormBase):
    """The form of a queue; the schedule is a text with one entry per line."""

    schedule = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "cols": 30, "spellcheck": "false"}),
        help_text="One entry per line: a weekday from 0 (Sunday) to 6 (Saturday) or * for every "
        "day, a time, and the limit from this time on or the word none: * 07:00 50",
    )

    class Meta:
        model = Queue
        exclude = ("created_at", "scheduled_at", "balance_group")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "schedule" in self.fields and self.instance.pk:
            lines = schedules.as_lines(named_queues.entries_of(self.instance))
            self.initial["schedule"] = "\n".join(lines)

    def clean_schedule(self) -> list[ScheduleEntry]:
        """Return the entries of the schedule."""
        lines = self.cleaned_data["schedule"].splitlines()
        try:
            return [schedules.entry_of_line(line) for line in lines if line.strip()]
        except schedules.BadScheduleTime as bad:
            raise forms.ValidationError(str(bad)) from bad

    def clean(self) -> dict[str, Any]:
        """Check the values that refer to other rows, and those that must fit each other."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        try:
            named_queues.check(cleaned)
            named_queues.check_schedule(cleaned.get("schedule", ()))
            if self.instance.pk:
                named_queues.require_own_limit(self.instance, self.changed_data)
                changed = {name: cleaned[name] for name in self.changed_data if name in cleaned}
                # The page saves the queue in the same transaction.
                named_queues.lock_to_change(self.instance, changed)
        except named_queues.REFUSALS as refusal:
            raise forms.ValidationError(str(refusal)) from refusal
        return cleaned


class QueueList(SortedChangeList):
    """The list of queues; each queue of the page has its `QueueDepth` as `depth`."""

    def get_results(self, request: HttpRequest) -> None:
        """Read the queues of the page, and then the depths of all of them."""
        super().get_results(request)
        depths = named_queues.depths(self.result_list)
        for queue in self.result_list:
            queue.depth = depths[queue.pk]


@admin.register(Queue, site=staff)
class QueueAdmin(StaffAdmin):
    """The page of queues: their order, limits, hosts and schedules."""

    form = QueueForm
    change_right = Right.ADMINISTER_PROJECT
    list_display = (
        "name",
        "app",
        "waiting",
        "in_progress",
        "max_in_progress",
        "oldest",
        "order",
        "priority_group",
        "disabled_until",
        "created_at",
    )
    list_filter = ("order", "app")
    is_small = True
    search_fields = ("name",)
    readonly_fields = ("now_in_queue", "created_at", "scheduled_at", "balance_group")
    fieldsets = (
        section(None, "name", "app", "now_in_queue", "created_at"),
        section("Sending", "order", "priority_group", "disabled_until", "trusted"),
        section(
            "Limits", "max_in_progress", "balance_group", "max_new_per_claim", "max_new_per_host"
        ),
        section("Schedule of the limit", "schedule", "time_zone", "scheduled_at"),
        section("Hosts", *_LISTS),
    )
    helps = {
        "app": "The only app whose work the queue accepts. If empty, every app.",
        "order": "By priority, or the oldest (fifo) or newest (lifo) workunit first.",
        "priority_group": "Work of a higher group is sent first. Work without a queue is in "
        "group 0.",
        "disabled_until": "The queue sends nothing before this time.",
        "trusted": "Whether workunits of the queue may have an infinite deadline.",
        "max_in_progress": "Maximum number of results in progress on all hosts together. If "
        "empty, there is no limit; 0 stops the queue.",
        "balance_group": "Group of the queue in the balance, which sets its limit; group 0 is "
        "served first. Set with `scientist queue balance`.",
        "max_new_per_claim": "Maximum number of results that are sent at once, to all hosts that "
        "the server answers together. If empty, there is no limit.",
        "max_new_per_host": "Maximum number of results in one reply to a host. If empty, there "
        "is no limit.",
        "time_zone": "Time zone of the schedule, such as Europe/Berlin.",
        "allowed_hosts": "JSON list of ids of hosts. If this list or the list of allowed accounts "
        "is not empty, the queue serves only these, and the lists below do not apply.",
        "allowed_accounts": "JSON list of ids of accounts whose hosts the queue serves.",
        "denied_hosts": "JSON list of ids of hosts that the queue does not serve.",
        "denied_accounts": "JSON list of ids of accounts whose hosts the queue does not serve.",
    }

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[QueueList]:
        """Return the class of the list, whose rows have the depths of the queues."""
        return QueueList

    def waiting(self, queue: Any) -> str:
        """Return the number of unsent results."""
        return _count(queue.depth.unsent, queue.depth)

    def in_progress(self, queue: Any) -> str:
        """Return the number of results in progress."""
        return _count(queue.depth.in_progress, queue.depth)

    def oldest(self, queue: Any) -> SafeString | None:
        """Return when the oldest workunit with an unsent result was created."""
        at = queue.depth.oldest_at
        return None if at is None else times.relative(at, now=timezone.now())

    @admin.display(description="results")
    def now_in_queue(self, queue: Queue) -> str:
        """Return the numbers of unsent results and of results in progress."""
        unsent, in_progress = named_queues.counts([queue])[queue.pk]
        more = " or more" if unsent >= named_queues.MAX_COUNTED else ""
        return f"{unsent}{more} unsent, {in_progress} in progress"

    def save_model(
        self, request: HttpRequest, obj: Any, form: forms.ModelForm[Any], change: bool
    ) -> None:
        """Create or change the queue by `named_queues`, which also adapts its slots."""
        columns = {field.name for field in obj._meta.concrete_fields} | {"schedule"}
        names = [name for name in form.changed_data if name in columns]
        facts = {name: form.cleaned_data[name] for name in names}
        if isinstance(facts.get("app"), Model):
            facts["app"] = facts["app"].name
        if change:
            # The form has changed `obj` already; the stored row shows what differs.
            named_queues.change(Queue.objects.get(pk=obj.pk), **facts, now=timezone.now())
            return
        queue = named_queues.create(**facts, now=timezone.now())
        obj.pk, obj.created_at = queue.pk, queue.created_at


def _count(number: int, depth: QueueDepth) -> str:
    """Return a number of results as text, with a plus sign if there may be more."""
    return f"{number:,}+" if number >= depth.max_counted else f"{number:,}"


@admin.register(QueueBalance, site=staff)
class QueueBalanceAdmin(RecordAdmin):
    """The page of the balance, which `scientist queue balance` changes."""

    list_display = ("__str__", "max_tasks", "time_zone", "disabled_until")
    is_small = True


@admin.register(QueueSchedule, site=staff)
class QueueScheduleAdmin(RecordAdmin):
    """The page of the entries of all schedules; the page of a queue changes them."""

    list_display = ("queue", "__str__", "max_in_progress")
    is_small = True
    list_filter = ("queue",)
    search_fields = ("queue__name",)


@admin.register(QueueSlot, site=staff)
class QueueSlotAdmin(RecordAdmin):
    """The page of slots: one for each permitted result of a queue with a limit."""

    list_display = ("queue", "number", "result")
    sorts = {"queue": Sort(("queue_id", "number"))}
    list_filter = ("queue", ("result", admin.EmptyFieldListFilter))
    search_fields = ("queue__name",)
    search_numbers = ("result_id",)
