"""Whether workunits fit their app, and those whom they are for [pure].

Source: BOINC's rules for assigned work: a targeted workunit is never given to anybody else, and a
broadcast one is given to every host, so that nothing can be compared with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from scheduler.work.submission.facts import Addressees, AppRules, NewWorkunit
from scheduler.work.submission.rules.new_workunits import Fault, shape

#: What an app may name as its validator if a single answer, of whomever, is to count.
_TAKES_EVERY_ANSWER = "trivial"


def is_aimed(workunit: NewWorkunit) -> bool:
    """Whether it is for some host, account or team alone."""
    return (
        workunit.target_host is not None
        or workunit.target_account is not None
        or workunit.target_team is not None
    )


def faults(
    workunits: Sequence[NewWorkunit], *, app: AppRules, known: Addressees
) -> dict[int, tuple[Fault, ...]]:
    """What the app or the addressees forbid, by the workunit's index; empty if nothing."""
    judged: dict[tuple[object, ...], tuple[Fault, ...]] = {}
    found: dict[int, tuple[Fault, ...]] = {}
    for index, workunit in enumerate(workunits):
        key = shape(workunit)
        if (said := judged.get(key)) is None:
            said = judged[key] = (
                *_size(workunit, app),
                *_version(workunit),
                *_adaptive(workunit, app),
                *_target(workunit, app, known),
                *_broadcast(workunit, app),
            )
        if said:
            found[index] = said
    return found


def warnings(
    workunits: Sequence[NewWorkunit], *, app: AppRules, known: Addressees
) -> tuple[str, ...]:
    """What is allowed and probably not meant, about whom work is for."""
    return (*_denied(workunits, known), *_never_trusted(workunits, app))


def _size(workunit: NewWorkunit, app: AppRules) -> Iterator[Fault]:
    if not -1 <= workunit.size_class < app.n_size_classes:
        most = app.n_size_classes - 1
        classes = f"give 0 to {most}, or -1 for any host" if most else "leave it out"
        yield Fault(
            f"size_class is {workunit.size_class}; app {app.name} has "
            f"{app.n_size_classes} size class{'es' * (app.n_size_classes > 1)}.",
            f"{classes}; n_size_classes of the app says how many there are.",
        )


def _version(workunit: NewWorkunit) -> Iterator[Fault]:
    if workunit.app_version_num < 0:
        yield Fault(
            f"app_version_num is {workunit.app_version_num}.",
            "give 100 for version 1.00, or 0 for any version.",
        )


def _adaptive(workunit: NewWorkunit, app: AppRules) -> Iterator[Fault]:
    """A single result that goes to a host without trust becomes as many as the app says."""
    if workunit.target != 1 or app.target_nresults <= 1 or workunit.broadcast:
        return
    for name, value in (
        ("max_total_results", workunit.total),
        ("max_success_results", workunit.successes),
    ):
        if value < app.target_nresults:
            yield Fault(
                f"{name} is {value}, and app {app.name} makes {app.target_nresults} results "
                "where the first host is not trusted.",
                f"raise {name} to {app.target_nresults} or more, or leave it out.",
            )


def _target(workunit: NewWorkunit, app: AppRules, known: Addressees) -> Iterator[Fault]:
    targets = {
        kind: id_
        for kind, id_ in (
            ("host", workunit.target_host),
            ("account", workunit.target_account),
            ("team", workunit.target_team),
        )
        if id_ is not None
    }
    if len(targets) > 1:
        yield Fault(
            f"The workunit is for a {' and a '.join(targets)} at once.", "name one of them."
        )
    there = {"host": known.hosts, "account": known.accounts, "team": known.teams}
    for kind, id_ in targets.items():
        if id_ not in there[kind]:
            yield _nobody(kind, id_, known)
    if workunit.target > 1 and (kind := _single(targets.keys(), app)):
        yield Fault(
            f"target_nresults is {workunit.target}, and one {kind} gives one result of a workunit.",
            "ask for one result, or leave the target out.",
        )


def _nobody(kind: str, id_: int, known: Addressees) -> Fault:
    if kind == "host" and id_ in known.merged_hosts:
        kept = known.merged_hosts[id_]
        return Fault(f"Host {id_} was merged into host {kept}.", f"name host {kept}.")
    return Fault(f"There is no {kind} {id_}.", f"look the {kind}'s number up in the admin.")


def _single(named: Collection[str], app: AppRules) -> str:
    """Which of the targets, a host or an account, can never bring a second result."""
    if "host" in named:
        return "host"
    return "account" if "account" in named and app.one_result_per == "account" else ""


def _broadcast(workunit: NewWorkunit, app: AppRules) -> Iterator[Fault]:
    if not workunit.broadcast:
        return
    if workunit.end_before is None:
        yield Fault("A broadcast has no end.", "give end_before: it is judged then.")
    if app.validator != _TAKES_EVERY_ANSWER:
        yield Fault(
            f"A broadcast's answers are not compared, and app {app.name} has the validator "
            f"{app.validator!r}.",
            f"broadcast work of an app whose validator is {_TAKES_EVERY_ANSWER!r}.",
        )
    if workunit.target > 1:
        yield Fault(
            f"target_nresults is {workunit.target}, and a broadcast goes to every host.",
            "leave min_quorum and target_nresults out.",
        )
    if is_aimed(workunit):
        yield Fault("A broadcast has a target as well.", "leave one of the two out.")


def _denied(workunits: Sequence[NewWorkunit], known: Addressees) -> Iterator[str]:
    aimed_at = {workunit.target_host for workunit in workunits} & known.denied_hosts
    for host_id in sorted(id_ for id_ in aimed_at if id_ is not None):
        yield f"Host {host_id} is denied work: what is for it alone waits until it is allowed."


def _never_trusted(workunits: Sequence[NewWorkunit], app: AppRules) -> Iterator[str]:
    if app.target_nresults > 1 and any(w.target_host is not None for w in workunits):
        yield (
            f"App {app.name} makes {app.target_nresults} results where a host is not trusted, and "
            "one host gives one of them: work for a host that is not trusted does not end."
        )
