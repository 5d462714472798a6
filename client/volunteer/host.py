"""Reads the properties of this computer and measures its speed."""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import shutil
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

from volunteer.wire.messages import HostFacts

_BENCHMARK_SECONDS = 0.05
_ENGINE_SECONDS = 10.0
_BENCHMARK_VALID_SECONDS = 5 * 86400
# math.dist does about this many floating-point operations for each coordinate.
_OPERATIONS_PER_COORDINATE = 12

_PLATFORMS = {
    "x86_64": ("x86_64-pc-linux-gnu", "i686-pc-linux-gnu"),
    "amd64": ("x86_64-pc-linux-gnu", "i686-pc-linux-gnu"),
    "aarch64": ("aarch64-unknown-linux-gnu",),
    "armv7l": ("arm-unknown-linux-gnueabihf",),
    "i686": ("i686-pc-linux-gnu",),
    "ppc64le": ("ppc64le-linux-gnu",),
    "riscv64": ("riscv64-unknown-linux-gnu",),
    "arm64": ("arm64-apple-darwin", "x86_64-apple-darwin"),
}


def platforms() -> tuple[str, ...]:
    """Return BOINC's names of the platforms whose programs run here, best platform first."""
    machine = platform.machine().lower()
    names = _PLATFORMS.get(machine, (f"{machine}-unknown-{platform.system().lower()}",))
    if machine == "x86_64" and platform.system() == "Darwin":
        return ("x86_64-apple-darwin",)
    # 32-bit programs need a loader that few 64-bit systems still have.
    return tuple(
        name for name in names if name != "i686-pc-linux-gnu" or Path("/lib/ld-linux.so.2").exists()
    )


def read_host(folder: Path, slots: int, now: float) -> HostFacts:
    """Return the description of this computer, with `slots` as the number of processors.

    The speed is measured at most every five days, and stored in `host.json` in the folder.
    """
    names = platforms()
    cpu = _cpuinfo()
    total, _, free = shutil.disk_usage(folder)
    speed = _speed(folder / "host.json", now)
    return HostFacts(
        host_cpid="",
        platform=names[0],
        alt_platforms=names[1:],
        timezone=-(time.altzone if time.localtime().tm_isdst else time.timezone),
        domain_name=socket.gethostname(),
        ip_addr=_address(),
        ncpus=slots,
        vendor=cpu.get("vendor_id", platform.machine()),
        model=_model(cpu),
        features=cpu.get("flags", ""),
        fpops=speed["fpops"],
        iops=speed["iops"],
        benchmarked_at=speed["measured_at"],
        memory=total_memory(),
        cache=_leading_number(cpu.get("cache size", "")) * 1024,
        swap=_meminfo("SwapTotal"),
        disk_total=float(total),
        disk_free=float(free),
        os_name=_os_name(),
        container_engine=_container_engine(),
        os_version=f"{_release().get('PRETTY_NAME', '')} [{platform.release()}]".strip(),
    )


def with_disk(host: HostFacts, folder: Path) -> HostFacts:
    """Return the description with the current free disk space."""
    return replace(host, disk_free=float(shutil.disk_usage(folder).free))


def on_batteries(supplies: Path = Path("/sys/class/power_supply")) -> bool:
    """Return whether this computer has mains supplies and all are offline (Linux only).

    Returns False for a computer that does not report its power supplies, such as most servers.
    """
    lines = []
    with contextlib.suppress(OSError):
        for supply in supplies.iterdir():
            with contextlib.suppress(OSError):
                if (supply / "type").read_text().strip() == "Mains":
                    lines.append((supply / "online").read_text().strip())
    return bool(lines) and "1" not in lines


def folder_size(folder: Path) -> int:
    """Return the total size of the files below a folder, in bytes."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += (Path(parent) / name).lstat().st_size
    return size


def _cpuinfo() -> dict[str, str]:
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return {}
    lines = text.partition("\n\n")[0].splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _model(cpu: dict[str, str]) -> str:
    details = [
        f"{word} {cpu[name]}"
        for word, name in (("Family", "cpu family"), ("Model", "model"), ("Stepping", "stepping"))
        if name in cpu
    ]
    model = cpu.get("model name") or platform.processor() or platform.machine()
    return f"{model} [{' '.join(details)}]" if details else model


def total_memory() -> float:
    """Return the memory of this computer in bytes; 0 if it is unknown."""
    return _meminfo("MemTotal")


def _meminfo(name: str) -> float:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    values = (line.partition(":")[2] for line in lines if line.startswith(f"{name}:"))
    return next((_leading_number(value) * 1024 for value in values), 0.0)


def _leading_number(text: str) -> float:
    first = text.split()[:1]
    return float(first[0]) if first and first[0].isdigit() else 0.0


def _release() -> dict[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def _os_name() -> str:
    distribution = _release().get("NAME", "").split()[:1]
    return " ".join([platform.system(), *distribution])


def _container_engine() -> str:
    """Return the version of podman or docker, or an empty string if neither is available."""
    for command in (
        ("podman", "version", "--format", "{{.Client.Version}}"),
        # The version of the server, because the client alone cannot run containers.
        ("docker", "version", "--format", "{{.Server.Version}}"),
    ):
        path = shutil.which(command[0])
        if path is None:
            continue
        try:
            completed = subprocess.run(  # noqa: S603 - a program that the volunteer installed
                [path, *command[1:]],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_ENGINE_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        version = completed.stdout.strip()
        if completed.returncode == 0 and version[:1].isdigit():
            return version.split()[0]
    return ""


def _address() -> str:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def _speed(path: Path, now: float) -> dict[str, float]:
    """Return the speed of one processor in operations/s and the time of the measurement.

    The keys are `fpops`, `iops` and `measured_at`. The values are read from the file. If they are
    missing or older than five days, the speed is measured and stored.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        stored = json.loads(path.read_text())
        if 0 <= now - stored["measured_at"] < _BENCHMARK_VALID_SECONDS:
            return {name: float(stored[name]) for name in ("fpops", "iops", "measured_at")}
    speed = {"fpops": _measure_fpops(), "iops": _measure_iops(), "measured_at": now}
    path.write_text(json.dumps(speed))
    return speed


def _measure_fpops() -> float:
    """Return the measured floating-point operations per second of `math.dist`, a loop in C."""
    point = tuple(float(number) for number in range(4096))
    reversed_point = point[::-1]
    rounds, begin = 0, time.process_time()
    while (elapsed := time.process_time() - begin) < _BENCHMARK_SECONDS:
        math.dist(point, reversed_point)
        rounds += 1
    return rounds * len(point) * _OPERATIONS_PER_COORDINATE / elapsed


def _measure_iops() -> float:
    numbers = range(4096)
    rounds, begin = 0, time.process_time()
    while (elapsed := time.process_time() - begin) < _BENCHMARK_SECONDS:
        sum(numbers)
        rounds += 1
    return rounds * len(numbers) * 4 / elapsed
