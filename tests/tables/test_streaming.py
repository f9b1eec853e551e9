"""Tables that a streaming query of the user's makes, under the runner."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.api.lake import Lake
from headwater.formats.base import Capability
from headwater.formats.registry import FORMATS
from headwater.runner.reports import FlowEvent
from tests.runtime.running import Running
from tests.support import COLD, Answer, headwater

pytestmark = pytest.mark.usefixtures("spark")

VISITS = '''\
from collections.abc import Iterator

import pandas as pd
from pyspark.sql import functions as F

from headwater import transform


def counted(key: tuple, frames: Iterator[pd.DataFrame], state) -> Iterator[pd.DataFrame]:
    seen = state.getOption[0] if state.exists else 0
    seen += sum(len(frame) for frame in frames)
    state.update((seen,))
    yield pd.DataFrame({"page": [key[0]], "seen": [seen]})


@transform("visits", streaming=True)
def visits(clicks):
    """How often each page was seen, by custom state."""
    return clicks.groupBy("page").applyInPandasWithState(
        counted, "page string, seen long", "seen long", "update", "NoTimeout"
    )


@transform("plain", streaming=True)
def plain(clicks):
    return clicks.select("event_id", F.upper("page").alias("page"))
'''
PROJECT = """\
name: pages
code: pages.py
sources: {landing: {type: files, path: ./landing}}
topics: {clicks: {from: landing}}
tables:
  visits: {transform: visits, keys: [page]}
"""


class Pages:
    """A project whose code makes tables of clicks."""

    def __init__(self, root: Path, project: str = PROJECT, code: str = VISITS) -> None:
        self.root = root
        (root / "landing").mkdir()
        (root / "headwater.yml").write_text(project, encoding="utf-8")
        (root / "pages.py").write_text(code, encoding="utf-8")

    def land(self, name: str, *clicks: str, more: str = "") -> None:
        lines = (f'{{"event_id": "{name}{n}", "page": "{page}"{more}}}\n' for n, page in enumerate(clicks))
        (self.root / "landing" / f"{name}.json").write_text("".join(lines), encoding="utf-8")

    def run(self, *flows: str) -> Answer:
        answer = headwater("run", *flows, "--once", "--json", "--project", self.root)
        assert "Traceback" not in answer.err + answer.out
        return answer

    def query(self, sql: str) -> list[tuple[object, ...]]:
        answer = headwater("query", sql, "--output", "json", "--project", self.root)
        assert answer.code == 0, answer.err
        return sorted(tuple(row.values()) for row in answer.json)


SEEN = "SELECT page, seen FROM table('visits')"


def test_state_lives_through_runs_and_a_lost_checkpoint_is_made_good_by_replay(tmp_path: Path) -> None:
    pages = Pages(tmp_path)
    pages.land("a", "home", "shop", "home")
    first = pages.run()
    assert first.code == 0, first.out + first.err
    flows = {flow["flow"]: flow for flow in first.events[-1]["flows"]}
    assert (flows["tables.visits"]["rows"], flows["tables.visits"]["state"]) == (2, "done")
    assert flows["tables.visits"]["positions"]["offsets"]
    assert pages.query(SEEN) == [("home", 2), ("shop", 1)]
    pages.land("b", "home")
    assert pages.run().code == 0
    assert pages.query(SEEN) == [("home", 3), ("shop", 1)]
    (newest,) = [
        one for one in headwater("status", "--json", "--project", tmp_path).json if one["flow"] != "topics.clicks"
    ]
    assert (newest["flow"], newest["state"], newest["error"]) == ("tables.visits", "done", None)

    (checkpoint,) = [path for path in tmp_path.rglob("checkpoint") if path.parent.name == "tables.visits"]
    shutil.rmtree(checkpoint)
    pages.land("c", "shop")
    again = pages.run()
    assert again.code == 0, again.out + again.err
    (retry,) = [event for event in again.events if event["event"] == "retry"]
    assert retry["code"] == "CHECKPOINT_LOST" and "filled again by replay, in epoch 2" in retry["error"]
    assert pages.query(SEEN) == [("home", 3), ("shop", 2)]
    assert {e["epoch"] for e in again.events if e["event"] == "step" and e["flow"] == "tables.visits"} == {2}

    # So does one of which a part is gone.
    shutil.rmtree(next(tmp_path.rglob("epoch-2")) / "checkpoint" / "offsets")
    assert "epoch 3" in next(e["error"] for e in pages.run().events if e["event"] == "retry")
    assert pages.query(SEEN) == [("home", 3), ("shop", 2)]
    assert headwater("flow", "rebuild", "visits", "--yes", "--json", "--project", tmp_path).json["epoch"] == 4


def test_every_format_is_input_and_table(tmp_path: Path) -> None:
    """Appends and upserts, and a table that follows another by its signed changes."""
    code = ["from pyspark.sql import functions as F", "from headwater import transform"]
    topics, tables = [], []
    keyed = [format.name for format in FORMATS if format.can(Capability.STREAM_UPSERT)]
    for name in FORMATS.names():
        topics.append(f"  clicks_{name}: {{from: landing, format: {name}}}")
        tables.append(f"  plain_{name}: {{transform: plain_{name}, format: {name}}}")
        code.append(f"@transform('plain_{name}', streaming=True)\ndef f(clicks_{name}):")
        code.append(f"    return clicks_{name}.select('event_id', F.upper('page').alias('page'))")
        if name in keyed:
            tables.append(f"  counts_{name}: {{transform: counts_{name}, format: {name}, keys: [page]}}")
            code.append(f"@transform('counts_{name}', streaming=True, inputs={{'plain': \"table('plain_{name}')\"}})")
            code.append("def f(plain):\n    return plain.groupBy('page').agg(F.count('*').alias('n'))")
        if name == "iceberg":
            tables.append(f"  totals_{name}: {{transform: totals_{name}, format: {name}, keys: [one]}}")
            code.append(f"@transform('totals_{name}', streaming=True, changes=['counts_{name}'])")
            code.append(f"def f(counts_{name}):")
            code.append("    total = F.sum(F.col('_weight') * F.col('n')).alias('total')")
            code.append(f"    return counts_{name}.groupBy(F.lit(1).alias('one')).agg(total)")
    project = "name: pages\ncode: pages.py\nsources: {landing: {type: files, path: ./landing}}\ntopics:\n"
    pages = Pages(tmp_path, "\n".join([project + "\n".join(topics), "tables:", *tables]) + "\n", "\n".join(code) + "\n")
    pages.land("a", "home", "shop", "home")
    first = pages.run()
    assert first.code == 0, first.out + first.err
    pages.land("b", "shop")
    second = pages.run()
    assert second.code == 0, second.out + second.err
    for name in FORMATS.names():
        expected = [("a0", "HOME"), ("a1", "SHOP"), ("a2", "HOME"), ("b0", "SHOP")]
        assert pages.query(f"SELECT event_id, page FROM table('plain_{name}')") == expected, name
    for name in keyed:
        assert pages.query(f"SELECT page, n FROM table('counts_{name}')") == [("HOME", 2), ("SHOP", 2)], name
    assert pages.query("SELECT total FROM table('totals_iceberg')") == [(4,)]


def test_it_goes_on_while_the_runner_does(tmp_path: Path) -> None:
    """It begins when its input does, takes new columns in, pauses, resumes, and stops within seconds."""
    code = VISITS.replace(
        'select("event_id", F.upper("page").alias("page"))', 'select("event_id", "page", *more(clicks))'
    )
    code += "\n\ndef more(clicks):\n    return [c for c in ('lang',) if c in clicks.columns]\n"
    project = PROJECT + "  plain: {transform: plain}\n"
    pages = Pages(tmp_path, project, code)
    events: list[FlowEvent] = []
    stopping = threading.Event()

    def steps(flow: str) -> int:
        return sum(event.event == "step" and event.flow == flow for event in events)

    def until(met: Callable[[], object]) -> None:
        deadline = time.monotonic() + 120
        while not met():
            assert time.monotonic() < deadline and running.is_alive(), [event.record() for event in events]
            time.sleep(0.05)

    with Lake.open(tmp_path) as lake:
        running = threading.Thread(target=lambda: lake.run(on_event=events.append, stopping=stopping))
        running.start()
        try:
            time.sleep(1)
            pages.land("a", "home")
            until(lambda: steps("tables.visits") == 1 and steps("tables.plain") == 1)
            lake.pause("plain")
            until(lambda: any(event.event == "paused" for event in events))
            pages.land("b", "home", "shop", more=', "lang": "en"')
            until(lambda: steps("tables.visits") == 2)
            assert steps("tables.plain") == 1
            lake.resume("plain")
            until(lambda: steps("tables.plain") == 2)
            pages.land("c", "shop", more=', "lang": "de", "new": 1')
            until(lambda: steps("tables.visits") == 3 and steps("tables.plain") == 3)
        finally:
            begun = time.monotonic()
            stopping.set()
            running.join(30)
        print(f"stopped in {time.monotonic() - begun:.2f} s")
        assert not running.is_alive()
        # Every so often, the query is started anew, and ends.
        stopping.clear()
        events.clear()

        def listen(event: FlowEvent) -> None:
            events.append(event)
            if steps("tables.plain") == 1:
                pages.land("e", "shop")
            if steps("tables.plain") == 2:
                stopping.set()

        pages.land("d", "home")
        lake.run(["clicks", "plain"], every=timedelta(seconds=1), on_event=listen, stopping=stopping)
    assert not [event.record() for event in events if event.event == "failed"]
    assert pages.query(SEEN) == [("home", 2), ("shop", 2)]
    found = pages.query("SELECT event_id, coalesce(lang, '-') AS lang FROM table('plain')")
    assert found == [("a0", "-"), ("b0", "en"), ("b1", "en"), ("c0", "de"), ("d0", "-"), ("e0", "-")]


def test_a_signal_in_the_middle_of_a_batch_stops_it_within_seconds(tmp_path: Path) -> None:
    """What it had begun is done or begun again: state and table count each click once."""
    slowly = VISITS.replace("    seen = state", "    time.sleep(1)\n    seen = state", 1)
    cold = f"spark: {{master: 'local[2]', conf: {COLD}}}\n"
    pages = Pages(tmp_path, PROJECT.replace("name: pages\n", "name: pages\n" + cold), "import time\n" + slowly)
    pages.land("a", "home")
    running = Running(tmp_path)
    try:
        running.until(lambda: running.of("step", "tables.visits"))
        pages.land("b", "home", "shop", "home", "cart")
        running.until(lambda: len(running.of("step", "topics.clicks")) == 2)
        time.sleep(2)  # a second until the query looks, and one for each page
        begun = time.monotonic()
        running.signal(signal.SIGTERM)
        assert running.process.wait(60) == 0 and not running.jvms()
        took, steps = time.monotonic() - begun, len(running.of("step", "tables.visits"))
        print(f"stopped in {took:.2f} s, after {steps} batches")
        assert took < 20 and not running.of("failed")
    finally:
        running.end()
    pages.land("c", "shop")
    assert pages.run().code == 0
    assert pages.query(SEEN) == [("cart", 1), ("home", 3), ("shop", 2)]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return 3", "it gives a int, not a DataFrame"),
        ("return clicks.sparkSession.range(3)", "what it gives is no stream"),
        ("return clicks.select('nope')", "pages.py:5"),
        ("return clicks.groupBy('page').count().collect()", "AnalysisException"),
        ("return 1 / 0", "ZeroDivisionError: division by zero"),
        ("return clicks.select('event_id')", "it gives no column 'page', a key of its table"),
        ("return clicks.select('page', 'event_id')", "several rows for page = 'home'"),
        ("return clicks.selectExpr(\"nullif(page, 'home') AS page\")", "a row without a key: page = None"),
        ("return clicks.join(clicks.select('page'), 'page')", "output_mode"),
        ("return clicks.mapInPandas(broken, 'page string')", "ValueError: no page is good"),
    ],
)
def test_what_goes_wrong_is_told_without_a_stack(once: tuple[Pages, str], body: str, says: str) -> None:
    pages, head = once
    (pages.root / "pages.py").write_text(head + f"    {body}\n", encoding="utf-8")
    answer = pages.run("visits")
    assert answer.code == 1, answer.out
    (failed,) = [event for event in answer.events if event["event"] == "failed"]
    assert says in failed["error"], failed
    assert failed["code"] in ("TRANSFORM_FAILED", "DUPLICATE_KEY", "NULL_KEY", "SPARK_FAILED")
    assert "\n" not in failed["error"]


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory, spark: object) -> tuple[Pages, str]:
    head = "from headwater import transform\ndef broken(frames): raise ValueError('no page is good')\n"
    head += "@transform('visits', streaming=True)\ndef visits(clicks):\n"
    pages = Pages(tmp_path_factory.mktemp("wrong"), code=head + "    return clicks\n")
    pages.land("a", "home", "home")
    assert pages.run("clicks").code == 0
    return pages, head


@pytest.mark.parametrize(
    ("decorator", "function", "code", "says"),
    [
        ("'visits', streaming=True", "visits(click)", "UNKNOWN_REFERENCE", "did you mean 'clicks'?"),
        ("'visits', streaming=True", "visits(landing)", "UNKNOWN_REFERENCE", "'landing' is a source"),
        ("'visits', streaming=True", "visits()", "INVALID_FUNCTION", "it takes nothing"),
        ("'visits', streaming=True", "visits(*all)", "INVALID_FUNCTION", "'all' names no input"),
        ("'visits', streaming=True, changes='click'", "visits(clicks)", "INVALID_FUNCTION", "did you mean 'clicks'?"),
        ("'visits', streaming=True, inputs={'x': 'y'}", "visits(clicks)", "INVALID_FUNCTION", "no parameter 'x'"),
        ("'visits', streaming=True, output_mode='all'", "visits(clicks)", "INVALID_FUNCTION", "append, update"),
        ("'visits', streaming=True", "visits(visits)", "CYCLE", "tables.visits → tables.visits"),
    ],
)
def test_check_knows_what_a_transform_takes(
    tmp_path: Path, decorator: str, function: str, code: str, says: str
) -> None:
    text = f"from headwater import transform\n@transform({decorator})\ndef {function}: return clicks\n"
    pages = Pages(tmp_path, code=text)
    answer = headwater("check", "--project", pages.root)
    assert code in answer.err + answer.out and says in answer.err + answer.out
    assert answer.code == 2


@pytest.mark.parametrize("beside", [False, True])
def test_an_input_that_is_rebuilt_doubles_no_row(beside: bool, tmp_path: Path) -> None:
    """In every format, by the next run or alongside a runner: the tables are filled again from the rebuilt topics."""
    names = FORMATS.names() if not beside else ["delta", "iceberg"]
    topics = [f"  clicks_{name}: {{from: landing, format: {name}}}" for name in names]
    tables = [f"  plain_{name}: {{transform: plain_{name}, format: {name}}}" for name in names]
    tables += [f"  sql_{name}: {{sql: \"SELECT * FROM topic('clicks_{name}')\", format: delta}}" for name in names[:2]]
    tables += [f"  second_{name}: {{transform: second_{name}, format: delta}}" for name in names[:2]]
    code = ["from pyspark.sql import functions as F", "from headwater import transform"]
    for name in names:
        code.append(f"@transform('plain_{name}', streaming=True)\ndef f(clicks_{name}):")
        code.append(f"    return clicks_{name}.select('event_id', F.upper('page').alias('page'))")
    for name in names[:2]:
        code.append(f"@transform('second_{name}', streaming=True)\ndef f(sql_{name}):")
        code.append(f"    return sql_{name}.select('event_id', F.upper('page').alias('page'))")
    project = "name: pages\ncode: pages.py\nsources: {landing: {type: files, path: ./landing}}\ntopics:\n"
    pages = Pages(tmp_path, "\n".join([project + "\n".join(topics), "tables:", *tables]) + "\n", "\n".join(code) + "\n")
    pages.land("a", "home", "shop")
    assert pages.run().code == 0
    made = [f"plain_{name}" for name in names] + [f"second_{name}" for name in names[:2]]
    rebuilt = [f"topics.clicks_{name}" for name in names] + [f"tables.sql_{name}" for name in names[:2]]
    expected = [("a0", "HOME"), ("a1", "SHOP"), ("b0", "NEWS")]
    with Lake.open(tmp_path) as lake:

        def found(name: str) -> list[tuple[object, ...]]:
            return sorted(tuple(row.values()) for row in lake.sql(f"SELECT * FROM table('{name}')").rows())

        stopping = threading.Event()
        if beside:
            running = threading.Thread(target=lambda: lake.run(stopping=stopping))
            running.start()
        try:
            for flow in rebuilt:
                lake.start_over(flow, empty=True)
            pages.land("b", "news")
            if beside:
                deadline = time.monotonic() + 120
                while any(found(name) != expected for name in made) and time.monotonic() < deadline:
                    time.sleep(0.2)
            else:
                for report in lake.run(once=True):
                    assert report.error is None, f"{report.flow}: {report.error}"
        finally:
            stopping.set()
            if beside:
                running.join(60)
        assert {name: found(name) for name in made} == dict.fromkeys(made, expected)
        for report in lake.run(once=True):
            assert report.error is None, f"{report.flow}: {report.error}"
        assert {name: found(name) for name in made} == dict.fromkeys(made, expected)
