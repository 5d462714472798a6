"""Lists, shows, denies, allows, limits and merges hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.hosts import denials, host_lists, merge_hosts
from scheduler.management.base import Answer, JsonCommand, plural, require
from scheduler.models import Host, HostAppVersion

#: Numbers of up to 9 digits fit PostgreSQL's integer.
_MAX_DIGITS = 9
#: The word for the usual limit.
_NO_LIMIT = "none"
_ACTIONS = ("list", "show", "deny", "allow", "limit", "merge")


class Command(JsonCommand):
    """``host list | show ID | deny ID --reason TEXT | allow ID | limit ID N | merge KEPT OLD``."""

    help = (
        "Manage hosts. list; show ID; deny ID --reason TEXT; allow ID; "
        "limit ID N (0: no new work, none: the usual limit); merge KEPT OLD."
    )
    refusals = (denials.UnknownHost, denials.BadLimit, merge_hosts.CannotMerge)

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, _ACTIONS)
        parser.add_argument("host_id", metavar="ID", type=int, nargs="?", help="id of a host")
        text = "limit: a number or the word none; merge: the id of OLD"
        parser.add_argument("number", metavar="N", nargs="?", help=text)
        parser.add_argument("--reason", default="", help="deny: stored, and shown to staff")
        parser.add_argument("--denied", action="store_true", help="list: only denied hosts")
        parser.add_argument(
            "--account", metavar="EMAIL", default="", help="list: only hosts of this account"
        )
        parser.add_argument("--dry-run", action="store_true", help="only print what would be done")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        action, host_id = options["action"], options["host_id"]
        if action == "list":
            return _list(host_lists.newest(denied=options["denied"], email=options["account"]))
        require(host_id is not None, f"No host is named. Hint: `manage.py host {action} ID`.")
        require(
            options["number"] is not None or action not in ("limit", "merge"),
            f"`host {action}` takes two numbers. Hint: `manage.py host {action} ID N`.",
        )
        number = options["number"]
        require(
            number is None or _is_number(str(number)) or (action, number) == ("limit", _NO_LIMIT),
            f"{number!r} is not a number. Hint: give a whole number; `limit ID none` sets the "
            "usual limit.",
        )
        require(
            options["reason"] or action != "deny",
            "The reason is missing. Hint: `manage.py host deny ID --reason TEXT`.",
        )
        page = host_lists.page(host_id)
        if page is None:
            msg = f"There is no host {host_id}. Hint: `manage.py host list` lists the hosts."
            raise CommandError(msg)
        if action == "show":
            return _show(page)
        if options["dry_run"]:
            text = f"Would {action} {page.host}, which holds {plural(page.in_progress, 'result')}"
            return Answer(f"{text}. Nothing was done.", _facts(page.host) | {"dry_run": True})
        return _DO[action](page, options)


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS


def _facts(host: Host) -> dict[str, Any]:
    return {
        "id": host.pk,
        "name": host.domain_name,
        "account": host.account.email,
        "platform": host.platform_name,
        "ncpus": host.p_ncpus,
        "last_contact": host.rpc_at.isoformat(),
        "total_credit": str(host.total_credit),
        "denied": host.denied,
        "deny_reason": host.deny_reason,
        "max_in_progress": host.max_in_progress,
        "merged_into": None if host.is_deleted else host.merged_into_id,
        "deleted": host.is_deleted,
    }


def _list(hosts: list[Host]) -> Answer:
    lines = [
        f"{host.pk:>7}  {host.domain_name or '-':<24}  {host.platform_name or '-':<24}  "
        f"{host.p_ncpus:>3} CPUs  {host.rpc_at:%Y-%m-%d %H:%M}  {host.account.email}"
        f"{'  denied: ' + (host.deny_reason or 'no reason given') if host.denied else ''}"
        for host in hosts
    ]
    facts = {"hosts": [_facts(host) for host in hosts]}
    return Answer("\n".join(lines) or "There is no such host.", facts)


def _show(page: host_lists.HostPage) -> Answer:
    host = page.host
    gpus = host.capabilities.get("gpus", []) if isinstance(host.capabilities, dict) else []
    lines = [
        f"Host {host.pk} ({host.domain_name or 'without a name'}) of {host.account.email}",
        (
            f"  {host.p_ncpus} CPUs, {host.p_model or host.p_vendor or 'unknown'}; "
            f"{host.os_name} {host.os_version}; {host.m_nbytes / 2**30:.1f} GiB of memory; "
            f"{plural(len(gpus), 'kind')} of GPU"
        ),
        (
            f"  last contact {host.rpc_at:%Y-%m-%d %H:%M} UTC; credit {host.total_credit:.2f}; "
            f"holds {plural(page.in_progress, 'result')}"
        ),
    ]
    if host.denied:
        lines.append(f"  denied: {host.deny_reason or 'no reason given'}")
    if host.max_in_progress is not None:
        lines.append(f"  may hold {plural(host.max_in_progress, 'result')}")
    if host.is_deleted:
        lines.append("  deleted by its owner")
    elif host.merged_into_id is not None:
        lines.append(f"  merged into host {host.merged_into_id}")
    lines += [f"  {_record_label(record)}" for record in page.records]
    lines.append("  last decisions, newest first:" if page.decisions else "  no decisions stored")
    lines += [f"    {line}" for line in page.decisions]
    facts = _facts(host) | {
        "in_progress": page.in_progress,
        "app_versions": [_record_facts(record) for record in page.records],
        "last_decisions": host.last_decisions,
    }
    return Answer("\n".join(lines), facts)


def _record_facts(record: HostAppVersion) -> dict[str, Any]:
    return {
        "app_version": str(record.app_version),
        "n_valid": record.n_valid,
        "consecutive_valid": record.consecutive_valid,
        "max_results_per_day": record.max_results_per_day,
        "results_today": record.results_today,
        "quota_day": record.quota_day and record.quota_day.isoformat(),
        "turnaround_seconds": record.turnaround_avg,
    }


def _record_label(record: HostAppVersion) -> str:
    quota = f", of {record.max_results_per_day}" if record.max_results_per_day else ""
    return (
        f"{record.app_version}: {record.n_valid} valid, {record.consecutive_valid} in a row; "
        f"{record.results_today} sent today{quota}; "
        f"reported after {record.turnaround_avg / 3600:.1f} h on average"
    )


def _deny(page: host_lists.HostPage, options: Mapping[str, Any]) -> Answer:
    denials.deny(page.host.pk, reason=options["reason"], now=timezone.now())
    return Answer(
        f"{page.host} is denied: {options['reason']}. "
        f"The {plural(page.in_progress, 'result')} that it holds will time out.",
        {"id": page.host.pk, "denied": True, "in_progress": page.in_progress},
    )


def _allow(page: host_lists.HostPage, _options: Mapping[str, Any]) -> Answer:
    changed = denials.allow(page.host.pk, now=timezone.now())
    outcome = "is allowed again" if changed else "was not denied"
    return Answer(f"{page.host} {outcome}.", {"id": page.host.pk, "denied": False})


def _limit(page: host_lists.HostPage, options: Mapping[str, Any]) -> Answer:
    number = None if options["number"] == _NO_LIMIT else int(options["number"])
    denials.limit(page.host.pk, number, now=timezone.now())
    limit = "has the usual limit" if number is None else f"may hold {plural(number, 'result')}"
    return Answer(f"{page.host} {limit}.", {"id": page.host.pk, "max_in_progress": number})


def _merge(page: host_lists.HostPage, options: Mapping[str, Any]) -> Answer:
    merged_id = int(options["number"])
    kept = merge_hosts.merge(kept_id=page.host.pk, merged_id=merged_id)
    return Answer(
        f"Host {merged_id} was merged into {kept}; its client gets the new id.",
        {"id": kept.pk, "merged": merged_id, "total_credit": str(kept.total_credit)},
    )


_DO = {"deny": _deny, "allow": _allow, "limit": _limit, "merge": _merge}
