"""The exceptions for refused changes of teams."""

from __future__ import annotations


class TeamRefused(ValueError):
    """A change of a team is refused. Hint: see the message."""

    error_num = -1


class UnknownTeam(TeamRefused):
    """No team has this id. Hint: look the team up by its name."""

    error_num = -136


class NotMember(TeamRefused):
    """The account is no active member or administrator. Hint: list the members of the team."""

    error_num = -136


class NotFounder(TeamRefused):
    """Only the founder, or also the administrators, may do this. Hint: ask the founder."""


class InactiveAccount(TeamRefused):
    """The account was blocked or erased at the same moment. Hint: ask the project."""


class TakenName(TeamRefused):
    """Another team has this name. Hint: choose another name."""


class SuccessorChanged(TeamRefused):
    """The members of a founder's team changed during the erasure. Hint: try again."""
