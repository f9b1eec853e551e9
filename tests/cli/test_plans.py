"""What `plan` shows people: differences of texts, what lies downstream, what is still to be done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.cli.plans import plan_lines
from headwater.core.model import Kind
from tests.cli.screen import on_terminal
from tests.project.test_plan import MADE, PROJECT, Planning
from tests.support import headwater

SQL = """\
  per_day:
    sql: |
      SELECT date(at) AS day,
             count(*) AS n
      FROM topic('log')
      WHERE n > 1
      GROUP BY 1
  later: {sql: "SELECT max(n) AS most FROM mv('per_day')"}
"""


@pytest.fixture
def planning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planning:
    views = [(Kind.VIEW, "per_day"), (Kind.VIEW, "later")]
    monkeypatch.setattr("tests.project.test_plan.MADE", [*MADE, *views])
    return Planning(tmp_path, text=PROJECT + SQL)


def shown(planning: Planning, columns: int = 100) -> list[str]:
    found = headwater("plan", "--json", "--project", planning.root).json
    lines = on_terminal(lambda: print("\n".join(plan_lines(found))), columns).lines
    assert [line.rstrip() for line in headwater("plan", "--project", planning.root).out.splitlines()]
    return lines


def test_changed_sql_is_a_difference_of_its_lines(planning: Planning) -> None:
    planning.after("WHERE n > 1\n", "WHERE n > 2\n")
    lines = shown(planning)
    assert lines[0] == "rebuild  views.per_day"
    assert lines[1].startswith("  sql: its rows are rebuilt")
    at = lines.index("    --- views.per_day.sql in the lake")
    assert lines[at + 1] == "    +++ views.per_day.sql in the project"
    assert lines[at + 2].startswith("    @@ -1,5 +1,5 @@")
    assert "    -WHERE n > 1" in lines and "    +WHERE n > 2" in lines and "     FROM topic('log')" in lines
    assert "  reads topics.log" in lines
    assert "  downstream: views.later" in lines
    assert lines[-1] == "1 to rebuild"


def test_changed_options_are_a_difference_of_their_parts(planning: Planning) -> None:
    planning.after("{from: landing, p", "{options: {a: 1, b: two}, batch_size: 5, tags: [x, y], from: landing, p")
    lines = shown(planning)
    assert lines[0] == "change  topics.log"
    assert "  batch_size: 1000 → 5 (from the next step on; what is there stays as it is)" in lines
    assert '  tags: none → ["x", "y"] (nothing has to be done)' in lines
    assert "  downstream: tables.people, tables.seen, tables.totals, tables.sliced, views.per_day" in "\n".join(lines)


def test_a_difference_in_colour(planning: Planning) -> None:
    planning.after("count(*) AS k FROM", "count(*) AS k, " + ", ".join(f"sum(n) AS s{n}" for n in range(30)) + " FROM")
    found = headwater("plan", "--json", "--project", planning.root).json
    on = on_terminal(lambda: print("\n".join(plan_lines(found))), 80)
    assert "\x1b[31mrebuild\x1b[0m" in on.out and "\x1b[32m" in on.out
    assert "sum(n) AS s29 FROM" in on.out, "a change is shown whole"
    assert not on_terminal(lambda: print("\n".join(plan_lines(found))), 80, NO_COLOR="1").has_colour


@pytest.mark.parametrize("command", ["rebuild", "reset"])
def test_what_starts_over_with_the_next_run_is_in_the_plan(planning: Planning, command: str) -> None:
    done = headwater("flow", command, "totals", "--yes", "--project", planning.root)
    assert done.code == 0, done.err
    (one,) = headwater("plan", "--json", "--project", planning.root).json
    assert (one["relation"], one["action"], one["pending"]["epoch"]) == ("tables.totals", command, 2)
    assert one["needs_apply"] is False and one["applied_by"] is None
    lines = shown(planning)
    assert lines[0].split() == [command, "tables.totals"] and "epoch 2" in lines[1]
    found = planning.after("count(*) AS k", "count(n) AS k")["tables.totals"]
    assert found["pending"] == {"epoch": 2, "empty": command == "rebuild"} and found["action"] == "rebuild"


def test_programs_get_the_values_themselves(planning: Planning) -> None:
    planning.after("{from: landing, p", "{batch_size: 5, from: landing, p")
    (one,) = headwater("plan", "--json", "--project", planning.root).json
    (difference,) = one["differences"]
    assert (difference["key"], difference["before"], difference["after"]) == ("batch_size", 1000, 5)
    assert json.dumps(one["pending"]) == "null"
