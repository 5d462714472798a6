"""Plan classes: their syntax, the hosts that qualify, and the resource usage."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.dispatch.rules.plan_classes import KEYS, BadPlanClass, parse, usage
from scheduler.hosts.machines import Gpu, Machine, Usage

PAGE = (Path(__file__).parents[3] / "docs" / "plan-classes.md").read_text(encoding="utf-8")

LINUX = Machine(
    ncpus=8,
    fpops=2e9,
    memory_bytes=8 * 2**30,
    p_vendor="GenuineIntel",
    p_model="Intel(R) Core(TM) i7-8700",
    p_features=frozenset({"avx", "avx2", "fma", "vmx"}),
    os_name="Linux Debian",
    os_version="Debian GNU/Linux 12 [6.1.0|libc 2.36]",
    client_version=80000,
    virtualbox_version="7.0.10",
    vm_extensions=True,
    docker_version="24.0.5",
)
WINDOWS = replace(LINUX, os_name="Microsoft Windows 11", os_version="Professional x64", wsl=True)
MAC = replace(LINUX, os_name="Darwin", os_version="23.1.0", client_version=80206)

NVIDIA = Gpu(
    kind="nvidia",
    count=2,
    name="NVIDIA GeForce RTX 3060",
    ram_bytes=12 * 2**30,
    peak_flops=10e12,
    driver_version=53518,
    cuda_version=12020,
    compute_capability=806,
    opencl_version=300,
    opencl_driver="535.183",
)
AMD = Gpu(kind="amd", ram_bytes=8 * 2**30, opencl_version=200, opencl_driver="3513.0 (HSA1.1,LC)")
INTEL = Gpu(kind="intel", ram_bytes=2**30, opencl_version=300, peak_flops=4e11)
APPLE = Gpu(kind="apple", ram_bytes=16 * 2**30, opencl_version=102)

CUDA = {"gpu_type": "nvidia", "cuda": True}


def name_for(spec: dict[str, Any]) -> str:
    """Return a name for the plan class that contains the words that clients expect."""
    words = ("docker", "wsl", "opencl", "cuda")
    return "_".join(["x", *(word for word in words if spec.get(word))]) + (
        "_vbox64" if spec.get("virtualbox") else ""
    )


def ask(machine: Machine, **spec: Any) -> Usage | str:
    return usage(parse(name_for(spec), spec), machine)


def with_gpu(*gpus: Gpu) -> Machine:
    return replace(LINUX, gpus=gpus)


# Requirements

OLD_DRIVER = "Upgrade to the latest driver to process tasks using your computer's GPU"

CAN = [
    (LINUX, {}),
    (LINUX, {"os_regex": "^Linux"}),
    (LINUX, {"os_regex": "Debian GNU/Linux 1[23]"}),
    (LINUX, {"cpu_vendor_regex": "Intel|AMD"}),
    (LINUX, {"cpu_model_regex": r"i[79]-\d+"}),
    (LINUX, {"cpu_features": ["AVX2", "fma"]}),
    (LINUX, {"min_libc_version": 236}),
    (LINUX, {"min_core_client_version": 80000, "max_core_client_version": 80000}),
    (LINUX, {"min_ncpus": 8, "max_threads": 8}),
    (LINUX, {"mem_usage_base_mb": 4096, "mem_usage_per_cpu_mb": 4096}),
    (LINUX, {"virtualbox": True, "min_vbox_version": 70010, "max_vbox_version": 70010}),
    (LINUX, {"virtualbox": True, "vm_accel_required": True}),
    (LINUX, {"docker": True}),
    (WINDOWS, {"docker": True}),
    (MAC, {"docker": True}),
    (WINDOWS, {"wsl": True}),
    (with_gpu(NVIDIA), CUDA | {"min_cuda_version": 12020, "max_cuda_version": 12020}),
    (with_gpu(NVIDIA), CUDA | {"min_nvidia_compcap": 806, "max_nvidia_compcap": 806}),
    (with_gpu(NVIDIA), CUDA | {"min_driver_version": 53518, "max_driver_version": 53518}),
    (with_gpu(NVIDIA), CUDA | {"min_gpu_ram_mb": 12 * 1024}),
    (with_gpu(NVIDIA), CUDA | {"ngpus": 2}),
    (with_gpu(NVIDIA), CUDA | {"min_gpu_peak_flops": 1e13, "max_gpu_peak_flops": 1e13}),
    (with_gpu(NVIDIA), CUDA | {"gpu_name_regex": "RTX"}),
    (with_gpu(replace(NVIDIA, driver_version=0)), CUDA | {"min_driver_version": 60000}),
    (with_gpu(NVIDIA), {"gpu_type": "nvidia", "opencl": True, "min_opencl_version": 300}),
    (with_gpu(INTEL, AMD), {"gpu_type": "amd", "opencl": True, "rocm": True}),
    (with_gpu(AMD), {"gpu_type": "amd", "opencl": True, "opencl_driver_regex": "HSA"}),
    (with_gpu(AMD), {"gpu_type": "amd", "min_gpu_peak_flops": 1e12}),
    (with_gpu(INTEL), {"gpu_type": "intel", "ngpus": 0.5}),
    (with_gpu(APPLE), {"gpu_type": "apple", "opencl": True, "max_opencl_version": 102}),
]

CANNOT = [
    (LINUX, {"os_regex": "^Darwin"}, "These tasks are not for your operating system (Linux De"),
    (LINUX, {"cpu_vendor_regex": "AMD"}, "These tasks are not for your processor's vendor (Gen"),
    (LINUX, {"cpu_model_regex": "Xeon"}, "These tasks are not for your processor's model (Int"),
    (LINUX, {"cpu_features": ["avx512f", "avx"]}, "Your processor lacks avx512f."),
    (LINUX, {"min_libc_version": 238}, "Your computer's C library is older than 2.38."),
    (WINDOWS, {"min_libc_version": 200}, "Your computer's C library is older than 2.00."),
    (
        LINUX,
        {"min_core_client_version": 80001},
        "A newer BOINC may be required for some tasks.",
    ),
    (LINUX, {"max_core_client_version": 79999}, "An older BOINC is required for some tasks."),
    (
        LINUX,
        {"min_ncpus": 9, "max_threads": 9},
        "9 CPUs are needed, but only 8 are available for use.",
    ),
    (
        LINUX,
        {"mem_usage_base_mb": 4096, "mem_usage_per_cpu_mb": 4097},
        "8193.00 MB RAM is needed but only 8192.00 MB is available for use.",
    ),
    (
        replace(LINUX, client_version=61200),
        {"virtualbox": True},
        "BOINC client 7.0+ required for Virtualbox jobs",
    ),
    (replace(LINUX, virtualbox_version=""), {"virtualbox": True}, "VirtualBox is not installed"),
    (
        replace(LINUX, virtualbox_version="7.0.10 (unusable)"),
        {"virtualbox": True},
        "VirtualBox is not usable",
    ),
    (LINUX, {"virtualbox": True, "min_vbox_version": 70011}, "VirtualBox 7.0.10 does not suit"),
    (LINUX, {"virtualbox": True, "max_vbox_version": 70009}, "VirtualBox 7.0.10 does not suit"),
    (LINUX, {"virtualbox": True, "exclude_vbox_version": [70010]}, "VirtualBox 7.0.10 does"),
    (
        replace(LINUX, vm_extensions=False),
        {"virtualbox": True, "vm_accel_required": True},
        "Hardware acceleration of virtual machines is missing",
    ),
    (
        replace(LINUX, p_features=frozenset()),
        {"virtualbox": True, "vm_accel_required": True},
        "Hardware acceleration of virtual machines is missing",
    ),
    (LINUX, {"wsl": True}, "No WSL distros found"),
    (replace(LINUX, docker_version=""), {"docker": True}, "Docker not present"),
    (replace(WINDOWS, wsl=False), {"docker": True}, "No usable WSL distros found"),
    (replace(MAC, client_version=80205), {"docker": True}, "Docker jobs need 8.2.6+ client"),
    (LINUX, CUDA, "No NVIDIA GPUs found"),
    (with_gpu(AMD), CUDA, "No NVIDIA GPUs found"),
    (with_gpu(replace(NVIDIA, count=0)), CUDA, "No NVIDIA GPUs found"),
    (
        with_gpu(replace(NVIDIA, cuda_version=0)),
        CUDA,
        "App version needs CUDA but GPU doesn't support it",
    ),
    (with_gpu(NVIDIA), CUDA | {"min_cuda_version": 12021}, OLD_DRIVER),
    (with_gpu(NVIDIA), CUDA | {"max_cuda_version": 12019}, "Your GPU's CUDA version is too new"),
    (
        with_gpu(NVIDIA),
        CUDA | {"min_nvidia_compcap": 900},
        "Your GPU's compute capability 8.6 is below 9.0.",
    ),
    (
        with_gpu(NVIDIA),
        CUDA | {"max_nvidia_compcap": 700},
        "Your GPU's compute capability is too new",
    ),
    (with_gpu(NVIDIA), CUDA | {"min_driver_version": 53519}, OLD_DRIVER),
    (with_gpu(NVIDIA), CUDA | {"max_driver_version": 53517}, "Your GPU's driver is too new"),
    (
        with_gpu(NVIDIA),
        CUDA | {"min_gpu_ram_mb": 12289},
        "A minimum of 12289 MB of video RAM is needed to process tasks using your computer's NVID",
    ),
    (with_gpu(NVIDIA), CUDA | {"ngpus": 3}, "3 NVIDIA GPUs are needed, but there are 2."),
    (with_gpu(NVIDIA), CUDA | {"min_gpu_peak_flops": 2e13}, "Your GPU is too slow"),
    (with_gpu(NVIDIA), CUDA | {"max_gpu_peak_flops": 1e12}, "Your GPU is needed for other tasks."),
    (with_gpu(NVIDIA), CUDA | {"gpu_name_regex": "Tesla"}, "These tasks are not for your GPU's"),
    (
        with_gpu(replace(AMD, opencl_version=0)),
        {"gpu_type": "amd", "opencl": True},
        "App version needs OpenCL but GPU doesn't support it",
    ),
    (
        with_gpu(AMD),
        {"gpu_type": "amd", "opencl": True, "min_opencl_version": 201},
        OLD_DRIVER,
    ),
    (
        with_gpu(AMD),
        {"gpu_type": "amd", "opencl": True, "max_opencl_version": 102},
        "Your GPU's OpenCL version is too new for these tasks.",
    ),
    (
        with_gpu(AMD),
        {"gpu_type": "amd", "opencl": True, "opencl_driver_regex": "^2"},
        "These tasks are not for your OpenCL driver (3513.0 (HSA1.1,LC)).",
    ),
    (
        with_gpu(replace(AMD, opencl_driver="3110.6")),
        {"gpu_type": "amd", "rocm": True},
        "Install AMD's ROCm to process tasks using your computer's GPU",
    ),
    (with_gpu(NVIDIA), {"gpu_type": "intel"}, "No Intel GPUs found"),
    (with_gpu(NVIDIA), {"gpu_type": "apple"}, "No Apple GPUs found"),
]


@pytest.mark.parametrize(("machine", "spec"), CAN)
def test_host_that_meets_every_requirement_can_run_the_plan_class(machine, spec):
    assert isinstance(ask(machine, **spec), Usage)


@pytest.mark.parametrize(("machine", "spec", "sentence"), CANNOT)
def test_refusal_names_the_unmet_requirement(machine, spec, sentence):
    said = ask(machine, **spec)
    assert isinstance(said, str)
    assert said.startswith(sentence)


def test_every_requirement_key_has_a_test_case_that_refuses_it():
    """Without a test of its requirement, a key could be removed unnoticed."""
    asked = {key for _machine, spec, *_ in CANNOT for key in spec}
    how_much = {
        "nthreads_cmdline",
        "avg_ncpus",
        "gpu_ram_used_mb",
        "cpu_frac",
        "gpu_peak_flops_scale",
        "projected_flops_scale",
    }
    assert asked | how_much >= set(KEYS)


# Resource usage


@pytest.mark.parametrize(
    ("spec", "ncpus", "cmdline"),
    [
        ({}, 1, ""),
        ({"max_threads": 4}, 4, ""),
        ({"max_threads": 64}, 8, ""),
        ({"max_threads": 4, "nthreads_cmdline": True}, 4, "--nthreads 4"),
        ({"avg_ncpus": 0.1}, 0.1, ""),
        ({"avg_ncpus": 2.5, "nthreads_cmdline": True}, 2.5, "--nthreads 2"),
        (
            {"max_threads": 8, "mem_usage_base_mb": 2048, "mem_usage_per_cpu_mb": 2000},
            3,
            "--memory_size_mb 8048",
        ),
        ({"virtualbox": True, "max_threads": 4}, 4, ""),
    ],
)
def test_cpu_program_uses_as_many_threads_as_fit(spec, ncpus, cmdline):
    assert ask(LINUX, **spec) == Usage(
        avg_ncpus=ncpus, peak_flops=2e9 * ncpus, projected_flops=2e9 * ncpus, cmdline=cmdline
    )


def test_virtual_machine_without_acceleration_uses_one_processor():
    machine = replace(LINUX, vm_extensions=False)
    found = ask(machine, virtualbox=True, max_threads=4)
    assert isinstance(found, Usage)
    assert found.avg_ncpus == 1


def test_projected_flops_scale_lowers_the_projected_speed():
    found = ask(LINUX, max_threads=4, projected_flops_scale=0.5)
    assert isinstance(found, Usage)
    assert (found.peak_flops, found.projected_flops) == (8e9, 4e9)


def test_projected_speed_adds_cpu_time_and_gpu_time():
    """A tenth of the work by a CPU of 2 GFLOPS, the rest by half a GPU of 10 TFLOPS."""
    found = ask(with_gpu(NVIDIA), **CUDA, ngpus=0.5, gpu_peak_flops_scale=0.2, gpu_ram_used_mb=512)
    assert isinstance(found, Usage)
    gpu = 0.5 * 0.2 * 10e12
    seconds_per_flop = 0.1 / 2e9 + 0.9 / gpu
    assert found.projected_flops == pytest.approx(1 / seconds_per_flop)
    assert found.avg_ncpus == pytest.approx(0.1 / 2e9 / seconds_per_flop)
    assert found.peak_flops == pytest.approx(gpu + found.avg_ncpus * 2e9)
    assert (found.gpu_kind, found.gpu_count, found.gpu_ram) == ("nvidia", 0.5, 512 * 2**20)


def test_gpu_of_unknown_speed_gets_the_speed_of_the_cpu():
    found = ask(with_gpu(APPLE), gpu_type="apple", cpu_frac=0.25, min_gpu_ram_mb=100)
    assert isinstance(found, Usage)
    assert (found.avg_ncpus, found.projected_flops) == (0.25, 2e9)
    assert found.gpu_ram == 100 * 2**20


@given(
    fpops=st.floats(0),
    peak=st.floats(0),
    cpu_frac=st.floats(0, 1),
    ngpus=st.floats(0.01, 2),
)
def test_usage_is_always_positive_and_never_above_the_peak(fpops, peak, cpu_frac, ngpus):
    machine = replace(LINUX, fpops=fpops, gpus=(replace(NVIDIA, peak_flops=peak),))
    found = ask(machine, **CUDA, cpu_frac=cpu_frac, ngpus=ngpus)
    assert isinstance(found, Usage)
    assert 0 <= found.avg_ncpus <= 1.000001
    assert 1e3 < found.projected_flops <= found.peak_flops * 1.000001 < 1e20


# Syntax


@pytest.mark.parametrize(
    ("name", "spec", "sentence"),
    [
        ("mt", {"max_thread": 4}, "Unknown key max_thread. Hint: did you mean max_threads?"),
        ("mt", {"zzz": 4}, "Unknown key zzz. Hint: docs/plan-classes.md has every key."),
        ("mt", {"max_threads": "4"}, "max_threads is '4'. Hint: give a whole number, without"),
        ("mt", {"max_threads": 4.5}, "max_threads is 4.5. Hint: give a whole number, without"),
        ("mt", {"max_threads": True}, "max_threads is True. Hint: give a whole number"),
        (
            "mt",
            {"max_threads": 0},
            "max_threads is 0. Hint: give more than 0, or leave it out for 1.",
        ),
        ("mt", {"min_ncpus": -1}, "min_ncpus is -1. Hint: give a number from 0."),
        ("mt", {"avg_ncpus": float("nan")}, "avg_ncpus is nan. Hint: give a number from 0."),
        ("mt", {"nthreads_cmdline": 1}, "nthreads_cmdline is 1. Hint: write true or false."),
        ("mt", {"os_regex": "("}, "os_regex '(' is not a regular expression: missing )"),
        ("mt", {"cpu_model_regex": ""}, "cpu_model_regex is ''. Hint: give a regular expression"),
        ("mt", {"cpu_vendor_regex": 3}, "cpu_vendor_regex is 3. Hint: give a regular expression"),
        ("mt", {"cpu_features": "avx"}, "cpu_features is 'avx'. Hint: give a list of words, such"),
        ("mt", {"cpu_features": [""]}, "cpu_features is ['']. Hint: give a list of words, such"),
        (
            "vbox64",
            {"virtualbox": True, "exclude_vbox_version": ["5"]},
            "exclude_vbox_version is ['5']. Hint: give a list of versions, such as [50010].",
        ),
        ("g", {"gpu_type": "nvidea"}, "gpu_type is 'nvidea'. Hint: write nvidia."),
        ("g", {"gpu_type": "ati"}, "gpu_type is 'ati'. Hint: write amd."),
        ("g", {"gpu_type": 7}, "gpu_type is 7. Hint: write nvidia or amd or intel or apple."),
        ("g", {"gpu_type": "amd", "cpu_frac": 1.5}, "cpu_frac is 1.5. Hint: give the share of the"),
        ("mt", {"min_ncpus": 4, "max_threads": 2}, "max_threads 2 is below min_ncpus 4."),
        ("mt", {"min_ncpus": 4}, ""),
        ("mt", {"ngpus": 1}, "ngpus has no effect without gpu_type. Hint: add it."),
        ("cuda", {"cuda": True}, "cuda has no effect without gpu_type nvidia. Hint: add it."),
        (
            "g",
            {"gpu_type": "nvidia", "min_cuda_version": 12000},
            "min_cuda_version has no effect without cuda true. Hint: add it.",
        ),
        (
            "g",
            {"gpu_type": "nvidia", "max_threads": 4},
            "gpu_type and max_threads exclude each other. Hint: drop one.",
        ),
        (
            "docker_vbox",
            {"docker": True, "virtualbox": True},
            "docker and virtualbox exclude each other. Hint: drop one.",
        ),
        (
            "mt",
            {"docker": True},
            "docker is true, but mt does not contain 'docker'. Hint: name it mt_docker; clients",
        ),
        (
            "vbox64",
            {},
            "vbox64 contains 'vbox', but virtualbox is not true. Hint: add it, or choose another",
        ),
        ("simulation", {"gpu_type": "amd"}, "simulation contains 'ati'. Hint: choose another name"),
        (
            "my class",
            {},
            "'my class' is not a valid name. Hint: use 1 to 60 letters, digits, _ . + -.",
        ),
    ],
)
def test_fault_in_a_spec_is_refused_with_a_remedy(name, spec, sentence):
    if not sentence:
        parse(name, spec)
        return
    with pytest.raises(BadPlanClass) as refused:
        parse(name, spec)
    assert str(refused.value).startswith(sentence)
    assert len(refused.value.problems) == 1


def test_all_faults_are_reported_at_once_with_their_keys():
    with pytest.raises(BadPlanClass) as refused:
        parse("mt", {"max_thread": 4, "os_regex": "(", "docker": True})
    assert [key for key, _ in refused.value.problems] == ["max_thread", "os_regex", "docker"]


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text())


@given(st.text(), st.dictionaries(st.sampled_from(KEYS) | st.text(), VALUES))
def test_any_spec_is_parsed_or_refused(name, spec):
    try:
        plan = parse(name, spec)
    except BadPlanClass as refused:
        verdict: object = str(refused)
    else:
        verdict = usage(plan, with_gpu(NVIDIA))
    assert isinstance(verdict, Usage | str)
    assert verdict


# The documentation


def test_documentation_page_lists_exactly_the_known_keys():
    assert sorted(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == sorted(KEYS)


def test_examples_on_the_documentation_page_parse_as_plan_classes():
    examples = re.findall(r"^`(\w+)`[^\n]*\n\n```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(examples) >= 4
    for name, text in examples:
        assert parse(name, json.loads(text)).name == name
