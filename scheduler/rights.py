"""The rights of roles, and the rights that token scopes allow [pure]."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum


class Right(StrEnum):
    """A right that operations check; each value is the codename of a Django permission."""

    SUBMIT_FOR_EVERY_APP = "submit_for_every_app"
    EXCEED_SUBMISSION_LIMITS = "exceed_submission_limits"
    PUBLISH_VERSIONS = "publish_versions"
    MANAGE_APPS = "manage_apps"
    MANAGE_OTHERS_BATCHES = "manage_others_batches"
    VIEW_EVERYTHING = "view_everything"
    ADMINISTER_PROJECT = "administer_project"
    ADMINISTER_HOSTS = "administer_hosts"
    MODERATE_PEOPLE = "moderate_people"
    SEND_LETTERS = "send_letters"
    VIEW_LOGS = "view_logs"


ALL_RIGHTS = frozenset(Right)

#: The rights that a token allows, by scope; a token with several scopes allows the rights of each.
#: No token sends letters or reads log files: both need a log-in to the administration.
#: Other scopes allow no right, because reading and the account's own work require no right.
SCOPE_RIGHTS: Mapping[str, frozenset[Right]] = {
    "submit": frozenset({Right.SUBMIT_FOR_EVERY_APP, Right.EXCEED_SUBMISSION_LIMITS}),
    "publish": frozenset({Right.PUBLISH_VERSIONS}),
    "manage": frozenset({Right.MANAGE_APPS, Right.MANAGE_OTHERS_BATCHES, Right.VIEW_EVERYTHING}),
    "administer": frozenset(
        {
            Right.ADMINISTER_PROJECT,
            Right.ADMINISTER_HOSTS,
            Right.MODERATE_PEOPLE,
            Right.VIEW_EVERYTHING,
        }
    ),
}

#: The scopes of a token, in the order in which they are shown.
SCOPES = ("read", "submit", "publish", "manage", "administer")
#: Scopes that every account may give a token: they give access to its own rows only.
OWN_SCOPES = frozenset({"read", "submit"})
#: Scopes that the manager of an app may give a token, for that app.
APP_MANAGER_SCOPES = frozenset({"publish", "manage"})
#: The rights of which an account needs at least one to give a token the scope.
_GIVES_SCOPE: Mapping[str, frozenset[Right]] = {
    "publish": frozenset({Right.PUBLISH_VERSIONS}),
    "manage": frozenset({Right.MANAGE_APPS, Right.MANAGE_OTHERS_BATCHES}),
    "administer": frozenset({Right.ADMINISTER_PROJECT, Right.VIEW_EVERYTHING}),
}


def let_through(rights: Collection[Right], scopes: Collection[str]) -> frozenset[Right]:
    """Return the rights of an account that acts through a token with these scopes.

    >>> sorted(let_through({Right.PUBLISH_VERSIONS, Right.MANAGE_APPS}, ["read", "manage"]))
    [<Right.MANAGE_APPS: 'manage_apps'>]
    """
    none: frozenset[Right] = frozenset()
    allowed = none.union(*(SCOPE_RIGHTS.get(scope, none) for scope in scopes))
    return frozenset(rights) & allowed


def allowed_scopes(rights: Collection[Right], *, manages_app: bool) -> list[str]:
    """Return the scopes that an account with these rights may give a token.

    >>> allowed_scopes([], manages_app=False)
    ['read', 'submit']
    >>> allowed_scopes([Right.VIEW_EVERYTHING], manages_app=True)
    ['read', 'submit', 'publish', 'manage', 'administer']
    """
    return [
        scope
        for scope in SCOPES
        if scope in OWN_SCOPES
        or (manages_app and scope in APP_MANAGER_SCOPES)
        or not _GIVES_SCOPE[scope].isdisjoint(rights)
    ]


#: Models of apps, work and hosts, which operators and read-only staff may view in the admin.
_SCIENCE = (
    "accountappcredit",
    "accountbadge",
    "alertstate",
    "app",
    "appversion",
    "appversionfile",
    "badge",
    "batch",
    "batchusage",
    "checkrun",
    "creditentry",
    "file",
    "filehold",
    "filerequest",
    "heartbeat",
    "host",
    "hostappversion",
    "jobfile",
    "ledgerentry",
    "manualgrant",
    "outage",
    "planclass",
    "platform",
    "purgedresults",
    "purgedworkunits",
    "queue",
    "queueschedule",
    "queueslot",
    "refusal",
    "result",
    "resultfile",
    "sciencefailure",
    "teambadge",
    "trickledown",
    "trickleup",
    "usagesample",
    "workunit",
    "workunitfile",
)
_PEOPLE = ("account", "team")
_SUBMITTERS = ("submitter", "submitterapp")


def _may(verbs: str, *models: str) -> frozenset[str]:
    return frozenset(f"{verb}_{model}" for model in models for verb in verbs.split())


#: The codenames of the permissions of each role: rights (`Right`), and Django's permissions for the
#: pages of the admin.  A change in the admin requires both.
ROLES: Mapping[str, frozenset[str]] = {
    "submitter": frozenset({Right.SUBMIT_FOR_EVERY_APP.value}),
    "publisher": frozenset({Right.PUBLISH_VERSIONS.value, Right.MANAGE_APPS.value})
    | _may("view", "app", "appversion", "appversionfile", "planclass", "platform", "file")
    | _may("add change", "app", "planclass", "platform")
    | _may("add change", "appversion"),
    "operator": frozenset(
        {
            Right.SUBMIT_FOR_EVERY_APP.value,
            Right.EXCEED_SUBMISSION_LIMITS.value,
            Right.MANAGE_APPS.value,
            Right.MANAGE_OTHERS_BATCHES.value,
            Right.VIEW_EVERYTHING.value,
            Right.ADMINISTER_PROJECT.value,
            Right.ADMINISTER_HOSTS.value,
            Right.SEND_LETTERS.value,
        }
    )
    | _may("view", *_SCIENCE, *_PEOPLE, *_SUBMITTERS, "apitoken", "idempotencykey", "accountkey")
    | _may("view", "auditentry", "outboxmessage", "teamadministrator")
    | _may("add change", "app", "planclass", "platform", "queue", "submitter", "submitterapp")
    | _may("view add change", "news", "letter")
    | _may("view", "letterrecipient")
    | _may("add delete", "badge", "accountbadge", "teambadge")
    | _may("change", "badge")
    | _may("add", "outage")
    | _may("change", "workunit", "batch", "host", "sciencefailure", "apitoken")
    | _may("delete", "submitterapp"),
    "moderator": frozenset({Right.MODERATE_PEOPLE.value, Right.ADMINISTER_HOSTS.value})
    | _may("view", *_PEOPLE, "teamadministrator", "host", "hostappversion")
    | _may("view", "creditentry", "manualgrant", "accountappcredit")
    | _may("add change", *_PEOPLE)
    | _may("change", "host"),
    "read-only": frozenset({Right.VIEW_EVERYTHING.value})
    | _may("view", *_SCIENCE, *_PEOPLE, *_SUBMITTERS, "teamadministrator", "news"),
}

#: The group of accounts that were staff, but not superusers, before roles existed.  Over the API,
#: any of their tokens allowed the rights below.  Publishing is left out on purpose.
FORMER_STAFF = "staff before roles"
FORMER_STAFF_RIGHTS = frozenset(
    {
        Right.SUBMIT_FOR_EVERY_APP.value,
        Right.EXCEED_SUBMISSION_LIMITS.value,
        Right.MANAGE_APPS.value,
        Right.MANAGE_OTHERS_BATCHES.value,
        Right.VIEW_EVERYTHING.value,
        Right.ADMINISTER_PROJECT.value,
    }
)
