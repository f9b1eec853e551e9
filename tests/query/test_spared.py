"""A query that fails because another one has ended their Spark is run once more, by itself."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headwater.core.errors import Code, HeadwaterError
from headwater.project.load.loader import load_project
from headwater.query.limits import QueryStop
from headwater.query.spark import isolation
from headwater.query.spark.isolation import QueryProcess
from headwater.query.spark.messages import Ask, AskPlan
from tests.query.fake_worker import ROWS, TOGETHER

ROOT = Path(__file__).parents[2]


def test_queries_beside_one_that_ends_their_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "headwater.yml").write_text("name: spared\n", encoding="utf-8")
    project = load_project(tmp_path)
    worker = "from tests.query.fake_worker import main; main(sys.argv[1:])"
    monkeypatch.setattr(isolation, "_WORKER", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {worker}")
    process = QueryProcess(lambda: project)

    def rows(sql: str) -> Callable[[], Any]:
        ask = Ask(sql, "", {}, None, None, read_only=True)
        return lambda: list(process.answer(ask, QueryStop(60)).batches())

    def explained() -> Any:
        return process.explain(AskPlan("explained", "", read_only=True), QueryStop(60)).engine

    def ended(work: Callable[[], Any]) -> Any:
        try:
            return work()
        except HeadwaterError as error:
            return error.code

    asked = [rows(sql) for sql in ("analysed", "started", "handed out", "grows")] + [explained]
    assert len(asked) == TOGETHER
    with ThreadPoolExecutor(TOGETHER) as pool:
        found = list(pool.map(ended, asked))
    assert found == [[ROWS], [ROWS], Code.QUERY_FAILED, Code.SPARK_FAILED, "spark"]
    # The first process, and the one for what is run again, which `grows` may have ended for the next of them.
    assert len((tmp_path / "starts").read_text(encoding="utf-8")) <= 3
    process.close()
