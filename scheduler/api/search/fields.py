"""The fields that the parameter `filter` of each list can name.

A field must be one that the list returns to the same caller, because a filter shows whether a value
matches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.db.models import Q

from scheduler.api.search.expressions import Field, Kind
from scheduler.api.shown import BATCH_STATES, RESULT_STATES
from scheduler.work.rules.statuses import Status

Fields = Mapping[str, Field]

WORKUNITS: Final[Fields] = {
    "id": Field("id", Kind.INTEGER),
    "name": Field("name"),
    "app": Field("app__name"),
    "batch": Field("batch_id", Kind.INTEGER),
    "queue": Field("queue__name"),
    "status": Field("status", Kind.WORD, {status.value: status.value for status in Status}),
    "hold_code": Field("hold_code", Kind.INTEGER),
    "priority": Field("priority", Kind.INTEGER),
    "command_line": Field("command_line"),
    "canonical_result": Field("canonical_result_id", Kind.INTEGER),
    "created_at": Field("created_at", Kind.TIME),
    "finished_at": Field("finished_at", Kind.TIME),
    "meta": Field("meta", Kind.META),
}

RESULTS: Final[Fields] = {
    "id": Field("id", Kind.INTEGER),
    "name": Field("name"),
    "workunit": Field("workunit_id", Kind.INTEGER),
    "batch": Field("workunit__batch_id", Kind.INTEGER),
    "queue": Field("workunit__queue__name"),
    "app": Field("app__name"),
    "host": Field("host_id", Kind.INTEGER),
    "state": Field(
        "server_state",
        Kind.WORD,
        {
            word: Q(server_state=state.server_state, outcome=state.outcome)
            for word, state in RESULT_STATES.items()
        },
    ),
    "exit_status": Field("exit_status", Kind.INTEGER),
    "app_status": Field("app_status", Kind.INTEGER),
    "attempt": Field("attempt", Kind.INTEGER),
    "cpu_seconds": Field("cpu_time", Kind.NUMBER),
    "elapsed_seconds": Field("elapsed_time", Kind.NUMBER),
    "created_at": Field("created_at", Kind.TIME),
    "sent_at": Field("sent_at", Kind.TIME),
    "received_at": Field("received_at", Kind.TIME),
    "report_deadline": Field("report_deadline", Kind.TIME),
}

HOSTS: Final[Fields] = {
    "id": Field("id", Kind.INTEGER),
    "name": Field("domain_name"),
    "account": Field("account_id", Kind.INTEGER),
    "platform": Field("platform_name"),
    "os_name": Field("os_name"),
    "ncpus": Field("p_ncpus", Kind.INTEGER),
    "flops": Field("p_fpops", Kind.NUMBER),
    "memory_nbytes": Field("m_nbytes", Kind.NUMBER),
    "disk_free_nbytes": Field("d_free", Kind.NUMBER),
    "max_in_progress": Field("max_in_progress", Kind.INTEGER),
    "denied": Field("denied", Kind.FLAG),
    "created_at": Field("created_at", Kind.TIME),
    "last_contact_at": Field("rpc_at", Kind.TIME),
}

QUEUES: Final[Fields] = {
    "id": Field("id", Kind.INTEGER),
    "name": Field("name"),
    "app": Field("app__name"),
    "max_in_progress": Field("max_in_progress", Kind.INTEGER),
    "order": Field("order", Kind.WORD, {word: word for word in ("priority", "fifo", "lifo")}),
    "priority_group": Field("priority_group", Kind.INTEGER),
    "disabled_until": Field("disabled_until", Kind.TIME),
    "created_at": Field("created_at", Kind.TIME),
}

BATCHES: Final[Fields] = {
    "id": Field("id", Kind.INTEGER),
    "name": Field("name"),
    "app": Field("app__name"),
    "state": Field("state", Kind.WORD, BATCH_STATES),
    "priority": Field("priority", Kind.INTEGER),
    "created_at": Field("created_at", Kind.TIME),
    "completed_at": Field("completed_at", Kind.TIME),
    "meta": Field("meta", Kind.META),
}
