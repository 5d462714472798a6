"""Look at hosts; deny, allow, limit and merge them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler.hosts import denials, host_lists, merge_hosts
from scheduler.management.conversation import Answer, Conversation, plural
from scheduler.models import Host, HostAppVersion

_ACTIONS = ("list", "show", "deny", "allow", "limit", "merge")


class Command(Conversation):
    """``host list | show ID | deny ID --reason TEXT | allow ID | limit ID N | merge KEPT OLD``."""

    help = (
        "Look after hosts. list; show ID; deny ID --reason TEXT; allow ID; "
        "limit ID N (0: no limit of its own); merge KEPT OLD."
    )
    refusals: ClassVar[tuple[type[Exception], ...]] = (
        denials.UnknownHost,
        denials.BadLimit,
        merge_hosts.CannotMerge,
    )

    def ask(self, parser: CommandParser) -> None:
        """Ask what to do, and with which hosts."""
        parser.add_argument("action", metavar="ACTION", choices=_ACTIONS, help=", ".join(_ACTIONS))
        parser.add_argument("host_id", metavar="ID", type=int, nargs="?", help="number of a host")
        parser.add_argument("number", metavar="N", type=int, nargs="?", help="limit, or OLD host")
        parser.add_argument("--reason", default="", help="deny: kept, and shown to staff")
        parser.add_argument("--denied", action="store_true", help="list: only those denied")
        parser.add_argument("--account", metavar="EMAIL", default="", help="list: of one account")
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        """Do the one thing that is asked for."""
        action, host_id = options["action"], options["host_id"]
        if action == "list":
            return _list(host_lists.newest(denied=options["denied"], email=options["account"]))
        if host_id is None:
            msg = f"No host is named. Hint: `manage.py host {action} ID`."
            raise CommandError(msg, returncode=2)
        if action in ("limit", "merge") and options["number"] is None:
            msg = f"`host {action}` takes two numbers. Hint: `manage.py host {action} ID N`."
            raise CommandError(msg, returncode=2)
        if action == "deny" and not options["reason"]:
            msg = "It is not said why. Hint: `manage.py host deny ID --reason TEXT`."
            raise CommandError(msg, returncode=2)
        found = host_lists.page(host_id)
        if found is None:
            msg = f"There is no host {host_id}. Hint: `manage.py host list` names them."
            raise CommandError(msg)
        if action == "show":
            return _show(found)
        if options["dry_run"]:
            said = f"Would {action} {found.host}, which holds {plural(found.in_progress, 'result')}"
            return Answer(f"{said}. Nothing was done.", _facts(found.host) | {"dry_run": True})
        return _DO[action](found, options)


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
        "merged_into": host.merged_into_id,
    }


def _list(found: list[Host]) -> Answer:
    if not found:
        return Answer("There is no such host.", {"hosts": []})
    said = [
        f"{host.pk:>7}  {host.domain_name or '-':<24}  {host.platform_name or '-':<24}  "
        f"{host.p_ncpus:>3} CPUs  {host.rpc_at:%Y-%m-%d %H:%M}  {host.account.email}"
        f"{'  denied: ' + (host.deny_reason or 'no reason given') if host.denied else ''}"
        for host in found
    ]
    return Answer("\n".join(said), {"hosts": [_facts(host) for host in found]})


def _show(found: host_lists.HostPage) -> Answer:
    host = found.host
    gpus = host.capabilities.get("gpus", []) if isinstance(host.capabilities, dict) else []
    said = [
        f"Host {host.pk} ({host.domain_name or 'without a name'}) of {host.account.email}",
        (
            f"  {host.p_ncpus} CPUs, {host.p_model or host.p_vendor or 'unknown'}; "
            f"{host.os_name} {host.os_version}; {host.m_nbytes / 2**30:.1f} GiB of memory; "
            f"{plural(len(gpus), 'kind')} of GPU"
        ),
        (
            f"  last contact {host.rpc_at:%Y-%m-%d %H:%M} UTC; credit {host.total_credit:.2f}; "
            f"holds {plural(found.in_progress, 'result')}"
        ),
    ]
    if host.denied:
        said.append(f"  denied: {host.deny_reason or 'no reason given'}")
    if host.max_in_progress is not None:
        said.append(f"  may hold {plural(host.max_in_progress, 'result')}")
    if host.merged_into_id is not None:
        said.append(f"  merged into host {host.merged_into_id}")
    said += [f"  {_record_label(record)}" for record in found.records]
    said.append("  last decisions, newest first:" if found.decisions else "  no decision is kept")
    said += [f"    {line}" for line in found.decisions]
    facts = _facts(host) | {
        "in_progress": found.in_progress,
        "app_versions": [_record_facts(record) for record in found.records],
        "last_decisions": host.last_decisions,
    }
    return Answer("\n".join(said), facts)


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
        f"back after {record.turnaround_avg / 3600:.1f} h on average"
    )


def _deny(found: host_lists.HostPage, options: Mapping[str, Any]) -> Answer:
    denials.deny(found.host.pk, reason=options["reason"], now=timezone.now())
    return Answer(
        f"{found.host} is denied: {options['reason']}. "
        f"The {plural(found.in_progress, 'result')} that it holds will time out.",
        {"id": found.host.pk, "denied": True, "in_progress": found.in_progress},
    )


def _allow(found: host_lists.HostPage, _options: Mapping[str, Any]) -> Answer:
    changed = denials.allow(found.host.pk, now=timezone.now())
    said = "is allowed again" if changed else "was not denied"
    return Answer(f"{found.host} {said}.", {"id": found.host.pk, "denied": False})


def _limit(found: host_lists.HostPage, options: Mapping[str, Any]) -> Answer:
    number = options["number"] or None
    denials.limit(found.host.pk, number, now=timezone.now())
    said = f"may hold {plural(number, 'result')}" if number else "has no limit of its own"
    return Answer(f"{found.host} {said}.", {"id": found.host.pk, "max_in_progress": number})


def _merge(found: host_lists.HostPage, options: Mapping[str, Any]) -> Answer:
    kept = merge_hosts.merge(kept_id=found.host.pk, merged_id=options["number"])
    return Answer(
        f"Host {options['number']} is now {kept}; its client is told so.",
        {"id": kept.pk, "merged": options["number"], "total_credit": str(kept.total_credit)},
    )


_DO: dict[str, Callable[[host_lists.HostPage, Mapping[str, Any]], Answer]] = {
    "deny": _deny,
    "allow": _allow,
    "limit": _limit,
    "merge": _merge,
}
