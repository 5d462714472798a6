"""Computes and ranks error rates of app versions, platforms and hosts [pure]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: The number of successful results that a rank adds, so that one error of one result does not
#: outrank fifty errors of a hundred.
DOUBT: Final = 10


@dataclass(frozen=True, slots=True)
class Rate:
    """The numbers of reported, failed and invalid results; `name` and `url` describe their source.

    An invalid result may have been reported before the period, so `failed` can exceed `reported`.
    """

    name: str
    reported: int = 0
    errors: int = 0
    invalid: int = 0
    url: str = ""
    detail: str = ""

    @property
    def failed(self) -> int:
        return self.errors + self.invalid

    @property
    def percent(self) -> float:
        """The failed results in percent of the reported ones, at most 100.

        >>> Rate("a", 40, 3, 1).percent
        10.0
        """
        return min(100.0, 100 * self.failed / max(1, self.reported))

    @property
    def rank(self) -> float:
        """The share of failed results, lower for few results."""
        return self.failed / (self.reported + DOUBT)


def exceeds(rate: Rate, *, max_error_percent: int, min_results: int) -> bool:
    """Return whether a version is rolled back: its rate is above the limit.

    Returns False with fewer than `min_results` reported results.
    """
    return rate.reported >= min_results and rate.percent > max_error_percent
