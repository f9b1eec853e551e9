"""Makes a lake whose process was killed in the middle of a step of every kind of flow:
`python -m tests.recovery.older_lakes before|after FOLDER [FORMAT]`.

`before`: each has written its intent and is about to commit. `after`: each has committed, and nothing has been done
since. It needs the public API and `create_with`, `append`, `upsert` and `replace` of a table, so that it also runs with
the code of an earlier commit in front (PYTHONPATH): `tests/recovery/older/` was made by c571b53.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headwater.api.lake import Lake
from headwater.formats.native import NativeTable
from tests.support import COLD

CODE = """\
from pyspark.sql import functions as F
from headwater import transform

@transform("totals", streaming=True)
def totals(log):
    return log.groupBy("id").agg(F.count("*").alias("k"), F.sum("n").alias("total"))

@transform("shouted")
def shouted(log):
    return log.selectExpr("n", "upper(v) AS v")
"""
PROJECT = f"""\
name: older
code: code.py
spark: {{master: 'local[2]', conf: {COLD}}}
runtime: {{max_concurrent_refreshes: 16}}
sources:
  landing: {{type: files, path: ./landing, schema: "id bigint, n bigint, v string, at timestamp"}}
  other: {{type: files, path: ./other, schema: "id bigint, n bigint, v string, at timestamp"}}
  api: {{type: append}}
topics:
  log: {{from: landing}}
  more: {{from: other}}
  copied: {{from: api}}
tables:
  latest: {{from: topic('log'), apply: {{keys: [id], sequence_by: n}}}}
  odd: {{sql: "SELECT n, n * 2 AS twice FROM stream(topic('log')) WHERE n % 2 = 1"}}
  timely:
    sql: "SELECT n, at FROM stream(topic('log'))"
    watermark: {{column: at, delay: 1h, late: quarantine}}
    expect: {{not_seven: {{check: "n <> 7", on_violation: drop}}}}
  shouted: {{transform: shouted}}
  totals: {{transform: totals, keys: [id]}}
  colours: {{seed: colours.csv, keys: [name]}}
views:
  sums: {{sql: "SELECT id, count(*) AS k, sum(n) AS s FROM topic('log') GROUP BY id", refresh: {{policy: incremental}}}}
  first: {{sql: "SELECT n, v FROM topic('log') WHERE n > 2", refresh: {{policy: incremental}}}}
"""
ROWS = 6
"""Of each file."""
KILLED = ("topics.more", "tables.latest", "tables.odd", "tables.timely", "tables.shouted", "tables.totals")
KILLED += ("tables.colours", "views.sums", "views.first")
"""The flows that are in the middle of a step; `views.first` in that of its first build. The sink `copied` is too."""


def rows_of(file: int) -> list[dict[str, Any]]:
    """The first of a file is as old as those of the first file: from the third file on it is late for `timely`."""
    return [
        {"id": n % 3, "n": n, "v": f"v{n}", "at": f"2026-01-{1 if n and n % ROWS == 0 else 1 + file:02d} 00:00:00"}
        for n in range(file * ROWS, (file + 1) * ROWS)
    ]


def land(root: Path, file: int, folders: Iterable[str] = ("landing", "other")) -> None:
    for folder in folders:
        (root / folder).mkdir(exist_ok=True)
        lines = "".join(json.dumps(row) + "\n" for row in rows_of(file))
        (root / folder / f"{file}.json").write_text(lines, encoding="utf-8")
    (root / "colours.csv").write_text(f"name,code\nred,{file}\n", encoding="utf-8")


def copy(lake: Lake, root: Path) -> None:
    """All there is in the topic `log`, by a query of one's own, into the topic `copied`."""
    rows = lake.topic("log").read_stream(consumer="copy").select("id", "n", "v")
    writer = rows.writeStream.foreachBatch(lake.topic("copied").sink("copy"))
    writer = writer.option("checkpointLocation", str(root / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


class Gate:
    """Stops whoever commits to one of some tables, and kills the process when all of them have come."""

    def __init__(self, when: str, names: Iterable[str]) -> None:
        self._when = when
        self._missing = {f"/{name.replace('.', '/')}" for name in names}
        self._lock = threading.Lock()

    def around(self, write: Callable[..., int]) -> Callable[..., int]:
        def stopped(table: Any, *arguments: Any, **named: Any) -> int:
            address = "/" + str(table.address).replace("`", "").replace(".", "/") + "/"
            mine = next((name for name in self._missing if f"{name}/" in address), None)
            if mine is None or "dead_letters" in address:
                return write(table, *arguments, **named)
            if self._when == "after":
                write(table, *arguments, **named)
            with self._lock:
                self._missing.discard(mine)
                print(f"{self._when} the commit of {mine}; {len(self._missing)} more", flush=True)
                if not self._missing:
                    os.kill(os.getpid(), signal.SIGKILL)
            threading.Event().wait()
            raise AssertionError

        return stopped


def main(when: str, folder: str, format: str = "delta") -> None:
    root = Path(folder)
    root.mkdir(parents=True)
    (root / "headwater.yml").write_text(f"{PROJECT}format: {format}\n", encoding="utf-8")
    (root / "code.py").write_text(CODE, encoding="utf-8")
    land(root, 0)
    with Lake.open(root) as lake:
        lake.run([flow for flow in ("topics.log", *KILLED) if flow != "views.first"], once=True)
        copy(lake, root)
        land(root, 1)
        lake.run(["topics.log"], once=True)
        gate = Gate(when, (*KILLED, "topics.copied"))
        home = "spark_table" if find_spec("headwater.formats.spark_table") else "base"
        spark_table = import_module(f"headwater.formats.{home}").SparkTable
        for kind in (spark_table, NativeTable):
            for way in ("create_with", "append", "upsert", "replace"):
                if hasattr(kind, way):
                    setattr(kind, way, gate.around(getattr(kind, way)))
        threading.Thread(target=copy, args=[lake, root], daemon=True).start()
        for report in lake.run(KILLED, once=True):
            print(report.flow, report.error, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
