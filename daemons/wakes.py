"""Defines which daemons are woken after a pass of another daemon [pure]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemons.tally import Tally

_TRANSITIONER: Final = ("transitioner",)

#: The daemons to wake, by the daemon that ran a pass and by each count of its tally that is not 0.
#: Work that becomes due later (purging, archiving) is found by polling.
WAKES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "work_generator": {"workunits submitted": _TRANSITIONER},
    "transitioner": {
        "ready to validate": ("validator",),
        "ready to assimilate": ("assimilator",),
        "with files to delete": ("file_deleter",),
        # A reopened workunit is looked at again, without verdicts.
        "to be validated again": _TRANSITIONER,
        # The files of an ended group are looked at, and the workunits that wait for it.
        "groups ended": _TRANSITIONER,
        # Workunits that wait for an ended workunit are looked at.
        "with dependents woken": _TRANSITIONER,
    },
    "timeout_checker": {
        "timed out": _TRANSITIONER,
        "never acknowledged": _TRANSITIONER,
        "workunits expired": _TRANSITIONER,
        "workunits due": _TRANSITIONER,
        "workunits unsendable": _TRANSITIONER,
    },
    "validator": {
        "with a canonical result": _TRANSITIONER,
        "inconclusive": _TRANSITIONER,
        "results valid": _TRANSITIONER,
        "results invalid": _TRANSITIONER,
        "looked at in vain": _TRANSITIONER,
    },
    "assimilator": {"assimilated": _TRANSITIONER},
}


def woken_by(daemon: str, tally: Tally) -> tuple[str, ...]:
    """Return the names of the daemons for which a pass of `daemon` created work."""
    wakes = WAKES.get(daemon, {})
    return tuple(sorted({name for what in tally.done for name in wakes.get(what, ())}))
