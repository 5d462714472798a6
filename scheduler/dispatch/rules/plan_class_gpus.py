"""Checks whether a GPU meets the requirements of a plan class.

Each check returns a message for the volunteer; it is empty if the check passes.

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from scheduler.dispatch.rules.plan_class_specs import PlanClass
from scheduler.hosts.machines import Gpu

TITLES: Final = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple"}

_MB: Final = 2.0**20
_OLD_DRIVER: Final = "Upgrade to the latest driver to process tasks using your computer's GPU"


def objections(plan: PlanClass, gpu: Gpu) -> Iterator[str]:
    """Yield the message of each check of a GPU, which is empty if the check passes."""
    yield gpu_name_fits(plan, gpu)
    yield gpu_count_fits(plan, gpu)
    yield cuda_fits(plan, gpu)
    yield compcap_fits(plan, gpu)
    yield opencl_fits(plan, gpu)
    yield rocm_fits(plan, gpu)
    yield driver_fits(plan, gpu)
    yield gpu_memory_fits(plan, gpu)
    yield gpu_speed_fits(plan, gpu)


def gpu_name_fits(plan: PlanClass, gpu: Gpu) -> str:
    """Return a message unless the GPU's model matches `gpu_name_regex`."""
    return unmatched(plan.gpu_name_regex, gpu.name, "GPU's model")


def gpu_count_fits(plan: PlanClass, gpu: Gpu) -> str:
    """Return a message unless the computer has as many GPUs as one result uses."""
    if plan.ngpus <= gpu.count:
        return ""
    return f"{plan.ngpus:g} {TITLES[plan.gpu_type]} GPUs are needed, but there are {gpu.count}."


def cuda_fits(plan: PlanClass, gpu: Gpu) -> str:
    """Return a message unless the driver's CUDA version is within the limits."""
    if not plan.cuda:
        return ""
    if not gpu.cuda_version:
        return "App version needs CUDA but GPU doesn't support it"
    if gpu.cuda_version < plan.min_cuda_version:
        return _OLD_DRIVER
    return _above(plan.max_cuda_version, gpu.cuda_version, "CUDA version")


def compcap_fits(plan: PlanClass, gpu: Gpu) -> str:
    """Return a message unless NVIDIA's compute capability is within the limits."""
    if gpu.compute_capability < plan.min_nvidia_compcap:
        return (
            f"Your GPU's compute capability {_dotted(gpu.compute_capability)} is below "
            f"{_dotted(plan.min_nvidia_compcap)}."
        )
    return _above(plan.max_nvidia_compcap, gpu.compute_capability, "compute capability")


def opencl_fits(plan: PlanClass, gpu: Gpu) -> str:
    """Return a message unless the OpenCL version and driver are suitable."""
    if not plan.opencl:
        return ""
    if not gpu.opencl_version:
        return "App version needs OpenCL but GPU doesn't support it"
    if gpu.opencl_version < plan.min_opencl_version:
        return _OLD_DRIVER
    if sentence := unmatched(plan.opencl_driver_regex, gpu.opencl_driver, "OpenCL driver"):
        return sentence
    return _above(plan.max_opencl_version, gpu.opencl_version, "OpenCL version")


def rocm_fits(plan: PlanClass, gpu: Gpu) -> str:
    """Return a message unless the OpenCL driver contains "HSA", the runtime of AMD's ROCm."""
    if not plan.rocm or "HSA" in gpu.opencl_driver:
        return ""
    return "Install AMD's ROCm to process tasks using your computer's GPU"


def driver_fits(plan: PlanClass, gpu: Gpu) -> str:
    """Return a message if the driver version is outside the limits.

    An unknown version passes the check, as in BOINC.
    """
    if not gpu.driver_version:
        return ""
    if gpu.driver_version < plan.min_driver_version:
        return _OLD_DRIVER
    return _above(plan.max_driver_version, gpu.driver_version, "driver")


def gpu_memory_fits(plan: PlanClass, gpu: Gpu) -> str:
    """Return a message unless the GPU has at least `min_gpu_ram_mb` of memory."""
    if gpu.ram_bytes >= plan.min_gpu_ram_mb * _MB:
        return ""
    return (
        f"A minimum of {plan.min_gpu_ram_mb:.0f} MB of video RAM is needed to process tasks "
        f"using your computer's {TITLES[plan.gpu_type]} GPU"
    )


def gpu_speed_fits(plan: PlanClass, gpu: Gpu) -> str:
    """Return a message if the peak speed is outside the limits; an unknown speed passes."""
    if not gpu.peak_flops:
        return ""
    if gpu.peak_flops < plan.min_gpu_peak_flops:
        return "Your GPU is too slow for these tasks."
    if 0 < plan.max_gpu_peak_flops < gpu.peak_flops:
        return "Your GPU is needed for other tasks."
    return ""


def unmatched(pattern: str, reported: str, property_name: str) -> str:
    """Return a message unless a reported property matches the pattern."""
    if not pattern or re.search(pattern, reported):
        return ""
    return f"These tasks are not for your {property_name} ({reported or 'unknown'})."


def _above(max_version: int, version: int, property_name: str) -> str:
    return (
        f"Your GPU's {property_name} is too new for these tasks."
        if 0 < max_version < version
        else ""
    )


def _dotted(version: int) -> str:
    return f"{version // 100}.{version % 100}"
