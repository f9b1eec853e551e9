"""Looks for the forgotten values in every file of a lake, and says where they are and what could not be read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

import duckdb
import pyarrow as pa

from headwater.core.errors import HeadwaterError
from headwater.core.quotes import single_quoted
from headwater.core.record import Record
from headwater.core.storage import Files
from headwater.operations.erasure.condition import ErasureCondition
from headwater.operations.erasure.patterns import ValuePatterns
from headwater.operations.erasure.records import (
    Undecoded,
    documents_in,
    is_without_values,
    notes_in,
    readable,
    tables_in,
)

_WHOLE_ROW = "cast(to_json(rows) AS VARCHAR)"


@dataclass(frozen=True)
class Holding(Record):
    """A file that holds a forgotten value."""

    path: str
    records: int
    columns: tuple[str, ...] = ()
    """The columns that it stands in, where the file has columns."""


@dataclass(frozen=True)
class UndecodedFile(Record):
    """A file of which nobody can tell what it holds."""

    path: str
    reason: str


@dataclass
class Searched:
    """What a search has found."""

    files: int = 0
    bytes: int = 0
    holding: list[Holding] = field(default_factory=list)
    undecoded: list[UndecodedFile] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)


class ValueSearch:
    """One condition, looked for in files. The rows of columnar files are matched by DuckDB, all else record by
    record."""

    def __init__(self, condition: ErasureCondition) -> None:
        self._condition = condition
        self._patterns = ValuePatterns.of(condition.clauses)
        self._duckdb = duckdb.connect(config={"threads": 1})

    def through(self, files: Files, seen: Callable[[str], None] = lambda path: None) -> Searched:
        """Every file under a root."""
        found = Searched()
        for entry in files.list(recursive=True):
            path = files.join(entry.path)
            if self._patterns.found_in_path(f"/{unquote(entry.path)}"):
                found.holding.append(Holding(path, 0))
            if entry.is_folder or not _is_regular(files, entry.path):
                continue
            data = files.find(entry.path)
            if data is None:
                continue  # it went while others were looked at
            seen(path)
            found.paths.add(path)
            found.files += 1
            found.bytes += len(data)
            try:
                holding = self._holding(path, entry.name, data, files.inside(entry.path) if files.is_local else None)
            except (Undecoded, HeadwaterError, pa.ArrowException, duckdb.Error, sqlite3.Error) as error:
                found.undecoded.append(UndecodedFile(path, str(error).partition("\n")[0]))
                holding = Holding(path, 1) if self._patterns.found_in_bytes(data) else None
            if holding is not None:
                found.holding.append(holding)
        return found

    def without(self, table: pa.Table) -> pa.Table:
        """The rows of a table that hold no value."""
        self._duckdb.register("rows", readable(table))
        asked = " OR ".join(self._asked(table)) or "false"
        self._duckdb.execute(f"SELECT NOT coalesce({asked}, false) FROM rows")
        return table.filter(pa.array([kept for (kept,) in self._duckdb.fetchall()], pa.bool_()))

    def close(self) -> None:
        self._duckdb.close()

    def _holding(self, path: str, name: str, data: bytes, place: str | None) -> Holding | None:
        if is_without_values(name, data):
            return Holding(path, 1) if name.endswith("-wal") and self._patterns.found_in_bytes(data) else None
        tables = tables_in(data)
        if tables is None:
            records = sum(1 for text in documents_in(name, data, place) if self._patterns.found_in(text))
            return Holding(path, records) if records else None
        counted = [self._rows(table) for table in tables]
        noted = any(map(self._patterns.found_in, notes_in(data)))
        rows = sum(count for count, _ in counted)
        columns = sorted({column for _, named in counted for column in named})
        return Holding(path, rows, tuple(columns)) if rows or noted else None

    def _rows(self, table: pa.Table) -> tuple[int, set[str]]:
        """How many rows hold a value, and in which columns."""
        if not table.num_rows:
            return 0, set()
        self._duckdb.register("rows", table)
        asked = list(self._asked(table))
        if not asked:
            return 0, set()
        query = f"SELECT count(*), any_value({_WHOLE_ROW}) FROM rows WHERE {' OR '.join(asked)}"
        [(count, example)] = self._duckdb.execute(query).fetchall()
        return count, set() if example is None else self._columns_of(example)

    def _asked(self, table: pa.Table) -> Iterator[str]:
        for clause in self._patterns.clauses:
            matched = (f"regexp_matches({_WHOLE_ROW}, {single_quoted(one)})" for one in clause.duckdb)
            yield f"({' AND '.join(matched)})"
        names = {name.lower() for name in table.schema.names}
        if not self._condition.has_values and all(name.lower() in names for name in self._condition.columns):
            yield f"coalesce(({self._condition.duckdb}), false)"

    def _columns_of(self, row: str) -> set[str]:
        """The columns of a row that a value stands in; all that the condition names where none alone has them."""
        values = json.loads(row)
        found = {
            name
            for name, value in values.items()
            if self._patterns.found_in(json.dumps({name: value}, ensure_ascii=False))
        }
        return found or {name for name in values if name.lower() in {one.lower() for one in self._condition.columns}}


def _is_regular(files: Files, path: str) -> bool:
    """Not a socket or a pipe, which nobody ends."""
    if not files.is_local:
        return True
    from pathlib import Path

    return Path(files.inside(path)).is_file()
