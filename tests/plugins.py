"""An allow-list for tests that allows every target under its own name."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.apps.rules.plugins import BUILT_IN, Plugin, Plugins, read


class _Anything:
    """A container that contains every option name."""

    def __contains__(self, _name):
        return True

    def __iter__(self):
        return iter(["anything"])


_ANYTHING = _Anything()


@dataclass(frozen=True, slots=True)
class AllowsTargets(Plugins):
    """An allow-list that also allows ``python:...``, ``script:...`` and ``table`` targets.

    The code of these targets can read and write in `folders`.
    """

    folders: tuple[str, ...] = ()
    transactional: frozenset[str] = frozenset()
    entries: dict = field(default_factory=dict)

    def find(self, kind, name):
        if name.partition(":")[0] not in ("python", "script", "table") or name in BUILT_IN[kind]:
            return super(AllowsTargets, self).find(kind, name)
        return Plugin(
            kind=kind,
            name=name,
            target=name,
            app_options=_ANYTHING,
            transactional=name in self.transactional,
            reads=self.folders,
            writes=self.folders,
        )


def allow_list(**kinds):
    """Return an allow-list with entries such as ``validator={"orbits": {"target": ...}}``."""
    return read(kinds)
