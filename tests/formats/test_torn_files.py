"""A file of a table's own records that was cut in the middle: every command names it, and what it says to do helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.formats.iceberg import spark
from tests.hints.followed import follows
from tests.support import Shop, headwater

pytestmark = pytest.mark.usefixtures("spark")


@pytest.mark.parametrize("format", ["iceberg", "delta"])
@follows("put the file back from a copy of the lake; without one, drop the topic, table or view …")
def test_a_cut_file_is_named_and_the_hint_helps(tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "LOOK_EVERY", 0.0)  # each command is a process of its own elsewhere
    shop = Shop.make(tmp_path, format=format)
    for name in "ab":
        shop.land(f"{name}.json", [{"event_id": name}])
        assert shop.run().code == 0
    pattern = "metadata/*.metadata.json" if format == "iceberg" else "_delta_log/*.json"
    newest = max((tmp_path / "lake" / "topics" / "orders").glob(pattern))
    whole = newest.read_bytes()
    newest.write_bytes(whole[: len(whole) // 2])

    def require_named(*arguments: str) -> None:
        answer = headwater(*arguments, "--project", tmp_path)
        words = answer.out + answer.err
        assert answer.code == 1 and newest.name in words, words
        assert "INTERNAL" not in words and "TABLE_CORRUPT" in words and "from a copy of the lake" in words, words

    query = "SELECT count(*) AS n FROM topic('orders')"
    require_named("query", query)
    shop.land("c.json", [{"event_id": "c"}])
    if format == "iceberg":
        require_named("run", "--once")
        require_named("topic", "history", "orders")

        # Put back, as the hint says: everything goes on.
        newest.write_bytes(whole)
        assert shop.run().code == 0 and shop.query(query) == [{"n": 3}]
        newest = max(newest.parent.glob("*.metadata.json"))
        newest.write_bytes(newest.read_bytes()[:100])
        require_named("query", query)
    assert headwater("topic", "drop", "orders", "--yes", "--project", tmp_path).code == 0
    again = shop.run()
    assert again.code == 0, again.out
    assert shop.query(query) == [{"n": 3}]
