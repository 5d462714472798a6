"""The commands `bundle list`, `show` and `create` for task lists."""

from __future__ import annotations

import itertools

from rich.console import RenderableType
from rich.text import Text

from scientist.commands.context import Context
from scientist.commands.options import Commands, positive
from scientist.display import key_value_table
from scientist.models import BundleInfo
from scientist.words import local

STATES = ("open", "running", "closed")
_DEFAULT_LIMIT = 100


def describe(commands: Commands) -> None:
    """Add `bundle` and its three subcommands to the parser."""
    bundle = commands.group("bundle", help="list, show and create task lists")
    listing = bundle.add("list", list_bundles, help="list task lists, the newest first")
    listing.add_argument("batch", metavar="BATCH", nargs="?", help="only lists of this batch")
    listing.add_argument("--state", choices=STATES, help="only lists in this state")
    text = f"at most N lists (default {_DEFAULT_LIMIT})"
    listing.add_argument("--limit", type=positive, default=_DEFAULT_LIMIT, metavar="N", help=text)
    show = bundle.add("show", show_bundle, help="show a task list with its workunits")
    show.add_argument("bundle", metavar="ID", type=positive)
    text = "make a task list of workunits that no host computes"
    create = bundle.add("create", create_bundle, help=text)
    create.add_argument("batch", metavar="BATCH", help="id or name of their batch")
    text = "names of the workunits, at most 1000"
    create.add_argument("workunits", metavar="WORKUNIT", nargs="+", help=text)
    create.set_defaults(extra_names_target="workunits")


def list_bundles(context: Context) -> None:
    options = context.options
    batch = None if options.batch is None else context.batch(options.batch)
    rows = context.project.bundles(batch=batch, state=options.state)
    columns = ("id>", "batch>", "state", "label", "host>", "started", "finished", "claims>")
    empty = "There are no task lists. Hint: scientist submit --bundle-size N sends work in lists."
    context.listing(list(itertools.islice(rows, options.limit)), columns, _row, empty)


def _row(bundle: BundleInfo) -> list[RenderableType]:
    return [
        str(bundle.id),
        str(bundle.batch),
        bundle.state,
        bundle.label,
        "" if bundle.host is None else str(bundle.host),
        local(bundle.started_at) if bundle.started_at else "",
        local(bundle.finished_at) if bundle.finished_at else "",
        str(bundle.claims),
    ]


def show_bundle(context: Context) -> None:
    _answer(context, context.project.bundle(context.options.bundle))


def create_bundle(context: Context) -> None:
    """Make a task list and show it.  Raises NotFoundError if there is no such batch."""
    batch = context.batch(context.options.batch)
    _answer(context, context.project.create_bundle(batch, context.options.workunits))


def _answer(context: Context, bundle: BundleInfo) -> None:
    rows: dict[str, RenderableType | None] = {
        "task list": Text(str(bundle.id), style="bold"),
        "batch": str(bundle.batch),
        "state": bundle.state,
        "label": bundle.label,
        "can be claimed": "yes" if bundle.is_ready else "no",
        "host": "" if bundle.host is None else str(bundle.host),
        "lease until": local(bundle.lease_until) if bundle.lease_until else "",
        "workunits": "\n".join(
            f"{member['name']}  {member['phase']}" for member in bundle.workunits
        ),
    }
    context.answer(bundle, key_value_table(rows))
