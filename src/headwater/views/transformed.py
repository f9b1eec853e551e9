"""A table that a user's function of frames makes: run on the changes of what it takes, as a query is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from sqlglot import exp

from headwater.core.errors import Code, TerminalError
from headwater.core.model import Kind
from headwater.core.spec import Table
from headwater.incremental.called import Called
from headwater.incremental.query import Query
from headwater.incremental.relations import RelationVersion, relation_of
from headwater.incremental.state.bag import Bag
from headwater.project.decorators import Registered
from headwater.project.graph import Name, graph_of
from headwater.project.transforms import inputs_of, line_of, transform_of
from headwater.schema.types import parse_ddl
from headwater.tables.forward import carry_forward
from headwater.tables.transforms import as_declared, called
from headwater.views.compile import Columns, Compiled, ViewQuery, not_storable
from headwater.views.flow import ViewFlow, flow_of_table
from headwater.views.linearity import READ, not_linear, sample
from headwater.views.presentation import Presented
from headwater.warehouse import Warehouse

HINT = "write it as `sql:`, which is kept by its changes whatever it does, or as @transform(…, streaming=True)"


@dataclass(frozen=True, kw_only=True)
class Transformation(ViewQuery):
    """A function over the lake's relations, in the place of a query."""

    function: Registered
    root: Path
    declared: StructType | None = None
    """The columns that it has to give."""
    pinned: ClassVar[bool] = False
    adds_only: ClassVar[bool] = True

    @property
    def retracting(self) -> frozenset[str]:
        """The parameters that take what may lose rows again."""
        return frozenset(name for name, one in self.relations.items() if one.kind is not Kind.TOPIC)

    def compiled(
        self, spark: SparkSession, versions: Mapping[str, RelationVersion], recorded: Columns | None = None
    ) -> Compiled:
        """Have the function describe its result, and see that it looks at single rows."""
        schemas = {name: self._schema(name, versions, recorded) for name in self.relations}
        result = self._of({name: sample(spark, name, schema) for name, schema in schemas.items()})
        reason = not_linear(result, list(schemas))
        if reason is not None:
            message = f"transform '{self.function.name}' can't be run on changes: it {reason}"
            raise TerminalError(Code.NOT_LINEAR, message, where=line_of(self.function, self.root), hint=HINT)
        columns = self._columns(result)
        columns_of = {name: schema.names for name, schema in schemas.items()}
        operator = Called(f"transform {self.function.name}", self._of, columns_of, self.retracting, columns)
        query = Query(operator, tuple((name, name) for name in columns))
        return Compiled(self, result.schema, result, query, Bag(query))

    def changed(self, recorded: Columns, now: Columns) -> str | None:
        """None: the function itself says what it misses."""
        return None

    def _schema(self, name: str, versions: Mapping[str, RelationVersion], recorded: Columns | None) -> StructType:
        """The columns that a parameter has. Where rows may go again they stay those of the build: a row is taken back
        by what the function makes of it, which has to be what it made then."""
        relation = self.relations[name]
        now = relation.schema(versions[relation.label])
        known = None if recorded is None or not self.retracting else recorded.get(relation.label)
        return now if known is None else StructType([f for f in now.fields if f.name in known.names])

    def _of(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        try:
            result = called(self.function, self.root, frames)
            return as_declared(self.function, self.root, result, self.declared)
        except TerminalError as error:
            if READ not in error.problem.message:
                raise
            message = f"transform '{self.function.name}' can't be run on changes: {READ}"
            raise TerminalError(Code.NOT_LINEAR, message, where=error.problem.where, hint=HINT) from None

    def _columns(self, result: DataFrame) -> list[str]:
        lower = [name.lower() for name in result.columns]
        twice = next((name for at, name in enumerate(lower) if name in lower[:at]), None)
        unfit = not_storable(result.schema)
        _, why, hint = unfit if unfit is not None else (None, None, None)
        if twice is not None or not lower:
            why = "it gives no column" if twice is None else f"two columns of what it gives have the name '{twice}'"
        if why is not None:
            message = f"transform '{self.function.name}': {why}"
            raise TerminalError(Code.TRANSFORM_FAILED, message, where=line_of(self.function, self.root), hint=hint)
        return result.columns


def open_transform(
    warehouse: Warehouse, definition: Table, spark: SparkSession, guard: Callable[[], None] = lambda: None
) -> ViewFlow:
    """A table that is kept by a function, in a session of its own."""
    project = warehouse.project
    function = transform_of(project, definition)
    assert function is not None
    reads = graph_of(project).inputs[Name(Kind.TABLE, definition.name)]
    relations = {
        parameter: relation_of(warehouse, each.of.kind, each.of.name, spark, keeps_removed=True)
        for parameter, each in zip(inputs_of(function, project.root), reads, strict=True)
    }
    labels = frozenset(one.label for one in relations.values())
    declared = parse_ddl(spark, definition.schema_)
    query = Transformation(
        "",
        Presented(exp.Select()),
        "",
        relations,
        labels,
        labels,
        function=function,
        root=project.root,
        declared=declared,
    )
    if not query.retracting:  # else a row could not be taken back any more: it would be looked for as it is made now
        carry_forward(warehouse, definition, other=True)
    return flow_of_table(warehouse, definition, query, spark, guard)
