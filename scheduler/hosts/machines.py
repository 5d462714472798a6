"""Facts about a computer and the resources that a program uses [pure]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

#: Greater values are errors, and infinity is not valid JSON.
_MAX_VALUE = 1e18


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """The GPUs of one kind in a computer, with the properties of the best GPU.

    `kind` is ``nvidia``, ``amd``, ``intel``, ``apple`` or another name that the client sends.
    Versions are whole numbers as clients send them: CUDA 12.4 is 12040, compute capability 8.6 is
    806 and OpenCL 1.2 is 102 (100 * major + minor), an NVIDIA driver 535.183 is 53518; 0 means
    missing or unknown.
    """

    kind: str
    count: int = 1
    name: str = ""
    ram_bytes: float = 0.0
    peak_flops: float = 0.0
    driver_version: int = 0
    cuda_version: int = 0
    compute_capability: int = 0
    opencl_version: int = 0
    opencl_driver: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the fields for `models.Host.capabilities`, with floats of at most 1e18."""
        return {
            name: min(value, _MAX_VALUE) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Create an instance from the values of `as_json`; unknown keys are ignored."""
        names = {each.name for each in fields(cls)}
        return cls(**{"kind": ""} | {name: stored[name] for name in names & stored.keys()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The properties of a computer that plan classes use.

    In an RPC, `ncpus` and `memory_bytes` are the part of the computer that the project may use; for
    a host from the database, they are the whole computer.  `fpops` is the number of operations per
    second of one CPU.  `client_version` is 10000 * major + 100 * minor + release.
    `virtualbox_version` and `docker_version` are empty if the program is missing.  `wsl` is True if
    a Windows computer has a Linux environment (WSL).
    """

    ncpus: int = 1
    fpops: float = 1e9
    memory_bytes: float = 64e6
    p_vendor: str = ""
    p_model: str = ""
    p_features: frozenset[str] = frozenset()
    os_name: str = ""
    os_version: str = ""
    client_version: int = 0
    virtualbox_version: str = ""
    vm_extensions: bool = False
    docker_version: str = ""
    wsl: bool = False
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The resources that one result of an app version uses while it runs.

    `gpu_kind` is empty for a CPU program.  `gpu_ram` is in bytes.  `peak_flops` is the peak speed
    of the CPUs and GPUs that the result uses, and is needed to compute credit.  `projected_flops`
    is the expected speed, which is used until the speed has been measured.  `cmdline` is appended
    to the command line of the app version.
    """

    avg_ncpus: float
    gpu_kind: str = ""
    gpu_count: float = 0.0
    gpu_ram: float = 0.0
    peak_flops: float
    projected_flops: float
    cmdline: str = ""
