"""How often topics have been made: one that was deleted and made again has the same offsets for other records."""

from __future__ import annotations

import json
from collections.abc import Mapping

from headwater.core.errors import Code, IntegrityError
from headwater.core.storage import Files
from headwater.sources.kafka.offsets import KafkaPosition

KEPT = "topic_ids.json"
Numbers = dict[str, dict[str, int]]
"""Topic → its ids → the how-manieth topic of that name it is."""


class Generations:
    """Kept in the flow's folder, where a start over does not take it away: what was read before goes by it, too."""

    def __init__(self, lasting: Files) -> None:
        self._files = lasting
        self._known: Numbers | None = None

    def counted(self, known: KafkaPosition, ids: Mapping[str, str]) -> dict[str, int]:
        """How often each topic has been made, where that is more than once: those known, and as they are now."""
        numbers = self._with(known.ids, known.made)
        found = dict(known.made)
        for topic, id in ids.items():
            number = numbers.get(topic, {}).get(id) or max(numbers.get(topic, {}).values(), default=0) + 1
            if number > 1:
                found[topic] = number
        return found

    def keep(self, start: KafkaPosition, end: KafkaPosition) -> None:
        """The range between the two will be taken: what is new in it is written down."""
        numbers = self._with(start.ids, start.made)
        for topic, id in end.ids.items():
            numbers.setdefault(topic, {}).setdefault(id, end.made.get(topic, 1))
        if numbers != self._read():
            self._files.write_atomic(KEPT, json.dumps(numbers, sort_keys=True))
            self._known = numbers

    def _with(self, ids: Mapping[str, str], made: Mapping[str, int]) -> Numbers:
        """What is known, with what a position tells: a lake of an earlier version has nothing else."""
        numbers = {topic: dict(by_id) for topic, by_id in self._read().items()}
        for topic, id in ids.items():
            numbers.setdefault(topic, {}).setdefault(id, made.get(topic, 1))
        return numbers

    def _read(self) -> Numbers:
        if self._known is None:
            found = self._files.find(KEPT)
            try:
                self._known = {} if found is None else json.loads(found)
            except ValueError as error:
                message = f"the ids of topics in {self._files.join(KEPT)} can't be read: {error}"
                raise IntegrityError(Code.LEDGER_CORRUPT, message) from error
        assert self._known is not None
        return self._known
