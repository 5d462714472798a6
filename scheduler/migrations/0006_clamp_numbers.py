"""Move stored numbers of volunteers into the ranges that the server now applies to requests.

In batches of ids, one transaction each; rows within the ranges are not written, so
a migration that was interrupted can be run again.  The ranges are copied here because those in
`scheduler.wire.ranges` may change.
"""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

BATCH = 20_000

_BYTES = (0, 1e18)
_SPEED = (1e6, 1e14)
_SECONDS = (0, 1e10)
_FRACTION = (0, 1)

RANGES = {
    "host": {
        "timezone": (-86_400, 86_400),
        "client_version": (0, 99_999_999),
        "p_ncpus": (1, 65_536),
        "p_fpops": _SPEED,
        "p_iops": _SPEED,
        "p_membw": _SPEED,
        "m_nbytes": _BYTES,
        "m_cache": _BYTES,
        "m_swap": _BYTES,
        "d_total": _BYTES,
        "d_free": _BYTES,
        "n_bwup": (0, 1e12),
        "n_bwdown": (0, 1e12),
        "on_frac": _FRACTION,
        "active_frac": _FRACTION,
        "gpu_active_frac": _FRACTION,
        "turnaround_seconds": _SECONDS,
    },
    "host_app_version": {
        "et_avg": _SECONDS,
        "pfc_avg": (0, 1e10),
        "turnaround_avg": _SECONDS,
    },
    "account": {"global_prefs_mod_time": (0, 2**33)},
    "batch_usage": {"cpu_seconds": (0, 1e15), "elapsed_seconds": (0, 1e15)},
    "result": {
        "cpu_time": _SECONDS,
        "elapsed_time": _SECONDS,
        "peak_working_set_bytes": _BYTES,
        "peak_swap_bytes": _BYTES,
        "peak_disk_bytes": _BYTES,
        "flops_estimate": (0, 1e18),
    },
    "usage_sample": {
        "cpu_time": _SECONDS,
        "elapsed_time": _SECONDS,
        "memory_bytes": _BYTES,
        "gpu_usage": _FRACTION,
        "fraction_done": _FRACTION,
    },
}


def clamp(
    connection: BaseDatabaseWrapper, table: str, columns: dict[str, tuple[float, float]]
) -> int:
    """Clamp the columns of a table, batch by batch; returns the number of rows written."""
    # NaN is greater than every other number in PostgreSQL.
    moved = ", ".join(
        f"{name} = greatest({low}, least({high}, {name}))" for name, (low, high) in columns.items()
    )
    outside = " OR ".join(
        f"{name} NOT BETWEEN {low} AND {high}" for name, (low, high) in columns.items()
    )
    written = 0
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT min(id), max(id) FROM {table}")  # noqa: S608 - names from above
        first, last = cursor.fetchone()
        if first is None:
            return 0
        for after in range(first - 1, last, BATCH):
            cursor.execute(
                f"UPDATE {table} SET {moved}"  # noqa: S608 - names and numbers from above
                f" WHERE id > %s AND id <= %s AND ({outside})",
                [after, after + BATCH],
            )
            written += cursor.rowcount
    return written


def clamp_all(_apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    for table, columns in RANGES.items():
        clamp(schema_editor.connection, table, columns)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("scheduler", "0005_output_bytes")]

    operations = [migrations.RunPython(clamp_all, migrations.RunPython.noop)]
