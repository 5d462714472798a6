"""Parses and validates plan class specs.

A spec is one JSON object.  Keys that exist in BOINC's ``plan_class_spec.xml`` have the same names
and units.  Every spec is validated before it is stored, so that a misspelled key causes an error
and no requirement is silently ignored.

This module uses no database, files or clock.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Final

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,59}")
_GPU_TYPES: Final = ("nvidia", "amd", "intel", "apple")

#: Pairs of a key and a word that clients search for in the name of a plan class.  By the word, a
#: client decides whether the volunteer has disabled such programs, and which libraries it needs.
_WORDS_IN_NAMES: Final = (
    ("virtualbox", "vbox"),
    ("docker", "docker"),
    ("wsl", "wsl"),
    ("opencl", "opencl"),
    ("cuda", "cuda"),
)
_PAIRS: Final = (
    ("min_ncpus", "max_threads"),
    ("min_core_client_version", "max_core_client_version"),
    ("min_driver_version", "max_driver_version"),
    ("min_cuda_version", "max_cuda_version"),
    ("min_nvidia_compcap", "max_nvidia_compcap"),
    ("min_opencl_version", "max_opencl_version"),
    ("min_gpu_peak_flops", "max_gpu_peak_flops"),
    ("min_vbox_version", "max_vbox_version"),
)
# A key, the key that it needs, and that key's value (None: any).
_NEEDS: Final = (
    ("cuda", "gpu_type", "nvidia"),
    ("rocm", "gpu_type", "amd"),
    ("min_nvidia_compcap", "gpu_type", "nvidia"),
    ("max_nvidia_compcap", "gpu_type", "nvidia"),
    ("min_cuda_version", "cuda", True),
    ("max_cuda_version", "cuda", True),
    ("opencl", "gpu_type", None),
    ("min_opencl_version", "opencl", True),
    ("max_opencl_version", "opencl", True),
    ("opencl_driver_regex", "opencl", True),
    ("min_driver_version", "gpu_type", "nvidia"),
    ("max_driver_version", "gpu_type", "nvidia"),
    ("gpu_name_regex", "gpu_type", None),
    ("min_gpu_ram_mb", "gpu_type", None),
    ("gpu_ram_used_mb", "gpu_type", None),
    ("min_gpu_peak_flops", "gpu_type", None),
    ("max_gpu_peak_flops", "gpu_type", None),
    ("gpu_peak_flops_scale", "gpu_type", None),
    ("ngpus", "gpu_type", None),
    ("cpu_frac", "gpu_type", None),
    ("min_vbox_version", "virtualbox", True),
    ("max_vbox_version", "virtualbox", True),
    ("exclude_vbox_version", "virtualbox", True),
    ("vm_accel_required", "virtualbox", True),
    ("mem_usage_base_mb", "mem_usage_per_cpu_mb", None),
)
_EXCLUSIVE: Final = (
    ("docker", "virtualbox"),
    ("docker", "wsl"),
    ("virtualbox", "wsl"),
    ("avg_ncpus", "max_threads"),
    ("gpu_type", "max_threads"),
    ("gpu_type", "nthreads_cmdline"),
    ("gpu_type", "mem_usage_per_cpu_mb"),
)


class BadPlanClass(ValueError):
    """Raised for an invalid spec; `problems` are pairs of a key (or "") and a message.

    Hint: docs/plan-classes.md has every key.
    """

    def __init__(self, name: str, problems: tuple[tuple[str, str], ...]) -> None:
        self.name = name
        self.problems = problems
        super().__init__("\n".join(sentence for _key, sentence in problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanClass:
    """The requirements and resource usage of a plan class, from a valid spec.

    The fields have the names of the keys in docs/plan-classes.md.  Versions are whole numbers in
    BOINC's encoding (`hosts.machines.Gpu`).  Sizes are in MB of 2**20 bytes.  In a requirement, the
    values 0 and "" mean that there is no requirement.
    """

    name: str
    # The computer and its client
    os_regex: str = ""
    cpu_vendor_regex: str = ""
    cpu_model_regex: str = ""
    cpu_features: tuple[str, ...] = ()
    min_libc_version: int = 0
    min_core_client_version: int = 0
    max_core_client_version: int = 0
    # Threads and memory
    min_ncpus: int = 0
    max_threads: int = 1
    nthreads_cmdline: bool = False
    avg_ncpus: float = 0.0
    mem_usage_base_mb: float = 0.0
    mem_usage_per_cpu_mb: float = 0.0
    # GPUs
    gpu_type: str = ""
    gpu_name_regex: str = ""
    ngpus: float = 1.0
    min_gpu_ram_mb: float = 0.0
    gpu_ram_used_mb: float = 0.0
    min_gpu_peak_flops: float = 0.0
    max_gpu_peak_flops: float = 0.0
    min_driver_version: int = 0
    max_driver_version: int = 0
    cuda: bool = False
    min_cuda_version: int = 0
    max_cuda_version: int = 0
    min_nvidia_compcap: int = 0
    max_nvidia_compcap: int = 0
    opencl: bool = False
    min_opencl_version: int = 0
    max_opencl_version: int = 0
    opencl_driver_regex: str = ""
    rocm: bool = False
    # Containers and virtual machines
    docker: bool = False
    wsl: bool = False
    virtualbox: bool = False
    min_vbox_version: int = 0
    max_vbox_version: int = 0
    exclude_vbox_version: tuple[int, ...] = ()
    vm_accel_required: bool = False
    # Speed
    cpu_frac: float = 0.1
    gpu_peak_flops_scale: float = 1.0
    projected_flops_scale: float = 1.0


#: Every key of a spec, in the order of the documentation.
KEYS: Final = tuple(each.name for each in fields(PlanClass) if each.name != "name")

_DEFAULTS: Final[Mapping[str, object]] = {each.name: each.default for each in fields(PlanClass)}


def parse(name: str, spec: Mapping[str, Any]) -> PlanClass:
    """Return the plan class of a spec; raises `BadPlanClass` with all problems of the spec."""
    problems: list[tuple[str, str]] = []
    if not _NAME.fullmatch(name):
        problems.append(
            ("", f"{name!r} is not a valid name. Hint: use 1 to 60 letters, digits, _ . + -.")
        )
    values: dict[str, Any] = {}
    for key, value in spec.items():
        if key not in KEYS:
            problems.append((key, _unknown(key)))
        elif (wrong := _misfit(key, value)) is not None:
            problems.append((key, wrong))
        else:
            values[key] = _tidy(key, value)
    problems += _contradictions(name, values)
    if problems:
        raise BadPlanClass(name, tuple(problems))
    return PlanClass(name=name, **values)


def _unknown(key: str) -> str:
    near = get_close_matches(key, KEYS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else "docs/plan-classes.md has every key."
    return f"Unknown key {key}. Hint: {hint}"


def _tidy(key: str, value: object) -> object:
    """Return a valid value as `PlanClass` stores it."""
    if isinstance(value, list | tuple):
        return tuple(each.lower() if isinstance(each, str) else each for each in value)
    return float(value) if isinstance(_DEFAULTS[key], float) else value  # type: ignore[arg-type]


def _misfit(key: str, value: object) -> str | None:
    """Return an error message for the value of a key, or None if the value is valid."""
    if key == "gpu_type":
        return _misfit_gpu(value)
    if key == "exclude_vbox_version":
        return _misfit_list(key, value, int, "versions, such as [50010]")
    if key == "cpu_features":
        return _misfit_list(key, value, str, 'words, such as ["avx2", "fma"]')
    default = _DEFAULTS[key]
    if isinstance(default, str):
        return _misfit_regex(key, value)
    if isinstance(default, bool):
        return (
            None if isinstance(value, bool) else f"{key} is {value!r}. Hint: write true or false."
        )
    return _misfit_number(key, value, whole=isinstance(default, int))


def _misfit_gpu(value: object) -> str | None:
    if value in _GPU_TYPES:
        return None
    near = get_close_matches(str(value), (*_GPU_TYPES, "ati"), n=1)
    allowed = "amd" if near == ["ati"] else " or ".join(near or _GPU_TYPES)
    return f"gpu_type is {value!r}. Hint: write {allowed}."


def _misfit_list(key: str, value: object, kind: type, example: str) -> str | None:
    if isinstance(value, list | tuple) and all(
        isinstance(each, kind) and not isinstance(each, bool) and each for each in value
    ):
        return None
    return f"{key} is {value!r}. Hint: give a list of {example}."


def _misfit_regex(key: str, value: object) -> str | None:
    if not isinstance(value, str) or not value:
        return (
            f"{key} is {value!r}. "
            "Hint: give a regular expression in quotes, or remove the key to allow all."
        )
    try:
        re.compile(value)
    except re.error as error:
        return f"{key} {value!r} is not a regular expression: {error}. Hint: write \\\\ for one \\."
    return None


def _misfit_number(key: str, value: object, *, whole: bool) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        return (
            f"{key} is {value!r}. Hint: give a {'whole ' if whole else ''}number, without quotes."
        )
    if not math.isfinite(value) or value < 0:
        return f"{key} is {value}. Hint: give a number from 0."
    if key == "cpu_frac" and value > 1:
        return f"cpu_frac is {value}. Hint: give the share of the work done by CPUs, 0 to 1."
    may_be_zero = key == "cpu_frac" or not _DEFAULTS[key]
    if not value and not may_be_zero:
        return f"{key} is 0. Hint: give more than 0, or leave it out for {_DEFAULTS[key]:g}."
    return None


def _contradictions(name: str, values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (key, message) for each conflict between values that are valid on their own."""
    problems = []
    for low, high in _PAIRS:
        if 0 < values.get(high, 0) < values.get(low, 0):
            problems.append((high, f"{high} {values[high]:g} is below {low} {values[low]:g}."))
    for key, other, wanted in _NEEDS:
        if values.get(key) and (
            not values.get(other) if wanted is None else values.get(other) != wanted
        ):
            shown = other if wanted is None else f"{other} {wanted}".lower()
            problems.append((key, f"{key} has no effect without {shown}. Hint: add it."))
    for key, other in _EXCLUSIVE:
        if values.get(key) and values.get(other):
            problems.append((other, f"{key} and {other} exclude each other. Hint: drop one."))
    return [*problems, *_misnomers(name, values)]


def _misnomers(name: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, message) for each conflict of the spec with the name, as clients interpret it."""
    for key, word in _WORDS_IN_NAMES:
        if values.get(key) and word not in name:
            hint = f"name it {name}_{word}; clients recognize such programs by this word."
            yield key, f"{key} is true, but {name} does not contain {word!r}. Hint: {hint}"
        elif word in name and not values.get(key):
            hint = "add it, or choose another name."
            yield "", f"{name} contains {word!r}, but {key} is not true. Hint: {hint}"
    if values.get("gpu_type") and "ati" in name and not re.search("opencl|cuda", name):
        hint = "choose another name; clients treat it as a program for ATI's CAL."
        yield "gpu_type", f"{name} contains 'ati'. Hint: {hint}"
