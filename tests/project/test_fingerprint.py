"""Definitions are told apart as lakes of earlier releases have noted it."""

from __future__ import annotations

from headwater.core.spec import Topic, View
from headwater.project.fingerprint import fingerprint


def test_a_new_release_tells_a_definition_apart_as_the_one_before() -> None:
    view = View(sql="SELECT 1")
    assert fingerprint(view) == "60ffd40ece88b6f9"
    assert fingerprint(Topic.model_validate({"from": "clicks"})) == "105d91f02ea404b1"


def test_what_changes_no_row_does_not_count() -> None:
    assert fingerprint(View(sql="SELECT 1", interop=("iceberg",))) == fingerprint(View(sql="SELECT 1"))
    assert fingerprint(View(sql="SELECT 2")) != fingerprint(View(sql="SELECT 1"))
