"""Erasure: rows go from a topic, from all that was made of them and from every version, and don't come again."""

from __future__ import annotations

import json
import time
from pathlib import Path
from unittest.mock import patch

import pytest

from headwater.api.lake import Lake
from headwater.core.errors import Code, TransientError, UsageError
from headwater.formats.spark_table import SparkTable
from tests.erasure.lake import CONDITION, GONE, READERS, ErasureLake, files_with, parquet_files_with
from tests.hints.followed import follows
from tests.runtime.alongside import running, until
from tests.scale import in_formats

pytestmark = pytest.mark.usefixtures("spark")


@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg"]))
def test_what_is_forgotten_is_in_no_file_and_does_not_come_again(tmp_path: Path, format: str) -> None:
    lake = ErasureLake(tmp_path, format, ", partition_by: [customer_id]" if format == "delta" else "")
    lake.land("1.json", ("cust-0001-x", 1), (GONE, 2), ("cust-0002-y", 3))
    lake.run()
    broken = f'{{"customer_id": "{GONE}", "n": "many"}}'
    lake.land("2.json", (GONE, 4), ("cust-0001-x", 5), broken, f'{{"customer_id": "{GONE}", "n": ', "nonsense")
    lake.run()
    assert len(lake("dlq", "list", "--json").json) == 3
    assert len(parquet_files_with(tmp_path, GONE)) > 4
    assert not lake.check()["clean"]

    tried = lake.forget("--dry-run")
    assert tried.code == 0, tried.err
    assert (tried.json["rows"], tried.json["rows_before"], tried.json["dead_letters"], tried.json["done"]) == (
        2, 5, 2, False,
    )  # fmt: skip
    assert len(lake.rows("SELECT n FROM topic('orders')")) == 5
    done = lake.forget()
    assert done.code == 0, done.err + done.out
    removed = {one["name"]: one["rows_removed"] for one in done.json["relations"]}
    assert removed == {"topics.orders": 2, "tables.customers": 1, "tables.plain": 2, "views.newest": 1}
    assert all(one["versions_expired"] and one["files_deleted"] for one in done.json["relations"])

    proven = lake.check()
    assert (proven["held"], proven["undecoded"]) == ([], []), proven
    assert parquet_files_with(tmp_path, GONE) == []
    assert [path for path in tmp_path.rglob("*") if GONE.partition("@")[0] in path.name] == []
    assert [path for path in files_with(tmp_path, GONE[:15]) if "landing" not in path.parts] == []
    assert [path for path in files_with(tmp_path, GONE) if "landing" not in path.parts] == []

    def check_rows(rows: list[tuple[str, int]]) -> None:
        assert lake.rows("SELECT customer_id, n FROM topic('orders')") == sorted(rows)
        assert lake.rows("SELECT customer_id, n FROM table('plain')") == sorted(rows)
        newest = sorted(dict(sorted(rows, key=lambda row: row[1])).items())
        assert lake.rows("SELECT customer_id, n FROM table('customers')") == newest
        assert lake.rows("SELECT customer_id, n FROM mv('newest')") == newest
        assert lake.rows("SELECT k, n FROM mv('totals')") == [(len(rows), sum(n for _, n in rows))]
        for view in ("totals", "newest", "others"):
            assert lake("mv", "verify", view).code == 0, view

    left = [("cust-0001-x", 1), ("cust-0002-y", 3), ("cust-0001-x", 5)]
    check_rows(left)
    assert [letter["reason"] for letter in lake("dlq", "list", "--json").json] == ["decode"]
    lake.land("3.json", (GONE, 6), ("cust-0003-z", 7))
    lake.run()
    left.append(("cust-0003-z", 7))
    check_rows(left)
    assert lake("flow", "rebuild", "orders", "--yes").code == 0
    lake.run()
    check_rows(left)
    assert [letter["reason"] for letter in lake("dlq", "list", "--json").json] == ["decode"]
    assert lake.check()["held"] == []


@follows(
    "a condition is true or false for each row of the topic, by its columns",
    "a table or view loses the rows that its topics lose",
)
def test_what_may_be_a_slip_is_asked_for_and_what_was_cut_off_goes_on(tmp_path: Path) -> None:
    few = "tables: {plain: {sql: \"SELECT customer_id, n FROM stream(topic('orders'))\"}}"
    lake = ErasureLake(tmp_path, readers=few)
    lake.land("1.json", ("cust-0001-x", 1), (GONE, 2))
    lake.run()
    kept = tmp_path / "lake" / "_headwater" / "forgotten"
    nothing = lake.forget(where="customer_id = 'nobody-at-all'")
    assert (nothing.code, nothing.json["rows"], nothing.json["done"]) == (0, 0, False)
    for where, code in (("custmer_id = 'x'", "UNKNOWN_COLUMN"), ("n + 1", "INVALID_SQL")):
        refused = lake.forget(where=where)
        assert refused.code == 2 and code in refused.err and "true or false" in refused.err, refused.err
    everything = lake.forget(where="n > 0")
    assert everything.code == 2 and "all 2 rows" in everything.err and "--yes" in everything.err
    with Lake.open(tmp_path) as opened:
        with pytest.raises(UsageError, match="table or view loses"):
            opened.table("plain").forget(CONDITION)
        tried = opened.topic("orders").forget(CONDITION, dry_run=True)
        assert (tried.rows, tried.id, tried.done) == (1, None, False)
    assert lake("topic", "tag", "orders", "before").code == 0
    labelled = lake.forget()
    assert labelled.code == 2 and "topics.orders: before" in labelled.err and "--yes" in labelled.err
    assert not kept.exists() and len(lake.rows("SELECT n FROM topic('orders')")) == 2, "nothing was changed"

    whole = SparkTable.erase_past
    left = iter([True])

    def cut_off(table: SparkTable) -> list[int]:
        if next(left, None) is None:
            raise TransientError(Code.COMMIT_FAILED, "the disk is away")
        return whole(table)

    with patch.object(SparkTable, "erase_past", cut_off):
        failed = lake.forget("--yes")
    assert failed.code == 1 and "the disk is away" in failed.err, failed.err
    assert 'done_at": null' in (kept / "orders.json").read_text()
    done = lake.forget("--yes")
    assert done.code == 0 and done.json["done"], done.err
    with Lake.open(tmp_path) as opened:
        assert not opened.topic("orders").tags()
    assert lake.check()["clean"]
    (entry,) = json.loads((kept / "orders.json").read_text())
    assert entry["done_at"] is not None and not entry["legible"]
    assert (tmp_path / "lake" / "_headwater" / "forgotten" / "receipts").exists()

    with running(tmp_path) as runner:
        lake.land("2.json", (GONE, 3), ("cust-0002-y", 4), ("cust-0003-z", 5))
        until(lambda: lake.rows("SELECT n FROM table('plain')") == [(1,), (4,), (5,)], runner.told)
        beside = lake.forget(where="n IN (4, 6)")
        assert beside.code == 0 and beside.json["rows"] == 1, beside.err
        lake.land("3.json", ("cust-0004-a", 6), ("cust-0004-a", 7))
        until(lambda: lake.rows("SELECT n FROM table('plain')") == [(1,), (5,), (7,)], runner.told)
        assert not runner.of("failed")
    assert lake.check()["clean"] and lake.check("n IN (4, 6)")["held"] == []
    legible = lake.forget(where="customer_id LIKE 'cust-0003%'")
    assert legible.code == 0 and legible.json["legible"]
    assert lake.rows("SELECT n FROM topic('orders')") == [(1,), (7,)]
    told = lake.check("customer_id = 'cust-0003%'")
    assert told["clean"] and [Path(one).name for one in told["kept_conditions"]] == ["orders.json"]


def test_tables_that_have_more_than_the_topic_are_asked_about(tmp_path: Path) -> None:
    """What `retain.rows` has removed from the topic is in tables still: it goes from there too."""
    readers = READERS[: READERS.index("views:")]
    lake = ErasureLake(tmp_path, topic=", retain: {rows: 1s}", readers=readers)
    lake.land("1.json", ("cust-0001-x", 1), (GONE, 2))
    lake.run()
    time.sleep(1.2)
    assert lake("maintain", "orders").code == 0
    assert lake.rows("SELECT n FROM topic('orders')") == []
    lake.land("2.json", ("cust-0002-y", 3), (GONE, 4))
    lake.run()
    assert lake.rows("SELECT n FROM table('plain')") == [(1,), (2,), (3,), (4,)]
    asked = lake.forget()
    assert asked.code == 2 and "tables.customers would begin again" in asked.err and "--yes" in asked.err, asked.err
    assert lake.rows("SELECT n FROM table('customers')") == [(1,), (3,), (4,)]
    done = lake.forget("--yes")
    assert done.code == 0 and done.json["done"], done.err
    assert lake.check()["clean"]
    assert lake.rows("SELECT n FROM table('plain')") == [(1,), (3,)]
    assert lake.rows("SELECT n FROM table('customers')") == [(3,)]
    assert parquet_files_with(tmp_path, GONE) == []


@pytest.mark.full
@follows("put the file back from a copy: without it rows that were forgotten would come again")
def test_nothing_is_taken_in_while_it_is_not_known_what_was_forgotten(tmp_path: Path) -> None:
    lake = ErasureLake(tmp_path, readers="")
    lake.land("1.json", ("cust-0001-x", 1), (GONE, 2))
    lake.run()
    assert lake.forget().code == 0
    kept = tmp_path / "lake" / "_headwater" / "forgotten" / "orders.json"
    whole = kept.read_bytes()
    kept.write_bytes(whole[:20])
    lake.land("2.json", (GONE, 3), ("cust-0002-y", 4))
    refused = lake("run", "--once", "--json")
    assert refused.code == 1 and "LEDGER_CORRUPT" in refused.out and str(kept) in refused.out, refused
    assert lake.rows("SELECT n FROM topic('orders')") == [(1,)]
    kept.write_bytes(whole)
    lake.run()
    assert lake.rows("SELECT n FROM topic('orders')") == [(1,), (4,)]


@pytest.mark.full
@follows("put that right and give the command again: it goes on where it was")
def test_a_view_that_fails_meanwhile_is_put_right(tmp_path: Path) -> None:
    """What is forgotten is out of the topic by then, and the view still holds it."""
    few = "views: {steps: {sql: \"SELECT customer_id, size(sequence(1, 3, n)) AS k FROM topic('orders')\"}}"
    lake = ErasureLake(tmp_path, readers=few)
    lake.land("1.json", ("cust-0001-x", 1), (GONE, 2))
    lake.run()
    lake.land("2.json", ("cust-0002-y", 0))
    assert lake("run", "--once", "topics.orders").code == 0
    failed = lake.forget()
    assert failed.code == 1 and "views.steps could not be brought up to date" in failed.err, failed
    assert not lake.check()["clean"]
    file = tmp_path / "headwater.yml"
    file.write_text(file.read_text().replace("(1, 3, n)", "(1, 3, greatest(n, 1))"))
    done = lake.forget()
    assert done.code == 0 and done.json["done"], done.err
    assert lake.check()["clean"]
    assert lake.rows("SELECT customer_id, k FROM mv('steps')") == [("cust-0001-x", 3), ("cust-0002-y", 3)]
