"""What a topic was told to forget: conditions that ingest applies, so that no source brings the rows back.

`_headwater/forgotten/<topic>.json`, in the lake next to the ledger: a state database that is lost takes none away. A
value that a condition compares a column with is kept as a digest with a salt of its own, where that can be done.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.core.errors import Code, IntegrityError
from headwater.core.record import Record
from headwater.core.storage import Files

FOLDER = "_headwater/forgotten"
_BOX, _HIT, _PARSED = "_letter", "_forgotten", "_parsed"
_BETWEEN_WORDS = r"(?U)[^\w@.+-]+"


@dataclass(frozen=True)
class ForgottenCondition(Record):
    """One condition whose rows are not ingested any more."""

    id: str
    condition: str
    """As it is applied: Spark SQL, with digests in the place of values."""
    salt: str
    digests: tuple[str, ...]
    """Of the values that alone make a row one to forget."""
    columns: str
    """The columns that it names, as Spark writes a schema in JSON."""
    legible: bool
    """Some of its values are in it as they are."""
    begun_at: str
    done_at: str | None = None

    def is_same(self, condition: str) -> bool:
        """Whether it is this condition, written with the same salt."""
        return self.condition == condition


class ForgottenRows:
    """The conditions of one topic."""

    def __init__(self, files: Files, topic: str) -> None:
        self._files = files
        self._path = f"{FOLDER}/{topic}.json"

    def all(self) -> tuple[ForgottenCondition, ...]:
        """In the order in which they were given."""
        content = self._files.find(self._path)
        if content is None:
            return ()
        try:
            entries = json.loads(content)
            return tuple(ForgottenCondition(**{**one, "digests": tuple(one["digests"])}) for one in entries)
        except (ValueError, KeyError, TypeError) as error:
            message = f"the forgotten conditions {self._files.join(self._path)} can't be read: {error}"
            hint = "put the file back from a copy: without it rows that were forgotten would come again"
            raise IntegrityError(Code.LEDGER_CORRUPT, message, hint=hint) from error

    def put(self, condition: ForgottenCondition) -> None:
        """Write a condition down, in the place of the one with its id."""
        others = [one for one in self.all() if one.id != condition.id]
        self._files.write_atomic(self._path, json.dumps([asdict(one) for one in [*others, condition]], indent=2))

    def done(self, condition: ForgottenCondition) -> ForgottenCondition:
        """Nothing of it is left."""
        over = replace(condition, done_at=datetime.now(timezone.utc).isoformat(timespec="seconds"))
        self.put(over)
        return over


def digest_of(salt: str, value: str) -> str:
    """What stands for a value; Spark's `sha2(concat(salt, value), 256)` is the same."""
    return hashlib.sha256(f"{salt}{value}".encode()).hexdigest()


def without_rows(rows: DataFrame, conditions: Sequence[ForgottenCondition], spared: Column) -> DataFrame:
    """Rows but those to forget; the `spared` stay whatever they hold."""
    for each in conditions:
        hit = F.expr(each.condition)
        try:
            rows.select(hit)
        except AnalysisException:
            continue  # these rows have not even the columns
        rows = rows.where(spared | ~F.coalesce(hit, F.lit(False)))
    return rows


def without_letters(letters: DataFrame, conditions: Sequence[ForgottenCondition]) -> DataFrame:
    """Dead letters but those to forget."""
    if not conditions:
        return letters
    names = letters.columns
    marked = _marked(letters, conditions)
    return marked.where(~F.col(_HIT)).select(*(F.col(f"{_BOX}.{name}").alias(name) for name in names))


def forgotten_letters(letters: DataFrame, conditions: Sequence[ForgottenCondition]) -> DataFrame:
    """The ids of the dead letters to forget."""
    return _marked(letters, conditions).where(F.col(_HIT)).select(F.col(f"{_BOX}.id").alias("id"))


def _marked(letters: DataFrame, conditions: Sequence[ForgottenCondition]) -> DataFrame:
    """Letters in a box with a mark. Their bytes are read as JSON, as far as they are that: an event that could not be
    ingested often is not. So a value that alone is enough is also looked for among the words of bytes and message."""
    df = letters.select(F.struct("*").alias(_BOX), F.lit(False).alias(_HIT))
    text = F.col(f"{_BOX}.raw").cast("string")
    for each in conditions:
        schema = StructType.fromJson(json.loads(each.columns))
        df = df.select(_BOX, _HIT, F.from_json(text, schema).alias(_PARSED)).select(_BOX, _HIT, f"{_PARSED}.*")
        hit = F.coalesce(F.expr(each.condition), F.lit(False))
        if each.digests:
            hit = hit | _names(text, each) | _names(F.col(f"{_BOX}.message"), each)
        df = df.select(_BOX, (F.col(_HIT) | hit).alias(_HIT))
    return df


def _names(text: Column, condition: ForgottenCondition) -> Column:
    """Whether a word of a text is one of the values."""
    words = F.split(F.coalesce(text, F.lit("")), _BETWEEN_WORDS)
    salted = F.transform(words, lambda word: F.sha2(F.concat(F.lit(condition.salt), word), 256))
    return F.arrays_overlap(salted, F.array(*map(F.lit, condition.digests)))
