"""Scores how well a result suits a host and its volunteer.

The score is the result's priority plus small bonuses and penalties (source: BOINC's score-based
scheduling); None means that the volunteer refuses the result.  Each rule is one function.

This module uses no database, files or clock.
"""

from __future__ import annotations

from typing import Final

from scheduler.dispatch.facts import AppFacts, Candidate, HostFacts, Taste
from scheduler.dispatch.rules import size_classes

_BETA: Final = 1.0
_NOT_SELECTED: Final = -1.0
_IS_NEAR: Final = 10.0
_SIZE_SUITS: Final = 5.0
_TOO_LARGE: Final = -2.0
_TOO_SMALL: Final = -1.0

#: Messages to volunteers, in BOINC's words if it has the same rule.
NOT_SELECTED: Final = "No tasks are available for the applications you have selected."
NO_BETA: Final = "Your preferences do not allow test applications."
DISLIKED: Final = "Your keyword preferences exclude these tasks."


def score(
    candidate: Candidate, *, app: AppFacts, host: HostFacts, speed: float = 0.0
) -> float | None:
    """Return the candidate's score for the host; None if the volunteer refuses it.

    `speed` is the host's speed with the app's best version, in operations per second; if it is 0
    (unknown), the benchmark is used.
    """
    taste = host.taste
    if why_unwanted(candidate, app=app, taste=taste):
        return None
    effective = size_classes.effective_speed(speed or host.fpops, host.active_fraction)
    return (
        candidate.priority
        + beta_score(app)
        + selection_score(app, taste)
        + locality_score(candidate, app)
        + size_score(candidate, app, effective)
        + keyword_score(candidate, taste)
    )


def why_unwanted(candidate: Candidate, *, app: AppFacts, taste: Taste) -> str:
    """Return why the volunteer refuses the candidate, or "" if the volunteer accepts it."""
    if refuses_beta(app, taste):
        return NO_BETA
    if refuses_app(app, taste):
        return NOT_SELECTED
    if refuses_keywords(candidate, taste):
        return DISLIKED
    return ""


def refuses_beta(app: AppFacts, taste: Taste) -> bool:
    """Return True if the app is in beta and the volunteer does not allow beta apps."""
    return app.beta and not taste.allow_beta


def refuses_app(app: AppFacts, taste: Taste) -> bool:
    """Return True if the volunteer selected other apps and does not allow further ones."""
    return _not_selected(app, taste) and not taste.allow_other_apps


def refuses_keywords(candidate: Candidate, taste: Taste) -> bool:
    """Return True if the workunit has a keyword that the volunteer dislikes."""
    return bool(taste.dislikes) and not taste.dislikes.isdisjoint(keyword_ids(candidate.keywords))


def beta_score(app: AppFacts) -> float:
    """Return a bonus for beta apps, because few hosts accept them."""
    return _BETA if app.beta else 0.0


def selection_score(app: AppFacts, taste: Taste) -> float:
    """Return a penalty for apps that the volunteer did not select."""
    return _NOT_SELECTED if _not_selected(app, taste) else 0.0


def locality_score(candidate: Candidate, app: AppFacts) -> float:
    """Return a bonus if the host has some of the input files and the app has `locality`."""
    return _IS_NEAR if app.locality and candidate.is_near else 0.0


def size_score(candidate: Candidate, app: AppFacts, speed: float) -> float:
    """Return a bonus if the workunit's size class suits a host of this speed, else a penalty.

    The penalty for a class that is too large is greater than for one that is too small.
    """
    if app.n_size_classes <= 1 or not app.size_bounds or candidate.size_class < 0:
        return 0.0
    suits = size_classes.size_class(speed, app.size_bounds)
    if suits == candidate.size_class:
        return _SIZE_SUITS
    return _TOO_LARGE if candidate.size_class > suits else _TOO_SMALL


def keyword_score(candidate: Candidate, taste: Taste) -> float:
    """Return the number of the workunit's keywords that the volunteer likes."""
    return float(len(taste.likes & keyword_ids(candidate.keywords))) if taste.likes else 0.0


def keyword_ids(keywords: str) -> frozenset[int]:
    """Return the ids in a workunit's keywords, which are separated by blanks or commas.

    >>> sorted(keyword_ids("12, 7  x 12"))
    [7, 12]
    """
    words = keywords.replace(",", " ").split()
    return frozenset(int(word) for word in words if word.isascii() and word.isdecimal())


def _not_selected(app: AppFacts, taste: Taste) -> bool:
    return bool(taste.selected_apps) and app.id not in taste.selected_apps
