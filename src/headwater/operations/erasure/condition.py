"""The condition of `forget`: what it names, which values it looks for, and how it is kept without them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property

from pyspark.sql.types import IntegralType, StringType, StructType
from sqlglot import exp

from headwater.core.errors import Code, UsageError
from headwater.ingest.forgotten import ForgottenCondition, digest_of
from headwater.sql.nondeterminism import non_deterministic
from headwater.sql.places import InvalidSql, span_of
from headwater.sql.references import parse_condition

MOST_CLAUSES = 1000
"""Combinations of values that are looked for."""


@dataclass(frozen=True)
class ForgottenValue:
    """A value that a column is compared with. A text is looked for wherever it stands as a word of its own; any other
    value only next to the name of its column."""

    column: str
    text: str
    is_text: bool


Clause = frozenset[ForgottenValue]
"""Values that a record has together."""


@dataclass(frozen=True)
class ErasureCondition:
    """A condition that has been parsed."""

    text: str

    @cached_property
    def parsed(self) -> exp.Expr:
        found = parse_condition(self.text)
        wrong = next(found.find_all(exp.Query, exp.AggFunc, exp.Window), None)
        if wrong is not None:
            raise InvalidSql("a condition looks at one row", text=self.text, span=span_of(wrong))
        changing = next(non_deterministic(found), None)
        if changing is not None:
            raise InvalidSql(
                f"a condition names the same rows each time: {changing.why}",
                text=self.text,
                span=changing.span(self.text),
                hint="write the value itself",
            )
        if next(found.find_all(exp.Column), None) is None:
            raise UsageError(
                Code.USAGE,
                f"the condition {self.text} names no column",
                hint="compare a column with what is to be forgotten",
            )
        return found

    @property
    def sql(self) -> str:
        """As Spark takes it."""
        return self.parsed.sql(dialect="spark")

    @property
    def duckdb(self) -> str:
        return self.parsed.sql(dialect="duckdb")

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table that it names."""
        return tuple(dict.fromkeys(one.parts[0].name for one in self.parsed.find_all(exp.Column)))

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """What records that meet it have: all values of one of these. An empty clause says nothing."""
        found = tuple(dict.fromkeys(_clauses(self.parsed)))
        if len(found) > MOST_CLAUSES:
            raise UsageError(
                Code.USAGE,
                f"the condition has {len(found)} combinations of values, and {MOST_CLAUSES} can be looked for",
                hint="give the command more than once, each time with fewer",
            )
        return found

    @property
    def has_values(self) -> bool:
        """Whether records that meet it can be told by values alone."""
        return all(self.clauses)

    def kept(self, schema: StructType) -> ForgottenCondition:
        """How ingest is told of it: values as digests, where Spark compares texts or whole numbers."""
        return self._with_salt(schema, uuid.uuid4().hex)

    def continues(self, schema: StructType, known: Sequence[ForgottenCondition]) -> ForgottenCondition | None:
        """The known one that is this one, if there is one."""
        return next((one for one in known if self._with_salt(schema, one.salt).is_same(one.condition)), None)

    def _with_salt(self, schema: StructType, salt: str) -> ForgottenCondition:
        digested = _Digested(schema, salt)
        tree = self.parsed.copy().transform(digested.replaced)
        legible = next(tree.find_all(exp.Literal), None) is not None
        text = digested.filled(tree.sql(dialect="spark"))
        is_any = all(len(one) == 1 for one in self.clauses)
        fields = [f for f in schema.fields if f.name.lower() in {name.lower() for name in self.columns}]
        return ForgottenCondition(
            id=uuid.uuid5(uuid.NAMESPACE_OID, text).hex[:12],
            condition=text,
            salt=salt,
            digests=tuple(sorted(digested.digests)) if not legible and is_any else (),
            columns=json.dumps(StructType(fields).jsonValue()),
            legible=legible,
            begun_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )


class _Digested:
    """Makes comparisons with values comparisons with digests, which stand under names until the text is made."""

    def __init__(self, schema: StructType, salt: str) -> None:
        self._types = {f.name.lower(): f.dataType for f in schema.fields}
        self._salt = salt
        self._made: dict[str, str] = {}
        self.digests: set[str] = set()

    def replaced(self, node: exp.Expr) -> exp.Expr:
        compared = _compared(node)
        if compared is None:
            return node
        column, values = compared
        kinds = {value.is_text for value in values}
        type_ = self._types.get(column.name.lower()) if len(column.parts) == 1 else None
        if type_ is None or len(kinds) > 1 or not isinstance(type_, StringType if True in kinds else IntegralType):
            return node
        made = [digest_of(self._salt, value.text) for value in values]
        if True in kinds:
            self.digests.update(made)
        named = column.sql(dialect="spark")
        text = named if True in kinds else f"CAST({named} AS STRING)"
        place = f"__digest_{len(self._made)}"
        listed = ", ".join(f"'{one}'" for one in made)
        self._made[place] = f"sha2(concat('{self._salt}', {text}), 256) IN ({listed})"
        return exp.column(place)

    def filled(self, text: str) -> str:
        for place, made in self._made.items():
            text = text.replace(place, made)
        return text


def _compared(node: exp.Expr) -> tuple[exp.Column | exp.Dot, list[ForgottenValue]] | None:
    """A column and the values that it is compared with by `=` or IN."""
    if isinstance(node, exp.EQ):
        sides = (node.left, node.right)
        column = next((one for one in sides if isinstance(one, (exp.Column, exp.Dot))), None)
        others = [one for one in sides if one is not column]
    elif isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
        column, others = node.this, list(node.expressions)
    else:
        return None
    name = column.name if isinstance(column, (exp.Column, exp.Dot)) else None
    values = [value for one in others if (value := _value(name or "", one)) is not None]
    if name is None or len(values) != len(others) or not isinstance(column, (exp.Column, exp.Dot)):
        return None
    return column, values


def _value(column: str, node: exp.Expr) -> ForgottenValue | None:
    if isinstance(node, exp.Literal):
        return ForgottenValue(column, node.this, node.is_string) if node.this else None
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        return ForgottenValue(column, f"-{node.this.this}", False)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        return ForgottenValue(column, node.this.this, False)
    return None


def _clauses(node: exp.Expr) -> list[Clause]:
    if isinstance(node, exp.Paren):
        return _clauses(node.this)
    if isinstance(node, exp.Or):
        return [*_clauses(node.left), *_clauses(node.right)]
    if isinstance(node, exp.And):
        right = _clauses(node.right)
        return [one | other for one in _clauses(node.left) for other in right]
    compared = _compared(node)
    return [frozenset()] if compared is None else [frozenset({value}) for value in compared[1]]
