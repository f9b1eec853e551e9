"""Named plug-ins: ours by a line of code, third parties' by an entry point."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from headwater.core.errors import Code, UsageError, did_you_mean

T = TypeVar("T")


class Registry(Generic[T]):
    """Refuses a second plug-in of one name, and lists the choices when a name is unknown."""

    def __init__(self, what: str, group: str, unknown: Code) -> None:
        self._what = what
        self._group = group
        self._unknown = unknown
        self._items: dict[str, T] = {}
        self._discovered = False

    def add(self, name: str, item: T) -> None:
        if name in self._items:
            raise UsageError(Code.DUPLICATE_NAME, f"{self._what} '{name}' is registered twice")
        self._items[name] = item

    def get(self, name: str) -> T:
        self._discover()
        try:
            return self._items[name]
        except KeyError:
            raise UsageError(
                self._unknown, f"unknown {self._what} '{name}'", hint=did_you_mean(name, self._items)
            ) from None

    def names(self) -> list[str]:
        self._discover()
        return list(self._items)

    def __iter__(self) -> Iterator[T]:
        self._discover()
        return iter(self._items.values())

    def __contains__(self, name: str) -> bool:
        self._discover()
        return name in self._items

    def _discover(self) -> None:
        if self._discovered:
            return
        self._discovered = True
        for point in entry_points(group=self._group):
            self.add(point.name, point.load())
