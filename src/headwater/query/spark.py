"""Queries on Spark: the lake's relations are put in as views of a session that lives as long as the query."""

from __future__ import annotations

import hashlib

from headwater.errors import Code, UsageError
from headwater.model import At, Kind
from headwater.query.result import Result
from headwater.session import fork
from headwater.sparkerrors import as_headwater_error, reason, without_plan
from headwater.sql.references import Reference, parse_query, resolve
from headwater.sql.rewrite import with_relations
from headwater.warehouse import Warehouse


def answer(warehouse: Warehouse, sql: str) -> Result:
    """Run one SELECT; each relation is read at one version from start to end."""
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, PySparkException

    query = parse_query(sql)
    known = {kind: warehouse.names(kind) for kind in Kind}
    session = fork(warehouse.spark)

    def place(reference: Reference, at: At | None) -> str:
        kind = resolve(reference, known)
        view = _view_name(kind, reference.name, at)
        if not session.catalog.tableExists(view):
            warehouse.existing(kind, reference.name, session).read(at).createTempView(view)
        return view

    try:
        return Result(session.sql(with_relations(query, place)))
    except AnalysisException as error:
        raise UsageError(Code.INVALID_SQL, without_plan(reason(error))) from error
    except (PySparkException, Py4JError) as error:
        raise as_headwater_error(error) from error


def _view_name(kind: Kind, name: str, at: At | None) -> str:
    when = "" if at is None else "_" + hashlib.sha256(str(at).encode()).hexdigest()[:12]
    return f"headwater_{kind.value}_{name}{when}"
