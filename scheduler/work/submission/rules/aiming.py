"""Checks whether workunits fit their app and their targets [pure].

Source: BOINC's rules for assigned work.  A targeted workunit is sent only to its target.  A
broadcast workunit is sent to every host, so that its results cannot be compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from scheduler.work.submission.facts import Addressees, AppRules, NewWorkunit
from scheduler.work.submission.rules.new_workunits import Fault

#: The validator that accepts every result without a comparison.
_ACCEPTS_EVERY_RESULT = "trivial"


def _targets(workunit: NewWorkunit) -> dict[str, int]:
    """Return the ids of the host, account and team that the workunit is restricted to."""
    targets = {
        "host": workunit.target_host,
        "account": workunit.target_account,
        "team": workunit.target_team,
    }
    return {kind: id_ for kind, id_ in targets.items() if id_ is not None}


def faults(
    workunits: Sequence[NewWorkunit], *, app: AppRules, addressees: Addressees
) -> dict[int, tuple[Fault, ...]]:
    """Return the faults of workunits that do not fit their app or targets, by workunit index.

    The faults depend only on the shape of a workunit.
    """
    by_index: dict[int, tuple[Fault, ...]] = {}
    for index, workunit in enumerate(workunits):
        if own := (
            *_size(workunit, app),
            *_version(workunit),
            *_adaptive(workunit, app),
            *_target(workunit, app, addressees),
            *_broadcast(workunit, app),
        ):
            by_index[index] = own
    return by_index


def warnings(
    workunits: Sequence[NewWorkunit], *, app: AppRules, addressees: Addressees
) -> tuple[str, ...]:
    """Return warnings about targets that are allowed but probably mistakes."""
    return (*_denied(workunits, addressees), *_never_trusted(workunits, app))


def _size(workunit: NewWorkunit, app: AppRules) -> Iterator[Fault]:
    if not -1 <= workunit.size_class < app.n_size_classes:
        most = app.n_size_classes - 1
        classes = f"give 0 to {most}, or -1 for any host" if most else "leave it out"
        yield Fault(
            f"size_class is {workunit.size_class}; app {app.name} has "
            f"{app.n_size_classes} size class{'es' * (app.n_size_classes > 1)}.",
            f"{classes}; n_size_classes of the app is the number of classes.",
        )


def _version(workunit: NewWorkunit) -> Iterator[Fault]:
    if workunit.app_version_num < 0:
        yield Fault(
            f"app_version_num is {workunit.app_version_num}.",
            "give 100 for version 1.00, or 0 for any version.",
        )


def _adaptive(workunit: NewWorkunit, app: AppRules) -> Iterator[Fault]:
    """Yield a fault for each limit that is below the number of results for an untrusted host."""
    if workunit.target != 1 or app.target_nresults <= 1 or workunit.broadcast:
        return
    for name, value in (
        ("max_total_results", workunit.total),
        ("max_success_results", workunit.successes),
    ):
        if value < app.target_nresults:
            yield Fault(
                f"{name} is {value}, but app {app.name} creates {app.target_nresults} results "
                "if the first host is not trusted.",
                f"raise {name} to {app.target_nresults} or more, or leave it out.",
            )


def _target(workunit: NewWorkunit, app: AppRules, addressees: Addressees) -> Iterator[Fault]:
    targets = _targets(workunit)
    if len(targets) > 1:
        yield Fault(
            f"The workunit targets a {' and a '.join(targets)} at once.", "name only one of them."
        )
    for kind, id_ in targets.items():
        if fault := missing(kind, id_, addressees):
            yield fault
    if workunit.target > 1 and (kind := _single(targets.keys(), app)):
        yield Fault(
            f"target_nresults is {workunit.target}, but one {kind} gets one result of a workunit.",
            "set target_nresults to 1, or leave the target out.",
        )


def missing(kind: str, id_: int, addressees: Addressees) -> Fault | None:
    """Return the fault of a target that does not exist or was merged or deleted, or None."""
    existing = {"host": addressees.hosts, "account": addressees.accounts, "team": addressees.teams}
    if id_ in existing[kind]:
        return None
    if kind == "host" and id_ in addressees.merged_hosts:
        kept = addressees.merged_hosts[id_]
        if kept == id_:
            return Fault(f"Host {id_} was deleted by its owner.", "name another host.")
        return Fault(f"Host {id_} was merged into host {kept}.", f"name host {kept}.")
    return Fault(f"There is no {kind} {id_}.", f"look up the {kind}'s id in the admin.")


def _single(named: Collection[str], app: AppRules) -> str:
    """Return the kind of target that cannot get a second result, or an empty string."""
    if "host" in named:
        return "host"
    return "account" if "account" in named and app.one_result_per == "account" else ""


def _broadcast(workunit: NewWorkunit, app: AppRules) -> Iterator[Fault]:
    if not workunit.broadcast:
        return
    if workunit.end_before is None:
        yield Fault(
            "A broadcast has no end.", "set end_before to the time when the results are validated."
        )
    if app.validator != _ACCEPTS_EVERY_RESULT:
        yield Fault(
            f"Results of a broadcast are not compared, but app {app.name} has the validator "
            f"{app.validator!r}.",
            f"broadcast work of an app whose validator is {_ACCEPTS_EVERY_RESULT!r}.",
        )
    if workunit.target > 1:
        yield Fault(
            f"target_nresults is {workunit.target}, but a broadcast goes to every host.",
            "leave min_quorum and target_nresults out.",
        )
    if _targets(workunit):
        yield Fault("The workunit has both broadcast and a target.", "leave one of the two out.")


def _denied(workunits: Sequence[NewWorkunit], addressees: Addressees) -> Iterator[str]:
    aimed_at = {workunit.target_host for workunit in workunits} & addressees.denied_hosts
    for host_id in sorted(id_ for id_ in aimed_at if id_ is not None):
        yield denied_warning(host_id)


def denied_warning(host_id: int) -> str:
    """Return the warning about work that targets a denied host."""
    return f"Host {host_id} is denied work: workunits that target it wait until it is allowed."


def _never_trusted(workunits: Sequence[NewWorkunit], app: AppRules) -> Iterator[str]:
    if app.target_nresults > 1 and any(w.target_host is not None for w in workunits):
        yield (
            f"App {app.name} creates {app.target_nresults} results if a host is not trusted, but a "
            "host gets only one of them: work that targets an untrusted host never finishes."
        )
