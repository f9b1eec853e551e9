"""Headwater's SQL: Spark's dialect as sqlglot has it, and the statements that a lake has besides."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.spark import Spark

from headwater.core.model import Kind
from headwater.sql.bounds import require_bounded
from headwater.sql.names import DATABASES, FUNCTIONS, SYSTEM, Reference
from headwater.sql.options import Option, export_options, view_options
from headwater.sql.places import InvalidSql, Span
from headwater.sql.statements import (
    CreateView,
    Describe,
    DropView,
    Explain,
    ExplainView,
    ExportStatement,
    Insert,
    RefreshView,
    Select,
    SetOption,
    Show,
    Statement,
)

SHOWN = {"TOPICS": Kind.TOPIC, "TABLES": Kind.TABLE, "VIEWS": Kind.VIEW, "EXPORTS": "exports", "SYSTEM": "system"}


class Stated(exp.Expression):
    """A statement of ours in sqlglot's tree."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Headwater(Spark):
    """What `parse_query`, `parse_condition` and `parse_statement` read."""

    class Tokenizer(Spark.Tokenizer):
        # The rest of such a statement would be one opaque text.
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind for word, kind in Spark.Tokenizer.KEYWORDS.items() if word != "EXPLAIN"
        }
        COMMANDS: ClassVar[set[TokenType]] = Spark.Tokenizer.COMMANDS - {TokenType.SHOW}

        def tokenize(self, sql: str) -> list[Token]:
            """`window` is a keyword only in `WINDOW name AS (…)`; else it is Spark's function, or its column."""
            tokens: list[Token] = super().tokenize(sql)
            for at, token in enumerate(tokens):
                if token.token_type is TokenType.WINDOW:
                    after = tokens[at + 2].token_type if at + 2 < len(tokens) else None
                    if after is not TokenType.ALIAS:
                        token.token_type = TokenType.VAR
            return tokens

    class Generator(Spark.Generator):  # type: ignore[misc, valid-type]
        # Spark knows WITH inside of a query; moved to its top, its names would be seen where others are meant.
        EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()
        # Spark has percentile_cont(…) WITHIN GROUP (ORDER BY …); percentile_approx in its place gives other rows.
        TRANSFORMS: ClassVar[dict[type[exp.Expr], Any]] = {
            kind: rule for kind, rule in Spark.Generator.TRANSFORMS.items() if kind is not exp.WithinGroup
        }

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        def _parse_table_hints(self) -> list[exp.Expr] | None:
            """Spark has none behind a table; `WITH (` there begins a statement's options."""
            return None

        def _parse_statement(self) -> exp.Expr | None:
            start = self._index
            statement = self._stated()
            if statement is None:
                self._retreat(start)
                parsed: exp.Expr | None = super()._parse_statement()
                return parsed
            if self._curr:
                self._refuse("the statement should end here")
            return Stated(this=statement)

        def _stated(self) -> Statement | None:
            """The statement of ours that begins here, if one does."""
            if self._words("CREATE"):
                return self._create_view()
            if self._words("REFRESH", "MATERIALIZED", "VIEW"):
                view = self._view()
                return RefreshView(view, full=self._words("FULL"))
            if self._words("DROP", "MATERIALIZED", "VIEW"):
                if_exists = self._words("IF", "EXISTS")
                return DropView(self._view(), if_exists)
            if self._words("EXPLAIN") and self._curr:
                return self._explain()
            if self._words("EXPORT"):
                return self._export()
            if self._words("SHOW"):
                return self._show()
            if self._words("DESCRIBE") or self._words("DESC"):
                return self._describe()
            if self._words("INSERT", "INTO"):
                return self._insert()
            if self._words("SET"):
                return self._set()
            return None

        # --- statements, each from behind its first words

        def _create_view(self) -> CreateView | None:
            replace = self._words("OR", "REPLACE")
            if not self._words("MATERIALIZED", "VIEW"):
                return None
            if_not_exists = self._words("IF", "NOT", "EXISTS")
            view = self._view()
            partitions, options = self._clauses()
            if not self._match(TokenType.ALIAS):
                self._refuse("a view is made AS a query")
            select = self._select()
            more_partitions, more_options = self._clauses()
            if (partitions and more_partitions) or (options and more_options):
                self._refuse("PARTITIONED BY and WITH stand before AS or behind the query, once")
            partitions, options = partitions or more_partitions, options or more_options
            refresh_options = view_options(options, self.sql)
            return CreateView(
                view.name,
                select,
                refresh_options.refresh,
                replace,
                if_not_exists,
                refresh_options.format,
                tuple(partitions) or refresh_options.partition_by,
            )

        def _explain(self) -> Explain | ExplainView:
            analyze = self._words("ANALYZE")
            if not analyze and self._words("MATERIALIZED", "VIEW"):
                return ExplainView(self._view())
            here = self._index
            if not analyze and self._words("CREATE"):
                made = self._create_view()
                if made is not None:
                    return Explain(made)
                self._retreat(here)
            if not analyze and self._words("EXPORT"):
                return Explain(self._export())
            return Explain(self._select(), analyze)

        def _export(self) -> ExportStatement:
            what = self._relation()
            if not self._words("TO"):
                self._refuse("an export goes TO a format and a place")
            format = self._curr
            if not self._match_set(self.ID_VAR_TOKENS):
                self._refuse("here stands the format of the copy: ICEBERG, DELTA, HUDI, PAIMON or PARQUET")
            place = self._curr
            if not self._match(TokenType.STRING):
                self._refuse("here stands where the copy goes, in quotes")
            partitions, options = self._clauses()
            places = {"format": _span(format), "destination": _span(place)}
            places |= {option.name: option.span for option in options}
            chosen = export_options(options, self.sql)
            return ExportStatement(what, format.text.lower(), place.text, tuple(partitions), chosen, places)

        def _show(self) -> Show:
            materialized = self._words("MATERIALIZED")
            word = self._curr.text.upper() if self._curr else ""
            if word not in SHOWN or (materialized and word != "VIEWS"):
                self._refuse("SHOW takes TOPICS, TABLES, VIEWS, EXPORTS or SYSTEM TABLES")
            self._advance()
            if word == "SYSTEM":
                self._words("TABLES")
            return Show(SHOWN[word])  # type: ignore[arg-type]

        def _describe(self) -> Describe:
            history = self._words("HISTORY")
            for words in (("TABLE",), ("TOPIC",), ("VIEW",), ("MATERIALIZED", "VIEW")):
                here = self._index
                if self._words(*words):
                    if self._curr and self._curr.token_type not in (TokenType.L_PAREN, TokenType.DOT):
                        kind = {"TABLE": Kind.TABLE, "TOPIC": Kind.TOPIC}.get(words[0], Kind.VIEW)
                        return Describe(self._relation(kind), history)
                    self._retreat(here)
            return Describe(self._relation(), history)

        def _insert(self) -> Insert:
            here = self._index
            if self._match(TokenType.TABLE) and self._curr and self._curr.token_type is TokenType.L_PAREN:
                self._retreat(here)
            table = self._relation(Kind.TABLE)
            columns: tuple[str, ...] = ()
            follows = self._next.token_type if self._next else None
            if self._match(TokenType.L_PAREN, advance=False) and follows not in (TokenType.SELECT, TokenType.WITH):
                columns = tuple(one.name for one in self._parse_wrapped_id_vars())
            return Insert(table, self._select(), columns)

        def _set(self) -> SetOption:
            start = self._curr
            if not start:
                return SetOption()
            name = [self._word()]
            while self._match(TokenType.DOT):
                name.append(self._word())
            dotted, span = ".".join(name).lower(), (start.start, self._prev.end)
            if not self._curr:
                return SetOption(dotted, None, span)
            if not self._match(TokenType.EQ):
                self._refuse("SET takes a name, = and a value")
            if not self._curr:
                self._refuse("here stands the value")
            self._advance()
            return SetOption(dotted, self._prev.text, span)

        # --- their parts

        def _view(self) -> Reference:
            name = self._relation(Kind.VIEW)
            if name.kind is not Kind.VIEW:
                raise InvalidSql(f"{name} is not a view", text=self.sql, span=name.span)
            return name

        def _relation(self, kind: Kind | None = None) -> Reference:
            """`topic('x')`, `topics.x` or a bare `x`, which is of the given kind."""
            first = self._curr
            if not first or first.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.L_PAREN):
                self._refuse("here stands the name of a topic, table or view")
            called = FUNCTIONS.get(first.text.lower()) if self._next.token_type is TokenType.L_PAREN else None
            if called is not None:
                self._advance(2)
                name = self._curr
                if not (self._match(TokenType.STRING) and self._match(TokenType.R_PAREN)):
                    self._refuse(f"{first.text.lower()}() takes one name in quotes")
                return Reference(name.text, called, line=name.line, span=(first.start, self._prev.end))
            name_, last = self._word(), self._prev
            if not self._match(TokenType.DOT):
                return Reference(name_, kind, line=first.line, span=(first.start, last.end))
            inner, last = self._word(), self._prev
            if name_.lower() == SYSTEM:
                return Reference(inner, system=True, line=first.line, span=(first.start, last.end))
            if name_ not in DATABASES:
                raise InvalidSql(
                    f"'{name_}.{inner}' is not in this lake",
                    text=self.sql,
                    span=(first.start, last.end),
                    hint="write topics.x, tables.x or views.x",
                )
            return Reference(inner, DATABASES[name_], line=first.line, span=(first.start, last.end))

        def _select(self) -> Select:
            first = self._curr
            if not first:
                self._refuse("here stands a query")
            query = as_query(self._parse_statement_of_sqlglot())
            if query is None:
                raise InvalidSql("this should be a query", text=self.sql, span=(first.start, self._prev.end))
            return Select(self._find_sql(first, self._prev), query)

        def _parse_statement_of_sqlglot(self) -> exp.Expr | None:
            parsed: exp.Expr | None = super()._parse_statement()
            return parsed

        def _clauses(self) -> tuple[list[str], list[Option]]:
            """`PARTITIONED BY (…)` and `WITH (…)`, in this order or the other."""
            partitions: list[str] = []
            options: list[Option] = []
            while True:
                if not partitions and self._words("PARTITIONED BY"):
                    partitions = self._parse_wrapped_csv(self._text)
                elif not options and self._match_pair(TokenType.WITH, TokenType.L_PAREN):
                    options = self._parse_csv(self._option)
                    if not self._match(TokenType.R_PAREN):
                        self._refuse("the options end with )")
                else:
                    return partitions, options

        def _text(self) -> str:
            """An expression as it is written."""
            first = self._curr
            if self._parse_bitwise() is None:
                self._refuse("here stands a column or an expression")
            return str(self._find_sql(first, self._prev))

        def _option(self) -> Option:
            first = self._curr
            name = self._word().lower()
            named = (first.start, self._prev.end)
            if not self._match(TokenType.EQ):
                self._refuse(f"an option has a value: {name} = '…'")
            value = self._curr
            if not value or value.token_type in (TokenType.COMMA, TokenType.R_PAREN):
                self._refuse("here stands the option's value")
            self._advance()
            return Option(name, value.text, named, _span(value))

        def _word(self) -> str:
            """A name, which may be one of SQL's own words."""
            token = self._curr
            if not token or not (token.token_type is TokenType.IDENTIFIER or token.text.replace("_", "a").isalnum()):
                self._refuse("here stands a name")
            self._advance()
            return str(token.text)

        def _words(self, *words: str) -> bool:
            return bool(self._match_text_seq(*words))

        def _refuse(self, message: str) -> Any:
            """Point at the token that is not what should stand here."""
            token = self._curr or self._prev
            span = (token.start, token.end) if self._curr else (token.end + 1, token.end + 1)
            raise InvalidSql(message, text=self.sql, span=span)


def as_query(parsed: exp.Expr | None) -> exp.Query | None:
    """What can be asked like a SELECT, as one; None for anything else."""
    if isinstance(parsed, exp.Values):
        return exp.select("*").from_(parsed)
    if isinstance(parsed, exp.Select) and not parsed.expressions:
        raise InvalidSql("a SELECT without columns")
    if not isinstance(parsed, exp.Query):
        return None
    require_bounded(parsed)
    return parsed


def _span(token: Token) -> Span:
    return token.start, token.end
