from typing import Any

from django.db import migrations, models
from django.db.models import Q

from scheduler.migrations._indexes import ReplaceIndexConcurrently


def _index(model: str, name: str, *fields: str, **condition: Any) -> ReplaceIndexConcurrently:
    index = models.Index(fields=list(fields), condition=Q(**condition), name=name)
    return ReplaceIndexConcurrently(model_name=model, index=index)


_SHARED = {"is_active": True, "share_statistics": True}


class Migration(migrations.Migration):
    """Adds the indexes of the leaderboards; that of teams reads indexes of 0032."""

    # CREATE INDEX CONCURRENTLY cannot run in a transaction.
    atomic = False

    dependencies = [("scheduler", "0032_lists_of_teams")]

    operations = [
        _index(
            "account", "read_account_board_total", "total_credit", "id",
            **_SHARED, total_credit__gt=0,
        ),
        _index(
            "account", "read_account_board_recent", "expavg_credit", "id",
            **_SHARED, expavg_credit__gt=0,
        ),
        _index(
            "accountappcredit", "read_app_board_total", "app", "total", "account", total__gt=0
        ),
        _index(
            "accountappcredit", "read_app_board_recent", "app", "expavg", "account", expavg__gt=0
        ),
        _index(
            "host", "read_host_board_total", "total_credit", "id",
            merged_into__isnull=True, total_credit__gt=0,
        ),
        _index(
            "host", "read_host_board_recent", "expavg_credit", "id",
            merged_into__isnull=True, expavg_credit__gt=0,
        ),
    ]
