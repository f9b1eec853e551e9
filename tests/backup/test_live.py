"""Backups that are taken while a runner takes events in and keeps views: each is one state of the lake.

Every one of them is restored without its original, and goes on to the end: nothing is missing, and nothing is there
twice, whatever the source has it from.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.api.lake import Lake
from headwater.formats.registry import FORMATS
from tests.backup.lab import back_up, project_at, restore
from tests.recovery.lab import Moving
from tests.runtime.running import Running
from tests.scale import scaled
from tests.support import COLD

pytestmark = pytest.mark.usefixtures("spark")

PROJECT = """\
name: live
format: {format}
spark: {{master: 'local[2]', conf: {cold}}}
sources:
  landing: {{type: files, path: ./landing, schema_hints: "amount bigint", on_change: reload}}
  api: {{type: append}}
topics:
  orders: {{from: landing, batch_size: 1}}
  notes: {{from: api, format: delta}}
tables:
  latest: {{from: topic('orders'), apply: {{keys: [kind], sequence_by: _position}}, format: {keyed}}}
views:
  kinds: {{sql: "SELECT kind, count(*) AS n, sum(amount) AS total FROM topic('orders') GROUP BY kind", format: {keyed}}}
  all_of_them: {{sql: "SELECT sum(n) AS n, sum(total) AS total FROM mv('kinds')", format: {keyed}}}
  with_notes: {{sql: "SELECT count(*) AS n FROM topic('notes')", format: {keyed}}}
"""
BACKUPS = int(scaled("HEADWATER_BACKUPS", usual=2, full=4))
FORMATS_HERE = [pytest.param(name, marks=[] if name == "delta" else pytest.mark.full) for name in FORMATS.names()]


class Feed:
    """Lands files, each with a line that is no JSON, and appends rows, until it is told to stop."""

    def __init__(self, project: Moving) -> None:
        self.project = project
        self.files = 0
        self.acknowledged = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with Lake.open(self.project.root, quick=True) as lake:
            while not self._over.wait(0.2):
                self.land()
                lake.topic("notes").append([{"id": self.acknowledged}], key=f"row {self.acknowledged}")
                self.acknowledged += 1

    def land(self) -> None:
        number = self.files
        rows = [json.dumps({"event_id": f"{number}-{n}", "kind": "xyz"[n], "amount": n}) for n in range(3)]
        part = self.project.root / "landing" / ".part.tmp"
        part.write_text("\n".join([*rows, f'{{"event_id": "{number}-bad", ']) + "\n", encoding="utf-8")
        part.rename(self.project.root / "landing" / f"{number:05d}.json")
        self.files += 1

    @contextmanager
    def flowing(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()


@pytest.mark.parametrize("format", FORMATS_HERE)
def test_a_back_up_beside_a_runner_is_one_state(format: str, tmp_path: Path, runners: list[Running]) -> None:
    project = Moving(tmp_path / "project")
    (project.root / "landing").mkdir(parents=True)
    keyed = "delta" if format == "parquet" else format
    text = PROJECT.format(format=format, keyed=keyed, cold=COLD)
    (project.root / "headwater.yml").write_text(text, encoding="utf-8")
    feed = Feed(project)
    feed.land()
    runner = Running(project.root)
    runners.append(runner)
    runner.until(lambda: runner.of("step", "views.kinds"))
    appended: list[tuple[int, int]] = []
    with feed.flowing():
        runner.until(lambda: runner.of("step", "topics.notes") and runner.of("step", "views.with_notes"))
        for number in range(BACKUPS):
            steps = {flow: len(runner.of("step", flow)) for flow in ("topics.orders", "topics.notes", "views.kinds")}
            before = feed.acknowledged
            back_up(project, tmp_path / f"backup {number}")
            appended.append((before, feed.acknowledged))
            runner.until(lambda steps=steps: all(len(runner.of("step", f)) > n for f, n in steps.items()))  # type: ignore[misc]
    assert not runner.of("retry") and not runner.of("failed")
    runner.end()
    last = project_at(tmp_path / "sources", project)
    shutil.rmtree(project.root)
    for number, (least, most) in enumerate(appended):
        restored = project_at(tmp_path / f"restored {number}", last)
        restore(restored, tmp_path / f"backup {number}")
        goes_on(restored, feed.files, least, most)


def goes_on(project: Moving, files: int, least: int, most: int) -> None:
    """Take in what came after the backup, and compare all of it."""
    project.run()
    ids = Counter(row["event_id"] for row in project.query("SELECT event_id FROM topic('orders')"))
    expected = Counter({f"{file}-{n}": 1 for file in range(files) for n in range(3)})
    assert ids == expected, f"{ids - expected} too many, {expected - ids} missing"
    letters = project.do("dlq", "list", "--json").json
    assert len(letters) == len({one["id"] for one in letters}) == files
    notes = sorted(row["id"] for row in project.query("SELECT id FROM topic('notes')"))
    assert notes == list(range(len(notes))) and least <= len(notes) <= most + 1
    total = {"n": 3 * files, "total": 3 * files}
    assert project.query("SELECT * FROM mv('all_of_them')") == [total]
    assert project.query("SELECT * FROM mv('with_notes')") == [{"n": len(notes)}]
    assert [row["kind"] for row in project.query("SELECT kind FROM table('latest') ORDER BY kind")] == ["x", "y", "z"]
    for view in ("kinds", "all_of_them", "with_notes"):
        answer = project.do("mv", "verify", view)
        assert answer.code == 0, answer.err
    assert all(count == (0, 0) for count in project.run()[0].values()), "nothing is left to do"
    # An append that was tried again: rows that are in the backup are known by their key.
    with Lake.open(project.root, quick=True) as lake:
        lake.topic("notes").append([{"id": 0}], key="row 0")
        lake.topic("notes").append([{"id": len(notes)}], key=f"row {len(notes)}")
    project.run()
    assert [row["id"] for row in project.query("SELECT id FROM topic('notes') ORDER BY id")] == [*notes, len(notes)]
