"""Where a lake keeps what could hold a value: its warehouse, the project's own folder, and relations elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.core.storage import Files
from headwater.formats.base import Address
from headwater.formats.feed_folders import feed_folder
from headwater.ingest.dead_letter_list import PATH as LETTERS
from headwater.ingest.forgotten import FOLDER
from headwater.operations.erasure.condition import ErasureCondition
from headwater.operations.erasure.search import Holding, Searched, ValueSearch
from headwater.project.graph import Name
from headwater.warehouse import Warehouse


def search_lake(warehouse: Warehouse, condition: ErasureCondition) -> Searched:
    """Every file under the warehouse, under `.headwater/`, and of relations that lie elsewhere."""
    storage = dict(warehouse.context.storage)
    whole = Searched()
    search = ValueSearch(condition)
    try:
        for root in _roots(warehouse):
            found = search.through(Files(root, storage))
            whole.files += found.files
            whole.bytes += found.bytes
            whole.holding += found.holding
            whole.undecoded += found.undecoded
            whole.paths |= found.paths
    finally:
        search.close()
    return whole


def _roots(warehouse: Warehouse) -> list[str]:
    """No root lies in another one, so that no file is looked at twice."""
    wanted = [warehouse.context.warehouse, str(warehouse.project.home)]
    wanted += [record.path for record in warehouse.state.relations() if record.path is not None]
    plain = sorted({_plain(one) for one in wanted}, key=len)
    return [one for n, one in enumerate(plain) if not any(one.startswith(f"{other}/") for other in plain[:n])]


def is_of_conditions(holding: Holding) -> bool:
    """Whether it is the list of forgotten conditions itself."""
    return f"/{FOLDER}/" in holding.path


def is_of_letters(path: str) -> bool:
    return f"/{LETTERS}/" in path


def notes_folder(warehouse: Warehouse, flow: str) -> str:
    """Where a flow keeps its notes, with the inbox of a topic that takes rows."""
    return f"{_plain(warehouse.files.join('_headwater/flows', flow))}/"


def lies_in(warehouse: Warehouse, name: Name, path: str) -> bool:
    """Whether a file is one of a relation's."""
    return any(part in f"{_plain(path)}/" for part in _folders(warehouse, name))


def lies_in_feeds(warehouse: Warehouse, name: Name, path: str) -> bool:
    """Whether it is one that a stream is fed from with a relation's rows."""
    folder = feed_folder(warehouse.address(name.kind, name.name), warehouse.context)
    return path.startswith(f"{_plain(warehouse.files.join(folder))}/")


def held_by(warehouse: Warehouse, names: Iterable[Name], found: Searched) -> dict[Name, list[Holding]]:
    """What was found, by the relation that it lies in."""
    held: dict[Name, list[Holding]] = {}
    for name in names:
        mine = [one for one in found.holding if lies_in(warehouse, name, one.path)]
        if mine:
            held[name] = mine
    return held


def drop_empty_folders(warehouse: Warehouse, name: Name) -> None:
    """Folders of partitions that have no file any more: their names hold values."""
    address = warehouse.address(name.kind, name.name)
    root = address.path or (warehouse.context.warehouse if warehouse.files.is_local else None)
    if root is None:
        return
    files = Files(root, dict(warehouse.context.storage))
    entries = [one for one in files.list(recursive=True) if lies_in(warehouse, name, files.join(one.path))]
    full = {parent for one in entries if not one.is_folder for parent in _above(one.path)}
    for one in entries:
        if one.is_folder and "=" in one.name and one.path not in full:
            files.delete(one.path)


def _above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _folders(warehouse: Warehouse, name: Name) -> list[str]:
    address: Address = warehouse.address(name.kind, name.name)
    if address.path is not None:
        return [f"{_plain(address.path)}/"]
    table = (address.table or name.name).rpartition(".")[2]
    return [f"/{name.kind.plural}{ending}/{table}/" for ending in ("", ".db")]


def _plain(path: str) -> str:
    text = path.removeprefix("file:")
    return (f"/{text.lstrip('/')}" if path.startswith("file:") else text).rstrip("/")
