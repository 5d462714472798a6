"""Defines the options and limits of the client, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass

MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Rules:
    """The options and limits of the client. Durations are in seconds."""

    #: The number of processors that results may use at the same time.
    slots: int = 1
    #: The amount of work to keep in store, in seconds per slot.
    buffer_seconds: float = 0.1 * DAY
    #: The sum of the memory limits of results that run at the same time, in bytes. 0: no limit.
    memory_bytes: float = 0.0
    #: Seconds between two messages on the progress and usage of running programs. 0 sends none.
    usage_seconds: float = 0.0
    #: Factor of every waiting time after failures and replies without work. Demonstrations and
    #: tests set it below 1.
    backoff_scale: float = 1.0
    #: Run as a worker of a trusted pool: the three sleeps replace the delays of projects.
    pool: bool = False
    #: In a pool, claim one available result at a time.
    claims: bool = False
    #: Seconds until the next request for work in a pool: after a success, after a failure, and
    #: when there was nothing to claim.
    sleep_after_success: float = 0.1
    sleep_after_failure: float = 0.5
    sleep_after_no_process_claimed: float = 2.0
    #: In a pool, the maximum delay of the contact that acknowledges received results. The server
    #: gives up results that their host has not acknowledged within 300 seconds.
    acknowledge_seconds: float = 60.0
    #: Templates of the names of files that get the stdout and stderr of programs (`workers`).
    stdout_name: str = ""
    stderr_name: str = ""
    #: Minimum time between two contacts with a project: the duration of a round. A longer
    #: request_delay has precedence.
    poll_seconds: float = 5.0
    #: Report a finished result within seconds instead of within an hour.
    report_immediately: bool = True
    #: Request work once, then only contact the project to finish and report it.
    once: bool = False
    #: Run as one of several clients on this computer. Each of them is a separate host.
    allow_multiple_clients: bool = False
    #: Whether the options set the slots or the buffer, which then override the preferences.
    has_own_slots: bool = False
    has_own_buffer: bool = False
    #: Names of the only queues of which work is accepted; empty means all work.
    active_queues: tuple[str, ...] = ()
    #: Names of queues of which no work is accepted; no effect beside `active_queues`.
    ignored_queues: tuple[str, ...] = ()
    #: Ignore the computing preferences that projects send.
    ignores_preferences: bool = False
    #: Change one byte of the first output, to show that validation detects it.
    falsify: bool = False

    #: The maximum delay of a report, so that one request reports several finished results.
    report_wait: float = 3.0
    #: Without `report_immediately`, results are reported after this delay, or as soon as
    #: `report_batch_size` results are finished.
    slow_report_wait: float = HOUR
    report_batch_size: int = 64
    downloads_per_project: int = 2
    max_transfers: int = 8
    give_up_transfers_after: float = 90 * DAY
    max_restarts: int = 100
    #: A lower time limit is an error of the project, and is raised to twelve hours as in BOINC.
    min_time_limit: float = 120.0
    raised_time_limit: float = 12 * HOUR

    def contact_delay(self, request_delay: float) -> float:
        """Return the seconds until the next contact after a reply.

        `request_delay` is the delay that the project requests; in a pool it has no effect.

        >>> Rules().contact_delay(7.0), Rules(pool=True).contact_delay(7.0)
        (7.0, 0.1)
        """
        return self.sleep_after_success if self.pool else max(request_delay, self.poll_seconds)

    def rpc_backoff(self, failures: int, chance: float) -> float:
        """Return the seconds to wait after `failures` consecutive failed contacts (PROTOCOL 2.7).

        `chance` is a random number from 0 to 1.

        >>> Rules().rpc_backoff(1, 1.0), Rules(backoff_scale=0.01).rpc_backoff(20, 1.0)
        (60.0, 144.0)
        """
        max_wait = min(4 * HOUR, MINUTE * 2.0 ** min(failures - 1, 10))
        return max_wait * (0.5 + chance / 2) * self.backoff_scale

    def transfer_backoff(self, failures: int, chance: float) -> float:
        """Return the seconds to wait after `failures` failed transfers of a file (PROTOCOL 3.1).

        `chance` is a random number from 0 to 1.

        >>> Rules().transfer_backoff(1, 0.0), Rules().transfer_backoff(1, 1.0)
        (120.0, 240.0)
        """
        max_wait = min(6 * HOUR, 2 * MINUTE * 2.0 ** min(failures, 10))
        return max_wait * (0.5 + chance / 2) * self.backoff_scale

    def work_backoff(self, failures: int, chance: float) -> float:
        """Return the seconds to wait after `failures` replies without work (PROTOCOL 2.7).

        `chance` is a random number from 0 to 1.

        >>> Rules().work_backoff(1, 1.0), Rules().work_backoff(99, 1.0) == DAY
        (600.0, True)
        """
        max_wait = min(DAY, 10 * MINUTE * 2.0 ** min(failures - 1, 10))
        return max_wait * (0.5 + chance / 2) * self.backoff_scale

    def time_limit(self, fpops_bound: float, flops: float) -> float:
        """Return the maximum run time of a result in seconds (PROTOCOL 5.4).

        `fpops_bound` is a number of operations, and `flops` is the speed of the app version in
        operations/s.

        >>> Rules().time_limit(125e9, 1e9), Rules().time_limit(8e9, 1e9)
        (125.0, 43200.0)
        """
        limit = fpops_bound / max(flops, 1.0)
        return limit if limit >= self.min_time_limit else self.raised_time_limit
