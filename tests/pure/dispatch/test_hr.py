"""The homogeneous redundancy class of a host, from its system and processor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.dispatch.rules import homogeneous_redundancy as rules
from scheduler.dispatch.rules.homogeneous_redundancy import (
    COARSE,
    FINE,
    NONE,
    UNKNOWN,
    hr_class,
    label,
)

LINUX, WINDOWS, DARWIN, FREEBSD, ANDROID = 256, 384, 512, 640, 768


def of(hr_type: int, os_name: str, vendor: str, model: str = "") -> int:
    return hr_class(hr_type, os_name=os_name, p_vendor=vendor, p_model=model)


@pytest.mark.parametrize(
    ("os_name", "vendor", "model", "expected"),
    [
        ("Linux Debian", "GenuineIntel", "Intel(R) Core(TM) i7", LINUX + 2),
        ("Linux Debian", "AuthenticAMD", "AMD Ryzen 9", LINUX + 2),
        ("Microsoft Windows 11", "GenuineIntel", "Intel(R) Xeon(R)", WINDOWS + 2),
        ("Darwin", "GenuineIntel", "Intel(R) Core(TM) i5", DARWIN + 2),
        ("Darwin", "Power Macintosh", "PowerMac7,3", DARWIN + 4),
        ("Darwin", "Apple", "Apple M2 Pro", DARWIN + 22),
        ("FreeBSD", "AuthenticAMD", "AMD EPYC", FREEBSD + 2),
        ("Android", "ARM", "ARMv8 Processor", ANDROID + 22),
        ("Linux", "", "ARMv7 Processor rev 4", LINUX + 22),
        ("Linux", "", "aarch64 Cortex-A72", LINUX + 22),
    ],
)
def test_coarse_hr_class_is_operating_system_and_architecture(os_name, vendor, model, expected):
    assert of(COARSE, os_name, vendor, model) == expected


@pytest.mark.parametrize(
    ("vendor", "model", "expected"),
    [
        ("GenuineIntel", "Intel(R) Xeon(R) CPU E5", 11),
        ("GenuineIntel", "Intel(R) Celeron(R) CPU", 12),
        ("GenuineIntel", "Intel(R) Celeron(R) M CPU", 18),
        ("GenuineIntel", "Intel(R) Celeron(R) D CPU", 17),
        ("GenuineIntel", "Intel(R) Core(TM)2 Duo", 21),
        ("GenuineIntel", "Intel(R) Pentium(R) III CPU", 15),
        ("GenuineIntel", "Intel Pentium II", 14),
        ("GenuineIntel", "Intel(R) Pentium(R) 4 CPU", 16),
        ("GenuineIntel", "Intel(R) Pentium(R) D CPU", 17),
        ("GenuineIntel", "Intel(R) Pentium(R) M", 18),
        ("GenuineIntel", "Pentium", 13),
        ("GenuineIntel", "x86 Family 6 Model 8 Stepping 3", 15),
        ("GenuineIntel", "x86 Family 6 Model 10 Stepping 1", 11),
        ("GenuineIntel", "x86 Family 6 Model 11 Stepping 1", 15),
        ("GenuineIntel", "x86 Family 6 Model 12 Stepping 1", 2),
        ("GenuineIntel", "something new", 2),
        ("AuthenticAMD", "AMD Duron(tm)", 6),
        ("AuthenticAMD", "AMD Opteron(tm)", 8),
        ("AuthenticAMD", "AMD Athlon(tm) XP 2400+", 10),
        ("AuthenticAMD", "AMD Athlon(tm) MP", 19),
        ("AuthenticAMD", "AMD Athlon(tm) 64 X2", 9),
        ("AuthenticAMD", "AMD Athlon(tm)", 5),
        ("AuthenticAMD", "AMD Turion(tm) 64", 20),
        ("AuthenticAMD", "AMD Sempron(tm)", 7),
        ("AuthenticAMD", "AMD EPYC 7543", 23),
        ("AuthenticAMD", "AMD Ryzen 5 3600", 24),
        ("AuthenticAMD", "something new", 3),
        ("Power Macintosh", "", 4),
        ("ARM", "", 22),
    ],
)
def test_fine_hr_class_distinguishes_processor_families(vendor, model, expected):
    assert of(FINE, "Linux", vendor, model) == LINUX + expected


@pytest.mark.parametrize("hr_type", [FINE, COARSE])
@pytest.mark.parametrize(
    ("os_name", "vendor", "model"),
    [
        ("", "GenuineIntel", "Core"),
        ("Haiku", "GenuineIntel", "Core"),
        ("Linux", "", ""),
        ("Linux", "RISC-V", "Charming"),
    ],
)
def test_unrecognized_host_has_no_hr_class(hr_type, os_name, vendor, model):
    assert of(hr_type, os_name, vendor, model) == UNKNOWN


def test_app_without_homogeneous_redundancy_has_no_hr_class():
    assert of(NONE, "Linux", "GenuineIntel", "Core") == UNKNOWN


@given(
    hr_type=st.sampled_from([FINE, COARSE]),
    os_name=st.sampled_from(["Linux", "windows", "DARWIN", "FreeBSD", "android"]),
    vendor=st.sampled_from(["GenuineIntel", "AuthenticAMD", "ARM", "Macintosh"]),
    model=st.text(),
)
def test_hr_class_encodes_one_operating_system_and_one_processor(hr_type, os_name, vendor, model):
    """BOINC's coding: 128 * operating system + processor, both numbered from 2."""
    system, processor = divmod(of(hr_type, os_name, vendor, model), 128)
    assert 2 <= system <= 6
    assert 2 <= processor <= 24


@pytest.mark.parametrize(
    ("hr_type", "hardware", "expected"),
    [
        (FINE, ("Linux", "GenuineIntel", "Intel(R) Core(TM) i7"), "Linux, Intel Core"),
        (COARSE, ("Linux", "AuthenticAMD", "AMD Ryzen 9"), "Linux, Intel or AMD"),
        (FINE, ("Windows", "GenuineIntel", "unnamed"), "Windows, Intel"),
        (FINE, ("Android", "ARM", "ARMv8"), "Android, ARM"),
        (COARSE, ("Darwin", "Power Macintosh", "PowerMac7,3"), "macOS, PowerPC"),
        (FINE, ("Plan 9", "", ""), "any class"),
    ],
)
def test_class_has_a_label_in_words(hr_type, hardware, expected):
    assert label(hr_type, of(hr_type, *hardware)) == expected


def test_each_class_of_the_tables_has_a_label_of_its_own():
    processors = {number for _, number in (*rules._INTEL_FAMILIES, *rules._AMD_FAMILIES)}
    processors |= {*rules._INTEL_NUMBERS.values(), 2, 3, 4, 22}
    classes = {system + each for system in rules.SYSTEMS.values() for each in processors}
    labels = {label(FINE, number) for number in classes}
    assert len(labels) == len(classes)
    assert not [text for text in labels if text.startswith("class ")]
    assert label(FINE, 9999) == "class 9999"
