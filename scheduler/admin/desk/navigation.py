"""Groups the pages of the admin by noun.

Tables that only programs use are in the last group.  The desk's own pages stand after the tables of
their group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

#: Titles of the groups and the names of their models, in the order of the navigation.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Work": ("workunit", "result", "batch", "bundle", "dependency"),
    "Queues": ("queue", "queuebalance", "queueschedule"),
    "Apps": ("app", "appversion", "platform", "planclass"),
    "Hosts": ("host", "hostappversion", "hosttoken"),
    "People": (
        "account",
        "team",
        "teamadministrator",
        "group",
        "submitter",
        "apitoken",
        "invitation",
    ),
    "Credit": (
        *("creditentry", "manualgrant", "accountappcredit", "hostappcredit", "teamappcredit"),
        "batchusage",
    ),
    "Badges": ("badge", "accountbadge", "teambadge"),
    "Troubles": ("sciencefailure", "refusal", "outage", "checkrun", "auditentry"),
    "Messages": ("news", "letter", "letterrecipient", "outboxmessage", "trickleup", "trickledown"),
    "Files": ("file", "filerequest"),
}
#: The title of the group of all other models.
INTERNAL: Final = "Internal tables"


class Page(NamedTuple):
    """A page that is not the list of a model, in the group of its noun."""

    group: str
    title: str
    url: str


def grouped(
    models: Iterable[Mapping[str, Any]], pages: Iterable[Page] = ()
) -> list[dict[str, Any]]:
    """Return Django's descriptions of models as groups, in the form of `AdminSite.get_app_list`.

    The pages of a group follow its models, in the same form.  A group without a visible model or
    page is left out.
    """
    by_name = {str(model["object_name"]).lower(): dict(model) for model in models}
    groups = {
        title: [by_name.pop(name) for name in names if name in by_name]
        for title, names in GROUPS.items()
    }
    groups[INTERNAL] = list(by_name.values())
    for page in pages:
        groups[page.group].append(
            {"name": page.title, "object_name": page.title, "admin_url": page.url, "add_url": None}
        )
    return [
        {
            "name": title,
            "app_label": title.lower().replace(" ", "_"),
            "app_url": "",
            "has_module_perms": True,
            "is_internal": title == INTERNAL,
            "models": members,
        }
        for title, members in groups.items()
        if members
    ]
