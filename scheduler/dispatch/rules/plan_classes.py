"""Decides whether a computer can run a plan class, and its resource usage.

Theory of operation.  An app version names a plan class.  The requirements of the plan class are
checked in a fixed order, each by one function, which returns a message for the volunteer, or an
empty text if the requirement is met.  The messages are BOINC's where it has the same check (source:
BOINC's plan classes and messages).  For a computer that meets all requirements, `usage` returns the
number of CPUs and GPUs that the program uses, and the expected speed until the speed is measured.

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from scheduler.dispatch.rules.plan_class_gpus import TITLES, objections, unmatched
from scheduler.dispatch.rules.plan_class_specs import KEYS, BadPlanClass, PlanClass, parse
from scheduler.hosts.machines import Gpu, Machine, Usage

__all__ = ["KEYS", "BadPlanClass", "PlanClass", "parse", "usage"]

_MB: Final = 2.0**20
#: Bounds on the speed of a CPU or GPU; values that clients report beyond them are not trusted.
_MIN_FLOPS: Final = 1e6
_MAX_FLOPS: Final = 1e18
_VERSION: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_LIBC: Final = re.compile(r"libc (\d+)\.(\d+)")
_MIN_VBOX_CLIENT: Final = 70000
_MIN_MAC_DOCKER_CLIENT: Final = 80206

_TOO_OLD: Final = "A newer BOINC may be required for some tasks."


def usage(plan: PlanClass, machine: Machine) -> Usage | str:
    """Return the resources that a program uses, or the message of the first check that fails."""
    if sentence := next(filter(None, _objections(plan, machine)), ""):
        return sentence
    if not plan.gpu_type:
        return _cpu_usage(plan, machine)
    gpu = _gpu_of(plan, machine)
    if gpu is None:
        return f"No {TITLES[plan.gpu_type]} GPUs found"
    if sentence := next(filter(None, objections(plan, gpu)), ""):
        return sentence
    return _gpu_usage(plan, machine, gpu)


def never_fits(plan: PlanClass, machine: Machine) -> bool:
    """Return True if the computer can never run the plan class, because of its system or processor.

    Other properties may change: memory, GPUs, drivers, Docker, preferences, the client.
    """
    return any(rule(plan, machine) for rule in (os_fits, vendor_fits, model_fits, features_fit))


def _objections(plan: PlanClass, machine: Machine) -> Iterator[str]:
    """Yield the message of each check of a computer, which is empty if the check passes."""
    yield os_fits(plan, machine)
    yield vendor_fits(plan, machine)
    yield model_fits(plan, machine)
    yield features_fit(plan, machine)
    yield libc_fits(plan, machine)
    yield client_fits(plan, machine)
    yield threads_fit(plan, machine)
    yield memory_fits(plan, machine)
    yield virtualbox_fits(plan, machine)
    yield acceleration_fits(plan, machine)
    yield wsl_fits(plan, machine)
    yield docker_fits(plan, machine)


# The computer and its client


def os_fits(plan: PlanClass, machine: Machine) -> str:
    """Return a message unless the operating system's name and version match `os_regex`."""
    reported = f"{machine.os_name} {machine.os_version}"
    return unmatched(plan.os_regex, reported, "operating system")


def vendor_fits(plan: PlanClass, machine: Machine) -> str:
    """Return a message unless the processor's vendor matches `cpu_vendor_regex`."""
    return unmatched(plan.cpu_vendor_regex, machine.p_vendor, "processor's vendor")


def model_fits(plan: PlanClass, machine: Machine) -> str:
    """Return a message unless the processor's model matches `cpu_model_regex`."""
    return unmatched(plan.cpu_model_regex, machine.p_model, "processor's model")


def features_fit(plan: PlanClass, machine: Machine) -> str:
    """Return a message unless the processor has all `cpu_features`."""
    missing = sorted(set(plan.cpu_features) - {each.lower() for each in machine.p_features})
    return f"Your processor lacks {', '.join(missing)}." if missing else ""


def libc_fits(plan: PlanClass, machine: Machine) -> str:
    """Return a message if the C library is older than `min_libc_version`.

    An unknown version counts as 0.
    """
    match = _LIBC.search(machine.os_version)
    version = int(match[1]) * 100 + int(match[2]) if match else 0
    if version >= plan.min_libc_version:
        return ""
    needed = plan.min_libc_version
    return f"Your computer's C library is older than {needed // 100}.{needed % 100:02}."


def client_fits(plan: PlanClass, machine: Machine) -> str:
    """Return a message unless the client is from `min_` to `max_core_client_version`."""
    if machine.client_version < plan.min_core_client_version:
        return _TOO_OLD
    if 0 < plan.max_core_client_version < machine.client_version:
        return "An older BOINC is required for some tasks."
    return ""


def threads_fit(plan: PlanClass, machine: Machine) -> str:
    """Return a message unless the project may use at least `min_ncpus` CPUs."""
    if machine.ncpus >= plan.min_ncpus:
        return ""
    return f"{plan.min_ncpus} CPUs are needed, but only {machine.ncpus} are available for use."


def memory_fits(plan: PlanClass, machine: Machine) -> str:
    """Return a message unless the memory suffices for `min_ncpus` threads (at least 1 thread)."""
    needed = plan.mem_usage_base_mb + plan.mem_usage_per_cpu_mb * max(1, plan.min_ncpus)
    available = machine.memory_bytes / _MB
    if not plan.mem_usage_per_cpu_mb or needed <= available:
        return ""
    return f"{needed:.2f} MB RAM is needed but only {available:.2f} MB is available for use."


def virtualbox_fits(plan: PlanClass, machine: Machine) -> str:
    """Return a message if VirtualBox is required but not usable, or of an unsuitable version."""
    reported = machine.virtualbox_version
    if not plan.virtualbox:
        return ""
    if machine.client_version < _MIN_VBOX_CLIENT:
        return "BOINC client 7.0+ required for Virtualbox jobs"
    if not reported:
        return "VirtualBox is not installed"
    match = _VERSION.match(reported)
    if "unusable" in reported or match is None:
        return "VirtualBox is not usable"
    version = int(match[1]) * 10000 + int(match[2]) * 100 + int(match[3] or 0)
    too_new = 0 < plan.max_vbox_version < version
    if version < plan.min_vbox_version or too_new or version in plan.exclude_vbox_version:
        return f"VirtualBox {reported} does not suit these tasks; install another version."
    return ""


def acceleration_fits(plan: PlanClass, machine: Machine) -> str:
    """Return a message if hardware acceleration of virtual machines is required and missing."""
    if not plan.vm_accel_required or _accelerates(machine):
        return ""
    return "Hardware acceleration of virtual machines is missing or switched off in the BIOS."


def wsl_fits(plan: PlanClass, machine: Machine) -> str:
    """Return a message if WSL (Linux on Windows) is required and missing."""
    return "No WSL distros found" if plan.wsl and not machine.wsl else ""


def docker_fits(plan: PlanClass, machine: Machine) -> str:
    """Return a message if Docker or Podman (on Windows: inside WSL) is required but not usable."""
    if not plan.docker:
        return ""
    if "windows" in machine.os_name.lower() and not machine.wsl:
        return "No usable WSL distros found"
    if not machine.docker_version:
        return "Docker not present"
    if "darwin" in machine.os_name.lower() and machine.client_version < _MIN_MAC_DOCKER_CLIENT:
        return "Docker jobs need 8.2.6+ client"
    return ""


# Resources used


def thread_count(plan: PlanClass, machine: Machine) -> int:
    """Return the number of threads of a CPU program, limited by CPUs and memory."""
    if plan.virtualbox and not _accelerates(machine):
        return 1  # a virtual machine without acceleration has one processor (BOINC's rule)
    count = min(plan.max_threads, machine.ncpus)
    if plan.mem_usage_per_cpu_mb:
        free_mb = machine.memory_bytes / _MB - plan.mem_usage_base_mb
        count = min(count, int(free_mb / plan.mem_usage_per_cpu_mb))
    return max(1, count)


def _cpu_usage(plan: PlanClass, machine: Machine) -> Usage:
    threads = thread_count(plan, machine)
    ncpus = plan.avg_ncpus or float(threads)
    words = []
    if plan.mem_usage_per_cpu_mb:
        memory = plan.mem_usage_base_mb + threads * plan.mem_usage_per_cpu_mb
        words.append(f"--memory_size_mb {memory:.0f}")
    if plan.nthreads_cmdline:
        words.append(f"--nthreads {max(1, int(ncpus))}")
    return Usage(
        avg_ncpus=ncpus,
        peak_flops=_fpops(machine) * ncpus,
        projected_flops=_fpops(machine) * ncpus * plan.projected_flops_scale,
        cmdline=" ".join(words),
    )


def _gpu_usage(plan: PlanClass, machine: Machine, gpu: Gpu) -> Usage:
    """Return the usage of a GPU program (BOINC's estimate).

    The estimate assumes that CPU and GPU alternate, and that the CPU performs the share `cpu_frac`
    of the operations.  A GPU of unknown speed counts as fast as a CPU.
    """
    cpu, scale = _fpops(machine), plan.gpu_peak_flops_scale * plan.ngpus
    speed, ncpus, gpu_speed = cpu, plan.cpu_frac, 0.0
    if gpu.peak_flops >= _MIN_FLOPS:
        gpu_speed = scale * min(gpu.peak_flops, _MAX_FLOPS)
        speed = 1 / (plan.cpu_frac / cpu + (1 - plan.cpu_frac) / gpu_speed)
        ncpus = plan.cpu_frac * speed / cpu
    ncpus = plan.avg_ncpus or ncpus
    return Usage(
        avg_ncpus=ncpus,
        gpu_kind=plan.gpu_type,
        gpu_count=plan.ngpus,
        gpu_ram=(plan.gpu_ram_used_mb or plan.min_gpu_ram_mb) * _MB,
        peak_flops=gpu_speed + max(ncpus, 0.0 if gpu_speed else 1.0) * cpu,
        projected_flops=speed * plan.projected_flops_scale,
    )


def _gpu_of(plan: PlanClass, machine: Machine) -> Gpu | None:
    return next((gpu for gpu in machine.gpus if gpu.kind == plan.gpu_type and gpu.count > 0), None)


def _accelerates(machine: Machine) -> bool:
    return machine.vm_extensions and not machine.p_features.isdisjoint({"vmx", "svm"})


def _fpops(machine: Machine) -> float:
    """Return the speed of one CPU within bounds: it is used as a divisor."""
    return min(max(_MIN_FLOPS, machine.fpops), _MAX_FLOPS)
