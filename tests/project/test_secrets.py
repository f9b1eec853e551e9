"""Secrets never show: not in text, JSON, pickles or the messages about them."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from headwater.core.errors import Code, HeadwaterError, Where
from headwater.core.secret import Secret, address_without_login, has_bare_sign, hidden
from headwater.core.spec import Topic
from headwater.core.state import State
from headwater.project.load.loader import load_project
from headwater.sources.postgres.connection import connect, server_name
from headwater.sources.postgres.events.config import PostgresEventsSource
from tests.hints.followed import follows
from tests.project.conftest import BASE, Find, Write, places

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


QUERY = "?password=hunter2q&sslpassword=hunter2s&application_name=me"
AWAY = "postgresql://u:hunter2p@127.0.0.1:1/x"


def test_a_state_database_that_is_away_is_named_without_its_passwords(tmp_path: Path) -> None:
    with pytest.raises(HeadwaterError) as raised:
        State.of(Secret(AWAY + QUERY), tmp_path)
    shown = str(raised.value)
    assert HIDDEN not in shown, shown
    assert "postgresql://****@127.0.0.1:1/x?password=****&sslpassword=****&application_name=me" in shown


def test_a_source_that_is_away_is_named_without_its_passwords() -> None:
    with pytest.raises(HeadwaterError) as raised:
        connect(Secret(AWAY + QUERY), where=Where("x"))
    assert HIDDEN not in str(raised.value) and "127.0.0.1" in str(raised.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://u:p@h/d?sslmode=require", "postgresql://****@h/d?sslmode=require"),
        ("kafka://a:b@h:9092/t", "kafka://****@h:9092/t"),
        ("https://h/hook?token=hunter2", "https://h/hook?token=****"),
        ("postgresql://h/d?pass%77ord=hunter2", "postgresql://h/d?pass%77ord=****"),
        ("jdbc:sqlserver://h;user=me;password=hunter2", "jdbc:sqlserver://h;user=me;password=****"),
        ("s3://bucket/a", "s3://bucket/a"),
    ],
)
def test_an_address_is_shown_without_what_is_secret(address: str, shown: str) -> None:
    assert address_without_login(address) == shown


def test_what_a_driver_says_is_shown_without_what_is_secret() -> None:
    address = Secret("jdbc:x://h/d?user=me&password=hunter2%40q")
    assert hidden("no login as me with hunter2@q, hunter2%40q", address) == "no login as me with ****, ****"


@pytest.mark.parametrize(
    ("address", "bare"),
    [
        ("postgresql://u:hunter2@ss@h:1/d", True),
        ("postgresql://u:hunter2/ss@h:1/d", True),
        ("postgresql://u:12/ss@h:1/d", True),
        ("postgresql://u:hunter2?ss@h:1/d", True),
        ("postgresql://u:hunter2#ss@h:1/d", True),
        ("postgresql://u:hunter2%40ss@h:1/d", False),
        ("postgresql://u:p@h1:1,h2:2/d?user=me@azure", False),
        ("postgresql://h1:1,[::1]:2,h3/d?user=me@azure", False),
        ("postgresql:///d?host=/run&user=me@azure", False),
        ("host=h password=a@b", False),
        ("host=h password=a://b@c@d", False),
    ],
)
def test_a_password_that_would_be_cut_is_seen(address: str, bare: bool) -> None:
    assert has_bare_sign(address) is bare


@follows("write @ as %40, / as %2F, ? as %3F and # as %23 in the password")
def test_a_password_that_would_be_cut_is_refused_where_it_stands(find: Find, tmp_path: Path) -> None:
    dsn = "postgresql://u:hunter2@ss@127.0.0.1:1/db"
    text = "name: x\nstate: {0}\nsources:\n  s: {{type: postgres_events, dsn: '{0}', table: t}}\n"
    problems = find(text.format(dsn))
    assert places(problems) == [
        ("INVALID_VALUE", "headwater.yml:2 state"),
        ("INVALID_VALUE", "headwater.yml:4 sources.s.dsn"),
    ]
    for problem in problems:
        assert "%40" in str(problem.hint) and "ss@" not in str(problem) and HIDDEN not in str(problem)
    for reach in (lambda: server_name(Secret(dsn), where=Where("x")), lambda: State.of(Secret(dsn), tmp_path)):
        with pytest.raises(HeadwaterError) as raised:
            reach()
        assert raised.value.code is Code.INVALID_VALUE and "ss@" not in str(raised.value)
    assert find(text.format(dsn.replace("@ss", "%40ss"))) == []
