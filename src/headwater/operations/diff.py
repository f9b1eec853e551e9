"""Through a relation's versions: what changed between two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.core.errors import Code
from headwater.core.model import WEIGHT, At, Kind
from headwater.core.quotes import backticked
from headwater.core.spec import Table
from headwater.operations.tags import version_of
from headwater.sql.names import Moment, Reference
from headwater.sql.places import InvalidSql
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def at_of(warehouse: Warehouse, kind: Kind, name: str, moment: Moment) -> At:
    """A version or time, also for the label of a named snapshot."""
    return version_of(warehouse, kind, name, moment) if isinstance(moment, str) else moment


def difference(
    warehouse: Warehouse, kind: Kind, name: str, start: Moment | None, end: Moment | None = None
) -> DataFrame:
    """Rows with the number of times that they came (+) or went (-) in all; what came and went again is not there."""
    from pyspark.sql import functions as F

    first, last = (None if one is None else at_of(warehouse, kind, name, one) for one in (start, end))
    changes = warehouse.changes(kind, name, start=first, end=last)
    columns = [F.col(backticked(column)) for column in changes.columns if column != WEIGHT]
    # Maps can't be compared: such rows are told one by one.
    if '"type":"map"' in changes.schema.json():
        return changes.select(F.col(WEIGHT), *columns)
    net = changes.groupBy(*columns).agg(F.sum(WEIGHT).alias(WEIGHT)).where(F.col(WEIGHT) != 0)
    return net.select(F.col(WEIGHT), *columns)


def summary(changes: DataFrame) -> dict[str, int]:
    """How many rows came and went."""
    from pyspark.sql import functions as F

    came = F.coalesce(F.sum(F.when(F.col(WEIGHT) > 0, F.col(WEIGHT))), F.lit(0))
    went = F.coalesce(F.sum(F.when(F.col(WEIGHT) < 0, -F.col(WEIGHT))), F.lit(0))
    row = changes.select(came.alias("came"), went.alias("went")).collect()[0]
    return {"rows_added": int(row["came"]), "rows_removed": int(row["went"])}


def require_one_state(warehouse: Warehouse, kind: Kind, reference: Reference, text: str) -> None:
    """Refuse `AS OF PROCTIME()` on a table that keeps all states: there, a key has many rows."""
    table = warehouse.definition(kind, reference.name)
    if isinstance(table, Table) and table.apply is not None and table.apply.history == "all":
        message = f"{reference} keeps all states, and PROCTIME() is for tables that keep the latest"
        hint = "join it with AND is_current"
        raise InvalidSql(message, text=text, span=reference.span, code=Code.UNSUPPORTED, hint=hint)
