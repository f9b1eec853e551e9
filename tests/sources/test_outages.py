"""A Postgres that goes away under a runner and comes back: what was committed is counted, and what came meanwhile is
there soon after."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest

from tests.runtime.alongside import Alongside, running, until
from tests.services.postgres import server
from tests.sources.events_lab import TABLE
from tests.support import headwater

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.timeout(600)]

NAPPING = """\
import time
from pathlib import Path

from headwater import mapper


@mapper(schema="id bigint")
def row(event: dict):
    if not Path({awake!r}).exists():
        Path({napping!r}).touch()
        until = time.monotonic() + 120
        while not Path({awake!r}).exists() and time.monotonic() < until:
            time.sleep(0.05)
    return {{"id": {id}}}
"""


def write(root: Path, project: str, id: str) -> tuple[Path, Path]:
    """The project, whose mapper waits until somebody wakes it."""
    awake, napping = root / "awake", root / "napping"
    awake.touch()
    (root / "headwater.yml").write_text(f"name: shop\ncode: shop.py\n{project}", encoding="utf-8")
    code = NAPPING.format(awake=str(awake), napping=str(napping), id=id)
    (root / "shop.py").write_text(code, encoding="utf-8")
    return awake, napping


def rows(runner: Alongside, topic: str) -> int:
    answer = headwater("query", f"SELECT count(*) AS n FROM topic('{topic}')", "--json", "--project", runner.root)
    return answer.json[0]["n"] if answer.code == 0 else -1


def test_postgres_goes_away_in_the_middle_of_a_step_and_comes_back_later(tmp_path: Path) -> None:
    project = """\
sources:
  crm: {{type: postgres_cdc, dsn: '{dsn}', tables: [public.a]}}
  store: {{type: postgres_events, dsn: '{dsn}', table: public.events}}
topics:
  changes: {{from: crm, mappers: shop, batch_size: 1}}
  events: {{from: store, batch_size: 1}}
"""
    with server() as postgres:
        dsn = postgres.database()

        def run(*statements: str) -> None:
            with psycopg.connect(dsn, autocommit=True) as connection:
                for statement in statements:
                    connection.execute(statement.encode())

        run("CREATE TABLE a (id int PRIMARY KEY)", TABLE, "INSERT INTO a VALUES (1)")
        awake, napping = write(tmp_path, project.format(dsn=dsn), "event['after']['id']")
        with running(tmp_path) as runner:
            runner.until("step", "topics.changes")
            until(lambda: runner.status("topics.events")["state"] == "waiting")

            # In the middle of a step the server goes; the step is committed all the same, and is counted.
            awake.unlink()
            run("INSERT INTO a VALUES (2), (3)")
            until(napping.exists)
            postgres.stop("immediate")
            awake.touch()
            step = runner.until("step", "topics.changes", times=2)
            assert step.details["rows"] == 2
            runner.until("retry", "topics.changes")
            assert runner.report("topics.changes")["rows"] == rows(runner, "changes") == 3
            until(lambda: runner.status("topics.changes")["rows"] == 3)

            # However long it is away, it is asked again every few seconds.
            runner.until("retry", "topics.events", times=5)
            assert {one.details["code"] for one in runner.of("retry")} == {"SOURCE_UNAVAILABLE"}
            assert max(one.details["seconds"] for one in runner.of("retry")) <= 5
            assert str(postgres.port) in runner.status("topics.events")["error"]
            postgres.start()
            run("INSERT INTO a VALUES (4)", "INSERT INTO events (event_type) VALUES ('Placed')")
            begun = time.monotonic()
            runner.until("step", "topics.events")
            runner.until("step", "topics.changes", times=3)
            print(f"caught up {time.monotonic() - begun:.1f} s after it came back")
            until(lambda: runner.status("topics.changes")["error"] is None)
            assert runner.report("topics.changes")["rows"] == rows(runner, "changes") == 4
            assert [one.details["rows"] for one in runner.of("step", "topics.events")] == [1]
