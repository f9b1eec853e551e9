"""One step: its changes and the stored rows of the keys they touch → the rows to write. Reads and writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.tables.apply.history import history
from headwater.tables.apply.latest import COUNT, latest, newest_of
from headwater.tables.apply.moves import with_moved_values
from headwater.tables.apply.shape import Shape
from headwater.tables.apply.truncation import Truncation, deletes


def rows_to_write(
    changes: DataFrame,
    stored: DataFrame | None,
    shape: Shape,
    held: ExitStack,
    *,
    now: datetime,
    truncations: Sequence[Truncation] = (),
    moved: bool = False,
) -> DataFrame:
    """As an upsert takes them.

    `stored` has every stored row of the touched keys; of all keys where one of the `truncations` is new. `moved`:
    values that were not sent may stand under another key. `held` frees what is kept for the time of the step.
    """
    if moved:
        changes = with_moved_values(changes, stored, shape, held)
    if truncations:
        changes = changes.unionByName(deletes(changes, stored, shape, truncations))
    return history(changes, stored, shape) if shape.history else latest(changes, stored, shape, now)


def rows_to_compare(
    changes: DataFrame, shape: Shape, *, now: datetime, truncations: Sequence[Truncation] = ()
) -> DataFrame:
    """As a table takes them that leaves what is newer: of each key the newest row, how many changes it stands for
    (COUNT), and how many of them nobody could order (UNORDERED). All `truncations` are known to the stored rows.
    """
    changes = changes.withColumn(COUNT, F.lit(1))
    if truncations:
        changes = changes.unionByName(deletes(changes, None, shape, truncations).withColumn(COUNT, F.lit(0)))
    return newest_of(changes, shape, now)
