"""Converts computers and results to the values that the pages show."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, npgettext_lazy, pgettext_lazy

from scheduler.hosts import own_hosts
from scheduler.hosts.decision_texts import Decision
from scheduler.hosts.machines import Gpu
from scheduler.models import Host
from scheduler.models.science import CreditRule
from scheduler.web.texts import number, translated
from scheduler.work.volunteers.own_result import ResultDetails
from scheduler.work.volunteers.result_lists import OwnResult
from scheduler.work.volunteers.result_states import LABELS, OwnState

#: CSS class of the label of each state.
_TONES: Final = {
    OwnState.IN_PROGRESS: "plain",
    OwnState.WAITING: "uneasy",
    OwnState.VALID: "good",
    OwnState.INVALID: "bad",
    OwnState.ERROR: "bad",
}
#: The usual locations of computers, with their labels; others are shown by their names.
VENUES: Final = {
    "": gettext_lazy("default"),
    "home": gettext_lazy("home"),
    "school": gettext_lazy("school"),
    "work": gettext_lazy("work"),
}
#: The rules of credit, with their labels.
_RULES: Final = {
    CreditRule.FIXED.value: pgettext_lazy("rule of credit", "fixed"),
    CreditRule.RUNTIME.value: pgettext_lazy("rule of credit", "runtime"),
    CreditRule.ADAPTIVE.value: pgettext_lazy("rule of credit", "adaptive"),
    CreditRule.NONE.value: pgettext_lazy("rule of credit", "none"),
}
#: The units of distances from now.  In German, they have another case than in Django's texts.
_TIME_STRINGS: Final = {
    "year": npgettext_lazy("distance", "%(num)d year", "%(num)d years", "num"),
    "month": npgettext_lazy("distance", "%(num)d month", "%(num)d months", "num"),
    "week": npgettext_lazy("distance", "%(num)d week", "%(num)d weeks", "num"),
    "day": npgettext_lazy("distance", "%(num)d day", "%(num)d days", "num"),
    "hour": npgettext_lazy("distance", "%(num)d hour", "%(num)d hours", "num"),
    "minute": npgettext_lazy("distance", "%(num)d minute", "%(num)d minutes", "num"),
}
_NOISE: Final = re.compile(r"\s*\[[^]]*\]|\((?:R|TM|C)\)", re.IGNORECASE)
_GIB: Final = 2**30
_GIGA: Final = 1e9
_MAX_TEXT: Final = 120


@dataclass(frozen=True, slots=True)
class Time:
    """A time on a page: `ago` is relative to now, `exact` is shown on hover."""

    at: datetime
    ago: str
    exact: str


@dataclass(frozen=True, slots=True)
class StateLabel:
    """A state in words, with the CSS class of its label."""

    text: str
    tone: str


def time_of(at: datetime | None, *, now: datetime) -> Time | None:
    """Return a time with its distance from now; None stays None."""
    if at is None:
        return None
    # A distance of less than a minute is "0 minutes" in both directions.
    if abs(at - now) < timedelta(minutes=1):
        ago = _("just now")
    elif at < now:
        ago = _("{} ago").format(_distance(at, now))
    else:
        ago = _("in {}").format(_distance(now, at))
    return Time(at, ago.replace("\xa0", " "), f"{at:%Y-%m-%d %H:%M:%S} UTC")


def _distance(start: datetime, end: datetime) -> str:
    return timesince(start, end, depth=1, time_strings=_TIME_STRINGS)  # type: ignore[arg-type]  # lazy


def state_label(state: OwnState | None) -> StateLabel:
    """Return the label of a state; None is that of a result that was not sent."""
    if state is None:
        return StateLabel(_("not sent yet"), "plain")
    return StateLabel(translated(LABELS[state]), _TONES[state])


def computer_row(host: Host, *, now: datetime) -> dict[str, Any]:
    """Return the values of a row of the list; the host has the annotation `in_progress`."""
    return {
        "host": host,
        "name": name_of(host),
        "system": f"{host.os_name} {host.os_version}".strip()[:_MAX_TEXT] or _("unknown"),
        "processor": processor_of(host),
        "gpus": [gpu_label(gpu) for gpu in own_hosts.gpus_of(host)],
        "float_speed": _speed(host.p_fpops, "FLOPS"),
        "integer_speed": _speed(host.p_iops, "IOPS"),
        "contact": time_of(host.rpc_at, now=now),
    }


def computer_details(host: Host, *, now: datetime) -> dict[str, Any]:
    """Return the values of a computer's page."""
    return computer_row(host, now=now) | {
        "created": time_of(host.created_at, now=now),
        "memory": f"{number(host.m_nbytes / _GIB, 1)} GiB",
        "disk": _("{} GiB free of {} GiB").format(
            number(host.d_free / _GIB, 1), number(host.d_total / _GIB, 1)
        ),
        "turnaround": duration(host.turnaround_seconds),
        "on_percent": f"{100 * host.on_frac:.0f} %",
        "client": _version(host.client_version),
    }


def decision_row(decision: Decision, *, now: datetime) -> dict[str, Any]:
    """Return the values of a request for work, whose reasons are translated."""
    return {
        "decision": decision,
        "time": time_of(decision.at, now=now),
        "summary": translated(decision.summary),
        "reasons": [
            (reason, translated(reason.text), translated(reason.detail))
            for reason in decision.reasons
        ],
        "messages": [_message(text) for text in decision.messages],
    }


def _message(text: str) -> tuple[str, str]:
    """Return a message to a client, and the original text if the former is a translation."""
    shown_text = translated(text)
    return shown_text, "" if shown_text == text else text


def result_row(row: OwnResult, *, now: datetime) -> dict[str, Any]:
    """Return the values of a row of the list of results."""
    is_running = row.state is OwnState.IN_PROGRESS
    return {
        "row": row,
        "state": state_label(row.state),
        "host_name": row.host_name[:_MAX_TEXT] or _("Computer {}").format(row.host_id),
        "sent": time_of(row.sent_at, now=now),
        "deadline": time_of(row.report_deadline, now=now) if is_running else None,
        "is_late": is_running and row.report_deadline is not None and row.report_deadline < now,
        "ended": time_of(row.received_at, now=now),
        "run_time": duration(row.elapsed_time) if row.elapsed_time > 0 else "",
    }


def result_details(details: ResultDetails, *, now: datetime) -> dict[str, Any]:
    """Return the values of a result's page."""
    result = details.result
    return {
        "details": details,
        "why": translated(details.why),
        "grants": [
            (grant, str(_RULES.get(grant.rule, grant.rule)), translated(grant.why))
            for grant in details.grants
        ],
        "result": result,
        "state": state_label(details.state),
        "app": result.app.user_friendly_name or result.app.name,
        "host_name": "" if result.host is None else name_of(result.host),
        "is_running": details.state is OwnState.IN_PROGRESS,
        "sent": time_of(result.sent_at, now=now),
        "deadline": time_of(result.report_deadline, now=now),
        "ended": time_of(result.received_at, now=now),
        "run_time": duration(result.elapsed_time),
        "cpu_time": duration(result.cpu_time),
        "memory": f"{number(result.peak_working_set_bytes / 2**20)} MiB",
        "speed": _speed(result.flops_estimate, "FLOPS"),
        "progress": f"{100 * result.fraction_done:.0f} %",
        "timeline": [
            (time_of(step.at, now=now), translated(step.sentence), step.text)
            for step in details.timeline
        ],
        "siblings": None
        if details.siblings is None
        else [(sibling, state_label(sibling.state)) for sibling in details.siblings],
    }


def processor_of(host: Host) -> str:
    """Return the model of the CPUs, without stepping and trademark signs."""
    model = _NOISE.sub("", host.p_model)[:_MAX_TEXT].strip()
    return model or host.p_vendor[:_MAX_TEXT] or _("unknown")


def name_of(host: Host) -> str:
    """Return the name of a computer, or its number if it has no name."""
    return host.domain_name[:_MAX_TEXT] or _("Computer {}").format(host.pk)


def gpu_label(gpu: Gpu) -> str:
    """Return the number, the name and the memory of GPUs.

    >>> gpu_label(Gpu(kind="nvidia", count=2, name="T4", ram_bytes=16 * 2**30))
    '2 × T4 (16.0 GiB)'
    """
    times = f"{gpu.count} × " if gpu.count != 1 else ""
    memory = f" ({number(gpu.ram_bytes / _GIB, 1)} GiB)" if gpu.ram_bytes else ""
    return f"{times}{gpu.name or gpu.kind}{memory}"


def duration(seconds: float) -> str:
    """Return a duration in the two largest units.

    >>> duration(0.5), duration(59), duration(3725), duration(200000)
    ('0.5 s', '59 s', '1 h 2 min', '2 d 7 h')
    """
    if seconds < 10:  # noqa: PLR2004  short times need a decimal
        return f"{number(seconds, 1)} s"
    whole = int(seconds)
    for size, unit, part, part_unit in _UNITS:
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit}" + (f" {rest} {part_unit}" if rest else "")
    return f"{whole} s"


_UNITS: Final = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def _speed(per_second: float, unit: str) -> str:
    return f"{number(per_second / _GIGA, 2)} G{unit}"


def _version(number: int) -> str:
    """Return the version of a BOINC client, which is 10000 * major + 100 * minor + release."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number > 0 else _("unknown")
