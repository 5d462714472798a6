"""Rules of plan classes: the requirements of an app version on a host."""

from __future__ import annotations

from tests.mutate.switching import Code, Switch, always

TESTS = ("tests/pure/dispatch/test_plan_classes.py",)

_REQUIREMENTS = (
    ("A plan class may ask for: operating system", "scheduler.dispatch.rules.plan_classes:os_fits"),
    (
        "A plan class may ask for: processor's vendor",
        "scheduler.dispatch.rules.plan_classes:vendor_fits",
    ),
    (
        "A plan class may ask for: processor's model",
        "scheduler.dispatch.rules.plan_classes:model_fits",
    ),
    (
        "A plan class may ask for: processor's features",
        "scheduler.dispatch.rules.plan_classes:features_fit",
    ),
    ("A plan class may ask for: C library", "scheduler.dispatch.rules.plan_classes:libc_fits"),
    (
        "A plan class may ask for: client's version",
        "scheduler.dispatch.rules.plan_classes:client_fits",
    ),
    (
        "A plan class may ask for: number of CPUs",
        "scheduler.dispatch.rules.plan_classes:threads_fit",
    ),
    ("A plan class may ask for: memory", "scheduler.dispatch.rules.plan_classes:memory_fits"),
    (
        "A plan class may ask for: VirtualBox",
        "scheduler.dispatch.rules.plan_classes:virtualbox_fits",
    ),
    (
        "A plan class may ask for: acceleration of virtual machines",
        "scheduler.dispatch.rules.plan_classes:acceleration_fits",
    ),
    (
        "A plan class may ask for: Linux under Windows",
        "scheduler.dispatch.rules.plan_classes:wsl_fits",
    ),
    ("A plan class may ask for: Docker", "scheduler.dispatch.rules.plan_classes:docker_fits"),
    (
        "A plan class may ask for: a GPU's name",
        "scheduler.dispatch.rules.plan_class_gpus:gpu_name_fits",
    ),
    (
        "A plan class may ask for: a number of GPUs",
        "scheduler.dispatch.rules.plan_class_gpus:gpu_count_fits",
    ),
    (
        "A plan class may ask for: a CUDA version",
        "scheduler.dispatch.rules.plan_class_gpus:cuda_fits",
    ),
    (
        "A plan class may ask for: a compute capability",
        "scheduler.dispatch.rules.plan_class_gpus:compcap_fits",
    ),
    (
        "A plan class may ask for: an OpenCL version",
        "scheduler.dispatch.rules.plan_class_gpus:opencl_fits",
    ),
    ("A plan class may ask for: ROCm", "scheduler.dispatch.rules.plan_class_gpus:rocm_fits"),
    (
        "A plan class may ask for: a GPU driver",
        "scheduler.dispatch.rules.plan_class_gpus:driver_fits",
    ),
    (
        "A plan class may ask for: GPU memory",
        "scheduler.dispatch.rules.plan_class_gpus:gpu_memory_fits",
    ),
    (
        "A plan class may ask for: a GPU's speed",
        "scheduler.dispatch.rules.plan_class_gpus:gpu_speed_fits",
    ),
)


RULES = (
    Switch(
        "A version is published only if its plan class is defined",
        Code("scheduler.apps.programs:_is_defined", always(True)),
        ("tests/database/apps/test_app_versions.py", "tests/database/apps/test_import_apps.py"),
    ),
    *(Switch(rule, Code(where, always("")), TESTS) for rule, where in _REQUIREMENTS),
    Switch(
        "Invalid values in a plan class are refused",
        Code("scheduler.dispatch.rules.plan_class_specs:_misfit", always(None)),
        TESTS,
    ),
    Switch(
        "Contradictions in a plan class are refused",
        Code("scheduler.dispatch.rules.plan_class_specs:_contradictions", always([])),
        TESTS,
    ),
    Switch(
        "A plan class in use cannot be deleted",
        Code("scheduler.apps.plan_class_store:users_of", always(())),
        ("tests/database/apps/test_plan_classes.py",),
    ),
    Switch(
        "Homogeneous redundancy classes differ by operating system",
        Code("scheduler.dispatch.rules.homogeneous_redundancy:_system", always(256)),
        ("tests/pure/dispatch/test_hr.py",),
    ),
    Switch(
        "Coarse homogeneous redundancy classes differ by processor architecture",
        Code("scheduler.dispatch.rules.homogeneous_redundancy:_coarse", always(2)),
        ("tests/pure/dispatch/test_hr.py",),
    ),
    Switch(
        "Fine homogeneous redundancy classes differ by processor family",
        Code("scheduler.dispatch.rules.homogeneous_redundancy:_fine", always(2)),
        ("tests/pure/dispatch/test_hr.py",),
    ),
    Switch(
        "The census divides hosts into size classes of equal numbers",
        Code("scheduler.dispatch.rules.size_classes:boundaries", always([])),
        ("tests/pure/dispatch/test_size_classes.py",),
    ),
    Switch(
        "A venue's preferences replace the general ones",
        Code("scheduler.boinc.wire.stored_prefs:in_force", lambda nodes, *_args: nodes),
        ("tests/pure/boinc/test_project_prefs.py",),
    ),
    Switch(
        "Preferences that clients cannot read are not sent",
        Code("scheduler.boinc.wire.stored_prefs:sendable", lambda text, _form: text),
        ("tests/pure/boinc/test_stored_prefs.py",),
    ),
    Switch(
        "Preferences without settings for a location are not sent to its computers",
        Code("scheduler.boinc.wire.stored_prefs:has_settings", always(True)),
        ("tests/security/test_preferences_pages.py",),
    ),
)
