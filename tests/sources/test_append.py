"""Rows that programs append: durable when acknowledged, in the topic once, whoever runs the flow."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake, Relation
from headwater.core.errors import Code, TerminalError, UsageError
from headwater.operations import append
from tests.hints.followed import follows
from tests.runtime.alongside import until
from tests.scale import in_formats
from tests.support import headwater

PAGE = Path(__file__).parents[2] / "docs/sources/append.md"
HINTS = "amount decimal(30,10), big decimal(38,0)"


def project(root: Path, format: str = "delta", source: str = "") -> Path:
    root.mkdir(exist_ok=True)
    lines = ["name: shop", f"format: {format}", "spark: {master: 'local[2]'}", "sources:", "  api:", "    type: append"]
    lines += [f"    {line}" for line in source.splitlines()]
    (root / "headwater.yml").write_text("\n".join([*lines, "topics: {clicks: {from: api}}"]) + "\n")
    return root


def inbox(root: Path) -> list[Path]:
    return sorted((root / "lake/_headwater/flows/topics.clicks/inbox").glob("*.ndjson"))


@contextmanager
def seen(root: Path) -> Iterator[Relation]:
    """The topic as another program sees it. A session that has read an Iceberg table of the embedded catalog before
    may go on seeing what it saw then."""
    with Lake.open(root) as lake:
        yield lake.topic("clicks")


def ids(root: Path) -> list[int]:
    with seen(root) as topic:
        return sorted(row.id for row in topic.df().select("id").collect())


def together(*work: Callable[[], None]) -> None:
    """All at once, each in a thread of its own."""
    failures: list[BaseException] = []

    def guarded(one: Callable[[], None]) -> None:
        try:
            one()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@contextmanager
def running(root: Path) -> Iterator[None]:
    """A runner of the project, in this process and a lake of its own."""
    stopping, ready = threading.Event(), threading.Event()

    def run() -> None:
        with Lake.open(root) as lake:
            lake.run(stopping=stopping, on_ready=lambda _: ready.set())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        stopping.set()
        thread.join()


@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg"]))
def test_values_keys_and_dead_letters(spark: SparkSession, tmp_path: Path, format: str) -> None:
    root = project(tmp_path, format, f'schema_hints: "{HINTS}"')
    amount, big = Decimal("12345678901234567890.0123456789"), 10**30 + 1
    with Lake.open(root) as lake:
        topic = lake.topic("clicks")
        row = {"id": 1, "amount": amount, "big": big, "at": datetime(2026, 1, 1, tzinfo=timezone.utc), "l": [{"x": 1}]}
        answer = topic.append(row, key="k1")
        with seen(root) as other:
            version = other.history(limit=1)[0].version
            found = other.df().collect()
        assert answer.to_dict() == {
            "topic": "clicks", "rows": 1, "rejected": 0, "key": "k1", "version": version, "repeated": False,
            "committed": True,
        }  # fmt: skip
        values = [(r.id, r.amount, int(r.big), r.at, r.l[0].x) for r in found]
        assert values == [(1, amount, big, "2026-01-01T00:00:00Z", 1)]
        repeated = topic.append(row, key="k1")
        assert repeated.repeated and repeated.committed and ids(root) == [1]
        with pytest.raises(UsageError) as caught:
            topic.append({"id": 2}, key="k1")
        assert caught.value.code is Code.KEY_REUSED
        partly = topic.append([{"id": 2, "amount": Decimal("0.10")}, {"id": 3, "amount": "much"}])
        assert (partly.rows, partly.rejected) == (2, 1)
        assert ids(root) == [1, 2] and len(lake.dead_letters("clicks")) == 1
        assert inbox(root) == []


@pytest.mark.parametrize("format", ["hudi", "paimon", "parquet"])
def test_the_other_formats(spark: SparkSession, tmp_path: Path, format: str) -> None:
    root = project(tmp_path, format)
    with Lake.open(root) as lake:
        topic = lake.topic("clicks")
        for n in range(3):
            topic.append({"id": n}, wait=False)
        answer = topic.append({"id": 3}, key="k")
        assert answer.committed and topic.append({"id": 3}, key="k").repeated
        assert ids(root) == [0, 1, 2, 3] and inbox(root) == []


def test_what_waits_shares_a_step(spark: SparkSession, tmp_path: Path) -> None:
    root = project(tmp_path)
    with Lake.open(root) as lake:
        topic = lake.topic("clicks")
        for n in range(5):
            answer = topic.append([{"id": 2 * n}, {"id": 2 * n + 1}], wait=False)
            assert (answer.committed, answer.rejected, answer.version) == (False, None, None)
        assert topic.append({"id": 100}, key="once", wait=False).repeated is False
        assert topic.append({"id": 100}, key="once", wait=False).repeated is True
        kept = {path.name: path.read_bytes() for path in inbox(root)}
        assert len(kept) == 6
        [report] = lake.run(["clicks"], once=True)
        assert (report.steps, report.rows) == (1, 11) and inbox(root) == []
        positions = [row._position for row in topic.df().orderBy("id").select("_position").collect()]
        assert positions == sorted(positions) and len(set(positions)) == 11
        # A try with a key that is late may bring back what has been taken: it is known by its key.
        name = next(name for name in kept if "-k" in name)
        (root / "lake/_headwater/flows/topics.clicks/inbox" / name).write_bytes(kept[name])
        [report] = lake.run(["clicks"], once=True)
        assert report.steps == 0 and inbox(root) == [] and len(ids(root)) == 11


def test_many_at_once_without_and_with_a_runner(spark: SparkSession, tmp_path: Path) -> None:
    root = project(tmp_path)
    with Lake.open(root) as lake:
        topic = lake.topic("clicks")

        def one(n: int, key: str | None = None) -> None:
            assert topic.append({"id": n}, key).committed

        together(*(partial(one, n) for n in range(4)))
        assert ids(root) == [0, 1, 2, 3]
        with running(root):
            together(*(partial(one, n) for n in range(4, 10)))
            together(*(partial(one, 10, "same") for _ in range(4)))
            begun = time.monotonic()
            topic.append({"id": 11})
            print(f"an append alongside a runner took {time.monotonic() - begun:.3f} s")
        assert ids(root) == list(range(12))


def test_processes_that_put_at_once(spark: SparkSession, tmp_path: Path) -> None:
    root = project(tmp_path)
    program = (
        "import sys\n"
        "from headwater.api.lake import Lake\n"
        "me = int(sys.argv[2])\n"
        "with Lake.open(sys.argv[1]) as lake:\n"
        "    topic = lake.topic('clicks')\n"
        "    for n in range(10):\n"
        "        topic.append({'id': me * 100 + n}, wait=False)\n"
        "        topic.append({'id': 1000 + n}, key=f'shared {n}', wait=False)\n"
        "assert 'pyspark' not in sys.modules\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", program, str(root), str(n)]) for n in range(3)]
    assert [process.wait(timeout=120) for process in started] == [0, 0, 0]
    with Lake.open(root) as lake:
        lake.run(["clicks"], once=True)
        expected = [n * 100 + m for n in range(3) for m in range(10)] + [1000 + n for n in range(10)]
        assert ids(root) == sorted(expected)


def test_a_paused_flow_keeps_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    root = project(tmp_path)
    with Lake.open(root) as lake:
        lake.pause("clicks")
        topic = lake.topic("clicks")
        assert topic.append({"id": 1}).committed is False and len(inbox(root)) == 1
        lake.resume("clicks")
        assert topic.append({"id": 2}).committed is True
        assert ids(root) == [1, 2]


@pytest.mark.full
@follows("the rows are stored, and ingested when you resume it: headwater flow resume {}")
def test_a_flow_that_a_runner_has_given_up_takes_the_rows_when_it_is_resumed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append, "GIVEN_UP", 0.5)
    root = project(tmp_path / "shop")
    file = root / "headwater.yml"  # a runner that has nothing else to do would end
    file.write_text(file.read_text().replace("topics: {", "topics: {others: {from: api}, "))
    with Lake.open(root) as lake:
        lake.topic("clicks").append({"id": 1})
    batches = root / "lake/_headwater/flows/topics.clicks/appends"
    shutil.move(batches, tmp_path / "copy")
    with running(root), Lake.open(root) as lake:
        until(lambda: headwater("status", "--json", "--project", root).json[-1]["state"] == "failed")
        with pytest.raises(TerminalError, match="was given up"):
            lake.topic("clicks").append({"id": 2})
        assert len(inbox(root)) == 1
        shutil.move(tmp_path / "copy", batches)
        assert headwater("flow", "resume", "clicks", "--project", root).code == 0
        until(lambda: not inbox(root))
        assert ids(root) == [1, 2]


def test_a_start_over_keeps_what_waits(spark: SparkSession, tmp_path: Path) -> None:
    root = project(tmp_path)
    with Lake.open(root) as lake:
        topic = lake.topic("clicks")
        topic.append({"id": 1}, key="one")
        topic.append({"id": 2}, wait=False)
        lake.start_over("clicks", empty=False)
        assert topic.append({"id": 1}, key="one").repeated
        lake.run(["clicks"], once=True)
        assert ids(root) == [1, 2]


def test_the_page_and_the_command(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The examples of docs/sources/append.md as they stand, then a CSV file and standard input."""
    blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    (tmp_path / "headwater.yml").write_text(blocks["yaml"])
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks["python"], str(PAGE), "exec"), {})
    assert capsys.readouterr().out.endswith("2 0\n")
    Path("rows.ndjson").write_text('{"id": 3, "price": 1.10}\n')
    command = shlex.split(blocks["sh"].splitlines()[0])
    assert headwater(*command[1:]).code == 0
    Path("rows.csv").write_text("id,page,price\n4,007,2.50\n5,,\n")
    answer = headwater("topic", "append", "clicks", "rows.csv", "--key", "file 1", "--json")
    assert answer.code == 0 and answer.json["rows"] == 2 and answer.json["committed"], answer
    assert headwater("topic", "append", "clicks", "rows.csv", "--key", "file 1", "--json").json["repeated"]
    given = io.TextIOWrapper(io.BytesIO(b'{"id": 6, "page": "\xc3\xa4"}\n'))
    with patch.object(sys, "stdin", given):
        assert headwater("topic", "append", "clicks", "-").code == 0
    with seen(tmp_path) as topic:
        found = [(row.id, row.page, row.price) for row in topic.df().orderBy("id").collect()]
    prices = {3: Decimal("1.10"), 4: Decimal("2.50")}
    pages = {1: "/", 2: "/cart", 4: "007", 6: "ä"}
    assert found == [(n, pages.get(n), prices.get(n)) for n in range(1, 7)]


@follows("put its folder in the lake back from a copy, or reset the flow", "put it back from a copy, or reset the flow")
def test_a_batch_that_was_settled_and_not_read_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """As after a crash between the list of a batch and the flow's intent."""
    root = project(tmp_path)
    with Lake.open(root) as lake:
        topic = lake.topic("clicks")
        topic.append({"id": 0})
        topic.append({"id": 1}, wait=False)
        [waiting] = inbox(root)
        batches = root / "lake/_headwater/flows/topics.clicks/appends"
        settled = {"appends": [waiting.name], "merged": False}
        (batches / f"{2:012d}.json").write_text(json.dumps(settled))
        topic.append({"id": 2})
        assert ids(root) == [0, 1, 2] and inbox(root) == []
        shutil.move(batches, tmp_path / "copy")
        [report] = lake.run(["clicks"], once=True)
        assert report.error is not None and report.error.code is Code.LEDGER_CORRUPT
        shutil.move(tmp_path / "copy", batches)
        intent = max((root / "lake/_headwater/flows/topics.clicks").glob("*-*.json"))
        told = intent.read_bytes()
        intent.write_bytes(told[:20])
        [report] = lake.run(["clicks"], once=True)
        assert report.error is not None and report.error.code is Code.LEDGER_CORRUPT
        intent.write_bytes(told)
        assert topic.append({"id": 3}).committed and ids(root) == [0, 1, 2, 3]


@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg"]))
def test_decimals_stay_decimals(spark: SparkSession, tmp_path: Path, format: str) -> None:
    """Without a hint, whatever the first ones look like; floats stay floats, and nothing is rounded."""
    root = project(tmp_path, format)
    exact, large = Decimal("12345678901234567890.012345678901234567"), Decimal(10) ** 29
    with Lake.open(root) as lake:
        topic = lake.topic("clicks")
        first = {"id": 1, "price": Decimal("5"), "ratio": 0.1, "large": large, "in": {"net": Decimal("0.10")}}
        topic.append([{**first, "parts": [Decimal("1.5"), 2]}, {"id": 2, "price": 7, "ratio": 1e300}])
        topic.append([{"id": 3, "price": exact, "ratio": Decimal("0.25"), "in": {"net": Decimal("-0.123456789")}}])
        topic.append([{"id": 4, "price": 2.5, "tax": Decimal("0.19")}, {"id": 5, "price": Decimal("-1E-18")}])
        cast_failures = [
            {"id": 6, "price": Decimal("1E-19")},
            {"id": 7, "ratio": Decimal("0.12345678901234567890123")},
            {"id": 8, "in": {"net": Decimal("1E-20")}},
            {"id": 9, "parts": [Decimal(1), Decimal("1E-20")]},
            {"id": 10, "large": Decimal(10) ** 37},
            {"id": 11, "price": Decimal("1")},
        ]
        assert topic.append(cast_failures).rejected == 5
        dead_letters = {letter.message.partition("; hint: ")[0] for letter in lake.dead_letters("clicks")}
    assert dead_letters == {
        "price: 0.0000000000000000001 does not fit decimal(38,18)",
        "ratio: 0.12345678901234567890123 does not fit double",
        "in.net: 0.00000000000000000001 does not fit decimal(38,18)",
        "parts: 0.00000000000000000001 does not fit decimal(38,18)",
        f"large: {10**37} does not fit decimal(38,8)",
    }
    with seen(root) as found:
        types = {f.name: f.dataType.simpleString() for f in found.df().schema.fields}
        rows = found.df().orderBy("id").collect()
    wanted = {
        "price": "decimal(38,18)",
        "ratio": "double",
        "large": "decimal(38,8)",
        "in": "struct<net:decimal(38,18)>",
    }
    wanted |= {"parts": "array<decimal(38,18)>", "tax": "decimal(38,18)"}
    assert {name: types[name] for name in wanted} == wanted
    prices = {1: Decimal(5), 2: Decimal(7), 3: exact, 4: Decimal("2.5"), 5: Decimal("-1E-18"), 11: Decimal(1)}
    assert {row.id: row.price for row in rows} == prices
    assert [row.ratio for row in rows[:3]] == [0.1, 1e300, 0.25] and rows[0].large == large
    assert rows[0].parts == [Decimal("1.5"), Decimal(2)] and rows[3].tax == Decimal("0.19")
    assert [row["in"].net for row in (rows[0], rows[2])] == [Decimal("0.10"), Decimal("-0.123456789")]

    # Replayed without the values that do not fit: where one can't be taken out of its array, the event stays.
    file = root / "headwater.yml"
    file.write_text(file.read_text().replace("from: api", "from: api, schema: {new_column: rescue}"))
    with Lake.open(root) as lake:
        [answer] = lake.replay_dead_letters("clicks")
        assert (answer.tried, answer.came_through, answer.still_dead) == (5, 4, 1)
    with seen(root) as found:
        kept = {row.id: row for row in found.df().where("id > 5").collect()}
    assert json.loads(kept[7]._rescued) == {"ratio": "0.12345678901234567890123"} and kept[7].ratio is None
    assert json.loads(kept[8]._rescued) == {"in.net": "0.00000000000000000001"}


@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg"]))
def test_deduplication_makes_retries_safe(spark: SparkSession, tmp_path: Path, format: str) -> None:
    """Without a key: the same rows given again, together with others, twice in one call, and in one step."""
    root = project(tmp_path, format)
    file = root / "headwater.yml"
    file.write_text(file.read_text().replace("from: api", "from: api, deduplicate_by: id, deduplicate_within: 1d"))
    with Lake.open(root) as lake:
        topic = lake.topic("clicks")
        rows = [{"id": 1, "n": 1}, {"id": 2, "n": 1}]
        assert [topic.append(rows).repeated for _ in range(2)] == [False, False]
        answer = topic.append([{"id": 2, "n": 2}, {"id": 3, "n": 2}, {"id": 3, "n": 3}])
        assert (answer.rows, answer.rejected, answer.committed) == (3, 0, True)
        for _ in range(3):
            topic.append([{"id": 4, "n": 4}], wait=False)
        [report] = lake.run(["clicks"], once=True)
        assert (report.steps, report.rows) == (1, 1)
    with seen(root) as found:
        kept = sorted((row.id, row.n) for row in found.df().collect())
    assert kept == [(1, 1), (2, 1), (3, 2), (4, 4)]


OF_FORMATS = {
    "delta": ["_change_type", "_commit_version", "_commit_timestamp"],
    "iceberg": ["_file", "_pos", "_partition", "_deleted", "_spec_id", "_row_id", "_last_updated_sequence_number"],
    "hudi": ["_hoodie_file_name", "_headwater_key"],
    "paimon": ["_VALUE_COUNT", "_SEQUENCE_NUMBER", "_VALUE_KIND", "_KEY_id"],
}


@pytest.mark.parametrize("format", OF_FORMATS)
def test_keys_that_a_format_keeps_for_itself(spark: SparkSession, tmp_path: Path, format: str) -> None:
    root = project(tmp_path, format)
    names = OF_FORMATS[format]
    with Lake.open(root) as lake:
        lake.topic("clicks").append({"id": 1, **dict.fromkeys(names, "v"), "in": dict.fromkeys(names, "w")})
        lake.topic("clicks").append({"id": 2, "more": 3})
    with seen(root) as topic:
        first, second = topic.df().orderBy("id").collect()
    assert [first[f"payload_{name}"] for name in names] == ["v"] * len(names)
    assert first["in"].asDict() == dict.fromkeys(names, "w") and (second.id, second.more) == (2, 3)
    with Lake.open(root) as lake:
        assert lake.sql(f"SELECT payload_{names[0]} AS v FROM topic('clicks') WHERE id = 1").rows() == [{"v": "v"}]
