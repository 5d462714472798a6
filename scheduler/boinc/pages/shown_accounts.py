"""Pages about one account, which account managers and statistics sites read.

A strong key shows its account and its computers, and sets venues.  A weak key is stored on
computers that may not be trusted: as on BOINC's pages, it is unknown here.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_safe

from scheduler.boinc.pages.web_rpc import (
    ERR_GENERIC,
    ERR_NOT_FOUND,
    PageRefused,
    number,
    web_rpc,
)
from scheduler.boinc.wire import account_pages as wire
from scheduler.boinc.wire import computing_prefs, project_prefs, stored_prefs
from scheduler.hosts import own_hosts
from scheduler.models import Account, Host
from scheduler.people import account_keys, key_callers
from scheduler.people.personal_data import profiles
from scheduler.people.personal_data.consents import public_cpid


@web_rpc
def am_get_info(params: QueryDict, address: str, now: datetime) -> bytes:
    """Return the account of a strong key, with its preferences (PROTOCOL 8)."""
    account = key_callers.identify(
        params.get("account_key", ""), door="am_get_info", address=address, now=now
    ).account
    team = account.team
    return wire.encode_account_info(
        wire.AccountInfo(
            id=account.pk,
            name=account.name,
            country=account.country,
            weak_auth=account_keys.weak_key(account),
            cpid=public_cpid(account),
            create_time=int(account.created_at.timestamp()),
            global_prefs=stored_prefs.sendable(account.global_prefs, computing_prefs.FORMAT) or "",
            project_prefs=stored_prefs.sendable(account.project_prefs, project_prefs.FORMAT) or "",
            url=account.url,
            send_email=account.receive_letters,
            show_hosts=account.show_hosts,
            teamid=account.team_id or 0,
            venue=account.venue,
            teamfounder=team is not None and team.founder_id == account.pk,
        )
    )


@web_rpc
def am_set_info(_params: QueryDict, _address: str, _now: datetime) -> bytes:
    """Refuse to change an account, as BOINC's servers do since they disabled this page."""
    msg = "This is not supported. Hint: change the account on the project's web site."
    raise PageRefused(ERR_GENERIC, msg)


@web_rpc
def am_set_host_info(params: QueryDict, address: str, now: datetime) -> bytes:
    """Set the venue of a computer of the account of a strong key."""
    account = key_callers.identify(
        params.get("account_key", ""), door="am_set_host_info", address=address, now=now
    ).account
    own_hosts.set_venue(account, number(params, "hostid"), params.get("venue", ""), now=now)
    return wire.encode_host_info_set()


@require_safe
def show_user(request: HttpRequest) -> HttpResponse:
    """Return an account as XML; other formats lead to its page, or to the status page."""
    if request.GET.get("format") != "xml":
        account_id = number(request.GET, "userid")
        page = reverse("public_account", args=[account_id]) if account_id else reverse("status")
        return HttpResponseRedirect(page)
    return _show_user(request)


@web_rpc
def _show_user(params: QueryDict, address: str, now: datetime) -> bytes:
    """Return an account that shares its statistics, or the account of a key and its computers."""
    if not (key := params.get("auth", "")):
        account = profiles.find(number(params, "userid"))
        if account is None:
            raise PageRefused(ERR_NOT_FOUND, "There is no such account, or it is not public.")
        return wire.encode_user(_user(account, None))
    account = key_callers.identify(key, door="show_user", address=address, now=now).account
    return wire.encode_user(_user(account, own_hosts.of_account(account)))


def _user(account: Account, hosts: Iterable[Host] | None) -> wire.ShownUser:
    return wire.ShownUser(
        id=account.pk,
        cpid=public_cpid(account),
        create_time=int(account.created_at.timestamp()),
        name=account.name,
        total_credit=float(account.total_credit),
        expavg_credit=account.expavg_credit,
        expavg_time=average_time(account.expavg_at),
        teamid=account.team_id or 0,
        venue=None if hosts is None else account.venue,
        hosts=tuple(map(_host, hosts or ())),
        country=account.country,
        url=account.url,
    )


def _host(host: Host) -> wire.ShownHost:
    return wire.ShownHost(
        id=host.pk,
        create_time=int(host.created_at.timestamp()),
        rpc_seqno=host.rpc_seqno,
        rpc_time=int(host.rpc_at.timestamp()),
        host_cpid=host.host_cpid,
        total_credit=float(host.total_credit),
        expavg_credit=host.expavg_credit,
        expavg_time=average_time(host.expavg_at),
        domain_name=host.domain_name,
        p_ncpus=host.p_ncpus,
        p_vendor=host.p_vendor,
        p_model=host.p_model,
        p_fpops=host.p_fpops,
        p_iops=host.p_iops,
        os_name=host.os_name,
        os_version=host.os_version,
        m_nbytes=host.m_nbytes,
        d_free=host.d_free,
        d_total=host.d_total,
        venue=host.venue,
    )


def average_time(at: datetime | None) -> float:
    """Return the time of a recent average in seconds; 0 without an average."""
    return at.timestamp() if at else 0.0
