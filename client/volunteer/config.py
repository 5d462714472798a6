"""Every option of the client, its default and its meaning [pure]."""

from __future__ import annotations

from dataclasses import dataclass

MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Rules:
    """How the client behaves; durations in seconds."""

    #: How many processors results may use at once.
    slots: int = 1
    #: How much work to keep in store, in seconds of each slot.
    buffer_seconds: float = 0.1 * DAY
    #: Factor of every waiting time after a failure; below 1 for demonstrations and tests.
    backoff_scale: float = 1.0
    #: Least time between two contacts with a project; a longer request_delay of its own wins.
    poll_seconds: float = 5.0
    #: Report within seconds of the end of a result, not within an hour.
    report_immediately: bool = True
    #: One contact that asks for work, then only what is needed to finish it.
    once: bool = False
    #: Take part as one of several clients on this computer, each a host of its own.
    allow_multiple_clients: bool = False
    #: Whether the volunteer chose the slots and the buffer; those of preferences do not count then.
    has_own_slots: bool = False
    has_own_buffer: bool = False
    #: Let the computing preferences that projects send have no effect.
    ignores_preferences: bool = False
    #: Alter one byte of the first output, to show that validation finds it.
    falsify: bool = False

    #: How long finished results wait for others to be reported with.
    report_wait: float = 3.0
    slow_report_wait: float = HOUR
    report_at_most: int = 64
    downloads_per_project: int = 2
    transfers_at_most: int = 8
    give_up_transfers_after: float = 90 * DAY
    restarts_at_most: int = 100
    #: Shorter time limits are a project's mistake; BOINC raises them to twelve hours.
    least_time_limit: float = 120.0
    raised_time_limit: float = 12 * HOUR

    def rpc_backoff(self, failures: int, chance: float) -> float:
        """Seconds to wait after so many failed contacts (PROTOCOL 2.7).

        >>> Rules().rpc_backoff(1, 1.0), Rules(backoff_scale=0.01).rpc_backoff(20, 1.0)
        (60.0, 144.0)
        """
        longest = min(4 * HOUR, MINUTE * 2.0 ** min(failures - 1, 10))
        return longest * (0.5 + chance / 2) * self.backoff_scale

    def transfer_backoff(self, failures: int, chance: float) -> float:
        """Seconds to wait after so many failed tries of one file (PROTOCOL 3.1).

        >>> Rules().transfer_backoff(1, 0.0), Rules().transfer_backoff(1, 1.0)
        (120.0, 240.0)
        """
        longest = min(6 * HOUR, 2 * MINUTE * 2.0 ** min(failures, 10))
        return longest * (0.5 + chance / 2) * self.backoff_scale

    def work_backoff(self, failures: int, chance: float) -> float:
        """Seconds without a wish for work after so many empty answers (PROTOCOL 2.7).

        >>> Rules().work_backoff(1, 1.0), Rules().work_backoff(99, 1.0) == DAY
        (600.0, True)
        """
        longest = min(DAY, 10 * MINUTE * 2.0 ** min(failures - 1, 10))
        return longest * (0.5 + chance / 2) * self.backoff_scale

    def time_limit(self, fpops_bound: float, flops: float) -> float:
        """Seconds that a result may run (PROTOCOL 5.4).

        >>> Rules().time_limit(125e9, 1e9), Rules().time_limit(8e9, 1e9)
        (125.0, 43200.0)
        """
        limit = fpops_bound / max(flops, 1.0)
        return limit if limit >= self.least_time_limit else self.raised_time_limit
