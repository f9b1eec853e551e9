"""What a project file may say and nothing does: `check` says so, for every key there is."""

from __future__ import annotations

import json

import pytest

from headwater.project.load.loader import load_project
from headwater.project.runnable import not_runnable
from tests.hints.followed import follows
from tests.project.conftest import BASE, Write
from tests.support import headwater

LANDED = {"landing/1.json": '{"event_id": 1}\n'}
"""A source with nothing in its folder is told of too."""
CASES: dict[str, tuple[str, str, str]] = {
    "server": ("server: {port: 9000}", "server", "there is no `headwater serve`"),
    "alerts": ("alerts: {ops: {webhook: 'https://x'}}", "alerts.ops", "can't run yet"),
    "trigger of a table filled by hand": (
        "tables: {x: {keys: [id], schema: id bigint, trigger: 5m}}",
        "tables.x.trigger",
        "no flow keeps it",
    ),
    "options of appends": (
        "sources: {landing: {type: append, options: {a: b}}}\ntopics: {t: {from: landing}}",
        "sources.landing.options",
        "have no effect",
    ),
    "options of CDC": (
        "sources: {c: {type: postgres_cdc, dsn: 'postgresql://u@h/d', tables: [public.a], options: {a: b}}}",
        "sources.c.options",
        "have no effect",
    ),
    "csv without CSV": (
        "sources: {k: {type: kafka, brokers: 'h:1', topic: x, csv: {sep: ';'}}}",
        "sources.k.csv",
        "has no effect",
    ),
    "registry without a registry": (
        "sources: {k: {type: kafka, brokers: 'h:1', topic: x, schema_registry_auth: 'a:b'}}",
        "sources.k.schema_registry_auth",
        "has no effect",
    ),
    "message without a file": (
        "sources: {k: {type: kafka, brokers: 'h:1', topic: x, message: shop.Order}}",
        "sources.k.message",
        "has no effect",
    ),
}


@pytest.mark.parametrize("case", CASES)
@follows("take it out", here=False)
def test_what_is_accepted_and_does_nothing_is_said(write: Write, case: str) -> None:
    text, path, says = CASES[case]
    base = "name: shop\n" if text.startswith("sources:") else BASE
    folder = write(base + text + "\n", LANDED)
    notes = not_runnable(load_project(folder))
    assert [note.where.path for note in notes if note.where] == [path]
    assert says in str(notes[0])
    checked = headwater("check", "--project", folder, "--json")
    assert (checked.code, [note["path"] for note in checked.json["notes"]]) == (0, [path])
    told = headwater("check", "--project", folder)
    assert says in told.out and "1 note" in told.err


def test_a_project_that_uses_what_works_has_no_notes(write: Write) -> None:
    text = "topics: {t: {from: landing, target_file_size: 64MB, partition_by: [event_date], trigger: 5m, "
    text += "z_order_by: [event_type], compact: {every: 6h}, retain: {versions: 30d}}}\n"
    text += "maintenance: {window: '01:00-05:00', max_parallel: 2}\n"
    text += "tables: {x: {keys: [id], schema: id bigint}}\n"
    assert json.loads(headwater("check", "--project", write(BASE + text, LANDED), "--json").out)["notes"] == []
