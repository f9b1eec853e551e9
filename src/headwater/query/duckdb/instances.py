"""One DuckDB per process and lake. It reads files of that lake alone, and its settings can't be changed.

The text that it runs is generated and names each file. Should anything else ever get into it: access outside of the
lake's folders is off, extensions are not loaded, and what it spills lies in a folder that only this user can open.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import tempfile
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import duckdb

from headwater.query.duckdb.translation import nodes
from headwater.query.duckdb.translation.generator import text_of
from headwater.query.limits import Limits

warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")

Folders = frozenset[str]

MOST_MEMORY = "25%"
"""Of the machine's: what does not fit goes to disk, and what can't go there is Spark's. Flows may run here too."""

_MOST_IDLE = 8
_MOST_PREPARED = 64
_MOST_INSTANCES = 4

_lock = threading.Lock()
_instances: OrderedDict[Folders, Instance] = OrderedDict()
_numbers = itertools.count()


class Instance:
    """A DuckDB with its idle connections."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self.idle: list[IdleConnection] = []


class IdleConnection:
    """A connection that outlives its query, with the statements that were prepared on it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, instance: Instance | None = None) -> None:
        self.connection = connection
        self.instance = instance
        self._names: OrderedDict[str, str] = OrderedDict()
        self._numbers = 0

    def execute(self, sql: str, *, often: bool) -> duckdb.DuckDBPyConnection:
        """Run a text; one that is asked often is parsed and planned once. It names its files, which never change."""
        if not often:
            return self.connection.execute(sql)
        name = self._names.get(sql)
        if name is None:
            self._numbers += 1
            name = f"prepared_{self._numbers}"
            self.connection.execute(f"PREPARE {name} AS {sql}")
            self._names[sql] = name
            while len(self._names) > _MOST_PREPARED:
                self.connection.execute(f"DEALLOCATE {self._names.popitem(last=False)[1]}")
        self._names.move_to_end(sql)
        return self.connection.execute(f"EXECUTE {name}")


def connect(folders: Folders, memory: int | None = None) -> IdleConnection:
    """A connection for one query over files in some folders; with a limit of memory it has a DuckDB of its own."""
    if memory is not None:
        return IdleConnection(_opened(folders, memory))
    with _lock:
        instance = _instances.get(folders)
        if instance is None:
            instance = _instances[folders] = Instance(_opened(folders))
            while len(_instances) > _MOST_INSTANCES:
                _instances.popitem(last=False)
        _instances.move_to_end(folders)
        return instance.idle.pop() if instance.idle else IdleConnection(instance.connection.cursor(), instance)


def release(kept: IdleConnection, limits: Limits) -> None:
    """Keep a connection for the next query, if nothing hangs on it."""
    with _lock:
        instance = kept.instance
        if instance is not None and limits.memory is None and len(instance.idle) < _MOST_IDLE:
            instance.idle.append(kept)
            return
    kept.connection.close()


def forget_if_broken(error: BaseException) -> None:
    """A DuckDB that failed inside refuses all that follows: the next query opens another."""
    if isinstance(error, (duckdb.FatalException, duckdb.InternalException)):
        with _lock:
            _instances.clear()


def folders_of(warehouse: str, files: Iterable[str]) -> Folders:
    """Where a table's files lie: in the warehouse, or in a folder of their own."""
    inside = os.path.join(warehouse, "")
    found = {inside} if os.path.isabs(warehouse) else set()
    outside = {os.path.dirname(file) for file in files if not file.startswith(inside)}
    if outside:
        top = os.path.commonpath(outside)
        found |= {top} if os.path.dirname(top) != top else outside
    return frozenset(found)


def _opened(folders: Folders, memory: int | None = None) -> duckdb.DuckDBPyConnection:
    made = duckdb.connect(
        ":memory:",
        config={
            "temp_directory": str(_spill_folder() / str(next(_numbers))),
            "memory_limit": MOST_MEMORY,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
        },
    )
    if memory is not None:
        made.execute(f"SET GLOBAL memory_limit = '{max(memory, 1024 * 1024)}B'")
    allowed = text_of(nodes.array(nodes.string(folder) for folder in sorted(folders)))
    made.execute("SET GLOBAL TimeZone = 'UTC'; SET GLOBAL parquet_metadata_cache = true")
    made.execute(f"SET GLOBAL allowed_directories = {allowed}; SET GLOBAL enable_external_access = false")
    made.execute("SET GLOBAL lock_configuration = true")
    return made


@lru_cache(maxsize=1)
def _spill_folder() -> Path:
    """For what does not fit into memory; its name can't be foreseen, and only this user can open it."""
    folder = tempfile.mkdtemp(prefix="headwater-duckdb-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
