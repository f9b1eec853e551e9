"""The order in which Spark joins: by what is known of the relations, not by how the query was written.

Spark joins in the order of the text. Its own cost-based optimizer knows statistics of catalog tables only, which the
lake's relations are not. So the order is chosen here and put into the text: the one with the fewest rows on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headwater.core.errors import HeadwaterError
from headwater.core.model import Kind
from headwater.core.spec.relations import Table
from headwater.query.duckdb.eligibility import Chosen
from headwater.query.duckdb.scans import DuckScan, PinnedRelation
from headwater.query.estimates import nulls, rows_left, share_left, values
from headwater.query.explanation import Joined, JoinOrder
from headwater.query.gathered import Fitted, Statistics
from headwater.query.statistics import RANGE
from headwater.sql.inner_joins import Chain, Link, chains
from headwater.sql.references import referring
from headwater.warehouse import Warehouse

MOST = 10
"""Relations of one join whose orders are compared: there are twice as many sets of them with each one more."""
GAIN = 0.8
"""Another order is taken where it is thought to have less than this share of the rows: estimates are what they are."""


def ordered(
    warehouse: Warehouse, query: exp.Query, scans: Iterable[DuckScan], statistics: Statistics
) -> tuple[exp.Query, tuple[JoinOrder, ...]]:
    """The query with its joins in a better order, where one is known; and what was decided of each."""
    known = {scan.place: scan for scan in scans}
    copied = query.copy()
    numbers = {id(table): number for number, (table, _) in enumerate(referring(copied))}

    def scan_of(table: exp.Table) -> DuckScan | None:
        number = numbers.get(id(table))
        return None if number is None else known.get(number)

    def columns(table: exp.Table) -> list[str] | None:
        scan = scan_of(table)
        return None if scan is None or scan.shown else list(scan.reading.schema.names)

    found: list[JoinOrder] = []
    moved = False
    for chain in list(chains(copied, columns)):
        order, told = _decided(warehouse, chain, [scan_of(table) for table in chain.tables], statistics)
        found.append(told)
        if order != tuple(range(len(chain.tables))):
            chain.put(order)
            moved = True
    return (copied if moved else query), tuple(found)


def _decided(
    warehouse: Warehouse, chain: Chain, scans: Sequence[DuckScan | None], statistics: Statistics
) -> tuple[tuple[int, ...], JoinOrder]:
    written = tuple(range(len(chain.tables)))
    if len(written) > MOST:
        return written, JoinOrder(chain.names, reason=f"more than {MOST} relations are joined as they are written")
    figures = []
    for name, scan in zip(chain.names, scans, strict=True):
        figure = None if scan is None else _figure(warehouse, name, scan, statistics)
        if figure is None:
            return written, JoinOrder(chain.names, reason=f"how many rows '{name}' has is not known without reading it")
        figures.append(figure)
    sizes = _Sizes(figures, chain.links)
    best, least = sizes.best()
    as_is = sizes.cost(sizes.as_spark_would(written))
    order = best if least < GAIN * as_is else written
    cost = least if order == best else as_is
    relations = tuple(figures[at].told() for at in order)
    return order, JoinOrder(chain.names, relations, round(cost), round(as_is))


@dataclass(frozen=True)
class _Figure:
    """What is known of one relation of a join."""

    name: str
    all: int
    left: int
    """Rows that the query's conditions are thought to leave."""
    scan: DuckScan
    key: str | None
    """The column that tells its rows apart."""
    gathered: Fitted | None
    """Statistics of its columns."""

    def values(self, column: str) -> int | None:
        return self.all if self.key == column.lower() else values(self.scan, column, self.gathered)

    def present(self, column: str) -> float:
        """The share of rows that an equality can hold for."""
        return 1 - nulls(self.scan, column, self.gathered)

    def told(self) -> Joined:
        return Joined(self.name, self.all, self.left, None if self.gathered is None else self.gathered.version)


def _figure(warehouse: Warehouse, name: str, scan: DuckScan, statistics: Statistics) -> _Figure | None:
    reading = scan.reading
    if reading.kind is None:
        return None
    gathered = statistics.of(reading)
    if reading.files is not None:
        every, left = reading.files.rows, rows_left(Chosen(scan, *scan.chosen()), gathered)
    else:
        every = None if gathered is not None and gathered.exact else _counted(warehouse, reading.kind, reading)
        if every is None and gathered is not None:
            every = gathered.rows
        gathered = statistics.of(reading, every)
        left = None if every is None else round(every * share_left(scan, gathered))
    if every is None or left is None:
        return None
    return _Figure(name, every, left, scan, _key(warehouse, reading.kind, reading.name), gathered)


def _counted(warehouse: Warehouse, kind: Kind, reading: PinnedRelation) -> int | None:
    """The rows of a relation whose files only Spark's side of its format knows."""
    try:
        table = warehouse.table(kind, reading.name)
        counts = [file.rows for file in table.files(reading.version)]
    except HeadwaterError:
        return None
    return None if None in counts else sum(count or 0 for count in counts)


def _key(warehouse: Warehouse, kind: Kind, name: str) -> str | None:
    try:
        definition = warehouse.definition(kind, name)
    except HeadwaterError:  # a relation that the project no longer has
        return None
    if not isinstance(definition, Table):
        return None
    keys = definition.keys
    if definition.apply is not None and definition.apply.history == "latest":
        keys = definition.apply.keys
    return keys[0].lower() if len(keys) == 1 else None


class _Sizes:
    """Rows of joins: those of the relations, times the share that each condition between them is thought to keep."""

    def __init__(self, figures: Sequence[_Figure], links: Sequence[Link]) -> None:
        self._rows = [max(1, figure.left) for figure in figures]
        self._links = _shares(figures, dict.fromkeys(links))

    def best(self) -> tuple[tuple[int, ...], float]:
        """The order with the fewest rows on the way, and how many those are; of several the first as written."""
        every = range(len(self._rows))
        found: dict[frozenset[int], tuple[float, tuple[int, ...]]] = {frozenset({at}): (0.0, (at,)) for at in every}
        reached = found
        for _ in every[1:]:
            longer: dict[frozenset[int], tuple[float, tuple[int, ...]]] = {}
            for some, (cost, order) in reached.items():
                for at in self._next(some, every):
                    more = some | {at}
                    candidate = (cost + self._size(more), (*order, at))
                    longer[more] = min(longer.get(more, candidate), candidate)
            reached = longer
        ((cost, order),) = reached.values()
        return order, cost

    def cost(self, order: Sequence[int]) -> float:
        """Rows of all joins of an order together."""
        return sum(self._size(frozenset(order[:upto])) for upto in range(2, len(order) + 1))

    def as_spark_would(self, written: Sequence[int]) -> tuple[int, ...]:
        """Spark goes by the text, but takes what is connected before what is not."""
        order = [written[0]]
        while len(order) < len(written):
            rest = [at for at in written if at not in order]
            connected = self._next(frozenset(order), rest)
            order.append(connected[0])
        return tuple(order)

    def _next(self, some: frozenset[int], every: Iterable[int]) -> list[int]:
        """What can be joined to some relations: by a condition, or, if there is none, anything."""
        rest = [at for at in every if at not in some]
        connected = [at for at in rest if any(at in of and of <= some | {at} for of, _ in self._links)]
        return connected or rest

    def _size(self, some: frozenset[int]) -> float:
        size = 1.0
        for at in some:
            size *= self._rows[at]
        for of, share in self._links:
            if of <= some:
                size *= share
        return max(1.0, size)


def _shares(figures: Sequence[_Figure], links: Iterable[Link]) -> list[tuple[frozenset[int], float]]:
    """Of each condition what it connects and the share of pairs that it keeps.

    Conditions between the same two relations keep no less than one pair for each row of the larger one, however many
    there are: columns of one key go together.
    """
    found: list[tuple[frozenset[int], float]] = []
    spent: dict[frozenset[int], float] = {}
    for link in links:
        share, present = RANGE, 1.0
        if link.equal is not None:
            sides = [(figures[at], figures[at].values(column)) for at, column in link.equal]
            counts = [count for _, count in sides if count is not None]
            share = 1 / max(1, max(counts) if counts else min(figure.all for figure, _ in sides))
            for at, column in link.equal:
                present *= figures[at].present(column)
        before = spent.get(link.of, 1.0)
        least = 1 / max(1, max(figures[at].all for at in link.of))
        spent[link.of] = max(least, before * share)
        found.append((link.of, present * spent[link.of] / before))
    return found
