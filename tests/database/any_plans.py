"""Plans of statements for any parameters, as web processes keep them (decision 7)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import connection


def plan_of(statement: str, params: Sequence[Any] | None) -> dict[str, Any]:
    """Return the plan for any parameters, with the planner's options of web processes."""
    numbers = iter(range(1, 10_000))
    text = re.sub(r"%s", lambda _match: f"${next(numbers)}", statement).replace("%%", "%")
    values = f"({', '.join('NULL' for _ in params)})" if params else ""
    options = re.findall(r"-c (\w+)=(\w+)", settings.WEB_PLANS)
    with connection.cursor() as cursor:
        for option, value in options:
            cursor.execute(f"SET {option} = {value}")
        cursor.execute(f"PREPARE kept AS {text}".replace("%", "%%"), ())
        try:
            cursor.execute(f"EXPLAIN (FORMAT JSON) EXECUTE kept {values}")
            (plan,) = cursor.fetchone()
        finally:
            cursor.execute("DEALLOCATE kept")
            for option, _ in options:
                cursor.execute(f"RESET {option}")
    tree: dict[str, Any] = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    return tree
