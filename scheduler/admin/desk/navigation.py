"""Groups the pages of the admin by noun.

Tables that only programs use are in the last group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

#: Titles of the groups and the names of their models, in the order of the navigation.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Work": ("workunit", "result", "batch", "bundle", "dependency"),
    "Queues": ("queue", "queuebalance", "queueschedule"),
    "Apps": ("app", "appversion", "platform", "planclass"),
    "Hosts": ("host", "hostappversion", "hosttoken"),
    "People": ("account", "team", "group", "submitter", "apitoken", "invitation"),
    "Credit": ("creditentry", "manualgrant", "accountappcredit", "batchusage"),
    "Badges": ("badge", "accountbadge", "teambadge"),
    "Troubles": ("sciencefailure", "refusal", "outage", "auditentry"),
    "Messages": ("news", "outboxmessage", "trickleup", "trickledown"),
    "Files": ("file", "filerequest"),
}
#: The title of the group of all other models.
INTERNAL: Final = "Internal tables"


def grouped(models: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return Django's descriptions of models as groups, in the form of `AdminSite.get_app_list`.

    A group without a visible model is left out.
    """
    by_name = {str(model["object_name"]).lower(): dict(model) for model in models}
    groups = {
        title: [by_name.pop(name) for name in names if name in by_name]
        for title, names in GROUPS.items()
    }
    groups[INTERNAL] = list(by_name.values())
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
