"""Staff commands for plan classes: check, store, remove and try on hosts."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from scheduler.apps import plan_class_store
from scheduler.apps.plan_class_store import BadSpec, PlanClassInUse, UnknownHost, UnknownPlanClass
from scheduler.hosts.machines import Gpu, Machine
from scheduler.models import AuditEntry, Host, PlanClass
from tests.conftest import NOON
from tests.rows import a_host, an_app, an_app_version

pytestmark = pytest.mark.django_db

GPU = Gpu(kind="nvidia", count=1, name="RTX", ram_bytes=8e9, peak_flops=1e13, cuda_version=12020)


def write(name: str, text: str, **options: Any) -> plan_class_store.Written:
    return plan_class_store.write(name, text, source="spec.json", now=NOON, **options)


def run(*words: object) -> str:
    out = io.StringIO()
    call_command("plan_class", *(str(word) for word in words), stdout=out, stderr=io.StringIO())
    return out.getvalue().strip()


def run_json(*words: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*words, "--json"))
    return found


def refused(*words: object) -> CommandError:
    with pytest.raises(CommandError) as error:
        run(*words)
    return error.value


def a_recent_host(**fields: Any) -> Host:
    return a_host(rpc_at=timezone.now(), **fields)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mt.json"
    path.write_text('{"max_threads": 4, "nthreads_cmdline": true}')
    return path


class TestWrite:
    def test_a_valid_spec_is_stored_unchanged(self) -> None:
        done = write("mt", '{"max_threads": 4}')
        assert (done.created, done.changed, done.plan.max_threads) == (True, True, 4)
        row = PlanClass.objects.get()
        assert (row.name, row.spec, row.created_at) == ("mt", {"max_threads": 4}, NOON)

    def test_writing_the_same_spec_changes_nothing_and_a_new_spec_replaces_the_old(self) -> None:
        write("mt", '{"max_threads": 4}')
        assert write("mt", '{ "max_threads": 4 }').changed is False
        done = write("mt", '{"min_ncpus": 2}')
        assert (done.created, done.changed) == (False, True)
        assert PlanClass.objects.get().spec == {"min_ncpus": 2}

    def test_a_dry_run_stores_nothing(self) -> None:
        assert write("mt", "{}", dry_run=True).created
        assert not PlanClass.objects.exists()
        write("mt", "{}")
        assert write("mt", '{"max_threads": 4}', dry_run=True).changed
        assert PlanClass.objects.get().spec == {}

    @pytest.mark.parametrize(
        ("text", "lines"),
        [
            ("{\n  'a': 1}", ["spec.json:2: not JSON: Expecting property name enclosed in double"]),
            ("[]", ["spec.json:1: a plan class is one JSON object."]),
            (
                '{"max_threads": 1,\n "max_threads": 2}',
                ["spec.json:2: max_threads is repeated.", "Hint: remove all but one."],
            ),
            (
                '{\n  "max_thread": 4,\n  "docker": true,\n  "os_regex": "("\n}',
                [
                    "spec.json:2: Unknown key max_thread. Hint: did you mean max_threads?",
                    "spec.json:3: docker is true, but mt does not contain 'docker'.",
                    "spec.json:4: os_regex '(' is not a regular expression",
                ],
            ),
        ],
    )
    def test_a_bad_spec_is_refused_line_by_line_and_nothing_is_stored(
        self, text: str, lines: list[str]
    ) -> None:
        write("mt", "{}")
        with pytest.raises(BadSpec) as error:
            write("mt", text)
        messages = str(error.value).splitlines()
        assert len(messages) == len(lines)
        assert all(line.startswith(wanted) for line, wanted in zip(messages, lines, strict=True))
        assert PlanClass.objects.get().spec == {}


class TestRemove:
    def test_unused_plan_class_is_removed(self) -> None:
        write("mt", "{}")
        plan_class_store.remove("mt", now=NOON, dry_run=True)
        assert PlanClass.objects.exists()
        plan_class_store.remove("mt", now=NOON)
        assert not PlanClass.objects.exists()

    def test_creation_change_and_removal_are_in_the_audit_log(self) -> None:
        write("mt", "{}", dry_run=True)
        write("mt", "{}")
        write("mt", "{}")
        write("mt", '{"max_threads": 2}')
        plan_class_store.remove("mt", now=NOON, dry_run=True)
        plan_class_store.remove("mt", now=NOON)
        entries = AuditEntry.objects.filter(event="plan_class_changed", subject="plan class mt")
        assert list(entries.order_by("pk").values_list("details", flat=True)) == [
            {"added": True},
            {"changed": ["spec"]},
            {"deleted": True},
        ]

    def test_plan_class_of_an_app_version_is_not_removed(self) -> None:
        write("mt", "{}")
        an_app_version(an_app("sieve"), plan_class="mt", deprecated=True, version_num=123)
        with pytest.raises(PlanClassInUse, match=r"mt is named by 1 app version \(sieve 1\.23 "):
            plan_class_store.remove("mt", now=NOON)
        assert PlanClass.objects.exists()

    def test_removing_an_unknown_plan_class_is_refused_and_the_error_lists_existing_ones(
        self,
    ) -> None:
        with pytest.raises(UnknownPlanClass, match="create the first"):
            plan_class_store.remove("mt", now=NOON)
        write("mt", "{}")
        with pytest.raises(UnknownPlanClass, match=r"no plan class mtt\. Hint: there are mt\."):
            plan_class_store.remove("mtt", now=NOON)


class TestTry:
    def test_try_on_hosts_returns_the_hosts_that_fit_and_why_the_others_do_not(self) -> None:
        plan = write("mt", '{"min_ncpus": 4, "max_threads": 4}').plan
        big, small = a_host(p_ncpus=8), a_host(p_ncpus=2)
        a_host(p_ncpus=8, rpc_at=NOON - timedelta(days=31))
        a_host(p_ncpus=8, merged_into=big)
        trial = plan_class_store.try_on_hosts(plan, now=NOON)
        assert {pk: usage.avg_ncpus for pk, usage in trial.fit.items()} == {big.pk: 4}
        sentence = "4 CPUs are needed, but only 2 are available for use."
        assert trial.unfit == {small.pk: sentence}
        assert trial.reasons == [(sentence, 1)]

    def test_try_on_hosts_accepts_a_named_host_that_was_inactive_for_long(self) -> None:
        host = a_host(rpc_at=NOON - timedelta(days=400))
        trial = plan_class_store.try_on_hosts(write("mt", "{}").plan, host_id=host.pk, now=NOON)
        assert list(trial.fit) == [host.pk]
        with pytest.raises(UnknownHost, match=r"There is no host 999\."):
            plan_class_store.try_on_hosts(write("mt", "{}").plan, host_id=999, now=NOON)

    def test_machine_of_converts_all_stored_host_columns(self) -> None:
        stored = a_host(
            p_ncpus=8,
            p_fpops=2e9,
            m_nbytes=1e10,
            p_vendor="GenuineIntel",
            p_model="i7",
            p_features="AVX fma",
            os_name="Linux",
            os_version="12",
            client_version=80000,
            capabilities={
                "gpus": [GPU.as_json() | {"a key of": "later"}],
                "virtualbox": "7.0.10",
                "docker": "24",
                "wsl": True,
                "vm_extensions": True,
            },
        )
        assert plan_class_store.machine_of(Host.objects.get(pk=stored.pk)) == Machine(
            ncpus=8,
            fpops=2e9,
            memory_bytes=1e10,
            p_vendor="GenuineIntel",
            p_model="i7",
            p_features=frozenset({"avx", "fma"}),
            os_name="Linux",
            os_version="12",
            client_version=80000,
            virtualbox_version="7.0.10",
            docker_version="24",
            wsl=True,
            vm_extensions=True,
            gpus=(GPU,),
        )

    def test_excessive_gpu_values_are_capped_when_stored(self) -> None:
        """A client can send any number, but JSON cannot represent infinity."""
        boast = Gpu(kind="nvidia", ram_bytes=float("inf"), peak_flops=1e300)
        host = a_host(capabilities={"gpus": [boast.as_json()]})
        (gpu,) = plan_class_store.machine_of(Host.objects.get(pk=host.pk)).gpus
        assert (gpu.ram_bytes, gpu.peak_flops) == (1e18, 1e18)


class TestCommand:
    def test_set_prints_what_it_did_and_how_many_hosts_fit(self, file: Path) -> None:
        a_recent_host()
        would = run("set", "mt", file, "--dry-run")
        assert would.startswith("Would be created: plan class mt")
        assert not PlanClass.objects.exists()
        assert run("set", "mt", file) == (
            "Created: plan class mt, used by 0 app versions; 1 of 1 host can run it."
        )
        again = run_json("set", "mt", file)
        assert (again["created"], again["changed"], again["hosts_fit"]) == (False, False, 1)

    def test_set_refuses_a_bad_spec_with_its_file_and_line(self, file: Path) -> None:
        file.write_text('{\n"max_thread": 4}')
        assert str(refused("set", "mt", file)).startswith(f"{file}:2: Unknown key max_thread.")
        assert "cannot be read" in str(refused("set", "mt", file.with_name("none.json")))

    def test_list_and_show_print_specs_and_list_warns_about_undefined_plan_classes(
        self, file: Path
    ) -> None:
        assert run("list").startswith("There is no plan class. Hint: ")
        run("set", "mt", file)
        an_app_version(an_app("sieve"), plan_class="cuda12", version_num=100)
        report = run_json("list")
        assert [(one["name"], one["app_versions"]) for one in report["plan_classes"]] == [
            ("cuda12", 1),
            ("mt", 0),
        ]
        (warning,) = report["warnings"]
        assert warning.startswith("Plan class cuda12 is not defined, so no host can run the 1 app")
        assert json.loads(run("show", "mt")) == json.loads(file.read_text())
        assert "There is no plan class cuda12" in str(refused("show", "cuda12"))

    def test_remove_deletes_a_plan_class_or_reports_the_app_versions_that_use_it(
        self, file: Path
    ) -> None:
        run("set", "mt", file)
        assert run("remove", "mt", "--dry-run").startswith("Would remove plan class mt")
        version = an_app_version(an_app("sieve"), plan_class="mt")
        assert "mt is named by 1 app version" in str(refused("remove", "mt"))
        version.delete()
        assert run("remove", "mt") == "Removed plan class mt; no app version uses it."
        assert not PlanClass.objects.exists()

    def test_try_shows_the_usage_on_one_host(self, file: Path) -> None:
        run("set", "mt", file)
        host = a_recent_host(p_ncpus=2, p_fpops=3e9)
        assert run("try", "mt", "--host", host.pk) == (
            f"Host {host.pk} can run it, using 2 CPUs, with --nthreads 2; "
            "projected 6.00 GFLOPS, at best 6.00."
        )
        file.write_text('{"min_ncpus": 4, "max_threads": 4}')
        sentence = "4 CPUs are needed, but only 2 are available for use."
        assert run("try", "mt", file, "--host", host.pk) == (
            f"Host {host.pk} cannot run it: {sentence}"
        )
        assert run("try", "mt", file).splitlines() == [
            "0 of 1 host of the last 30 days can run mt.",
            f"     1  {sentence}",
        ]
        assert run_json("try", "mt")["fit"][str(host.pk)]["cmdline"] == "--nthreads 2"

    def test_try_prints_the_gpu_usage(self, file: Path) -> None:
        host = a_recent_host(capabilities={"gpus": [GPU.as_json()]})
        file.write_text('{"gpu_type": "nvidia", "cuda": true}')
        output = run("try", "cuda12", file, "--host", host.pk)
        assert "and 1 nvidia GPU; projected" in output

    @pytest.mark.parametrize("words", [("set", "mt"), ("show",), ("remove",), ("try",)])
    def test_missing_arguments_exit_with_status_2(self, words: tuple[str, ...]) -> None:
        assert refused(*words).returncode == 2
