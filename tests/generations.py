"""An assimilator for tests that submits the next generation of its workunit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scheduler.work.submission.submit import NewFile, NewOutput, NewWorkunit, submit
from tests.conftest import NOON

LAST = 3
#: Errors that `next_generation` raises after its submissions, one per call.
errors: list[Exception] = []


def next_generation(assimilation: Any) -> None:
    """Submit a workunit whose input is the output of this one, and a group that waits for both."""
    generation = assimilation.meta["generation"] + 1
    if assimilation.failed or generation > LAST:
        return
    content = Path(assimilation.outputs[0].path).read_bytes()
    child = NewWorkunit(
        name=f"generation_{generation}",
        input_files=(NewFile(open_name="in", content=content),),
        outputs=(NewOutput(open_name="out", max_nbytes=1000),),
        meta={"generation": generation},
        after=(assimilation.workunit_name,),
    )
    joined = NewWorkunit(name=f"until_{generation}", group=True, after=(child.name,))
    submit(app=assimilation.app, workunits=[child, joined], now=NOON)
    if errors:
        raise errors.pop()


next_generation.transactional = True  # type: ignore[attr-defined]
