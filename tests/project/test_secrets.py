"""Secrets never show: not in text, JSON, pickles or the messages about them."""

from __future__ import annotations

import copy
import pickle

import pytest

from headwater.core.secret import Secret
from headwater.core.spec import Topic
from headwater.project.load.loader import load_project
from headwater.sources.postgres.events.config import PostgresEventsSource
from tests.project.conftest import BASE, Find, Write

HIDDEN = "hunter2"


def test_only_reveal_gives_a_secret_away() -> None:
    secret = Secret(HIDDEN)
    assert secret.reveal() == HIDDEN
    for text in (str(secret), repr(secret), f"{secret}", f"{secret:>10}", repr([secret])):
        assert HIDDEN not in text
        assert "****" in text


def test_a_secret_is_not_pickled_and_says_why() -> None:
    with pytest.raises(TypeError, match="reveal"):
        pickle.dumps(Secret(HIDDEN))
    assert copy.deepcopy({"a": Secret(HIDDEN)}) == {"a": Secret(HIDDEN)}


def test_models_with_secrets_do_not_show_them() -> None:
    source = PostgresEventsSource(dsn=Secret(f"postgresql://u:{HIDDEN}@host/db"), table="events")
    for text in (str(source), repr(source), source.model_dump_json(), str(source.model_dump())):
        assert HIDDEN not in text
    assert source.dsn.reveal().endswith("@host/db")


def test_options_that_look_like_secrets_do_not_show() -> None:
    options = {"kafka.sasl.jaas.config": HIDDEN, "fs.s3a.secret.key": HIDDEN, "password": HIDDEN, "plain": "seen"}
    topic = Topic.model_validate({"from": "x", "options": options})
    assert HIDDEN not in repr(topic) + str(topic) + topic.model_dump_json()
    assert "seen" in repr(topic)
    assert topic.options == options


def test_a_project_does_not_show_its_secrets(write: Write) -> None:
    text = """
name: shop
state: ${STATE}
storage: {s3: {access_key: "${KEY}", secret_key: "${KEY}"}}
spark: {conf: {spark.hadoop.fs.s3a.secret.key: "${KEY}"}}
sources: {store: {type: postgres_events, dsn: "${DSN}", table: events}}
alerts: {ops: {webhook: "${HOOK}"}}
catalogs: {lake: {type: rest, uri: "http://localhost", token: "${KEY}"}}
"""
    env = {"STATE": f"postgresql://u:{HIDDEN}@h/d", "KEY": HIDDEN, "DSN": HIDDEN, "HOOK": f"https://h/{HIDDEN}"}
    project = load_project(write(text), env=env)
    assert HIDDEN not in repr(project) + str(project) + project.settings.model_dump_json()
    assert project.alerts["ops"].webhook == Secret(f"https://h/{HIDDEN}")


@pytest.mark.parametrize(
    "wrong",
    [
        "sources: {s: {type: postgres_events, dsn: [hunter2], table: t}}",
        "sources: {s: {type: postgres_events, dsn: {password: hunter2}, table: t}}",
        "sources: {s: {type: postgres_events, dsn: hunter2, table: 5}}",
        "sources: {s: {type: postgres_events, dns: hunter2, table: t}}",
        "sources: {s: {type: kafka, brokers: b, topic: t, security: {pasword: hunter2}}}",
        "sources: {s: {type: kafka, brokers: b, topic: t, start: '${SECRET}'}}",
        "sources: {s: {type: '${SECRET}', brokers: b}}",
        "sources: {s: {type: files, path: x, options: {password: [hunter2]}}}",
        "state: hunter2",
        "storage: {s3: {secret_key: 12, region: '${SECRET}', path_style: '${SECRET}'}}",
        "trigger: ${SECRET}",
        "runtime: {max_concurrent_refreshes: '${SECRET}'}",
        "format: ${SECRET}",
        "catalogs: {c: {type: jdbc, password: [hunter2]}}",
        "topics: {t: {from: '${SECRET}', flush_interval: '${SECRET}', target_file_size: '${SECRET}'}}",
    ],
)
def test_messages_about_wrong_values_do_not_show_secrets(find: Find, wrong: str) -> None:
    problems = find(f"name: shop\n{wrong}\n", env={"SECRET": HIDDEN})
    assert problems
    assert all(HIDDEN not in str(problem) for problem in problems)


def test_a_plain_wrong_value_is_shown(find: Find) -> None:
    problems = find(BASE + "runtime: {max_concurrent_refreshes: many}\n")
    assert "not 'many'" in str(problems[0])
