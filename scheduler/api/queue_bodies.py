"""The serializers of queues and of their balance."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduler.api.http.body import Column, NameField, RowShown, Shown, Strict
from scheduler.models import Queue, QueueBalance, QueueSchedule
from scheduler.models.queues import MAX_SLOTS
from scheduler.queues import balance, named_queues
from scheduler.queues.rules import schedules

_ORDERS = ("priority", "fifo", "lifo")
#: PostgreSQL's largest `smallint` and `bigint`.
_INT2, _INT8 = 2**15 - 1, 2**63 - 1
#: Help texts of fields that responses and bodies share.
_HELPS = {
    "max_in_progress": "The maximum number of results in progress on all hosts together. If null, "
    "there is no limit; 0 stops the queue.",
    "order": "The order of sending: by priority, or oldest (fifo) or newest (lifo) workunit first.",
    "priority_group": "Work of a higher group is sent first. Work without a queue is in group 0.",
    "disabled_until": "The queue sends nothing before this time.",
    "max_new_per_claim": "The maximum number of results that the server sends at once, to all "
    "hosts that it answers together. If null, there is no limit.",
    "max_new_per_host": "The maximum number of results in one reply to a host. If null, there is "
    "no limit.",
    "trusted": "Whether workunits of the queue may have an infinite deadline, and hosts of a "
    "trusted pool can claim its results.",
    "time_zone": "The time zone of the schedule, such as Europe/Berlin.",
    "schedule": "Changes of max_in_progress by weekday and time.",
    "allowed_hosts": "Ids of hosts. If this list or allowed_accounts is not empty, the queue "
    "serves only these hosts and accounts, and denied_hosts and denied_accounts do not apply.",
    "denied_hosts": "Ids of hosts that the queue does not serve.",
    "allowed_accounts": "Ids of accounts whose hosts the queue serves; see allowed_hosts.",
    "denied_accounts": "Ids of accounts whose hosts the queue does not serve.",
}


class ScheduleOut(serializers.Serializer[QueueSchedule]):
    """A change of a queue's limit at a time of the week."""

    at = serializers.CharField(
        help_text="A weekday from 0 (Sunday) to 6 (Saturday), or * for every day, then the time: "
        '"* 07:00", "1 18:30".',
    )
    max_in_progress = serializers.IntegerField(allow_null=True)

    def to_representation(self, instance: QueueSchedule) -> dict[str, Any]:
        """Return the time as text, and the limit."""
        return {"at": str(instance), "max_in_progress": instance.max_in_progress}


class QueueOut(RowShown):
    """A queue. The lists are null for callers who may not view everything."""

    id = Column()
    name = Column()
    app = serializers.CharField(
        source="app.name",
        default=None,
        allow_null=True,
        help_text="The only app whose work the queue accepts.",
    )
    max_in_progress = Column()
    order = serializers.ChoiceField(_ORDERS, help_text=_HELPS["order"])
    priority_group = Column()
    disabled_until = Column()
    max_new_per_claim = Column()
    max_new_per_host = Column()
    trusted = Column()
    time_zone = Column()
    schedule = ScheduleOut(many=True, source="schedules.all", help_text=_HELPS["schedule"])
    allowed_hosts = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    denied_hosts = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    allowed_accounts = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    denied_accounts = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    created_at = Column()

    class Meta:
        model = Queue
        extra_kwargs = {
            name: {"help_text": _HELPS[name]}
            for name in ("max_in_progress", "priority_group", "disabled_until", "trusted")
        } | {
            name: {"help_text": _HELPS[name]}
            for name in ("max_new_per_claim", "max_new_per_host", "time_zone")
        }

    def to_representation(self, instance: Queue) -> dict[str, Any]:
        """Return the fields; the lists are None unless the context has `shows_lists`."""
        fields: dict[str, Any] = super().to_representation(instance)
        if not self.context.get("shows_lists"):
            fields |= dict.fromkeys(named_queues.LISTS)
        return fields


class QueueListed(QueueOut):
    """A queue with the numbers of its results."""

    unsent = serializers.SerializerMethodField(
        help_text=f"The number of results that wait to be sent, counted up to "
        f"{named_queues.MAX_COUNTED}."
    )
    in_progress = serializers.SerializerMethodField(
        help_text=f"The number of results in progress, counted up to {MAX_SLOTS}."
    )

    class Meta(QueueOut.Meta):
        pass

    def get_unsent(self, queue: Queue) -> int:
        """Return the count from the context, which has the counts of a page of queues."""
        return int(self.context["counts"][queue.pk][0])

    def get_in_progress(self, queue: Queue) -> int:
        """Return the count from the context, which has the counts of a page of queues."""
        return int(self.context["counts"][queue.pk][1])


class _Limit(serializers.IntegerField):
    """A number of results up to the maximum number of slots, or null."""

    def __init__(self, min_value: int = 0, **kwargs: Any) -> None:
        super().__init__(min_value=min_value, max_value=MAX_SLOTS, allow_null=True, **kwargs)


class _Ids(serializers.ListField):
    """A list of the ids of hosts or accounts."""

    child = serializers.IntegerField(min_value=1, max_value=_INT8)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, max_length=named_queues.MAX_LISTED, **kwargs)


class NewScheduleEntry(Strict):
    """A change of a queue's limit at a time of the week."""

    at = serializers.CharField(
        max_length=20,
        help_text="A weekday from 0 (Sunday) to 6 (Saturday), or * for every day, then the time: "
        '"* 07:00", "1 18:30". An entry of a weekday replaces the entry of every day at the same '
        "time.",
    )
    max_in_progress = _Limit(help_text="The limit from this time on; null means no limit.")

    def to_internal_value(self, data: Any) -> Any:
        """Return the `ScheduleEntry`."""
        values = super().to_internal_value(data)
        try:
            return schedules.entry_at(values["at"], values["max_in_progress"])
        except schedules.BadScheduleTime as bad:
            raise serializers.ValidationError({"at": [str(bad)]}) from bad


class ChangedQueue(Strict):
    """The fields of a queue that can be changed."""

    app = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=60,
        help_text="The only app whose work the queue accepts.",
    )
    max_in_progress = _Limit(required=False, help_text=_HELPS["max_in_progress"])
    order = serializers.ChoiceField(_ORDERS, required=False, help_text=_HELPS["order"])
    priority_group = serializers.IntegerField(
        required=False, min_value=-_INT2, max_value=_INT2, help_text=_HELPS["priority_group"]
    )
    disabled_until = serializers.DateTimeField(
        required=False, allow_null=True, help_text=_HELPS["disabled_until"]
    )
    max_new_per_claim = _Limit(1, required=False, help_text=_HELPS["max_new_per_claim"])
    max_new_per_host = _Limit(1, required=False, help_text=_HELPS["max_new_per_host"])
    trusted = serializers.BooleanField(required=False, help_text=_HELPS["trusted"])
    time_zone = serializers.CharField(required=False, max_length=64, help_text=_HELPS["time_zone"])
    schedule = serializers.ListField(
        child=NewScheduleEntry(),
        required=False,
        max_length=named_queues.MAX_ENTRIES,
        help_text=f"{_HELPS['schedule']} It replaces the former schedule.",
    )
    allowed_hosts = _Ids(help_text=_HELPS["allowed_hosts"])
    denied_hosts = _Ids(help_text=_HELPS["denied_hosts"])
    allowed_accounts = _Ids(help_text=_HELPS["allowed_accounts"])
    denied_accounts = _Ids(help_text=_HELPS["denied_accounts"])


class NewQueue(ChangedQueue):
    """The fields of a new queue."""

    name = NameField(max_length=100, help_text="Letters, digits, - . and _.")


_BALANCE_HELPS = {
    "queues": "The names of the queues by group; the first group is served first. The queues of a "
    "group share equally.",
    "max_tasks": "The maximum number of results in progress of all these queues together, by the "
    'time from which it holds: {"* 07:00": 50, "1 18:30": 200}. Weekdays are 0 (Sunday) to 6; * '
    "is every day.",
    "time_zone": "The time zone of max_tasks, such as Europe/Berlin.",
    "disabled_until": "The limits of the queues are not changed before this time.",
}
_NAMES = serializers.ListField(child=serializers.CharField(max_length=100))


class BalanceOut(Shown):
    """The maximum number of results in progress that several queues share."""

    queues = serializers.ListField(child=_NAMES, help_text=_BALANCE_HELPS["queues"])
    max_tasks = serializers.DictField(
        child=serializers.IntegerField(), help_text=_BALANCE_HELPS["max_tasks"]
    )
    time_zone = serializers.CharField(help_text=_BALANCE_HELPS["time_zone"])
    disabled_until = serializers.DateTimeField(
        allow_null=True, help_text=_BALANCE_HELPS["disabled_until"]
    )

    def read_queues(self, _instance: QueueBalance) -> list[list[str]]:
        """Return the names by group."""
        return balance.groups()


class ChangedBalance(Strict):
    """The fields of the balance that can be changed."""

    queues = serializers.ListField(
        child=serializers.ListField(
            child=serializers.CharField(max_length=100), max_length=balance.MAX_QUEUES
        ),
        required=False,
        max_length=balance.MAX_QUEUES,
        help_text=_BALANCE_HELPS["queues"],
    )
    max_tasks = serializers.DictField(
        child=serializers.IntegerField(min_value=0, max_value=MAX_SLOTS),
        required=False,
        help_text=f"{_BALANCE_HELPS['max_tasks']} It replaces the former value.",
    )
    time_zone = serializers.CharField(
        required=False, max_length=64, help_text=_BALANCE_HELPS["time_zone"]
    )
    disabled_until = serializers.DateTimeField(
        required=False, allow_null=True, help_text=_BALANCE_HELPS["disabled_until"]
    )
