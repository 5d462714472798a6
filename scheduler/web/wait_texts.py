"""Makes sentences about stalled work in the visitor's language.

The front page shows the causes of `health.rules.standstill_causes` for the whole project.  Their
English sentences are the same as in the API, so that an operator finds one in the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from scheduler.dispatch.rules.sendability import SEEN_WITHIN
from scheduler.health.rules.standstill_causes import MAX_EXAMINED, Cause, Wait
from scheduler.web.texts import number, translated
from scheduler.work.rules.explanation import at


def sentence(wait: Wait) -> str:
    """Return the sentence of a cause in the visitor's language.

    Causes of single batches, which no page for people shows, stay English.
    """
    text_of = _TEXTS.get(wait.cause)
    if text_of is None:
        return translated(wait.sentence)
    count = wait.workunits
    values: dict[str, Any] = {
        name: number(value) if isinstance(value, int) else value
        for name, value in wait.values.items()
    }
    values["days"] = number(SEEN_WITHIN.days)
    values["count"] = _("%(count)s or more") % {"count": MAX_EXAMINED} if _is_cut(count) else count
    if "reason" in values:
        values["reason"] = translated(values["reason"])
    if "since" in values:
        values["since"] = at(values["since"])
    return text_of(count, wait.values) % values


def _is_cut(count: int) -> bool:
    return count >= MAX_EXAMINED


# Each function returns the text for a number of workunits.


def _no_version(count: int, _values: Mapping[str, Any]) -> str:
    return ngettext(
        "%(count)s workunit waits for an app version: the app has no version that can be sent.",
        "%(count)s workunits wait for an app version: the app has no version that can be sent.",
        count,
    )


def _no_host(count: int, _values: Mapping[str, Any]) -> str:
    return ngettext(
        "%(count)s workunit waits for a computer: none has contacted the project in the last "
        "%(days)s days.",
        "%(count)s workunits wait for a computer: none has contacted the project in the last "
        "%(days)s days.",
        count,
    )


def _no_host_asks(count: int, _values: Mapping[str, Any]) -> str:
    return ngettext(
        "%(count)s workunit waits for a computer: none has contacted the project since %(since)s "
        "(%(hosts)s in the last %(days)s days).",
        "%(count)s workunits wait for a computer: none has contacted the project since %(since)s "
        "(%(hosts)s in the last %(days)s days).",
        count,
    )


def _account_short(count: int, values: Mapping[str, Any]) -> str:
    if values["quorum"] > 1:
        return ngettext(
            "%(count)s workunit waits for another account: a quorum of %(quorum)s needs "
            "%(quorum)s accounts, and each account with a computer that contacted the project in "
            "the last %(days)s days (%(seen)s) already had a result.",
            "%(count)s workunits wait for another account: a quorum of %(quorum)s needs "
            "%(quorum)s accounts, and each account with a computer that contacted the project in "
            "the last %(days)s days (%(seen)s) already had a result.",
            count,
        )
    return ngettext(
        "%(count)s workunit waits for another account: each account with a computer that "
        "contacted the project in the last %(days)s days (%(seen)s) already had a result.",
        "%(count)s workunits wait for another account: each account with a computer that "
        "contacted the project in the last %(days)s days (%(seen)s) already had a result.",
        count,
    )


def _host_short(count: int, values: Mapping[str, Any]) -> str:
    if values["quorum"] > 1:
        return ngettext(
            "%(count)s workunit waits for another computer: a quorum of %(quorum)s needs "
            "%(quorum)s computers, and each computer that contacted the project in the last "
            "%(days)s days (%(seen)s) already had a result.",
            "%(count)s workunits wait for another computer: a quorum of %(quorum)s needs "
            "%(quorum)s computers, and each computer that contacted the project in the last "
            "%(days)s days (%(seen)s) already had a result.",
            count,
        )
    return ngettext(
        "%(count)s workunit waits for another computer: each computer that contacted the project "
        "in the last %(days)s days (%(seen)s) already had a result.",
        "%(count)s workunits wait for another computer: each computer that contacted the project "
        "in the last %(days)s days (%(seen)s) already had a result.",
        count,
    )


def _all_refused(count: int, values: Mapping[str, Any]) -> str:
    if values["hosts"] == 1:
        return ngettext(
            "%(count)s workunit was refused to the only computer that contacted the project in "
            "the last %(days)s days; most frequent reason: %(reason)s.",
            "%(count)s workunits were refused to the only computer that contacted the project in "
            "the last %(days)s days; most frequent reason: %(reason)s.",
            count,
        )
    return ngettext(
        "%(count)s workunit was refused to each of the %(hosts)s computers that contacted the "
        "project in the last %(days)s days; most frequent reason: %(reason)s.",
        "%(count)s workunits were refused to each of the %(hosts)s computers that contacted the "
        "project in the last %(days)s days; most frequent reason: %(reason)s.",
        count,
    )


def _no_host_left(count: int, _values: Mapping[str, Any]) -> str:
    return ngettext(
        "%(count)s workunit waits for another computer: of the %(hosts)s computers that contacted "
        "the project in the last %(days)s days, some already had a result, and the others were "
        "refused (most frequent reason: %(reason)s).",
        "%(count)s workunits wait for another computer: of the %(hosts)s computers that contacted "
        "the project in the last %(days)s days, some already had a result, and the others were "
        "refused (most frequent reason: %(reason)s).",
        count,
    )


_TEXTS: Final[Mapping[Cause, Callable[[int, Mapping[str, Any]], str]]] = {
    Cause.NO_VERSION: _no_version,
    Cause.NO_HOST: _no_host,
    Cause.NO_HOST_ASKS: _no_host_asks,
    Cause.ACCOUNT_SHORT: _account_short,
    Cause.HOST_SHORT: _host_short,
    Cause.ALL_REFUSED: _all_refused,
    Cause.NO_HOST_LEFT: _no_host_left,
}
