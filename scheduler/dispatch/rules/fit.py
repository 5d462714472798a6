"""Checks whether an unsent result fits a host, else returns a refusal.

Sources: PROTOCOL 10.2 to 10.5 and 9.8.  Each rule is one function.  The rules are checked in
BOINC's order; messages that volunteers know from BOINC have its wording.

This module uses no database, files or clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from scheduler.dispatch.facts import KIND, AppFacts, Assignment, Candidate, HostFacts, VersionFacts
from scheduler.dispatch.rules import estimates, trust
from scheduler.dispatch.rules.host_limits import Headroom
from scheduler.queues.facts import QueueFacts
from scheduler.queues.rules import serving
from scheduler.queues.rules.serving import Closed

#: The `device` of requests for non-CPU-intensive apps, of which a host holds one result each.
SENSOR = "sensor"


class RefusalReason(StrEnum):
    """The reason why a candidate does not fit this host."""

    TASTE = "taste"
    NO_VERSION = "no_version"
    OWN_VERSION = "own_version"
    PLAN_CLASS = "plan_class"
    DEVICE = "device"
    COMMITTED = "committed"
    ROLLOUT = "rollout"
    UNKNOWN_CLASS = "unknown_class"
    QUOTA = "quota"
    CPUS = "cpus"
    GPUS = "gpus"
    MEMORY = "memory"
    DISK = "disk"
    DISK_TAKEN = "disk_taken"
    BANDWIDTH = "bandwidth"
    DEADLINE = "deadline"
    RESERVED = "reserved"
    IN_PROGRESS_LIMIT = "in_progress_limit"
    OUTPUT_LIMIT = "output_limit"
    QUEUE_STOPPED = "queue_stopped"
    QUEUE_DISABLED = "queue_disabled"
    QUEUE_HOSTS = "queue_hosts"
    QUEUE_FULL = "queue_full"
    QUEUE_UNWANTED = "queue_unwanted"


#: Refusals that do not pass with time.  A result with enough of these is given up as unsendable.
LASTING = frozenset(
    {
        RefusalReason.NO_VERSION,
        RefusalReason.PLAN_CLASS,
        RefusalReason.COMMITTED,
        RefusalReason.UNKNOWN_CLASS,
        RefusalReason.CPUS,
        RefusalReason.GPUS,
        RefusalReason.MEMORY,
        RefusalReason.DISK,
        RefusalReason.BANDWIDTH,
    }
)

Refused = tuple[RefusalReason, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The inputs of `Judge`, except the host and its work requests.

    `apps` are the apps by id, `versions` the host's app versions by app id, best first.
    `daily_quota` is the project's default; `chance_key` is the key of the random draws.  `together`
    is set if other hosts are served in the same batch; hosts of a batch do not compete for results.
    `queues` are the named queues by id, `closed` those that send nothing to this host.
    """

    apps: Mapping[int, AppFacts]
    versions: Mapping[int, Sequence[VersionFacts]]
    headroom: Headroom
    today: date
    daily_quota: int = 0
    chance_key: str = ""
    together: bool = False
    queues: Mapping[int, QueueFacts] = field(default_factory=dict)
    closed: Mapping[int, Closed] = field(default_factory=dict)


class _Kind(NamedTuple):
    """The values shared by all candidates of a kind; computed once per kind and device."""

    app: AppFacts
    version: VersionFacts
    speed: float
    seconds: float
    delay: timedelta
    class_misfit: Refused | None
    reserved: Refused | None


_NONE: Final = (None, None)


class Judge:
    """Judges candidates one by one; each assignment reduces free disk, headroom and quota."""

    def __init__(self, host: HostFacts, rules: Rules) -> None:
        self.host = host
        self.rules = rules
        self.headroom = rules.headroom
        self.disk_left = host.disk_bytes
        self.output_bytes_left = rules.headroom.output_bytes
        # The output limit does not apply to a host's first result with outputs; otherwise a result
        # above the limit could never be sent.
        self._promises_any = host.promised_bytes > 0
        self.why: dict[int, Refused] = {}
        self._quotas: dict[int, int | None] = {}
        self._versions: dict[tuple[int, str, int | None, int], VersionFacts | Refused] = {}
        # The last kind of each app and device.  Workunits are submitted in batches, so the next
        # candidate of an app is usually of the same kind.
        self._kinds: dict[tuple[int, str], tuple[object, _Kind | Refused | None]] = {}

    def judge(
        self, candidate: Candidate, device: str, queued: float
    ) -> Assignment | Refused | None:
        """Return an assignment, or the first refusal.

        Returns None if the candidate is not for this device.  An assignment is counted against
        disk, headroom and quota.  `queued` is the work queued on the device, in seconds.
        """
        if candidate.queue_id and (closed := self._closed(candidate.queue_id)):
            return closed
        key, kind_key = (candidate.app_id, device), candidate[KIND]
        last_key, kind = self._kinds.get(key, _NONE)
        if kind_key != last_key:
            kind = self._kind_of(candidate, device)
            self._kinds[key] = (kind_key, kind)
        if not isinstance(kind, _Kind):
            return kind
        app, version, speed, seconds, delay, class_misfit, reserved = kind
        refusal = (
            class_misfit
            or self._size_misfit(candidate, app)
            or self._late(version, seconds, delay, 0.0 if device == SENSOR else queued)
            or reserved
            or self._over_limit(app, version)
            or self._over_output_limit(candidate)
        )
        if refusal is not None:
            return refusal
        self.take(candidate, version)
        replicate = self._needs_replication(candidate, app, version)
        return Assignment(candidate, version, speed, seconds, delay, replicate)

    def _kind_of(self, candidate: Candidate, device: str) -> _Kind | Refused | None:
        """Return the values shared by candidates of this kind, independent of earlier choices.

        Returns a refusal if the kind does not fit, and None if it is not for this device.
        """
        app = self.rules.apps[candidate.app_id]
        if app.non_cpu_intensive is not (device == SENSOR):
            return None
        key = (app.id, device, candidate.app_version_id, candidate.app_version_num)
        version = self._versions.get(key)
        if version is None:
            version = self._versions[key] = self._version_for(candidate, app, device)
        if isinstance(version, tuple):
            return version
        if candidate.requested_cpus or candidate.requested_gpus:
            misfit = _processor_misfit(candidate, app, version, self.host)
            if misfit is not None:
                return misfit
            if candidate.requested_gpus and not version.device:
                return None
        speed = estimates.flops(version, self.host.fpops)
        active = estimates.active_share(self.host, on_gpu=bool(version.device))
        seconds = candidate.rsc_fpops_est / speed / active
        reliable = candidate.reserved and self._is_reliable(app, version)
        reserved = f"Tasks of {app.title} are currently reserved for fast, reliable computers"
        return _Kind(
            app=app,
            version=version,
            speed=speed,
            seconds=seconds,
            delay=_delay(candidate, app, seconds) if reliable else candidate.delay_bound,
            class_misfit=_class_misfit(candidate, app, self.host),
            reserved=(RefusalReason.RESERVED, reserved)
            if candidate.reserved and not reliable
            else None,
        )

    def _version_for(
        self, candidate: Candidate, app: AppFacts, device: str
    ) -> VersionFacts | Refused:
        """Return the fastest version that may run the candidate on this device, or a refusal."""
        device_kind = "" if device == SENSOR else device
        versions = self.rules.versions.get(app.id, ())
        if self.host.is_anonymous:
            return self._own_version_for(candidate, app, versions, device_kind)
        allow_beta = True
        if candidate.app_version_id is not None:
            versions = [v for v in versions if v.id == candidate.app_version_id]
            if not versions:
                return RefusalReason.COMMITTED, "Tasks are committed to other platforms"
            eligible = [v for v in versions if not v.is_staged_out]
        elif candidate.app_version_num:
            versions = [v for v in versions if v.version_num == candidate.app_version_num]
            eligible = [v for v in versions if not v.is_staged_out]
        else:
            allow_beta = self.host.taste.allow_beta
            eligible = _newest(versions, allow_beta=allow_beta)
        fit = [v for v in eligible if not v.unfit]
        if not fit:
            later = [v for v in versions if v.is_staged_out and (allow_beta or not v.beta)]
            return _no_version(app, eligible, later)
        on_device = [v for v in fit if v.device == device_kind]
        if not on_device:
            return _not_for_devices(app)
        if len(on_device) == 1:
            return on_device[0]
        return max(
            on_device, key=lambda v: estimates.promise(v, self.host.fpops, luck=self._luck(v))
        )

    def _own_version_for(
        self, candidate: Candidate, app: AppFacts, versions: Sequence[VersionFacts], device: str
    ) -> VersionFacts | Refused:
        """Return the volunteer's own version for this device, or a refusal.

        The refusal concerns only this volunteer's programs, so its reason is not in `LASTING`.
        """
        eligible = [
            version
            for version in versions
            if candidate.app_version_id is None
            and candidate.app_version_num in (0, version.version_num)
            and (not version.beta or self.host.taste.allow_beta)
        ]
        if not eligible:
            return (
                RefusalReason.OWN_VERSION,
                f"Your app_info.xml file doesn't have a usable version of {app.title}.",
            )
        on_device = [version for version in eligible if version.device == device]
        return on_device[0] if on_device else _not_for_devices(app)

    def _luck(self, version: VersionFacts) -> float:
        """Return a pseudo-random number in [0, 1) that depends on host, day and plan class.

        All platforms of a plan class get the same number, so that their order does not change.
        """
        numbers = (self.host.id, self.rules.today.toordinal(), *version.plan_class.encode())
        return trust.draw(self.rules.chance_key, *numbers)

    def _size_misfit(self, candidate: Candidate, app: AppFacts) -> Refused | None:
        """Return the refusal for lack of memory, disk or bandwidth, or None (PROTOCOL 10.3)."""
        host = self.host
        if candidate.rsc_memory_bound > host.memory_bytes:
            wants, has = candidate.rsc_memory_bound / 2**20, host.memory_bytes / 2**20
            return RefusalReason.MEMORY, (
                f"{app.title} needs {wants:.2f} MB RAM but only {has:.2f} MB is available for use."
            )
        if candidate.rsc_disk_bound > self.disk_left:
            missing = (candidate.rsc_disk_bound - self.disk_left) / 2**20
            # Disk that other chosen results use becomes free later, so DISK_TAKEN is not lasting.
            is_too_big = candidate.rsc_disk_bound > host.disk_bytes
            return RefusalReason.DISK if is_too_big else RefusalReason.DISK_TAKEN, (
                f"{app.title} needs {missing:.2f}MB more disk space.  You currently have "
                f"{self.disk_left / 2**20:.2f} MB available and it needs "
                f"{candidate.rsc_disk_bound / 2**20:.2f} MB."
            )
        if 0 < host.bandwidth < candidate.rsc_bandwidth_bound:
            return RefusalReason.BANDWIDTH, (
                f"{app.title} needs {candidate.rsc_bandwidth_bound / 1e3:.2f} kB/sec of download "
                f"bandwidth, but only {host.bandwidth / 1e3:.2f} kB/sec was measured."
            )
        return None

    def _late(
        self, version: VersionFacts, seconds: float, delay: timedelta, queued: float
    ) -> Refused | None:
        # BOINC skips the check for an empty queue: a slow host may try one result (PROTOCOL 10.3).
        if queued <= 0 or queued + seconds <= delay.total_seconds():
            return None
        active = estimates.active_share(self.host, on_gpu=bool(version.device))
        return RefusalReason.DEADLINE, (
            "Tasks won't finish in time: BOINC computes "
            f"{active:.1%} of the time and {queued:.0f} seconds are queued."
        )

    def _closed(self, queue_id: int) -> Refused | None:
        """Return the refusal if the queue sends nothing more to this host, or None."""
        closed = self.rules.closed.get(queue_id)
        if closed is None and self.headroom.by_queue.get(queue_id, 1) <= 0:
            closed = serving.why_full(self.rules.queues[queue_id])
        return None if closed is None else (RefusalReason(closed.reason.value), closed.sentence)

    def _over_limit(self, app: AppFacts, version: VersionFacts) -> Refused | None:
        if self.headroom.left(app.id, on_gpu=bool(version.device)) <= 0:
            return RefusalReason.IN_PROGRESS_LIMIT, (
                f"This computer has reached a limit on tasks in progress for {app.title}"
            )
        left = self._quota_left(app, version)
        if left is not None and left <= 0:
            return RefusalReason.QUOTA, (
                f"This computer has finished a daily quota of {version.record.results_today} tasks"
            )
        return None

    def _over_output_limit(self, candidate: Candidate) -> Refused | None:
        left, wanted = self.output_bytes_left, candidate.output_bytes
        if left is None or wanted <= left or not (wanted and self._promises_any):
            return None
        return RefusalReason.OUTPUT_LIMIT, (
            "This computer has reached a limit on the output files of its tasks in progress"
        )

    def _quota_left(self, app: AppFacts, version: VersionFacts) -> int | None:
        if version.id not in self._quotas:
            gpus = sum(g.count for g in self.host.machine.gpus if g.kind == version.device)
            self._quotas[version.id] = trust.quota_left(
                version.record,
                daily_quota=self._daily_quota(app),
                devices=gpus if version.device else self.host.ncpus,
                today=self.rules.today,
            )
        return self._quotas[version.id]

    def _daily_quota(self, app: AppFacts) -> int:
        return self.rules.daily_quota if app.daily_quota is None else app.daily_quota

    def take(self, candidate: Candidate, version: VersionFacts, *, count: int = 1) -> None:
        """Count an assignment against disk, headroom and quota; a `count` of -1 undoes it."""
        self.disk_left -= count * candidate.rsc_disk_bound
        if self.output_bytes_left is not None and candidate.output_bytes:
            self.output_bytes_left -= count * candidate.output_bytes
            self._promises_any = True
        self.headroom.take(candidate.app_id, on_gpu=bool(version.device), count=count)
        if candidate.queue_id in self.headroom.by_queue:
            self.headroom.by_queue[candidate.queue_id] -= count
        left = self._quotas.get(version.id)
        if left is not None:
            self._quotas[version.id] = left - count

    def _is_reliable(self, app: AppFacts, version: VersionFacts) -> bool:
        return app.reliable_max_turnaround is None or trust.is_reliable(
            version.record,
            max_turnaround=app.reliable_max_turnaround,
            daily_quota=self._daily_quota(app),
        )

    def _needs_replication(
        self, candidate: Candidate, app: AppFacts, version: VersionFacts
    ) -> bool:
        """Return True if adaptive replication sends this workunit to other hosts as well."""
        if app.target_nresults <= 1 or candidate.target_nresults > 1:
            return False
        if not trust.has_proved_itself(version.record, trusted_after=app.trusted_after):
            return True  # for any draw; skipping the draw saves time for most hosts
        drawn = trust.draw(self.rules.chance_key, candidate.workunit_id, self.host.id)
        return not trust.is_trusted(version.record, trusted_after=app.trusted_after, draw=drawn)


def _newest(versions: Iterable[VersionFacts], *, allow_beta: bool) -> list[VersionFacts]:
    """Return the newest current version of each platform and plan class that the host may get."""
    newest: dict[tuple[str, str], VersionFacts] = {}
    for version in versions:
        is_hidden = version.deprecated or version.is_staged_out
        if is_hidden or (version.beta and not allow_beta):
            continue
        newest_yet = newest.get((version.platform, version.plan_class))
        if newest_yet is None or newest_yet.version_num < version.version_num:
            newest[version.platform, version.plan_class] = version
    return list(newest.values())


def _processor_misfit(
    candidate: Candidate, app: AppFacts, version: VersionFacts, host: HostFacts
) -> Refused | None:
    """Return the refusal if the host has fewer CPUs or GPUs than the workunit requests, or None.

    For a version that uses no GPU, GPUs of all kinds are counted: another version of the app may
    use them.
    """
    if candidate.requested_cpus > host.ncpus:
        return RefusalReason.CPUS, (
            f"{app.title} needs {candidate.requested_cpus:g} CPUs but only {host.ncpus} are "
            "available for use."
        )
    kinds = (version.device,) if version.device else {gpu.kind for gpu in host.machine.gpus}
    counts = [sum(gpu.count for gpu in host.machine.gpus if gpu.kind == kind) for kind in kinds]
    if candidate.requested_gpus > (most := max(counts, default=0)):
        return RefusalReason.GPUS, (
            f"{app.title} needs {candidate.requested_gpus:g} GPUs but only {most} are available "
            "for use."
        )
    return None


def _class_misfit(candidate: Candidate, app: AppFacts, host: HostFacts) -> Refused | None:
    """Return the refusal if the host's class of homogeneous redundancy is unknown or differs.

    A workunit stays in the class of its first host (PROTOCOL 9.8).
    """
    if not app.hr_type:
        return None
    own = host.hr_classes.get(app.hr_type, 0)
    if not own:
        return RefusalReason.UNKNOWN_CLASS, "Your computer type is not supported by this project"
    if candidate.hr_class and candidate.hr_class != own:
        return RefusalReason.COMMITTED, "Tasks are committed to other platforms"
    return None


def _no_version(
    app: AppFacts, unfit: Sequence[VersionFacts], staged_out: Sequence[VersionFacts]
) -> Refused:
    """Return the refusal for an app without a version that fits the host.

    `unfit` are its eligible versions, and `staged_out` those that the host may get later, so that
    the refusal is not a lasting one if one of these fits.
    """
    if not all(version.unfit for version in staged_out):
        return RefusalReason.ROLLOUT, (
            f"A new version of {app.title} is sent to some computers first, and not to yours yet."
        )
    if unfit:
        return RefusalReason.PLAN_CLASS, unfit[0].unfit
    return RefusalReason.NO_VERSION, f"{app.title} is not available for your type of computer."


def _not_for_devices(app: AppFacts) -> Refused:
    return RefusalReason.DEVICE, f"No tasks of {app.title} are available for the requested devices"


def _delay(candidate: Candidate, app: AppFacts, seconds: float) -> timedelta:
    """Return the delay bound of a retry on a reliable host.

    It is the app's reduced bound, but at least twice the estimated run time, and at most the
    workunit's bound.
    """
    whole = candidate.delay_bound
    # As a timedelta, twice the longest estimates overflow.
    twice = min(2 * seconds, whole.total_seconds())
    return min(whole, max(whole * app.reduced_delay, timedelta(seconds=twice)))
