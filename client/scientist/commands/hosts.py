"""The commands `host list`, `show` and `limit`."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from scientist.commands.context import Context
from scientist.commands.options import Commands, non_negative
from scientist.display import key_value_table
from scientist.models import HostInfo
from scientist.words import local, nbytes

#: The value that removes a limit.
_NONE = "none"


def describe(commands: Commands) -> None:
    """Add `host` and its three subcommands to the parser."""
    host = commands.group("host", help="list, show and limit hosts")
    listing = host.add("list", list_hosts, help="list hosts, the newest first")
    listing.add_argument("--name", metavar="NAME", help="only hosts with this name")
    show = host.add("show", show_host, help="show a host")
    show.add_argument("host", metavar="HOST", help="the id or name of a host")
    limit = host.add("limit", limit_host, help="limit a host; needs the scope administer")
    limit.add_argument("host", metavar="HOST", help="the id or name of a host")
    text = "maximum number of results in progress, 0 for no new work, or none"
    limit.add_argument("limit", metavar="N", type=_limit, help=text)


def _limit(text: str) -> int | str:
    return text if text == _NONE else non_negative(text)


def list_hosts(context: Context) -> None:
    rows = list(context.project.hosts(name=context.options.name))
    columns = ("id>", "name", "platform", "cpus>", "limit>", "last contact", "")
    context.listing(rows, columns, _row, "There are no hosts.")


def _row(host: HostInfo) -> list[RenderableType]:
    return [
        str(host.id),
        Text(host.name, style="bold"),
        host.platform,
        str(host.ncpus),
        _limit_text(host),
        local(host.last_contact_at) if host.last_contact_at else "",
        Text("denied" if host.denied else "", style="yellow"),
    ]


def _limit_text(host: HostInfo) -> str:
    return _NONE if host.max_in_progress is None else str(host.max_in_progress)


def show_host(context: Context) -> None:
    _answer(context, context.project.host(context.options.host))


def limit_host(context: Context) -> None:
    options = context.options
    limit = None if options.limit == _NONE else options.limit
    _answer(context, context.project.limit_host(options.host, limit))


def _answer(context: Context, host: HostInfo) -> None:
    rows: dict[str, RenderableType | None] = {
        "host": str(host.id),
        "name": Text(host.name, style="bold"),
        "account": str(host.account),
        "platform": host.platform,
        "system": f"{host.os_name} {host.os_version}".strip(),
        "cpus": str(host.ncpus),
        "memory": nbytes(host.memory_nbytes),
        "free disk": nbytes(host.disk_free_nbytes),
        "limit": _limit_text(host),
        "denied": (host.deny_reason or "yes") if host.denied else "no",
        "last contact": local(host.last_contact_at) if host.last_contact_at else "",
    }
    context.answer(host, key_value_table(rows))
