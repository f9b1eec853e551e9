"""Files that are being written, replaced or filled while somebody looks at them or reads them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.core.errors import Code, HeadwaterError
from headwater.sources.files import wholeness
from tests.runtime.running import Running
from tests.sources.landing import Landing, put
from tests.sources.test_files_reading import line, numbers
from tests.support import COLD, Shop

pytestmark = pytest.mark.spark

LONG_AGO = (1000, 1000)


def test_a_file_that_somebody_is_writing_is_left(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark)
    with (landing.folder / "a.json").open("w") as file:
        file.write(line(1) + '{"n": ')
        file.flush()
        assert landing.fix_range() is None
        landing.reader.freeze()
        assert landing.fix_range() is None
        landing.reader = landing.restarted()
        os.utime(landing.folder / "a.json", (time.time() - 60,) * 2)
        assert landing.fix_range() is None, "however long the writer takes"
        at_once = Landing(tmp_path, spark, {"min_age": "0s"})
        assert at_once.reader.next(None) is not None
        file.write("2}\n")
    assert numbers(landing) == [1, 2]


def test_where_writers_do_not_show_files_have_to_rest(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wholeness, "is_being_written", lambda path: None)
    monkeypatch.setattr(wholeness, "QUIET", 30.0)
    landing = Landing(tmp_path, spark)
    landing.put(old_json=line(1), young_json=line(2))
    os.utime(landing.folder / "old.json", LONG_AGO)
    assert numbers(landing) == [1]
    assert landing.fix_range() is None
    os.utime(landing.folder / "young.json", (time.time() + 3600,) * 2)  # by the clock of another machine
    assert landing.fix_range() is None
    monkeypatch.setattr(wholeness, "QUIET", 0.5)
    time.sleep(0.6)
    assert numbers(landing) == [2]
    landing.put(third_json=line(3))
    begun = time.monotonic()
    landing.reader.freeze()
    assert 0.3 < time.monotonic() - begun < 5, "a run that is to end waits for them"
    assert numbers(landing) == [3]


def test_names_of_files_that_are_not_finished(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark)
    names = ["_a.json", ".b.json", "c.tmp", "d.json.part", "e.crdownload", "f.json._COPYING_", "g.inprogress"]
    put(landing.folder, {name: line(0) for name in [*names, "h.filepart", "x.tmp/i.json"]})
    assert landing.fix_range() is None


def test_an_empty_file_that_is_filled_later(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark)
    landing.put(a_json="", b_json=line(1))
    assert numbers(landing) == [1]
    landing.put(a_json=line(2))
    assert numbers(landing) == [2]
    landing.put(a_json=line(3))
    assert landing.fix_range() is None


@pytest.mark.parametrize("after", ["keep", "delete"])
def test_a_file_replaced_before_it_is_read(after: str, tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark, {"after": after, "on_change": "reload"})
    landing.put(a_json=line(1), b_json=line(7))
    landing.fix_range()
    landing.put(a_json=line(2) + line(3))
    assert numbers(landing) == [2, 3, 7]
    for _ in range(2):
        assert landing.fix_range() is None, "what is in the lake is what the list says"
        landing.reader = landing.restarted()
    assert (landing.folder / "a.json").exists() == (after == "keep")


def test_a_file_that_is_being_replaced_is_waited_for(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark)
    landing.put(a_json=line(1))
    end = landing.fix_range()
    with (landing.folder / "a.json").open("w") as file:
        file.write(line(2)[:4])
        file.flush()
        with pytest.raises(HeadwaterError, match=r"a.json is being written again") as caught:
            landing.records(end)
        assert caught.value.code is Code.SOURCE_FILE_CHANGED
        file.write(line(2)[4:])
    assert numbers(landing) == [2]


def test_a_file_replaced_while_it_is_read(tmp_path: Path, spark: SparkSession) -> None:
    """A mapper replaces the file whose record it is shown: what is committed is the file that is there then."""
    shop = Shop.make(tmp_path, topic="mappers: shop", source="on_change: reload")
    project = tmp_path / "headwater.yml"
    project.write_text("code: shop.py\n" + project.read_text())
    file = tmp_path / "landing" / "a.json"
    (tmp_path / "shop.py").write_text(
        "from pathlib import Path\nfrom headwater import mapper\n\n\n"
        '@mapper(schema="id bigint")\ndef row(event: dict):\n'
        '    if event["id"] == 1:\n'
        f'        Path({str(file)!r}).write_text(\'{{"id": 2}}\\n{{"id": 3}}\\n\')\n'
        '    return {"id": event["id"]}\n'
    )
    shop.land("a.json", [{"id": 1}])
    for _ in range(2):
        answer = shop.run()
        assert answer.code == 0, answer.out + answer.err
        assert shop.query("SELECT id FROM topic('orders') ORDER BY id") == [{"id": 2}, {"id": 3}]


@pytest.mark.timeout(300)
def test_what_a_runner_notices_while_it_runs(tmp_path: Path) -> None:
    lines = ["name: busy", f"spark: {{master: 'local[2]', conf: {COLD}}}", "sources:"]
    lines += [f"  {one}: {{type: files, path: ./landing, on_change: {one}}}" for one in ("warn", "reload", "fail")]
    lines += ["topics:"] + [f"  {one}: {{from: {one}}}" for one in ("warn", "reload", "fail")]
    (tmp_path / "headwater.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    landing = tmp_path / "landing"
    put(landing, {"a.json": line(1)})
    os.utime(landing / "a.json", LONG_AGO)
    runner = Running(tmp_path)
    try:
        runner.until(lambda: all(runner.of("step", f"topics.{one}") for one in ("warn", "reload", "fail")))
        with (landing / "b.json").open("w") as file:
            file.write(line(2))
            file.flush()
            put(landing, {"a.json": line(3) + line(4)})
            runner.until(lambda: runner.of("failed", "topics.fail"))
            runner.until(lambda: len(runner.of("step", "topics.reload")) == 2)
            file.write(line(5))
        runner.until(lambda: len(runner.of("step", "topics.warn")) == 2)
        runner.until(lambda: len(runner.of("step", "topics.reload")) == 3)
        runner.signal(signal.SIGTERM)
        assert runner.process.wait(60) == 0
    finally:
        runner.end()
    assert runner.of("failed", "topics.fail")[0]["code"] == "SOURCE_FILE_CHANGED"
    assert [step["rows"] for step in runner.of("step", "topics.warn")] == [1, 2]
    assert [step["rows"] for step in runner.of("step", "topics.reload")] == [1, 2, 2]
    assert "file changed after it was ingested" in (tmp_path / ".headwater/logs/headwater.log").read_text()
